// The whole server: starts and stops all its parts, and passes each part its dependencies.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { schedule } from 'node-cron'
import { SECOND, iso } from '../base/clock.ts'
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
import { keepServerNames } from '../views/command/server-names.ts'
import { tidy } from './tidy.ts'
import { demandSettings, takeOver } from './settings.ts'
import { SettingsFile } from './settings-file.ts'
import { startWatch } from './watch.ts'
import { ServingMark } from './serving.ts'
import type { Config } from '../base/config.ts'
import { codeOrMessage, OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { differentFrom } from '../base/pair-settings.ts'
import { memoryHere } from '../base/memory.ts'
import { giveLargeBlocksBack } from '../base/native.ts'
import { keepServed } from '../base/served.ts'
import { singleExecutable } from '../base/threads/pool.ts'
import { fingerprintOf, keepCopy, keepLedger } from '../privacy/ledger.ts'
import { openUpgraded, undoNew, type Instance } from '../store/instance.ts'
import { takeLock, type LockName } from '../store/lock.ts'
import { useShaping } from '../smtp/shaping.ts'
import type { LogDamage } from '../store/log.ts'
import { beginServing, demandServedHere, readServing, servingHere, type ServingNote } from '../store/serving.ts'
import { addNotice } from '../users/notices.ts'
import { operatorOf } from '../users/operator-notices.ts'
import { demandSpaceForNew, freeReserve } from '../store/reserve.ts'

const LOCK: LockName = 'serve.lock'

// The data directory of a server: its lock, its installation and its ledger, opened together.

interface OpenedData extends Instance {
  release: () => void
  /** Removes a new installation whose start failed. It contains no data yet. */
  takeBack: () => void
  serving: ServingNote
  /** What the other machine of a pair wrote, if this server took over from it. */
  from: ServingNote | undefined
}

/** Throws an OperatorError if a server that takes over has other settings than the former one. */
function demandPairSettings({ name, settings = {} }: ServingNote, config: Config): void {
  const names = differentFrom(settings, config)
  if (names.length > 0)
    throw new OperatorError(
      `This machine has other settings than ${name}, which served this data last: ${names.join(', ')}. Compare the files with "postrider config compare FILE", or run "postrider adopt" to serve with the settings of this machine.`,
    )
}

/** Opens the data directory and its lock. Throws an OperatorError with one sentence. */
async function openData({
  clock,
  config,
  first,
  log,
  pair = false,
  upgrading,
}: Pick<ApplianceOptions, 'clock' | 'config' | 'first' | 'log' | 'pair' | 'upgrading'>): Promise<OpenedData> {
  const { data_dir, privacy } = config
  let release: (() => void) | undefined
  let takeBack = (): void => {}
  try {
    // Before anything is written: the volume may still be in use on another machine.
    if (!pair) demandServedHere(data_dir, clock.now())
    freeReserve(data_dir)
    demandSpaceForNew(data_dir)
    // The lock comes first: while a server runs, no other process may open, create or migrate the data directory.
    const locked = existsSync(join(data_dir, LOCK))
    release = takeLock(data_dir)
    if (!release)
      throw new OperatorError(`Another Postrider already uses ${data_dir}; stop it, or choose another "data_dir".`)
    takeBack = undoNew(data_dir, locked ? undefined : LOCK)
    const former = readServing(data_dir)
    const serving = servingHere(data_dir, clock.now(), { takesOver: pair })
    const from = former && serving.term > former.term ? former : undefined
    if (from) demandPairSettings(from, config)
    const migrating = (from: number, to: number): void => log.info('database_upgraded', { from, to })
    const logDamaged = ({ lost, readable }: LogDamage): void =>
      log.error('wal_file_corrupt', {
        frames_read: readable,
        frames_lost: lost,
      })
    const instance = await openUpgraded(data_dir, { clock, migrating, logDamaged, progress: upgrading })
    try {
      keepLedgers(instance, data_dir, privacy.ledger_copy, iso(clock.now()), log)
      first?.prepare(instance.store)
      noteServing(data_dir, serving, log)
    } catch (thrown) {
      instance.store.close()
      throw thrown
    }
    return { ...instance, from, release, serving, takeBack }
  } catch (thrown) {
    takeBack()
    release?.()
    throw explained(thrown, data_dir)
  }
}

/** A file that cannot be written now, as on a full disk, is written again every five seconds. */
function noteServing(dataDir: string, serving: ServingNote, log: Log): void {
  try {
    beginServing(dataDir, serving)
  } catch (thrown) {
    log.warn('serving_json_not_written', { error: codeOrMessage(thrown) })
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
    log.warn('erasure_log_copy_failed', { error: codeOrMessage(thrown) })
  }
}

const everyHour: EveryHour = (run) => schedule('7 * * * *', run, { name: 'tidy' })

export interface Appliance extends Omit<Doors, 'stop'> {
  deps: AppDeps & { resolver: Resolver }
  engine: DeliveryEngine
  notices: Engine['notices']
  /**
   * Applies a configuration that was read again, including certificates. Returns the changed settings that need a
   * restart. If it throws an OperatorError, the old configuration stays in force.
   */
  reload(fresh: Config): Promise<string[]>
  /**
   * Stops accepting, finishes or releases all work within 10 seconds, closes the store. `handover`: the data directory
   * then belongs to the other machine of a failover pair.
   */
  stop(options?: { handover: boolean }): Promise<void>
}

const PATIENCE = 8 * SECOND
/** With less memory than this, malloc keeps two arenas instead of eight for each core. */
const FEW_ARENAS_BELOW = 1.5 * 1024 ** 3

export async function startAppliance(options: ApplianceOptions): Promise<Appliance> {
  const { config } = options
  // From sources the experimental module would print a warning.
  if (singleExecutable()) giveLargeBlocksBack(memoryHere() < FEW_ARENAS_BELOW ? 2 : undefined)
  const { from, keyring, release, serving, store, takeBack } = await openData(options)
  let isOpen = false
  const opened = (): void => void (isOpen = true)
  const undo: (() => unknown)[] = [release, () => isOpen || takeBack(), () => store.close()]
  try {
    const parts = await buildParts(options, { keyring, store }, undo)
    const mark = new ServingMark({ ...parts, pair: options.pair === true }, serving)
    if (from) tellTakeover(parts, from, serving)
    return await start(parts, { ...options, mark, opened }, release, undo)
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw explained(thrown, config.data_dir)
  }
}

interface StartOptions extends ApplianceOptions {
  mark: ServingMark
  /** Called when the ports are open. */
  opened: () => void
}

/** Logs that this server took over, and notifies the operator in a way that a failure cannot delay. */
function tellTakeover({ clock, config, log, store }: ServerParts, from: ServingNote, here: ServingNote): void {
  log.always('took_over', { from: from.name, machine: here.name, term: here.term })
  const operator = operatorOf(store, config)
  if (!operator) return
  const subject = `${config.hostname} now runs on ${here.name}`
  const text = `The server on ${here.name} took over from ${from.name}, ${from.stopped ? 'which had stopped' : 'which had failed'} (last sign of life: ${from.time}).`
  store
    .writeSoon((tx) => void addNotice(tx, { domain_key: null, ...operator, subject, text }, clock.now()))
    .catch((thrown: unknown) => log.fault('notice of a takeover', thrown))
}

interface Begun {
  start(): unknown
  stop(patience: number): Promise<void>
}

/** Recovers work that an earlier process left unfinished, opens the listeners, starts every loop. */
async function start(
  parts: ServerParts,
  { everyHour: repeat = everyHour, fatal, first, mark, opened, ...own }: StartOptions,
  release: () => void,
  undo: (() => unknown)[],
): Promise<Appliance> {
  const { acme, deps, inbound, log, loops } = parts
  const { engine, notices, privacy } = loops
  // The date is checked before email is sent or data expires by it. The engine recovers before the rest, so that mail
  // that was being sent when a backup was made is no longer marked as such and can be erased.
  await parts.time.begin()
  await engine.recover()
  await privacy.recover()
  const begin = async (part: Begun): Promise<void> => {
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
  notePorts(deps, doors)
  const { source = { file: undefined, environment: {} } } = own
  deps.settings = new SettingsFile(source, (fresh) => reload(parts, doors, fresh))
  for (const part of loopsOf(parts, mark)) await begin(part)
  if (acme) await begin({ start: () => acme.loop.start(), stop: (patience) => acme.stop(patience) })
  await follow(parts)
  const hourly = tidyHourly(parts, repeat)
  const unwatch = startWatch(parts, mark, (reason) => {
    log.error('server_stopped', { error: reason.message })
    fatal?.(reason)
  })
  const ends = [serve(parts, doors), unwatch, singleExecutable() ? giveBackWhenIdle(deps) : () => {}]
  log.always('server_ready', { ...shownDoors(doors), pid: process.pid })
  return {
    deps,
    engine,
    notices,
    ...doors,
    reload: (fresh) => reload(parts, doors, fresh),
    async stop({ handover } = { handover: false }) {
      log.always('server_stopping', handover ? { handover } : {})
      for (const end of ends) end()
      await mark.stop()
      await Promise.all([hourly.stop(), parts.integrity.stop()])
      await stop(parts, doors, pages, () => {
        mark.leave(handover)
        release()
      })
      log.always('server_stopped')
    },
  }
}

/** The loops that start now. Sending starts later if another server could send the same email. */
function loopsOf({ log, loops }: ServerParts, mark: ServingMark): Begun[] {
  const { backups, dispatcher, engine, notices, ofParts, polling, privacy, runner } = loops
  const queues: Begun[] = [engine, dispatcher, notices]
  mark.onAdopted(() => {
    for (const part of queues)
      Promise.resolve(part.start()).catch((thrown: unknown) => log.fault('starting held queues', thrown))
  })
  const all = [engine, polling, dispatcher, runner, privacy, notices, backups, ...ofParts]
  return mark.held ? all.filter((part) => !queues.includes(part)) : all
}

async function reload(parts: ServerParts, doors: Doors, fresh: Config): Promise<string[]> {
  const { acme, certificates, config, loops, restart } = parts
  demandSettings(fresh)
  const former = { ...config }
  const { config: next, waiting } = takeOver(former, fresh)
  try {
    Object.assign(config, next)
    certificates.renew()
  } catch (thrown) {
    Object.assign(config, former)
    throw thrown
  }
  useShaping(config.delivery.shaping)
  restart.clear()
  for (const name of waiting) restart.add(name)
  serve(parts, doors)
  await follow(parts)
  for (const loop of [loops.backups, ...loops.ofParts, acme?.loop]) loop?.ring?.()
  return waiting
}

/** Writes the HTTP address for `postrider health`, which otherwise uses the address in the configuration. */
function serve({ config, log, restart }: ServerParts, { http }: Doors): () => void {
  try {
    return keepServed(config.data_dir, http, [...restart])
  } catch (thrown) {
    log.warn('serve_json_not_written', { error: codeOrMessage(thrown) })
    return () => {}
  }
}

/** The ports of submission, which the console shows. */
function notePorts({ ports }: ServerParts['deps'], { submission, submissions }: Doors): void {
  const portsOf = (endpoints: readonly Endpoint[]): number[] => [...new Set(endpoints.map(({ port }) => port))]
  ports.starttls.push(...portsOf(submission))
  ports.tls.push(...portsOf(submissions))
}

/** Deletes expired data every hour. `stop` waits for the tasks in progress. */
function tidyHourly({ deps, keys, log, time }: ServerParts, repeat: typeof everyHour): { stop(): Promise<void> } {
  let tidied: Promise<unknown> = Promise.resolve()
  const hourly = repeat(() => {
    tidied = tidied
      .then(() => tidy(deps, { keys, doubtful: time.doubtful }))
      .catch((thrown: unknown) => log.fault('hourly cleanup', thrown))
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
  { sandbox }: Pick<ApplianceOptions, 'sandbox'>,
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
  sandbox,
  reader: inbound.files,
  ring: deps.bells.deliveries,
})

/** The DNS records of every domain contain the hostname and the addresses, so they may have changed. */
async function follow({ config, deps, log }: ServerParts): Promise<void> {
  keepServerNames(config, log)
  const changed = await followConfig({ ...deps, ring: deps.bells.domains })
  if (changed.length > 0) log.warn('dns_records_changed', { domains: changed.slice(0, 20), count: changed.length })
  for (const { configured } of deps.subjects) await configured?.(deps.partDeps)
}

/** Ends everything within PATIENCE, and closes the store last. */
async function stop(parts: ServerParts, doors: Doors, pages: Console, release: () => void): Promise<void> {
  const { acme, clock, cut, deps, loops, poster, store, workers } = parts
  const { dispatcher, engine, notices, ofParts, polling, privacy, runner } = loops
  pages.close()
  const inTime = clock.wake(clock.now() + PATIENCE, () => cut.cut())
  await Promise.all([
    doors.stop(PATIENCE),
    acme?.stop(PATIENCE),
    polling.stop(),
    runner.stop(),
    privacy.stop(),
    ...ofParts.map((loop) => loop.stop()),
    loops.backups.stop(),
    engine.stop(PATIENCE),
    notices.stop(PATIENCE),
    dispatcher.stop(PATIENCE),
  ])
  inTime()
  poster.close()
  await workers.close()
  deps.requests.flush()
  try {
    store.close()
  } finally {
    release()
  }
}
