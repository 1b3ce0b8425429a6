// The store: one SQLite file (WAL, synchronous=FULL, foreign keys on), opened by the server and at the same time by
// commands.
//
// Guarantees: `write` resolves only when its transaction is on the disk. Writes of one turn of the event loop share one
// transaction, so that one fsync is enough for all of them. Each has its own savepoint, so that a failed write does not
// undo the others. Transactions are synchronous: work that returns a promise is refused.
import type Database from 'better-sqlite3'
import { codeOf, messageOf } from '../base/errors.ts'
import { Batches } from './batches.ts'
import { Commits, jobOf, type Hear, type Job } from './commits.ts'
import { damagedRows, defineDigest } from './digests.ts'
import { malformedRows } from './check-values.ts'
import { LogWatch, progressOf, truncated } from './log.ts'
import { Presence } from './presence.ts'
import type { Runnable } from './query.ts'
import { Statements, type Watch } from './statements.ts'
import type { TableName } from '../schema/tables.ts'
import type { Reader, Tx } from './tx.ts'

export type { Change, Reader, Tx } from './tx.ts'

/** A patient write waits at most this long for others to share its commit. */
const PATIENCE_MS = 5

/** Value of pragma auto_vacuum: free pages are given back on request. */
const INCREMENTAL = 2
/** The number of pages (4 KB) that always stay free, and the most pages that one step gives back. */
const KEPT_PAGES = 256
const STEP_PAGES = 64

export class Store implements Reader {
  readonly #db: Database.Database
  readonly #statements: Statements
  readonly #commits: Commits
  readonly #batches: Batches<Job>
  readonly #presence: Presence | undefined
  readonly #log = new LogWatch()
  /** The number of outside changes at the last call of `changedOutside`. */
  #outside = 0

  /** `file` is watched: once the file is gone, every write is rejected. */
  constructor(database: Database.Database, file?: string) {
    this.#db = database
    defineDigest(database)
    this.#presence = file === undefined ? undefined : new Presence(file)
    this.#statements = new Statements(database)
    this.#commits = new Commits({
      statements: this.#statements,
      inTransaction: () => database.inTransaction,
      demandPresence: () => this.#presence?.demand(),
    })
    this.#batches = new Batches((jobs) => this.#commits.commit(jobs))
  }

  /** See `Reader.all`. */
  all<Output>(query: Runnable<Output>): Output[] {
    return this.#statements.all(query.compile())
  }

  /** See `Reader.first`. */
  first<Output>(query: Runnable<Output>): Output | undefined {
    return this.#statements.first(query.compile())
  }

  /** See `Reader.one`. */
  one<Output>(query: Runnable<Output>): Output {
    return this.#statements.one(query.compile())
  }

  /** See `Reader.fact`. */
  fact<Output>(query: Runnable<Output>): Output | undefined {
    return this.#statements.fact(query.compile())
  }

  /** See `Reader.generation`. */
  generation(table: TableName, by: 'changed' | 'removed'): number {
    return this.#statements.generation(table, by)
  }

  /** Calls `watch` after every statement, with the number of rows that it returned and changed. */
  watch(watch: Watch): void {
    this.#statements.watch = watch
  }

  /**
   * Runs `work` in a transaction and resolves with its result once it is on the disk. When `work` throws, its own
   * changes are undone and this promise rejects. When the commit fails, every write of the batch rejects.
   */
  write<T>(work: (tx: Tx) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.add(jobOf(work, resolve, reject)))
  }

  /**
   * As `write`, for a patient write that may be committed up to `patience` ms later:
   * many such writes share a commit, and a page that they all change is written once.
   */
  writeSoon<T>(work: (tx: Tx) => T, patience = PATIENCE_MS): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.addSoon(jobOf(work, resolve, reject), patience))
  }

  /** Calls `hear` after every commit with this signal. */
  on(news: string, hear: Hear): void {
    this.#commits.on(news, hear)
  }

  /** The error of the last commit; undefined when it succeeded. */
  get failing(): unknown {
    return this.#commits.failing
  }

  /** How long (ms) the slowest commit since the last call took. */
  slowestCommit(): number {
    const { slowest } = this.#commits
    this.#commits.slowest = 0
    return slowest
  }

  /** Tests the disk by a commit that changes nothing; rejects when it fails. */
  async prove(): Promise<void> {
    await this.write(() => {
      const version = Number(this.#db.pragma('user_version', { simple: true }))
      this.#db.pragma(`user_version = ${version}`)
    })
  }

  /** Throws an OperatorError when the database's files were moved, removed or replaced. */
  demandPresence(): void {
    this.#presence?.demand()
  }

  /** True when another process has changed the database since the last call. */
  changedOutside(): boolean {
    const outside = this.#statements.lookAgain()
    const changed = outside !== this.#outside
    this.#outside = outside
    return changed
  }

  /** One sentence for each damage found; empty when the database is sound. Reads the whole database. */
  verify(): string[] {
    try {
      return this.#faults()
    } catch (thrown) {
      // This damage stops the check itself.
      if (/^SQLITE_(?:CORRUPT|NOTADB|IOERR)/.test(codeOf(thrown))) return [messageOf(thrown)]
      throw thrown
    }
  }

  #faults(): string[] {
    const rows = this.#db.pragma('integrity_check(20)') as { integrity_check: string }[]
    const damaged = rows.map((row) => row.integrity_check).filter((text) => text !== 'ok')
    // References can be checked only when the pages are sound.
    if (damaged.length > 0) return damaged
    const broken = (this.#db.pragma('foreign_key_check') as unknown[]).length
    const texts = [...damagedRows(this.#db), ...malformedRows(this.#db)]
    return broken > 0 ? [...texts, `${broken} rows refer to rows that do not exist`] : texts
  }

  /** Copies the whole log into the database and empties it; false, at once, when another process prevents that. */
  checkpoint(): boolean {
    return truncated(this.#db)
  }

  /** How long (ms) another process has kept the log from beginning again; 0: none does. `now` is the time (ms). */
  logHeldFor(now: number): number {
    return this.#log.look(progressOf(this.#db), now)
  }

  /**
   * Gives a little free space back to the disk, so that the call takes no noticeable time; false when there is no more
   * to give back. Some free space stays for new rows. Does nothing for a database without `auto_vacuum`, until
   * `rebuild`.
   */
  giveBack(): boolean {
    const pragma = (name: string): number => Number(this.#db.pragma(name, { simple: true }))
    const kept = Math.max(KEPT_PAGES, pragma('page_count') / 20)
    const most = pragma('freelist_count') - kept
    if (pragma('auto_vacuum') !== INCREMENTAL || most <= 0) return false
    this.#db.pragma(`incremental_vacuum(${Math.ceil(Math.min(most, STEP_PAGES))})`)
    return pragma('freelist_count') > kept
  }

  /** Every octet of the database, free space included. */
  octets(): Uint8Array {
    return this.#db.serialize()
  }

  /**
   * Rewrites the whole database, so that free space holds no old data; false when another process keeps the old octets
   * in place. Takes time in proportion to its size.
   */
  rebuild(): boolean {
    this.#db.exec('vacuum')
    return this.checkpoint()
  }

  /** Commits all waiting writes and closes the file. */
  close(): void {
    this.#batches.drain()
    this.#db.close()
  }
}
