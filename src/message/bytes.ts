// Encodes the bytes of an attachment as lines of text (RFC 2045 §6). ASCII text is not encoded, unless its line ends or
// long lines would be changed in transport: then it becomes quoted-printable. Other content becomes base64. Decoding
// returns the same bytes.
import { encodePiece, encodeQuotedPrintable } from './quoted-printable.ts'

export type Encoding = '7bit' | 'quoted-printable' | 'base64'

/** The most bytes of a line without its end (RFC 5322 §2.1.1). */
export const MAX_PLAIN_LINE = 998
/** Lines that other software would change, or treat as the end of a part. */
export const CHANGED = /^(?:From |\.|--=_)/m
/** Bytes encoded at a time: a multiple of 57, which become a line of 76. */
const STEP = 57 * 4096
const [TAB, LF, CR, SPACE, DASH, DOT, EQUALS, F, DELETE] = [9, 10, 13, 32, 45, 46, 61, 70, 127]

/** The size in bytes of `size` bytes as base64, in lines of 76 with their line ends. */
export const base64Bytes = (size: number): number => Math.ceil(size / 57) * 2 + Math.ceil(size / 3) * 4

/**
 * A text of up to this many bytes is never encoded as base64, so that people can read it in the source of a message.
 */
const SMALL = 8 * 1024
/** The most bytes for an attachment of `size` bytes in any encoding. */
export const mostBytes = (size: number): number => (size <= SMALL ? size * 7 + 64 : base64Bytes(size))

/**
 * The simplest encoding that keeps the bytes unchanged. A text whose line ends are LF must be encoded: on the wire the
 * line ends of a text are CRLF (RFC 2046 §4.1.1), and the decoded file must have the same bytes as the original. In
 * quoted-printable each LF becomes "=0A", in a small file with a soft line break after it, so that people can still
 * read its lines. Base64 is used for content other than ASCII text, and for large files that become shorter with it.
 */
export function encodingOf(contentType: string, bytes: Buffer): Encoding {
  if (!/^text\//i.test(contentType)) return 'base64'
  let plain = true
  let escaped = 0
  let start = 0
  for (let at = 0; at <= bytes.length; at++) {
    const byte = bytes[at]
    const lineEnd = byte === undefined || (byte === CR && bytes[at + 1] === LF)
    if (lineEnd) {
      const before = at > start ? bytes[at - 1] : undefined
      if (before === SPACE || before === TAB) {
        plain = false
        escaped++
      }
      if (at - start > MAX_PLAIN_LINE) plain = false
      start = at + 2
      at++
      continue
    }
    if (byte === CR || byte === LF) plain = false
    else if (byte !== TAB && (byte < SPACE || byte > 126)) return 'base64'
    if (byte === EQUALS || byte === CR || byte === LF) escaped++
    if (at === start && (byte === DOT || byte === F || byte === DASH)) {
      escaped++
      if (CHANGED.test(bytes.toString('latin1', at, at + 5))) plain = false
    }
  }
  if (plain) return '7bit'
  // One soft line break per 73 bytes: the next byte may need an escape of three.
  const octets = (bytes.length + escaped * 2) * (1 + 5 / 73) + 5
  return bytes.length <= SMALL || octets <= base64Bytes(bytes.length) ? 'quoted-printable' : 'base64'
}

/** The encoded bytes in pieces, each ending with CRLF. The last CRLF belongs to the boundary that follows. */
export function* encodeBytes(bytes: Buffer, encoding: Encoding): Iterable<string> {
  if (bytes.length === 0) yield '\r\n'
  const lines = bytes.length <= SMALL
  for (let at = 0, end = 0; at < bytes.length; at = end) {
    end = at + STEP
    if (encoding === 'base64') {
      const text = bytes.toString('base64', at, Math.min(end, bytes.length))
      yield text.replace(/.{1,76}/g, '$&\r\n')
      continue
    }
    // In 7bit a piece must end at a line end.
    const line = encoding === '7bit' ? bytes.indexOf('\r\n', end) : end
    end = line < 0 || line >= bytes.length ? bytes.length : encoding === '7bit' ? line + 2 : line
    const text = bytes.toString('latin1', at, end)
    if (encoding === '7bit') yield end === bytes.length ? `${text}\r\n` : text
    else yield end === bytes.length ? `${encodeQuotedPrintable(text, 'latin1', lines)}\r\n` : encodePiece(text, lines)
  }
}

// Looks at the bytes of a text once, four at a time, for everything that decides how it is encoded (RFC 2045 §6) and
// made canonical (RFC 6376 §3.4.4). Six patterns over a body of 100 KB take ten times as long.

/** A byte that is not printable ASCII, tab, CR or LF. */
export const WIDE = 1
/** A CR without LF, or an LF without CR. */
export const BARE = 2
/** White space before a line end, or at the end of the text. */
export const TRAILING = 4
/** A tab, or two spaces after each other. */
export const RUNS = 8

/** The highest bit of each of four bytes. */
const HIGH = 0x80808080 | 0
const NO_WORDS = new Int32Array(0)

/**
 * Scans bytes for the values above, and returns their sum. Stops at the first byte that is WIDE, so the others may be
 * missing.
 */
export function scan(bytes: Uint8Array): number {
  const { byteOffset, length } = bytes
  // Words begin at multiples of four in memory. A short text may end before the first of them.
  const first = Math.min((4 - (byteOffset % 4)) % 4, length)
  let found = look(bytes, 0, first)
  const words = first === length ? NO_WORDS : new Int32Array(bytes.buffer, byteOffset + first, (length - first) >> 2)
  // The flag of the last byte of the word before: it was a space.
  let before = first > 0 && bytes[first - 1] === SPACE ? 0x80 : 0
  for (let at = 0; at < words.length; at++) {
    const word = words[at]!
    const x = word ^ 0x20202020
    // A flag for each byte that is a space. The byte behind a space may get a wrong one, which `look` finds out.
    const spaces = (x - 0x01010101) & ~x & HIGH
    const control = (word - 0x20202020) & ~word
    // Bytes above 126, controls, and adjacent spaces.
    const odd = (word | (word + 0x01010101) | control) & HIGH
    if ((odd | (spaces & (spaces << 8)) | (spaces & before)) !== 0) {
      const start = first + at * 4
      found |= look(bytes, start, start + 4)
      if ((found & WIDE) !== 0) return found
    }
    before = (spaces >>> 24) & 0x80
  }
  found |= look(bytes, first + words.length * 4, length)
  const last = bytes[length - 1]
  return last === SPACE || last === TAB ? found | TRAILING : found
}

/** The same for a few bytes, one by one. One byte before and one behind them are also read. */
function look(bytes: Uint8Array, from: number, to: number): number {
  let found = 0
  for (let at = from; at < to; at++) {
    const byte = bytes[at]!
    const previous = bytes[at - 1]
    if (byte === CR) {
      if (bytes[at + 1] !== LF) found |= BARE
      if (previous === SPACE || previous === TAB) found |= TRAILING
    } else if (byte === LF) {
      if (previous !== CR) found |= BARE
    } else if (byte === TAB) found |= RUNS
    else if (byte === SPACE) {
      if (previous === SPACE) found |= RUNS
    } else if (byte < SPACE || byte >= DELETE) found |= WIDE
  }
  return found
}
