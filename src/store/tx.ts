// The access of other code to the store: reading, and writing inside a transaction.
import type { Compiled, Runnable } from './query.ts'
import type { SumTable } from './sums.ts'
import type { TableName } from './schema/tables.ts'

export interface Reader {
  /** All rows of a query, or those up to the first for which `isLast` is true. Throws the error of SQLite. */
  all<Output>(query: Runnable<Output>, isLast?: (row: Output) => boolean): Output[]
  /** The first row of a query, or undefined without one. Throws the error of SQLite. */
  first<Output>(query: Runnable<Output>): Output | undefined
  /** The first row of a query that always has one. Throws the error of SQLite, and a fault when there is no row. */
  one<Output>(query: Runnable<Output>): Output
  /**
   * The first row of a query that runs often and whose tables rarely change. The row is kept in memory until this or
   * another process changes these tables. The row is frozen. The time of day must not be a parameter.
   */
  fact<Output>(query: Runnable<Output>): Output | undefined
  /**
   * A number that changes when this or another process may have changed (`changed`) or deleted (`removed`) rows of a
   * table. While the number is the same, rows that were read before are still valid.
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
   * Adds to the row of a table of sums (`Sums.add`). The sum is written at the end of the transaction, or before a
   * statement that names the table.
   */
  add(sum: SumTable, key: readonly (string | number)[], amounts: readonly number[]): void
  /** Runs a statement that changes rows. Throws the error of SQLite. */
  run(query: { compile(): Compiled }): Change
  /** Calls the listeners of this name (`Store.on`), once for the whole commit, with the users (`about`) concerned. */
  signal(news: string, about?: number): void
  /** Calls `run` when the transaction is on the disk, to wake loops or drop caches. Not called after a rollback. */
  afterCommit(run: () => void): void
  /** Calls `run` after a rollback, before another transaction reads, to drop cached data. */
  afterUndo(run: () => void): void
}
