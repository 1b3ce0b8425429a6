// Collections: the conditions from path and filters, the page that a cursor points to, and the links to the pages
// around it.
import type { Clock } from '../base/clock.ts'
import { must, refuse } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { findOwned, listPage, placeOf, type Condition, type ListedRow } from '../store/list.ts'
import type { Reader } from '../store/database.ts'
import { readCursor, writeCursor, type CursorScope, type Direction } from './cursor.ts'
import { buildPage, type ApiDocument, type Writer } from './document.ts'
import { typeNamed, type RequestQuery, type Types } from './query.ts'
import type { ActionOf, Caller, Resource, Within } from './resource.ts'
import { unlisted } from './shown.ts'

export interface ListDeps {
  clock: Clock
  keyring: Keyring
  reader: Reader
}

/** One request for a page. */
export interface Listing {
  caller: Caller
  /** The path of the request's URL. */
  path: string
  query: RequestQuery
  writer: Writer
}

/** The parent that a path names. Throws 404. */
export function findParent(reader: Reader, types: Types, caller: Caller, within: Within, id: string): ListedRow {
  const { only, table } = typeNamed(types, within.type)
  const row = findOwned(reader, table, caller.userKey, id, within.removed ? undefined : only)
  if (!row) throw refuse('not_found', 'No such resource exists.')
  return row
}

/** The properties that a cursor is bound to. */
export const scopeOf = ({ userKey }: Caller, path: string, { filters, sort }: RequestQuery): CursorScope => ({
  userKey,
  collection: `${path}?${JSON.stringify([...filters].toSorted(([a], [b]) => (a < b ? -1 : 1)))}`,
  sort,
})

/** The document of the requested page. */
export async function list(
  { clock, keyring, reader }: ListDeps,
  resource: Resource<never>,
  action: Pick<Extract<ActionOf<never>, { kind: 'list' }>, 'path' | 'within'>,
  { caller, path, query, writer }: Listing,
  parentId: string | undefined,
): Promise<ApiDocument & { links: object; meta: object }> {
  const where: Condition[] = []
  if (action.within && parentId !== undefined) {
    const { key } = findParent(reader, writer.types, caller, action.within, parentId)
    where.push({ column: action.within.column, values: [key] })
  }
  for (const [name, values] of query.filters)
    where.push(await condition({ keyring, reader, resource, caller, writer }, name, values))

  const scope = scopeOf(caller, path, query)
  const now = clock.now()
  const cursor = query.cursor === undefined ? 'first page' : readCursor(keyring, scope, query.cursor, now)
  if (cursor === 'other sort')
    throw refuse('cursor_sort_mismatch', 'This cursor belongs to another sort; start again without page[cursor].', {
      parameter: 'page[cursor]',
    })
  const listed = listPage(reader, {
    table: resource.table,
    userKey: caller.userKey,
    where,
    without: unlisted(resource),
    order: query.order,
    size: query.size,
    ...(resource.only === undefined ? {} : { only: resource.only }),
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
export function pageLinks(
  { base }: Writer,
  path: string,
  parentId: string | undefined,
  query: RequestQuery,
  { more, next, previous }: { next: string | null; previous: string | null; more: boolean },
): { links: object; meta: object } {
  // `path` is the route's path below the API's mount point; the base contains the mount point.
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

interface Filtering extends Pick<ListDeps, 'keyring' | 'reader'>, Pick<Listing, 'caller' | 'writer'> {
  resource: Resource<never>
}

/** A filter as a condition on a column; public ids of related resources become keys. */
function condition(
  { caller, keyring, reader, resource, writer }: Filtering,
  name: string,
  values: string[],
): Condition | Promise<Condition> {
  const { cheaper, column, type, flag, forms, means, sql } = must(resource.filters?.[name], 'A filter')
  if (sql) return sql(must(values[0], 'The value of a filter'), reader, caller.userKey)
  if (forms) return { column, values: values.flatMap((value) => forms(value, keyring)) }
  if (flag) return { column, values: values.map((value) => (value === 'true' ? 1 : 0)) }
  if (type === undefined)
    return {
      column,
      values: values.flatMap((value) => (means && Object.hasOwn(means, value) && means[value]) || [value]),
    }
  const { table } = typeNamed(writer.types, type)
  const keys = values.map((id) => findOwned(reader, table, caller.userKey, id)?.key).filter((key) => key !== undefined)
  // No row has key 0, so an unknown id matches no row.
  return cheaper?.(keys, reader) ?? { column, values: keys.length > 0 ? keys : [0] }
}
