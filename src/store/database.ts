// The store: one SQLite file (WAL, synchronous=FULL, foreign keys on), opened by the server and at the same time by
// commands.
//
// Guarantees: `write` resolves only when its transaction is on the disk. Writes of one turn of the event loop share one
// transaction, each in its own savepoint: so one fsync is enough for all of them, and one that fails does not undo the
// others. Transactions are synchronous: work that returns a promise is refused.
import type Database from 'better-sqlite3'
import { codeOf, messageOf } from '../base/errors.ts'
import { Batches } from './batches.ts'
import { damagedRows, defineDigest } from './digests.ts'
import { Presence } from './presence.ts'
import type { Compiled, Runnable } from './query.ts'

export interface Reader {
  all<Output>(query: Runnable<Output>): Output[]
  first<Output>(query: Runnable<Output>): Output | undefined
}

export interface Change {
  /** How many rows were inserted, updated or deleted. */
  changes: number
  /** The `key` of the last inserted row. */
  key: number
}

export interface Tx extends Reader {
  run(query: { compile(): Compiled }): Change
  /** Calls the listeners of this name (`Store.on`), once for the whole commit. */
  signal(news: string): void
  /** Calls `run` once the transaction is on the disk, to ring bells or drop caches. Not called when it fails. */
  afterCommit(run: () => void): void
}

interface Job {
  work: (tx: Tx) => unknown
  resolve: (value: unknown) => void
  reject: (error: unknown) => void
  hooks: (() => void)[]
  signals: string[]
}

function jobOf<T>(work: (tx: Tx) => T, resolve: (value: T) => void, reject: (error: unknown) => void): Job {
  return { work, resolve: resolve as (value: unknown) => void, reject, hooks: [], signals: [] }
}

/** A batch that has run this long is committed; other jobs go into the next one, after a turn of the event loop. */
const BATCH_MS = 6
/** A patient write waits at most this long for others to share its commit. */
const PATIENCE_MS = 5

/** Value of pragma auto_vacuum: free pages are given back on request. */
const INCREMENTAL = 2
/** Pages (4 KB) that always stay free, and the most that one step gives back. */
const KEPT_PAGES = 256
const STEP_PAGES = 64

export class Store implements Reader {
  readonly #db: Database.Database
  readonly #statements = new Map<string, Database.Statement>()
  readonly #batches = new Batches<Job>((jobs) => this.#commit(jobs))
  readonly #listeners = new Map<string, (() => void)[]>()
  readonly #presence: Presence | undefined
  #version: unknown
  #failing: unknown

  /** `file` is watched: once the file is gone, every write is rejected. */
  constructor(database: Database.Database, file?: string) {
    this.#db = database
    defineDigest(database)
    this.#presence = file === undefined ? undefined : new Presence(file)
    this.#version = this.#dataVersion()
  }

  all<Output>(query: Runnable<Output>): Output[] {
    const { sql, parameters } = query.compile()
    return this.#prepare(sql).all(...parameters) as Output[]
  }

  first<Output>(query: Runnable<Output>): Output | undefined {
    const { sql, parameters } = query.compile()
    return this.#prepare(sql).get(...parameters) as Output | undefined
  }

  /**
   * Runs `work` in a transaction and resolves with its result once it is on the disk. When `work` throws, its own
   * changes are undone and this promise rejects. When the commit fails, every write of the batch rejects.
   */
  write<T>(work: (tx: Tx) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.add(jobOf(work, resolve, reject)))
  }

  /**
   * The same for a patient write, at most `patience` ms later:
   * many share a commit, and a page that they all change is written once.
   */
  writeSoon<T>(work: (tx: Tx) => T, patience = PATIENCE_MS): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.addSoon(jobOf(work, resolve, reject), patience))
  }

  /** Calls `hear` after every commit with this signal. */
  on(news: string, hear: () => void): void {
    this.#listeners.set(news, [...(this.#listeners.get(news) ?? []), hear])
  }

  /** The error of the last commit; undefined when it succeeded. */
  get failing(): unknown {
    return this.#failing
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
    const version = this.#dataVersion()
    const changed = version !== this.#version
    this.#version = version
    return changed
  }

  /** One sentence for each damage that was found; empty when the database is sound. Reads all of it. */
  verify(): string[] {
    try {
      return this.#faults()
    } catch (thrown) {
      // Damage that stops the check itself.
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
    const texts = damagedRows(this.#db)
    return broken > 0 ? [...texts, `${broken} rows refer to rows that do not exist`] : texts
  }

  /** Copies the whole log into the database and empties it; false when another process prevented that. */
  checkpoint(): boolean {
    const [result] = this.#db.pragma('wal_checkpoint(TRUNCATE)') as { busy: 0 | 1 }[]
    return result?.busy === 0
  }

  /**
   * Gives some free space back to the disk, so little that it takes no noticeable time; false when there is no more to
   * give. Some stays for new rows. Does nothing for a database without `auto_vacuum`, until `rebuild`.
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

  /** Rewrites the whole database, so that free space holds no old data. Takes time in proportion to its size. */
  rebuild(): void {
    this.#db.exec('vacuum')
    this.checkpoint()
  }

  /** Copies the database into a file, consistently, while it is in use. */
  async copyTo(file: string): Promise<void> {
    await this.#db.backup(file)
  }

  /** Commits all waiting writes and closes the file. */
  close(): void {
    this.#batches.drain()
    this.#db.close()
  }

  #dataVersion(): unknown {
    return this.#db.pragma('data_version', { simple: true })
  }

  #prepare(sql: string): Database.Statement {
    let statement = this.#statements.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  /** Runs and commits jobs from the front for as long as a batch may take; returns how many. */
  #commit(jobs: readonly Job[]): number {
    const settled: (() => void)[] = []
    let taken = 0
    try {
      this.#prepare('begin immediate').run()
      const end = performance.now() + BATCH_MS
      while (taken < jobs.length && (taken === 0 || performance.now() < end))
        settled.push(this.#perform(jobs[taken++]!))
      this.#prepare('commit').run()
      // When the file was removed, the commit is lost: then it must not count.
      this.#presence?.demand()
      this.#failing = undefined
    } catch (thrown) {
      this.#failing = thrown
      if (this.#db.inTransaction) this.#prepare('rollback').run()
      const failed = jobs.slice(0, Math.max(taken, 1))
      for (const job of failed) job.reject(thrown)
      return failed.length
    }
    for (const settle of settled) settle()
    const news = new Set(jobs.slice(0, taken).flatMap((job) => job.signals))
    for (const each of news) for (const hear of this.#listeners.get(each) ?? []) hear()
    return taken
  }

  /**
   * Runs one job in its savepoint.
   * The returned function resolves or rejects its promise; it is called after the commit.
   */
  #perform(job: Job): () => void {
    this.#prepare('savepoint job').run()
    try {
      const value = job.work(this.#tx(job))
      if (typeof (value as { then?: unknown } | null | undefined)?.then === 'function')
        throw new TypeError('A transaction is synchronous: its work may not return a promise.')
      this.#prepare('release job').run()
      return () => {
        job.resolve(value)
        for (const hook of job.hooks) hook()
      }
    } catch (thrown) {
      // Some errors (disk full) make SQLite end the transaction: then the whole batch fails.
      if (!this.#db.inTransaction) throw thrown
      this.#prepare('rollback to job').run()
      this.#prepare('release job').run()
      return () => job.reject(thrown)
    }
  }

  #tx(job: Job): Tx {
    return {
      all: (query) => this.all(query),
      first: (query) => this.first(query),
      run: (query) => {
        const { sql, parameters } = query.compile()
        const { changes, lastInsertRowid } = this.#prepare(sql).run(...parameters)
        return { changes, key: Number(lastInsertRowid) }
      },
      signal: (news) => void job.signals.push(news),
      afterCommit: (run) => void job.hooks.push(run),
    }
  }
}
