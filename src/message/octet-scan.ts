// Looks at the octets of a text once, four at a time, for everything that decides how it is encoded (RFC 2045 §6) and
// made canonical (RFC 6376 §3.4.4). Six patterns over a body of 100 KB take ten times as long.

/** An octet that is not printable ASCII, tab, CR or LF. */
export const WIDE = 1
/** A CR without LF, or an LF without CR. */
export const BARE = 2
/** White space before a line end, or at the end of the text. */
export const TRAILING = 4
/** A tab, or two spaces after each other. */
export const RUNS = 8

const [TAB, LF, CR, SPACE, DELETE] = [9, 10, 13, 32, 127]
/** The highest bit of each of four octets. */
const HIGH = 0x80808080 | 0
const NO_WORDS = new Int32Array(0)

/**
 * What is found in octets, as a sum of the values above. Ends early at the first octet that is WIDE: then the others
 * may be missing.
 */
export function scan(octets: Uint8Array): number {
  const { byteOffset, length } = octets
  // Words begin at multiples of four in the memory. A text that ends before the first of them has none.
  const first = Math.min((4 - (byteOffset % 4)) % 4, length)
  let found = look(octets, 0, first)
  const words = first === length ? NO_WORDS : new Int32Array(octets.buffer, byteOffset + first, (length - first) >> 2)
  // The flag of the last octet of the word before: it was a space.
  let before = first > 0 && octets[first - 1] === SPACE ? 0x80 : 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!
    const x = word ^ 0x20202020
    // A flag for each octet that is a space; the octet behind a space may get a wrong one, which `look` finds out.
    const spaces = (x - 0x01010101) & ~x & HIGH
    const control = (word - 0x20202020) & ~word
    // Octets above 126, controls, and spaces beside each other.
    const odd = (word | (word + 0x01010101) | control) & HIGH
    if ((odd | (spaces & (spaces << 8)) | (spaces & before)) !== 0) {
      const start = first + at * 4
      found |= look(octets, start, start + 4)
      if ((found & WIDE) !== 0) return found
    }
    before = (spaces >>> 24) & 0x80
  }
  found |= look(octets, first + words.length * 4, length)
  const last = octets[length - 1]
  return last === SPACE || last === TAB ? found | TRAILING : found
}

/** The same for a few octets, one after the other; of what stands before and behind them, one octet is looked at. */
function look(octets: Uint8Array, from: number, to: number): number {
  let found = 0
  for (let at = from; at < to; at++) {
    const octet = octets[at]!
    const previous = octets[at - 1]
    if (octet === CR) {
      if (octets[at + 1] !== LF) found |= BARE
      if (previous === SPACE || previous === TAB) found |= TRAILING
    } else if (octet === LF) {
      if (previous !== CR) found |= BARE
    } else if (octet === TAB) found |= RUNS
    else if (octet === SPACE) {
      if (previous === SPACE) found |= RUNS
    } else if (octet < SPACE || octet >= DELETE) found |= WIDE
  }
  return found
}
