// The register of findings in the running server: runs the finders, and remembers since when each problem lasts.
import { MINUTE } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import {
  completed,
  type Finder,
  type FinderDeps,
  type Finding,
  type LastingFinding,
  type LocalFinder,
  type SlowFinder,
} from './finding.ts'
import { problemFindings } from './problems.ts'

/** How old the findings of local finders can be in alerts and metrics by default. */
const LOCAL_EVERY = MINUTE
/** Slow finders run at most this often. */
const SLOW_EVERY = 10 * MINUTE

export type RunningDeps = FinderDeps & { log: Log } & Required<Pick<FinderDeps, 'running'>>

export class FindingsRegister {
  readonly #deps: RunningDeps
  readonly #local: readonly LocalFinder[]
  readonly #slow: readonly SlowFinder[]
  #found = new Map<Finder, Finding[]>()
  /** The problems with an alert, by subject of the email, id and subject. */
  #problems = new Map<string, LastingFinding>()
  readonly #ranAt = new Map<Finder, number>()
  #slowAt = -Infinity
  #busy = false

  constructor(finders: readonly Finder[], deps: RunningDeps) {
    this.#deps = deps
    this.#local = finders.filter((finder) => finder.runs === undefined)
    this.#slow = finders.filter((finder): finder is SlowFinder => finder.runs === 'background')
  }

  /** Returns the findings of now. Those of slow finders are from their last run, and the next run starts. */
  now(): Finding[] {
    this.#runLocal(this.#local)
    void this.#runSlow()
    return this.#of([...this.#local, ...this.#slow])
  }

  /** Returns the findings of local finders, most of them at most a minute old. */
  recent(): Finding[] {
    const now = this.#deps.clock.now()
    const due = this.#local.filter((finder) => {
      const age = now - (this.#ranAt.get(finder) ?? -Infinity)
      // If the clock is set back, the finders run at once.
      return age < 0 || age >= (finder.every ?? LOCAL_EVERY)
    })
    if (due.length > 0) this.#runLocal(due)
    return this.#of(this.#local)
  }

  /** Returns the problems that have lasted long enough for an alert email. */
  lasting(): LastingFinding[] {
    this.recent()
    const now = this.#deps.clock.now()
    return [...problemFindings(this.#deps.running.troubles), ...this.#problems.values()].filter(
      ({ alert, since }) => now - since >= alert.lasts,
    )
  }

  #of(finders: readonly Finder[]): Finding[] {
    return finders.flatMap((finder) => this.#found.get(finder) ?? [])
  }

  #runLocal(finders: readonly LocalFinder[]): void {
    const now = this.#deps.clock.now()
    for (const finder of finders) {
      this.#ranAt.set(finder, now)
      try {
        this.#found.set(finder, completed(finder, finder.find(this.#deps)))
      } catch {
        // The disk or the database cannot be read: the server reports that (server/watch.ts).
      }
    }
    const before = this.#problems
    this.#problems = new Map(
      this.#of(this.#local).flatMap(({ alert, ...found }) => {
        if (!alert) return []
        const key = `${alert.subject} ${found.id} ${found.subject}`
        return [[key, { ...found, alert, since: before.get(key)?.since ?? now }]]
      }),
    )
  }

  async #runSlow(): Promise<void> {
    const { clock, log } = this.#deps
    if (this.#busy || clock.now() - this.#slowAt < SLOW_EVERY) return
    this.#busy = true
    try {
      for (const [index, found] of (await Promise.all(this.#slow.map(async ({ find }) => find(this.#deps)))).entries())
        this.#found.set(this.#slow[index]!, completed(this.#slow[index]!, found))
      this.#slowAt = clock.now()
    } catch (thrown) {
      log.fault('network check', thrown)
    } finally {
      this.#busy = false
    }
  }
}
