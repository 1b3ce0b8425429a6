// The MCP server as a part of the server.
import { part } from '../parts/part.ts'
import { createMcp, type McpDeps } from './mcp.ts'

export const mcpPart = part<McpDeps>('mcp', { routes: createMcp })
