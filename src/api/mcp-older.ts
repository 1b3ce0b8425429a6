// The wire of MCP up to 2025-11-25, spoken by the SDK. Nothing is kept between two messages: each has a server and a
// transport of its own.
import { z } from 'zod'
import {
  askAs,
  calledIn,
  inputOf,
  INSTRUCTIONS,
  INVALID_PARAMS,
  resultOf,
  SERVER_INFO,
  type Exchange,
} from './mcp-calls.ts'
import { outputOf } from './mcp-output.ts'
import { MCP_TOOLS } from './mcp-tools.ts'

/** Loaded at the first MCP request: otherwise every start and every command would take 40 ms longer. */
async function sdk() {
  const [{ McpServer: Server }, { WebStandardStreamableHTTPServerTransport: Transport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/server/mcp.js'),
    import('@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'),
  ])
  return { Server, Transport }
}

/** The versions of this wire, newest first. */
export const olderVersions = async (): Promise<readonly string[]> =>
  (await import('@modelcontextprotocol/sdk/types.js')).SUPPORTED_PROTOCOL_VERSIONS

/**
 * Answers one message, which the request carried: 200 with the answer to a request, 202 for a notification or a
 * response, 400, 406 or 415 with an error of JSON-RPC for what is not well made.
 */
export async function answerOlder({ access, inside, request }: Exchange, parsedBody: unknown): Promise<Response> {
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
  // The SDK promises it with the first tool; the tools change with the program alone.
  server.server.registerCapabilities({ tools: { listChanged: false } })
  await server.connect(transport)
  try {
    return await transport.handleRequest(request, { parsedBody })
  } finally {
    await server.close()
  }
}

/**
 * A call that gives no object as its arguments is an error, and one of an unknown tool an error of the tool: the SDK
 * would answer the first as a fault of the server, and call the second disabled.
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
