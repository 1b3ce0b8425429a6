// The parts of the server, created and connected but not started. This file opens no port and sends nothing.
import { SignIns } from '../identity/sign-in.ts'
import { accessSync, constants } from 'node:fs'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, type OperatorError } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { Budget, memoryHere } from '../base/memory.ts'
import { shareOf } from '../jsonapi/body.ts'
import { cuttable, type Resolver } from '../net/resolver.ts'
import { resolverOf } from '../net/validated.ts'
import { reserveOf, Space } from '../base/space.ts'
import { SPAMASSASSIN } from '../base/spamassassin.ts'
import { Troubles } from '../base/trouble.ts'
import type { Timeouts } from '../smtp/client.ts'
import { useShaping } from '../smtp/shaping-file.ts'
import type { Reader, Store } from '../store/database.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { EVENTS } from '../store/events.ts'
import { Spool } from '../store/spool.ts'
import { RateLimit } from '../identity/rates.ts'
import { OperatorNotices } from '../accounts/operator-notices.ts'
import { graveThings } from './grave.ts'
import { Dispatcher } from '../webhooks/dispatch.ts'
import { Poster } from '../webhooks/post.ts'
import { checkDue } from '../domains/check.ts'
import { fetchingOf } from '../net/fetch.ts'
import { ownsFile } from '../mail/body.ts'
import { CAMPAIGN_MAIL } from '../delivery/results/settle.ts'
import { ReceiverAlarms } from '../reputation/alarms.ts'
import { Reputation } from '../reputation/agents.ts'
import { SndsFetcher } from '../reputation/snds.ts'
import { BAD_NEWS } from '../reputation/tally.ts'
import { CampaignRunner } from '../campaigns/run.ts'
import { isHosted } from '../inbound/recipients.ts'
import { ownsFile as ownsImageFile, removeGone } from '../images/images.ts'
import { Watcher } from '../watch/round.ts'
import { ownsFile as ownsInboundFile } from '../inbound/stored.ts'
import { Privacy } from '../privacy/run.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { Samples } from '../http/samples.ts'
import { BackupSchedule, type Beside } from '../archive/schedule.ts'
import { createAcme } from './acme.ts'
import { Certificates } from '../acme/certificates.ts'
import { createEngine } from './engine.ts'
import { createInbound } from './inbound.ts'
import { DOMAIN_FOLLOWERS } from './domain-followers.ts'
import { createOperations } from './health-report.ts'
import type { PassedSockets } from './passed-sockets.ts'
import { Timekeeper } from './timekeeping.ts'

export interface ApplianceOptions {
  config: Config
  clock: Clock
  log: Log
  resolver?: Resolver
  /** The options that set the addresses: --http and --smtp of the sandbox. */
  keys?: { http: string; smtp: string }
  timeouts?: Timeouts
  /** Sockets that the service manager has opened. */
  sockets?: PassedSockets
  /** Hears each second how far an upgrade of the database is. */
  upgrading?: (progress: UpgradeProgress) => void
  /** Called when the server cannot continue; it accepts no more work then. */
  fatal?: (reason: OperatorError) => void
  /** Schedules the hourly tasks; by the real clock, except in tests. */
  everyHour?: EveryHour
  /** A file that the system touches when a time server has set the clock. */
  timeMarker?: string
  /** Port of MTA-STS policy servers, for tests. */
  stsPort?: number
  first?: FirstStart | undefined
  /** Runs commands of this program beside the server; without it no backup is made by the schedule. */
  beside?: Beside
}

/** What a first start makes of an empty installation, while nobody else can. */
export interface FirstStart {
  /** The data directory is open and locked, and nothing is made of the configuration yet: it may be changed. */
  prepare(store: Reader): void
  /** The ports are open, and nothing is sent yet. What it throws ends the start. */
  setUp(deps: AppDeps): Promise<void>
}

/** Calls `run` every hour until it is destroyed. */
export type EveryHour = (run: () => void) => { destroy(): unknown }

export type ServerParts = Awaited<ReturnType<typeof buildParts>>

/** The open data directory. */
export interface OpenDataDir {
  store: Store
  keyring: Keyring
}

/** Creates every part. `undo` gets functions for parts that must be ended even when the server was never started. */
export async function buildParts(options: ApplianceOptions, { keyring, store }: OpenDataDir, undo: (() => unknown)[]) {
  const { clock, config, log } = options
  lookAtRoutes(config, log)
  useShaping(config.delivery.shaping)
  const spool = await openSpool(config, store, log)
  const dns = cuttable(options.resolver ?? resolverOf(config, clock))
  const troubles = new Troubles({ clock, log })
  const space = new Space({ dataDir: config.data_dir, reserve: () => reserveOf(config) })
  const time = new Timekeeper({ store, clock, config, log, troubles, timeMarker: options.timeMarker })
  const doubtful = (): boolean => time.doubtful
  const rates = new RateLimit(clock, config.api.rate_limit, config.api.rate_burst)
  const ring = { renewed: () => certificates.renew(), noticed: () => notices.ring() }
  const acme = createAcme({ store, clock, log, config, ...dns, ...ring })
  const certificates = new Certificates({ clock, log, config, shelf: acme?.shelf })
  const shared = { store, spool, clock, keyring, log, config, ...dns, troubles, space, certificates, rates, doubtful }
  const { engine, keys, ahead, letters, notices, warmup, workers } = createEngine(shared, {
    home: (domain) => (isHosted(store, domain) ? (inbound.home() ?? 'closed') : undefined),
    timeouts: options.timeouts,
    stsPort: options.stsPort,
  })
  undo.push(() => workers.close())
  const inbound = createInbound({ ...shared, warmup })
  undo.push(() => inbound.stop(0))
  const fetching = fetchingOf(shared)
  const poster = new Poster(fetching, config.webhooks.timeout)
  const loops = {
    engine,
    polling: domainLoop(shared),
    dispatcher: new Dispatcher({ ...shared, poster, noticed: ring.noticed }),
    runner: new CampaignRunner({ ...shared, ahead, ringLane: (lane) => engine.ring(lane) }),
    reputation: new Reputation({ ...shared, ringQueue: () => engine.ring() }),
    alarms: new ReceiverAlarms({ ...shared, noticed: ring.noticed }),
    snds: new SndsFetcher({ ...shared, fetching }),
    privacy: new Privacy({ ...shared, noticed: ring.noticed }),
    notices,
    watcher: new Watcher({ ...shared, noticed: ring.noticed }),
    backups: new BackupSchedule({ ...shared, beside: options.beside }),
  }
  store.on(BAD_NEWS, () => loops.reputation.ring())
  store.on(CAMPAIGN_MAIL, () => loops.runner.settled())
  store.on(EVENTS, () => loops.dispatcher.ring())
  const deps: AppDeps & Pick<typeof shared, 'resolver'> = {
    ...shared,
    bodies: new Budget(memoryHere() / 4, shareOf(memoryHere() / 4)),
    fetching,
    followers: DOMAIN_FOLLOWERS,
    operations: createOperations({ ...shared, running: () => loops.backups.running }, options.keys !== undefined),
    ports: { starttls: [], tls: [] },
    samples: new Samples(shared),
    signIns: new SignIns(shared),
    spamAssassin: SPAMASSASSIN,
    inboundReader: inbound.files,
    claimNew: (tx, lane, recipients) => engine.claimNew(tx, lane, recipients),
    moveWaiting: (emailKey, on) => engine.moveWaiting(emailKey, on),
    campaignLetter: (mail) => letters.unsigned(mail),
    bells: bellsOf(loops, () => letters.lookAgain()),
  }
  const operator = new OperatorNotices({ ...shared, notices, problems: graveThings(shared) })
  return { ...shared, acme, deps, inbound, keys, letters, loops, operator, poster, time, workers }
}

/** The spool. Files that a row names are moved back from quarantine; files that no row names are put there. */
async function openSpool({ data_dir }: Config, store: Store, log: Log): Promise<Spool> {
  const spool = new Spool(data_dir, log)
  await removeGone({ spool, store })
  const owners = [ownsFile, ownsInboundFile, ownsImageFile]
  const { back, unknown } = await spool.sweep((name) => owners.some((owns) => owns(store, name)))
  if (back.length > 0) log.warn('files of the spool that a mail names are back from quarantine', { count: back.length })
  if (unknown.length > 0) log.warn('files of the spool that no mail names are in quarantine', { count: unknown.length })
  return spool
}

/** Logs the relays whose password file is missing: their mail waits until the file exists. */
function lookAtRoutes({ delivery }: Config, log: Log): void {
  for (const { host, password_file } of delivery.routes)
    try {
      if (password_file !== '') accessSync(password_file, constants.R_OK)
    } catch (thrown) {
      log.warn('password file of a relay cannot be read', { host, password_file, error: codeOf(thrown) })
    }
}

const domainLoop = (deps: Parameters<typeof checkDue>[0] & { clock: Clock }): Loop =>
  new Loop({ name: 'domains', clock: deps.clock, log: deps.log, run: (now) => checkDue(deps, now) })

/** The functions that wake the loops; a request calls them after its commit. */
function bellsOf(
  { dispatcher, engine, notices, polling, privacy, runner }: ServerParts['loops'],
  lookAgain: () => void,
): AppDeps['bells'] {
  return {
    domains: () => polling.ring(),
    deliveries: (lane) => engine.ring(lane),
    queue: () => engine.ring(),
    webhooks: () => dispatcher.ring(),
    campaigns: () => {
      lookAgain()
      runner.ring()
      engine.ring()
    },
    privacy: () => privacy.ring(),
    notices: () => notices.ring(),
  }
}
