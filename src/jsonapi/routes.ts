// Turns descriptions into routes. Every request passes the same checks, in the order of D3:
//
//   401 gate -> 406 Accept -> 415 Content-Type -> 429 rate -> 400 query -> 403 scope -> 507 storage
//   -> 413, 503 the body's size -> 400 JSON -> 403 ids, relationships -> 404 the row and resources that it refers to
//   -> 409 type and id -> 422 attributes -> the action
import { Hono, type Context } from 'hono'
import { refuse, type Refusal } from '../base/errors.ts'
import { ownerOf, type Budget } from '../base/memory.ts'
import { USUAL_BODY, withBody, type BodyLimits } from './body.ts'
import { Turns } from './changed.ts'
import { checkAccept, checkContentType } from './media.ts'
import { perform, type PerformDeps } from './perform.ts'
import { includedTypes, parseQuery, type Types } from './query.ts'
import * as request from './request.ts'
import { paramsOf, type ActionOf, type Caller, type Resource } from './resource.ts'

/** The checks before every route. `authenticate` and `permit` throw a Refusal. */
export interface Gate {
  /** Finds the caller (401). `env` is Hono's environment: a request inside the process carries its caller there. */
  authenticate(headers: Headers, env: unknown): Caller
  /** Checks the rate limit (429); returns the RateLimit headers. */
  admit(caller: Caller): { headers: Record<string, string>; refusal?: Refusal }
  /** Throws 403 when the caller lacks the scope. */
  permit(caller: Caller, scope: string): void
}

export interface RouterOptions<Parts> extends Omit<PerformDeps<Parts>, 'types' | 'turns'> {
  gate: Gate
  resources: readonly Resource<Parts>[]
  /** The memory limit for all request bodies in progress. */
  bodies: Budget
  /** Throws 507 while the server cannot accept new work. */
  refuseWhenFull(): void
}

const METHODS = {
  list: 'GET',
  show: 'GET',
  create: 'POST',
  update: 'PATCH',
  delete: 'DELETE',
  act: 'POST',
  view: 'GET',
  download: 'GET',
} as const
const methodOf = <Parts>(action: ActionOf<Parts>): string =>
  (action.kind === 'act' ? action.method : undefined) ?? METHODS[action.kind]

/** A Hono router with a route for every action, and 405 with Allow for other methods of its paths. */
export function createRouter<Parts>(options: RouterOptions<Parts>): Hono {
  const router = new Hono()
  const methods = new Map<string, Set<string>>()
  const turns = new Turns()
  const types: Types = new Map(options.resources.map((each) => [each.type, each as Resource<never>]))
  for (const resource of options.resources)
    for (const action of resource.actions) {
      const method = methodOf(action)
      // HEAD uses the route of GET, except for actions with effects (RFC 9110 §9.2.1).
      const safe = method === 'GET' && action.kind !== 'act'
      router.on(method, action.path, (context, next) =>
        context.req.method === 'HEAD' && !safe
          ? next()
          : answer({ ...options, types, turns }, resource, action, context),
      )
      const allowed = methods.get(action.path) ?? new Set()
      methods.set(action.path, allowed.add(method))
      if (safe) allowed.add('HEAD')
    }
  const enter = (context: Context): void => {
    const caller = options.gate.authenticate(context.req.raw.headers, context.env)
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

/** The message of Node behind a request; undefined inside the process. */
const incomingOf = ({ env }: Context): BodyLimits['incoming'] =>
  (env as Pick<BodyLimits, 'incoming'> | undefined)?.incoming

async function answer<Parts>(
  options: RouterOptions<Parts> & PerformDeps<Parts>,
  resource: Resource<Parts>,
  action: ActionOf<Parts>,
  context: Context,
): Promise<Response> {
  const { gate, types } = options
  const { headers } = context.req.raw
  const caller = gate.authenticate(headers, context.env)
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
  if (action.operator && !caller.operator) throw refuse('not_found', 'There is nothing at this URL.')
  if (action.operator === 'person' && !caller.person)
    throw refuse('not_found', 'No token reaches this: sign in to the console, or use the command line.')
  // An included resource needs the same scope as a request for that resource.
  for (const { reads } of includedTypes(query, self, types)) if (reads !== undefined) gate.permit(caller, reads)
  if (action.kind === 'create') options.refuseWhenFull()
  if (!writes) return perform(options, action, { context, self, caller, query, document: undefined })
  const limits: BodyLimits = {
    most: action.bodyLimit ?? USUAL_BODY,
    budget: options.bodies,
    owner: ownerOf(caller.userKey),
    incoming: incomingOf(context),
  }
  return withBody(context.req.raw, limits, (text) => {
    const document = request.parseDocument(text)
    if (action.kind === 'update') request.checkHasId(document)
    if (action.kind === 'create') request.checkForbidden(document, self)
    return perform(options, action, { context, self, caller, query, document })
  })
}
