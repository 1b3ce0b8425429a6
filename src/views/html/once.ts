// Values that a page shows once: a new token, the secret of a webhook, the sentence that confirms an action. The form
// leads to the page, so that a reload does not repeat the action, and the text waits for that page in memory. It is
// shown once, only to its session, and is deleted after five minutes.
import { MINUTE, type Clock } from '../../base/clock.ts'
import { newSecret } from '../../base/ids.ts'

const KEPT = 5 * MINUTE
const MOST = 1000
/** The maximum of one session, so that many actions of one user do not displace the new token of another. */
const MOST_OF_SESSION = 20

interface KeptWords {
  session: string
  words: string
  until: number
}

export class Once {
  readonly #clock: Pick<Clock, 'now'>
  /** In the order of their expiry. */
  readonly #kept = new Map<string, KeptWords>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Keeps a text for a session. Returns the name with which it is read. */
  keep(session: string, words: string): string {
    this.#forget()
    const names = [...this.#kept.keys()]
    const own = names.filter((name) => this.#kept.get(name)?.session === session)
    const [oldest] = own.length >= MOST_OF_SESSION ? own : names.length >= MOST ? names : []
    if (oldest !== undefined) this.#kept.delete(oldest)
    const name = newSecret('')
    this.#kept.set(name, { session, words, until: this.#clock.now() + KEPT })
    return name
  }

  /** Returns the text of this name to its session once, or undefined. */
  take(session: string, name: string): string | undefined {
    this.#forget()
    const kept = this.#kept.get(name)
    if (kept?.session !== session) return undefined
    this.#kept.delete(name)
    return kept.words
  }

  #forget(): void {
    for (const [name, { until }] of this.#kept) if (until <= this.#clock.now()) this.#kept.delete(name)
  }
}
