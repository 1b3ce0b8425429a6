// The HTTP application as one function Request -> Response. http/listen.ts serves it on sockets.
import { createHash } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { Hono, type Handler, type MiddlewareHandler } from 'hono'
import { codeOf, refuse } from '../base/errors.ts'
import { noteSpace } from '../base/space.ts'
import { answerError } from '../jsonapi/errors.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { createRouter, routesOf, type RouterOptions } from '../jsonapi/routes.ts'
import { grants } from '../users/oauth/api-grants.ts'
import { auditEntries } from '../users/api-audit.ts'
import { members } from '../users/api-members.ts'
import { people } from '../users/api-people.ts'
import { logLines, serverSamples } from './api-log.ts'
import { serverBackups } from '../archive/api.ts'
import { isSetUp } from '../checks/machine.ts'
import { createAuthorize } from '../users/oauth/authorize.ts'
import { isUnfinished } from './connection.ts'
import { API_HEADERS, createDirect, isStrict, STRICT, timesSent, type Direct } from './direct.ts'
import { createGate } from '../users/gate.ts'
import type { AppDeps } from './app-deps.ts'
import { createInside, type Inside } from '../jsonapi/in-process-api.ts'
import { countRequests, createMetrics } from './metrics.ts'
import { createOauth } from '../users/oauth/endpoints.ts'
import { openApiOf } from './openapi.ts'
import { refuseWhenFull } from '../jsonapi/storage-left.ts'
import { createPublic } from './public.ts'
import { tokenRequests, tokens } from '../users/api-tokens.ts'
import { WrongTokens } from '../users/wrong-tokens.ts'

export const API_PATH = '/api/v1'

/** The resources of the server itself, and of its users. */
const OWN: readonly Resource<AppDeps>[] = [
  tokens,
  tokenRequests,
  grants,
  members,
  people,
  auditEntries,
  serverBackups,
  logLines,
  serverSamples,
]

export const openApi = (resources: readonly Resource<AppDeps>[], publicUrl: string): object =>
  openApiOf(resources as readonly Resource<never>[], publicUrl, API_PATH)

/** Every resource of the API. */
export const resourcesOf = (subjects: AppDeps['subjects']): readonly Resource<AppDeps>[] => [
  ...OWN,
  ...subjects.flatMap(({ resources = [] }) => resources),
]

/** The application. `direct` is the fast path for requests that need only their route. */
export type App = Hono<{ Bindings: HttpBindings }> & { direct: Direct }

/** The API inside the process, without a socket. */
export const apiInside = (deps: AppDeps): Inside =>
  createInside(deps, () => deps.config.http.public_url + API_PATH, resourcesOf(deps.subjects))

/** The whole HTTP application without the console. Tests use `app.request(…)`, without a socket. */
export function createApp(deps: AppDeps): App {
  const app = new Hono<{ Bindings: HttpBindings }>()
  app.use(countRequests(deps))
  const wrongTokens = new WrongTokens(deps)
  app.use(wrongTokens.watch)
  app.use('*', closeUnsent)
  app.use('*', endUnread)
  app.use('*', refuseTwoHosts)
  app.use('*', keepToTls(deps))
  app.get('/health', (context) => {
    noteSpace(deps)
    const reasons = [
      ...deps.troubles.list().map(({ sentence }) => sentence),
      ...(isSetUp(deps.store) ? [] : ['This server is not set up: it has no user and no domain.']),
    ]
    const restart = deps.restart.size > 0 ? { restart_needed: [...deps.restart] } : {}
    if (reasons.length === 0) return context.json({ status: 'ok', ...restart })
    return context.json({ status: 'degraded', reasons, ...restart })
  })
  app.use(`${API_PATH}/*`, beginAnswer)
  app.get(`${API_PATH}/openapi.json`, describe(deps))
  const options: RouterOptions<AppDeps> = {
    parts: deps,
    reader: deps.store,
    store: deps.store,
    clock: deps.clock,
    log: deps.log,
    keyring: deps.keyring,
    gate: createGate(deps, resourcesOf(deps.subjects) as readonly Resource<never>[]),
    base: () => deps.config.http.public_url + API_PATH,
    resources: resourcesOf(deps.subjects),
    bodies: deps.bodies,
    refuseWhenFull: () => refuseWhenFull(deps),
  }
  const routes = routesOf(options)
  app.route(API_PATH, createRouter(options, routes))
  app.route('/', createMetrics(deps))
  app.route('/', createPublic(deps))
  app.route('/', createOauth(deps))
  app.route('/', createAuthorize(deps))
  const inside = apiInside(deps)
  for (const { routes } of deps.subjects) if (routes) app.route('/', routes(deps, inside))
  app.onError((thrown, context) => {
    // The client disconnected during the request: not an internal error, and no answer can be sent.
    if (codeOf(thrown) === 'ECONNRESET') return context.body(null, 400)
    const { status, headers, body } = answerError(thrown, deps)
    return context.body(body, status, headers)
  })
  app.notFound((context) => context.text('Not found.\n', 404))
  return Object.assign(app, { direct: createDirect(deps, { path: API_PATH, routes, wrongTokens }) })
}

/**
 * Responds with the OpenAPI document. It is generated once per public URL, which may be set after the start. If the
 * client already has it, the response is 304 (RFC 9110 §13.1.2).
 */
function describe({ config, subjects }: AppDeps): Handler {
  let made = { url: '', body: '', tag: '' }
  return (context) => {
    const url = config.http.public_url
    if (made.url !== url) {
      const body = JSON.stringify(openApi(resourcesOf(subjects), url))
      made = { url, body, tag: `"${createHash('sha256').update(body).digest('base64url')}"` }
    }
    const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'public, max-age=300', ETag: made.tag }
    const known = (context.req.header('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))
    if (known.includes(made.tag) || known.includes('*')) return context.body(null, 304, headers)
    return context.body(made.body, 200, headers)
  }
}

type Middleware = MiddlewareHandler<{ Bindings: HttpBindings }>

/** HEAD is answered like GET, but without the body. A file or a live stream that was opened for it is closed. */
const closeUnsent: Middleware = async (context, next) => {
  await next()
  if (context.req.method === 'HEAD') await context.res.body?.cancel()
}

/** Closes the connection after the answer to a request whose body has not arrived, instead of waiting for the body. */
const endUnread: Middleware = async (context, next) => {
  await next()
  const { incoming } = (context.env as Partial<HttpBindings> | undefined) ?? {}
  if (incoming && isUnfinished(incoming)) context.header('Connection', 'close')
}

/**
 * RFC 9112 §3.2. A proxy in front may have routed by the other Host header. On a shared connection, later requests can
 * belong to other clients.
 */
const refuseTwoHosts: Middleware = async (context, next) => {
  if (timesSentIn(context.env, 'host') > 1)
    return context.text('The request has several Host headers. Send one.\n', 400, { Connection: 'close' })
  return next()
}

/** Strict-Transport-Security for a year (RFC 6797), over TLS and for the public name only. */
const keepToTls =
  ({ config }: AppDeps): Middleware =>
  async (context, next) => {
    await next()
    const { incoming } = (context.env as Partial<HttpBindings> | undefined) ?? {}
    if (incoming && isStrict(incoming, config)) context.header(...STRICT)
  }

/** Headers of every answer of the API. Throws a refusal (401) for several Authorization headers. */
const beginAnswer: Middleware = (context, next) => {
  for (const [name, value] of Object.entries(API_HEADERS)) context.header(name, value)
  if (timesSentIn(context.env, 'authorization') > 1)
    throw refuse(
      'unauthenticated',
      'The request has several Authorization headers. Send one.',
      { header: 'Authorization' },
      { 'WWW-Authenticate': 'Bearer error="invalid_request"' },
    )
  return next()
}

/** How often a header was sent. Undefined bindings are those of a request inside the process. */
const timesSentIn = (bindings: Partial<HttpBindings> | undefined, name: string): number =>
  bindings?.incoming ? timesSent(bindings.incoming, name) : 0
