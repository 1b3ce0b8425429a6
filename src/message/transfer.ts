// Decodes transfer encodings (RFC 2045 §6) over bytes, tolerantly (D222) and in linear time: the result is never larger
// than the input, and corrupt input costs the bytes that are corrupt.

const [TAB, LF, CR, SPACE, EQUALS] = [9, 10, 13, 32, 61]

/** The encodings that are decoded. Content in other encodings is used as it is. */
export type TransferEncoding = '7bit' | '8bit' | 'binary' | 'base64' | 'quoted-printable' | 'x-uuencode' | 'unknown'

const NAMES = /7bits?|8bits?|binary|base64|quotedprintable|(?:x|^)uu(?:e|encode)/

/** The encoding in a Content-Transfer-Encoding field, without any quotes or signs around it. */
export function transferEncodingOf(value: string): TransferEncoding {
  const [name] = NAMES.exec(value.toLowerCase().replace(/[^a-z0-9]/g, '')) ?? []
  if (name === undefined) return value.trim() === '' ? '7bit' : 'unknown'
  if (name === 'quotedprintable') return 'quoted-printable'
  if (name === 'base64' || name === 'binary') return name
  return name.includes('uu') ? 'x-uuencode' : name.startsWith('8') ? '8bit' : '7bit'
}

/** The content of encoded bytes. */
export function decodeTransfer(bytes: Buffer, encoding: TransferEncoding): Buffer {
  if (encoding === 'base64') return fromBase64(bytes)
  if (encoding === 'quoted-printable') return fromQuotedPrintable(bytes)
  return encoding === 'x-uuencode' ? fromUuencode(bytes) : bytes
}

/** The value of a character outside the alphabet of an encoding. */
const NONE = 255
/** The value of each character of base64 (RFC 2045 §6.8), and of hexadecimal digits. */
const SIXTY_FOUR = tableOf('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const HEX = tableOf('0123456789ABCDEF')
HEX.set(HEX.subarray(0x41, 0x47), 0x61)

function tableOf(characters: string): Uint8Array {
  const table = new Uint8Array(256).fill(NONE)
  for (let value = 0; value < characters.length; value++) table[characters.charCodeAt(value)] = value
  return table
}

/**
 * Base64. Foreign characters are skipped (RFC 2045 §6.8). After padding or an empty line, only whole lines of base64
 * continue the content: some clients encode in padded pieces, and mailing lists append their footer as plain text.
 */
function fromBase64(bytes: Buffer): Buffer {
  const into = Buffer.allocUnsafe(Math.ceil((bytes.length * 3) / 4))
  let size = 0
  let bits = 0
  let held = 0
  let ended = false
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    if (byte === LF && (bytes[at + 1] === LF || (bytes[at + 1] === CR && bytes[at + 2] === LF))) ended ||= size > 0
    if (ended && byte === LF && !isBase64Line(bytes, at + 1)) break
    if (byte === EQUALS) {
      ended = true
      bits = 0
      continue
    }
    const value = SIXTY_FOUR[byte] ?? NONE
    if (value === NONE) continue
    held = ((held << 6) | value) & 0xffff
    bits += 6
    if (bits < 8) continue
    bits -= 8
    into[size++] = held >> bits
  }
  return into.subarray(0, size)
}

/** Whether a line has only whole groups of base64, or is empty. */
function isBase64Line(bytes: Buffer, start: number): boolean {
  let length = 0
  for (let at = start; at < bytes.length && bytes[at] !== LF; at++) {
    const byte = bytes[at] ?? 0
    if (byte === CR) continue
    if (byte !== EQUALS && SIXTY_FOUR[byte] === NONE) return false
    length++
  }
  return length % 4 === 0
}

/** Quoted-printable (RFC 2045 §6.7). Malformed escapes stay as they are. */
export function fromQuotedPrintable(bytes: Buffer): Buffer {
  const into = Buffer.allocUnsafe(bytes.length)
  let size = 0
  for (let at = 0; at < bytes.length;) {
    const byte = bytes[at] ?? 0
    const blank = byte === SPACE || byte === TAB
    if (byte === EQUALS || blank) {
      let next = at + 1
      while (bytes[next] === SPACE || bytes[next] === TAB) next++
      const lineEnd = bytes[next] === LF ? next : bytes[next] === CR && bytes[next + 1] === LF ? next + 1 : undefined
      // White space at the end of a line was added in transport. After "=", the line end is not part of the text,
      // either.
      if (lineEnd !== undefined) {
        at = byte === EQUALS ? lineEnd + 1 : next
        continue
      }
      if (blank) {
        size += bytes.copy(into, size, at, next)
        at = next
        continue
      }
      const [high, low] = [HEX[bytes[at + 1] ?? 0] ?? NONE, HEX[bytes[at + 2] ?? 0] ?? NONE]
      if (high !== NONE && low !== NONE) {
        into[size++] = high * 16 + low
        at += 3
        continue
      }
    }
    into[size++] = byte
    at++
  }
  return into.subarray(0, size)
}

/** The lines between "begin" and "end" of uuencode (POSIX), or the bytes themselves without "begin". */
function fromUuencode(bytes: Buffer): Buffer {
  const begin = /(?:^|\n)begin [0-7]{3,4} [^\n]*\n/.exec(bytes.toString('latin1', 0, 64 * 1024))
  if (!begin) return bytes
  const into = Buffer.allocUnsafe(bytes.length)
  let size = 0
  for (let at = begin.index + begin[0].length; at < bytes.length;) {
    const feed = bytes.indexOf(LF, at)
    const end = feed < 0 ? bytes.length : feed
    const length = ((bytes[at] ?? SPACE) - SPACE) & 63
    if (length === 0 || (length === 37 && bytes.toString('latin1', at, at + 3) === 'end')) break
    const value = (place: number): number => (place < end ? ((bytes[place] ?? SPACE) - SPACE) & 63 : 0)
    for (let made = 0, from = at + 1; made < length && from < end; from += 4) {
      const word = (value(from) << 18) | (value(from + 1) << 12) | (value(from + 2) << 6) | value(from + 3)
      for (let shift = 16; shift >= 0 && made < length; shift -= 8, made++) into[size++] = (word >> shift) & 255
    }
    at = end + 1
  }
  return into.subarray(0, size)
}
