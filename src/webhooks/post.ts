// Makes one POST request. All of it (look-up, connection, TLS, headers, body) ends within the timeout. Redirects are
// not followed, the address that the socket connects to is checked, the certificate must be valid, and only a few KB of
// the answer are read.
import { counters } from '../base/counters.ts'
import { X509Certificate, createHmac, randomBytes } from 'node:crypto'
import type { Agent } from 'node:https'
import { codeOf, OperatorError } from '../base/errors.ts'
import { readAuthorities } from '../base/tls.ts'
import type { FetchDeps } from '../net/fetch.ts'
import { isLocalHttp } from '../net/guard.ts'
import { ask, keptConnections, within, wordsFor, type HttpsFault } from '../net/https.ts'
import { forLog } from '../base/clean-text.ts'

export interface Posted {
  /** Null without a status line. */
  status: number | null
  /** At most 4 KB of the body, cleaned, or null without a body. */
  body: string | null
  retryAfter: string | undefined
  /** The reason of a failure, or null if the response was read to its end. */
  reason: string | null
}

/** The authorities in the operator's file. Throws an OperatorError. */
export function authoritiesIn(caFile: string): string | undefined {
  try {
    const pem = readAuthorities(caFile)
    if (pem !== undefined) void new X509Certificate(pem)
    return pem
  } catch (thrown) {
    throw new OperatorError(
      `"tls.ca_file": ${caFile} contains no valid PEM certificate (${codeOf(thrown)}); use a PEM file.`,
    )
  }
}

const MAX_READ = 64 * 1024
const MAX_KEPT = 4 * 1024

export class Poster {
  readonly #deps: FetchDeps
  readonly #agent: Agent
  readonly #timeout: number

  /** `timeout` in ms. */
  constructor(deps: FetchDeps, timeout: number) {
    this.#deps = deps
    this.#timeout = timeout
    this.#agent = keptConnections(deps, authoritiesIn(deps.caFile))
  }

  close(): void {
    this.#agent.destroy()
  }

  async post(text: string, headers: Record<string, string>, body: string): Promise<Posted> {
    const url = new URL(text)
    const answer = await within(this.#timeout, (signal) =>
      ask(url, {
        method: 'POST',
        headers: { ...headers, 'content-length': Buffer.byteLength(body), 'user-agent': 'Postrider-Webhooks' },
        body,
        signal,
        guard: this.#deps,
        ...(isLocalHttp(this.#deps, url) ? { plain: true } : { agent: this.#agent }),
        most: MAX_READ,
        kept: MAX_KEPT,
      }),
    )
    const { fault, octets } = answer
    const status = answer.status === 0 ? null : answer.status
    counters.webhooks.add({ result: status === null ? 'error' : `${String(status)[0]}xx` })
    return {
      status,
      body: status === null ? null : forLog(octets.toString(), MAX_KEPT),
      retryAfter: answer.headers['retry-after'],
      // Only the status matters, so the rest of a long body is not read.
      reason: !fault || fault.kind === 'large' ? null : reasonOf(fault),
    }
  }
}

const reasonOf = (fault: HttpsFault): string =>
  fault.kind === 'cut' ? 'the response ended before it was complete' : forLog(wordsFor(fault), 200)

// Signatures and secrets of Standard Webhooks 1.0.0 (specification "Signature", D52).

const PREFIX = 'whsec_'

/** whsec_ + base64 of 32 random bytes. */
export const newSecret = (): string => PREFIX + randomBytes(32).toString('base64')

/** The last four characters, which may be shown later. */
export const hintOf = (secret: string): string => secret.slice(-4)

/** The webhook-signature header: one signature for each secret, newest first. `seconds` is Unix time. */
export function signatureHeader(secrets: readonly string[], id: string, seconds: number, body: string): string {
  return secrets
    .map((secret) => {
      const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
      return `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`
    })
    .join(' ')
}
