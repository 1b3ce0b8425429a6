// The MCP server (D59): tools for AI agents over streamable HTTP, stateless. Each tool calls the same API that clients
// use, inside the process, as the user who granted the access. So the same rules, refusals and submit function apply.
import { Hono, type Context } from 'hono'
import { cors } from 'hono/cors'
import { Refusal } from '../base/errors.ts'
import { ownerOf, type Budget } from '../base/memory.ts'
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { RateLimit } from '../base/rates.ts'
import { allowedNow } from '../users/oauth/allowed.ts'
import { isAllowedOrigin } from '../users/oauth/clients.ts'
import { findAccess, type OauthAccess } from '../users/oauth/grants.ts'
import { findToken } from '../users/tokens.ts'
import { clientAddress } from '../net/client-address.ts'
import { withBody } from '../jsonapi/body.ts'
import type { Store } from '../store/database.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import type { ErrorDeps } from '../jsonapi/errors.ts'
import { answerMessage, type McpExchange } from './server.ts'
import { resourcesOf, SCOPE } from '../users/oauth/endpoints.ts'

export interface McpDeps extends ErrorDeps {
  store: Store
  config: Pick<Config, 'http' | 'api' | 'oauth'>
  bodies: Budget
}

/** Less than the limit of the API, which includes attachments. */
const MAX_BODY = 10 * 1024 * 1024

/** Makes the endpoint /mcp. `inside` calls the API inside the process. */
export function createMcp(deps: McpDeps, inside: Inside): Hono {
  const app = new Hono()
  const { api } = deps.config
  const rates = new RateLimit(deps.clock, api.rate_limit, api.rate_burst)
  // MCP, "Security Warning": refuses pages of other origins, and pages whose host name was rebound in DNS to this
  // server. Other clients send no Origin.
  app.use('/mcp', async (context, next) => {
    const origin = context.req.header('origin')
    return origin === undefined || isOurs(deps, origin)
      ? next()
      : faultOf(403, -32600, 'This origin is not allowed. Ask the operator to allow it.')
  })
  app.use(
    '/mcp',
    cors({
      origin: (origin) => origin,
      allowMethods: ['POST'],
      allowHeaders: [
        'Authorization',
        'Content-Type',
        'Accept',
        'MCP-Protocol-Version',
        'Mcp-Session-Id',
        'Mcp-Method',
        'Mcp-Name',
      ],
      exposeHeaders: ['WWW-Authenticate', 'Retry-After'],
    }),
  )
  app.all('/mcp', (context) => answer(deps, context, inside, rates))
  return app
}

async function answer(deps: McpDeps, context: Context, inside: Inside, rates: RateLimit): Promise<Response> {
  const access = accessOf(deps, context)
  if (access instanceof Response) return access
  const { allowed, reset } = rates.take(access.grant_id)
  if (!allowed)
    return faultOf(429, -32000, `Too many requests. Try again in ${reset} s.`, { 'Retry-After': String(reset) })
  // The server is stateless: it has no streams for GET and no sessions for DELETE.
  const request = context.req.raw
  if (request.method !== 'POST')
    return faultOf(405, -32000, 'This method is not supported. Use POST.', { Allow: 'POST' })
  try {
    return await withBody(request, { most: MAX_BODY, budget: deps.bodies, owner: ownerOf(access.user_key) }, (text) =>
      perform(deps, { access, inside, request, address: clientAddress(context, deps.config.http) }, text),
    )
  } catch (thrown) {
    if (!(thrown instanceof Refusal)) throw thrown
    return faultOf(thrown.status, -32600, thrown.message, thrown.headers)
  }
}

function isOurs({ config, store }: McpDeps, origin: string): boolean {
  if (!URL.canParse(origin)) return false
  return isAllowedOrigin(new URL(origin), [...allowedNow(store, config).origins, config.http.public_url])
}

/** The access of a caller, or the answer to one without access (RFC 6750 §3, RFC 9728 §5.1). */
function accessOf({ clock, config: { http }, store }: McpDeps, context: Context): OauthAccess | Response {
  const resources = resourcesOf({ http })
  const metadata = `resource_metadata="${http.public_url}/.well-known/oauth-protected-resource/mcp"`
  const refuse = (status: 401 | 403, error: string | undefined, sentence: string): Response => {
    counters.refused.add({ where: 'mcp' })
    return context.body(JSON.stringify({ error: error ?? 'unauthorized', error_description: sentence }), status, {
      'Content-Type': 'application/json',
      'WWW-Authenticate': `Bearer ${error === undefined ? '' : `error="${error}", `}scope="${SCOPE}", ${metadata}`,
    })
  }
  const header = context.req.header('authorization')
  // Another scheme counts as no token (RFC 6750 §3.1).
  if (header === undefined || !/^bearer\b/i.test(header))
    return refuse(401, undefined, 'This endpoint requires authorisation. Sign in with OAuth.')
  if (header.includes(','))
    return refuse(401, 'invalid_request', 'The request has several Authorization headers. Send one.')
  const [, secret = ''] = /^bearer +([\w.~+/-]+=*)$/i.exec(header) ?? []
  const access = findAccess(store, secret, clock.now())
  if (access && (access.resource === resources.mcp || access.resource === resources.root)) return access
  const personal = findToken(store, secret)
  if (personal && clock.now() < personal.expires_at)
    return refuse(
      403,
      'insufficient_scope',
      `Personal access tokens are not accepted here. Sign in with OAuth, with the scope ${SCOPE}.`,
    )
  return refuse(401, 'invalid_token', 'The access token is no longer valid. Refresh it, or sign in again.')
}

/** Answers the body of a request. */
function perform(deps: McpDeps, exchange: Omit<McpExchange, 'message'>, text: string): Promise<Response> | Response {
  let message: unknown
  try {
    message = JSON.parse(text)
  } catch {
    return faultOf(400, -32700, 'The request body is not valid JSON. Check its syntax.')
  }
  // MCP has no batches since version 2025-06-18.
  return Array.isArray(message)
    ? faultOf(400, -32600, 'Batches are not supported. Send one message per request.')
    : answerMessage(deps, { ...exchange, message })
}

/** An HTTP answer with an error of JSON-RPC 2.0 §5.1 that belongs to no message. */
const faultOf = (
  status: number,
  code: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response => Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status, headers })
