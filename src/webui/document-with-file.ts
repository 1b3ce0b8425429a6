// A request document with a file in it, as octets in pieces: the base64 of a large file is never whole in memory, and
// other work runs between its pieces.
import { randomUUID } from 'node:crypto'

/** The most octets of the file in a piece; a multiple of three, so that its base64 has no padding. */
const PIECE = 3 * 256 * 1024

/** JSON of what `made` returns, with the file as base64 in the place of the value that `made` is given. */
export function documentWithFile(
  made: (file: string) => object,
  file: AsyncIterable<Uint8Array>,
): ReadableStream<Uint8Array> {
  const place = randomUUID()
  const [before = '', after, more] = JSON.stringify(made(place)).split(place)
  if (after === undefined || more !== undefined) throw new Error('The file must stand once in the document.')
  return ReadableStream.from(piecesOf(before, file, after))
}

async function* piecesOf(before: string, file: AsyncIterable<Uint8Array>, after: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(before)
  let rest = Buffer.alloc(0)
  for await (const chunk of file) {
    const octets =
      rest.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([rest, chunk])
    const whole = octets.length - (octets.length % 3)
    for (let at = 0; at < whole; at += PIECE) yield base64(octets.subarray(at, Math.min(at + PIECE, whole)))
    rest = Buffer.from(octets.subarray(whole))
  }
  yield base64(rest)
  yield Buffer.from(after)
}

const base64 = (octets: Buffer): Buffer => Buffer.from(octets.toString('base64'), 'latin1')
