// `postrider openapi`: the OpenAPI document, the same as at /api/v1/openapi.json.
import type { Command } from 'commander'
import { loadParts } from '../server/parts.ts'
import { settingsOf, type Invocation } from '../views/command/open.ts'

export function openapiCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('openapi')
    .description('print the OpenAPI document of the API')
    .action(async () => {
      // Loaded here and not at the start, because it loads the whole API.
      const { openApi, resourcesOf } = await import('../http/server.ts')
      const resources = resourcesOf(await loadParts())
      const now = invocation()
      now.terminal.out(
        `${JSON.stringify(openApi(resources, settingsOf(now).http.public_url), null, now.terminal.json ? 0 : 2)}\n`,
      )
    })
}
