// Remote images in received emails, which are shown only on request. This server fetches them, so that their host does
// not learn the IP address or browser of the user. The frame of an email has no cookies, so the URL of an image is
// signed and valid for a few minutes.
import type { Context } from 'hono'
import { MINUTE, SECOND } from '../base/clock.ts'
import { forLog } from '../base/clean-text.ts'
import { semaphore } from '../base/semaphore.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { escapeHtml } from '../message/template.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import { fetchFile } from '../net/fetch.ts'
import { guard } from '../views/html/frame.ts'

const LIFE = 10 * MINUTE
const MAC_BYTES = 16
const MB = 1024 * 1024
const RULES = { timeout: 10 * SECOND, maxBytes: 10 * MB, redirects: 3 }
/** The maximum number of fetches at once. A page can show a hundred images. */
const AT_ONCE = 6
/** Image types that cannot contain scripts. SVG can. */
const TYPES = /^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/i

const oneOf = semaphore(AT_ONCE)
const said = (url: string, until: number): string => `picture ${until} ${url}`

type PictureDeps = Pick<ApiDeps, 'clock' | 'config' | 'keyring'>

/**
 * Returns the path of an image on this server: its own path if it is stored here, otherwise one that fetches it, always
 * by https.
 */
export function pictureAddress({ clock, config, keyring }: PictureDeps, url: string): string {
  const own = `${config.http.public_url}${IMAGES_PATH}/`
  if (url.startsWith(own)) return `${IMAGES_PATH}/${encodeURIComponent(url.slice(own.length))}`
  const until = clock.now() + LIFE
  const secure = url.replace(/^http:/i, 'https:')
  const proof = keyring.mac('session', said(secure, until), MAC_BYTES).toString('base64url')
  return `/picture?${new URLSearchParams({ u: secure, t: String(until), p: proof }).toString()}`
}

/** Returns the same path. If the image cannot be fetched, the response is an image with the reason. */
export function sayingAddress(deps: PictureDeps, url: string): string {
  const address = pictureAddress(deps, url)
  return address.includes('?') ? `${address}&say=yes` : address
}

/** The maximum number of characters per line in an image of text. */
const LINE = 46

/**
 * An image of text: the reason why an image is missing, and its URL. The editor has no other place to show it.
 */
function saying(context: Context, why: string, url: string): Response {
  const lines = [why, url].flatMap((text) => {
    const characters = Array.from(forLog(text, 4 * LINE))
    const count = Math.ceil(characters.length / LINE)
    return Array.from({ length: count }, (_, at) => characters.slice(at * LINE, (at + 1) * LINE).join(''))
  })
  const words = lines.map((line, at) => `<text x="14" y="${26 + at * 20}">${escapeHtml(line)}</text>`).join('')
  const height = 22 + lines.length * 20
  return context.body(
    `<svg xmlns="http://www.w3.org/2000/svg" width="340" height="${height}" font-family="system-ui,sans-serif" font-size="13" fill="#6b3a00"><rect width="340" height="${height}" rx="6" fill="#fdf2d8"/>${words}</svg>`,
    200,
    { 'Content-Type': 'image/svg+xml' },
  )
}

/** Redirects a signed-in browser to an image, for the editor, whose images have no signed URLs. */
export function leadToPicture(context: Context, deps: PictureDeps): Response {
  const { say, u: url = '' } = context.req.query()
  guard(context, "default-src 'none'; sandbox")
  if (/^https?:\/\//i.test(url) && URL.canParse(url))
    return context.redirect(say === 'yes' ? sayingAddress(deps, url) : pictureAddress(deps, url), 302)
  return say === 'yes'
    ? saying(context, 'This image has no web address.', url)
    : context.text('Image not found.\n', 404)
}

/** Fetches an image and returns it. Returns 404 if the URL is not signed by this server or has expired. */
export async function servePicture(context: Context, deps: ApiDeps): Promise<Response> {
  const { u = '', t = '', p = '' } = context.req.query()
  const until = Number(t)
  const proven =
    /^\d{1,15}$/.test(t) && deps.keyring.proves('session', said(u, until), Buffer.from(p, 'base64url'), MAC_BYTES)
  guard(context, "default-src 'none'; sandbox")
  context.header('Cross-Origin-Resource-Policy', 'cross-origin')
  if (!proven || deps.clock.now() >= until) return context.text('Image not found.\n', 404)
  const fetched = await oneOf(() => fetchFile(deps.fetching, u, RULES))
  const [type = ''] = 'refused' in fetched ? [] : (fetched.contentType ?? '').split(';')
  if ('refused' in fetched || !TYPES.test(type.trim())) {
    const why = 'refused' in fetched ? `The image ${fetched.refused}.` : 'This file is not an image.'
    return context.req.query('say') === 'yes' ? saying(context, why, u) : context.text(`${why}\n`, 404)
  }
  context.header('Cache-Control', 'private, max-age=600')
  return context.body(new Uint8Array(fetched.bytes), 200, { 'Content-Type': type.trim() })
}
