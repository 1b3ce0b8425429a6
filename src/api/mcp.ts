// The MCP server (D59): tools for AI agents over streamable HTTP, stateless. Each tool is a request to the very API that programs use,
// made inside the process as the user who granted the access: the same rules, the same refusals, the same submit function.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { Hono, type Context } from 'hono'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { version } from '../base/version.ts'
import { RateLimit } from '../accounts/rates.ts'
import { findAccess, type OauthAccess } from '../accounts/oauth-grants.ts'
import { findToken } from '../accounts/tokens.ts'
import { JSON_API } from '../jsonapi/media.ts'
import type { Store } from '../store/database.ts'
import { MCP_TOOLS, type Inside } from './mcp-tools.ts'
import { resourcesOf, SCOPE } from './oauth.ts'

export interface McpDesk {
  store: Store
  clock: Clock
  config: Pick<Config, 'http' | 'api'>
}

const MAX_BODY = 60 * 1024 * 1024

/** `inside` performs a request to the API as a user; see server.ts. */
export function createMcp(desk: McpDesk, inside: (access: OauthAccess, request: Request) => Promise<Response>): Hono {
  const app = new Hono()
  const { clock, config, store } = desk
  const rates = new RateLimit(clock, config.api.rate_limit, config.api.rate_burst)
  app.all('/mcp', async (context) => {
    const access = accessOf(desk, context)
    if (access instanceof Response) return access
    const { allowed, reset } = rates.take(access.grant_id)
    if (!allowed) return context.text('Too many requests.\n', 429, { 'Retry-After': String(reset) })
    if (Number(context.req.header('content-length') ?? 0) > MAX_BODY) return context.text('Too large.\n', 413)
    // Nothing is kept between requests: no stream to open, no session to end.
    if (context.req.method !== 'POST')
      return context.text('This server speaks by POST alone.\n', 405, { Allow: 'POST' })
    const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true })
    const server = serverFor(access, inside)
    await server.connect(transport)
    try {
      return await transport.handleRequest(context.req.raw)
    } finally {
      await server.close()
    }
  })
  return app

  /** Who asks; or the answer to who may not (RFC 6750 §3, RFC 9728 §5.1). */
  function accessOf({ config: { http } }: McpDesk, context: Context): OauthAccess | Response {
    const resources = resourcesOf({ http })
    const metadata = `resource_metadata="${http.public_url}/.well-known/oauth-protected-resource/mcp"`
    const refuse = (status: 401 | 403, error: string | undefined, sentence: string): Response =>
      context.body(JSON.stringify({ error: error ?? 'unauthorized', error_description: sentence }), status, {
        'Content-Type': 'application/json',
        'WWW-Authenticate': `Bearer ${error === undefined ? '' : `error="${error}", `}scope="${SCOPE}", ${metadata}`,
      })
    const header = context.req.header('authorization')
    if (header === undefined) return refuse(401, undefined, 'Sign in through OAuth to use this server.')
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

function serverFor(
  access: OauthAccess,
  inside: (access: OauthAccess, request: Request) => Promise<Response>,
): McpServer {
  const server = new McpServer(
    { name: 'postrider', version },
    {
      instructions:
        'Send mail, read what came and what became of it, draft campaigns. Campaigns are started by a person, never here.',
    },
  )
  const ask: Inside = async (method, path, body) => {
    const request = new Request(`http://inside${path}`, {
      method,
      ...(body === undefined ? {} : { headers: { 'Content-Type': JSON_API }, body: JSON.stringify(body) }),
    })
    const response = await inside(access, request)
    return { status: response.status, document: (await response.json()) as Record<string, unknown> }
  }
  for (const { name, title, description, input, annotations, run } of MCP_TOOLS)
    server.registerTool(
      name,
      { title, description, inputSchema: input, annotations },
      async (given: Record<string, unknown>) => resultOf(await run(ask, given, access)),
    )
  return server
}

/** A document as a tool's result; a refusal as an error that says what to mend. */
function resultOf({ status, document }: Awaited<ReturnType<Inside>>): CallToolResult {
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
