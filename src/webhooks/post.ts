// Makes one POST request. All of it (look-up, connection, TLS, headers, body) ends within the timeout. Redirects are
// not followed, the address that the socket connects to is checked, the certificate must be valid, and only a few KB of
// the answer are read.
import { counters } from '../base/counters.ts'
import { X509Certificate } from 'node:crypto'
import type { Agent } from 'node:https'
import { codeOf, OperatorError } from '../base/errors.ts'
import { readAuthorities } from '../base/tls.ts'
import type { FetchDeps } from '../net/fetch.ts'
import { ask, keptConnections, within, wordsFor, type HttpsFault } from '../net/https.ts'
import { forLog } from '../base/clean-text.ts'

/** The result of a POST. */
export interface Posted {
  /** Null when no status line came. */
  status: number | null
  /** At most 4 KB of the body, cleaned; null when none came. */
  body: string | null
  /** The Retry-After header. */
  retryAfter: string | undefined
  /** Why it failed, as text; null when the answer was read to its end. */
  reason: string | null
}

/** The authorities in the operator's file. Throws an OperatorError. */
function authoritiesIn({ caFile }: FetchDeps): string | undefined {
  try {
    const pem = readAuthorities(caFile)
    if (pem !== undefined) void new X509Certificate(pem)
    return pem
  } catch (thrown) {
    throw new OperatorError(`tls.ca_file: ${caFile} holds no certificate in PEM that can be read (${codeOf(thrown)}).`)
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
    this.#agent = keptConnections(deps, authoritiesIn(deps))
  }

  close(): void {
    this.#agent.destroy()
  }

  async post(text: string, headers: Record<string, string>, body: string): Promise<Posted> {
    const answer = await within(this.#timeout, (signal) =>
      ask(new URL(text), {
        method: 'POST',
        headers: { ...headers, 'content-length': Buffer.byteLength(body), 'user-agent': 'Postrider-Webhooks' },
        body,
        signal,
        guard: this.#deps,
        agent: this.#agent,
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
      // The status is the answer; the rest of a long body is not needed.
      reason: !fault || fault.kind === 'large' ? null : reasonOf(fault),
    }
  }
}

const reasonOf = (fault: HttpsFault): string =>
  fault.kind === 'cut' ? 'the answer ended before it was whole' : forLog(wordsFor(fault), 200)
