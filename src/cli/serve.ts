// `postrider serve`: runs the server in the foreground until a signal ends it.
import type { Command } from 'commander'
import { SECOND, systemClock, type Clock } from '../base/clock.ts'
import { messageOf, type OperatorError } from '../base/errors.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { explainedFile } from '../store/open.ts'
import type { Appliance } from './appliance.ts'
import { configOf, serverLog, type Invocation } from './open.ts'
import { complain, standardTerminal } from './terminal.ts'

export function serveCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('serve')
    .description('run the appliance in the foreground')
    .action(() => serve(invocation()))
}

/**
 * Resolves when a signal has stopped the appliance. Throws what kept it from starting or from ending well, having
 * logged it.
 */
async function serve(now: Invocation): Promise<void> {
  // The log is no document: with --json what went wrong follows it as one.
  const { out } = standardTerminal(now.terminal.json)
  // Of the default level until the configuration is read.
  let log = serverLog(now.terminal, 'info', out)
  try {
    const config = configOf(now)
    log = serverLog(now.terminal, config.log.level, out)
    await run(now, config, log)
  } catch (thrown) {
    log.error('stopped', { error: messageOf(explainedFile(thrown)) })
    throw thrown
  }
}

async function run(now: Invocation, config: Config, log: Log): Promise<void> {
  // A lost data directory: nothing can be finished, and every answer until the end would be a promise too many.
  const fatal = (reason: OperatorError): never => {
    complain(now.terminal, reason.message)
    process.exit(1)
  }
  // Loaded here: most commands need no server.
  const { startAppliance } = await import('./appliance.ts')
  const appliance = await startAppliance({ config, clock: systemClock, log, fatal })
  const readAgain = async (): Promise<void> => {
    try {
      // Parts read their settings when they use them; listeners, DNS servers and the API's limits need a restart.
      Object.assign(config, configOf(now))
      await appliance.reload()
      log.always('configuration read again')
    } catch (thrown) {
      log.error('configuration not read again', { error: messageOf(thrown) })
    }
  }
  process.on('SIGHUP', () => void readAgain())
  await untilSignal(appliance)
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
