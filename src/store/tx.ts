// What code may do with the store: read, and write inside a transaction.
import type { Compiled, Runnable } from './query.ts'
import type { SumTable } from './sums.ts'
import type { TableName } from './tables.ts'

export interface Reader {
  /** All rows of a query. Throws the error of SQLite. */
  all<Output>(query: Runnable<Output>): Output[]
  /** The first row of a query; undefined when it has none. Throws the error of SQLite. */
  first<Output>(query: Runnable<Output>): Output | undefined
  /**
   * The first row of a query that is asked often and whose tables rarely change: kept in memory until they do, by this
   * process or another. The row is frozen. The time of day must not be a parameter.
   */
  fact<Output>(query: Runnable<Output>): Output | undefined
  /**
   * A number that differs once rows of a table may have been changed (`changed`) or deleted (`removed`) since the last
   * call, by this process or another. What was read before is still true while it is the same.
   */
  generation(table: TableName, by: 'changed' | 'removed'): number
}

export interface Change {
  /** How many rows were inserted, updated or deleted. */
  changes: number
  /** The `key` of the last inserted row. */
  key: number
}

export interface Tx extends Reader {
  /**
   * Adds to the row of a table of sums; see `Sums.add`. It is written at the end of the transaction, or before a
   * statement that names the table.
   */
  add(sum: SumTable, place: readonly (string | number)[], amounts: readonly number[]): void
  /** Runs a statement that changes rows. Throws the error of SQLite. */
  run(query: { compile(): Compiled }): Change
  /** Calls the listeners of this name (`Store.on`), once for the whole commit. */
  signal(news: string): void
  /** Calls `run` once the transaction is on the disk, to ring bells or drop caches. Not called when it fails. */
  afterCommit(run: () => void): void
}
