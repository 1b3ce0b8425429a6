// The whole appliance: the one place that starts and stops things. Every part gets what it needs here, and only here.
import { accessSync, constants } from 'node:fs'
import { schedule } from 'node-cron'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { openKeyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { formatEndpoint } from '../base/network.ts'
import { createResolver, type Resolver } from '../base/resolver.ts'
import type { Timeouts } from '../smtp/client.ts'
import { explained, openStore, type Store } from '../store/database.ts'
import { takeLock } from '../store/lock.ts'
import { Spool } from '../store/spool.ts'
import { checkDue } from '../domains/check.ts'
import { forgetClients } from '../accounts/oauth-clients.ts'
import { forgetGrants } from '../accounts/oauth-grants.ts'
import { eraseKeys } from '../domains/keys.ts'
import { Privacy } from '../privacy/run.ts'
import { Reputation } from '../outbound/agents.ts'
import { BAD_NEWS } from '../outbound/tally.ts'
import { removeOldBodies } from '../outbound/retention.ts'
import { forgetSoftBounces } from '../outbound/suppressions.ts'
import { CampaignRunner } from '../campaigns/run.ts'
import { CAMPAIGN_MAIL } from '../outbound/settle.ts'
import { releaseLapsed } from '../outbound/claim.ts'
import { ownsFile } from '../outbound/body.ts'
import { isHosted } from '../inbound/recipients.ts'
import { ownsFile as ownsInboundFile, removeOld } from '../inbound/stored.ts'
import type { DeliveryEngine } from '../outbound/deliver.ts'
import { settleDowngrades } from './subscription.ts'
import type { ApiDesk } from '../api/desk.ts'
import { createEngine, fetchingOf, type Engine } from './engine.ts'
import { createInbound } from './inbound.ts'
import { mailNotices } from './notice.ts'
import { Dispatcher } from '../webhooks/dispatch.ts'
import { Poster } from '../webhooks/post.ts'
import { EVENTS } from '../store/events.ts'
import { createApp, listen } from '../api/server.ts'

export interface ApplianceOptions {
  config: Config
  clock: Clock
  log: Log
  resolver?: Resolver
  /** What an operator sets the addresses with: --http and --smtp of the sandbox. */
  keys?: { http: string; smtp: string }
  timeouts?: Timeouts
  /** Port of MTA-STS policy servers, for tests. */
  stsPort?: number
}

export interface Appliance {
  desk: ApiDesk & { resolver: Resolver }
  engine: DeliveryEngine
  http: { host: string; port: number }
  smtp: { host: string; port: number }[]
  /** After the configuration was read again: takes certificates anew. Throws an OperatorError. */
  reload(): void
  /** Stops accepting, finishes or releases what is in flight within 10 seconds, closes the store. */
  stop(): Promise<void>
}

const PATIENCE = 8 * SECOND
/** How soon changes by commands are noticed. */
const WATCH_EVERY = SECOND

/** Opens the data directory and its lock. Throws an OperatorError: one sentence. */
function openData(config: Config): { store: Store; release: () => void } {
  const store = openStore(config.data_dir)
  let release: (() => void) | undefined
  try {
    release = takeLock(config.data_dir)
  } finally {
    if (!release) store.close()
  }
  if (release) return { store, release }
  throw new OperatorError(
    `Another Postrider serves ${config.data_dir} already; stop it, or give this one another data_dir.`,
  )
}

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
  const { store, release } = openData(config)
  const undo: (() => unknown)[] = [release, () => store.close()]
  try {
    const keyring = openKeyring(config.data_dir)
    const spool = new Spool(config.data_dir)
    await spool.sweep((name) => ownsFile(store, name) || ownsInboundFile(store, name))
    const resolver = options.resolver ?? createResolver({ servers: config.dns.servers })
    const parts = { store, spool, clock, keyring, log, config, resolver }
    const { composer, engine, keys, letters } = createEngine(parts, {
      home: (domain) => (isHosted(store, domain) ? (inbound.home() ?? 'closed') : undefined),
      timeouts: options.timeouts,
      stsPort: options.stsPort,
    })
    const inbound = createInbound(parts)
    const reputation = new Reputation({ ...parts, ringQueue: () => engine.ring() })
    store.on(BAD_NEWS, () => reputation.ring())
    const privacy = new Privacy({ ...parts, noticed: () => noticed() })
    const runner = new CampaignRunner({ ...parts, ringLane: (lane) => engine.ring(lane) })
    letters.taken = (campaign) => runner.taken(campaign)
    store.on(CAMPAIGN_MAIL, () => runner.settled())
    undo.push(() => composer.close())
    undo.push(() => inbound.stop(0))
    const polling = new Loop({
      name: 'domains',
      clock,
      log,
      run: (now) => checkDue({ store, clock, resolver, log, config }, now),
    })
    const desk: ApiDesk & { resolver: Resolver } = {
      ...parts,
      fetching: fetchingOf(parts),
      inboundReader: inbound.files,
      bells: {
        domains: () => polling.ring(),
        deliveries: (lane: string) => engine.ring(lane),
        webhooks: () => dispatcher.ring(),
        campaigns: () => {
          letters.lookAgain()
          runner.ring()
          engine.ring()
        },
        privacy: () => privacy.ring(),
      },
    }
    const { timeout, ca_file } = config.webhooks
    const poster = new Poster(desk.fetching, ca_file, timeout)
    const noticed = (): void => void mailNotices(desk).catch((thrown: unknown) => log.fault('notices', thrown))
    const dispatcher = new Dispatcher({ store, clock, keyring, log, poster, config, noticed })
    store.on(EVENTS, () => dispatcher.ring())
    // What was on its way when a backup was made is on its way no more: it can be erased.
    await engine.recover()
    await privacy.recover()
    const http = await listen(createApp(desk), config.http.listen, options.keys?.http)
    undo.push(() => http.close(0))

    const begin = async (part: { start(): unknown; stop(patience: number): Promise<void> }): Promise<void> => {
      undo.push(() => part.stop(0))
      await part.start()
    }
    await inbound.engine.start()
    // Before the queue: mail from here to here is delivered to it.
    await inbound.listen(options.keys?.smtp)
    for (const part of [engine, polling, dispatcher, runner, reputation, privacy]) await begin(part)
    noticed()
    const hourly = schedule('7 * * * *', () => tidy(desk, { engine, keys }), { name: 'tidy', noOverlap: true })
    let watching = clock.wake(clock.now() + WATCH_EVERY, watch)
    function watch(): void {
      if (store.changedOutside()) {
        engine.ring()
        polling.ring()
        dispatcher.ring()
        letters.lookAgain()
        runner.ring()
        privacy.ring()
        inbound.engine.ring()
      }
      watching = clock.wake(clock.now() + WATCH_EVERY, watch)
    }
    const smtp = inbound.listeners.map(({ host, port }) => ({ host, port }))
    const shown = smtp.map(({ host, port }) => formatEndpoint(host, port))
    log.info('ready', { http: formatEndpoint(http.host, http.port), smtp: shown, pid: process.pid })
    return {
      desk,
      engine,
      http,
      smtp,
      reload: () => inbound.renew(),
      async stop() {
        watching()
        await hourly.destroy()
        await Promise.all([
          http.close(PATIENCE),
          inbound.stop(PATIENCE),
          polling.stop(),
          runner.stop(),
          reputation.stop(),
          privacy.stop(),
          engine.stop(PATIENCE),
          dispatcher.stop(PATIENCE),
        ])
        poster.close()
        await composer.close()
        store.close()
        release()
        log.info('stopped')
      },
    }
  } catch (thrown) {
    for (const step of undo.reverse()) await step()
    throw explained(thrown, config.data_dir)
  }
}

/** What is done by the wall clock, every hour: keys whose time is over go, and what no longer counts. */
async function tidy(desk: ApiDesk, { engine, keys }: Pick<Engine, 'engine' | 'keys'>): Promise<void> {
  const { store, clock } = desk
  const now = clock.now()
  if ((await eraseKeys(store, now)) > 0) keys.forget()
  await forgetSoftBounces(store, now)
  await forgetGrants(store, now)
  await forgetClients(store, now)
  await settleDowngrades(desk, now)
  if ((await releaseLapsed(store, now)) > 0) engine.ring()
  await mailNotices(desk)
  const { inbound, outbound_bodies } = desk.config.retention
  if (outbound_bodies > 0) await removeOldBodies(desk, now - outbound_bodies)
  if (inbound > 0) while ((await removeOld(desk, now - inbound)) > 0);
}
