// The prepared statements of one connection, and the results that are kept in memory: facts and generations. Every
// statement runs here, so that a fact is forgotten as soon as a statement may have changed it.
import type Database from 'better-sqlite3'
import { StatementEffects, type Effects } from './statement-tables.ts'
import type { Compiled } from './query.ts'
import type { Change } from './tx.ts'
import type { TableName } from './schema/tables.ts'
import { keepNewest } from '../base/maps.ts'

/** Texts and names in quotes, which stay unchanged, or the text before a parameter that influences the planner. */
const PLANNED = /'[^']*'|"[^"]*"|((?:\bin\s*\((?=\?\s*\))|\blimit|\bis(?:\s+not)?|[<>]=?|(?<![<>])=|<>|!=)\s*)\?/gi

/**
 * The statement with hidden parameters, in a form that SQLite compiles once. SQLite's planner reads the value of a
 * parameter that it compares with a column, or that limits the rows. From then on the plan depends on the value, and
 * SQLite compiles the statement again before every run: 5 to 50 microseconds, which is more than most statements take.
 * The planner does not look into `likely(?)`, which is otherwise the same
 * (https://sqlite.org/lang_corefunc.html#likely). A condition that a partial index needs must be a literal in the
 * statement: the planner does not see the value of a parameter.
 */
export const stablePlan = (sql: string): string =>
  sql.replace(PLANNED, (all, before: string | undefined) => (before === undefined ? all : `${before}likely(?)`))

/** Called after every statement with its text, the number of rows that it returned, and the number that it changed. */
export type Watch = (sql: string, read: number, written: number) => void

const DATA_VERSION = 'pragma data_version'

/** The most statements that stay compiled. Filters and the rules of segments have any number of forms. */
const MOST_PREPARED = 2000

export class Statements {
  readonly #db: Database.Database
  readonly #prepared = new Map<string, Database.Statement>()
  readonly #effects: StatementEffects
  readonly #facts = new RowCache()
  readonly #generations = { changed: new Map<string, number>(), removed: new Map<string, number>() }
  /** The effects of this transaction's statements: after a rollback, facts that were read after them are wrong. */
  readonly #touched = new Set<Effects>()
  /** How often another process has changed the database, as far as is known. */
  #outside = 0
  /** Whether `lookAgain` has run in this callback of the event loop. */
  #asked = false
  #transaction = false
  #version: unknown
  watch: Watch | undefined
  /** Called before each statement of a transaction, with the tables that it may read and change. */
  before: ((effects: Effects) => void) | undefined

  constructor(database: Database.Database) {
    this.#db = database
    this.#effects = new StatementEffects(database)
    this.#version = this.#dataVersion()
  }

  all<Output>({ parameters, sql }: Compiled, isLast?: (row: Output) => boolean): Output[] {
    const effects = this.#effects.of(sql)
    this.before?.(effects)
    const statement = this.#prepare(sql)
    const rows = isLast
      ? upTo(statement.iterate(...parameters) as IterableIterator<Output>, isLast)
      : (statement.all(...parameters) as Output[])
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

  one<Output>(query: Compiled): Output {
    const row = this.first<Output>(query)
    if (row === undefined) throw new Error(`No row: ${query.sql}`)
    return row
  }

  /** Runs a statement that changes rows. Throws the error of SQLite. */
  run({ parameters, sql }: Compiled): Change {
    const effects = this.#effects.of(sql)
    this.before?.(effects)
    const { changes, lastInsertRowid } = this.#prepare(sql).run(...parameters)
    this.watch?.(sql, 0, changes)
    // Without a changed row no trigger has run and no row of another table was deleted with it.
    if (changes > 0) this.#note(effects)
    return { changes, key: Number(lastInsertRowid) }
  }

  /** A statement that starts or finishes a transaction or a savepoint. */
  step(sql: string): void {
    this.#prepare(sql).run()
    this.watch?.(sql, 0, 0)
  }

  fact<Output>(query: Compiled): Output | undefined {
    const { parameters, sql } = query
    this.#lookOutside()
    return this.#facts.get(this.#effects.of(sql), sql, parameters, () => this.first(query)) as Output | undefined
  }

  generation(table: TableName, by: 'changed' | 'removed'): number {
    this.#lookOutside()
    return (this.#generations[by].get(table) ?? 0) + this.#outside
  }

  /** Call it when a transaction has started: until `committed` it sees the database as it is now. */
  begun(): void {
    this.lookAgain()
    this.#transaction = true
  }

  /** Checks whether another process has changed the database. Returns the number of changes detected so far. */
  lookAgain(): number {
    const version = this.#dataVersion()
    if (version !== this.#version) {
      this.#version = version
      this.#outside++
      this.#facts.clear()
    }
    return this.#outside
  }

  /** Call it at the end of a transaction, after `undone` if changes were undone. */
  committed(): void {
    this.#transaction = false
    this.#touched.clear()
  }

  /** Call it when all or some changes of the transaction were undone: facts that were read from them are forgotten. */
  undone(): void {
    for (const effects of this.#touched) this.#note(effects)
  }

  /**
   * Forgets all facts when another process has changed the database. One check for each callback of the event loop is
   * enough: a request that arrives after another process's commit is handled in a later callback.
   */
  #lookOutside(): void {
    if (this.#asked || this.#transaction) return
    this.lookAgain()
    this.#asked = true
    process.nextTick(() => (this.#asked = false))
  }

  /** Forgets the facts from the tables that a statement may have changed, and counts their generations on. */
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
      statement = this.#db.prepare(stablePlan(sql))
      this.#prepared.set(sql, statement)
      keepNewest(this.#prepared, MOST_PREPARED)
    }
    return statement
  }
}

/** The rows up to the first for which `isLast` is true. The others are not read. */
function upTo<Output>(all: Iterable<Output>, isLast: (row: Output) => boolean): Output[] {
  const rows: Output[] = []
  for (const row of all) {
    rows.push(row)
    if (isLast(row)) break
  }
  return rows
}

const bump = (counts: Map<string, number>, name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1)

// Facts: rows that are read for every email and rarely change, such as a token with its user, a sending domain, or
// whether a domain has a webhook. Each is cached until a statement changes one of the tables that its query names.
// statements.ts reports the changed tables.

/** The most rows that are cached per query. Beyond this number all of them are dropped and read again. */
const MAX_ROWS = 1000

interface CachedQuery {
  rows: Map<string, unknown>
}

export class RowCache {
  readonly #queries = new Map<string, CachedQuery>()
  /** The queries that read a table. */
  readonly #readers = new Map<string, CachedQuery[]>()

  /** The row of a query with these parameters, as `read` returned it first. It is frozen. */
  get(effects: Effects, sql: string, parameters: readonly unknown[], read: () => unknown): unknown {
    const { rows } = this.#queries.get(sql) ?? this.#know(effects, sql)
    const name = nameOf(parameters)
    if (rows.has(name)) return rows.get(name)
    const row = Object.freeze(read())
    if (rows.size >= MAX_ROWS) rows.clear()
    rows.set(name, row)
    return row
  }

  /** Forgets the rows that were read from these tables. */
  changed(tables: readonly string[]): void {
    for (const table of tables) for (const { rows } of this.#readers.get(table) ?? []) rows.clear()
  }

  clear(): void {
    for (const { rows } of this.#queries.values()) rows.clear()
  }

  #know({ names }: Effects, sql: string): CachedQuery {
    const query: CachedQuery = { rows: new Map() }
    this.#queries.set(sql, query)
    // A row's digest changes only together with the row, whose table is named as well.
    for (const table of names)
      if (table !== 'digests') this.#readers.set(table, [...(this.#readers.get(table) ?? []), query])
    return query
  }
}

/** A name for the parameters of a query. Different parameters have different names. */
const nameOf = (parameters: readonly unknown[]): string => {
  let name = ''
  for (const each of parameters) {
    const text = each instanceof Uint8Array ? Buffer.from(each).toString('latin1') : String(each)
    name += `${typeof each} ${text.length} ${text} `
  }
  return name
}
