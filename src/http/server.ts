// The HTTP application as one function Request -> Response; http/listen.ts serves it on sockets.
import { createHash } from 'node:crypto'
import type { HttpBindings } from '@hono/node-server'
import { Hono, type Handler, type MiddlewareHandler } from 'hono'
import { codeOf, refuse } from '../base/errors.ts'
import { noteSpace } from '../base/space.ts'
import { answerError } from '../jsonapi/errors.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { createRouter, routesOf, type RouterOptions } from '../jsonapi/routes.ts'
import { advisedRecords } from '../domains/api-advised.ts'
import { aggregateReports } from '../reports/api.ts'
import { dmarcEvidences, dmarcSourceFigures, knownSources, tlsFigures } from '../reports/api-figures.ts'
import { agents } from '../reputation/api.ts'
import { attempts } from '../delivery/api-attempts.ts'
import { campaignLinks, spamVerdicts } from '../campaigns/api-checks.ts'
import { campaignActivity } from '../campaigns/api-activity.ts'
import { audienceReaches, campaignReaches, suppressedContacts } from '../campaigns/api-reach.ts'
import { campaignAudiences } from '../campaigns/api-addressing.ts'
import { audienceFields } from '../campaigns/api-fields.ts'
import { campaignForecasts } from '../campaigns/api-forecast.ts'
import { campaignTests } from '../campaigns/api-tests.ts'
import { grants } from '../accounts/api-grants.ts'
import { lanes } from '../delivery/api.ts'
import { sources } from '../delivery/api-sources.ts'
import { people } from './api-people.ts'
import { privacyRequests } from '../privacy/api-requests.ts'
import { logLines, serverSamples } from './api-log.ts'
import { serverBackups } from '../archive/api.ts'
import { serverState } from '../checks/api.ts'
import { explanations } from '../why/api.ts'
import { receiverAlarms } from '../reputation/api-alarms.ts'
import { receivers } from '../reputation/api-receivers.ts'
import { statistics } from '../reputation/api-statistics.ts'
import { audienceFigures } from '../campaigns/api-figures.ts'
import { audiences, contactImports, contacts } from '../campaigns/api-audiences.ts'
import { listImports } from '../lists/api-contacts.ts'
import { suppressionImports } from '../lists/api.ts'
import { createAuthorize } from './authorize.ts'
import { isUnfinished } from './connection.ts'
import { API_HEADERS, createDirect, isStrict, STRICT, timesSent, type Direct } from './direct.ts'
import { createGate } from '../jsonapi/gate.ts'
import { campaigns, campaignSchedules, campaignStats, campaignTotals } from '../campaigns/api.ts'
import type { AppDeps } from './app-deps.ts'
import { domainReputation } from '../reputation/api-domain.ts'
import { domains, records } from '../domains/api.ts'
import { images } from '../images/api.ts'
import { inboundEmails } from '../inbound/api-emails.ts'
import { inboxCounts, inboxMessages } from '../inbound/api-messages.ts'
import { inboxes } from '../inbound/api.ts'
import { createInside, type Inside } from '../jsonapi/in-process-api.ts'
import { createMcp } from './mcp/mcp.ts'
import { countRequests, createMetrics } from './metrics.ts'
import { createOauth } from './oauth.ts'
import { openApiOf } from './openapi.ts'
import { outboundEmails } from '../mail/api.ts'
import { refuseWhenFull } from '../jsonapi/storage-left.ts'
import { outboundEmailCounts } from '../mail/api-counts.ts'
import { outboundEmailStats } from '../mail/api-stats.ts'
import { createPublic } from './public.ts'
import { recipientErasures, recipientExports } from '../privacy/api.ts'
import { suppressions } from '../suppressions/api.ts'
import { createUnsubscribe } from './unsubscribe.ts'
import { watchChanges, watches } from '../watch/api.ts'
import { tokens } from '../accounts/api.ts'
import { warmups } from '../warmup/api.ts'
import { outboundWebhooks, webhooks } from '../webhooks/api.ts'
import { WrongTokens } from './wrong-tokens.ts'

export const API_PATH = '/api/v1'

/** Every resource of the API, in the order of its documentation. */
export const resources: readonly Resource<AppDeps>[] = [
  tokens,
  outboundEmails,
  outboundEmailStats,
  outboundEmailCounts,
  campaigns,
  campaignStats,
  audiences,
  contacts,
  contactImports,
  listImports,
  domains,
  records,
  inboxes,
  inboundEmails,
  inboxCounts,
  inboxMessages,
  suppressions,
  webhooks,
  outboundWebhooks,
  recipientErasures,
  recipientExports,
  attempts,
  statistics,
  receivers,
  explanations,
  receiverAlarms,
  suppressionImports,
  audienceFigures,
  campaignTests,
  campaignAudiences,
  audienceFields,
  campaignLinks,
  spamVerdicts,
  campaignActivity,
  images,
  campaignSchedules,
  campaignTotals,
  campaignReaches,
  campaignForecasts,
  audienceReaches,
  suppressedContacts,
  agents,
  advisedRecords,
  domainReputation,
  aggregateReports,
  dmarcSourceFigures,
  dmarcEvidences,
  tlsFigures,
  knownSources,
  privacyRequests,
  grants,
  lanes,
  warmups,
  sources,
  people,
  serverState,
  serverBackups,
  logLines,
  serverSamples,
  watches,
  watchChanges,
]

export const openApi = (publicUrl: string): object =>
  openApiOf(resources as readonly Resource<never>[], publicUrl, API_PATH)

/** The application; `direct` takes the requests that need nothing of it but their route. */
export type App = Hono<{ Bindings: HttpBindings }> & { direct: Direct }

/** The API inside the process, without a socket. */
export const apiInside = (deps: AppDeps): Inside =>
  createInside(deps, () => deps.config.http.public_url + API_PATH, resources)

/** The whole HTTP application without the console; tests use `app.request(…)`, without a socket. */
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
    const troubles = deps.troubles.list()
    if (troubles.length === 0) return context.json({ status: 'ok' })
    return context.json({ status: 'degraded', reasons: troubles.map(({ sentence }) => sentence) })
  })
  app.use(`${API_PATH}/*`, beginAnswer)
  app.get(`${API_PATH}/openapi.json`, describe(deps))
  const options: RouterOptions<AppDeps> = {
    parts: deps,
    reader: deps.store,
    clock: deps.clock,
    log: deps.log,
    keyring: deps.keyring,
    gate: createGate(deps),
    base: () => deps.config.http.public_url + API_PATH,
    resources,
    bodies: deps.bodies,
    refuseWhenFull: () => refuseWhenFull(deps),
  }
  const routes = routesOf(options)
  app.route(API_PATH, createRouter(options, routes))
  app.route('/', createMetrics(deps))
  app.route('/', createPublic(deps))
  app.route('/', createUnsubscribe(deps))
  app.route('/', createOauth(deps))
  app.route('/', createAuthorize(deps))
  app.route('/', createMcp(deps, apiInside(deps)))
  app.onError((thrown, context) => {
    // The client disconnected during the request: not an error of this program, and no answer can be sent.
    if (codeOf(thrown) === 'ECONNRESET') return context.body(null, 400)
    const { status, headers, body } = answerError(thrown, deps)
    return context.body(body, status, headers)
  })
  app.notFound((context) => context.text('There is nothing here.\n', 404))
  return Object.assign(app, { direct: createDirect(deps, { path: API_PATH, routes, wrongTokens }) })
}

/**
 * Answers with the OpenAPI document. It is made once for each public URL, which may be set after the start; a client
 * that has it already gets 304 (RFC 9110 §13.1.2).
 */
function describe({ config }: AppDeps): Handler {
  let made = { url: '', body: '', tag: '' }
  return (context) => {
    const url = config.http.public_url
    if (made.url !== url) {
      const body = JSON.stringify(openApi(url))
      made = { url, body, tag: `"${createHash('sha256').update(body).digest('base64url')}"` }
    }
    const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'public, max-age=300', ETag: made.tag }
    const known = (context.req.header('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))
    if (known.includes(made.tag) || known.includes('*')) return context.body(null, 304, headers)
    return context.body(made.body, 200, headers)
  }
}

type Middleware = MiddlewareHandler<{ Bindings: HttpBindings }>

/** HEAD is answered as GET is, without the body: what was opened for it, such as a file or a live stream, is closed. */
const closeUnsent: Middleware = async (context, next) => {
  await next()
  if (context.req.method === 'HEAD') await context.res.body?.cancel()
}

/** The answer to a request whose body has not arrived is the last one of its connection: the body is not waited for. */
const endUnread: Middleware = async (context, next) => {
  await next()
  const { incoming } = (context.env as Partial<HttpBindings> | undefined) ?? {}
  if (incoming && isUnfinished(incoming)) context.header('Connection', 'close')
}

/**
 * RFC 9112 §3.2. A proxy in front may have routed by the other Host header; on a shared connection, later requests can
 * belong to other clients.
 */
const refuseTwoHosts: Middleware = async (context, next) => {
  if (timesSentIn(context.env, 'host') > 1)
    return context.text('Send one Host header, not several.\n', 400, { Connection: 'close' })
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
      'Send one Authorization header, not several.',
      { header: 'Authorization' },
      { 'WWW-Authenticate': 'Bearer error="invalid_request"' },
    )
  return next()
}

/** How often a header was sent. A request inside the process has no bindings. */
const timesSentIn = (bindings: Partial<HttpBindings> | undefined, name: string): number =>
  bindings?.incoming ? timesSent(bindings.incoming, name) : 0
