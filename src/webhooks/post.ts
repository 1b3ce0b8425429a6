// Makes one POST request. All of it (look-up, connection, TLS, headers, body) ends within the timeout. Redirects are
// not followed, the address that the socket connects to is checked, the certificate must be valid, and only a few KB of
// the answer are read.
import { counters } from '../base/counters.ts'
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { createSecureContext, rootCertificates } from 'node:tls'
import { isIP } from 'node:net'
import { SECOND } from '../base/clock.ts'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { ForbiddenAddress, guardedLookup, type Guard } from '../net/guard.ts'
import { cleanText } from '../smtp/reply.ts'

/** The result of a POST. */
export interface Response {
  /** Null when no status line came. */
  status: number | null
  /** At most 4 KB of the body, cleaned; null when none came. */
  body: string | null
  /** The Retry-After header. */
  retryAfter: string | undefined
  /** Why it failed, as text; null when the answer was read to its end. */
  reason: string | null
}

/** The text of the file of authorities. Throws an OperatorError. */
function authorities(caFile: string): string {
  try {
    const pem = readFileSync(caFile, 'utf8')
    void new X509Certificate(pem)
    return pem
  } catch (thrown) {
    throw new OperatorError(`tls.ca_file: ${caFile} holds no certificate in PEM that can be read (${codeOf(thrown)}).`)
  }
}

const MAX_READ = 64 * 1024
const MAX_KEPT = 4 * 1024

export class Poster {
  readonly #guard: Guard
  readonly #agent: Agent
  readonly #timeout: number

  /** `caFile` names extra certificate authorities (PEM), '' for none; `timeout` in ms. */
  constructor(guard: Guard, caFile: string, timeout: number) {
    this.#guard = guard
    this.#timeout = timeout
    this.#agent = new Agent({
      keepAlive: true,
      maxFreeSockets: 1000,
      lookup: guardedLookup(guard),
      // The context is made once: a context with a list of authorities takes
      // milliseconds, and the list would be part of every socket's name.
      ...(caFile === ''
        ? {}
        : { secureContext: createSecureContext({ ca: [...rootCertificates, authorities(caFile)] }) }),
    })
  }

  close(): void {
    this.#agent.destroy()
  }

  async post(text: string, headers: Record<string, string>, body: string): Promise<Response> {
    const response = await this.#post(text, headers, body)
    counters.webhooks.add({ result: response.status === null ? 'error' : `${String(response.status)[0]}xx` })
    return response
  }

  #post(text: string, headers: Record<string, string>, body: string): Promise<Response> {
    const failed = (reason: string): Response => ({ status: null, body: null, retryAfter: undefined, reason })
    const url = new URL(text)
    const literal = url.hostname.replace(/^\[|\]$/g, '')
    if (isIP(literal) && !this.#guard.allowed(literal))
      return Promise.resolve(failed(`leads to an address that is not connected to (${literal})`))
    return new Promise((resolve) => {
      const outgoing = request(url, {
        method: 'POST',
        agent: this.#agent,
        headers: { ...headers, 'content-length': Buffer.byteLength(body), 'user-agent': 'Postrider-Webhooks' },
      })
      let response: Omit<Response, 'reason'> | undefined
      const give = (result: Response): void => {
        clearTimeout(timer)
        resolve(result)
      }
      const late = `no whole answer within ${this.#timeout / SECOND} s`
      const timer = setTimeout(() => {
        give(response ? { ...response, reason: late } : failed(late))
        outgoing.destroy()
      }, this.#timeout)
      outgoing.on('response', (incoming) => {
        const chunks: Buffer[] = []
        let size = 0
        const far = (): Omit<Response, 'reason'> => ({
          status: incoming.statusCode ?? null,
          body: cleanText(Buffer.concat(chunks).subarray(0, MAX_KEPT).toString(), MAX_KEPT),
          retryAfter: incoming.headers['retry-after'],
        })
        response = far()
        incoming.on('data', (chunk: Buffer) => {
          size += chunk.length
          if (size - chunk.length < MAX_KEPT) chunks.push(chunk)
          response = far()
          if (size <= MAX_READ) return
          // The status is the answer; the rest of a long body is not needed.
          give({ ...response, reason: null })
          outgoing.destroy()
        })
        incoming.on('end', () =>
          give({ ...far(), reason: incoming.complete ? null : 'the answer ended before it was whole' }),
        )
        incoming.on('error', () => give({ ...far(), reason: 'the answer ended before it was whole' }))
      })
      outgoing.on('error', (error) =>
        give(response ? { ...response, reason: wordsFor(error) } : failed(wordsFor(error))),
      )
      outgoing.end(body)
    })
  }
}

const WORDS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ETIMEDOUT: 'no connection in time',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  ENOTFOUND: 'the host name has no address',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate chain is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate comes from an unknown authority',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host',
}

function wordsFor(error: Error): string {
  if (error instanceof ForbiddenAddress) return error.message
  return WORDS[codeOf(error)] ?? cleanText(messageOf(error), 200)
}
