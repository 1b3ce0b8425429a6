// Remote pictures in mails from strangers. They are shown only when a person asks for them. Then this server fetches
// them, so that the picture's host learns neither the person's IP address nor the browser. The frame that shows a mail
// has no cookies; therefore a picture's address is signed, and valid for a few minutes.
import type { Context } from 'hono'
import { MINUTE, SECOND } from '../base/clock.ts'
import { semaphore } from '../base/semaphore.ts'
import { IMAGES_PATH } from '../images/uses.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { fetchFile } from '../net/fetch.ts'
import { guard } from '../webui/frame.ts'

const LIFE = 10 * MINUTE
const MAC_BYTES = 16
const MB = 1024 * 1024
const RULES = { timeout: 10 * SECOND, maxBytes: 10 * MB, redirects: 3 }
/** The most fetches at once; a page shows a hundred pictures. */
const AT_ONCE = 6
/** Types of pictures that cannot contain a script; SVG can. */
const TYPES = /^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/i

const oneOf = semaphore(AT_ONCE)
const said = (url: string, until: number): string => `picture ${until} ${url}`

type PictureDeps = Pick<ApiDeps, 'clock' | 'config' | 'keyring'>

/**
 * The path on this server that shows a picture: of one that is stored here its own, else one that fetches it, always
 * over https.
 */
export function pictureAddress({ clock, config, keyring }: PictureDeps, url: string): string {
  const own = `${config.http.public_url}${IMAGES_PATH}/`
  if (url.startsWith(own)) return `${IMAGES_PATH}/${encodeURIComponent(url.slice(own.length))}`
  const until = clock.now() + LIFE
  const secure = url.replace(/^http:/i, 'https:')
  const proof = keyring.mac('session', said(secure, until), MAC_BYTES).toString('base64url')
  return `/picture?${new URLSearchParams({ u: secure, t: String(until), p: proof }).toString()}`
}

/** Leads a signed-in person's browser to a picture, for the editor, whose pictures have no signed addresses. */
export function leadToPicture(context: Context, deps: PictureDeps): Response {
  const url = context.req.query('u') ?? ''
  guard(context, "default-src 'none'; sandbox")
  return /^https?:\/\//i.test(url) && URL.canParse(url)
    ? context.redirect(pictureAddress(deps, url), 302)
    : context.text('There is no such picture.\n', 404)
}

/** Fetches a picture and sends it to the browser; 404 when the address is not signed by this server or has expired. */
export async function servePicture(context: Context, deps: ApiDeps): Promise<Response> {
  const { u = '', t = '', p = '' } = context.req.query()
  const until = Number(t)
  const proven =
    /^\d{1,15}$/.test(t) && deps.keyring.proves('session', said(u, until), Buffer.from(p, 'base64url'), MAC_BYTES)
  guard(context, "default-src 'none'; sandbox")
  context.header('Cross-Origin-Resource-Policy', 'cross-origin')
  if (!proven || deps.clock.now() >= until) return context.text('There is no such picture.\n', 404)
  const fetched = await oneOf(() => fetchFile(deps.fetching, u, RULES))
  if ('refused' in fetched) return context.text(`The picture ${fetched.refused}.\n`, 404)
  const [type = ''] = (fetched.contentType ?? '').split(';')
  if (!TYPES.test(type.trim())) return context.text('That is not a picture.\n', 404)
  context.header('Cache-Control', 'private, max-age=600')
  return context.body(new Uint8Array(fetched.bytes), 200, { 'Content-Type': type.trim() })
}
