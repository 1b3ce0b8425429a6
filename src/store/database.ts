// The store: one SQLite file (WAL, synchronous=FULL, foreign keys on), opened by the server and at the same time by
// commands.
//
// Guarantees: `write` resolves only when its transaction is on the disk. Writes of one turn of the event loop share one
// transaction, so that one fsync is enough for all of them. Each has its own savepoint, so that a failed write does not
// undo the others. Transactions are synchronous: work that returns a promise is rejected.
import { statSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { counted, rowsText } from '../base/text.ts'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { Batches, Commits, jobOf, type Hear, type Job } from './commits.ts'
import { damagedRows, defineDigest } from './digests.ts'
import { LogWatch, progressOf, truncated } from './log.ts'
import { defineFolded } from './folded.ts'
import { defineSpent } from './slices.ts'
import type { Runnable } from './query.ts'
import { Statements, type Watch } from './statements.ts'
import { type TableName, COLUMNS, type NamedColumn } from './schema/tables.ts'
import type { Reader, Tx } from './tx.ts'
import { LAST_TIME } from '../base/clock.ts'

export type { Change, Reader, Tx } from './tx.ts'

/** A patient write waits at most this long for others to share its commit. */
const PATIENCE_MS = 5

/** Value of pragma auto_vacuum: free pages are released on request. */
const INCREMENTAL = 2
/** The number of pages (4 KB) that always stay free, and the most pages that one step releases. */
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

  /** `file` is watched: after it is deleted, every write is rejected. */
  constructor(database: Database.Database, file?: string) {
    this.#db = database
    defineDigest(database)
    defineSpent(database)
    defineFolded(database)
    this.#presence = file === undefined ? undefined : new Presence(file)
    this.#statements = new Statements(database)
    this.#commits = new Commits({
      statements: this.#statements,
      inTransaction: () => database.inTransaction,
      demandPresence: () => this.#presence?.demand(),
    })
    this.#batches = new Batches((jobs) => this.#commits.commit(jobs))
  }

  all<Output>(query: Runnable<Output>, isLast?: (row: Output) => boolean): Output[] {
    return this.#statements.all(query.compile(), isLast)
  }

  first<Output>(query: Runnable<Output>): Output | undefined {
    return this.#statements.first(query.compile())
  }

  one<Output>(query: Runnable<Output>): Output {
    return this.#statements.one(query.compile())
  }

  fact<Output>(query: Runnable<Output>): Output | undefined {
    return this.#statements.fact(query.compile())
  }

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

  /** The error of the last commit, or undefined if it succeeded. */
  get failing(): unknown {
    return this.#commits.failing
  }

  /** The duration (ms) of the slowest commit since the last call. */
  slowestCommit(): number {
    const { slowest } = this.#commits
    this.#commits.slowest = 0
    return slowest
  }

  /** Tests the disk with an empty commit. Rejects if it fails. */
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

  /** Checks the whole database. Returns one sentence for each problem, or an empty list if it is consistent. */
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
    return broken > 0 ? [...texts, `${counted(broken, 'row')} refer to rows that do not exist`] : texts
  }

  /** Copies the whole log into the database and empties it. Returns false at once if another process prevents that. */
  checkpoint(): boolean {
    return truncated(this.#db)
  }

  /** How long (ms) another process has kept the log from restarting, or 0. `now` is the time (ms). */
  logHeldFor(now: number): number {
    return this.#log.look(progressOf(this.#db), now)
  }

  /**
   * Returns a little free space to the disk, in a time too short to notice. The result is false if there is no more to
   * return. Some free space stays for new rows. Without `auto_vacuum` it has no effect until `rebuild`.
   */
  giveBack(): boolean {
    const pragma = (name: string): number => Number(this.#db.pragma(name, { simple: true }))
    const kept = Math.max(KEPT_PAGES, pragma('page_count') / 20)
    const most = pragma('freelist_count') - kept
    if (pragma('auto_vacuum') !== INCREMENTAL || most <= 0) return false
    this.#db.pragma(`incremental_vacuum(${Math.ceil(Math.min(most, STEP_PAGES))})`)
    return pragma('freelist_count') > kept
  }

  /** Every byte of the database, free space included. */
  octets(): Uint8Array {
    return this.#db.serialize()
  }

  /**
   * Rewrites the whole database, so that free space contains no old data. Returns false if another process keeps the
   * old bytes in place. The duration is proportional to the size.
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

/** The identity of the file at a path. 'gone' if there is no file, undefined if the disk returns an error. */
function identityOf(file: string): string | undefined {
  try {
    const found = statSync(file, { bigint: true, throwIfNoEntry: false })
    return found ? `${found.dev}:${found.ino}` : 'gone'
  } catch {
    return undefined
  }
}

/**
 * Checks that the files of an open database are still those in the data directory. SQLite keeps writing into files that
 * were removed or replaced, and that data is lost when the process ends.
 */
class Presence {
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
      `${this.#file} or its log was deleted or replaced while in use; if the files are back, restart the server, otherwise restore them or a backup first.`,
    )
  }
}

// The required form of values without a digest: JSON that parses, times in the range of a Date, numbers and flags,
// known states. Also, an open delivery of a campaign must go to its email's recipient. `verify` checks them.

/** The rows that match a condition: their keys, or their number if the table has no keys. Undefined without a match. */
function rowsWhere(database: Database.Database, table: string, condition: string): string | undefined {
  const named = database.prepare(`select 1 from pragma_table_info(?) where name = 'key'`).get(table) !== undefined
  const found = database
    .prepare(`select ${named ? 'key' : `'?'`} from ${table} where ${condition} limit 20`)
    .pluck()
    .all() as (number | string)[]
  return found.length === 0 ? undefined : named ? rowsText(found) : counted(found.length, 'row')
}

/** One sentence for names of viruses that are not in the form in which the scanner's names are stored. */
function impossibleNames(database: Database.Database): string[] {
  if (database.prepare(`select 1 from pragma_table_info('inbound_messages') where name = 'virus'`).get() === undefined)
    return []
  const names = database.prepare('select key, virus from inbound_messages where virus is not null')
  const rows: number[] = []
  // In SQL a text would end at its first NUL.
  for (const { key, virus } of names.iterate() as Iterable<{ key: number; virus: string }>)
    if (!/^[\x20-\x7e]{1,200}$/.test(virus) && rows.length < 20) rows.push(key)
  return rows.length > 0 ? [`virus in inbound_messages is not a valid name: ${rowsText(rows)}`] : []
}

const NUMBER = 'is not a valid number'

/** The SQL condition for an invalid value in a column, and the name of the problem. */
type ValueCheck = [applies: (column: NamedColumn) => boolean, wrong: (column: NamedColumn) => string, words: string]

const outside = (type: string, most: number) => (column: NamedColumn) =>
  `(typeof("${column.name}") <> '${type}' or "${column.name}" not between 0 and ${most})`

const CHECKS: readonly ValueCheck[] = [
  [({ form }) => form === 'time', outside('integer', LAST_TIME), 'is not a valid time'],
  [({ form }) => form === 'flag', outside('integer', 1), 'is not 0 or 1'],
  // All are counts, codes or keys.
  [({ form, sql }) => sql === 'integer' && form === undefined, outside('integer', Number.MAX_SAFE_INTEGER), NUMBER],
  [({ sql }) => sql === 'real', outside('real', Number.MAX_SAFE_INTEGER), NUMBER],
  [
    ({ values }) => values !== undefined,
    ({ name, values }) => `"${name}" not in (${(values ?? []).map((value) => `'${value}'`).join(', ')})`,
    'has an unknown value',
  ],
  [({ form }) => form === 'json', ({ name }) => `not json_valid("${name}")`, 'is not valid JSON'],
]

/** One sentence for each column with values that do not have the required form. Reads every such column. */
export function malformedRows(database: Database.Database): string[] {
  const has = database.prepare('select 1 from pragma_table_info(?) where name = ?')
  // The copy may be of an older version.
  const there = COLUMNS.filter(({ name, table }) => has.get(table, name) !== undefined)
  const found = CHECKS.flatMap(([applies, wrong, words]) =>
    there.filter(applies).flatMap((column) => {
      const { name, table } = column
      const rows = rowsWhere(database, table, `"${name}" is not null and ${wrong(column)}`)
      return rows ? [`${name} in ${table} ${words}: ${rows}`] : []
    }),
  )
  found.push(...impossibleNames(database))
  if (has.get('outbound_emails', 'campaign_key') === undefined) return found
  const strayed = database
    .prepare(
      `select d.key from deliveries d join outbound_emails e on e.key = d.email_key
       where e.campaign_key is not null and d.status in ('queued', 'active', 'held') and lower(d.address) <> lower(e."to")
       limit 20`,
    )
    .pluck()
    .all() as number[]
  if (strayed.length > 0)
    found.push(
      `The recipient of a campaign email differs from the address in the email: ${rowsText(strayed)} of deliveries`,
    )
  return found
}
