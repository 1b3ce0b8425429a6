// The HTTP side as one function Request -> Response, and the listener that puts it on a socket.
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import { Hono } from 'hono'
import { codeOf, OperatorError, refuse } from '../base/errors.ts'
import { formatEndpoint } from '../base/network.ts'
import { answerError } from '../jsonapi/errors.ts'
import { createOpenApi } from '../jsonapi/openapi.ts'
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
import { createMetrics } from './metrics.ts'
import { createOauth } from './oauth.ts'
import { outboundEmails } from './outbound-emails.ts'
import { outboundEmailStats } from './outbound-email-stats.ts'
import { createPublic } from './public.ts'
import { recipientErasures, recipientExports } from './recipients.ts'
import { suppressions } from './suppressions.ts'
import { createUnsubscribe } from './unsubscribe.ts'
import { tokens } from './tokens.ts'
import { outboundWebhooks, webhooks } from './webhooks.ts'

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
  createOpenApi(resources as readonly Resource<never>[], publicUrl + API_PATH)

/** The whole HTTP application; `app.request(…)` serves tests without a socket. */
export function createApp(desk: ApiDesk): Hono<{ Bindings: HttpBindings }> {
  const app = new Hono<{ Bindings: HttpBindings }>()
  const base = (): string => desk.config.http.public_url + API_PATH
  app.get('/health', (context) => context.json({ status: 'ok' }))
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
    }),
  )
  app.route('/', createMetrics(desk))
  app.route('/', createPublic(desk))
  app.route('/', createUnsubscribe(desk))
  app.route('/', createOauth(desk))
  app.route('/', createAuthorize(desk))
  app.route('/', createMcp(desk, insideOf(desk, base)))
  app.onError((thrown, context) => {
    // Whoever asked has hung up in the middle: no fault of ours, and nobody to answer.
    if (codeOf(thrown) === 'ECONNRESET') return context.body(null, 400)
    const { status, headers, body } = answerError(thrown, desk)
    return context.body(body, status as 400, headers)
  })
  app.notFound((context) => context.text('There is nothing here.\n', 404))
  return app
}

/** What MCP clients may ask of the API, on behalf of the user who let them in. */
const MCP_SCOPES = new Set([
  'emails:send',
  'emails:read',
  'inbound:read',
  'domains:read',
  'contacts:read',
  'campaigns:read',
  'campaigns:write',
])

/** The API without its gate, for requests that were let in elsewhere: made inside the process, on no socket. */
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
  /** Stops accepting, waits for requests in progress at most `patience` ms. */
  close(patience: number): Promise<void>
}

/** Puts the application on a socket. Throws an OperatorError when the address cannot be had. */
export async function listen(
  app: Hono<{ Bindings: HttpBindings }>,
  { host, port }: { host: string; port: number },
  key = 'http.listen',
): Promise<HttpListener> {
  const server = createAdaptorServer({ fetch: app.fetch }) as Server
  server.keepAliveTimeout = 65_000
  await new Promise<void>((resolve, reject) => {
    server.once('error', (thrown) => reject(listenError(thrown, key, host, port)))
    server.listen(port, host, resolve)
  })
  return {
    host,
    port: (server.address() as AddressInfo).port,
    close: (patience) =>
      new Promise((resolve) => {
        const cut = setTimeout(() => server.closeAllConnections(), patience)
        server.close(() => {
          clearTimeout(cut)
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
