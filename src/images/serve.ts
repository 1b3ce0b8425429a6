// Serves images to the recipients of email: at a URL that cannot be guessed, without a token, and with headers that
// prevent browsers from treating them as another type. An image never changes, so it can be cached for a year.
import { Hono, type Context } from 'hono'
import { openSpooled, proofOf } from '../base/spooled.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import { imageById, type ImageDeps } from './images.ts'
import { TYPES } from './read.ts'

const MISSING = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer', 'X-Robots-Tag': 'noindex' }
const KEPT = 'public, max-age=31536000, immutable'
/** Email clients and pages of any site can show the image. Browsers do not run scripts in it. */
const INERT = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cross-Origin-Resource-Policy': 'cross-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Robots-Tag': 'noindex',
}

/** Images up to this size are read at once, larger ones in pieces of this size. */
const AT_ONCE = 64 * 1024

type ServeDeps = Pick<ImageDeps, 'spool' | 'store'>

/** The public URLs of images. */
export const imageRoutes = (deps: ServeDeps): Hono =>
  new Hono().get(
    `${IMAGES_PATH}/:file`,
    async (context) => (await imageResponse(deps, context)) ?? context.text('Image not found.\n', 404, MISSING),
  )

/** The file name for a download: letters, digits, spaces and hyphens, with the extension of its type. */
function savedAs(name: string, ending: string): string {
  const plain = name
    .replace(/\.[A-Za-z0-9]{1,5}$/, '')
    .normalize('NFKD')
    .replace(/[^\w -]+/g, '')
    .trim()
  return `${plain.slice(0, 60) || 'picture'}.${ending}`
}

/**
 * Reads a file in pieces, so that a slow client holds only one piece in memory. The file is opened for the first piece
 * and closed after the last one. A response that is never read opens no file.
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

/** Returns the response with an image, or undefined if it does not exist. Throws Damaged if its file is corrupt. */
async function imageResponse({ spool, store }: ServeDeps, { req }: Context): Promise<Response | undefined> {
  const [, id = '', ending] = /^([0-9a-f-]{36})\.([a-z]{3,4})$/.exec(req.param('file') ?? '') ?? []
  const image = id === '' ? undefined : imageById(store, id)
  if (!image || TYPES[image.content_type] !== ending) return undefined
  const tag = `"${proofOf(image.spool)?.digest ?? image.id}"`
  const headers = { ...INERT, 'Cache-Control': KEPT, ETag: tag }
  const tags = (req.header('if-none-match') ?? '').split(',').map((each) => each.trim().replace(/^W\//, ''))
  if (tags.includes(tag) || tags.includes('*')) return new Response(null, { status: 304, headers })
  const described = {
    ...headers,
    'Content-Type': image.content_type,
    'Content-Length': String(image.size),
    'Content-Disposition': `inline; filename="${savedAs(image.name, ending)}"`,
  }
  if (req.method === 'HEAD') return new Response(null, { headers: described })
  if (image.size <= AT_ONCE) return new Response(new Uint8Array(await spool.read(image.spool)), { headers: described })
  const path = spool.path(image.spool)
  // A missing or corrupt file is an error, not a truncated response.
  await (await openSpooled(path)).close()
  return new Response(ReadableStream.from(piecesOf(path)), { headers: described })
}
