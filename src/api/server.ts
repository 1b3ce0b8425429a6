// The HTTP application as one function Request -> Response, and the listener that serves it on a socket.
import type { Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { SecureContext } from 'node:tls'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import type { Certificate } from '../base/certificate.ts'
import type { Clock } from '../base/clock.ts'
import { codeOf, OperatorError, refuse, Refusal } from '../base/errors.ts'
import { Budget } from '../base/memory.ts'
import { noteSpace } from '../base/space.ts'
import { formatEndpoint } from '../base/network.ts'
import { TLS_POLICY } from '../base/tls.ts'
import { answerError } from '../jsonapi/errors.ts'
import type { Caller, Resource } from '../jsonapi/resource.ts'
import { createRouter } from '../jsonapi/routes.ts'
import { audiences, contactImports, contacts } from './audiences.ts'
import { createAuthorize } from './authorize.ts'
import { createGate } from './auth.ts'
import { campaigns, campaignStats } from './campaigns.ts'
import type { ApiDesk } from './desk.ts'
import { domains, records } from './domains.ts'
import { inboundEmails } from './inbound-emails.ts'
import { inboxes } from './inboxes.ts'
import type { OauthAccess } from '../accounts/oauth-grants.ts'
import { createMcp } from './mcp.ts'
import { countRequests, createMetrics } from './metrics.ts'
import { createOauth } from './oauth.ts'
import { openApiOf } from './openapi.ts'
import { outboundEmails } from './outbound-emails.ts'
import { outboundEmailStats } from './outbound-email-stats.ts'
import { createPublic } from './public.ts'
import { recipientErasures, recipientExports } from './recipients.ts'
import { suppressions } from './suppressions.ts'
import { createUnsubscribe } from './unsubscribe.ts'
import { tokens } from './tokens.ts'
import { outboundWebhooks, webhooks } from './webhooks.ts'
import { WrongTokens } from './wrong-tokens.ts'

export const API_PATH = '/api/v1'

/** Every resource of the API, in the order of its documentation. */
export const resources: readonly Resource<ApiDesk>[] = [
  tokens,
  outboundEmails,
  outboundEmailStats,
  campaigns,
  campaignStats,
  audiences,
  contacts,
  contactImports,
  domains,
  records,
  inboxes,
  inboundEmails,
  suppressions,
  webhooks,
  outboundWebhooks,
  recipientErasures,
  recipientExports,
]

export const openApi = (publicUrl: string): object =>
  openApiOf(resources as readonly Resource<never>[], publicUrl, API_PATH)

export type App = Hono<{ Bindings: HttpBindings }>

/** The whole HTTP application; `app.request(…)` serves tests without a socket. */
export function createApp(desk: ApiDesk): App {
  const app = new Hono<{ Bindings: HttpBindings }>()
  const base = (): string => desk.config.http.public_url + API_PATH
  app.use(countRequests(desk))
  const wrong = new WrongTokens(desk)
  app.use('*', async (context, next) => {
    const names = (context.env?.incoming?.rawHeaders ?? []).filter((_, index) => index % 2 === 0)
    // RFC 9112 §3.2: a proxy in front may have used the other one.
    if (names.filter((name) => name.toLowerCase() === 'host').length > 1)
      return context.text('Send one Host header, not several.\n', 400)
    return next()
  })
  app.use('*', async (context, next) => {
    await next()
    const encrypted = (context.env?.incoming?.socket as { encrypted?: boolean } | undefined)?.encrypted === true
    // A year (RFC 6797), only for the public name:
    // other names of this server may be served in clear text by somebody else.
    const { host, protocol } = new URL(desk.config.http.public_url)
    if (encrypted && protocol === 'https:' && context.req.header('host') === host)
      context.header('Strict-Transport-Security', 'max-age=31536000')
  })
  app.get('/health', (context) => {
    noteSpace(desk)
    const troubles = desk.troubles.list()
    if (troubles.length === 0) return context.json({ status: 'ok' })
    return context.json({ status: 'degraded', reasons: troubles.map(({ sentence }) => sentence) })
  })
  app.use(`${API_PATH}/*`, (context, next) => {
    context.header('api-version', '1')
    context.header('Vary', 'Accept')
    const raw = context.env?.incoming?.rawHeaders ?? []
    if (raw.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'authorization').length > 1)
      throw refuse(
        'unauthenticated',
        'Send one Authorization header, not several.',
        { header: 'Authorization' },
        { 'WWW-Authenticate': 'Bearer error="invalid_request"' },
      )
    return next()
  })
  app.get(`${API_PATH}/openapi.json`, (context) => context.json(openApi(desk.config.http.public_url)))
  app.route(
    API_PATH,
    createRouter({
      parts: desk,
      reader: desk.store,
      clock: desk.clock,
      keyring: desk.keyring,
      gate: createGate(desk),
      base,
      resources,
      bodies: desk.bodies,
      promise: () => promise(desk),
    }),
  )
  app.route('/', createMetrics(desk))
  app.route('/', createPublic(desk))
  app.route('/', createUnsubscribe(desk))
  app.route('/', createOauth(desk))
  app.route('/', createAuthorize(desk))
  app.route('/', createMcp(desk, insideOf(desk, base)))
  app.onError((thrown, context) => {
    // The client disconnected in the middle: no error of ours, and nobody to answer.
    if (codeOf(thrown) === 'ECONNRESET') return context.body(null, 400)
    const judged = thrown instanceof Refusal ? wrong.judge(context, thrown) : thrown
    const { status, headers, body } = answerError(judged, desk)
    return context.body(body, status as 400, headers)
  })
  app.notFound((context) => context.text('There is nothing here.\n', 404))
  return app
}

/** Throws 507 while the disk is below its reserve: accepted mail could not be stored (D73). */
function promise({ space }: ApiDesk): void {
  if (space.low)
    throw refuse(
      'insufficient_storage',
      'The server is short of storage and takes nothing new until its operator has made room; send this again later.',
      undefined,
      { 'Retry-After': '60' },
    )
}

/** The scopes of MCP clients, on behalf of the user who granted the access. */
const MCP_SCOPES = new Set([
  'emails:send',
  'emails:read',
  'inbound:read',
  'domains:read',
  'contacts:read',
  'campaigns:read',
  'campaigns:write',
])

/** The API without its own authentication, for requests that were authenticated elsewhere, inside the process. */
function insideOf(desk: ApiDesk, base: () => string): (access: OauthAccess, request: Request) => Promise<Response> {
  const callers = new WeakMap<Headers, Caller>()
  const gate = createGate(desk)
  const router = createRouter({
    parts: desk,
    reader: desk.store,
    clock: desk.clock,
    keyring: desk.keyring,
    gate: {
      authenticate: (headers) => callers.get(headers)!,
      admit: () => ({ headers: {} }),
      permit: (caller, scope) => gate.permit(caller, scope),
    },
    base,
    resources,
    // The outer request's size is limited already.
    bodies: new Budget(Infinity),
    promise: () => promise(desk),
  })
  router.onError((thrown, context) => {
    const { status, headers, body } = answerError(thrown, desk)
    return context.body(body, status as 400, headers)
  })
  return async (access, request) => {
    const caller = { userKey: access.user_key, userId: access.user_id, tokenId: access.grant_id, scopes: MCP_SCOPES }
    callers.set(request.headers, caller)
    return router.fetch(request)
  }
}

export interface HttpListener {
  host: string
  port: number
  /** Uses another certificate for new connections; for HTTPS. */
  renew(certificate: Certificate): void
  /** Accepts no more; waits at most `patience` ms for requests in progress. */
  close(patience: number): Promise<void>
}

/** Milliseconds for a request's header, and for the whole request with its body. */
const HEADER_TIME = 30_000
const REQUEST_TIME = 10 * 60_000

/**
 * Serves the application on a socket, with a certificate over TLS.
 * Throws an OperatorError when the address cannot be used.
 */
export async function listen(
  app: { fetch: App['fetch'] },
  { host, port }: { host: string; port: number },
  clock: Clock,
  key = 'http.listen',
  tls?: { certificate: Certificate; contextOf: (host: string) => SecureContext | undefined },
): Promise<HttpListener> {
  const limits = { headersTimeout: HEADER_TIME, requestTimeout: REQUEST_TIME, keepAliveTimeout: 65_000 }
  const server = createAdaptorServer(
    tls
      ? {
          fetch: app.fetch,
          createServer: createTlsServer,
          serverOptions: {
            ...limits,
            ...tls.certificate,
            ...TLS_POLICY,
            handshakeTimeout: HEADER_TIME,
            SNICallback: (host, done) => done(null, tls.contextOf(host)),
          },
        }
      : { fetch: app.fetch, serverOptions: limits },
  ) as Server | TlsServer
  await new Promise<void>((resolve, reject) => {
    server.once('error', (thrown) => reject(listenError(thrown, key, host, port)))
    server.listen(port, host, resolve)
  })
  return {
    host,
    port: (server.address() as AddressInfo).port,
    renew: (renewed) => (server as TlsServer).setSecureContext({ ...renewed, ...TLS_POLICY }),
    close: (patience) =>
      new Promise((resolve) => {
        const inTime = clock.wake(clock.now() + patience, () => server.closeAllConnections())
        server.close(() => {
          inTime()
          resolve()
        })
        server.closeIdleConnections()
      }),
  }
}

/** One sentence for an address that cannot be listened on. */
export function listenError(thrown: unknown, key: string, host: string, port: number): OperatorError {
  const where = formatEndpoint(host, port)
  switch (codeOf(thrown)) {
    case 'EADDRINUSE':
      return new OperatorError(`${where} is in use by another program; end it or choose another "${key}".`)
    case 'EACCES':
      return new OperatorError(
        `${where} needs rights that this user lacks; choose a port above 1023 or grant CAP_NET_BIND_SERVICE ("${key}").`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
      return new OperatorError(`${where} is not an address of this machine; correct "${key}".`)
    default:
      return new OperatorError(`${where} cannot be listened on (${codeOf(thrown)}); correct "${key}".`)
  }
}
