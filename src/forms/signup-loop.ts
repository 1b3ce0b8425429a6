// The loop of the sign-ups. It ends those whose link has expired, whose form or audience was deleted, or whose
// confirmation email bounced or was reported as spam, and sends what waits for a form that is open again.
import { SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { AUDIENCE_REMOVED } from '../campaigns/audiences.ts'
import type { Store } from '../store/database.ts'
import { EVENTS } from '../store/events.ts'
import { raw } from '../store/query.ts'
import { endSignup } from './confirm.ts'
import { FORM_REMOVED, formByKey } from './forms.ts'
import { askToConfirm, SIGNED_UP, type Signup } from './signup.ts'
import { withAudience, type SignupEmailDeps } from './signup-email.ts'

export interface SignupLoopDeps extends SignupEmailDeps {
  store: Store
  clock: Clock
  log: Log
  /** Whether the system clock is unreliable, so that no sign-up may expire (D120). */
  doubtful: () => boolean
}

/** The most sign-ups of one transaction. */
const AT_ONCE = 100
/** While sign-ups wait, the loop checks this often whether their form is open. */
const LOOK_EVERY = 5 * SECOND

export class SignupLoop {
  readonly #deps: SignupLoopDeps
  readonly #loop: Loop

  constructor(deps: SignupLoopDeps) {
    this.#deps = deps
    const { clock, log } = deps
    this.#loop = new Loop({ name: 'signups', clock, log, run: (now) => this.#run(now) })
    // The results of emails are events. A trigger has made the sign-up due.
    for (const news of [EVENTS, SIGNED_UP, AUDIENCE_REMOVED, FORM_REMOVED]) deps.store.on(news, () => this.#loop.ring())
  }

  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number | null> {
    const { doubtful, store } = this.#deps
    if (doubtful()) return now + LOOK_EVERY
    for (;;) {
      const due = store.all(
        raw<Signup>(
          `select * from signups where key in (select key from signups where expires_at <= ?
             union all select key from signups where state = 'waiting'
               and form_key in (select key from forms where status = 'closed')
             union all select key from signups where form_key in (select f.key from audiences a
               join forms f on f.audience_key = a.key where a.deleted_at is not null or f.deleted_at is not null)
             limit ${AT_ONCE})`,
          [now],
        ),
      )
      if (due.length === 0) break
      await store.write((tx) => {
        for (const { key } of due) {
          const signup = tx.first(raw<Signup>('select * from signups where key = ?', [key]))
          if (signup) endSignup(tx, this.#deps, signup, now)
        }
      })
    }
    const waits = await this.#sendWaiting(now)
    const next = store.first(raw<{ at: number | null }>('select min(expires_at) as at from signups'))?.at ?? null
    return waits ? Math.min(now + LOOK_EVERY, next ?? Infinity) : next
  }

  /** Sends the confirmation emails of forms that are open again. Returns whether sign-ups still wait. */
  async #sendWaiting(now: number): Promise<boolean> {
    const { store } = this.#deps
    for (let after = 0; ;) {
      const waiting = store.all(
        raw<Signup>(
          `select * from signups where state = 'waiting' and key > ?
             and form_key in (select key from forms where status = 'open') order by key limit ${AT_ONCE}`,
          [after],
        ),
      )
      if (waiting.length === 0) break
      after = waiting.at(-1)?.key ?? after
      await store.write((tx) => {
        for (const signup of waiting) {
          const form = formByKey(tx, signup.form_key)
          const of = form?.status === 'open' ? withAudience(tx, form) : undefined
          if (of) askToConfirm(tx, this.#deps, of, signup, now)
        }
      })
    }
    return store.first(raw(`select 1 from signups where state = 'waiting' limit 1`)) !== undefined
  }
}
