// The parts of the server, created and connected but not started. This file neither opens a port nor sends email.
import { SignIns } from '../users/sign-in.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { OperatorError } from '../base/errors.ts'
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
import { useShaping } from '../smtp/shaping.ts'
import type { Reader, Store } from '../store/database.ts'
import type { UpgradeProgress } from '../store/upgrade.ts'
import { EVENTS } from '../store/events.ts'
import { Spool } from '../store/spool.ts'
import { RateLimit } from '../base/rates.ts'
import { OperatorNotices } from '../users/operator-notices.ts'
import { TokenRequests } from '../users/requests.ts'
import { FindingsRegister } from '../parts/findings/register.ts'
import { linkMailOf } from './link-mail.ts'
import { Dispatcher } from '../webhooks/dispatch.ts'
import { Poster } from '../webhooks/post.ts'
import { checkDue, type CheckDeps } from '../domains/check.ts'
import { fetchingOf } from '../net/fetch.ts'
import { BAD_NEWS } from '../reputation/tally.ts'
import { CAMPAIGN_MAIL } from '../delivery/results/settle.ts'
import { CampaignRunner } from '../campaigns/run.ts'
import { OWN_MESSAGE } from '../inbound/own-message.ts'
import { isHosted } from '../inbound/recipients.ts'
import { Privacy } from '../privacy/run.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { Samples } from '../http/samples.ts'
import { BackupSchedule, type Beside } from '../archive/schedule.ts'
import { createAcme } from './acme.ts'
import { Certificates } from '../acme/certificates.ts'
import { createEngine } from './engine.ts'
import { createInbound } from './inbound.ts'
import { DOMAIN_FOLLOWERS } from './domain-followers.ts'
import { Integrity } from './integrity.ts'
import { createOperations } from './health-report.ts'
import type { Opening } from './ipv4-ipv6.ts'
import { findersOf, gateOf, loadParts, reportsOf, type ListedPart } from './parts.ts'
import { demandSettings, unreadableRelays } from './settings.ts'
import type { ConfigSource } from './settings-file.ts'
import { Timekeeper } from './timekeeping.ts'

export interface ApplianceOptions {
  config: Config
  clock: Clock
  log: Log
  resolver?: Resolver
  /** The options that set the addresses of the sandbox. A server has no such options. */
  sandbox?: Opening['sandbox']
  timeouts?: Timeouts
  /** Called every second with the progress of a database upgrade. */
  upgrading?: (progress: UpgradeProgress) => void
  /** Called when the server cannot continue. It accepts no more work then. */
  fatal?: (reason: OperatorError) => void
  /** Schedules the hourly tasks, by the real clock except in tests. */
  everyHour?: EveryHour
  /** A file that the system touches when a time server has set the clock. */
  timeMarker?: string
  /** Port of HTTPS servers that DNS names (MTA-STS policies, hosts of links), for tests. */
  httpsPort?: number
  first?: FirstStart | undefined
  /** Whether this server is one of a failover pair, whose data directory is on a volume that moves between machines. */
  pair?: boolean
  /** The parts of the server. Tests can use some of them. */
  parts?: readonly ListedPart[]
  /** Where the configuration came from. Without it the console cannot change settings. */
  source?: ConfigSource
  /** Runs commands of this executable next to the server. Without it there are no scheduled backups. */
  beside?: Beside
}

/** The two steps of a first start, while no other process can access the installation. */
export interface FirstStart {
  /** Called when the data directory is open and locked. The configuration is not used yet and can be changed. */
  prepare(store: Reader): void
  /** Called when the ports are open, before the server sends email. If it throws, the start fails. */
  setUp(deps: AppDeps): Promise<void>
}

/** Calls `run` every hour until it is destroyed. */
export type EveryHour = (run: () => void) => { destroy(): unknown }

export type ServerParts = Awaited<ReturnType<typeof buildParts>>

export interface OpenDataDir {
  store: Store
  keyring: Keyring
}

/** Creates every part. `undo` gets functions for parts that must be ended even when the server was never started. */
export async function buildParts(options: ApplianceOptions, { keyring, store }: OpenDataDir, undo: (() => unknown)[]) {
  const { clock, config, httpsPort } = options
  const { integrity, log, troubles } = reportCorruption(options, undo)
  const given = { store, clock, keyring, log, config, troubles }
  useSettings({ ...options, log })
  const subjects = await loadParts(options.parts)
  const spool = await openSpool(config, { log, store, subjects })
  const dns = { ...cuttable(options.resolver ?? resolverOf(config, clock)), httpsPort }
  const space = new Space({ dataDir: config.data_dir, reserve: () => reserveOf(config) })
  const time = new Timekeeper({ ...given, timeMarker: options.timeMarker })
  const acme = createAcme({ ...given, ...dns, renewed: () => certificates.renew(), ring: () => loops.polling.ring() })
  const certificates = new Certificates({ clock, log, config, certificateStore: acme?.certificateStore })
  const shared = {
    ...given,
    ...dns,
    spool,
    space,
    certificates,
    rates: new RateLimit(clock, config.api.rate_limit, config.api.rate_burst),
    noticed: () => notices.ring(),
    restart: new Set<string>(),
    doubtful: () => time.doubtful,
    subjects,
  }
  const { engine, gate, keys, ahead, letters, notices, partDeps, workers } = createEngine(shared, {
    gate: (given) => gateOf(subjects, given),
    home: (domain) => (isHosted(store, domain) ? (inbound.home() ?? 'closed') : undefined),
    timeouts: options.timeouts,
  })
  undo.push(() => workers.close())
  const inbound = createInbound({ ...shared, gate, reports: reportsOf(subjects, partDeps) })
  undo.push(() => inbound.stop(0))
  const register = new FindingsRegister(findersOf(subjects), { ...shared, running: shared })
  const poster = new Poster(fetchingOf(shared), config.webhooks.timeout)
  const loops = {
    engine,
    polling: domainLoop(shared, () => acme?.look()),
    dispatcher: new Dispatcher({ ...shared, poster }),
    runner: new CampaignRunner({ ...shared, ahead, ringLane: (lane) => engine.ring(lane) }),
    privacy: new Privacy({ ...shared, queueChanged: partDeps.queueChanged }),
    notices,
    backups: new BackupSchedule({ ...shared, beside: options.beside }),
    ofParts: subjects.flatMap(({ loops: made }) => made?.(partDeps) ?? []),
  }
  ringOnSignals(store, loops, inbound)
  const deps: AppDeps & Pick<typeof shared, 'resolver'> = {
    ...shared,
    ...forRequests(shared),
    followers: DOMAIN_FOLLOWERS,
    operations: createOperations({ ...shared, register, loops: () => loops }, options.sandbox !== undefined),
    linkMail: linkMailOf(shared, options.sandbox !== undefined),
    inboundReader: inbound.files,
    ...forEmails(engine, letters),
    gate,
    partDeps,
    bells: bellsOf(loops, () => letters.lookAgain()),
  }
  const operator = new OperatorNotices({ ...shared, notices, problems: () => register.lasting() })
  return { ...shared, acme, deps, inbound, keys, letters, loops, operator, poster, time, workers, integrity }
}

/** Throws an OperatorError for settings that prevent a start, and applies the shaping rules. */
function useSettings({ config, log, sandbox }: ApplianceOptions): void {
  demandSettings(config, sandbox !== undefined)
  for (const relay of unreadableRelays(config)) log.warn('relay_password_unreadable', relay)
  useShaping(config.delivery.shaping)
}

/** The problems of the server, and the log that reports corruption as one of them. */
function reportCorruption(options: ApplianceOptions, undo: (() => unknown)[]) {
  const troubles = new Troubles(options)
  const integrity = new Integrity({ ...options, troubles })
  undo.push(() => integrity.stop())
  return { integrity, troubles, log: integrity.heard(options.log) }
}

/** Opens the spool. Moves files that rows refer to out of quarantine, and all other files into it. */
async function openSpool(
  { data_dir }: Config,
  { log, store, subjects }: Pick<AppDeps, 'log' | 'store' | 'subjects'>,
): Promise<Spool> {
  const spool = new Spool(data_dir, log)
  const { back, unknown } = await spool.sweep((name) => subjects.some(({ ownsFile }) => ownsFile?.(store, name)))
  if (back.length > 0) log.warn('spool_files_restored', { count: back.length })
  if (unknown.length > 0) log.warn('spool_files_quarantined', { count: unknown.length })
  return spool
}

/** The loop that checks domains. `checked` is called after each run. */
const domainLoop = (deps: CheckDeps, checked: () => void): Loop =>
  new Loop({
    name: 'domains',
    clock: deps.clock,
    log: deps.log,
    run: (now) => checkDue(deps, now).finally(checked),
  })

/** The queue functions that requests use. */
const forEmails = (
  engine: ReturnType<typeof createEngine>['engine'],
  letters: ReturnType<typeof createEngine>['letters'],
): Pick<AppDeps, 'campaignLetter' | 'claimNew' | 'moveWaiting'> => ({
  claimNew: (tx, lane, recipients) => engine.claimNew(tx, lane, recipients),
  moveWaiting: (emailKey, on) => engine.moveWaiting(emailKey, on),
  campaignLetter: (mail) => letters.unsigned(mail),
})

/** Dependencies that only HTTP requests need. */
const forRequests = (
  deps: Pick<AppDeps, 'clock' | 'config' | 'log' | 'space' | 'store' | 'troubles'> & { resolver: Resolver },
) => ({
  fetching: fetchingOf(deps),
  bodies: new Budget(memoryHere() / 4, shareOf(memoryHere() / 4)),
  ports: { starttls: [], tls: [] } as AppDeps['ports'],
  samples: new Samples(deps),
  requests: new TokenRequests(deps),
  // The running server replaces it: a change is applied by a reload.
  settings: { change: () => Promise.reject(new Error('The server does not run yet.')) },
  signIns: new SignIns(deps),
  spamAssassin: SPAMASSASSIN,
})

/** Wakes loops after commits that give them work. */
function ringOnSignals(store: Store, loops: ServerParts['loops'], { engine }: ServerParts['inbound']): void {
  store.on(OWN_MESSAGE, () => engine.ring())
  for (const news of [CAMPAIGN_MAIL, BAD_NEWS]) store.on(news, () => loops.runner.settled())
  store.on(EVENTS, () => loops.dispatcher.ring())
}

/** The functions that wake the loops. A request calls them after its commit. */
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
