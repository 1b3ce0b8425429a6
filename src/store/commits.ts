// Runs writes in transactions: jobs of the same moment share one transaction. Each job has its own savepoint, so that a
// failed job does not undo the others.
import { Sums } from './sums.ts'
import type { Statements } from './statements.ts'
import type { Tx } from './tx.ts'

/** News of a commit, and the user whom it is about. */
export type Signal = readonly [news: string, about: number | undefined]
/** Hears of a commit, with the users whom its news are about. */
export type Hear = (about: ReadonlySet<number>) => void

export interface Job {
  work: (tx: Tx) => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
  hooks: (() => void)[]
  /** Called when the changes of the job were undone. */
  undo: (() => void)[]
  signals: Signal[]
  /** The amounts that the job has added to sums and that are not written yet. */
  sums: Sums
}

/** A write that waits for its commit: `resolve` and `reject` are called with its result. */
export function jobOf<T>(work: (tx: Tx) => T, resolve: (value: T) => void, reject: (error: unknown) => void): Job {
  return {
    work,
    resolve: resolve as (value: unknown) => void,
    reject,
    hooks: [],
    undo: [],
    signals: [],
    sums: new Sums(),
  }
}

/** A batch that has run this long is committed; other jobs go into the next batch, after a turn of the event loop. */
const BATCH_MS = 6

export interface DatabaseConnection {
  statements: Statements
  inTransaction(): boolean
  /** Throws when the committed data is gone, because the database's files were removed or replaced. */
  demandPresence(): void
}

export class Commits {
  readonly #connection: DatabaseConnection
  readonly #statements: Statements
  readonly #listeners = new Map<string, Hear[]>()
  /** The amounts that the finished jobs of this transaction have added to sums. */
  readonly #sums = new Sums()
  /** The error of the last commit; undefined when it succeeded. */
  failing: unknown
  /** How long (ms) the slowest commit took, jobs included, since this was set to 0. */
  slowest = 0

  constructor(connection: DatabaseConnection) {
    this.#connection = connection
    this.#statements = connection.statements
  }

  /** Calls `hear` after every commit with this signal. */
  on(news: string, hear: Hear): void {
    this.#listeners.set(news, [...(this.#listeners.get(news) ?? []), hear])
  }

  /** Runs and commits jobs from the front for as long as a batch may take; returns their number. */
  commit(jobs: readonly Job[]): number {
    const settled: (() => void)[] = []
    let taken = 0
    const start = performance.now()
    this.#sums.clear()
    try {
      this.#statements.step('begin immediate')
      this.#statements.begun()
      const end = start + BATCH_MS
      for (const job of jobs) {
        if (taken > 0 && performance.now() >= end) break
        taken++
        settled.push(this.#perform(job))
      }
      this.#write(this.#sums)
      this.#statements.step('commit')
      // When the file was removed, the commit is lost and must not count.
      this.#connection.demandPresence()
      this.failing = undefined
    } catch (thrown) {
      this.failing = thrown
      if (this.#connection.inTransaction()) this.#statements.step('rollback')
      this.#statements.undone()
      const failed = jobs.slice(0, Math.max(taken, 1))
      for (const job of failed) for (const undo of job.undo.splice(0)) undo()
      for (const job of failed) job.reject(thrown)
      return failed.length
    } finally {
      this.#statements.committed()
      this.slowest = Math.max(this.slowest, performance.now() - start)
    }
    for (const settle of settled) settle()
    const signals = Map.groupBy(
      jobs.slice(0, taken).flatMap((job) => job.signals),
      ([news]) => news,
    )
    for (const [news, each] of signals) {
      const about = new Set(each.flatMap(([, user]) => user ?? []))
      for (const hear of this.#listeners.get(news) ?? []) hear(about)
    }
    return taken
  }

  /**
   * Runs one job in its savepoint.
   * The returned function resolves or rejects its promise; it is called after the commit.
   */
  #perform(job: Job): () => void {
    this.#statements.step('savepoint job')
    // When the job needs the sums of earlier jobs, these are written in its savepoint; if the job fails, they are
    // pending again.
    let written = false
    this.#statements.before = ({ changes, names }) => {
      const concerned = (sums: Sums): boolean => sums.concern(names) || sums.concern(changes)
      if (!written && concerned(this.#sums)) {
        written = true
        this.#write(this.#sums)
      }
      if (!concerned(job.sums)) return
      const { sums } = job
      job.sums = new Sums()
      this.#write(sums)
    }
    try {
      const value = job.work(this.#tx(job))
      if (typeof (value as { then?: unknown } | null | undefined)?.then === 'function')
        throw new TypeError('A transaction is synchronous: its work may not return a promise.')
      this.#statements.step('release job')
      if (written) this.#sums.clear()
      this.#sums.take(job.sums)
      return () => {
        job.resolve(value)
        for (const hook of job.hooks) hook()
      }
    } catch (thrown) {
      // Some errors (disk full) make SQLite end the transaction: then the whole batch fails.
      if (!this.#connection.inTransaction()) throw thrown
      this.#statements.step('rollback to job')
      this.#statements.step('release job')
      this.#statements.undone()
      for (const undo of job.undo.splice(0)) undo()
      return () => job.reject(thrown)
    } finally {
      this.#statements.before = undefined
    }
  }

  #write(sums: Sums): void {
    sums.write((sql, rows) => void this.#statements.run({ sql, parameters: [rows] }))
  }

  #tx(job: Job): Tx {
    const statements = this.#statements
    return {
      all: (query) => statements.all(query.compile()),
      first: (query) => statements.first(query.compile()),
      one: (query) => statements.one(query.compile()),
      fact: (query) => statements.fact(query.compile()),
      run: (query) => statements.run(query.compile()),
      generation: (table, by) => statements.generation(table, by),
      add: (sum, place, amounts) => job.sums.add(sum, place, amounts),
      signal: (news, about) => void job.signals.push([news, about]),
      afterCommit: (run) => void job.hooks.push(run),
      afterUndo: (run) => void job.undo.push(run),
    }
  }
}
