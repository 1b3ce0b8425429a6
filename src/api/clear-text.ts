// What port 80 answers: the proofs that a certificate authority asks for (RFC 8555 §8.3), and for all else the way to HTTPS.
import { Hono } from 'hono'

export interface ClearTextDeps {
  /** What a proof's token is answered; undefined: there is none of that name. */
  proofOf: (token: string) => string | undefined
  /** Whether we have a certificate for a host. */
  serves: (host: string) => boolean
  /** Where everybody else is led: an origin with https. */
  origin: () => string
}

export function createClearText({ origin, proofOf, serves }: ClearTextDeps): Hono {
  const app = new Hono()
  app.get('/.well-known/acme-challenge/:token', (context) => {
    const proof = proofOf(context.req.param('token'))
    return proof === undefined ? context.text('There is nothing here.\n', 404) : context.text(proof)
  })
  app.get('/.well-known/mta-sts.txt', (context) => context.text('MTA-STS policies are read over HTTPS.\n', 404))
  app.all('*', (context) => {
    const { pathname, search } = new URL(context.req.url)
    const host = (context.req.header('host') ?? '').replace(/:\d+$/, '').toLowerCase()
    // Never where a request says: only to hosts that are ours.
    return context.redirect(`${serves(host) ? `https://${host}` : origin()}${pathname}${search}`, 301)
  })
  return app
}
