// `postrider health`: whether the server is healthy, for the health checks of containers and scripts.
import type { Command } from 'commander'
import { OperatorError } from '../base/errors.ts'
import type { Invocation } from '../commands/open.ts'
import { askHealth, healthUrl, tellHealth } from './ask-health.ts'

export function healthCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('health')
    .description('ask the running server whether it is healthy: ends with 0, or with 1 and the reason')
    .option('--url <url>', 'the base URL of the server (else the one of this configuration and data directory)')
    .action(async ({ url: base }: { url?: string }) => {
      const now = invocation()
      const url = healthUrl(base, now)
      if (!url) throw new OperatorError(`"${base}" is not a URL such as "http://127.0.0.1:8025".`)
      process.exitCode = tellHealth(now.terminal, await askHealth(url))
    })
}
