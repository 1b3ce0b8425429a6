// Turns descriptions into routes. Every request takes the same stairs, in the order of D3:
//
//   401 gate -> 406 Accept -> 415 Content-Type -> 429 rate -> 400 JSON and query -> 403 scope, ids, relationships
//   -> 404 the row and what the request refers to -> 409 type and id -> 422 attributes -> the action
import { Hono, type Context } from 'hono'
import type { Clock } from '../base/clock.ts'
import { refuse, type Refusal } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { findOwned, listPage, placeOf, type Condition, type ListedRow } from '../store/list.ts'
import type { Reader } from '../store/database.ts'
import { readCursor, writeCursor, type CursorScope, type Direction } from './cursor.ts'
import { buildDocument, type Writer } from './document.ts'
import { checkAccept, checkContentType, JSON_API } from './media.ts'
import { includedTypes, parseQuery, type Query, type Types } from './query.ts'
import * as request from './request.ts'
import { paramsOf, unlisted, type Action, type Call, type Caller, type Resource, type Within } from './resource.ts'

/** What stands before every route. Both throw a Refusal. */
export interface Gate {
  /** Who asks (401). */
  authenticate(headers: Headers): Caller
  /** Whether there is room for one more request (429); returns the RateLimit headers. */
  admit(caller: Caller): { headers: Record<string, string>; refusal?: Refusal }
  /** Throws 403 when the caller lacks the scope. */
  permit(caller: Caller, scope: string): void
}

export interface RouterOptions<Parts> {
  parts: Parts
  reader: Reader
  clock: Clock
  keyring: Keyring
  gate: Gate
  /** The API's absolute base URL; asked at each request, since a listener's port may be known late. */
  base: () => string
  resources: readonly Resource<Parts>[]
}

type AnyAction<Parts> = Action<Parts, Resource<Parts>['attributes']>
const METHODS = {
  list: 'GET',
  show: 'GET',
  create: 'POST',
  update: 'PATCH',
  delete: 'DELETE',
  act: 'POST',
  download: 'GET',
} as const
const methodOf = <Parts>(action: AnyAction<Parts>): string =>
  (action.kind === 'act' ? action.method : undefined) ?? METHODS[action.kind]

export function createRouter<Parts>(options: RouterOptions<Parts>): Hono {
  const router = new Hono()
  const methods = new Map<string, Set<string>>()
  const types: Types = new Map(options.resources.map((each) => [each.type, each as Resource<never>]))
  for (const resource of options.resources)
    for (const action of resource.actions) {
      const method = methodOf(action)
      // HEAD comes to the route of GET; what acts does not take it (RFC 9110 §9.2.1).
      const safe = method === 'GET' && action.kind !== 'act'
      router.on(method, action.path, (context, next) =>
        context.req.method === 'HEAD' && !safe ? next() : answer({ ...options, types }, resource, action, context),
      )
      const allowed = methods.get(action.path) ?? new Set()
      methods.set(action.path, allowed.add(method))
      if (safe) allowed.add('HEAD')
    }
  const enter = (context: Context): void => {
    const caller = options.gate.authenticate(context.req.raw.headers)
    const { headers, refusal } = options.gate.admit(caller)
    setHeaders(context, headers)
    checkAccept(context.req.header('accept'))
    if (refusal) throw refusal
  }
  router.on(['POST', 'PATCH', 'DELETE'], '/:type/:id/relationships/:name', (context) => {
    enter(context)
    throw refuse('relationship_update_forbidden', 'Relationships cannot be changed through relationship URLs here.')
  })
  for (const [path, allowed] of methods)
    router.all(path, (context) => {
      enter(context)
      const list = [...allowed].join(', ')
      throw refuse('method_not_allowed', `This URL takes ${list}.`, undefined, { Allow: list })
    })
  router.all('*', (context) => {
    enter(context)
    throw refuse('not_found', 'There is nothing at this URL.')
  })
  return router
}

function setHeaders(context: Context, headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) context.header(name, value)
}

const INERT = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cache-Control': 'private, no-store',
}

const notFound = () => refuse('not_found', 'No such resource exists.')

async function answer<Parts>(
  options: RouterOptions<Parts> & { types: Types },
  resource: Resource<Parts>,
  action: AnyAction<Parts>,
  context: Context,
): Promise<Response> {
  const { clock, gate, parts, reader } = options
  const { headers } = context.req.raw
  const caller = gate.authenticate(headers)
  const rate = gate.admit(caller)
  setHeaders(context, rate.headers)
  checkAccept(headers.get('accept') ?? undefined)
  const writes = action.kind === 'create' || action.kind === 'update'
  if (writes) checkContentType(headers.get('content-type') ?? undefined)
  if (rate.refusal) throw rate.refusal

  const document = writes ? request.parseDocument(await request.readBody(context.req.raw)) : undefined
  if (document && action.kind === 'update') request.checkHasId(document)
  const self = resource as Resource<never>
  const types = options.types
  const search = new URL(context.req.url).searchParams
  const query = parseQuery(search, self, paramsOf(action), types, action.kind !== 'list')

  gate.permit(caller, action.scope)
  // What is included takes the scope that reads it by itself.
  for (const { reads } of includedTypes(query, self, types)) if (reads !== undefined) gate.permit(caller, reads)
  if (document) request.checkForbidden(document, self, action.kind as 'create' | 'update')
  const writer: Writer = { reader, types, base: options.base(), parts, single: action.kind !== 'list' }
  if (action.kind === 'list') return list(options, self, action, context, caller, query, writer)

  const call: Call<Parts, Record<string, unknown>> = {
    parts,
    caller,
    now: clock.now(),
    row: undefined as never,
    parent: undefined as never,
    params: context.req.param() as Record<string, string>,
    related: {},
    attributes: {},
  }
  const [id] = Object.values(context.req.param())
  if (action.kind === 'create' && action.within && id !== undefined)
    call.parent = findParent(reader, types, caller, action.within, id)
  else if (id !== undefined && !(action.kind === 'act' && action.free)) {
    const row = findOwned(reader, self.table, caller.userKey, id, self.only)
    if (!row) throw notFound()
    call.row = row
  }
  if (action.kind === 'show') return send(context, 200, buildDocument(writer, self, [call.row], query), first)
  if (action.kind === 'delete') {
    await action.run(call as Call<Parts>)
    return context.body(null, 204)
  }
  if (action.kind === 'download') {
    const response = await action.run(call as Call<Parts>)
    // Bytes from outside are never run where they are shown.
    setHeaders(context, { ...Object.fromEntries(response.headers), ...INERT })
    return context.newResponse(response.body as ReadableStream, 200)
  }
  if (action.kind === 'act') {
    const { row } = await action.run(call as Call<Parts>)
    return send(context, 202, buildDocument(writer, self, [row], query), first)
  }
  const type = action.kind === 'create' && action.accepts !== undefined ? action.accepts : self.type
  try {
    if (action.kind === 'create' && document!.type === type) call.related = request.readRelationships(document!, self)
    request.checkIdentity(document!, type, action.kind === 'update' ? id : undefined)
    call.attributes = request.validate(self, action.kind, document!)
  } catch (refusal) {
    // What the request refers to and is not there comes first (D3); a sound request is told so by the action itself.
    if (action.kind === 'create') action.before?.({ ...call, attributes: document!.attributes })
    throw refusal
  }
  const written = await action.run(call as never).catch((thrown: unknown) => {
    throw request.anchored(thrown, document!)
  })
  setHeaders(context, written.headers ?? {})
  const result = buildDocument(writer, self, [written.row], query, written.once)
  const location = result.data[0]!.links?.self
  if (action.kind === 'create' && location) context.header('Location', location)
  return send(context, action.kind === 'create' ? (action.status ?? 201) : 200, result, first)
}

/** The parent that a path names. Throws 404. */
function findParent(reader: Reader, types: Types, caller: Caller, within: Within, id: string): ListedRow {
  const { only, table } = types.get(within.type)!
  const row = findOwned(reader, table, caller.userKey, id, within.removed ? undefined : only)
  if (!row) throw notFound()
  return row
}

function list<Parts>(
  { clock, keyring, reader }: RouterOptions<Parts>,
  resource: Resource<never>,
  action: Extract<AnyAction<Parts>, { kind: 'list' }>,
  context: Context,
  caller: Caller,
  query: Query,
  writer: Writer,
): Response {
  const where: Condition[] = []
  const [parentId] = Object.values(context.req.param())
  if (action.within && parentId !== undefined) {
    const { key } = findParent(reader, writer.types, caller, action.within, parentId)
    where.push({ column: action.within.column, values: [key] })
  }
  for (const [name, values] of query.filters)
    where.push(condition({ keyring, reader }, resource, caller, name, values, writer))

  const path = context.req.path
  const scope: CursorScope = {
    userKey: caller.userKey,
    collection: `${path}?${JSON.stringify([...query.filters].toSorted(([a], [b]) => (a < b ? -1 : 1)))}`,
    sort: query.sort,
  }
  const now = clock.now()
  const cursor = query.cursor === undefined ? 'first page' : readCursor(keyring, scope, query.cursor, now)
  if (cursor === 'other sort')
    throw refuse('cursor_sort_mismatch', 'This cursor belongs to another sort; start again without page[cursor].', {
      parameter: 'page[cursor]',
    })
  const page = listPage(reader, {
    table: resource.table,
    userKey: caller.userKey,
    where,
    without: unlisted(resource),
    order: query.order,
    size: query.size,
    ...(resource.only === undefined ? {} : { only: resource.only }),
    ...(cursor === 'first page' ? {} : { from: cursor }),
  })
  const mark = (row: ListedRow | undefined, there: boolean, direction: Direction): string | null => {
    const place = row ? placeOf(row, query.order) : page.at
    return place && there ? writeCursor(keyring, scope, place, direction, now) : null
  }
  const next = mark(page.rows.at(-1), page.hasNext, 'after')
  const previous = mark(page.rows[0], page.hasPrevious, 'before')
  // The path below the API's mount is the route's; the base already holds the mount.
  const url = writer.base + action.path.replace(/:\w+/, parentId ?? '')
  const link = (cursorText: string | null): string => {
    const parameters = new URLSearchParams(query.kept.filter(([name]) => name !== 'page[size]'))
    if (cursorText !== null) parameters.set('page[cursor]', cursorText)
    parameters.set('page[size]', String(query.size))
    return `${url}?${parameters.toString()}`
  }
  const document = buildDocument(writer, resource, page.rows, query)
  return send(context, 200, {
    ...document,
    links: { first: link(null), last: null, prev: previous && link(previous), next: next && link(next) },
    meta: { has_more: page.hasNext, next_cursor: next, prev_cursor: previous, per_page: query.size },
  })
}

/** A filter as a condition on columns; ids of related resources become keys. */
function condition(
  { keyring, reader }: { keyring: Keyring; reader: Reader },
  resource: Resource<never>,
  caller: Caller,
  name: string,
  values: string[],
  writer: Writer,
): Condition {
  const { column, type, flag, forms, means } = resource.filters![name]!
  if (forms) return { column, values: values.flatMap((value) => forms(value, keyring)) }
  if (flag) return { column, values: values.map((value) => (value === 'true' ? 1 : 0)) }
  if (type === undefined)
    return {
      column,
      values: values.flatMap((value) => (means && Object.hasOwn(means, value) ? means[value]! : [value])),
    }
  const { table } = writer.types.get(type)!
  const keys = values.map((id) => findOwned(reader, table, caller.userKey, id)?.key).filter((key) => key !== undefined)
  // Nothing has key 0: an unknown id matches nothing.
  return { column, values: keys.length > 0 ? keys : [0] }
}

const first = { single: true }

/** Sends a document; `single` unwraps the one resource of its data. */
function send(
  context: Context,
  status: 200 | 201 | 202,
  document: { data: unknown[]; [member: string]: unknown },
  form?: { single: boolean },
): Response {
  const body = form?.single ? { ...document, data: document.data[0] } : document
  return context.body(JSON.stringify(body), status, { 'Content-Type': JSON_API })
}
