// Facts: rows that are read for every mail and rarely change, such as a token with its user, a sending domain, or
// whether a domain has a webhook. Each is kept in memory until a statement changes one of the tables that its query
// names; statements.ts reports the changed tables.
import type { Effects } from './statement-tables.ts'

/** The most rows that are kept for one query; beyond this number all of them are dropped and read again. */
const MAX_ROWS = 1000

interface CachedQuery {
  rows: Map<string, unknown>
}

export class RowCache {
  readonly #queries = new Map<string, CachedQuery>()
  /** The queries that read a table. */
  readonly #readers = new Map<string, CachedQuery[]>()

  /** The row of a query with these parameters, as `read` returned it first; it is frozen. */
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

  /** Forgets everything. */
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

/** A name for the parameters of a query; different parameters have different names. */
const nameOf = (parameters: readonly unknown[]): string => {
  let name = ''
  for (const each of parameters) {
    const text = each instanceof Uint8Array ? Buffer.from(each).toString('latin1') : String(each)
    name += `${typeof each} ${text.length} ${text} `
  }
  return name
}
