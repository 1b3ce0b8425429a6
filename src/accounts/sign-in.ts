// Signing in with a password: slowed after a few wrong ones, then closed for minutes, for the address as for the client; and never a word
// on whether a user exists.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { checkPassword, findUser, NOBODY, type User } from './users.ts'

/** Wrong passwords before the next has to wait; and before nothing is taken for a while. */
const FREE = 3
const CLOSED_AT = 10
const CLOSED_FOR = 15 * MINUTE
const FORGOTTEN = 30 * MINUTE
const MAX_KNOWN = 10_000

interface Failures {
  count: number
  at: number
  until: number
}

export type SignIn = { user: User } | { wait: number } | 'wrong'

export class SignIns {
  readonly #reader: Reader
  readonly #clock: Clock
  readonly #failures = new Map<string, Failures>()

  constructor(reader: Reader, clock: Clock) {
    this.#reader = reader
    this.#clock = clock
  }

  /** `client` is the address that asks. A wait is in ms. */
  async try(email: string, password: string, client: string): Promise<SignIn> {
    const keys = [`user ${email.trim().toLowerCase()}`, `client ${client}`]
    const now = this.#clock.now()
    const wait = Math.max(...keys.map((key) => (this.#failures.get(key)?.until ?? 0) - now))
    if (wait > 0) return { wait }
    // Counted before the password is looked at: many at once are many.
    for (const key of keys) this.#fail(key, now)
    const user = findUser(this.#reader, email.trim())
    // Whoever does not exist takes as long.
    const right = await checkPassword(password, user?.password_hash ?? NOBODY)
    if (!right || !user?.password_hash) return 'wrong'
    const [account, address] = keys as [string, string]
    this.#failures.delete(account)
    // Only this one is taken back for the address: who owns one account must not get free guesses at all others by it.
    const known = this.#failures.get(address)
    if (known)
      this.#failures.set(address, { ...known, count: Math.max(0, known.count - 1), until: Math.min(known.until, now) })
    return { user }
  }

  #fail(key: string, now: number): void {
    if (this.#failures.size > MAX_KNOWN)
      for (const [old, { at, until }] of this.#failures)
        if (now - at > FORGOTTEN && until < now) this.#failures.delete(old)
    const known = this.#failures.get(key)
    const count = known && now - known.at < FORGOTTEN ? known.count + 1 : 1
    const pause = count >= CLOSED_AT ? CLOSED_FOR : count > FREE ? SECOND * 2 ** (count - FREE - 1) : 0
    this.#failures.set(key, { count: count >= CLOSED_AT ? FREE : count, at: now, until: now + pause })
  }
}
