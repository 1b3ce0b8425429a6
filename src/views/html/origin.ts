// The origin of a request according to the browser: a page of this server, another site, or the address bar.
import type { Context } from 'hono'
import type { Config } from '../../base/config.ts'

/** The configuration of this server's address. */
interface OriginDeps {
  config: { http: Pick<Config['http'], 'public_url'> }
}

/** An authorization request of OAuth has a long query. */
const MAX_PATH = 9000

/**
 * Returns the path of this server that a request names, such as the page after the sign-in, or '/' for an invalid one.
 */
export const ownPath = (given: string | undefined): string =>
  given !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(given) && given.length < MAX_PATH ? given : '/'

/** Whether a request comes from a page of this server. Browsers send the origin of a form (RFC 6454). */
export function isOurs({ config }: OriginDeps, context: Context): boolean {
  const origin = context.req.header('origin')
  if (origin === undefined || origin === 'null') {
    const site = context.req.header('sec-fetch-site')
    return site === undefined || site === 'same-origin' || site === 'none'
  }
  const { host, protocol } = new URL(context.req.url)
  const here = new URL(config.http.public_url)
  // Others can forge a page over http. If this server is reached over https, it is another origin (RFC 6454 §4).
  const secure = protocol === 'https:' || here.protocol === 'https:'
  return origin === here.origin || origin === `https://${host}` || (!secure && origin === `http://${host}`)
}

/** Whether no other site led here (Fetch Metadata §2.4). On loopback, a request without the header counts too. */
export function openedByHand({ config }: OriginDeps, context: Context): boolean {
  const site = context.req.header('sec-fetch-site')
  return site === undefined
    ? /^(?:localhost|127\.|\[::1\])/.test(new URL(config.http.public_url).hostname)
    : site === 'none' || site === 'same-origin'
}
