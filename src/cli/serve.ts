// `postrider serve`: runs the server in the foreground until a signal.
import type { Command } from 'commander'
import { SECOND, systemClock, type Clock } from '../base/clock.ts'
import { TIME_MARKER } from '../base/doubt.ts'
import { isRefused, messageOf, type OperatorError } from '../base/errors.ts'
import { exitAtOnce } from '../base/native.ts'
import { areThreadsLeft } from '../base/threads/supervisor.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { reserveOf } from '../base/space.ts'
import { explainedFile } from '../store/open.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { keepRoom } from '../store/room.ts'
import { demandPlace } from '../store/volume.ts'
import type { Appliance } from '../server/appliance.ts'
import type { Beside } from '../archive/schedule.ts'
import { FirstStartByEnvironment, wantsFirstStart } from './first-start.ts'
import { findConfig, inImage } from '../base/config-file.ts'
import { ownConfigOf, serverLog, type Invocation } from '../commands/open.ts'
import { useShaping } from '../smtp/shaping-file.ts'
import { answer, complain, standardTerminal } from '../commands/terminal.ts'

export function serveCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('serve')
    .description('run the appliance in the foreground')
    .option('--ephemeral', 'in a container: start although the data directory ends with it')
    .option('--check', 'only read the configuration as the server would, and say whether it is valid')
    .action(async ({ check, ephemeral }: { check?: true; ephemeral?: true }) =>
      check ? checkConfiguration(invocation()) : serve(invocation(), ephemeral === true),
    )
}

/** Throws the sentence of the first wrong setting. The package asks before it restarts the service (A4). */
function checkConfiguration(now: Invocation): void {
  useShaping(ownConfigOf(now).delivery.shaping)
  answer(now.terminal, { valid: true }, () => 'The configuration is valid.')
}

/** Resolves when a signal has stopped the appliance. An error at the start or the stop is logged and thrown. */
async function serve(now: Invocation, ephemeral: boolean): Promise<void> {
  // Before anything is announced: a signal is never lost, and in a container nothing else would end this process (C6).
  const ending = new Ending()
  // The log is not a document: with --json, an error is printed after the log as a document.
  const { out } = standardTerminal(now.terminal.json)
  // The default level, until the configuration is read.
  let log = serverLog(now.terminal, 'info', out)
  try {
    const first = wantsFirstStart(now)
    const config = ownConfigOf(now, { first })
    log = serverLog(now.terminal, config.log.level, out)
    demandPlace(config.data_dir, { ephemeral, image: inImage() })
    await run(now, { config, ending, first: first ? new FirstStartByEnvironment(now, config) : undefined, log })
  } catch (thrown) {
    ending.over()
    logStopped(log, thrown)
    throw thrown
  }
}

/** Logs why a start failed; a refusal not in the image, where the log and stderr are read together (D195). */
export function logStopped(log: Pick<Log, 'error'>, thrown: unknown, image = inImage()): void {
  const why = explainedFile(thrown)
  if (!(image && isRefused(why))) log.error('stopped', { error: messageOf(why) })
}

interface ServeRun {
  config: Config
  ending: Ending
  first: FirstStartByEnvironment | undefined
  log: Log
}

async function run(now: Invocation, { config, ending, first, log }: ServeRun): Promise<void> {
  // The data directory is lost: no work can be finished, and until the end of the process every accepted mail would be
  // lost too.
  const fatal = (reason: OperatorError): never => {
    // It is in the log (D195).
    if (!inImage()) complain(now.terminal, reason.message)
    return exitAtOnce(1)
  }
  // Loaded here, because most commands need no server.
  const { startAppliance } = await import('../server/appliance.ts')
  const { besideServer } = await import('../server/beside.ts')
  // A first start writes the file.
  const beside: Beside = (words) => besideServer(findConfig(now))(words)
  const { judgeSetUp } = await import('../checks/doctor-set-up.ts')
  const { SystemdNotices, statusOf } = await import('../server/systemd-notices.ts')
  const manager = new SystemdNotices({ clock: systemClock, log, environment: now.environment })
  const { passedSockets } = await import('../server/passed-sockets.ts')
  const sockets = passedSockets(now.environment)
  const upgrading = (progress: UpgradeProgress): void => {
    log.info('database upgrade under way', { ...progress })
    manager.extend(`the database is upgraded: ${progress.doing} since ${progress.seconds} s`)
  }
  const options = { config, clock: systemClock, log, fatal, first, sockets, upgrading, timeMarker: TIME_MARKER, beside }
  const appliance = await ending.orStarted(startAppliance(options))
  const readAgain = async (): Promise<void> => {
    manager.reloading()
    try {
      // Most parts read their settings at each use; listeners, DNS servers and the API's limits need a restart.
      Object.assign(config, ownConfigOf(now))
      await appliance.reload()
      log.always('configuration read again')
    } catch (thrown) {
      log.error('configuration not read again', { error: messageOf(thrown) })
    } finally {
      manager.ready()
    }
  }
  // First: whoever reads that it is ready may send it.
  ending.onHangUp(() => void readAgain())
  keepRoom(config.data_dir, reserveOf(config))
  const { deps } = appliance
  manager.follow({ status: () => statusOf(deps), slowestCommit: () => deps.store.slowestCommit() })
  manager.ready()
  for (const { detail, mend } of judgeSetUp(deps.store, config)) log.warn('not set up', { reason: detail, mend })
  void first?.tell(appliance, log)
  await ending.stops({
    stop() {
      manager.stopping()
      return appliance.stop()
    },
  })
  // It would keep the process for ever.
  if (areThreadsLeft()) exitAtOnce(0)
  // So would questions to DNS, for seconds, although nobody waits for the answers any more.
  process.exit()
}

/**
 * npm, timeout(1) and terminals send a signal to a process group and then to its processes again: a second signal
 * within this time is the same one.
 */
const REPEATED = SECOND
/** A server that has not stopped after this time ends at once. TimeoutStopSec of the unit is longer. */
const DEADLINE = 14 * SECOND
/** A start that is not whole after this time has sent nothing: it ends at once, within the patience of Docker. */
const START = 5 * SECOND

/**
 * Hears SIGTERM, SIGINT and SIGHUP from the moment that it is made. A second signal to end, at least a second after the
 * first, ends the process at once, and so does the end of the deadline.
 */
export class Ending {
  readonly #clock: Clock
  readonly #exit: (status: number) => void
  readonly #heard = Promise.withResolvers<void>()
  #at: number | undefined
  #cancel = (): void => {}
  /** What SIGHUP does; until that is known, it is remembered. */
  #hungUp: (() => void) | undefined
  #remembered = false

  constructor(clock: Clock = systemClock, exit: (status: number) => void = exitAtOnce) {
    this.#clock = clock
    this.#exit = exit
    process.on('SIGTERM', this.#hear).on('SIGINT', this.#hear).on('SIGHUP', this.#hangUp)
  }

  readonly #hangUp = (): void => {
    if (this.#hungUp) this.#hungUp()
    else this.#remembered = true
  }

  /** What SIGHUP does from here on, and now where one came during the start: it may be of a change since then. */
  onHangUp(work: () => void): void {
    this.#hungUp = work
    if (this.#remembered) work()
  }

  readonly #hear = (): void => {
    const now = this.#clock.now()
    if (this.#at === undefined) {
      this.#at = now
      this.#cancel = this.#clock.wake(now + DEADLINE, () => this.#exit(1))
      this.#heard.resolve()
    } else if (now - this.#at >= REPEATED) this.#exit(1)
  }

  /** There is nothing to stop: from here on a signal does what it does to any process. */
  over(): void {
    this.#cancel()
    process.off('SIGTERM', this.#hear).off('SIGINT', this.#hear).off('SIGHUP', this.#hangUp)
  }

  /** What is being started; a signal meanwhile leaves it a moment, and then ends the process. */
  async orStarted<T>(starting: Promise<T>): Promise<T> {
    let cancel = (): void => {}
    let started = false
    void this.#heard.promise.then(() => {
      // As a kill would, which the data directory survives at each moment of a start.
      if (!started) cancel = this.#clock.wake(this.#clock.now() + START, () => this.#exit(0))
    })
    try {
      return await starting
    } finally {
      started = true
      cancel()
    }
  }

  /** Resolves when a signal has stopped the server. */
  async stops(server: Pick<Appliance, 'stop'>): Promise<void> {
    await this.#heard.promise
    await server.stop().finally(() => this.#cancel())
  }
}
