// Turns descriptions into routes. Every request passes the same checks, in the order of D3:
//
//   401 gate -> 406 Accept -> 415 Content-Type -> 429 rate -> 400 query -> 403 scope -> 507 storage
//   -> 413, 503 the body's size -> 400 JSON -> 403 ids, relationships -> 404 the row and resources that it refers to
//   -> 409 type and id -> 422 attributes -> the action
import { Hono, type Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { refuse, type Refusal } from '../base/errors.ts'
import { ownerOf, type Budget } from '../base/memory.ts'
import { USUAL_BODY, withBody, type BodyLimits } from './body.ts'
import { Turns } from './changed.ts'
import type { ApiAnswer, ApiCall } from './exchange.ts'
import { checkAccept, checkContentType } from './media.ts'
import { perform, type PerformDeps } from './perform.ts'
import { includedTypes, parseQuery, type Types } from './query.ts'
import * as request from './request.ts'
import { paramsOf, type ActionOf, type Caller, type Resource } from './resource.ts'

/** The checks before every route. `authenticate` and `permit` throw a Refusal. */
export interface Gate {
  /** Finds the caller (401). A request inside the process carries its caller in Hono's environment. */
  authenticate(asked: Pick<ApiCall, 'header' | 'env'>): Caller
  /** Checks the rate limit (429); returns the RateLimit headers, none where the server has no limit. */
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

/** One action at its method and path. */
export interface ApiRoute {
  method: string
  path: string
  /** GET without effects: HEAD may use it, too (RFC 9110 §9.2.1). */
  safe: boolean
  /** Checks and performs a request. `told` gets the headers that hold for a refusal too. Throws a Refusal. */
  answer(asked: ApiCall, told: Record<string, string>): Promise<ApiAnswer>
}

/** A route for every action. */
export function routesOf<Parts>(given: RouterOptions<Parts>): ApiRoute[] {
  const types: Types = new Map(given.resources.map((each) => [each.type, each as Resource<never>]))
  const options = { ...given, types, turns: new Turns() }
  return given.resources.flatMap((resource) =>
    resource.actions.map((action) => {
      const method = methodOf(action)
      return {
        method,
        path: action.path,
        safe: method === 'GET' && action.kind !== 'act',
        answer: (asked, told) => answer(options, resource, action, { asked, told }),
      } satisfies ApiRoute
    }),
  )
}

/** A Hono router of routes, with 405 and Allow for other methods of their paths. */
export function createRouter({ gate }: { gate: Gate }, routes: readonly ApiRoute[]): Hono {
  const router = new Hono()
  const methods = new Map<string, Set<string>>()
  for (const route of routes) {
    const { method, path, safe } = route
    router.on(method, path, (context, next) =>
      context.req.method === 'HEAD' && !safe ? next() : answerIn(context, route),
    )
    const allowed = methods.get(path) ?? new Set()
    methods.set(path, allowed.add(method))
    if (safe) allowed.add('HEAD')
  }
  const enter = (context: Context): void => {
    const caller = gate.authenticate(callIn(context))
    const { headers, refusal } = gate.admit(caller)
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

/** A request of Hono. Inside the process there is no message of Node. */
function callIn({ env, req }: Context): ApiCall {
  const at = req.url.indexOf('?')
  return {
    path: req.path,
    params: req.param() as Record<string, string>,
    query: at < 0 ? [] : new URL(req.url).searchParams,
    header: (name) => req.raw.headers.get(name) ?? undefined,
    env,
    request: req.raw,
    incoming: (env as Pick<BodyLimits, 'incoming'> | undefined)?.incoming,
  }
}

async function answerIn(context: Context, route: ApiRoute): Promise<Response> {
  const told: Record<string, string> = {}
  try {
    const { body, headers, status } = await route.answer(callIn(context), told)
    setHeaders(context, told)
    return context.body(body as string, status as ContentfulStatusCode, headers)
  } catch (thrown) {
    setHeaders(context, told)
    throw thrown
  }
}

async function answer<Parts>(
  options: RouterOptions<Parts> & PerformDeps<Parts>,
  resource: Resource<Parts>,
  action: ActionOf<Parts>,
  { asked, told }: { asked: ApiCall; told: Record<string, string> },
): Promise<ApiAnswer> {
  const { gate, types } = options
  const caller = gate.authenticate(asked)
  const rate = gate.admit(caller)
  Object.assign(told, rate.headers)
  checkAccept(asked.header('accept'))
  const writes = action.kind === 'create' || action.kind === 'update'
  if (writes) checkContentType(asked.header('content-type'))
  if (rate.refusal) throw rate.refusal

  const self = resource as Resource<never>
  const query = parseQuery(asked.query, self, paramsOf(action), types)

  gate.permit(caller, action.scope)
  if (action.operator && !caller.operator) throw refuse('not_found', 'There is nothing at this URL.')
  if (action.operator === 'person' && !caller.person)
    throw refuse('not_found', 'No token reaches this: sign in to the console, or use the command line.')
  // An included resource needs the same scope as a request for that resource.
  for (const { reads } of includedTypes(query, self, types)) if (reads !== undefined) gate.permit(caller, reads)
  if (action.kind === 'create') options.refuseWhenFull()
  if (!writes) return perform(options, action, { asked, told, self, caller, query, document: undefined })
  const limits: BodyLimits = {
    most: action.bodyLimit ?? USUAL_BODY,
    budget: options.bodies,
    owner: ownerOf(caller.userKey),
    incoming: asked.incoming,
  }
  return withBody(asked.request, limits, (text) => {
    const document = request.parseDocument(text)
    if (action.kind === 'update') request.checkHasId(document)
    if (action.kind === 'create') request.checkForbidden(document, self)
    return perform(options, action, { asked, told, self, caller, query, document })
  })
}
