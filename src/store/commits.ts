// Runs writes in transactions: jobs of the same moment share one transaction. Each job has its own savepoint, so that a
// failed job does not undo the others.
import { Sums } from './sums.ts'
import type { Statements } from './statements.ts'
import type { Tx } from './tx.ts'

/** A signal of a commit, and the user concerned. */
export type Signal = readonly [news: string, about: number | undefined]
/** Called after a commit, with the users concerned. */
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

/** A batch that has run this long is committed. Other jobs go into the next batch, after a turn of the event loop. */
const BATCH_MS = 6

export interface DatabaseConnection {
  statements: Statements
  inTransaction(): boolean
  /** Throws if the committed data is lost, because the database's files were removed or replaced. */
  demandPresence(): void
}

export class Commits {
  readonly #connection: DatabaseConnection
  readonly #statements: Statements
  readonly #listeners = new Map<string, Hear[]>()
  /** The amounts that the finished jobs of this transaction have added to sums. */
  readonly #sums = new Sums()
  /** The error of the last commit, or undefined if it succeeded. */
  failing: unknown
  /** The duration (ms) of the slowest commit, jobs included, since this was set to 0. */
  slowest = 0

  constructor(connection: DatabaseConnection) {
    this.#connection = connection
    this.#statements = connection.statements
  }

  /** Calls `hear` after every commit with this signal. */
  on(news: string, hear: Hear): void {
    this.#listeners.set(news, [...(this.#listeners.get(news) ?? []), hear])
  }

  /** Runs and commits jobs from the front within the time of a batch. Returns their number. */
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
   * Runs one job in its savepoint. The returned function resolves or rejects its promise. It is called after the
   * commit.
   */
  #perform(job: Job): () => void {
    this.#statements.step('savepoint job')
    // When the job needs the sums of earlier jobs, these are written in its savepoint. If the job fails, they are
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
      // Some errors (disk full) make SQLite roll back the transaction: then the whole batch fails.
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
      all: (query, isLast) => statements.all(query.compile(), isLast),
      first: (query) => statements.first(query.compile()),
      one: (query) => statements.one(query.compile()),
      fact: (query) => statements.fact(query.compile()),
      run: (query) => statements.run(query.compile()),
      generation: (table, by) => statements.generation(table, by),
      add: (sum, key, amounts) => job.sums.add(sum, key, amounts),
      signal: (news, about) => void job.signals.push([news, about]),
      afterCommit: (run) => void job.hooks.push(run),
      afterUndo: (run) => void job.undo.push(run),
    }
  }
}

// Decides which writes share a commit. Writes of one turn of the event loop share one. Under load a commit waits as
// long as the last one took, so that more writes share it. (A wait that grows with the writes of the last commit saves
// 4 KB per email and costs a fifth of the throughput: see docs/development/performance.md.) A patient write is not
// urgent: it joins the next commit. After a short time without a commit, it gets its own.

/** The shortest and the longest wait under load, in ms. An idle store never waits. */
const GATHER_MS = 1
const MAX_GATHER_MS = 4
/** As soon as this many patient writes wait, they get a commit. */
const MANY = 256

interface Patient<Job> {
  job: Job
  /** From this time on the write is as urgent as any other. */
  due: number
}

export class Batches<Job> {
  readonly #commit: (jobs: readonly Job[]) => number
  #queue: Job[] = []
  #patient: Patient<Job>[] = []
  #scheduled = false
  #timer: NodeJS.Timeout | undefined
  #timerDue = Infinity
  #restUntil = 0

  /** `commit` runs jobs from the front and returns their number. The other jobs wait for the next turn. */
  constructor(commit: (jobs: readonly Job[]) => number) {
    this.#commit = commit
  }

  /** Adds a job: it is committed in the next turn of the event loop, under load a little later. */
  add(job: Job): void {
    this.#queue.push(job)
    this.#schedule()
  }

  /** A patient job: committed within `patience` ms. */
  addSoon(job: Job, patience: number): void {
    const due = performance.now() + patience
    if (this.#patient.push({ job, due }) >= MANY) return this.#schedule()
    if (this.#scheduled || due >= this.#timerDue) return
    clearTimeout(this.#timer)
    this.#timerDue = due
    this.#timer = setTimeout(() => this.#schedule(), patience)
  }

  /** Commits all jobs now. */
  drain(): void {
    while (this.#queue.length + this.#patient.length > 0) this.#flush()
    clearTimeout(this.#timer)
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    const run = (): void => {
      this.#scheduled = false
      const start = performance.now()
      this.#flush()
      const end = performance.now()
      this.#restUntil = end + Math.min(Math.max(end - start, GATHER_MS), MAX_GATHER_MS)
      if (this.#queue.length + this.#patient.length > 0) this.#schedule()
    }
    const rest = this.#restUntil - performance.now()
    if (rest > 0) setTimeout(run, rest)
    else setImmediate(run)
  }

  /** Commits from the front. */
  #flush(): void {
    clearTimeout(this.#timer)
    this.#timerDue = Infinity
    // Urgent jobs go first. A patient job that is due counts as urgent, so that it does not wait forever.
    const now = performance.now()
    const over = (patient: Patient<Job>): boolean => patient.due <= now
    const urgent = [...this.#queue, ...this.#patient.filter(over).map(({ job }) => job)]
    const patient = this.#patient.filter((each) => !over(each))
    this.#queue = []
    this.#patient = []
    const taken = this.#commit([...urgent, ...patient.map(({ job }) => job)])
    // Jobs may have been added during the commit.
    this.#queue = [...urgent.slice(taken), ...this.#queue]
    this.#patient = [...patient.slice(Math.max(taken - urgent.length, 0)), ...this.#patient]
  }
}
