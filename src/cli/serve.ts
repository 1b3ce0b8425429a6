// `postrider serve`: runs the server in the foreground until a signal ends it.
import type { Command } from 'commander'
import { SECOND, systemClock, type Clock } from '../base/clock.ts'
import { messageOf, type OperatorError } from '../base/errors.ts'
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
      // The data directory is lost: nothing can be finished, and no further answer could be trusted.
      const fatal = (reason: OperatorError): never => {
        now.terminal.err(`postrider: ${reason.message}\n`)
        process.exit(1)
      }
      const appliance = await startAppliance({ config, clock: systemClock, log, fatal })
      const readAgain = async (): Promise<void> => {
        try {
          // Most parts read their settings at each use; listeners, DNS servers and the API's limits need a restart.
          Object.assign(config, configOf(now))
          await appliance.reload()
          log.always('configuration read again')
        } catch (thrown) {
          log.error('configuration not read again', { error: messageOf(thrown) })
        }
      }
      process.on('SIGHUP', () => void readAgain())
      await untilSignal(appliance)
    })
}

/**
 * npm, timeout(1) and terminals signal a whole process group and its members again: a signal this soon is the same one.
 */
const REPEATED = SECOND

/** Resolves when SIGTERM or SIGINT has stopped the server; a second signal at least a second later ends it at once. */
export async function untilSignal(appliance: Pick<Appliance, 'stop'>, clock: Clock = systemClock): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let asked: number | undefined
    const stop = (): void => {
      if (asked === undefined) {
        asked = clock.now()
        appliance.stop().then(resolve, reject)
      } else if (clock.now() - asked >= REPEATED) process.exit(1)
    }
    process.on('SIGTERM', stop).on('SIGINT', stop)
  })
}
