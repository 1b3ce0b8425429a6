// Sign-in for SMTP: the password is an API token with the scope emails:send; the user name is ignored (D75). The answer
// to a wrong password is delayed, longer each time for the same address. Each wrong password is logged in a fixed form
// (docs/logs.md) for programs such as fail2ban.
import { must } from '../base/errors.ts'
import { keepNewest } from '../base/maps.ts'
import { counters } from '../base/counters.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { customerOf } from '../base/network.ts'
import type { RateLimit } from '../identity/rates.ts'
import { findToken, limitedKey, liveToken, noteUse, scopesOf, type KnownToken } from '../identity/tokens.ts'
import { agentOf, isSubscribed, UNSUBSCRIBED } from '../mail/accept/admit.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { wordsOf } from './refusals.ts'

export interface SendersDeps {
  store: Store
  clock: Clock
  log: Log
  /** Rate limits of tokens, for HTTP and SMTP together. */
  rates: RateLimit
}

/** The signed-in sender. */
export interface Sender {
  tokenKey: number
  userKey: number
}

/** The delay of the answer to the first wrong password; it doubles with each further one, up to the last delay. */
const FIRST_DELAY = SECOND / 4
const LAST_DELAY = 8 * SECOND
const FORGOTTEN = 30 * MINUTE
const MAX_KNOWN = 10_000

const WRONG: SmtpRefusal = {
  code: 535,
  text: '5.7.8 The password is not an API token of this server that may send mail',
}
const EXPIRED: SmtpRefusal = { code: 535, text: '5.7.8 The token has expired; create a new one' }
const GONE: SmtpRefusal = { code: 530, text: '5.7.0 The token was revoked, has expired, or may no longer send mail' }

const pausedAgent = statement<{ user_key: number; agent_id: string }>()((arg) =>
  db
    .selectFrom('agents')
    .select('key')
    .where('user_key', '=', arg.user_key)
    .where('agent_id', '=', arg.agent_id)
    .where('paused_at', 'is not', null),
)

export class Senders {
  readonly #deps: SendersDeps
  readonly #failures = new Map<string, { count: number; at: number }>()

  constructor(deps: SendersDeps) {
    this.#deps = deps
  }

  async login(password: string, client: string): Promise<{ who: Sender } | SmtpRefusal> {
    const { clock, store } = this.#deps
    const token = findToken(store, password)
    const known = token && maySend(token) ? token : undefined
    if (known && clock.now() < known.expires_at) {
      noteUse(store, known, clock.now())
      return { who: { tokenKey: known.key, userKey: known.user_key } }
    }
    await this.#slowly(client)
    return known ? EXPIRED : WRONG
  }

  /**
   * Refuses a sender whose token is invalid or over its rate limit; undefined: the sender may go on.
   * Never throws; a refusal because of the rate limit says how long to wait.
   */
  mayBegin(sender: Sender): SmtpRefusal | undefined {
    const gone = this.stillThere(sender)
    if (gone) return gone
    const { allowed, reset } = this.#deps.rates.take(must(this.tokenOf(sender), 'The token of a sender').id)
    return allowed ? undefined : { code: 450, text: `4.7.1 Too many mails; try again in ${reset} s` }
  }

  /** The token at present; undefined when it was revoked, has expired or has lost its scope. */
  tokenOf({ tokenKey }: Sender): KnownToken | undefined {
    const token = liveToken(this.#deps.store, tokenKey)
    return token && maySend(token) && this.#deps.clock.now() < token.expires_at ? token : undefined
  }

  /** Asked at MAIL, RCPT, DATA and the final dot: what was taken away holds at the next command (D77). */
  stillThere(sender: Sender): SmtpRefusal | undefined {
    const { store } = this.#deps
    const token = this.tokenOf(sender)
    if (!token) return GONE
    if (!isSubscribed(store, token.user_key)) return { code: 550, text: `5.7.1 ${UNSUBSCRIBED}` }
    const { agent_id, user_key } = token
    if (agent_id === null || !store.first(pausedAgent({ user_key, agent_id }))) return undefined
    return { code: 550, text: `5.7.1 ${wordsOf(`The agent ${agent_id} of this token is paused`)}` }
  }

  #slowly(client: string): Promise<void> {
    const { clock, log } = this.#deps
    const now = clock.now()
    const key = customerOf(client)
    const known = this.#failures.get(key)
    const count = known && now - known.at < FORGOTTEN ? known.count + 1 : 1
    this.#failures.delete(key)
    this.#failures.set(key, { count, at: now })
    keepNewest(this.#failures, MAX_KNOWN)
    counters.refused.add({ where: 'submission' })
    log.warn('authentication failed', { service: 'submission', address: client })
    const delay = Math.min(LAST_DELAY, FIRST_DELAY * 2 ** Math.min(count - 1, 16))
    return new Promise((resolve) => clock.wake(now + delay, resolve))
  }
}

/** The agent and the daily limit of a mail that a token sends. Throws a Refusal when it may not send as this agent. */
export const termsOf = (token: KnownToken | undefined, named: string | undefined) => ({
  agent_id: agentOf(token?.agent_id, named),
  cappedToken: token && limitedKey(token),
})

const maySend = (token: KnownToken): boolean => scopesOf(token).includes('emails:send')
