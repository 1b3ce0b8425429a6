// Pictures as the readers of mail load them: at an address that nobody can guess, without a token, and with headers
// that let no browser take them for anything else. A picture never changes, so that it may be kept for a year.
import { openSpooled, proofOf } from '../base/spooled.ts'
import type { Reader } from '../store/database.ts'
import type { Spool } from '../store/spool.ts'
import { imageById } from './images.ts'
import { TYPES } from './read.ts'

const KEPT = 'public, max-age=31536000, immutable'
/** A mail program, a browser, and a page of any other site may show it; no browser runs anything in it. */
const INERT = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Robots-Tag': 'noindex',
}

/** A picture of up to this many octets is read at once, a larger one in pieces of as many. */
const AT_ONCE = 64 * 1024

export interface ImageRequest {
  /** The last part of the path: the id, a dot, and the ending of its type. */
  file: string
  method: string
  /** The header If-None-Match. */
  known: string | undefined
}

/** A name for whoever saves the picture: letters, digits and little else, with the ending of its true type. */
function savedAs(name: string, ending: string): string {
  const plain = name
    .replace(/\.[A-Za-z0-9]{1,5}$/, '')
    .normalize('NFKD')
    .replace(/[^\w -]+/g, '')
    .trim()
  return `${plain.slice(0, 60) || 'picture'}.${ending}`
}

/**
 * A file, piece by piece: a slow reader holds a piece in memory, not a picture. It is opened when the first piece is
 * wanted, and closed when no more are: an answer that nobody reads opens none.
 */
async function* piecesOf(path: string): AsyncGenerator<Uint8Array> {
  await using file = await openSpooled(path)
  for (;;) {
    const piece = Buffer.allocUnsafe(AT_ONCE)
    const { bytesRead } = await file.read(piece)
    if (bytesRead === 0) return
    yield piece.subarray(0, bytesRead)
  }
}

/** Answers with a picture; undefined when there is none. Throws Damaged when its file is. */
export async function imageResponse(
  { spool, store }: { spool: Spool; store: Reader },
  { file, known = '', method }: ImageRequest,
): Promise<Response | undefined> {
  const [, id = '', ending] = /^([0-9a-f-]{36})\.([a-z]{3,4})$/.exec(file) ?? []
  const image = id === '' ? undefined : imageById(store, id)
  if (!image || TYPES[image.content_type] !== ending) return undefined
  const tag = `"${proofOf(image.spool)?.digest ?? image.id}"`
  const headers = { ...INERT, 'Cache-Control': KEPT, ETag: tag }
  const tags = known.split(',').map((each) => each.trim().replace(/^W\//, ''))
  if (tags.includes(tag) || tags.includes('*')) return new Response(null, { status: 304, headers })
  const described = {
    ...headers,
    'Content-Type': image.content_type,
    'Content-Length': String(image.size),
    'Content-Disposition': `inline; filename="${savedAs(image.name, ending)}"`,
  }
  if (method === 'HEAD') return new Response(null, { headers: described })
  if (image.size <= AT_ONCE) return new Response(new Uint8Array(await spool.read(image.spool)), { headers: described })
  const path = spool.path(image.spool)
  // A file that is gone or damaged is an error, not an answer that ends too early.
  await (await openSpooled(path)).close()
  return new Response(ReadableStream.from(piecesOf(path)), { headers: described })
}
