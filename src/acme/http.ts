// HTTPS requests to a certificate authority: small documents, limited time, and an additional CA if the operator names
// one.
import { request } from 'node:https'
import { rootCertificates } from 'node:tls'

export interface CaAnswer {
  status: number
  headers: Record<string, string>
  text: string
}

/** The certificate authority gave no answer, or a malformed one: the request is repeated later. */
export class NoAnswer extends Error {}

const TIMEOUT = 30_000
const MAX_OCTETS = 1024 * 1024

export type Fetch = (url: string, options?: { method?: 'GET' | 'HEAD' | 'POST'; body?: string }) => Promise<CaAnswer>

/** `authority`: PEM of the CA of the directory itself, in addition to the well-known CAs. */
export function createFetch(authority: string | undefined, userAgent: string): Fetch {
  const ca = authority === undefined ? {} : { ca: [...rootCertificates, authority] }
  return (url, { body, method = 'GET' } = {}) =>
    new Promise((resolve, reject) => {
      const failed = (why: string): void => reject(new NoAnswer(`${new URL(url).host} does not answer: ${why}`))
      const type = body === undefined ? {} : { 'Content-Type': 'application/jose+json' }
      const asking = request(
        url,
        // Each request has its own connection: a kept one may be closed by the authority at the moment it is used.
        {
          method,
          ...ca,
          agent: false,
          headers: { 'User-Agent': userAgent, ...type },
          signal: AbortSignal.timeout(TIMEOUT),
        },
        (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (chunk: string) => {
            text += chunk
            if (text.length > MAX_OCTETS) response.destroy(new Error('its answer is too large'))
          })
          response.on('error', (error) => failed(error.message))
          response.on('end', () => {
            const headers = Object.fromEntries(
              Object.entries(response.headers).map(([name, value]) => [
                name,
                Array.isArray(value) ? value.join(', ') : (value ?? ''),
              ]),
            )
            resolve({ status: response.statusCode ?? 0, headers, text })
          })
        },
      )
      asking.on('error', (error) => failed(error.message))
      asking.end(body)
    })
}
