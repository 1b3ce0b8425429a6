// Collections: the conditions from path and filters, the page that a cursor points to, and the links to the previous
// and next page.
import type { Clock } from '../base/clock.ts'
import { must, refuse } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { findOwned, listPage, placeOf, type Condition, type ListedRow } from '../store/list.ts'
import type { Reader } from '../store/database.ts'
import { readCursor, writeCursor, type CursorScope, type Direction } from './cursor.ts'
import { buildDocument, buildPage, type ApiDocument, type Writer } from './document.ts'
import { typeNamed, type RequestQuery, type Types } from './query.ts'
import type { ActionOf, Caller, Filtered, Resource, Within } from './resource.ts'
import { visibleTo } from './roles.ts'
import { unlisted } from './shown.ts'

export interface ListDeps {
  clock: Clock
  keyring: Keyring
  reader: Reader
}

export interface Listing {
  caller: Caller
  /** The path of the request's URL. */
  path: string
  query: RequestQuery
  writer: Writer
}

/** The parent that a path names. Throws 404. */
export function findParent(reader: Reader, types: Types, caller: Caller, within: Within, id: string): ListedRow {
  const { marketing, only, table } = typeNamed(types, within.type)
  const visible = visibleTo(caller, { marketing, only: within.removed ? undefined : only })
  const row = findOwned(reader, table, caller.userKey, id, visible)
  if (!row) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
  return row
}

/** The properties that a cursor is bound to. */
const scopeOf = ({ userKey }: Caller, path: string, { filters, sort }: RequestQuery): CursorScope => ({
  userKey,
  collection: `${path}?${JSON.stringify([...filters].toSorted(([a], [b]) => (a < b ? -1 : 1)))}`,
  sort,
})

export async function list(
  { clock, keyring, reader }: ListDeps,
  resource: Resource<never>,
  action: Pick<Extract<ActionOf<never>, { kind: 'list' }>, 'path' | 'within'>,
  { caller, path, query, writer }: Listing,
  parentId: string | undefined,
): Promise<ApiDocument & { links: object; meta: object }> {
  const where: Condition[] = []
  const now = clock.now()
  let parent: number | undefined
  if (action.within && parentId !== undefined) {
    parent = findParent(reader, writer.types, caller, action.within, parentId).key
    where.push({ column: action.within.column, values: [parent] })
  }
  const filtered = { keyring, userKey: caller.userKey, parent, now }
  for (const [name, values] of query.filters)
    where.push(...[await condition({ keyring, reader, resource, filtered, writer }, name, values)].flat())

  const scope = scopeOf(caller, path, query)
  const cursor = query.cursor === undefined ? 'first page' : readCursor(keyring, scope, query.cursor, now)
  if (cursor === 'other sort')
    throw refuse(
      'cursor_sort_mismatch',
      'The cursor belongs to another sort order. Start again without page[cursor].',
      {
        parameter: 'page[cursor]',
      },
    )
  const only = visibleTo(caller, resource)
  const listed = await listPage(reader, {
    table: resource.table,
    userKey: caller.userKey,
    where,
    without: unlisted(resource),
    order: query.order,
    size: query.size,
    ...(only === undefined ? {} : { only }),
    ...(cursor === 'first page' ? {} : { from: cursor }),
  })
  const { document, page } = buildPage(
    writer,
    resource,
    listed,
    query,
    cursor === 'first page' ? 'after' : cursor.direction,
  )
  const mark = (row: ListedRow | undefined, there: boolean, direction: Direction): string | null => {
    const place = row ? placeOf(row, query.order) : page.at
    return place && there ? writeCursor(keyring, scope, place, direction, now) : null
  }
  const next = mark(page.rows.at(-1), page.hasNext, 'after')
  const previous = mark(page.rows[0], page.hasPrevious, 'before')
  return { ...document, ...pageLinks(writer, action.path, parentId, query, { next, previous, more: page.hasNext }) }
}

/** `links` and `meta` of a page (specification "Cursor pagination"). */
function pageLinks(
  { base }: Writer,
  path: string,
  parentId: string | undefined,
  query: RequestQuery,
  { more, next, previous }: { next: string | null; previous: string | null; more: boolean },
): { links: object; meta: object } {
  // `path` is the route's path below the API's mount point, which the base contains.
  const url = base + path.replace(/:\w+/, parentId ?? '')
  const link = (cursorText: string | null): string => {
    const parameters = new URLSearchParams(query.kept.filter(([name]) => name !== 'page[size]'))
    if (cursorText !== null) parameters.set('page[cursor]', cursorText)
    parameters.set('page[size]', String(query.size))
    return `${url}?${parameters.toString()}`
  }
  return {
    links: { first: link(null), last: null, prev: previous && link(previous), next: next && link(next) },
    meta: { has_more: more, next_cursor: next, prev_cursor: previous, per_page: query.size },
  }
}

interface Filtering extends Pick<ListDeps, 'keyring' | 'reader'>, Pick<Listing, 'writer'> {
  resource: Resource<never>
  filtered: Filtered
}

/** A filter as a condition on a column. Public ids of related resources are resolved to keys. */
function condition(
  { filtered, keyring, reader, resource, writer }: Filtering,
  name: string,
  values: string[],
): Condition | Promise<Condition | Condition[]> {
  const { cheaper, column, type, flag, forms, means, sql } = must(resource.filters?.[name], 'A filter')
  if (sql) return sql(must(values[0], 'The value of a filter'), reader, filtered)
  if (forms) return { column, values: values.flatMap((value) => forms(value, keyring)) }
  if (flag) return { column, values: values.map((value) => (value === 'true' ? 1 : 0)) }
  if (type === undefined)
    return {
      column,
      values: values.flatMap((value) => (means && Object.hasOwn(means, value) && means[value]) || [value]),
    }
  const { table } = typeNamed(writer.types, type)
  const keys = values
    .map((id) => findOwned(reader, table, filtered.userKey, id)?.key)
    .filter((key) => key !== undefined)
  // No row has key 0, so an unknown id matches no row.
  return cheaper?.(keys, reader) ?? { column, values: keys.length > 0 ? keys : [0] }
}

const WHOLE = { include: undefined, fields: new Map() }

interface Viewing {
  caller: Caller
  /** The path of the request's URL, and the path of the route. */
  path: string
  route: string
  parentId: string | undefined
  query: RequestQuery
  writer: Writer
}

/** Nulls come first, as in SQLite. */
const compared = (one: unknown, other: unknown): number =>
  one === other ? 0 : one === null || (other !== null && (one as number) < (other as number)) ? -1 : 1

/** Computed rows in the order that the request asks for, or in their own. */
const inOrder = (rows: ListedRow[], { kept, order }: RequestQuery): ListedRow[] =>
  (kept.some(([name]) => name === 'sort') ? order : []).reduceRight(
    (by, { column, descending }) =>
      by.toSorted((one, other) => compared(one[column], other[column]) * (descending ? -1 : 1)),
    rows,
  )

/**
 * The document of the requested page of rows that are computed at each request. No table has them, so a page is a part
 * of the whole list, and a cursor is an index in the list.
 */
export function viewPage(
  { clock, keyring }: Omit<ListDeps, 'reader'>,
  resource: Resource<never>,
  rows: ListedRow[],
  { caller, parentId, path, query, route, writer }: Viewing,
): ApiDocument & { links: object; meta: object } {
  const now = clock.now()
  const scope = scopeOf(caller, path, query)
  const cursor = query.cursor === undefined ? 'first page' : readCursor(keyring, scope, query.cursor, now)
  const from = typeof cursor === 'object' ? Math.max(0, cursor.place.key) : 0
  const page = inOrder(rows, query).slice(from, from + query.size)
  const more = rows.length > from + query.size
  const mark = (key: number): string => writeCursor(keyring, scope, { values: [], key }, 'after', now)
  return {
    ...buildDocument(writer, resource, page, WHOLE),
    ...pageLinks(writer, route, parentId, query, {
      more,
      next: more ? mark(from + query.size) : null,
      previous: from > 0 ? mark(Math.max(0, from - query.size)) : null,
    }),
  }
}
