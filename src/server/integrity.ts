// Whether the data of this server is intact (D206). The database is checked at the start, once a day, and when an error
// indicates corruption. Corruption is a problem in /health until a later check succeeds.
//
// The check is a process of its own. A bare executable loads SQLite from a separate file for each thread, and POSIX
// locks belong to a process: if a thread closed the database, the locks of the server would be gone, and the next
// command would treat the write-ahead log as left over and delete it (sqlite.org/howtocorrupt.html §2.2).
import { DAY, MINUTE, type Cancel, type Clock } from '../base/clock.ts'
import { codeOf, DAMAGED } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Beside, BesideProcess } from '../archive/schedule.ts'
import { DAMAGED_EXIT } from '../archive/command-verify.ts'
import { isDatabaseDamage } from '../store/integrity.ts'

export interface IntegrityDeps {
  clock: Clock
  log: Log
  troubles: Troubles
  /** Runs the check. Without it, only errors of the running server report corruption. */
  beside?: Beside
}

const SENTENCES = {
  integrity: 'The database is corrupt.',
  files: 'A spool file is corrupt or missing.',
} as const

export class Integrity {
  readonly #deps: IntegrityDeps
  /** The present damage, with its first error. */
  readonly #found = new Map<keyof typeof SENTENCES, Error>()
  #cancel: Cancel | undefined
  #check: BesideProcess | undefined
  /** Another check was requested during one. */
  #again = false
  #stopped = false
  #reportedAt = -Infinity

  constructor(deps: IntegrityDeps) {
    this.#deps = deps
  }

  /** Checks the database now, and once a day. */
  start(): void {
    const { clock } = this.#deps
    if (this.#stopped || this.#deps.beside === undefined) return
    this.#cancel?.()
    this.#cancel = clock.wake(clock.now() + DAY, () => this.start())
    // If a file is still corrupt, its next reader reports it again.
    this.#found.delete('files')
    this.#deps.troubles.clear('files')
    void this.#checkData()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel?.()
    this.#check?.end()
    await this.#check?.ended
  }

  /** Wraps the log, so that errors logged anywhere report corruption. */
  heard(log: Log): Log {
    return {
      ...log,
      fault: (where, thrown) => {
        this.#met(thrown)
        return log.fault(where, thrown)
      },
    }
  }

  /** Reports corruption again, because a problem that is not reported again is resolved. */
  look(): void {
    const now = this.#deps.clock.elapsed()
    if (now - this.#reportedAt < MINUTE) return
    this.#reportedAt = now
    for (const [name, error] of this.#found) this.#deps.troubles.report(name, SENTENCES[name], error)
  }

  #met(thrown: unknown): void {
    if (codeOf(thrown) === DAMAGED) this.#report('files', thrown as Error)
    else if (isDatabaseDamage(thrown)) {
      this.#report('integrity', thrown as Error)
      void this.#checkData()
    }
  }

  #report(name: keyof typeof SENTENCES, error: Error): void {
    this.#found.set(name, error)
    this.#deps.troubles.report(name, SENTENCES[name], error)
  }

  async #checkData(): Promise<void> {
    const { beside, log, troubles } = this.#deps
    this.#again = this.#check !== undefined
    if (this.#check || this.#stopped || beside === undefined) return
    this.#check = beside(['verify', '--quick'])
    const { how, said } = await this.#check.ended
    this.#check = undefined
    if (this.#stopped) return
    if (how === DAMAGED_EXIT) this.#report('integrity', new Error(said.trim()))
    else if (how !== 0) log.fault('database check', new Error(`${said.trim()} (${how})`))
    else if (this.#found.delete('integrity')) troubles.clear('integrity')
    if (this.#again) await this.#checkData()
  }
}
