// A local problem is one of this machine (disk, descriptors, memory, threads, keys, an internal error) that no email
// caused (D72). The code that meets the problem reports it here and retries. The log, /health, /metrics and the alert
// emails to the operator show it.
import { MINUTE, type Clock } from './clock.ts'
import { codeOf, messageOf } from './errors.ts'
import type { Log } from './log.ts'

export interface Trouble {
  /** The part that fails: "store", "spool", "compose", "storage" … */
  name: string
  /** A sentence for /health, without paths and addresses. */
  sentence: string
  /** The times of the first and the last report, in ms since the epoch. */
  since: number
  at: number
}

/** A problem that was not reported for this long counts as solved. */
const MEMORY = 15 * MINUTE
/** A problem that persists is logged again after this long. */
const LOG_AGAIN = 5 * MINUTE

export class Troubles {
  readonly #clock: Clock
  readonly #log: Log
  readonly #known = new Map<string, Trouble & { logged: number }>()

  constructor({ clock, log }: { clock: Clock; log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  /** Reports a problem. The first report is logged with its cause, and again every five minutes while it persists. */
  report(name: string, sentence: string, thrown?: unknown): void {
    const at = this.#clock.now()
    const known = this.#current(name, at)
    const again = !known || at - known.logged >= LOG_AGAIN
    this.#known.set(name, { name, sentence, since: known?.since ?? at, at, logged: again ? at : known.logged })
    if (!again) return
    const cause = thrown === undefined ? {} : { code: codeOf(thrown) || undefined, error: messageOf(thrown) }
    this.#log.error('problem_reported', { what: name, reason: sentence, ...cause })
  }

  /** Reports that the part works again. */
  clear(name: string): void {
    const known = this.#known.get(name)
    if (!known) return
    this.#known.delete(name)
    this.#log.warn('problem_cleared', { what: name, seconds: Math.round((this.#clock.now() - known.since) / 1000) })
  }

  /** Returns the present problems, oldest first. */
  list(): Trouble[] {
    const now = this.#clock.now()
    return [...this.#known.values()]
      .filter(({ name }) => this.#current(name, now) !== undefined)
      .map(({ at, name, sentence, since }) => ({ name, sentence, since, at }))
      .sort((one, other) => one.since - other.since)
  }

  #current(name: string, now: number): (Trouble & { logged: number }) | undefined {
    const known = this.#known.get(name)
    if (known && now - known.at <= MEMORY) return known
    this.#known.delete(name)
    return undefined
  }
}
