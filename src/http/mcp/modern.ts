// MCP 2026-07-28: every request names its version, its client and the client's capabilities; there are no sessions.
// Headers repeat the values that proxies use for routing, and must match the body. The SDK knows only earlier versions.
import { z } from 'zod'
import { MINUTE } from '../../base/clock.ts'
import {
  askAs,
  calledIn,
  inputOf,
  INSTRUCTIONS,
  INVALID_PARAMS,
  resultOf,
  SERVER_INFO,
  wordsOf,
  type McpExchange,
} from './calls.ts'
import { outputOf } from './output.ts'
import { MCP_TOOLS } from './tools.ts'

/** The protocol version of this file. */
export const MODERN = '2026-07-28'

/** Codes of MCP 2026-07-28, "Error Codes", and of JSON-RPC 2.0 §5.1. */
const HEADER_MISMATCH = -32020
const UNSUPPORTED_VERSION = -32022
const INVALID_REQUEST = -32600
const METHOD_NOT_FOUND = -32601

const PREFIX = 'io.modelcontextprotocol/'
const VERSION = `${PREFIX}protocolVersion`
/**
 * Milliseconds for which clients may cache answers that are the same for all users: they change only with the program.
 */
const FRESH = 5 * MINUTE
const CACHED = { ttlMs: FRESH, cacheScope: 'public' }

const record = z.record(z.string(), z.unknown())
const Id = z.union([z.string(), z.int()], { error: 'must be a text or a whole number' }).optional()
const Message = z.object({
  jsonrpc: z.literal('2.0'),
  id: Id,
  method: z.string(),
  params: record.optional(),
})
const Meta = z.object({
  [`${PREFIX}clientCapabilities`]: record,
  [`${PREFIX}clientInfo`]: z.object({ name: z.string(), version: z.string() }).optional(),
})

/** A message with the right form: a request, or a notification when it has no id. */
type McpRequest = z.infer<typeof Message>

/** An error as a value: the HTTP status, and the error object of JSON-RPC. */
interface Fault {
  status: number
  code: number
  message: string
  data?: object
}

const fault = (status: number, code: number, message: string, data?: object): { fault: Fault } => ({
  fault: { status, code, message, ...(data === undefined ? {} : { data }) },
})

type McpOutcome = { result: object } | { fault: Fault }

/** The protocol version in a message's `_meta`; undefined when it has none. */
function versionIn(message: unknown): unknown {
  const { _meta } = record.safeParse(record.safeParse(message).data?.['params']).data ?? {}
  return record.safeParse(_meta).data?.[VERSION]
}

/**
 * Whether a message belongs to this protocol version: its header or its body names a version that is not one of the
 * older ones. `initialize` belongs to an older version, unless its `_meta` names a version (MCP 2026-07-28,
 * "Versioning").
 */
export function isModern(request: Request, message: unknown, older: readonly string[]): boolean {
  const [header, named] = [request.headers.get('mcp-protocol-version'), versionIn(message)]
  const isOlder = (version: unknown): boolean => typeof version === 'string' && older.includes(version)
  if (named !== undefined) return !isOlder(named) || (header !== null && !isOlder(header))
  return header !== null && !isOlder(header) && record.safeParse(message).data?.['method'] !== 'initialize'
}

/**
 * Answers one message. 200: a result, or an error of the request. 202: a notification. 400: a wrong form, headers that
 * contradict the body (-32020), or a version that this server does not have (-32022, with the versions that it has).
 * 404: an unknown method. 415: not sent as JSON.
 */
export async function answerModern(exchange: McpExchange, body: unknown, older: readonly string[]): Promise<Response> {
  const { headers } = exchange.request
  const parsed = Message.safeParse(body)
  const id = Id.safeParse(record.safeParse(body).data?.['id']).data
  let outcome: McpOutcome | undefined
  if (!/^application\/json\s*(?:;|$)/i.test(headers.get('content-type') ?? ''))
    outcome = fault(415, INVALID_REQUEST, 'The Content-Type must be application/json.')
  else if (!parsed.success)
    outcome = fault(400, INVALID_REQUEST, `Send one request of JSON-RPC 2.0: ${wordsOf(parsed.error, '')}.`)
  else {
    const checked = judgeVersion(headers, body, older) ?? (id === undefined ? undefined : judge(headers, parsed.data))
    if (checked === undefined && id === undefined) return new Response(null, { status: 202 })
    outcome = checked ?? (await perform(exchange, parsed.data, [MODERN, ...older]))
  }
  const known = id === undefined ? {} : { id }
  if ('result' in outcome) return Response.json({ jsonrpc: '2.0', ...known, result: outcome.result })
  const { status, ...error } = outcome.fault
  return Response.json({ jsonrpc: '2.0', ...known, error }, { status })
}

/** Checks that header and body name the same version, and that it is this one. */
function judgeVersion(headers: Headers, body: unknown, older: readonly string[]): { fault: Fault } | undefined {
  const [header, named] = [headers.get('mcp-protocol-version'), versionIn(body)]
  if (header === null) return fault(400, HEADER_MISMATCH, 'The header MCP-Protocol-Version is missing.')
  if (named !== undefined && named !== header)
    return fault(400, HEADER_MISMATCH, `The header MCP-Protocol-Version is not what params._meta["${VERSION}"] says.`)
  if (header === MODERN) return undefined
  const data = { supported: [MODERN, ...older], requested: header.slice(0, 100) }
  return fault(400, UNSUPPORTED_VERSION, 'This server does not speak that version of MCP.', data)
}

/** Checks that the other headers match the body, and that the body names the client (MCP 2026-07-28, "_meta"). */
function judge(headers: Headers, { method, params = {} }: McpRequest): { fault: Fault } | undefined {
  if (headers.get('mcp-method') !== method)
    return fault(400, HEADER_MISMATCH, 'The header Mcp-Method is missing, or is not the method of the body.')
  if (method === 'tools/call' && decoded(headers.get('mcp-name')) !== params['name'])
    return fault(400, HEADER_MISMATCH, 'The header Mcp-Name is missing, or is not params.name of the body.')
  if (versionIn({ params }) === undefined)
    return fault(400, INVALID_PARAMS, `params._meta["${VERSION}"] is missing; send what the header says.`)
  const meta = Meta.safeParse(params['_meta'])
  return meta.success ? undefined : fault(400, INVALID_PARAMS, `${wordsOf(meta.error, 'params._meta')}.`)
}

/** The value of a header that may be encoded in base64 (MCP 2026-07-28, "Value Encoding"). */
function decoded(value: string | null): string | null {
  const [, base64] = /^=\?base64\?([A-Za-z0-9+/]*={0,2})\?=$/.exec(value ?? '') ?? []
  return base64 === undefined ? value : Buffer.from(base64, 'base64').toString()
}

async function perform(
  exchange: McpExchange,
  { method, params = {} }: McpRequest,
  versions: string[],
): Promise<McpOutcome> {
  const complete = (result: object): McpOutcome => ({
    result: { resultType: 'complete', ...result, _meta: { [`${PREFIX}serverInfo`]: SERVER_INFO } },
  })
  switch (method) {
    case 'server/discover':
      return complete({
        supportedVersions: versions,
        capabilities: { tools: {} },
        instructions: INSTRUCTIONS,
        ...CACHED,
      })
    case 'tools/list':
      // The list has one page, so no cursor is valid.
      return params['cursor'] === undefined
        ? complete({ tools: (listed ??= listTools()), ...CACHED })
        : fault(200, INVALID_PARAMS, 'params.cursor is not from this server; send no cursor.')
    case 'tools/call': {
      const called = await callTool(exchange, params)
      return 'fault' in called ? called : complete(called.result)
    }
    default:
      return fault(404, METHOD_NOT_FOUND, `This server has no method "${method.slice(0, 100)}".`)
  }
}

let listed: object[] | undefined

const listTools = (): object[] =>
  MCP_TOOLS.map((tool) => {
    const { annotations, description, name, output, title } = tool
    const inputSchema = z.toJSONSchema(inputOf(tool), { io: 'input' })
    return { name, title, description, inputSchema, outputSchema: z.toJSONSchema(outputOf(output)), annotations }
  })

/**
 * Invalid arguments are an error in the tool's result, so that the agent can correct them. An unknown tool is an error
 * of the protocol.
 */
async function callTool({ access, inside }: McpExchange, params: object): Promise<McpOutcome> {
  const call = calledIn(params)
  if ('fault' in call) return fault(200, INVALID_PARAMS, call.fault)
  const { tool } = call
  const given = inputOf(tool).safeParse(call.given)
  if (given.success) return { result: resultOf(await tool.run(askAs(access, inside), given.data, access)) }
  return { result: { isError: true, content: [{ type: 'text', text: `${wordsOf(given.error, 'arguments')}.` }] } }
}
