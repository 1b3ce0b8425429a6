// A request document with a file in it, as bytes in pieces. The base64 of a large file is never completely in memory,
// and other work runs between its pieces.
import { randomUUID } from 'node:crypto'

/** Bytes of the file in a piece, a multiple of three so that its base64 has no padding. */
const PIECE = 3 * 256 * 1024

/** The JSON of the object that `made` returns. The base64 of the file replaces the value that `made` receives. */
export function documentWithFile(
  made: (file: string) => object,
  file: AsyncIterable<Uint8Array>,
): ReadableStream<Uint8Array> {
  const place = randomUUID()
  const [before = '', after, more] = JSON.stringify(made(place)).split(place)
  if (after === undefined || more !== undefined) throw new Error('The document must contain the file exactly once.')
  return ReadableStream.from(piecesOf(before, file, after))
}

async function* piecesOf(before: string, file: AsyncIterable<Uint8Array>, after: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(before)
  let rest = Buffer.alloc(0)
  for await (const chunk of file) {
    const bytes =
      rest.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([rest, chunk])
    const whole = bytes.length - (bytes.length % 3)
    for (let at = 0; at < whole; at += PIECE) yield base64(bytes.subarray(at, Math.min(at + PIECE, whole)))
    rest = Buffer.from(bytes.subarray(whole))
  }
  yield base64(rest)
  yield Buffer.from(after)
}

const base64 = (bytes: Buffer): Buffer => Buffer.from(bytes.toString('base64'), 'latin1')
