// The content of a MIME part, decoded piece by piece: no more octets than a limit are ever made of it.
import { must } from '../../base/errors.ts'
import { fromQuotedPrintable, type MimePart } from '../../message/mime-tree.ts'

/** Octets of the message that are decoded at a time. */
const STEP = 64 * 1024

/** Decodes a piece of text into a buffer, at an offset; returns how many octets it makes. */
type Decode = (text: string, into: Buffer, at: number) => number

/** Base64 (RFC 2045 §6.8) until its padding, in pieces: what follows the padding was added on the way. */
function* base64Of(encoded: Buffer): Iterable<string> {
  let rest = ''
  for (let at = 0; at < encoded.length; at += STEP) {
    const text = rest + encoded.toString('latin1', at, at + STEP).replace(/[^A-Za-z0-9+/=]+/g, '')
    const end = text.indexOf('=')
    if (end >= 0) return yield text.slice(0, end)
    const whole = text.length - (text.length % 4)
    yield text.slice(0, whole)
    rest = text.slice(whole)
  }
  yield rest
}

/** Quoted-printable in pieces of whole lines, where lines end. */
function* linesOf(encoded: Buffer): Iterable<string> {
  for (let at = 0; at < encoded.length;) {
    const last = Math.min(encoded.length, at + STEP)
    const line = last === encoded.length ? -1 : encoded.lastIndexOf(0x0a, last - 1)
    const end = line < at ? last : line + 1
    yield encoded.toString('latin1', at, end)
    at = end
  }
}

const fromBase64: Decode = (text, into, at) => into.write(text, at, 'base64')
const fromLine: Decode = (text, into, at) => fromQuotedPrintable(text).copy(into, at)

/** The first octets of a part. */
export function headOf(message: Buffer, part: MimePart, octets: number): Buffer {
  const start = { ...part, end: Math.min(part.end, part.start + 4 * octets) }
  return must(contentOf(message, start, Infinity), 'The head of a part').subarray(0, octets)
}

/** The content of a part; undefined when it is larger than `most`. */
export function contentOf(message: Buffer, { encoding, end, start }: MimePart, most: number): Buffer | undefined {
  const octets = message.subarray(start, end)
  if (encoding !== 'base64' && encoding !== 'quoted-printable') return octets.length > most ? undefined : octets
  // No encoding makes more octets than it has. One buffer for all: pieces and their sum would be twice as much.
  const content = Buffer.allocUnsafeSlow(Math.min(octets.length, most + STEP))
  const decode = encoding === 'base64' ? fromBase64 : fromLine
  let size = 0
  for (const text of encoding === 'base64' ? base64Of(octets) : linesOf(octets)) {
    size += decode(text, content, size)
    if (size > most) return undefined
  }
  return content.subarray(0, size)
}
