// HTTPS requests to a certificate authority: small documents, limited time, and an additional CA if the operator names
// one.
import type { IncomingHttpHeaders } from 'node:http'
import { ask, within } from '../net/https.ts'

export interface CaAnswer {
  status: number
  headers: IncomingHttpHeaders
  text: string
}

/** The certificate authority gave no answer, or a malformed one: the request is repeated later. */
export class NoAnswer extends Error {}

const TIMEOUT = 30_000
const MAX_OCTETS = 1024 * 1024

export type Fetch = (url: string, options?: { method?: 'GET' | 'HEAD' | 'POST'; body?: string }) => Promise<CaAnswer>

/** `authority`: PEM of the CA of the directory itself, in addition to the well-known CAs. */
export function createFetch(authority: string | undefined, userAgent: string): Fetch {
  return async (text, { body, method } = {}) => {
    const url = new URL(text)
    const type = body === undefined ? {} : { 'content-type': 'application/jose+json' }
    // Each request has its own connection: a kept one may be closed by the authority at the moment it is used.
    const { fault, headers, octets, status } = await within(TIMEOUT, (signal) =>
      ask(url, {
        method,
        signal,
        headers: { 'user-agent': userAgent, ...type },
        body,
        authorities: () => authority,
        most: MAX_OCTETS,
      }),
    )
    if (fault) throw new NoAnswer(`${url.host} does not answer: ${fault.error.message}`)
    return { status, headers, text: octets.toString() }
  }
}
