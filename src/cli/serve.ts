// `postrider serve`: the appliance in the foreground until a signal ends it.
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { startAppliance, type Appliance } from './appliance.ts'
import { configOf, serverLog, type Invocation } from './open.ts'

export function serveCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('serve')
    .description('run the appliance in the foreground')
    .action(async () => {
      const now = invocation()
      const config = configOf(now)
      const log = serverLog(now.terminal, config.log.level)
      const appliance = await startAppliance({ config, clock: systemClock, log })
      process.on('SIGHUP', () => {
        try {
          // Parts read their settings when they use them; listeners, DNS servers and the API's limits need a restart.
          Object.assign(config, configOf(now))
          appliance.reload()
          log.info('configuration read again')
        } catch (thrown) {
          log.error('configuration not read again', { error: messageOf(thrown) })
        }
      })
      await untilSignal(appliance)
    })
}

/** Resolves after SIGTERM or SIGINT stopped the appliance; a second signal ends at once. */
export async function untilSignal(appliance: Pick<Appliance, 'stop'>): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let stopping = false
    const stop = (): void => {
      if (stopping) process.exit(1)
      stopping = true
      appliance.stop().then(resolve, reject)
    }
    process.on('SIGTERM', stop).on('SIGINT', stop)
  })
}
