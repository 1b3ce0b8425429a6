// Limits wrong tokens by client address, for all HTTP endpoints together. Each wrong token is logged in one fixed form.
// Beyond the limit the answer is 429 for some time. A valid token from the same address always works, because many
// users may share one address.
import type { MiddlewareHandler } from 'hono'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import { RateLimit } from '../base/rates.ts'
import { answerError, type ErrorDeps } from '../jsonapi/errors.ts'
import { clientAddress, rateKey, type ClientFacts } from '../net/client-address.ts'

/** The maximum number of wrong tokens of one address, as a burst and per second. */
const BURST = 20
const PER_SECOND = 0.2

/**
 * The context variable of an endpoint whose answer to a wrong token is not 401, or whose 401 has other reasons: false
 * unless the token is wrong, else a function that makes the body of a 429 in JSON.
 */
export const WRONG_TOKEN = 'wrongToken'
export type WrongToken = false | ((sentence: string) => unknown)

export interface WrongTokensDeps extends ErrorDeps {
  config: Pick<Config, 'http'>
}

const JSON_TYPE = { 'Content-Type': 'application/json' }

export class WrongTokens {
  readonly #deps: WrongTokensDeps
  readonly #rates: RateLimit

  constructor(deps: WrongTokensDeps) {
    this.#deps = deps
    this.#rates = new RateLimit(deps.clock, PER_SECOND, BURST)
  }

  /** Checks every answer of all endpoints. A 401 to a request with a token is counted, and may become 429. */
  readonly watch: MiddlewareHandler = async (context, next) => {
    await next()
    const own = context.get(WRONG_TOKEN) as WrongToken | undefined
    const slowly = (own ?? context.res.status === 401) && this.judge(context, context.req.path, own)
    if (!slowly) return
    // Removes the WWW-Authenticate header of the first answer. Its CORS headers stay.
    context.res.headers.delete('WWW-Authenticate')
    context.res = context.body(slowly.body, 429, slowly.headers)
  }

  /** Counts a 401 response. Returns the 429 to send instead if the client has sent too many wrong tokens. */
  judge(
    client: ClientFacts,
    path: string,
    own: WrongToken = false,
  ): { headers: Record<string, string>; body: string } | undefined {
    if (client.req.header('authorization') === undefined) return undefined
    const { config, log } = this.#deps
    const { allowed, reset } = this.#rates.take(rateKey(client, config.http))
    if (allowed) {
      log.warn('authentication_failed', { service: 'api', address: clientAddress(client, config.http) })
      return undefined
    }
    const sentence = `Too many requests with a wrong token. Try again in ${reset} s.`
    const { headers, body } = own
      ? { headers: JSON_TYPE, body: JSON.stringify(own(sentence)) }
      : this.#slowly(path, sentence)
    return { headers: { ...headers, 'Retry-After': String(reset) }, body }
  }

  /** The answer in the format of the requested endpoint. */
  #slowly(path: string, sentence: string): { headers: Record<string, string>; body: string } {
    if (path.startsWith('/api/')) return answerError(refuse('rate_limited', sentence), this.#deps)
    if (path === '/mcp')
      return {
        headers: JSON_TYPE,
        body: JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: sentence }, id: null }),
      }
    if (path.startsWith('/oauth/'))
      return {
        headers: JSON_TYPE,
        body: JSON.stringify({ error: 'temporarily_unavailable', error_description: sentence }),
      }
    return { headers: { 'Content-Type': 'text/plain; charset=utf-8' }, body: `${sentence}\n` }
  }
}
