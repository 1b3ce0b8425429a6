// The whole server: the one place that starts and stops its parts, and gives each what it needs.
import { accessSync, constants } from 'node:fs'
import { totalmem } from 'node:os'
import { schedule } from 'node-cron'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { Budget } from '../base/memory.ts'
import { createResolver, type Resolver } from '../base/resolver.ts'
import { noteSpace, reserveOf, Space } from '../base/space.ts'
import { Troubles } from '../base/trouble.ts'
import type { Timeouts } from '../smtp/client.ts'
import { explained } from '../store/open.ts'
import { Spool } from '../store/spool.ts'
import { followConfig } from '../domains/issue.ts'
import { checkDue } from '../domains/check.ts'
import { RateLimit } from '../accounts/rates.ts'
import { OperatorNotices } from '../accounts/operator-notices.ts'
import { Privacy } from '../privacy/run.ts'
import { Reputation } from '../outbound/reputation/agents.ts'
import { BAD_NEWS } from '../outbound/reputation/tally.ts'
import { CampaignRunner } from '../campaigns/run.ts'
import { CAMPAIGN_MAIL } from '../outbound/delivery/settle.ts'
import { ownsFile } from '../outbound/body.ts'
import { isHosted } from '../inbound/recipients.ts'
import { ownsFile as ownsInboundFile } from '../inbound/stored.ts'
import type { DeliveryEngine } from '../outbound/delivery/deliver.ts'
import { fetchingOf } from '../outbound/accept/fetch.ts'
import type { ApiDeps } from '../api/deps.ts'
import { openData } from './data.ts'
import { createEngine, type Engine } from './engine.ts'
import { Certificates } from './certificates.ts'
import { createAcme } from './acme.ts'
import { createOperations } from './operations.ts'
import { openDoors, shownDoors, type Doors } from './doors.ts'
import { createInbound } from './inbound.ts'
import { adopt } from './ownership.ts'
import { tidy } from './tidy.ts'
import { watchWrites } from './writable.ts'
import { Dispatcher } from '../webhooks/dispatch.ts'
import { Poster } from '../webhooks/post.ts'
import { EVENTS } from '../store/events.ts'
import { apiInside, createApp } from '../api/server.ts'
import { createConsole } from '../console/app.ts'

export interface ApplianceOptions {
  config: Config
  clock: Clock
  log: Log
  resolver?: Resolver
  /** The options that set the addresses: --http and --smtp of the sandbox. */
  keys?: { http: string; smtp: string }
  timeouts?: Timeouts
  /** Called when the server cannot go on; it accepts nothing more by then. */
  fatal?: (reason: OperatorError) => void
  /** Runs the hourly tasks; by the real clock except in tests. */
  everyHour?: EveryHour
  /** Port of MTA-STS policy servers, for tests. */
  stsPort?: number
}

/** Calls `run` every hour until it is destroyed. */
export type EveryHour = (run: () => void) => { destroy(): unknown }

const everyHour: EveryHour = (run) => schedule('7 * * * *', run, { name: 'tidy' })

export interface Appliance extends Omit<Doors, 'stop'> {
  deps: ApiDeps & { resolver: Resolver }
  engine: DeliveryEngine
  notices: Engine['notices']
  /** After the configuration was read again: loads certificates again. Throws an OperatorError. */
  reload(): Promise<void>
  /** Stops accepting, finishes or releases all work within 10 seconds, closes the store. */
  stop(): Promise<void>
}

const PATIENCE = 8 * SECOND
/** How often changes by commands are looked for. */
const WATCH_EVERY = SECOND

/** Says which relays nobody can sign in to: their mail waits until the file is there. */
function lookAtRoutes({ delivery }: Config, log: Log): void {
  for (const { host, password_file } of delivery.routes)
    try {
      if (password_file !== '') accessSync(password_file, constants.R_OK)
    } catch (thrown) {
      log.warn('password file of a relay cannot be read', { host, password_file, error: codeOf(thrown) })
    }
}

export async function startAppliance(options: ApplianceOptions): Promise<Appliance> {
  const { clock, config, log } = options
  lookAtRoutes(config, log)
  const { keyring, release, store } = openData(config, clock, log)
  const undo: (() => unknown)[] = [release, () => store.close()]
  try {
    const spool = new Spool(config.data_dir)
    const { back, unknown } = await spool.sweep((name) => ownsFile(store, name) || ownsInboundFile(store, name))
    if (back.length > 0)
      log.warn('files of the spool that a mail names are back from quarantine', { count: back.length })
    if (unknown.length > 0)
      log.warn('files of the spool that no mail names are in quarantine', { count: unknown.length })
    const resolver = options.resolver ?? createResolver({ servers: config.dns.servers })
    const troubles = new Troubles({ clock, log })
    const lookAtWrites = watchWrites(store, troubles)
    const space = new Space({ dataDir: config.data_dir, reserve: () => reserveOf(config) })
    const rates = new RateLimit(clock, config.api.rate_limit, config.api.rate_burst)
    const acme = createAcme({
      store,
      clock,
      log,
      config,
      resolver,
      renewed: () => certificates.renew(),
      noticed: () => notices.ring(),
    })
    const certificates = new Certificates({ clock, log, config, shelf: acme?.shelf })
    const parts = { store, spool, clock, keyring, log, config, resolver, troubles, space, certificates, rates }
    const { composer, engine, keys, lead, letters, notices } = createEngine(parts, {
      home: (domain) => (isHosted(store, domain) ? (inbound.home() ?? 'closed') : undefined),
      timeouts: options.timeouts,
      stsPort: options.stsPort,
    })
    const inbound = createInbound(parts)
    const reputation = new Reputation({ ...parts, ringQueue: () => engine.ring() })
    store.on(BAD_NEWS, () => reputation.ring())
    const privacy = new Privacy({ ...parts, noticed: () => notices.ring() })
    const operator = new OperatorNotices({ ...parts, ring: () => notices.ring() })
    const runner = new CampaignRunner({ ...parts, lead, ringLane: (lane) => engine.ring(lane) })
    store.on(CAMPAIGN_MAIL, () => runner.settled())
    undo.push(() => composer.close())
    undo.push(() => inbound.stop(0))
    const polling = new Loop({
      name: 'domains',
      clock,
      log,
      run: (now) => checkDue({ store, clock, resolver, log, config }, now),
    })
    const deps: ApiDeps & { resolver: Resolver } = {
      ...parts,
      bodies: new Budget(totalmem() / 4),
      fetching: fetchingOf(parts),
      operations: createOperations(parts),
      inboundReader: inbound.files,
      bells: {
        domains: () => polling.ring(),
        deliveries: (lane: string) => engine.ring(lane),
        queue: () => engine.ring(),
        webhooks: () => dispatcher.ring(),
        campaigns: () => {
          letters.lookAgain()
          runner.ring()
          engine.ring()
        },
        privacy: () => privacy.ring(),
      },
    }
    const poster = new Poster(deps.fetching, deps.fetching.caFile, config.webhooks.timeout)
    const dispatcher = new Dispatcher({ ...parts, poster, noticed: () => notices.ring() })
    store.on(EVENTS, () => dispatcher.ring())
    // Mail that was being sent when a backup was made no longer is: so it can be erased.
    await engine.recover()
    await privacy.recover()

    const begin = async (part: { start(): unknown; stop(patience: number): Promise<void> }): Promise<void> => {
      undo.push(() => part.stop(0))
      await part.start()
    }
    await inbound.engine.start()
    const app = createApp(deps)
    const console_ = createConsole(deps, apiInside(deps), () => notices.ring())
    app.route('/', console_.app)
    const doors = await openDoors({
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
      keys: options.keys,
      reader: inbound.files,
      ring: deps.bells.deliveries,
    })
    undo.push(() => doors.stop(0))
    for (const part of [engine, polling, dispatcher, runner, reputation, privacy, notices]) await begin(part)
    if (acme) await begin({ start: () => acme.loop.start(), stop: (patience) => acme.stop(patience) })
    await follow()
    let tidied: Promise<unknown> = Promise.resolve()
    const hourly = (options.everyHour ?? everyHour)(() => {
      tidied = tidied.then(() => tidy(deps, { engine, keys })).catch((thrown: unknown) => log.fault('tidying', thrown))
    })
    let watching = clock.wake(clock.now() + WATCH_EVERY, watch)
    /** The records of every domain hold the hostname and the addresses. */
    async function follow(): Promise<void> {
      const changed = await followConfig({ ...deps, ring: deps.bells.domains })
      if (changed.length > 0)
        log.warn('DNS records to publish have changed', { domains: changed.slice(0, 20), count: changed.length })
    }
    function watch(): void {
      try {
        look()
      } catch (thrown) {
        if (thrown instanceof OperatorError) return end(thrown)
        // The disk does not answer at present.
        troubles.report('store', 'The database cannot be read.', thrown)
      }
      watching = clock.wake(clock.now() + WATCH_EVERY, watch)
    }
    function look(): void {
      store.demandPresence()
      noteSpace(parts)
      lookAtWrites()
      operator.look()
      if (!store.changedOutside()) return
      notices.ring()
      engine.ring()
      polling.ring()
      dispatcher.ring()
      letters.lookAgain()
      runner.ring()
      privacy.ring()
      inbound.engine.ring()
    }
    function end(reason: OperatorError): void {
      log.error('stopped', { error: reason.message })
      options.fatal?.(reason)
    }
    log.always('ready', { ...shownDoors(doors), pid: process.pid })
    return {
      deps,
      engine,
      notices,
      ...doors,
      async reload() {
        certificates.renew()
        await follow()
      },
      async stop() {
        log.always('stopping')
        watching()
        await hourly.destroy()
        await tidied
        console_.close()
        await Promise.all([
          doors.stop(PATIENCE),
          acme?.stop(PATIENCE),
          polling.stop(),
          runner.stop(),
          reputation.stop(),
          privacy.stop(),
          engine.stop(PATIENCE),
          notices.stop(PATIENCE),
          dispatcher.stop(PATIENCE),
        ])
        poster.close()
        await composer.close()
        try {
          store.close()
        } finally {
          release()
        }
        adopt(config.data_dir)
        log.always('stopped')
      },
    }
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw explained(thrown, config.data_dir)
  }
}
