// Keyset pages: every collection of the API is read here. The owner's key is added to queries only in this file.
//
// The order is total (the row's key breaks ties), and a page is found by the values of the last row, never by an
// offset: rows that are added or deleted in the meantime neither repeat nor hide other rows. Searches run in slices
// (slices.ts).
import { keepNewest } from '../base/maps.ts'
import type { Reader } from './database.ts'
import { raw, type Query } from './query.ts'
import { readSlice, untilSpent } from './slices.ts'
import type { RowOf, TableName } from './schema/tables.ts'

export interface Order {
  column: string
  descending: boolean
  /** The column can be null, which sorts before every value. */
  nullable?: boolean
}

/** A position in an order: the values of a row's columns, and its key. */
export interface ListPosition {
  values: (string | number | null)[]
  key: number
}

/**
 * A column must have one of these values, or SQL with its parameters must be true. `selective`: so few rows match that
 * finding and sorting them costs less than reading the owner's rows in order. `sliced`: it reads texts or other tables,
 * so its statements run in slices.
 */
export type Condition = { column: string; values: readonly (string | number)[] } | SqlCondition

export interface SqlCondition {
  sql: string
  parameters: readonly (string | number)[]
  selective?: true
  sliced?: true
}

interface ListStart {
  place: ListPosition
  direction: 'after' | 'before'
}

export interface ListQuery {
  table: TableName
  userKey: number
  where: readonly Condition[]
  /** SQL that the resource always adds, e.g. `deleted_at is null`. */
  only?: string
  /** Columns that are not read, such as bodies that are not shown. */
  without?: readonly string[]
  order: readonly Order[]
  from?: ListStart
  size: number
}

export type ListedRow = Record<string, unknown> & { key: number }

export interface ListPage {
  rows: ListedRow[]
  hasNext: boolean
  hasPrevious: boolean
  /** The position of an empty page, which has no row to derive it from. */
  at?: ListPosition
}

/** Reads one page of a user's rows in the requested order. The page can be empty. */
export async function listPage(reader: Reader, query: ListQuery): Promise<ListPage> {
  const backwards = query.from?.direction === 'before'
  const rows = await select(reader, query, query.from, query.size + 1)
  const more = rows.length > query.size
  if (more) rows.length = query.size
  if (backwards) rows.reverse()
  if (rows.length === 0 && query.from) return emptyPage(reader, query, query.from)
  const beyond = async (row: ListedRow | undefined, direction: 'after' | 'before'): Promise<boolean> =>
    row !== undefined && (await select(reader, query, { place: placeOf(row, query.order), direction }, 1)).length > 0
  return backwards
    ? { rows, hasPrevious: more, hasNext: await beyond(rows.at(-1), 'after') }
    : { rows, hasNext: more, hasPrevious: query.from !== undefined && (await beyond(rows[0], 'before')) }
}

/**
 * A page whose rows were deleted after its cursor was issued. The cursor's row is on the neighbouring page. A cursor
 * back to that page must include this row, so its position is half a key further: no row has such a key.
 */
async function emptyPage(reader: Reader, query: ListQuery, { place, direction }: ListStart): Promise<ListPage> {
  const descending = query.order.at(-1)?.descending ?? false
  const at = { values: place.values, key: place.key + (descending === (direction === 'after') ? -0.5 : 0.5) }
  const back = direction === 'after' ? 'before' : 'after'
  const some = (await select(reader, query, { place: at, direction: back }, 1)).length > 0
  return { rows: [], at, hasNext: back === 'after' && some, hasPrevious: back === 'before' && some }
}

export function placeOf(row: ListedRow, order: readonly Order[]): ListPosition {
  return { values: order.map(({ column }) => row[column] as string | number | null), key: row.key }
}

/** A user's row by its public id, or undefined if it does not exist or belongs to another user. */
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

/** The columns of a table except those in `without`, as SQL. "*" if `without` is empty. */
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

/** The rows of a page. Those of a search in slices. */
async function select(
  reader: Reader,
  query: ListQuery,
  from: ListStart | undefined,
  limit: number,
): Promise<ListedRow[]> {
  const page = { from, limit, columns: columnsOf(reader, query.table, query.without ?? []) }
  const plain = (): ListedRow[] => reader.all(statementOf(query, page))
  if (!query.where.some(isSliced)) return plain()
  const inOrder = searchOf(reader, query, page)
  if (inOrder) return walk(reader, inOrder, page)
  const inTime = searchOf(reader, { ...query, order: BY_TIME }, { limit, columns: 'key, created_at' })
  return inTime ? sorted(reader, query, inTime, page) : plain()
}

const isSliced = (condition: Condition): boolean => 'sql' in condition && condition.sliced === true

interface ListRead {
  from?: ListStart | undefined
  limit: number
  /** The columns that are read, as SQL. */
  columns: string
}

/** A query in slices: rows that meet `query.where` are read in order, and those that also meet `fits` are found. */
interface ListSearch {
  query: ListQuery
  fits: SqlCondition
}

const joined = (conditions: readonly SqlCondition[]): SqlCondition => ({
  sql: conditions.map(({ sql }) => `(${sql})`).join(' and '),
  parameters: conditions.flatMap(({ parameters }) => parameters),
})

const inSql = (condition: Condition): SqlCondition =>
  'sql' in condition
    ? condition
    : {
        sql: `"${condition.column}" in (${condition.values.map(() => '?').join(', ')})`,
        parameters: condition.values,
      }

/**
 * The search whose statement reads rows in their order, which requires an index. Undefined if no index has this order.
 * A condition with several values may keep SQLite from that index. Then it is checked row by row, like the search.
 */
function searchOf(reader: Reader, query: ListQuery, page: ListRead): ListSearch | undefined {
  const search = (isFit: (condition: Condition) => boolean, only: SqlCondition[]): ListSearch => ({
    query: { ...query, where: query.where.filter((each) => !isFit(each)) },
    fits: joined([...query.where.filter(isFit).map(inSql), ...only]),
  })
  // The statement of a later slice.
  const next = page.from ?? { place: { values: query.order.map(() => 0), key: 0 }, direction: 'after' as const }
  const { only, ...unlimited } = query
  const hasMany = (each: Condition): boolean => isSliced(each) || !('column' in each && each.values.length === 1)
  const rowByRow = search(hasMany, only === undefined ? [] : [{ sql: only, parameters: [] }])
  return [search(isSliced, []), { ...rowByRow, query: { ...unlimited, where: rowByRow.query.where } }].find(
    ({ fits, query: of }) =>
      isInOrder(reader, statementOf(of, page, fits)) &&
      isInOrder(reader, statementOf(of, { ...page, from: next }, fits)),
  )
}

/** Whether SQLite reads the rows of a statement in the order of its answer, by the text of the statement. */
const inOrder = new Map<string, boolean>()
const MOST_PLANS = 2000

function isInOrder(reader: Reader, statement: Query<ListedRow>): boolean {
  const { parameters, sql } = statement.compile()
  let known = inOrder.get(sql)
  if (known === undefined) {
    const steps = reader.all(raw<{ detail: string }>(`explain query plan ${sql}`, parameters))
    known = !steps.some(({ detail }) => detail.startsWith('USE TEMP B-TREE'))
    inOrder.set(sql, known)
    keepNewest(inOrder, MOST_PLANS)
  }
  return known
}

/** The next rows that match. `rest`: where to continue. */
async function nextRows(
  reader: Reader,
  { fits, query }: ListSearch,
  page: ListRead,
): Promise<{ rows: ListedRow[]; rest: ListStart | undefined }> {
  const { cut, rows } = await readSlice<ListedRow>(reader, statementOf(query, page, fits))
  const last = cut ?? (rows.length === page.limit ? rows.at(-1) : undefined)
  return { rows, rest: last && { place: placeOf(last, query.order), direction: page.from?.direction ?? 'after' } }
}

/** The rows of a page, read in its order until it is full. */
async function walk(reader: Reader, search: ListSearch, page: ListRead): Promise<ListedRow[]> {
  const found: ListedRow[] = []
  let { from } = page
  do {
    const { rows, rest } = await nextRows(reader, search, { ...page, from, limit: page.limit - found.length })
    found.push(...rows)
    from = rest
  } while (from && found.length < page.limit)
  return found
}

/** The rows that are read before they are sorted. */
const SORTED = 500

/** The rows of a page in an order that no index has: all rows that fit are found, and the first of them kept. */
async function sorted(reader: Reader, query: ListQuery, inTime: ListSearch, page: ListRead): Promise<ListedRow[]> {
  let first: ListedRow[] = []
  let from: ListStart | undefined
  const bestOf = (rows: readonly ListedRow[], columns: string): ListedRow[] => {
    const keys = JSON.stringify(rows.map(({ key }) => key))
    const where: Condition[] = [{ sql: 'key in (select value from json_each(?))', parameters: [keys], selective: true }]
    return reader.all(statementOf({ ...query, where }, { ...page, columns }))
  }
  do {
    const { rows, rest } = await nextRows(reader, inTime, { from, limit: SORTED, columns: 'key, created_at' })
    first = bestOf([...first, ...rows], 'key')
    from = rest
  } while (from)
  return bestOf(first, page.columns)
}

/** The order in which every list can be read: each has an index for it. */
const BY_TIME: readonly Order[] = [{ column: 'created_at', descending: true }]

/** The statement for a page. With `fits`, for a slice of it. */
function statementOf(
  query: ListQuery,
  { columns, from, limit }: ListRead,
  fits?: SqlCondition,
): Query<ListedRow & { fits: number | null }> {
  // The "+" stops SQLite from using an index of owners: without statistics SQLite assumes ten rows for each owner.
  const selective = query.where.some((condition) => 'sql' in condition && condition.selective)
  const clauses = [selective ? '+user_key = ?' : 'user_key = ?']
  const parameters: unknown[] = [...(fits?.parameters ?? []), query.userKey]
  if (query.only) clauses.push(query.only)
  for (const condition of query.where.map(inSql)) {
    clauses.push(`(${condition.sql})`)
    parameters.push(...condition.parameters)
  }
  const flip = from?.direction === 'before'
  const order = withKey(query.order).map((part) => ({ ...part, descending: part.descending !== flip }))
  if (from) {
    const { first, others, values } = beyondPlace(order, from.place)
    // The "+" keeps SQLite from reading each branch by an index, which loses the order that slices need.
    clauses.push(first, fits ? `+(${others})` : `(${others})`)
    parameters.push(...values)
  }
  if (fits) {
    clauses.push(untilSpent(fits.sql))
    parameters.push(...fits.parameters)
  }
  const by = order.map(({ column, descending }) => `"${column}" ${descending ? 'desc' : 'asc'}`).join(', ')
  return raw(
    `select ${columns}${fits ? `, (${fits.sql}) as fits` : ''} from ${query.table} where ${clauses.join(' and ')} order by ${by} limit ?`,
    [...parameters, limit],
  )
}

/** The key follows the direction of the last column, so that an index on the columns serves both. */
function withKey(order: readonly Order[]): Order[] {
  if (order.at(-1)?.column === 'key') return [...order]
  return [...order, { column: 'key', descending: order.at(-1)?.descending ?? false }]
}

/**
 * SQL "a < x or (a = x and b > y) or …", with "a <= x" in front so that the index can be used.
 * Null compares as SQLite sorts it: before every value.
 */
function beyondPlace(
  order: readonly Order[],
  place: ListPosition,
): { first: string; others: string; values: unknown[] } {
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
  return { first: from, others: `(${branches.join(') or (')})`, values: [...start, ...values] }
}

/** SQL "column > ?" or "column < ?" by the direction, with "=" if `equal` is set. Adds the value to `values`. */
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
