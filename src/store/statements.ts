// The prepared statements of one connection, and what is kept in memory of their results: facts and generations. Every
// statement passes here, so that none can change a row that is kept without its being forgotten.
import type Database from 'better-sqlite3'
import { StatementEffects, type Effects } from './effects.ts'
import { Facts } from './facts.ts'
import type { Compiled } from './query.ts'
import type { Change } from './tx.ts'
import type { TableName } from './tables.ts'

/** Hears of every statement: its text, the rows that it returned, the rows that it changed. */
export type Watch = (sql: string, read: number, written: number) => void

const DATA_VERSION = 'pragma data_version'

export class Statements {
  readonly #db: Database.Database
  readonly #prepared = new Map<string, Database.Statement>()
  readonly #effects: StatementEffects
  readonly #facts = new Facts()
  readonly #generations = { changed: new Map<string, number>(), removed: new Map<string, number>() }
  /** What the statements of this transaction have changed: facts that were read after them may be undone. */
  readonly #touched = new Set<Effects>()
  /** How often another process has changed the database, as far as is known. */
  #outside = 0
  /** The database was asked in this callback of the event loop whether another process has changed it. */
  #asked = false
  #transaction = false
  #version: unknown
  watch: Watch | undefined
  /** Called before each statement of a transaction, with what it may read and change. */
  before: ((effects: Effects) => void) | undefined

  constructor(database: Database.Database) {
    this.#db = database
    this.#effects = new StatementEffects(database)
    this.#version = this.#dataVersion()
  }

  /** Runs a statement and returns all its rows. Throws the error of SQLite. */
  all<Output>({ parameters, sql }: Compiled): Output[] {
    const effects = this.#effects.of(sql)
    this.before?.(effects)
    const rows = this.#prepare(sql).all(...parameters) as Output[]
    this.watch?.(sql, rows.length, 0)
    this.#note(effects)
    return rows
  }

  /** Runs a statement and returns its first row. Throws the error of SQLite. */
  first<Output>({ parameters, sql }: Compiled): Output | undefined {
    const effects = this.#effects.of(sql)
    this.before?.(effects)
    const row = this.#prepare(sql).get(...parameters) as Output | undefined
    this.watch?.(sql, row === undefined ? 0 : 1, 0)
    this.#note(effects)
    return row
  }

  /** Runs a statement that changes rows. Throws the error of SQLite. */
  run({ parameters, sql }: Compiled): Change {
    const effects = this.#effects.of(sql)
    this.before?.(effects)
    const { changes, lastInsertRowid } = this.#prepare(sql).run(...parameters)
    this.watch?.(sql, 0, changes)
    this.#note(effects)
    return { changes, key: Number(lastInsertRowid) }
  }

  /** A statement that begins or ends a transaction or a savepoint. */
  step(sql: string): void {
    this.#prepare(sql).run()
    this.watch?.(sql, 0, 0)
  }

  /** See `Reader.fact`. */
  fact<Output>(query: Compiled): Output | undefined {
    const { parameters, sql } = query
    this.#lookOutside()
    return this.#facts.get(this.#effects.of(sql), sql, parameters, () => this.first(query)) as Output | undefined
  }

  /** See `Reader.generation`. */
  generation(table: TableName, by: 'changed' | 'removed'): number {
    this.#lookOutside()
    return (this.#generations[by].get(table) ?? 0) + this.#outside
  }

  /** A transaction has begun: until `committed` it sees the database as it is now. */
  begun(): void {
    this.lookAgain()
    this.#transaction = true
  }

  /** Looks whether another process has changed the database. Returns how often one has so far. */
  lookAgain(): number {
    const version = this.#dataVersion()
    if (version !== this.#version) {
      this.#version = version
      this.#outside++
      this.#facts.clear()
    }
    return this.#outside
  }

  /** The transaction has ended, and what it has changed is kept, but for what `undone` was told. */
  committed(): void {
    this.#transaction = false
    this.#touched.clear()
  }

  /** Changes of the transaction were undone, all or some: facts that were read from them are forgotten. */
  undone(): void {
    for (const effects of this.#touched) this.#note(effects)
  }

  /**
   * Forgets what is kept in memory when another process has changed the database. It is asked once in a callback of the
   * event loop: a request that came after another process's commit is handled in a later one.
   */
  #lookOutside(): void {
    if (this.#asked || this.#transaction) return
    this.lookAgain()
    this.#asked = true
    process.nextTick(() => (this.#asked = false))
  }

  /** Forgets what is kept in memory of the tables that a statement may have changed. */
  #note(effects: Effects): void {
    const { changes, removes } = effects
    if (changes.length === 0) return
    this.#touched.add(effects)
    this.#facts.changed(changes)
    for (const table of changes) bump(this.#generations.changed, table)
    for (const table of removes) bump(this.#generations.removed, table)
  }

  #dataVersion(): unknown {
    this.watch?.(DATA_VERSION, 1, 0)
    return this.#prepare(DATA_VERSION).pluck().get()
  }

  #prepare(sql: string): Database.Statement {
    let statement = this.#prepared.get(sql)
    if (!statement) {
      statement = this.#db.prepare(sql)
      this.#prepared.set(sql, statement)
    }
    return statement
  }
}

const bump = (counts: Map<string, number>, name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1)
