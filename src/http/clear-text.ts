// The answers of port 80: proofs for a certificate authority (RFC 8555 §8.3), and redirects to HTTPS.
import { Hono } from 'hono'

export interface ClearTextDeps {
  /** Returns the answer to a challenge token, or undefined if the token is unknown. */
  proofOf: (token: string) => string | undefined
  /** Whether we have a certificate for a host. */
  serves: (host: string) => boolean
  /** The https origin for requests to other hosts. */
  origin: () => string
}

export function createClearText({ origin, proofOf, serves }: ClearTextDeps): Hono {
  const app = new Hono()
  app.get('/.well-known/acme-challenge/:token', (context) => {
    const proof = proofOf(context.req.param('token'))
    return proof === undefined ? context.text('Not found. Check the URL.\n', 404) : context.text(proof)
  })
  app.get('/.well-known/mta-sts.txt', (context) =>
    context.text('MTA-STS policies are available over HTTPS only.\n', 404),
  )
  app.all('*', (context) => {
    const { pathname, search } = new URL(context.req.url)
    const host = (context.req.header('host') ?? '').replace(/:\d+$/, '').toLowerCase()
    // Redirects only to our own hosts, never to a host that the request names.
    return context.redirect(`${serves(host) ? `https://${host}` : origin()}${pathname}${search}`, 301)
  })
  return app
}
