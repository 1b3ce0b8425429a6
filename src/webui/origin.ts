// Where a request comes from, as the browser says: a page of this server, another site, or the person's own hand.
import type { Context } from 'hono'
import type { Config } from '../base/config.ts'

/** What says where this server is reached. */
interface OriginDeps {
  config: { http: Pick<Config['http'], 'public_url'> }
}

/** A path of this server that a request names, such as the page after the sign-in; '/' for anything else. */
export const ownPath = (given: string | undefined): string =>
  given !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(given) && given.length < 2000 ? given : '/'

/** Whether a request comes from a page of this server; browsers send the origin of a form (RFC 6454). */
export function isOurs({ config }: OriginDeps, context: Context): boolean {
  const origin = context.req.header('origin')
  if (origin === undefined || origin === 'null') {
    const site = context.req.header('sec-fetch-site')
    return site === undefined || site === 'same-origin' || site === 'none'
  }
  const { host, protocol } = new URL(context.req.url)
  const here = new URL(config.http.public_url)
  // A page over http may be anybody's: where this server is reached over https, it is another origin (RFC 6454 §4).
  const secure = protocol === 'https:' || here.protocol === 'https:'
  return origin === here.origin || origin === `https://${host}` || (!secure && origin === `http://${host}`)
}

/** Whether no other site led here (Fetch Metadata §2.4); on loopback a request without the header counts too. */
export function openedByHand({ config }: OriginDeps, context: Context): boolean {
  const site = context.req.header('sec-fetch-site')
  return site === undefined
    ? /^(?:localhost|127\.|\[::1\])/.test(new URL(config.http.public_url).hostname)
    : site === 'none' || site === 'same-origin'
}
