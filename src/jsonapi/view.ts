// Collections that are computed at each request: no table has their rows, so a page is a part of the whole list, and a
// cursor is an index in the list.
import { buildDocument, type ApiDocument, type Writer } from './document.ts'
import { readCursor, writeCursor } from './cursor.ts'
import { pageLinks, scopeOf, type ListDeps } from './listing.ts'
import type { RequestQuery } from './query.ts'
import type { Caller, Resource } from './resource.ts'
import type { ListedRow } from '../store/list.ts'

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

/** The document of the requested page of `rows`. */
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
  const page = rows.slice(from, from + query.size)
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
