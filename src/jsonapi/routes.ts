// Turns descriptions into routes. Every request passes the same checks, in the order of D3:
//
//   401 gate -> 406 Accept -> 415 Content-Type -> 429 rate -> 400 query -> 403 scope -> 507 storage
//   -> 413, 503 the body's size -> 400 JSON -> 403 ids, relationships -> 404 the row and resources that it refers to
//   -> 409 type and id -> 422 attributes -> the action
import { Hono, type Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { codeOf, refuse, type Refusal } from '../base/errors.ts'
import { ownerOf, type Budget } from '../base/memory.ts'
import { inOwnTurn } from '../base/semaphore.ts'
import { USUAL_BODY, withBody, type BodyLimits } from './body.ts'
import { Turns } from './changed.ts'
import { errorOf } from './errors.ts'
import type { ApiAnswer, ApiCall } from './exchange.ts'
import { checkAccept, checkContentType } from './media.ts'
import { perform, type PerformDeps } from './perform.ts'
import { includedTypes, parseQuery, typeNamed, type Types } from './query.ts'
import * as request from './request.ts'
import { permits } from './roles.ts'
import { answerType, paramsOf, type ActionOf, type Caller, type Resource } from './resource.ts'

/** The checks of a caller before every route. */
export interface Gate {
  /** Finds the caller, or throws a Refusal (401). A request inside the process has its caller in Hono's environment. */
  authenticate(asked: Pick<ApiCall, 'header' | 'env'>): Caller
  /** Checks the rate limit (429). Returns the RateLimit headers, or no headers if the server has no limit. */
  admit(caller: Caller): { headers: Record<string, string>; refusal?: Refusal }
  /** Called with the result of each request whose caller is known. */
  note?(caller: Caller, request: RequestNote): void
}

/** A request and its result. `error`: the code of the first error. */
export interface RequestNote extends Pick<ApiCall, 'path' | 'query'> {
  method: string
  status: number
  error?: string
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
  /** GET without effects, for which HEAD is allowed, too (RFC 9110 §9.2.1). */
  safe: boolean
  /**
   * Checks and performs a request. Adds the headers of all answers, including refusals, to `commonHeaders`. Throws a
   * Refusal.
   */
  answer(asked: ApiCall, commonHeaders: Record<string, string>): Promise<ApiAnswer>
}

/** Throws 403 if the caller may not use the scope of a resource (RFC 6750). */
function requireScope(caller: Caller, scope: string, resource: Resource<never>): void {
  if (!permits(caller, scope, resource))
    throw refuse(
      'insufficient_scope',
      `The token lacks the scope ${scope}. Use a token that has it.`,
      { header: 'Authorization' },
      { 'WWW-Authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
    )
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
        answer: (asked, commonHeaders) => answer(options, resource, action, { asked, commonHeaders }),
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
  const refuseAfterGate = (context: Context, why: Refusal): never => {
    const asked = callIn(context)
    const caller = gate.authenticate(asked)
    try {
      const { headers, refusal } = gate.admit(caller)
      setHeaders(context, headers)
      checkAccept(context.req.header('accept'))
      throw refusal ?? why
    } catch (thrown) {
      noteError(gate, caller, { ...asked, method: context.req.method }, thrown)
      throw thrown
    }
  }
  router.on(['POST', 'PATCH', 'DELETE'], '/:type/:id/relationships/:name', (context) =>
    refuseAfterGate(
      context,
      refuse(
        'relationship_update_forbidden',
        'Relationships cannot be changed through relationship URLs. Update the resource itself.',
      ),
    ),
  )
  for (const [path, allowed] of methods)
    router.all(path, (context) => {
      const list = [...allowed].join(', ')
      const headers = { Allow: list }
      return refuseAfterGate(
        context,
        refuse('method_not_allowed', `This endpoint does not support the method. Use ${list}.`, undefined, headers),
      )
    })
  router.all('*', (context) => refuseAfterGate(context, refuse('not_found', 'No such endpoint exists. Check the URL.')))
  return router
}

/** Notes a request that failed, unless its client disconnected. */
function noteError(
  gate: Gate,
  caller: Caller,
  { method, path, query }: Pick<RequestNote, 'method' | 'path' | 'query'>,
  thrown: unknown,
): void {
  if (codeOf(thrown) !== 'ECONNRESET') gate.note?.(caller, { method, path, query, ...errorOf(thrown) })
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
  const commonHeaders: Record<string, string> = {}
  try {
    const { body, headers, status } = await route.answer(callIn(context), commonHeaders)
    setHeaders(context, commonHeaders)
    return context.body(body as string, status as ContentfulStatusCode, headers)
  } catch (thrown) {
    setHeaders(context, commonHeaders)
    throw thrown
  }
}

async function answer<Parts>(
  options: RouterOptions<Parts> & PerformDeps<Parts>,
  resource: Resource<Parts>,
  action: ActionOf<Parts>,
  { asked, commonHeaders }: { asked: ApiCall; commonHeaders: Record<string, string> },
): Promise<ApiAnswer> {
  const { gate } = options
  const caller = gate.authenticate(asked)
  const request = { method: methodOf(action), path: asked.path, query: asked.query }
  try {
    const made = await answerCaller(options, resource, action, { asked, caller, commonHeaders })
    gate.note?.(caller, { ...request, status: made.status })
    return made
  } catch (thrown) {
    noteError(gate, caller, request, thrown)
    throw thrown
  }
}

async function answerCaller<Parts>(
  options: RouterOptions<Parts> & PerformDeps<Parts>,
  resource: Resource<Parts>,
  action: ActionOf<Parts>,
  { asked, caller, commonHeaders }: { asked: ApiCall; caller: Caller; commonHeaders: Record<string, string> },
): Promise<ApiAnswer> {
  const { gate, types } = options
  const rate = gate.admit(caller)
  Object.assign(commonHeaders, rate.headers)
  checkAccept(asked.header('accept'))
  const writes = action.kind === 'create' || action.kind === 'update'
  if (writes) checkContentType(asked.header('content-type'))
  if (rate.refusal) throw rate.refusal

  const self = resource as Resource<never>
  const shown = typeNamed(types, answerType(action, self))
  const query = parseQuery(asked.query, shown, paramsOf(action), types)

  requireScope(caller, action.scope, self)
  if (action.operator && !caller.operator) throw refuse('not_found', 'No such endpoint exists. Check the URL.')
  if (action.person && !caller.person)
    throw refuse(
      'not_found',
      'This endpoint is not available with a token. Sign in to the console, or use the command line.',
    )
  // An included resource needs the same scope as a request for that resource.
  for (const included of includedTypes(query, shown, types))
    if (included.reads !== undefined) requireScope(caller, included.reads, included)
  if (action.kind === 'create') options.refuseWhenFull()
  if (!writes) return perform(options, action, { asked, commonHeaders, self, caller, query, document: undefined })
  const limits: BodyLimits = {
    most: action.bodyLimit ?? USUAL_BODY,
    budget: options.bodies,
    owner: ownerOf(caller.userKey),
    incoming: asked.incoming,
  }
  const withDocument = (document: request.RequestDocument): Promise<ApiAnswer> => {
    if (action.kind === 'update') request.checkHasId(document)
    if (action.kind === 'create') request.checkForbidden(document, self)
    return perform(options, action, { asked, commonHeaders, self, caller, query, document })
  }
  if (asked.document) return withDocument(asked.document)
  return withBody(asked.request, limits, async (text) =>
    withDocument(await inOwnTurn(text.length, () => request.parseDocument(text))),
  )
}
