// Wrong tokens by the address they come from, on every surface of HTTP alike: each is logged in one fixed form, and
// after some the answer is 429 until time has passed. A good token from the same address is served all the while: many
// people may share one.
import type { MiddlewareHandler } from 'hono'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { RateLimit } from '../accounts/rates.ts'
import { answerError } from '../jsonapi/errors.ts'
import { clientAddress, rateKey } from './client-address.ts'

/** Wrong tokens that one address may send at once, and after that per second. */
const BURST = 20
const PER_SECOND = 0.2

export interface WrongTokensDeps {
  clock: Clock
  log: Log
  config: Pick<Config, 'http'>
}

export class WrongTokens {
  readonly #deps: WrongTokensDeps
  readonly #rates: RateLimit

  constructor(deps: WrongTokensDeps) {
    this.#deps = deps
    this.#rates = new RateLimit(deps.clock, PER_SECOND, BURST)
  }

  /** Looks at every answer, whichever surface gave it: a 401 to a request with a token stays, or becomes 429. */
  readonly watch: MiddlewareHandler = async (context, next) => {
    await next()
    if (context.res.status !== 401 || context.req.header('authorization') === undefined) return
    const { config, log } = this.#deps
    const { allowed, reset } = this.#rates.take(rateKey(context, config.http))
    if (allowed) {
      log.warn('authentication failed', { service: 'api', address: clientAddress(context, config.http) })
      return
    }
    const sentence = `Too many requests with a wrong token; try again in ${reset} s.`
    const { headers, body } = this.#slowly(new URL(context.req.url).pathname, sentence)
    // What the first answer said of the token is not said any more; its headers of CORS stay.
    context.res.headers.delete('WWW-Authenticate')
    context.res = context.body(body, 429, { ...headers, 'Retry-After': String(reset) })
  }

  /** The answer in the form of the surface that was asked. */
  #slowly(path: string, sentence: string): { headers: Record<string, string>; body: string } {
    if (path.startsWith('/api/')) return answerError(refuse('rate_limited', sentence), this.#deps)
    const json = { 'Content-Type': 'application/json' }
    if (path === '/mcp')
      return {
        headers: json,
        body: JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: sentence }, id: null }),
      }
    if (path.startsWith('/oauth/'))
      return {
        headers: json,
        body: JSON.stringify({ error: 'temporarily_unavailable', error_description: sentence }),
      }
    return { headers: { 'Content-Type': 'text/plain; charset=utf-8' }, body: `${sentence}\n` }
  }
}
