// Counts wrong tokens by the client's address: each is logged in a fixed form, and after some the answer is 429 for a
// while. Good tokens from the same address always work, because many people may share one.
import type { Context } from 'hono'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse, type Refusal } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { RateLimit } from '../accounts/rates.ts'
import { clientAddress, rateKey } from './client-address.ts'

/** Wrong tokens that one address may send at once, and after that per second. */
const BURST = 20
const PER_SECOND = 0.2

export interface WrongTokensDesk {
  clock: Clock
  log: Log
  config: Pick<Config, 'http'>
}

export class WrongTokens {
  readonly #desk: WrongTokensDesk
  readonly #rates: RateLimit

  constructor(desk: WrongTokensDesk) {
    this.#desk = desk
    this.#rates = new RateLimit(desk.clock, PER_SECOND, BURST)
  }

  /**
   * The answer to a request that was refused with 401:
   * the same, or 429 when its address has sent too many wrong tokens.
   */
  judge(context: Context, refusal: Refusal): Refusal {
    if (refusal.status !== 401 || context.req.header('authorization') === undefined) return refusal
    const { config, log } = this.#desk
    const { allowed, reset } = this.#rates.take(rateKey(context, config.http))
    if (allowed) {
      log.warn('authentication failed', { service: 'api', address: clientAddress(context, config.http) })
      return refusal
    }
    return refuse('rate_limited', `Too many requests with a wrong token; try again in ${reset} s.`, undefined, {
      'Retry-After': String(reset),
    })
  }
}
