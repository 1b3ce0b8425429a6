// Encodes the bytes of an attachment as lines of text (RFC 2045 §6). ASCII text stays as it is, or becomes
// quoted-printable when its line ends or long lines would be changed on the way; everything else becomes base64. A
// reader decodes the same bytes.
import { encodePiece, encodeQuotedPrintable } from './quoted-printable.ts'

export type Encoding = '7bit' | 'quoted-printable' | 'base64'

/** The most octets of a line without its end (RFC 5322 §2.1.1). */
export const MAX_PLAIN_LINE = 998
/** Lines that other software would change, or take for the end of a part. */
export const CHANGED = /^(?:From |\.|--=_)/m
/** Bytes encoded at a time: a multiple of 57, which make a line of 76. */
const STEP = 57 * 4096
const [TAB, LF, CR, SPACE, DOT, EQUALS, F, DASH] = [9, 10, 13, 32, 46, 61, 70, 45]

/** The size in octets of `size` bytes as base64, in lines of 76 with their line ends. */
export const base64Octets = (size: number): number => Math.ceil(size / 57) * 2 + Math.ceil(size / 3) * 4

/** A text of up to this many octets is never encoded as base64, so that people can read it in the source of a mail. */
const SMALL = 8 * 1024
/** The most octets that an attachment of `size` octets can take, whatever its encoding is. */
export const mostOctets = (size: number): number => (size <= SMALL ? size * 7 + 64 : base64Octets(size))

/**
 * The simplest encoding that keeps the bytes unchanged. A text whose line ends are LF must be encoded: on the wire the
 * line ends of a text are CRLF (RFC 2046 §4.1.1), and the decoded file must have the same octets as the original. In
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
  // One soft line break per 73 octets: the next octet may need an escape of three.
  const octets = (bytes.length + escaped * 2) * (1 + 5 / 73) + 5
  return bytes.length <= SMALL || octets <= base64Octets(bytes.length) ? 'quoted-printable' : 'base64'
}

/** The encoded bytes in pieces, each ending with CRLF; the last CRLF belongs to the boundary that follows. */
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
