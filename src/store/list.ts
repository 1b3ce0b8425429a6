// Keyset pages: every collection of the API is read here. The owner's key is added to queries only in this file.
//
// The order is total (the row's key breaks ties), and a page is found by the values of the last row, never by an
// offset: rows that are added or deleted meanwhile neither repeat nor hide other rows.
import type { Reader } from './database.ts'
import { raw } from './query.ts'
import type { RowOf, TableName } from '../schema/tables.ts'

export interface Order {
  column: string
  descending: boolean
  /** The column may hold null, which sorts before every value. */
  nullable?: boolean
}

/** A position in an order: the values of a row's columns, and its key. */
export interface ListPosition {
  values: (string | number | null)[]
  key: number
}

/**
 * A column must have one of these values; or SQL with its parameters. `selective`: so few rows fit the condition that
 * to look them up and sort them costs less than to go through the owner's rows in order.
 */
export type Condition =
  | { column: string; values: readonly (string | number)[] }
  | { sql: string; parameters: readonly (string | number)[]; selective?: true }

export interface ListQuery {
  table: TableName
  userKey: number
  where: readonly Condition[]
  /** SQL that the resource always adds, e.g. `deleted_at is null`. */
  only?: string
  /** Columns that are not read, such as bodies that are not shown. */
  without?: readonly string[]
  order: readonly Order[]
  from?: { place: ListPosition; direction: 'after' | 'before' }
  size: number
}

export type ListedRow = Record<string, unknown> & { key: number }

export interface ListPage {
  rows: ListedRow[]
  hasNext: boolean
  hasPrevious: boolean
  /** The position of an empty page, which has no row that could give the position. */
  at?: ListPosition
}

/** Reads one page of a user's rows, in the order asked for; an empty page when there are none. */
export function listPage(reader: Reader, query: ListQuery): ListPage {
  const backwards = query.from?.direction === 'before'
  const rows = select(reader, query, query.from, query.size + 1)
  const more = rows.length > query.size
  if (more) rows.length = query.size
  if (backwards) rows.reverse()
  if (rows.length === 0 && query.from) return emptyPage(reader, query, query.from)
  const beyond = (row: ListedRow | undefined, direction: 'after' | 'before'): boolean =>
    row !== undefined && select(reader, query, { place: placeOf(row, query.order), direction }, 1).length > 0
  return backwards
    ? { rows, hasPrevious: more, hasNext: beyond(rows.at(-1), 'after') }
    : { rows, hasNext: more, hasPrevious: query.from !== undefined && beyond(rows[0], 'before') }
}

/**
 * A page whose rows were deleted after its cursor was issued. The cursor's row is on the neighbouring page. A cursor
 * back to that page must include this row, so its position is half a key further: no row has such a key.
 */
function emptyPage(reader: Reader, query: ListQuery, { place, direction }: NonNullable<ListQuery['from']>): ListPage {
  const descending = query.order.at(-1)?.descending ?? false
  const at = { values: place.values, key: place.key + (descending === (direction === 'after') ? -0.5 : 0.5) }
  const back = direction === 'after' ? 'before' : 'after'
  const some = select(reader, query, { place: at, direction: back }, 1).length > 0
  return { rows: [], at, hasNext: back === 'after' && some, hasPrevious: back === 'before' && some }
}

/** The position of a row in an order. */
export function placeOf(row: ListedRow, order: readonly Order[]): ListPosition {
  return { values: order.map(({ column }) => row[column] as string | number | null), key: row.key }
}

/** A user's row by its public id; undefined when there is none, or when it belongs to another user. */
export function findOwned<Name extends TableName>(
  reader: Reader,
  table: Name,
  userKey: number,
  id: string,
  only?: string,
): (ListedRow & RowOf<Name>) | undefined {
  return reader.first<ListedRow & RowOf<Name>>(
    raw(`select * from ${table} where id = ? and user_key = ?${only ? ` and ${only}` : ''}`, [id, userKey]),
  )
}

/** Rows by key, for related resources. Deleted rows are included, because other rows still refer to them. */
export function findByKeys(
  reader: Reader,
  table: TableName,
  keys: readonly number[],
  without: readonly string[] = [],
): ListedRow[] {
  return reader.all<ListedRow>(
    raw(`select ${columnsOf(reader, table, without)} from ${table} where key in (select value from json_each(?))`, [
      JSON.stringify(keys),
    ]),
  )
}

/** The id of one row, without its other columns. It never changes. */
export const findId = (reader: Reader, table: TableName, key: number): ListedRow | undefined =>
  reader.fact<ListedRow>(raw(`select key, id from ${table} where key = ?`, [key]))

const columnLists = new Map<string, string>()

/** The columns of a table except those in `without`, as SQL; "*" when none is left out. */
function columnsOf(reader: Reader, table: TableName, without: readonly string[]): string {
  if (without.length === 0) return '*'
  const name = `${table} ${without.join(' ')}`
  let list = columnLists.get(name)
  if (list === undefined) {
    const all = reader.all(raw<{ name: string }>('select name from pragma_table_info(?)', [table]))
    list = all.flatMap((column) => (without.includes(column.name) ? [] : [`"${column.name}"`])).join(', ')
    columnLists.set(name, list)
  }
  return list
}

function select(reader: Reader, query: ListQuery, from: ListQuery['from'], limit: number): ListedRow[] {
  // The "+" stops SQLite from using an index of owners: without statistics SQLite assumes ten rows for each owner.
  const selective = query.where.some((condition) => 'sql' in condition && condition.selective)
  const clauses = [selective ? '+user_key = ?' : 'user_key = ?']
  const parameters: unknown[] = [query.userKey]
  if (query.only) clauses.push(query.only)
  for (const condition of query.where) {
    if ('sql' in condition) {
      clauses.push(`(${condition.sql})`)
      parameters.push(...condition.parameters)
    } else {
      clauses.push(`"${condition.column}" in (${condition.values.map(() => '?').join(', ')})`)
      parameters.push(...condition.values)
    }
  }
  const flip = from?.direction === 'before'
  const order = withKey(query.order).map((part) => ({ ...part, descending: part.descending !== flip }))
  if (from) {
    const { sql, values } = beyondPlace(order, from.place)
    clauses.push(sql)
    parameters.push(...values)
  }
  const by = order.map(({ column, descending }) => `"${column}" ${descending ? 'desc' : 'asc'}`).join(', ')
  return reader.all<ListedRow>(
    raw(
      `select ${columnsOf(reader, query.table, query.without ?? [])} from ${query.table} where ${clauses.join(' and ')} order by ${by} limit ?`,
      [...parameters, limit],
    ),
  )
}

/** The key follows the direction of the last column, so that an index on the columns serves both. */
function withKey(order: readonly Order[]): Order[] {
  return [...order, { column: 'key', descending: order.at(-1)?.descending ?? false }]
}

/**
 * SQL "a < x or (a = x and b > y) or …", with "a <= x" in front so that the index can be used.
 * Null compares as SQLite sorts it: before every value.
 */
function beyondPlace(order: readonly Order[], place: ListPosition): { sql: string; values: unknown[] } {
  const given = [...place.values, place.key]
  const values: unknown[] = []
  const branches = order.map((part, depth) => {
    const equal = order.slice(0, depth).map((earlier, index) => {
      values.push(given[index])
      return `"${earlier.column}" is ?`
    })
    return [...equal, compared(part, given[depth]!, values)].join(' and ')
  })
  const [first] = order
  const start: unknown[] = []
  const from = compared(first!, given[0]!, start, '=')
  return { sql: `${from} and ((${branches.join(') or (')}))`, values: [...start, ...values] }
}

/** SQL "column > ?" or "column < ?" by the direction, with "=" when `equal` says so; adds the value to `values`. */
function compared(
  { column, descending, nullable }: Order,
  value: string | number | null,
  values: unknown[],
  equal: '=' | '' = '',
): string {
  if (value === null) {
    if (descending) return equal ? `"${column}" is null` : 'false'
    return equal ? 'true' : `"${column}" is not null`
  }
  values.push(value)
  if (!descending) return `"${column}" >${equal} ?`
  return nullable ? `("${column}" <${equal} ? or "${column}" is null)` : `"${column}" <${equal} ?`
}
