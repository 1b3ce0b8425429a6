// `postrider serve`: runs the server in the foreground until a signal. `postrider standby` does so on one machine of a
// failover pair, once the data directory is mounted there.
import type { Command } from 'commander'
import { SECOND, systemClock, type Clock } from '../base/clock.ts'
import { TIME_MARKER } from '../base/doubt.ts'
import { isRefused, messageOf, type OperatorError } from '../base/errors.ts'
import { exitAtOnce } from '../base/native.ts'
import { areThreadsLeft } from '../base/threads/supervisor.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { reserveOf } from '../base/space.ts'
import { demandMarkedData, keepMark } from '../base/set-up-mark.ts'
import { isVacant } from '../store/instance.ts'
import { explainedFile } from '../store/open.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { keepReserve } from '../store/reserve.ts'
import { demandPlace } from '../store/volume.ts'
import type { Appliance } from '../server/appliance.ts'
import { statusOf, SystemdNotices } from '../server/systemd-notices.ts'
import type { Beside } from '../archive/schedule.ts'
import { FirstStartByEnvironment, wantsFirstStart } from './first-start.ts'
import { findConfig, inImage } from '../base/config-file.ts'
import { ownConfigOf, serverLog, settingsAlone, type Invocation } from '../views/command/open.ts'
import { answer, complain, standardTerminal } from '../views/command/terminal.ts'

export function serveCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('serve')
    .description('run the server in the foreground')
    .option('--ephemeral', 'start without a volume; all data is lost with the container')
    .option('--check', 'validate the configuration and exit')
    .action(async ({ check, ephemeral }: { check?: true; ephemeral?: true }) =>
      check
        ? checkConfiguration(invocation(), ephemeral === true)
        : serve(invocation(), { ephemeral: ephemeral === true }),
    )
  program
    .command('standby')
    .description('run as the standby of a failover pair, which waits for its volume')
    .option('--fenced', 'the other machine is off or without the volume: do not wait for it')
    .action(async ({ fenced }: { fenced?: true }) => serve(invocation(), { standby: { fenced: fenced === true } }))
}

/** Throws an OperatorError for the first setting that a start rejects. The package checks it before a restart. */
async function checkConfiguration(now: Invocation, ephemeral: boolean): Promise<void> {
  // First, because only root can read all configurations.
  const { collisions, neighbours } = await import('./neighbours.ts')
  const others = neighbours(findConfig(now))
  const { config } = settingsAtStart(now, ephemeral)
  const { demandAddresses, demandSettings } = await import('../server/settings.ts')
  const warnings = [...demandSettings(config), ...collisions(config, others)]
  await demandAddresses(config)
  answer(now.terminal, { valid: true, warnings }, () => ['The configuration is valid.', ...warnings].join('\n'))
}

/** Returns the configuration of a start with a usable data directory. Throws an OperatorError. */
function settingsAtStart(now: Invocation, ephemeral: boolean): { config: Config; first: boolean } {
  const first = wantsFirstStart(now)
  const config = ownConfigOf(now, { first })
  demandPlace(config.data_dir, { ephemeral, image: inImage() })
  demandMarkedData(findConfig(now), config.data_dir, isVacant(config.data_dir))
  return { config, first }
}

interface ServeOptions {
  ephemeral?: boolean
  standby?: { fenced: boolean }
}

/** Resolves when a signal has stopped the appliance. An error at the start or the stop is logged and thrown. */
async function serve(now: Invocation, { ephemeral = false, standby }: ServeOptions): Promise<void> {
  // First, so that signals are handled from the start: as process 1 of a container, this process would ignore them.
  const ending = new Ending()
  // The log is not a document: with --json, an error is printed after the log as a document.
  const { out } = standardTerminal(now.terminal.json)
  // The default level, until the configuration is read.
  let log = serverLog(now.terminal, 'info', out)
  const manager = new SystemdNotices({ clock: systemClock, log, environment: now.environment })
  try {
    if (standby) await waitForVolume(now, { ending, fenced: standby.fenced, log, manager })
    const { config, first } = settingsAtStart(now, ephemeral)
    log = serverLog(now.terminal, config.log.level, out)
    const firstStart = first ? new FirstStartByEnvironment(now, config) : undefined
    await run(now, { config, ending, first: firstStart, log, manager, pair: standby !== undefined })
  } catch (thrown) {
    ending.over()
    logStopped(log, thrown)
    throw thrown
  }
}

/** Logs why a start failed. In the image, stderr already has the error of a rejected start (D195). */
export function logStopped(log: Pick<Log, 'error'>, thrown: unknown, image = inImage()): void {
  const why = explainedFile(thrown)
  if (!(image && isRefused(why))) log.error('server_stopped', { error: messageOf(why) })
}

/**
 * Waits as a standby of a failover pair. The program is loaded meanwhile, so that the start takes less time. A signal
 * ends the process.
 */
async function waitForVolume(
  now: Invocation,
  { ending, fenced, log, manager }: { ending: Ending; fenced: boolean; log: Log; manager: SystemdNotices },
): Promise<void> {
  const { data_dir: dataDir } = settingsAlone(now)
  const { standBy } = await import('../server/standby.ts')
  await import('../server/appliance.ts')
  manager.follow({ status: () => `standing by for ${dataDir}`, slowestCommit: () => 0 })
  manager.ready()
  const settingsFault = (): string | undefined => {
    try {
      settingsAlone(now)
      return undefined
    } catch (thrown) {
      return messageOf(thrown)
    }
  }
  await standBy({ clock: systemClock, dataDir, fenced, log, settingsFault, stopped: () => ending.asked })
  if (ending.asked) process.exit(0)
}

interface ServeRun {
  config: Config
  ending: Ending
  first: FirstStartByEnvironment | undefined
  log: Log
  manager: SystemdNotices
  /** Whether this server is one of a failover pair. */
  pair: boolean
}

async function run(now: Invocation, { config, ending, first, log, manager, pair }: ServeRun): Promise<void> {
  // The data directory is lost: work cannot be completed, and every email that is accepted from here on would be lost.
  const fatal = (reason: OperatorError): never => {
    // The log already has the error (D195).
    if (!inImage()) complain(now.terminal, reason.message)
    return exitAtOnce(1)
  }
  // Loaded here, because most commands need no server.
  const { startAppliance } = await import('../server/appliance.ts')
  const { besideServer } = await import('../server/beside.ts')
  // A first start writes the file.
  const beside: Beside = (words) => besideServer(findConfig(now))(words)
  const { isSetUp, setUpFindings } = await import('../checks/machine.ts')
  const upgrading = (progress: UpgradeProgress): void => {
    const { doing: phase, done, of: total, seconds } = progress
    log.info('database_upgrade_progress', { phase, done, total, seconds })
    manager.extend(`upgrading the database: ${phase} for ${seconds} s`)
  }
  const source = { file: findConfig(now), environment: now.environment }
  const own = { timeMarker: TIME_MARKER, beside, source }
  const options = { config, clock: systemClock, log, fatal, first, pair, upgrading, ...own }
  const appliance = await ending.orStarted(startAppliance(options))
  const readAgain = async (): Promise<void> => {
    manager.reloading()
    try {
      const waiting = await appliance.reload(ownConfigOf(now))
      log.always('configuration_reloaded', waiting.length > 0 ? { restart_needed: waiting } : {})
    } catch (thrown) {
      log.error('configuration_reload_failed', { error: messageOf(thrown) })
    } finally {
      manager.ready()
    }
  }
  // First, because a reader of server_ready may send SIGHUP at once.
  ending.onHangUp(() => void readAgain())
  keepReserve(config.data_dir, reserveOf(config))
  const { deps } = appliance
  manager.follow({ status: () => statusOf(deps), slowestCommit: () => deps.store.slowestCommit() })
  manager.ready()
  for (const { fix, summary } of setUpFindings(deps.store, config))
    log.warn('setup_incomplete', { reason: summary, fix })
  if (isSetUp(deps.store)) keepMark(findConfig(now), config.data_dir)
  void first?.tell(appliance, log)
  await ending.stops({
    async stop() {
      manager.stopping()
      await appliance.stop({ handover: ending.handsOver })
      await manager.sent()
    },
  })
  // It would keep the process running.
  if (areThreadsLeft()) exitAtOnce(0)
  // So would DNS queries, for seconds, although their results are no longer needed.
  process.exit()
}

/**
 * npm, timeout(1) and terminals send a signal to a process group and then to its processes again: a second signal
 * within this time is the same one.
 */
const REPEATED = SECOND
/** A server that has not stopped after this time exits at once. TimeoutStopSec of the unit is longer. */
const DEADLINE = 14 * SECOND
/** A start that takes longer than this after a signal exits at once, before Docker kills it. It has sent no email. */
const START = 5 * SECOND

/**
 * Handles SIGTERM, SIGINT, SIGHUP, and SIGUSR2 of `postrider handover`, from its creation. A second signal to stop, at
 * least a second after the first, ends the process at once, and so does the deadline.
 */
export class Ending {
  readonly #clock: Clock
  readonly #exit: (status: number) => void
  readonly #heard = Promise.withResolvers<void>()
  #at: number | undefined
  #cancel = (): void => {}
  /** The handler of SIGHUP. A signal that arrives before it is set is remembered. */
  #hungUp: (() => void) | undefined
  #remembered = false
  /** Whether the stop is a handover to the other machine. */
  handsOver = false

  constructor(clock: Clock = systemClock, exit: (status: number) => void = exitAtOnce) {
    this.#clock = clock
    this.#exit = exit
    process.on('SIGTERM', this.#hear).on('SIGINT', this.#hear).on('SIGHUP', this.#hangUp)
    process.on('SIGUSR2', this.#handOver)
  }

  /** Whether a signal to stop has arrived. */
  get asked(): boolean {
    return this.#at !== undefined
  }

  readonly #handOver = (): void => {
    this.handsOver = true
    this.#hear()
  }

  readonly #hangUp = (): void => {
    if (this.#hungUp) this.#hungUp()
    else this.#remembered = true
  }

  /** Sets the handler of SIGHUP, and calls it if a signal arrived during the start. */
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

  /** Restores the default effect of signals when there is no server to stop. */
  over(): void {
    this.#cancel()
    process.off('SIGTERM', this.#hear).off('SIGINT', this.#hear).off('SIGHUP', this.#hangUp)
    process.off('SIGUSR2', this.#handOver)
  }

  /** Waits for a start. A signal during the start gives it a moment and then ends the process. */
  async orStarted<T>(starting: Promise<T>): Promise<T> {
    let cancel = (): void => {}
    let started = false
    void this.#heard.promise.then(() => {
      // Like a kill, which the data directory survives at any moment of a start.
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
