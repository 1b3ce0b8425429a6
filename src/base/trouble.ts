// Local trouble: a failure of this machine (disk, descriptors, memory, threads, keys, an error of this program) that is
// not the fault of any mail (D72). The code that meets the failure reports it here and tries again. The log, /health,
// /metrics and the operator's notices show it.
import { MINUTE, type Clock } from './clock.ts'
import { codeOf, messageOf } from './errors.ts'
import type { Log } from './log.ts'

export interface Trouble {
  /** The part that fails: "store", "spool", "compose", "storage" … */
  name: string
  /** One sentence for readers of /health: without paths and addresses. */
  sentence: string
  /** The time of the first report and of the last; ms since the epoch. */
  since: number
  at: number
}

/** Trouble counts as over when it was not reported for this long. */
const MEMORY = 15 * MINUTE
/** Lasting trouble is logged again after this long. */
const LOG_AGAIN = 5 * MINUTE

export class Troubles {
  readonly #clock: Clock
  readonly #log: Log
  readonly #known = new Map<string, Trouble & { logged: number }>()

  constructor({ clock, log }: { clock: Clock; log: Log }) {
    this.#clock = clock
    this.#log = log
  }

  /** Reports a failure. The first report is logged with its cause; lasting trouble is logged every five minutes. */
  report(name: string, sentence: string, thrown?: unknown): void {
    const at = this.#clock.now()
    const known = this.#current(name, at)
    const again = !known || at - known.logged >= LOG_AGAIN
    this.#known.set(name, { name, sentence, since: known?.since ?? at, at, logged: again ? at : known.logged })
    if (!again) return
    const cause = thrown === undefined ? {} : { code: codeOf(thrown) || undefined, error: messageOf(thrown) }
    this.#log.error('trouble', { what: name, reason: sentence, ...cause })
  }

  /** Reports that the part works again. */
  clear(name: string): void {
    const known = this.#known.get(name)
    if (!known) return
    this.#known.delete(name)
    this.#log.warn('trouble over', { what: name, seconds: Math.round((this.#clock.now() - known.since) / 1000) })
  }

  /** The present troubles, the oldest first. */
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
