// Answers one MCP message by the SDK, in MCP 2026-07-28 and the earlier versions. The server keeps no state between two
// messages. A tool call becomes a request to the API inside the process, with the rights that the user granted.
import type { CallToolResult, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { MINUTE } from '../base/clock.ts'
import { version } from '../base/version.ts'
import { answerError, type ErrorDeps } from '../jsonapi/errors.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import { rightsOf } from '../jsonapi/roles.ts'
import { JSON_API } from '../jsonapi/media.ts'
import type { OauthAccess } from '../users/oauth/grants.ts'
import { outputOf } from './output.ts'
import { agentOfClient, MCP_TOOLS, type Ask, type McpTool } from './tools.ts'

/** An authenticated message to /mcp. */
export interface McpExchange {
  access: OauthAccess
  inside: Inside
  /** The client's IP address. */
  address: string
  request: Request
  message: unknown
}

const INSTRUCTIONS =
  'Send emails, read received emails, get delivery results, and draft campaigns. Campaigns are never started here, only by a user in the console.'

/** The API scopes of MCP clients. */
const SCOPES = new Set([
  'emails:send',
  'emails:read',
  'inbound:read',
  'domains:read',
  'contacts:read',
  'campaigns:read',
  'campaigns:write',
])

/** Clients may cache answers that are the same for all users, because they change only with the version. */
const CACHED = { ttlMs: 5 * MINUTE, cacheScope: 'public' } as const

/** Loaded at the first request, because it would delay every start and every command. */
const sdk = (): Promise<typeof import('@modelcontextprotocol/server')> => import('@modelcontextprotocol/server')

/** Answers a message. An error of the SDK itself is logged. */
export async function answerMessage(deps: ErrorDeps, exchange: McpExchange): Promise<Response> {
  const { createMcpHandler, isLegacyRequest, WebStandardStreamableHTTPServerTransport: Transport } = await sdk()
  const { message: parsedBody, request } = exchange
  if (await isLegacyRequest(request, parsedBody)) {
    const server = await serverFor(deps, exchange)
    const transport = new Transport({ enableJsonResponse: true })
    await server.connect(transport)
    try {
      return await transport.handleRequest(request, { parsedBody })
    } finally {
      await server.close()
    }
  }
  let failed: unknown
  const options = { legacy: 'reject', maxSubscriptions: 0, onerror: (thrown: unknown) => (failed = thrown) } as const
  const response = await createMcpHandler(() => serverFor(deps, exchange), options).fetch(request, { parsedBody })
  if (response.status === 500) deps.log.fault('mcp request', failed)
  return response
}

const inputs = new Map<string, z.ZodObject>()

/** The schema of a tool's arguments, made at the first use. */
function inputOf({ input, name }: McpTool): z.ZodObject {
  const schema = inputs.get(name) ?? z.strictObject(input)
  inputs.set(name, schema)
  return schema
}

async function serverFor(deps: ErrorDeps, { access, address, inside }: McpExchange): Promise<McpServer> {
  const { McpServer: Server } = await sdk()
  const server = new Server(
    { name: 'postrider', version },
    {
      instructions: INSTRUCTIONS,
      capabilities: { tools: { listChanged: false } },
      cacheHints: { 'tools/list': CACHED, 'server/discover': CACHED },
    },
  )
  const ask = askAs(access, inside, address)
  for (const tool of MCP_TOOLS) {
    const { annotations, description, name, output, run, title } = tool
    server.registerTool(
      name,
      { title, description, inputSchema: inputOf(tool), outputSchema: outputOf(output), annotations },
      async (given) => resultOf(await run(ask, given, access).catch((thrown: unknown) => failureOf(deps, thrown))),
    )
  }
  return server
}

/** Makes requests to the API as the user who granted the access. */
const askAs =
  ({ client_id, grant_id, role, user_id, user_key }: OauthAccess, inside: Inside, address: string): Ask =>
  async (method, path, body) => {
    const request = new Request(`http://inside${path}`, {
      method,
      ...(body === undefined ? {} : { headers: { 'Content-Type': JSON_API }, body: JSON.stringify(body) }),
    })
    const rights = rightsOf(role)
    const caller = {
      userKey: user_key,
      userId: user_id,
      tokenId: grant_id,
      via: 'mcp' as const,
      address: () => address,
      ...rights,
      scopes: new Set([...SCOPES].filter((scope) => rights.scopes.has(scope))),
      operator: false,
      program: agentOfClient(client_id),
    }
    const response = await inside(caller, request)
    return { status: response.status, document: (await response.json()) as Record<string, unknown> }
  }

/** An internal error as an answer of the API, which has the id of the log entry. */
function failureOf(deps: ErrorDeps, thrown: unknown): Awaited<ReturnType<Ask>> {
  const { body, status } = answerError(thrown, deps)
  return { status, document: JSON.parse(body) as Record<string, unknown> }
}

interface ApiError {
  id?: string
  code: string
  detail: string
  source?: { pointer?: string; parameter?: string }
}

/** A document as a tool's result, or a refusal as an error that explains the fix. */
function resultOf({ document, status }: Awaited<ReturnType<Ask>>): CallToolResult {
  if (status < 400)
    return { content: [{ type: 'text', text: JSON.stringify(document, null, 2) }], structuredContent: document }
  const lines = ((document['errors'] as ApiError[] | undefined) ?? []).map(({ code, detail, id, source }) => {
    if (code === 'internal')
      return `Internal error. Report the id ${String(id)} to the operator, who finds it in the log.`
    const place = source?.pointer?.replace('/data/attributes/', '') ?? source?.parameter
    // A tool has no URL.
    return `${code}${place === undefined ? '' : ` (${place})`}: ${detail.replace('Check the id in the URL.', 'Check the id.')}`
  })
  return {
    isError: true,
    content: [{ type: 'text', text: lines.join('\n') || `The request failed with status ${status}.` }],
  }
}
