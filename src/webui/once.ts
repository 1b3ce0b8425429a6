// What a page shows once: a new token, the secret of a webhook, the sentence that confirms an action. The form leads to
// the page, so that a reload does nothing a second time; the words wait here for that page, in memory alone.
//
// They are shown to the session that they are for, once, and are forgotten after five minutes.
import { MINUTE, type Clock } from '../base/clock.ts'
import { newSecret } from '../base/ids.ts'

const KEPT = 5 * MINUTE
const MOST = 1000
/** The most of one session: who acts a thousand times must not push out the new token of somebody else. */
const MOST_OF_SESSION = 20

interface KeptWords {
  session: string
  words: string
  until: number
}

export class Once {
  readonly #clock: Pick<Clock, 'now'>
  /** In the order of their end. */
  readonly #kept = new Map<string, KeptWords>()

  constructor(clock: Pick<Clock, 'now'>) {
    this.#clock = clock
  }

  /** Keeps words for a session; returns the name under which they are taken. */
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

  /** The words of this name, for their session and for the first time; else undefined. */
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
