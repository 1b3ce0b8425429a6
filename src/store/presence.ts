// Whether the files of an open database are still the ones in the data directory. SQLite goes on writing into files that were removed or
// replaced, and everything written there is lost when the process ends.
import { statSync } from 'node:fs'
import { OperatorError } from '../base/errors.ts'

/** Which file stands at a path; 'gone' when none does, undefined when the disk does not tell. */
function identityOf(file: string): string | undefined {
  try {
    const found = statSync(file, { bigint: true, throwIfNoEntry: false })
    return found ? `${found.dev}:${found.ino}` : 'gone'
  } catch {
    return undefined
  }
}

export class Presence {
  readonly #file: string
  readonly #database: string | undefined
  #log: string | undefined

  /** Remembers which file the database is now. */
  constructor(file: string) {
    this.#file = file
    this.#database = identityOf(file)
  }

  /** Throws an OperatorError when the database or its write-ahead log is another file than before, or gone. Costs some microseconds. */
  demand(): void {
    const database = identityOf(this.#file)
    const log = identityOf(`${this.#file}-wal`)
    // SQLite makes the log at the first write and keeps it for as long as a process has the database open.
    if (this.#log === undefined && log !== 'gone') this.#log = log
    const changed = (now: string | undefined, then: string | undefined): boolean =>
      now !== undefined && then !== undefined && now !== then
    if (!changed(database, this.#database) && !changed(log, this.#log)) return
    throw new OperatorError(
      `${this.#file} or its log was removed or replaced while it was open; stop, and put the files or a backup back before the next start.`,
    )
  }
}
