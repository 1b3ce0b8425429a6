// Figures for a monitoring system, read from indexes and stored sums. Figures that are expensive to compute are left
// out, or computed at intervals.
import { X509Certificate } from 'node:crypto'
import { statfsSync, statSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { titlesOf } from '../base/backup-target.ts'
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { MetricLabels } from '../base/counters.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Config } from '../base/config.ts'
import { readNamed, readNoted } from '../base/plain-file.ts'
import { version } from '../base/version.ts'
import { Shelf } from '../acme/certificate-files.ts'
import { certificateFiles, SELF_MADE } from '../acme/certificates.ts'
import { planNameOf, planOf } from '../identity/plan.ts'
import { monthOf } from '../accounts/usage.ts'
import { DRILLED_EVERY, lateAfter, targetStates, type TargetState } from './backups.ts'
import { warmupFigures } from '../warmup/shown.ts'
import type { Store } from '../store/database.ts'
import { dueGroups } from '../store/due.ts'
import { raw } from '../store/query.ts'

export interface FiguresDeps {
  store: Store
  clock: Clock
  config: Pick<Config, 'acme' | 'backup' | 'data_dir' | 'hostname' | 'plans' | 'smtp' | 'tls' | 'warmup'>
  troubles: Pick<Troubles, 'list'>
}

export interface Figure {
  name: string
  help: string
  type: 'gauge' | 'counter'
  /** Each value with its labels. */
  values: (deps: FiguresDeps) => FigureValues | Promise<FigureValues>
}

type FigureValues = readonly (readonly [MetricLabels, number])[]

const gauge = (name: string, help: string, values: Figure['values']): Figure => ({ name, help, type: 'gauge', values })
const single = (value: number): FigureValues => [[{}, value]]
const counted = ({ store }: FiguresDeps, from: string): number =>
  store.one(raw<{ n: number }>(`select count(*) as n from ${from}`)).n
const by = (deps: FiguresDeps, label: string, from: string): FigureValues =>
  deps.store
    .all(raw<{ name: string; n: number }>(`select ${label} as name, count(*) as n from ${from} group by 1 order by 1`))
    .map(({ n, name }) => [{ [label]: name }, n] as const)

/** Seconds since the earliest of these times; 0 when all are in the future. */
const lateness = ({ clock }: FiguresDeps, moments: readonly (number | null)[]): number => {
  const passed = moments.filter((at) => at !== null && at < clock.now()) as number[]
  return passed.length === 0 ? 0 : (clock.now() - Math.min(...passed)) / SECOND
}

/**
 * An endpoint with this many failures in a row, or more, gets one delivery at a time (D54): this server does not cause
 * its backlog.
 */
const FAILING_FROM = 3

interface EndpointFigures {
  key: number
  status: string
  consecutive_failures: number
}
const endpoints = ({ store }: FiguresDeps): EndpointFigures[] =>
  store.all(raw<EndpointFigures>('select key, status, consecutive_failures from webhooks where deleted_at is null'))
const stateOf = ({ consecutive_failures, status }: EndpointFigures): string =>
  status === 'active' && consecutive_failures >= FAILING_FROM ? 'failing' : status

/** The times from which on deliveries have been due, for endpoints in this state. */
function waitingSince(deps: FiguresDeps, state: string): number[] {
  const wanted = new Set(
    endpoints(deps)
      .filter((endpoint) => stateOf(endpoint) === state)
      .map(({ key }) => key),
  )
  const queue = { table: 'outbound_webhooks', group: 'webhook_key', status: 'pending' } as const
  return dueGroups<number>(deps.store, queue).flatMap(({ due, name }) => (wanted.has(name) ? [due] : []))
}

export const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** The spool's size is computed at most this often. */
const WALK_EVERY = 5 * MINUTE
const walked = new Map<string, { at: number; octets: Promise<number> }>()

export function spoolOctets({ clock, config }: Pick<FiguresDeps, 'clock' | 'config'>): Promise<number> {
  const folder = join(config.data_dir, 'spool')
  const known = walked.get(folder)
  const now = clock.now()
  if (known && now - known.at < WALK_EVERY) return known.octets
  const octets = (async () => {
    let sum = 0
    for (const name of await readdir(folder).catch(() => []))
      sum += await stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      )
    return sum
  })()
  walked.set(folder, { at: now, octets })
  return octets
}

/** When the certificate of SMTP expires, in Unix seconds; empty when the file cannot be read. */
export function certificateEnd({ config }: Pick<FiguresDeps, 'config'>): FigureValues {
  const file = certificateFiles(config).cert || join(config.data_dir, SELF_MADE)
  try {
    const read = new X509Certificate(readNamed(file))
    return [[{ use: 'smtp' }, Date.parse(read.validTo) / SECOND]]
  } catch {
    return []
  }
}

/** The same for each name that ACME must get a certificate for; 0: it has none yet. */
function certificateEnds(deps: FiguresDeps): FigureValues {
  const { acme, data_dir } = deps.config
  const shelf = new Shelf(data_dir)
  const named = (acme.enabled ? shelf.wanted() : []).map((name) => {
    const end = shelf.certificate(name)?.read.validToDate.getTime() ?? 0
    return [{ name }, end / SECOND] as const
  })
  return [...certificateEnd(deps), ...named]
}

/** The name of a file in the data directory; `postrider backup` writes its time there. */
export const LAST_BACKUP = 'last-backup'

export function lastBackup({ config }: { config: Pick<Config, 'data_dir'> }): number {
  try {
    return (Date.parse(readNoted(join(config.data_dir, LAST_BACKUP)).toString().trim()) || 0) / SECOND
  } catch {
    return 0
  }
}

interface AccountFigures {
  id: string
  plan: string
  downgrade_to: string | null
  downgrade_at: number | null
  used: number
}

/** Used and included volume of this month, for users whose plan has a limit. */
function planUse({ clock, config, store }: FiguresDeps, of: 'used' | 'included'): FigureValues {
  const now = clock.now()
  return store
    .all(
      raw<AccountFigures>(
        `select u.id, u.plan, u.downgrade_to, u.downgrade_at, coalesce(g.used, 0) as used from users u
           left join usage g on g.user_key = u.key and g.month = ? order by u.key`,
        [monthOf(now)],
      ),
    )
    .flatMap((user) => {
      const { included_volume } = planOf(config, user, now)
      const labels = { user: user.id, plan: planNameOf(user, now) }
      return included_volume === null ? [] : [[labels, of === 'used' ? user.used : included_volume] as const]
    })
}

/** Receivers with figures of their own; the rest are counted together. */
const MAX_RECEIVERS = 50

/** Open alarms by receiver and kind, those of most accounts first. */
function receiverAlarms({ store }: FiguresDeps): FigureValues {
  const open = store.all(
    raw<{ receiver: string; kind: string; n: number }>(
      `select receiver, kind, count(*) as n, sum(count(*)) over (partition by receiver) as whole from receiver_alarms
       where status = 'open' group by receiver, kind order by whole desc, receiver, kind`,
    ),
  )
  const named = new Set([...new Set(open.map(({ receiver }) => receiver))].slice(0, MAX_RECEIVERS))
  const sums = new Map<string, { labels: MetricLabels; n: number }>()
  for (const { kind, n, receiver } of open) {
    const labels = { receiver: named.has(receiver) ? receiver : 'other', kind }
    const sum = sums.get(JSON.stringify(labels)) ?? { labels, n: 0 }
    sums.set(JSON.stringify(labels), { labels, n: sum.n + n })
  }
  return [...sums.values()].map(({ labels, n }) => [labels, n])
}

const backupFigure = (name: string, help: string, value: (state: TargetState) => number): Figure =>
  gauge(`postrider_backup_${name}`, help, ({ clock, config, store }) =>
    targetStates(store, config.backup, clock.now()).map((state) => [{ target: state.target }, value(state)]),
  )

/** A span (ms) that holds for each target. */
const dated = ({ config }: FiguresDeps, span: number): FigureValues =>
  span === Infinity ? [] : titlesOf(config.backup.to).map((target) => [{ target }, span / SECOND])

export const FIGURES: readonly Figure[] = [
  gauge('postrider_build_info', 'The version, as a label.', () => [[{ version }, 1]]),
  gauge('postrider_troubles', 'Troubles of this machine that /health names; 0: it says ok.', ({ troubles }) =>
    single(troubles.list().length),
  ),
  gauge('postrider_queue_deliveries', 'Recipients whose mail has no final state yet, by state.', (deps) => [
    [{ status: 'queued' }, counted(deps, `deliveries where status = 'queued'`)],
    [{ status: 'active' }, counted(deps, `deliveries where status = 'active'`)],
  ]),
  gauge('postrider_queue_late_seconds', 'How long due mail has waited for delivery.', (deps) => {
    const query = `select min(next_attempt_at) as at from deliveries where status = 'queued'`
    return single(lateness(deps, [deps.store.one(raw<{ at: number | null }>(query)).at]))
  }),
  gauge('postrider_outcomes_week', 'What became of mail in the last seven days.', ({ clock, store }) => {
    const { bounces, complaints, deliveries } = store.one(
      raw<{ deliveries: number; bounces: number; complaints: number }>(
        `select coalesce(sum(deliveries), 0) as deliveries, coalesce(sum(bounces), 0) as bounces,
           coalesce(sum(complaints), 0) as complaints from tallies where hour >= ?`,
        [Math.floor((clock.now() - 7 * DAY) / HOUR)],
      ),
    )
    return [
      [{ outcome: 'delivered' }, deliveries],
      [{ outcome: 'bounced' }, bounces],
      [{ outcome: 'complained' }, complaints],
    ]
  }),
  ...(
    [
      ['allowance', 'Recipients that the warm-up of a pair allows today; pairs without an allowance count as 0.'],
      ['used', 'Recipients of a pair that were tried today.'],
      ['waiting', 'Recipients whose mail waits for the warm-up of its receiver.'],
      ['relayed', 'Recipients that a relay took over today because the warm-up had no room.'],
    ] as const
  ).map(([measure, help]) =>
    gauge(`postrider_warmup_${measure}`, help, (deps) => warmupFigures(deps, deps.clock.now(), measure)),
  ),
  gauge('postrider_inbound_unread', 'Received messages that wait to be read.', (deps) =>
    single(counted(deps, 'inbound_waiting')),
  ),
  gauge('postrider_webhook_deliveries', 'Events that have not reached their endpoint, by state.', (deps) => [
    [{ status: 'pending' }, counted(deps, `outbound_webhooks where status = 'pending'`)],
    [{ status: 'active' }, counted(deps, `outbound_webhooks where status = 'active'`)],
  ]),
  gauge('postrider_webhook_endpoints', 'Endpoints by state; failing: probed by one delivery at a time.', (deps) =>
    ['active', 'failing', 'paused', 'disabled'].map((state) => [
      { state },
      endpoints(deps).filter((endpoint) => stateOf(endpoint) === state).length,
    ]),
  ),
  gauge(
    'postrider_webhook_late_seconds',
    'How long a due event has waited for an endpoint that answers: this server is slow.',
    (deps) => single(lateness(deps, waitingSince(deps, 'active'))),
  ),
  gauge(
    'postrider_webhook_failing_late_seconds',
    'The same for endpoints that do not answer: the endpoint is at fault.',
    (deps) => single(lateness(deps, waitingSince(deps, 'failing'))),
  ),
  gauge('postrider_campaigns_sending', 'Campaigns that are being sent.', (deps) =>
    single(counted(deps, `campaigns where status = 'sending' and deleted_at is null`)),
  ),
  gauge('postrider_domains', 'Sending domains by status.', (deps) =>
    by(deps, 'status', 'domains where deleted_at is null'),
  ),
  gauge('postrider_receiver_alarm', 'Accounts for which an alarm of a receiver is open, by kind.', receiverAlarms),
  gauge('postrider_privacy_requests_pending', 'Erasures and exports that are not done.', (deps) =>
    single(counted(deps, 'privacy_requests where next_attempt_at is not null')),
  ),
  gauge('postrider_plan_used_recipients', 'Recipients of this month, of users whose plan has a limit.', (deps) =>
    planUse(deps, 'used'),
  ),
  gauge('postrider_plan_included_recipients', 'Recipients that their plan includes in a month.', (deps) =>
    planUse(deps, 'included'),
  ),
  gauge(
    'postrider_storage_bytes',
    'Octets of the database, its log, and the spool (walked every five minutes).',
    async (deps) => {
      const file = join(deps.config.data_dir, 'postrider.db')
      return [
        [{ kind: 'database' }, sizeOf(file)],
        [{ kind: 'log' }, sizeOf(`${file}-wal`)],
        [{ kind: 'spool' }, await spoolOctets(deps)],
      ]
    },
  ),
  gauge(
    'postrider_log_held_seconds',
    'How long another process has read an older state of the database and so kept its log from beginning again; 0: none does.',
    ({ clock, store }) => single(store.logHeldFor(clock.now()) / SECOND),
  ),
  gauge('postrider_disk_free_bytes', 'Free space where the data directory is.', ({ config }) => {
    const { bavail, bsize } = statfsSync(config.data_dir)
    return single(bavail * bsize)
  }),
  gauge(
    'postrider_certificate_end_seconds',
    'When a certificate ends, in Unix time: that of SMTP, and that of each name that ACME is to bring one for (0: none yet).',
    certificateEnds,
  ),
  gauge('postrider_last_backup_seconds', 'When "postrider backup" last made one, in Unix time; 0: never.', (deps) =>
    single(lastBackup(deps)),
  ),
  backupFigure('last_success_seconds', 'When a target last got a backup, in Unix time; 0: never.', ({ last }) =>
    last ? last.ended_at / SECOND : 0,
  ),
  backupFigure('last_drill_seconds', 'When a drill last went well with a target, in Unix time; 0: never.', (state) =>
    state.drilled ? state.drilled.ended_at / SECOND : 0,
  ),
  gauge('postrider_backup_failed', 'Whether the last backup, or drill, with a target failed.', (deps) =>
    targetStates(deps.store, deps.config.backup, deps.clock.now()).flatMap(({ drillFailed, failed, target }) => [
      [{ target, kind: 'backup' }, failed ? 1 : 0] as const,
      [{ target, kind: 'drill' }, drillFailed ? 1 : 0] as const,
    ]),
  ),
  gauge(
    'postrider_backup_late_after_seconds',
    'The age of the last backup at a target from which on it is late.',
    (deps) => dated(deps, lateAfter(deps.config.backup, deps.clock.now())),
  ),
  gauge(
    'postrider_backup_drill_every_seconds',
    'How often a backup at a target is restored as a test; absent when never.',
    (deps) => dated(deps, DRILLED_EVERY[deps.config.backup.drill]),
  ),
  backupFigure('octets', 'The size of the last backup at a target.', ({ last }) => last?.octets ?? 0),
  backupFigure('duration_seconds', 'How long the last backup to a target took.', ({ last }) =>
    last ? (last.ended_at - last.started_at) / SECOND : 0,
  ),
  {
    name: 'postrider_backup_failures_total',
    help: 'Backups to a target that failed, in the last 400 days.',
    type: 'counter',
    values: (deps) =>
      targetStates(deps.store, deps.config.backup, deps.clock.now()).map(({ failures, target }) => [
        { target },
        failures,
      ]),
  },
  {
    name: 'postrider_event_loop_seconds_total',
    help: 'What the main thread did with its time.',
    type: 'counter',
    values: () => {
      const { active, idle } = performance.eventLoopUtilization()
      return [
        [{ state: 'active' }, active / SECOND],
        [{ state: 'idle' }, idle / SECOND],
      ]
    },
  },
  {
    name: 'process_cpu_seconds_total',
    help: 'Processor time of all threads.',
    type: 'counter',
    values: () => {
      const { system, user } = process.cpuUsage()
      return single((system + user) / 1e6)
    },
  },
  gauge('process_resident_memory_bytes', 'Memory that the process holds.', () => single(process.memoryUsage.rss())),
]
