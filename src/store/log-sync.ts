// Brings the write-ahead log to the disk outside the event loop. SQLite writes a commit into the log without syncing it
// (synchronous=NORMAL), and a thread of libuv's pool syncs the log: meanwhile the event loop goes on, and the next
// commit gathers its jobs. Whoever waits for a commit is told after a sync that began after it (fdatasync(2)).
//
// A sync that fails is never repeated: the system may have dropped what was not written, and succeed the next time. So
// the store is at its end then, and has to be opened anew, which reads the log as it is on the disk.
import { closeSync, fdatasync, fdatasyncSync, openSync } from 'node:fs'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'

interface Waiting {
  resolve: () => void
  reject: (error: unknown) => void
}

export class LogSync {
  readonly #file: string
  #descriptor: number | undefined
  /** Those whose commits no sync covers that has begun. */
  #waiting: Waiting[] = []
  /** The sync under way resolves for these. */
  #running: Waiting[] | undefined
  #closed = false
  #failed: Error | undefined

  /** `file` is the database; SQLite makes its log at the first commit and keeps it while it is open. */
  constructor(file: string) {
    this.#file = `${file}-wal`
  }

  /** Resolves when everything that is committed now is on the disk. Rejects when a sync has failed. */
  synced(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject })
      if (!this.#running) this.#begin()
    })
  }

  /** Resolves when every commit so far that somebody waits for is on the disk; at once when nobody waits. */
  settled(): Promise<void> | undefined {
    if (this.#failed) return Promise.reject(this.#failed)
    return (this.#running ?? this.#waiting.length > 0) ? this.synced() : undefined
  }

  /** Throws an OperatorError when a sync has failed. */
  demand(): void {
    if (this.#failed) throw this.#failed
  }

  /** Syncs what is waiting, before the database is closed; then closes its own descriptor. */
  close(): void {
    const waiting = [...(this.#running ?? []), ...this.#waiting.splice(0)]
    try {
      if (waiting.length > 0) fdatasyncSync(this.#open())
      for (const each of waiting) each.resolve()
    } catch (thrown) {
      for (const each of waiting) each.reject(this.#fail(thrown))
    }
    this.#closed = true
    if (!this.#running) this.#release()
  }

  #begin(): void {
    const waiting = this.#waiting
    this.#waiting = []
    this.#running = waiting
    const end = (error: unknown): void => {
      this.#running = undefined
      if (this.#closed) return this.#release()
      const failure = error ? this.#fail(error) : this.#failed
      for (const { reject, resolve } of waiting)
        if (failure) reject(failure)
        else resolve()
      if (this.#waiting.length > 0) this.#begin()
    }
    try {
      this.demand()
      fdatasync(this.#open(), end)
    } catch (thrown) {
      end(thrown)
    }
  }

  #fail(thrown: unknown): Error {
    this.#failed ??= Object.assign(
      new OperatorError(
        `${this.#file} could not be brought to the disk (${codeOf(thrown) || messageOf(thrown)}); see whether its disk is full or failing. What was answered before is safe; the server ends and must be started again.`,
        { cause: thrown },
      ),
      { code: 'SQLITE_IOERR_FSYNC' },
    )
    return this.#failed
  }

  #open(): number {
    return (this.#descriptor ??= openSync(this.#file, 'r+'))
  }

  #release(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor)
    this.#descriptor = undefined
  }
}
