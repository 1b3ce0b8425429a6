// Shared by both protocol versions of the MCP server: its description of itself, the API request that a tool call
// becomes, the schema of a tool's arguments, and the API's answer as the tool's result.
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { z } from 'zod'
import { issueWords } from '../../base/issues.ts'
import { version } from '../../base/version.ts'
import type { OauthAccess } from '../../identity/oauth-grants.ts'
import { JSON_API } from '../../jsonapi/media.ts'
import type { Caller } from '../../jsonapi/resource.ts'
import type { Inside } from '../../jsonapi/in-process-api.ts'
import { agentOfClient, MCP_TOOLS, type Ask, type McpTool } from './tools.ts'

/** An authenticated request to /mcp. */
export interface McpExchange {
  access: OauthAccess
  inside: Inside
  request: Request
}

export const SERVER_INFO = { name: 'postrider', version }

export const INSTRUCTIONS =
  'Send mail, read what came and what became of it, draft campaigns. Campaigns are started by a person, never here.'

/** The API scopes of MCP clients; they act for the user who gave them access. */
const MCP_SCOPES = new Set([
  'emails:send',
  'emails:read',
  'inbound:read',
  'domains:read',
  'contacts:read',
  'campaigns:read',
  'campaigns:write',
])

const callerOf = ({ client_id, grant_id, user_id, user_key }: OauthAccess): Caller => ({
  userKey: user_key,
  userId: user_id,
  tokenId: grant_id,
  scopes: MCP_SCOPES,
  operator: false,
  program: agentOfClient(client_id),
})

/** Makes requests to the API as the user who granted the access. */
export const askAs =
  (access: OauthAccess, inside: Inside): Ask =>
  async (method, path, body) => {
    const request = new Request(`http://inside${path}`, {
      method,
      ...(body === undefined ? {} : { headers: { 'Content-Type': JSON_API }, body: JSON.stringify(body) }),
    })
    const response = await inside(callerOf(access), request)
    return { status: response.status, document: (await response.json()) as Record<string, unknown> }
  }

const made = new Map<string, z.ZodObject>()

/** The schema of a tool's arguments, without room for others; made at the first use. */
export function inputOf({ input, name }: McpTool): z.ZodObject {
  let schema = made.get(name)
  if (!schema) made.set(name, (schema = z.strictObject(input)))
  return schema
}

/** The problems that zod found, in one line. */
export const wordsOf = ({ issues }: z.ZodError, place: string): string =>
  issues
    .map((issue) => {
      const words =
        issue.code === 'unrecognized_keys' ? `must not have ${issue.keys.join(', ')}` : issueWords(issue.message)
      return `${[place, ...issue.path.map(String)].filter(Boolean).join('.')} ${words}`
    })
    .join('; ')

/** The code of JSON-RPC 2.0 §5.1 for invalid parameters. */
export const INVALID_PARAMS = -32602

const Call = z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()).default({}) })

/**
 * The tool that a call names, and its arguments, not yet checked. Otherwise a sentence: the call has a wrong form, or
 * (`named`) there is no tool of that name.
 */
export function calledIn(
  params: unknown,
): { tool: McpTool; given: Record<string, unknown> } | { fault: string; named: boolean } {
  const call = Call.safeParse(params)
  if (!call.success) return { fault: `${wordsOf(call.error, 'params')}.`, named: false }
  const tool = MCP_TOOLS.find(({ name }) => name === call.data.name)
  return tool
    ? { tool, given: call.data.arguments }
    : { fault: `There is no tool "${call.data.name.slice(0, 100)}"; see tools/list.`, named: true }
}

/** A document as a tool's result; a refusal as an error that says how to correct the call. */
export function resultOf({ status, document }: Awaited<ReturnType<Ask>>): CallToolResult {
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

/** An error of JSON-RPC 2.0 §5.1 as JSON; the id null stands for a message whose id is not known. */
export const errorOf = (id: string | number | null, code: number, message: string): string =>
  JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id })

/** An HTTP answer with an error that belongs to no single message. */
export const faultOf = (
  status: number,
  code: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): Response =>
  new Response(errorOf(null, code, message), { status, headers: { 'Content-Type': 'application/json', ...headers } })
