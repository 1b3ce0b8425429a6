// The content of a MIME part, decoded piece by piece: no more octets than a limit are ever made of it.
import { must } from '../../base/errors.ts'
import { fromQuotedPrintable, type MimePart } from '../../message/mime-tree.ts'

/** Octets of the message that are decoded at a time. */
const STEP = 64 * 1024

/** Base64 (RFC 2045 §6.8) until its padding: what follows was added on the way. */
function* fromBase64(encoded: Buffer): Iterable<Buffer> {
  let rest = ''
  for (let at = 0; at < encoded.length; at += STEP) {
    const text = rest + encoded.toString('latin1', at, at + STEP).replace(/[^A-Za-z0-9+/=]+/g, '')
    const end = text.indexOf('=')
    if (end >= 0) return yield Buffer.from(text.slice(0, end), 'base64')
    const whole = text.length - (text.length % 4)
    yield Buffer.from(text.slice(0, whole), 'base64')
    rest = text.slice(whole)
  }
  yield Buffer.from(rest, 'base64')
}

/** Quoted-printable in pieces of whole lines, where lines end. */
function* fromLines(encoded: Buffer): Iterable<Buffer> {
  for (let at = 0; at < encoded.length;) {
    const last = Math.min(encoded.length, at + STEP)
    const line = last === encoded.length ? -1 : encoded.lastIndexOf(0x0a, last - 1)
    const end = line < at ? last : line + 1
    yield fromQuotedPrintable(encoded.toString('latin1', at, end))
    at = end
  }
}

/** The first octets of a part. */
export function headOf(message: Buffer, part: MimePart, octets: number): Buffer {
  const start = { ...part, end: Math.min(part.end, part.start + 4 * octets) }
  return must(contentOf(message, start, Infinity), 'The head of a part').subarray(0, octets)
}

/** The content of a part; undefined when it is larger than `most`. */
export function contentOf(message: Buffer, { encoding, end, start }: MimePart, most: number): Buffer | undefined {
  const octets = message.subarray(start, end)
  if (encoding !== 'base64' && encoding !== 'quoted-printable') return octets.length > most ? undefined : octets
  const pieces: Buffer[] = []
  let size = 0
  for (const piece of encoding === 'base64' ? fromBase64(octets) : fromLines(octets)) {
    size += piece.length
    if (size > most) return undefined
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}
