// The MCP server (D59): tools for AI agents over streamable HTTP, stateless. Each tool makes a request to the same API
// that programs use, inside the process, as the user who granted the access: the same rules, refusals and submit
// function apply.
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { Hono, type Context } from 'hono'
import { cors } from 'hono/cors'
import { z } from 'zod'
import type { Clock } from '../base/clock.ts'
import { Refusal } from '../base/errors.ts'
import type { Budget } from '../base/memory.ts'
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { version } from '../base/version.ts'
import { RateLimit } from '../accounts/rates.ts'
import { allowedNow } from '../accounts/oauth-allowed.ts'
import { isAllowedOrigin } from '../accounts/oauth-clients.ts'
import { findAccess, type OauthAccess } from '../accounts/oauth-grants.ts'
import { findToken } from '../accounts/tokens.ts'
import { withBody } from '../jsonapi/body.ts'
import { JSON_API } from '../jsonapi/media.ts'
import type { Caller } from '../jsonapi/resource.ts'
import type { Store } from '../store/database.ts'
import { outputOf } from './mcp-output.ts'
import type { Inside } from './inside.ts'
import { MCP_TOOLS, type Ask } from './mcp-tools.ts'
import { resourcesOf, SCOPE } from './oauth.ts'

export interface McpDesk {
  store: Store
  clock: Clock
  config: Pick<Config, 'http' | 'api' | 'oauth'>
  bodies: Budget
}

/** The API accepts more, for attachments; a tool accepts only text. */
const MAX_BODY = 10 * 1024 * 1024

const INSTRUCTIONS =
  'Send mail, read what came and what became of it, draft campaigns. Campaigns are started by a person, never here.'

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

const callerOf = ({ grant_id, user_id, user_key }: OauthAccess): Caller => ({
  userKey: user_key,
  userId: user_id,
  tokenId: grant_id,
  scopes: MCP_SCOPES,
  operator: false,
})

export function createMcp(desk: McpDesk, inside: Inside): Hono {
  const app = new Hono()
  const { clock, config, store } = desk
  const rates = new RateLimit(clock, config.api.rate_limit, config.api.rate_burst)
  // MCP, "Security Warning":
  // refuses pages of other origins, and pages whose host name was rebound to this server. Programs send no Origin.
  app.use('/mcp', async (context, next) => {
    const origin = context.req.header('origin')
    return origin === undefined || isOurs(origin) ? next() : fault(context, 403, -32600, 'This origin is not allowed.')
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
  app.all('/mcp', async (context) => {
    const access = accessOf(desk, context)
    if (access instanceof Response) return access
    const { allowed, reset } = rates.take(access.grant_id)
    if (!allowed) {
      context.header('Retry-After', String(reset))
      return fault(context, 429, -32000, `Too many requests; try again in ${reset} s.`)
    }
    // Nothing is kept between requests: there is no stream to open and no session to end.
    if (context.req.method !== 'POST') {
      context.header('Allow', 'POST')
      return fault(context, 405, -32000, 'This server speaks by POST alone.')
    }
    try {
      return await withBody(context.req.raw, { most: MAX_BODY, budget: desk.bodies }, (text) =>
        perform(context, access, text),
      )
    } catch (thrown) {
      if (!(thrown instanceof Refusal)) throw thrown
      for (const [name, value] of Object.entries(thrown.headers)) context.header(name, value)
      return fault(context, thrown.status as 400, -32600, thrown.message)
    }
  })
  return app

  async function perform(context: Context, access: OauthAccess, text: string): Promise<Response> {
    let parsedBody: unknown
    try {
      parsedBody = JSON.parse(text)
    } catch {
      return fault(context, 400, -32700, 'The body is not JSON.')
    }
    // Batches left MCP with 2025-06-18; a batch would count as one request against the limit.
    if (Array.isArray(parsedBody)) return fault(context, 400, -32600, 'Send one message in a request, not a batch.')
    const { Server, Transport } = await sdk()
    const transport = new Transport({ enableJsonResponse: true })
    const server = new Server({ name: 'postrider', version }, { instructions: INSTRUCTIONS })
    offerTools(server, access, inside)
    await server.connect(transport)
    try {
      return await transport.handleRequest(context.req.raw, { parsedBody })
    } finally {
      await server.close()
    }
  }

  function isOurs(origin: string): boolean {
    if (!URL.canParse(origin)) return false
    return isAllowedOrigin(new URL(origin), [...allowedNow(desk.store, config).origins, config.http.public_url])
  }

  /** The access of a caller, or the answer to one without access (RFC 6750 §3, RFC 9728 §5.1). */
  function accessOf({ config: { http } }: McpDesk, context: Context): OauthAccess | Response {
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
}

/** An error of JSON-RPC 2.0 §5.1 without a message id. */
const fault = (context: Context, status: 400 | 403 | 405 | 413 | 429 | 503, code: number, message: string): Response =>
  context.json({ jsonrpc: '2.0', error: { code, message }, id: null }, status)

/** Loaded at the first MCP request: otherwise every start and every command would take 40 ms longer. */
async function sdk() {
  const [{ McpServer: Server }, { WebStandardStreamableHTTPServerTransport: Transport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/server/mcp.js'),
    import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'),
  ])
  return { Server, Transport }
}

function offerTools(server: McpServer, access: OauthAccess, inside: Inside): void {
  const ask: Ask = async (method, path, body) => {
    const request = new Request(`http://inside${path}`, {
      method,
      ...(body === undefined ? {} : { headers: { 'Content-Type': JSON_API }, body: JSON.stringify(body) }),
    })
    const response = await inside(callerOf(access), request)
    return { status: response.status, document: (await response.json()) as Record<string, unknown> }
  }
  for (const { name, title, description, input, output, annotations, run } of MCP_TOOLS)
    server.registerTool(
      name,
      { title, description, inputSchema: z.strictObject(input), outputSchema: outputOf(output), annotations },
      async (given: Record<string, unknown>) => resultOf(await run(ask, given, access)),
    )
}

/** A document as a tool's result; a refusal as an error that says what to mend. */
function resultOf({ status, document }: Awaited<ReturnType<Ask>>): CallToolResult {
  if (status < 400)
    return { content: [{ type: 'text', text: JSON.stringify(document, null, 2) }], structuredContent: document }
  const errors =
    (document['errors'] as { code: string; detail: string; source?: { pointer?: string; parameter?: string } }[]) ?? []
  const lines = errors.map(({ code, detail, source }) => {
    const place = source?.pointer?.replace('/data/attributes/', '') ?? source?.parameter
    return `${code}${place === undefined ? '' : ` (${place})`}: ${detail}`
  })
  return {
    isError: true,
    content: [{ type: 'text', text: lines.join('\n') || `The request was refused (${status}).` }],
  }
}
