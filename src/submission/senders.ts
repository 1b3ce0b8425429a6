// Sign-in for SMTP: the password is an API token with the scope emails:send. The user name is ignored (D75). The answer
// to a wrong password is delayed, longer each time for the same address. Each wrong password is logged in a fixed form
// (docs/logs.md) for programs such as fail2ban.
import { must, type Code, type Refusal } from '../base/errors.ts'
import { keepNewest } from '../base/maps.ts'
import { counters } from '../base/counters.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { customerOf } from '../base/network.ts'
import type { RateLimit } from '../base/rates.ts'
import { findToken, limitedKey, liveToken, noteUse, scopesOf, type KnownToken } from '../users/tokens.ts'
import { agentOf, isSubscribed, UNSUBSCRIBED } from '../mail/accept/admit.ts'
import type { SmtpRefusal } from '../smtp/answers.ts'
import type { Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'

export interface SendersDeps {
  store: Store
  clock: Clock
  log: Log
  /** Rate limits of tokens, for HTTP and SMTP together. */
  rates: RateLimit
}

export interface Sender {
  tokenKey: number
  userKey: number
}

/** The delay of the answer to the first wrong password. It doubles with each further one, up to the last delay. */
const FIRST_DELAY = SECOND / 4
const LAST_DELAY = 8 * SECOND
const FORGOTTEN = 30 * MINUTE
const MAX_KNOWN = 10_000

const WRONG: SmtpRefusal = {
  code: 535,
  text: '5.7.8 The password must be an API token of this server with the scope emails:send',
}
const EXPIRED: SmtpRefusal = { code: 535, text: '5.7.8 The token has expired; create a new one' }
const GONE: SmtpRefusal = {
  code: 530,
  text: '5.7.0 The token was revoked, has expired, or has lost the scope emails:send',
}

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
   * Rejects a sender whose token is invalid or over its rate limit, or returns undefined if the sender may continue.
   * Never throws. A rejection because of the rate limit contains the time to wait.
   */
  mayBegin(sender: Sender): SmtpRefusal | undefined {
    const gone = this.stillThere(sender)
    if (gone) return gone
    const { allowed, reset } = this.#deps.rates.take(must(this.tokenOf(sender), 'The token of a sender').id)
    return allowed ? undefined : { code: 450, text: `4.7.1 Too many messages; try again in ${reset} s` }
  }

  /** The token, or undefined if it was revoked, has expired or has lost its scope. */
  tokenOf({ tokenKey }: Sender): KnownToken | undefined {
    const token = liveToken(this.#deps.store, tokenKey)
    return token && maySend(token) && this.#deps.clock.now() < token.expires_at ? token : undefined
  }

  /** Called at MAIL, RCPT, DATA and the final dot: a revoked permission takes effect at the next command (D77). */
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
    log.warn('authentication_failed', { service: 'submission', address: client })
    const delay = Math.min(LAST_DELAY, FIRST_DELAY * 2 ** Math.min(count - 1, 16))
    return new Promise((resolve) => clock.wake(now + delay, resolve))
  }
}

/** The agent and the daily limit of an email that a token sends. Throws a Refusal if it may not send as this agent. */
export const termsOf = (token: KnownToken | undefined, named: string | undefined) => ({
  agent_id: agentOf(token?.agent_id, named),
  cappedToken: token && limitedKey(token),
})

const maySend = (token: KnownToken): boolean => scopesOf(token).includes('emails:send')

// The refusals of POST /outbound-emails as SMTP replies (docs/smtp.md): one table, so that each rule has one meaning.

/** Code and enhanced code by the API's error code (RFC 5321 §4.2.3, RFC 3463). */
const REPLIES: Partial<Record<Code, readonly [code: number, enhanced: string]>> = {
  not_found: [550, '5.7.1'],
  domain_not_active: [550, '5.7.1'],
  recipient_suppressed: [550, '5.7.1'],
  subscription_inactive: [550, '5.7.1'],
  agent_paused: [550, '5.7.1'],
  tracking_disabled: [554, '5.5.4'],
  idempotency_conflict: [554, '5.5.4'],
  volume_exceeded: [452, '4.2.2'],
  insufficient_storage: [452, '4.3.1'],
  overloaded: [451, '4.3.2'],
  message_too_large: [552, '5.3.4'],
  forbidden_attachment: [554, '5.7.0'],
  reserved_header: [554, '5.5.4'],
}
const ELSE = [554, '5.6.0'] as const
/** A reply line has at most 512 bytes with its codes (RFC 5321 §4.5.3.1.5). */
const MAX_TEXT = 400

export function replyTo({ problems }: Refusal): SmtpRefusal {
  const [first] = problems
  const [code, enhanced] = (first && REPLIES[first.code]) ?? ELSE
  return { code, text: `${enhanced} ${wordsOf(problems.map(({ detail }) => detail).join(' '))}` }
}

/**
 * Text that fits on one line of a reply, in ASCII (RFC 5321 §4.2). Common characters are replaced by words or ASCII
 * characters, so that the sentence keeps its meaning.
 */
export const wordsOf = (text: string): string =>
  text
    .replace(/(?<!\s)\s?§\s?/g, ' section ')
    .replace(/…/g, '...')
    .replace(/[‘’]/g, "'")
    .replace(/[“”]/g, '"')
    .replace(/[–—]/g, '-')
    .replace(/[^\x20-\x7e]+/g, '?')
    .trim()
    .slice(0, MAX_TEXT)
