// Performs requests that have passed the gate (routes.ts), with one handler for each kind of action. A handler finds
// the row or the parent that the path names (404), checks identity and attributes (409, 422), runs the action, and
// writes the answer.
import type { Clock } from '../base/clock.ts'
import { must, refuse } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { findOwned, type ListedRow } from '../store/list.ts'
import type { Reader, Store } from '../store/database.ts'
import { audit, namedUser, type NamedUser } from './audit.ts'
import { checkMatch, hasTag, tagOf, type Turns } from './changed.ts'
import { buildDocument, type ResourceObject, type Writer } from './document.ts'
import type { ApiAnswer, ApiCall } from './exchange.ts'
import { findParent, list, viewPage } from './listing.ts'
import { JSON_API } from './media.ts'
import { typeNamed, type RequestQuery, type Types } from './query.ts'
import * as request from './request.ts'
import { answerType, type ActionOf, type Call, type Caller, type Resource, type Within } from './resource.ts'
import { visibleTo } from './roles.ts'
import { checkLinkage, withoutUnchanged } from './unchanged.ts'

export interface PerformDeps<Parts> {
  parts: Parts
  reader: Reader
  store: Store
  clock: Clock
  log: Log
  keyring: Keyring
  /** The API's absolute base URL. Read at each request, because a listener's port may not be known at the start. */
  base: () => string
  types: Types
  /** Runs changes with If-Match one after the other. */
  turns: Turns
}

type ActionOfKind<Parts, Kind> = Extract<ActionOf<Parts>, { kind: Kind }>

/** A request that has passed authentication and the scope check. */
export interface ApiRequest {
  asked: ApiCall
  /** Headers of the answer, including errors. */
  commonHeaders: Record<string, string>
  self: Resource<never>
  caller: Caller
  query: RequestQuery
  document: request.RequestDocument | undefined
}

const WHOLE = { include: undefined, fields: new Map() }

class RequestContext<Parts> {
  readonly deps: PerformDeps<Parts>
  readonly asked: ApiRequest
  readonly writer: Writer
  /** The first parameter of the path. */
  readonly id: string | undefined

  constructor(deps: PerformDeps<Parts>, asked: ApiRequest, single: boolean) {
    const { base, log, parts, reader, types } = deps
    this.deps = deps
    this.asked = asked
    this.writer = { reader, log, types, base: base(), parts, single }
    this.id = Object.values(asked.asked.params)[0]
  }

  call(more: Partial<Call<Parts, Record<string, unknown>>> = {}): Call<Parts, Record<string, unknown>> {
    const { asked, caller } = this.asked
    return {
      parts: this.deps.parts,
      caller,
      now: this.deps.clock.now(),
      row: undefined as never,
      parent: undefined as never,
      within: undefined,
      params: asked.params,
      related: {},
      attributes: {},
      ...more,
    }
  }

  /** The row that the path names. Throws 404. */
  row(): ListedRow {
    const row = this.find()
    if (!row) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    return row
  }

  /** The id of the resource: that in the path, or that of the account if there is one per account. */
  get named(): string {
    return this.id ?? this.asked.caller.userId
  }

  find(): ListedRow | undefined {
    const { caller, self } = this.asked
    if (self.find) return self.find(this.named, this.deps.parts as never, caller)
    return findOwned(this.deps.reader, self.table, caller.userKey, this.named, visibleTo(caller, self))
  }

  parent(within: Within): Pick<Call<Parts>, 'parent' | 'within'> {
    const { reader, types } = this.deps
    return { parent: findParent(reader, types, this.asked.caller, within, this.named), within: within.type }
  }

  /** The current resource that the path names. */
  readonly present = (): ResourceObject | undefined => {
    const row = this.find()
    return row && buildDocument(this.writer, this.asked.self, [row], WHOLE).data[0]
  }

  one(status: 200 | 201 | 202, row: ListedRow, once?: Record<string, unknown>): ApiAnswer {
    const { query, self } = this.asked
    return this.send(status, buildDocument(this.writer, self, [row], query, once), true)
  }

  send(status: 200 | 201 | 202, document: { data: unknown[] }, single = false): ApiAnswer {
    const body = single ? { ...document, data: document.data[0] } : document
    return { status, headers: { 'Content-Type': JSON_API }, body: JSON.stringify(body) }
  }

  /** Adds a change to the audit log. The change is stored already, so an error is only logged. */
  async audited(action: ActionOf<Parts>, row: ListedRow, user?: NamedUser): Promise<void> {
    const { caller, self } = this.asked
    const { clock, log, store } = this.deps
    try {
      await audit(store, { caller, resource: self, action: action as ActionOf<never>, row, user }, clock.now())
    } catch (thrown) {
      log.fault('audit log', thrown)
    }
  }

  header(headers: Record<string, string>): void {
    Object.assign(this.asked.commonHeaders, headers)
  }
}

export async function perform<Parts>(
  deps: PerformDeps<Parts>,
  action: ActionOf<Parts>,
  asked: ApiRequest,
): Promise<ApiAnswer> {
  const one = new RequestContext(deps, asked, action.kind !== 'list' && action.kind !== 'view')
  switch (action.kind) {
    case 'list':
      return listed(one, action)
    case 'view':
      return viewed(one, action)
    case 'show':
      return shown(one)
    case 'create':
      return created(one, action)
    case 'update':
      return updated(one, action)
    case 'delete':
      return deleted(one, action)
    case 'act':
      return acted(one, action)
    case 'download':
      return downloaded(one, action)
  }
}

async function listed<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'list'>): Promise<ApiAnswer> {
  const { asked, caller, query, self } = one.asked
  return one.send(
    200,
    await list(one.deps, self, action, { caller, path: asked.path, query, writer: one.writer }, one.id),
  )
}

async function viewed<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'view'>): Promise<ApiAnswer> {
  const { asked, caller, query, self } = one.asked
  const parent = action.within ? one.parent(action.within) : {}
  const rows = await action.run({ ...(one.call(parent) as Call<Parts>), filters: query.filters })
  if (action.one) return one.one(200, must(rows[0], 'The row of a view'))
  const { path } = asked
  const viewing = { caller, path, route: action.path, parentId: one.id, query, writer: one.writer }
  return one.send(200, viewPage(one.deps, self, rows, viewing))
}

function shown<Parts>(one: RequestContext<Parts>): ApiAnswer {
  const row = one.row()
  addTag(one, row)
  return one.one(200, row)
}

/** Sends the ETag of a row's state. Called before `extend` adds data to the row. */
function addTag<Parts>(one: RequestContext<Parts>, row: ListedRow): void {
  if (hasTag(one.asked.self)) one.header({ ETag: tagOf(one.asked.self, row) })
}

async function created<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'create'>): Promise<ApiAnswer> {
  const { self } = one.asked
  const document = must(one.asked.document, 'The document of a request')
  const call = one.call(action.within && one.id !== undefined ? one.parent(action.within) : {})
  const type = action.accepts ?? self.type
  try {
    if (document.type === type) call.related = request.readRelationships(document, self)
    request.checkIdentity(document, type)
    call.attributes = request.validate(self, 'create', document)
  } catch (refusal) {
    // A 404 for a resource that the request refers to comes before other problems (D3). If the document is valid, the
    // action itself throws that 404.
    action.before?.({ ...call, attributes: document.attributes })
    throw refusal
  }
  const {
    headers = {},
    once,
    row,
  } = await action.run(call).catch((thrown: unknown) => {
    throw request.anchored(thrown, document)
  })
  one.header(headers)
  const shown = typeNamed(one.deps.types, answerType(action, self))
  const result = buildDocument(one.writer, shown, [row], one.asked.query, once)
  await one.audited(action, row)
  const location = result.data[0]?.links?.self
  if (location !== undefined) one.header({ Location: location })
  return one.send(action.status ?? 201, result, true)
}

async function updated<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'update'>): Promise<ApiAnswer> {
  const { asked, self } = one.asked
  const document = must(one.asked.document, 'The document of a request')
  const match = asked.header('if-match') ?? null
  checkLinkage(document, self, one.present)
  const change = async (): Promise<ApiAnswer> => {
    const row = one.row()
    request.checkIdentity(document, self.type, one.named)
    checkMatch(match, tagOf(self, row))
    const related = request.readRelationships(document, self, 'update')
    const attributes = request.validate(self, 'update', withoutUnchanged(document, self, one.present))
    const written = await action.run(one.call({ row, attributes, related })).catch((thrown: unknown) => {
      throw request.anchored(thrown, document)
    })
    one.header(written.headers ?? {})
    const after = one.find()
    if (after) addTag(one, after)
    const answer = one.one(200, written.row, written.once)
    await one.audited(action, written.row)
    return answer
  }
  return match === null ? change() : one.deps.turns.take(`${self.type} ${one.named}`, change)
}

async function deleted<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'delete'>): Promise<ApiAnswer> {
  const row = one.row()
  const named = { ...row }
  // The name of a row may be in another table.
  one.asked.self.extend?.([named], { reader: one.deps.reader, parts: one.deps.parts as never, single: false })
  const user = namedUser(one.deps.reader, named['email'])
  await action.run({ ...(one.call({ row }) as Call<Parts>), force: one.asked.query.force })
  await one.audited(action, named, user)
  return { status: 204, headers: {}, body: null }
}

async function acted<Parts>(one: RequestContext<Parts>, action: ActionOfKind<Parts, 'act'>): Promise<ApiAnswer> {
  const row = one.id !== undefined && !action.free ? { row: one.row() } : {}
  const written = await action.run(one.call(row) as Call<Parts>)
  const answer = one.one(202, written.row)
  await one.audited(action, written.row)
  return answer
}

const INERT = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cache-Control': 'private, no-store',
}

async function downloaded<Parts>(
  one: RequestContext<Parts>,
  action: ActionOfKind<Parts, 'download'>,
): Promise<ApiAnswer> {
  const response = await action.run(one.call({ row: one.row() }) as Call<Parts>)
  // Downloads contain untrusted content: a browser must not run it on this server's origin.
  one.header({ ...Object.fromEntries(response.headers), ...INERT })
  return { status: 200, headers: {}, body: response.body as ReadableStream }
}
