// MCP up to 2025-11-25, by the SDK. No state is kept between two messages: each has its own server object and transport
// object.
import { z } from 'zod'
import {
  askAs,
  calledIn,
  inputOf,
  INSTRUCTIONS,
  INVALID_PARAMS,
  resultOf,
  SERVER_INFO,
  type McpExchange,
} from './calls.ts'
import { outputOf } from './output.ts'
import { MCP_TOOLS } from './tools.ts'

/** Loaded at the first MCP request: otherwise every start and every command would take 40 ms longer. */
async function sdk() {
  const [{ McpServer: Server }, { WebStandardStreamableHTTPServerTransport: Transport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/server/mcp.js'),
    import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'),
  ])
  return { Server, Transport }
}

/** The protocol versions of this file, newest first. */
export const olderVersions = async (): Promise<readonly string[]> =>
  (await import('@modelcontextprotocol/sdk/types.js')).SUPPORTED_PROTOCOL_VERSIONS

/**
 * Answers one message of an HTTP request: 200 with the answer to a request, 202 for a notification or a response, 400,
 * 406 or 415 with an error of JSON-RPC when the form or the headers are wrong.
 */
export async function answerOlder({ access, inside, request }: McpExchange, parsedBody: unknown): Promise<Response> {
  const fault = faultIn(parsedBody)
  if (fault) return fault
  const { Server, Transport } = await sdk()
  const transport = new Transport({ enableJsonResponse: true })
  const server = new Server(SERVER_INFO, { instructions: INSTRUCTIONS })
  const ask = askAs(access, inside)
  for (const tool of MCP_TOOLS) {
    const { annotations, description, name, output, run, title } = tool
    server.registerTool(
      name,
      { title, description, inputSchema: inputOf(tool), outputSchema: outputOf(output), annotations },
      async (given: Record<string, unknown>) => resultOf(await run(ask, given, access)),
    )
  }
  // With the first tool the SDK announces `listChanged`; here the list changes only with the program.
  server.server.registerCapabilities({ tools: { listChanged: false } })
  await server.connect(transport)
  try {
    return await transport.handleRequest(request, { parsedBody })
  } finally {
    await server.close()
  }
}

/**
 * The answer to a wrong call of a tool: arguments that are not an object are an error of the protocol, an unknown tool
 * is an error in the result. The SDK would answer the first as a server error, and report the second as a disabled
 * tool.
 */
function faultIn(message: unknown): Response | undefined {
  const { data: asked } = Asked.safeParse(message)
  const call = asked && calledIn(asked.params)
  if (!call || !('fault' in call)) return undefined
  const { fault, named } = call
  const error = { code: INVALID_PARAMS, message: fault }
  if (!named) return Response.json({ jsonrpc: '2.0', id: asked.id, error })
  const result = { isError: true, content: [{ type: 'text', text: fault }] }
  return Response.json({ jsonrpc: '2.0', id: asked.id, result })
}

const Asked = z.object({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.int()]),
  method: z.literal('tools/call'),
  params: z.unknown(),
})
