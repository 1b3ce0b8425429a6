// Sums that many writes add to, such as deliveries by hour and domain. The amounts that the writes of one transaction
// add are collected and written once, by one statement for each table, before the transaction ends.
import type { TableName } from './schema/tables.ts'

export interface SumTable {
  table: TableName
  /** The columns that identify a row. They have a unique index. */
  by: readonly string[]
  /** Further columns that are set when the row is made. */
  also?: readonly string[]
  /** The columns that are added to. */
  of: readonly string[]
}

type SumValue = string | number
type SumRows = Map<string, { key: SumValue[]; amounts: number[] }>

/** Amounts that were added and are not written yet. */
export class Sums {
  readonly #pending = new Map<SumTable, SumRows>()

  /** Adds to the row of `key`, with the values of `by` and `also` in this order. `amounts` are those of `of`. */
  add(sum: SumTable, key: readonly SumValue[], amounts: readonly number[]): void {
    let rows = this.#pending.get(sum)
    if (!rows) this.#pending.set(sum, (rows = new Map()))
    const name = JSON.stringify(key)
    const row = rows.get(name)
    if (row) for (const [index, amount] of amounts.entries()) row.amounts[index]! += amount
    else rows.set(name, { key: [...key], amounts: [...amounts] })
  }

  /** Takes over the amounts of another object. That one is empty afterwards. */
  take(other: Sums): void {
    for (const [sum, rows] of other.#pending) for (const { key, amounts } of rows.values()) this.add(sum, key, amounts)
    other.#pending.clear()
  }

  /** Whether amounts are pending for one of these tables. */
  concern(tables: readonly string[]): boolean {
    for (const { table } of this.#pending.keys()) if (tables.includes(table)) return true
    return false
  }

  get empty(): boolean {
    return this.#pending.size === 0
  }

  /** Writes all pending amounts by `run`. They stay pending until `clear`. */
  write(run: (sql: string, rows: string) => void): void {
    for (const [sum, rows] of this.#pending)
      run(statementOf(sum), JSON.stringify([...rows.values()].map(({ key, amounts }) => [...key, ...amounts])))
  }

  /** Forgets all pending amounts. */
  clear(): void {
    this.#pending.clear()
  }
}

const statements = new Map<SumTable, string>()

function statementOf(sum: SumTable): string {
  let sql = statements.get(sum)
  if (sql === undefined) {
    const { also = [], by, of, table } = sum
    const columns = [...by, ...also, ...of]
    sql = `insert into ${table} (${columns.join(', ')})
      select ${columns.map((_, index) => `value ->> ${index}`).join(', ')} from json_each(?) where true
      on conflict (${by.join(', ')}) do update set ${of.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`
    statements.set(sum, sql)
  }
  return sql
}
