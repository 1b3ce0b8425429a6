// The whole server: starts and stops all its parts, and gives each part what it needs.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { schedule } from 'node-cron'
import { SECOND, iso } from '../base/clock.ts'
import { becomeOwner, remainOwner } from '../base/ownership.ts'
import type { Resolver } from '../net/resolver.ts'
import { explained } from '../store/open.ts'
import { followConfig } from '../domains/issue.ts'
import type { DeliveryEngine } from '../delivery/deliver.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { apiInside, createApp } from '../http/server.ts'
import { createConsole, type Console } from '../console/app.ts'
import { openDoors, shownDoors, type DoorParts, type Doors, type Endpoint } from './listeners.ts'
import type { Engine } from './engine.ts'
import { buildParts, type ApplianceOptions, type EveryHour, type ServerParts } from './wiring.ts'
import { giveBackWhenIdle } from './idle-memory.ts'
import { PassedSockets } from './passed-sockets.ts'
import { keepServerNames } from '../commands/server-names.ts'
import { tidy } from './tidy.ts'
import { startWatch } from './watch.ts'
import type { Config } from '../base/config.ts'
import { codeOrMessage, OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { memoryHere } from '../base/memory.ts'
import { giveLargeBlocksBack } from '../base/native.ts'
import { keepServed } from '../base/served.ts'
import { singleExecutable } from '../base/threads/pool.ts'
import { fingerprintOf, keepCopy, keepLedger } from '../privacy/ledger.ts'
import { openUpgraded, undoNew, type Instance } from '../store/instance.ts'
import { takeLock, type LockName } from '../store/lock.ts'
import { useShaping } from '../smtp/shaping-file.ts'
import { beginSources } from '../warmup/begin.ts'
import type { LogDamage } from '../store/log-scan.ts'
import { demandRoomForNew, giveUpRoom } from '../store/room.ts'

const LOCK: LockName = 'serve.lock'

// The data directory of a server: its lock, its installation and its ledger, opened together.

interface OpenedData extends Instance {
  release: () => void
  /** Removes a new installation again; nobody was promised anything by it. */
  takeBack: () => void
}

/** Opens the data directory and its lock. Throws an OperatorError with one sentence. */
async function openData(
  { data_dir, privacy }: Config,
  { clock, first, log, upgrading }: Pick<ApplianceOptions, 'clock' | 'first' | 'log' | 'upgrading'>,
): Promise<OpenedData> {
  let release: (() => void) | undefined
  let takeBack = (): void => {}
  try {
    giveUpRoom(data_dir)
    demandRoomForNew(data_dir)
    // The lock comes first: while a server runs, nothing may be opened, created or migrated.
    const locked = existsSync(join(data_dir, LOCK))
    release = takeLock(data_dir)
    if (!release)
      throw new OperatorError(
        `Another Postrider serves ${data_dir} already; stop it, or give this one another data_dir.`,
      )
    takeBack = undoNew(data_dir, locked ? undefined : LOCK)
    const migrating = (from: number, to: number): void => log.info('database upgraded', { from, to })
    const logDamaged = ({ lost, readable }: LogDamage): void =>
      log.error('the write-ahead log is damaged: transactions at its end are lost', {
        frames_read: readable,
        frames_lost: lost,
      })
    const instance = await openUpgraded(data_dir, { clock, migrating, logDamaged, progress: upgrading })
    try {
      keepLedgers(instance, data_dir, privacy.ledger_copy, iso(clock.now()), log)
      first?.prepare(instance.store)
    } catch (thrown) {
      instance.store.close()
      throw thrown
    }
    return { ...instance, release, takeBack }
  } catch (thrown) {
    takeBack()
    release?.()
    throw explained(thrown, data_dir)
  }
}

/**
 * Prepares the ledger of erasures of this installation, and its copy. A copy that cannot be written is only logged,
 * because its disk may be missing at present. Throws an OperatorError.
 */
function keepLedgers({ keyring }: Instance, dataDir: string, copy: string, at: string, log: Log): void {
  const owner = fingerprintOf(keyring)
  keepLedger(dataDir, owner, at)
  try {
    keepCopy(dataDir, copy, owner, at)
  } catch (thrown) {
    log.warn('the copy of the ledger of erasures cannot be written', { error: codeOrMessage(thrown) })
  }
}

const everyHour: EveryHour = (run) => schedule('7 * * * *', run, { name: 'tidy' })

export interface Appliance extends Omit<Doors, 'stop'> {
  deps: AppDeps & { resolver: Resolver }
  engine: DeliveryEngine
  notices: Engine['notices']
  /** Called after the configuration was read again: loads certificates again. Throws an OperatorError. */
  reload(): Promise<void>
  /** Stops accepting, finishes or releases all work within 10 seconds, closes the store. */
  stop(): Promise<void>
}

const PATIENCE = 8 * SECOND
/** With less memory than this, malloc keeps two arenas instead of eight for each core. */
const FEW_ARENAS_BELOW = 1.5 * 1024 ** 3

export async function startAppliance(options: ApplianceOptions): Promise<Appliance> {
  const { config } = options
  becomeOwner(config.data_dir)
  // From sources the experimental module would print a warning.
  if (singleExecutable()) giveLargeBlocksBack(memoryHere() < FEW_ARENAS_BELOW ? 2 : undefined)
  const { keyring, release, store, takeBack } = await openData(config, options)
  let isOpen = false
  const opened = (): void => void (isOpen = true)
  const undo: (() => unknown)[] = [release, () => isOpen || takeBack(), () => store.close()]
  try {
    const parts = await buildParts(options, { keyring, store }, undo)
    return await start(parts, { ...options, opened }, release, undo)
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw explained(thrown, config.data_dir)
  }
}

/** Recovers work that an earlier process left unfinished, opens the listeners, starts every loop. */
async function start(
  parts: ServerParts,
  { everyHour: repeat = everyHour, fatal, first, opened, ...own }: ApplianceOptions & { opened: () => void },
  release: () => void,
  undo: (() => unknown)[],
): Promise<Appliance> {
  const { acme, deps, inbound, log, loops } = parts
  const { alarms, dispatcher, engine, notices, polling, privacy, reputation, runner, snds, watcher } = loops
  // The date is looked at before anything is sent, ended or deleted by it. The engine recovers before the rest: mail
  // that was being sent when a backup was made is then no longer marked so, and can be erased.
  await parts.time.begin()
  await engine.recover()
  await privacy.recover()
  const begin = async (part: { start(): unknown; stop(patience: number): Promise<void> }): Promise<void> => {
    undo.push(() => part.stop(0))
    await part.start()
  }
  await inbound.engine.start()
  const app = createApp(deps)
  const pages = createConsole(deps, apiInside(deps))
  app.route('/', pages.app)
  const doors = await openDoors(doorsOf(parts, app, own))
  undo.push(() => doors.stop(0))
  // Until here a new installation had no user whose mail could be accepted.
  opened()
  await first?.setUp(deps)
  // The ports are open, and nothing else needs root.
  remainOwner()
  notePorts(deps, doors)
  for (const part of [engine, polling, dispatcher, runner, reputation, alarms, snds, privacy, notices, watcher])
    await begin(part)
  await begin(loops.backups)
  if (acme) await begin({ start: () => acme.loop.start(), stop: (patience) => acme.stop(patience) })
  await follow(parts)
  await beginSources(deps)
  const hourly = tidyHourly(parts, repeat)
  const unwatch = startWatch(parts, (reason) => {
    log.error('stopped', { error: reason.message })
    fatal?.(reason)
  })
  const ends = [serve(parts, doors), unwatch, singleExecutable() ? giveBackWhenIdle(deps) : () => {}]
  log.always('ready', { ...shownDoors(doors), pid: process.pid })
  return {
    deps,
    engine,
    notices,
    ...doors,
    reload: () => reload(parts),
    async stop() {
      log.always('stopping')
      for (const end of ends) end()
      await hourly.stop()
      await stop(parts, doors, pages, release)
      log.always('stopped')
    },
  }
}

/** The configuration was read again. */
async function reload(parts: ServerParts): Promise<void> {
  useShaping(parts.config.delivery.shaping)
  parts.certificates.renew()
  await follow(parts)
  await beginSources(parts.deps)
  parts.loops.backups.ring()
}

/** Leaves the address of HTTP for `postrider health`; without it, that asks at the address of the configuration. */
function serve({ config, log }: ServerParts, { http }: Doors): () => void {
  try {
    return keepServed(config.data_dir, http)
  } catch (thrown) {
    log.warn('the address of the server cannot be kept for commands', { error: codeOrMessage(thrown) })
    return () => {}
  }
}

/** The ports of submission, which the console shows. */
function notePorts({ ports }: ServerParts['deps'], { submission, submissions }: Doors): void {
  const portsOf = (endpoints: readonly Endpoint[]): number[] => [...new Set(endpoints.map(({ port }) => port))]
  ports.starttls.push(...portsOf(submission))
  ports.tls.push(...portsOf(submissions))
}

/** Removes each hour what has had its time; `stop` waits for the tasks under way. */
function tidyHourly(
  { deps, keys, log, loops, time }: ServerParts,
  repeat: typeof everyHour,
): { stop(): Promise<void> } {
  let tidied: Promise<unknown> = Promise.resolve()
  const hourly = repeat(() => {
    tidied = tidied
      .then(() => tidy(deps, { engine: loops.engine, keys, doubtful: time.doubtful }))
      .catch((thrown: unknown) => log.fault('tidying', thrown))
  })
  return {
    async stop() {
      await hourly.destroy()
      await tidied
    },
  }
}

const doorsOf = (
  { acme, certificates, config, deps, inbound }: ServerParts,
  app: ReturnType<typeof createApp>,
  { keys, sockets = new PassedSockets() }: Pick<ApplianceOptions, 'keys' | 'sockets'>,
): DoorParts => ({
  ...deps,
  app,
  certificates,
  proofFor: (name) => acme?.proofFor(name),
  clearText: {
    proofOf: (token) => acme?.proofOf(token),
    serves: (host) => certificates.contextOf(host) !== undefined,
    origin: () => config.http.public_url.replace(/^http:/, 'https:'),
  },
  inbound,
  keys,
  sockets,
  reader: inbound.files,
  ring: deps.bells.deliveries,
})

/** The DNS records of every domain contain the hostname and the addresses, so they may have changed. */
async function follow({ config, deps, log }: ServerParts): Promise<void> {
  keepServerNames(config, log)
  const changed = await followConfig({ ...deps, ring: deps.bells.domains })
  if (changed.length > 0)
    log.warn('DNS records to publish have changed', { domains: changed.slice(0, 20), count: changed.length })
}

/** Ends everything within PATIENCE, and closes the store last. */
async function stop(parts: ServerParts, doors: Doors, pages: Console, release: () => void): Promise<void> {
  const { acme, clock, cut, loops, poster, store, workers } = parts
  const { alarms, dispatcher, engine, notices, polling, privacy, reputation, runner, snds, watcher } = loops
  pages.close()
  const inTime = clock.wake(clock.now() + PATIENCE, () => cut.cut())
  await Promise.all([
    doors.stop(PATIENCE),
    acme?.stop(PATIENCE),
    polling.stop(),
    runner.stop(),
    reputation.stop(),
    alarms.stop(),
    snds.stop(),
    privacy.stop(),
    watcher.stop(),
    loops.backups.stop(),
    engine.stop(PATIENCE),
    notices.stop(PATIENCE),
    dispatcher.stop(PATIENCE),
  ])
  inTime()
  poster.close()
  await workers.close()
  try {
    store.close()
  } finally {
    release()
  }
}
