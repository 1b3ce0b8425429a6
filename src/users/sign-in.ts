// Sign-in with a password. After a few wrong passwords the next try must wait. After more, the client is blocked for
// minutes, and so is this client for this account. The answer never shows whether a user exists. Tries at one account
// from all clients together are only slowed down. Otherwise anyone who knows an address could lock its owner out.
import { must } from '../base/errors.ts'
import { counters } from '../base/counters.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { customerOf } from '../base/network.ts'
import type { Reader } from '../store/database.ts'
import { checkPassword, findUser, NOBODY, type User } from './users.ts'

/** The number of wrong passwords before the next try must wait, and before all tries are refused for some time. */
const FREE = 3
const CLOSED_AT = 10
const CLOSED_FOR = 15 * MINUTE
const FORGOTTEN = 30 * MINUTE
const MAX_KNOWN = 10_000
/** After a wrong password, the wait until the next try at this account, from any client. */
const SLOWED = 2 * SECOND
/** The maximum number of passwords that are checked at the same time, because each check needs much memory and CPU. */
const AT_ONCE = 8

interface Failures {
  count: number
  at: number
  until: number
}

export type SignIn = { user: User } | { wait: number } | 'wrong'

export class SignIns {
  readonly #reader: Reader
  readonly #clock: Clock
  readonly #log: Pick<Log, 'warn'>
  readonly #failures = new Map<string, Failures>()
  #checking = 0

  constructor({ clock, log, store }: { store: Reader; clock: Clock; log: Pick<Log, 'warn'> }) {
    this.#reader = store
    this.#clock = clock
    this.#log = log
  }

  /** Tries a password. `client` is the client's address, which counts with its network. A wait is in ms. */
  async try(email: string, password: string, client: string): Promise<SignIn> {
    const user = findUser(this.#reader, email)
    const name = (user?.email ?? email.trim()).toLowerCase()
    // The check takes the same time if the user does not exist.
    const check = () => checkPassword(password, user?.password_hash ?? NOBODY)
    const result = await this.#guarded(name, client, async () => (await check()) && Boolean(user?.password_hash))
    return result === 'right' ? { user: must(user, 'The user of a right password') } : result
  }

  /** Tries a code of the second factor, with the same limits. */
  async tryCode(user: User, client: string, check: () => Promise<boolean>): Promise<SignIn> {
    const result = await this.#guarded(`code of ${user.email.toLowerCase()}`, client, check)
    return result === 'right' ? { user } : result
  }

  /**
   * Whether `client` may cause one more email, because a request for a sign-in link needs no proof. There is no limit
   * for each account here, with which others could block the owner's link. sign-in-links.ts limits the number of
   * emails.
   */
  mayAsk(client: string): boolean {
    const now = this.#clock.now()
    const key = `links of ${customerOf(client)}`
    if ((this.#failures.get(key)?.until ?? 0) > now) return false
    this.#fail(key, now, closing)
    return true
  }

  async #guarded(
    name: string,
    client: string,
    check: () => Promise<boolean>,
  ): Promise<'right' | 'wrong' | { wait: number }> {
    const customer = customerOf(client)
    const [account, address, pair] = [`user ${name}`, `client ${customer}`, `pair ${customer} ${name}`]
    const now = this.#clock.now()
    const wait = Math.max(...[account, address, pair].map((key) => (this.#failures.get(key)?.until ?? 0) - now))
    if (wait > 0) return { wait }
    if (this.#checking >= AT_ONCE) return { wait: SECOND }
    // A failure is counted before the password is checked, so that all simultaneous requests are counted.
    this.#fail(account, now, () => SLOWED)
    for (const key of [address, pair]) this.#fail(key, now, closing)
    this.#checking++
    const right = await check().finally(() => this.#checking--)
    if (!right) {
      counters.refused.add({ where: 'sign_in' })
      this.#log.warn('authentication_failed', { service: 'sign-in', address: client })
      return 'wrong'
    }
    this.#failures.delete(account)
    this.#failures.delete(pair)
    // Only this try of the client's address is uncounted. Otherwise the owner of one account could sign in there
    // between guesses at other accounts, and guess without limit.
    const known = this.#failures.get(address)
    if (known)
      this.#failures.set(address, { ...known, count: Math.max(0, known.count - 1), until: Math.min(known.until, now) })
    return 'right'
  }

  #fail(key: string, now: number, pauseAfter: (count: number) => number): void {
    if (this.#failures.size > MAX_KNOWN)
      for (const [old, { at, until }] of this.#failures)
        if (now - at > FORGOTTEN && until < now) this.#failures.delete(old)
    const known = this.#failures.get(key)
    const count = known && now - known.at < FORGOTTEN ? known.count + 1 : 1
    const pause = count > FREE ? pauseAfter(count) : 0
    this.#failures.set(key, { count: count >= CLOSED_AT ? FREE : count, at: now, until: now + pause })
  }
}

/** The wait doubles, starting at one second. After too many failures, tries are blocked. */
const closing = (count: number): number => (count >= CLOSED_AT ? CLOSED_FOR : SECOND * 2 ** (count - FREE - 1))
