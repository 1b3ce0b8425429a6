// Secrets that a page shows once: a new token, the secret of a webhook. The form that made one leads to the page, so
// that a reload makes no second one; the secret waits here for that page, in memory alone.
//
// A secret is shown to the session that made it, once, and is forgotten after five minutes.
import { MINUTE, type Clock } from '../base/clock.ts'
import { newSecret } from '../base/ids.ts'

const KEPT = 5 * MINUTE
const MOST = 1000

interface KeptSecret {
  session: string
  secret: string
  until: number
}

export class Once {
  readonly #clock: Pick<Clock, 'now'>
  /** In the order of their end. */
  readonly #kept = new Map<string, KeptSecret>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Keeps a secret for a session; returns the name under which it is taken. */
  keep(session: string, secret: string): string {
    this.#forget()
    if (this.#kept.size >= MOST) this.#kept.delete(this.#kept.keys().next().value!)
    const name = newSecret('')
    this.#kept.set(name, { session, secret, until: this.#clock.now() + KEPT })
    return name
  }

  /** The secret of this name, for its session and for the first time; else undefined. */
  take(session: string, name: string): string | undefined {
    this.#forget()
    const kept = this.#kept.get(name)
    if (kept?.session !== session) return undefined
    this.#kept.delete(name)
    return kept.secret
  }

  #forget(): void {
    for (const [name, { until }] of this.#kept) if (until <= this.#clock.now()) this.#kept.delete(name)
  }
}
