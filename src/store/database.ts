// The store: one SQLite file (WAL, synchronous=FULL, foreign keys on), opened by the server and, beside it, by commands.
//
// Guarantees: `write` answers only after its transaction is on the disk. Writes that are asked for in the same turn of the
// event loop share one transaction, each in a savepoint of its own, so that durability costs one fsync for all of them and
// the failure of one harms no other. Transactions are synchronous: work that returns a promise is refused.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'
import { Batches } from './batches.ts'
import { migrations } from './migrations.ts'
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
  /** Tells those who wait for such news (`Store.on`), once for the whole commit. */
  signal(news: string): void
  /** Calls `run` once the transaction is on the disk: bells, caches. Never called when it fails. */
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

/** A batch that has run this long is committed; what waits goes into the next one, after the event loop has turned. */
const BATCH_MS = 6
/** A write that nobody waits for waits at most this long for others to share its commit. */
const PATIENCE_MS = 5
const BUSY_TIMEOUT = 5000
const FILE = 'postrider.db'

export class Store implements Reader {
  readonly #db: Database.Database
  readonly #statements = new Map<string, Database.Statement>()
  readonly #batches = new Batches<Job>((jobs) => this.#commit(jobs))
  readonly #listeners = new Map<string, (() => void)[]>()
  #version: unknown

  constructor(database: Database.Database) {
    this.#db = database
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
   * Runs `work` in a transaction and resolves with its result once it is durable. What `work` throws undoes its own changes
   * only and rejects this promise; a failing commit rejects every write of the batch.
   */
  write<T>(work: (tx: Tx) => T): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.add(jobOf(work, resolve, reject)))
  }

  /** The same for work that nobody waits for: many such writes share a commit, and the pages that they touch are written once. */
  writeSoon<T>(work: (tx: Tx) => T, patience = PATIENCE_MS): Promise<T> {
    return new Promise<T>((resolve, reject) => this.#batches.addSoon(jobOf(work, resolve, reject), patience))
  }

  /** Calls `hear` after every commit that gave this signal. */
  on(news: string, hear: () => void): void {
    this.#listeners.set(news, [...(this.#listeners.get(news) ?? []), hear])
  }

  /** True when another process has changed the database since the last call. */
  changedOutside(): boolean {
    const version = this.#dataVersion()
    const changed = version !== this.#version
    this.#version = version
    return changed
  }

  /** Sentences that tell what is damaged; empty when the database is sound. */
  verify(): string[] {
    try {
      return this.#faults()
    } catch (thrown) {
      // Damage that not even the check gets past.
      if (/^SQLITE_(?:CORRUPT|NOTADB|IOERR)/.test(codeOf(thrown))) return [messageOf(thrown)]
      throw thrown
    }
  }

  #faults(): string[] {
    const rows = this.#db.pragma('integrity_check(20)') as { integrity_check: string }[]
    const damaged = rows.map((row) => row.integrity_check).filter((text) => text !== 'ok')
    // References can only be followed where the pages are whole.
    if (damaged.length > 0) return damaged
    const broken = (this.#db.pragma('foreign_key_check') as unknown[]).length
    return broken > 0 ? [`${broken} rows refer to rows that do not exist`] : []
  }

  /** Brings the whole log into the database and empties it; false when another process kept it from that. */
  checkpoint(): boolean {
    const [result] = this.#db.pragma('wal_checkpoint(TRUNCATE)') as { busy: 0 | 1 }[]
    return result?.busy === 0
  }

  /** Every octet of the database, free space too. */
  octets(): Uint8Array {
    return this.#db.serialize()
  }

  /** Writes the database anew, so that nothing is left in free space. Takes as long as the database is large. */
  rebuild(): void {
    this.#db.exec('vacuum')
    this.checkpoint()
  }

  /** A consistent copy in a file, while work goes on. */
  async copyTo(file: string): Promise<void> {
    await this.#db.backup(file)
  }

  /** Commits what waits and closes the file. */
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

  /** Commits jobs from the front for as long as a batch may run; returns how many. */
  #commit(jobs: readonly Job[]): number {
    const settled: (() => void)[] = []
    let taken = 0
    try {
      this.#prepare('begin immediate').run()
      const end = performance.now() + BATCH_MS
      while (taken < jobs.length && (taken === 0 || performance.now() < end))
        settled.push(this.#perform(jobs[taken++]!))
      this.#prepare('commit').run()
    } catch (thrown) {
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

  /** Runs one job inside its savepoint; the returned function tells its caller, after the commit. */
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
      // SQLite itself ends the transaction on some errors (disk full): then the whole batch fails.
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

/** Opens the database of a data directory, making it and running what migrations it lacks. Throws an OperatorError. */
export function openStore(dataDir: string): Store {
  const file = join(dataDir, FILE)
  try {
    mkdirSync(dataDir, { recursive: true, mode: 0o700 })
  } catch (thrown) {
    throw new OperatorError(
      `The data directory ${dataDir} cannot be made (${codeOf(thrown)}); choose another data_dir or mend its permissions.`,
    )
  }
  let database: Database.Database | undefined
  try {
    database = new Database(file, { timeout: BUSY_TIMEOUT, ...sqliteAddon(dataDir) })
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    // What is deleted is overwritten: an erased address is not to be found in free space.
    database.pragma('secure_delete = ON')
    database.pragma('cache_size = -16000')
    database.pragma('temp_store = MEMORY')
    // 16 MB of log between checkpoints: a page that changes often is copied back once, not for each change.
    database.pragma('wal_autocheckpoint = 4000')
    migrate(database, file)
    return new Store(database)
  } catch (thrown) {
    database?.close()
    if (thrown instanceof OperatorError) throw thrown
    throw new OperatorError(sentenceFor(thrown, file), { cause: thrown })
  }
}

/** What the database's files are to blame for (damage, a full disk, no rights) as a sentence; all else as it was thrown. */
export function explained(thrown: unknown, dataDir: string): unknown {
  return /^SQLITE_(?:NOTADB|CORRUPT|FULL|IOERR|CANTOPEN|READONLY|PERM|BUSY)/.test(codeOf(thrown))
    ? new OperatorError(sentenceFor(thrown, join(dataDir, FILE)), { cause: thrown })
    : thrown
}

function migrate(database: Database.Database, file: string): void {
  const version = (): number => database.pragma('user_version', { simple: true }) as number
  if (version() > migrations.length)
    throw new OperatorError(
      `${file} was written by a newer Postrider (schema ${version()}, this one knows ${migrations.length}); start that version, or restore a backup made before the upgrade.`,
    )
  if (version() === migrations.length) return
  database.exec('begin immediate')
  try {
    for (const { sql } of migrations.slice(version())) database.exec(sql)
    database.pragma(`user_version = ${migrations.length}`)
    database.exec('commit')
  } catch (thrown) {
    if (database.inTransaction) database.exec('rollback')
    throw thrown
  }
}

function sentenceFor(thrown: unknown, file: string): string {
  switch (/^SQLITE_[A-Z]+/.exec(codeOf(thrown))?.[0] ?? '') {
    case 'SQLITE_NOTADB':
    case 'SQLITE_CORRUPT':
      return `${file} is damaged; stop here, keep the file, and put a backup of the data directory in its place.`
    case 'SQLITE_FULL':
      return `The disk that holds ${file} is full; free some space and start again. Nothing was changed.`
    case 'SQLITE_CANTOPEN':
    case 'SQLITE_READONLY':
    case 'SQLITE_PERM':
      return `${file} cannot be opened for writing; run Postrider as the user who owns the data directory.`
    case 'SQLITE_BUSY':
      return `${file} is locked by another program; end it and start again.`
    case 'SQLITE_IOERR':
      return `${file} cannot be read or written (${codeOf(thrown)}); see whether its disk is full or failing, then start again.`
    default:
      return `${file} cannot be opened: ${messageOf(thrown)}.`
  }
}
