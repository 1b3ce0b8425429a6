// Pictures in mails of strangers that lie elsewhere. They are shown when a person asks for them, and then this server
// fetches them, so that their owner learns neither the person's address nor their browser. The frame that shows a mail
// has no cookies, so that a picture's address is signed; it is valid for a few minutes.
import type { Context } from 'hono'
import { MINUTE, SECOND } from '../base/clock.ts'
import { semaphore } from '../base/semaphore.ts'
import type { ApiDeps } from '../api/deps.ts'
import { fetchFile } from '../outbound/accept/fetch.ts'
import { guard } from './frame.ts'

const LIFE = 10 * MINUTE
const MAC_BYTES = 16
const MB = 1024 * 1024
const RULES = { timeout: 10 * SECOND, maxBytes: 10 * MB, redirects: 3 }
/** So many are fetched at once, and a page has no more than this. */
const AT_ONCE = 6
export const MOST_PICTURES = 100
/** Pictures that hold no program, unlike SVG. */
const TYPES = /^image\/(?:png|jpe?g|gif|webp|avif|bmp)$/i

const oneOf = semaphore(AT_ONCE)
const said = (url: string, until: number): string => `picture ${until} ${url}`

/** The address below ours at which a picture is shown. It is asked for over https, whatever the mail says. */
export function pictureAddress({ clock, keyring }: Pick<ApiDeps, 'clock' | 'keyring'>, url: string): string {
  const until = clock.now() + LIFE
  const secure = url.replace(/^http:/i, 'https:')
  const proof = keyring.mac('session', said(secure, until), MAC_BYTES).toString('base64url')
  return `/picture?${new URLSearchParams({ u: secure, t: String(until), p: proof }).toString()}`
}

/** Fetches a picture and gives it to the browser; 404 for an address that is not ours or too old. */
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
  if (!TYPES.test(type.trim())) return context.text('That is no picture.\n', 404)
  context.header('Cache-Control', 'private, max-age=600')
  return context.body(new Uint8Array(fetched.bytes), 200, { 'Content-Type': type.trim() })
}
