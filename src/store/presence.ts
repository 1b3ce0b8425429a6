// Checks that the files of an open database are still the ones in the data directory. SQLite keeps writing into files
// that were removed or replaced, and that data is lost when the process ends.
import { statSync } from 'node:fs'
import { OperatorError } from '../base/errors.ts'

/** The identity of the file at a path; 'gone' when there is no file, undefined when the disk gives an error. */
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

  /** Remembers the identity of the database file. */
  constructor(file: string) {
    this.#file = file
    this.#database = identityOf(file)
  }

  /**
   * Throws an OperatorError when the database or its write-ahead log was removed or replaced. Takes some microseconds.
   */
  demand(): void {
    const database = identityOf(this.#file)
    const log = identityOf(`${this.#file}-wal`)
    // SQLite creates the log at the first write and keeps it while a process has the database open.
    if (this.#log === undefined && log !== 'gone') this.#log = log
    const changed = (now: string | undefined, then: string | undefined): boolean =>
      now !== undefined && then !== undefined && now !== then
    if (!changed(database, this.#database) && !changed(log, this.#log)) return
    throw new OperatorError(
      `${this.#file} or its log was removed or replaced while it was open; stop, and put the files or a backup back before the next start.`,
    )
  }
}
