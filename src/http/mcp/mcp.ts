// The MCP server (D59): tools for AI agents over streamable HTTP, stateless. Each tool calls the same API that programs
// use, inside the process, as the user who granted the access. So the same rules, refusals and submit function apply.
import { Hono, type Context } from 'hono'
import { cors } from 'hono/cors'
import type { Clock } from '../../base/clock.ts'
import { Refusal } from '../../base/errors.ts'
import { ownerOf, type Budget } from '../../base/memory.ts'
import type { Config } from '../../base/config.ts'
import { counters } from '../../base/counters.ts'
import { RateLimit, type Rate } from '../../identity/rates.ts'
import { allowedNow } from '../../identity/oauth-allowed.ts'
import { isAllowedOrigin } from '../../identity/oauth-clients.ts'
import { findAccess, type OauthAccess } from '../../identity/oauth-grants.ts'
import { findToken } from '../../identity/tokens.ts'
import { withBody } from '../../jsonapi/body.ts'
import type { Store } from '../../store/database.ts'
import type { Inside } from '../../jsonapi/in-process-api.ts'
import { answerBatch, BATCHED } from './batch.ts'
import { faultOf, type McpExchange } from './calls.ts'
import { answerModern, isModern } from './modern.ts'
import { answerOlder, olderVersions } from './older.ts'
import { resourcesOf, SCOPE } from '../oauth.ts'

export interface McpDeps {
  store: Store
  clock: Clock
  config: Pick<Config, 'http' | 'api' | 'oauth'>
  bodies: Budget
}

/** Less than the API's limit, which allows for attachments; a tool accepts only text. */
const MAX_BODY = 10 * 1024 * 1024

/** Makes the endpoint /mcp. `inside` calls the API inside the process. */
export function createMcp(deps: McpDeps, inside: Inside): Hono {
  const app = new Hono()
  const { api } = deps.config
  const rates = new RateLimit(deps.clock, api.rate_limit, api.rate_burst)
  // MCP, "Security Warning": refuses pages of other origins, and pages whose host name was rebound in DNS to this
  // server. Programs send no Origin.
  app.use('/mcp', async (context, next) => {
    const origin = context.req.header('origin')
    return origin === undefined || isOurs(deps, origin) ? next() : faultOf(403, -32600, 'This origin is not allowed.')
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
  const spend = (): Rate => rates.take(access.grant_id)
  const { allowed, reset } = spend()
  if (!allowed)
    return faultOf(429, -32000, `Too many requests; try again in ${reset} s.`, { 'Retry-After': String(reset) })
  // The server is stateless: there is no stream to open with GET and no session to end with DELETE.
  const request = context.req.raw
  if (request.method !== 'POST') return faultOf(405, -32000, 'This server speaks by POST alone.', { Allow: 'POST' })
  try {
    return await withBody(request, { most: MAX_BODY, budget: deps.bodies, owner: ownerOf(access.user_key) }, (text) =>
      perform({ access, inside, request }, text, spend),
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
    return refuse(401, undefined, 'Sign in through OAuth to use this server.')
  if (header.includes(',')) return refuse(401, 'invalid_request', 'Send one Authorization header, not several.')
  const [, secret = ''] = /^bearer +([\w.~+/-]+=*)$/i.exec(header) ?? []
  const access = findAccess(store, secret, clock.now())
  if (access && (access.resource === resources.mcp || access.resource === resources.root)) return access
  const personal = findToken(store, secret)
  if (personal && clock.now() < personal.expires_at)
    return refuse(
      403,
      'insufficient_scope',
      `A personal access token does not serve here; the scope ${SCOPE} is for OAuth clients.`,
    )
  return refuse(401, 'invalid_token', 'The access token is not valid any more.')
}

/** Answers the body of a request; `spend` takes the rate-limit tokens of each request of a batch after the first. */
async function perform(exchange: McpExchange, text: string, spend: () => Rate): Promise<Response> {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return faultOf(400, -32700, 'The body is not JSON.')
  }
  const { request } = exchange
  const older = await olderVersions()
  const isNewer = (message: unknown): boolean => isModern(request, message, older)
  if (!Array.isArray(body)) return isNewer(body) ? answerModern(exchange, body, older) : answerOlder(exchange, body)
  const version = request.headers.get('mcp-protocol-version')
  // Protocol versions after 2025-03-26 have no batches.
  if (version === null && body.some(isNewer))
    return faultOf(400, -32600, 'Send a message that names its version alone, not in a batch.')
  return version === null || BATCHED.includes(version)
    ? answerBatch(body, { answer: (message) => answerOlder(exchange, message), spend })
    : faultOf(400, -32600, 'Send one message in a request, not a batch.')
}
