// `postrider openapi`: the OpenAPI document, the same as at /api/v1/openapi.json.
import type { Command } from 'commander'
import { configOf, type Invocation } from '../commands/open.ts'

export function openapiCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('openapi')
    .description('print the OpenAPI document of the API')
    .action(async () => {
      // Loaded here and not at the start, because it loads the whole API.
      const { openApi } = await import('../http/server.ts')
      const now = invocation()
      now.terminal.out(`${JSON.stringify(openApi(configOf(now).http.public_url), null, now.terminal.json ? 0 : 2)}\n`)
    })
}
