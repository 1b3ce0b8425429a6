// Turns descriptions into routes. Every request passes the same checks, in the order of D3:
//
//   401 gate -> 406 Accept -> 415 Content-Type -> 429 rate -> 400 query -> 403 scope -> 507 storage
//   -> 413, 503 the body's size -> 400 JSON -> 403 ids, relationships -> 404 the row and what the request refers to
//   -> 409 type and id -> 422 attributes -> the action
import { Hono, type Context } from 'hono'
import type { Clock } from '../base/clock.ts'
import { refuse, type Refusal } from '../base/errors.ts'
import type { Budget } from '../base/memory.ts'
import type { Keyring } from '../base/keyring.ts'
import { findOwned } from '../store/list.ts'
import type { Reader } from '../store/database.ts'
import { USUAL_BODY, withBody } from './body.ts'
import { buildDocument, type Writer } from './document.ts'
import { findParent, list } from './listing.ts'
import { checkAccept, checkContentType, JSON_API } from './media.ts'
import { includedTypes, parseQuery, type Query, type Types } from './query.ts'
import * as request from './request.ts'
import { paramsOf, type Action, type Call, type Caller, type Resource } from './resource.ts'
import { checkLinkage, withoutUnchanged } from './unchanged.ts'

/** The checks before every route. `authenticate` and `permit` throw a Refusal. */
export interface Gate {
  /** The caller; throws 401. */
  authenticate(headers: Headers): Caller
  /** Whether the rate limit allows one more request (429); returns the RateLimit headers. */
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
  /** The API's absolute base URL; read at each request, because a listener's port may be known late. */
  base: () => string
  resources: readonly Resource<Parts>[]
  /** The limit for all request bodies under way. */
  bodies: Budget
  /** Throws 507 while nothing new can be accepted. */
  promise(): void
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

/** A Hono router with a route for every action, and 405 with Allow for other methods of its paths. */
export function createRouter<Parts>(options: RouterOptions<Parts>): Hono {
  const router = new Hono()
  const methods = new Map<string, Set<string>>()
  const types: Types = new Map(options.resources.map((each) => [each.type, each as Resource<never>]))
  for (const resource of options.resources)
    for (const action of resource.actions) {
      const method = methodOf(action)
      // HEAD uses the route of GET, except for actions with effects (RFC 9110 §9.2.1).
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
  const { gate, types } = options
  const { headers } = context.req.raw
  const caller = gate.authenticate(headers)
  const rate = gate.admit(caller)
  setHeaders(context, rate.headers)
  checkAccept(headers.get('accept') ?? undefined)
  const writes = action.kind === 'create' || action.kind === 'update'
  if (writes) checkContentType(headers.get('content-type') ?? undefined)
  if (rate.refusal) throw rate.refusal

  const self = resource as Resource<never>
  const search = new URL(context.req.url).searchParams
  const query = parseQuery(search, self, paramsOf(action), types)

  gate.permit(caller, action.scope)
  // An included resource needs the scope for reading it.
  for (const { reads } of includedTypes(query, self, types)) if (reads !== undefined) gate.permit(caller, reads)
  if (action.kind === 'create') options.promise()
  if (!writes) return perform(options, action, { context, self, caller, query, document: undefined })
  const limits = { most: action.bodyLimit ?? USUAL_BODY, budget: options.bodies }
  return withBody(context.req.raw, limits, (text) => {
    const document = request.parseDocument(text)
    if (action.kind === 'update') request.checkHasId(document)
    if (action.kind === 'create') request.checkForbidden(document, self)
    return perform(options, action, { context, self, caller, query, document })
  })
}

interface Asked {
  context: Context
  self: Resource<never>
  caller: Caller
  query: Query
  document: request.RequestDocument | undefined
}

/** Performs a request that has passed the checks. */
async function perform<Parts>(
  options: RouterOptions<Parts> & { types: Types },
  action: AnyAction<Parts>,
  { caller, context, document, query, self }: Asked,
): Promise<Response> {
  const { clock, parts, reader } = options
  const { types } = options
  const writer: Writer = { reader, types, base: options.base(), parts, single: action.kind !== 'list' }
  /** The resource that the path names, as it is shown at present. */
  const present = () => {
    const row = findOwned(reader, self.table, caller.userKey, Object.values(context.req.param())[0]!, self.only)
    return row && buildDocument(writer, self, [row], { include: undefined, fields: new Map() }).data[0]
  }
  if (document && action.kind === 'update') checkLinkage(document, present)
  if (action.kind === 'list') {
    const [parentId] = Object.values(context.req.param())
    return send(context, 200, list(options, self, action, { caller, path: context.req.path, query, writer }, parentId))
  }

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
    // Foreign bytes must never run as a page of this origin.
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
    const asked = action.kind === 'update' ? withoutUnchanged(document!, self, present) : document!
    call.attributes = request.validate(self, action.kind, asked)
  } catch (refusal) {
    // A missing reference is reported first (D3); a valid request gets that from the action itself.
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

const first = { single: true }

/** Sends a document; `single` unwraps the one resource of its data. */
function send(
  context: Context,
  status: 200 | 201 | 202,
  document: { data: unknown[] },
  form?: { single: boolean },
): Response {
  const body = form?.single ? { ...document, data: document.data[0] } : document
  return context.body(JSON.stringify(body), status, { 'Content-Type': JSON_API })
}
