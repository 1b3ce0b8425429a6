// Metrics for a monitoring system, read from indexes and stored sums. Metrics that are expensive to compute are left
// out, or computed at intervals.
import { X509Certificate } from 'node:crypto'
import { statfsSync, statSync } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { titlesOf } from '../base/backup-target.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../base/clock.ts'
import type { MetricLabels } from '../base/counters.ts'
import type { Config } from '../base/config.ts'
import { readNamed, readNoted } from '../base/plain-file.ts'
import { version } from '../base/version.ts'
import { CertificateStore } from '../acme/certificate-files.ts'
import { certificateFiles, SELF_MADE } from '../acme/certificates.ts'
import { planNameOf, planOf, monthOf } from '../users/plan.ts'
import { DRILLED_EVERY, lateAfter, targetStates, type TargetState } from './backups.ts'
import type { Metric, MetricDeps, MetricValues } from '../parts/part.ts'
import { dueGroups } from '../store/due.ts'
import { PROBE_FROM } from '../webhooks/settle.ts'
import { raw } from '../store/query.ts'
import { readServing } from '../store/serving.ts'

const gauge = (name: string, help: string, values: Metric['values']): Metric => ({ name, help, type: 'gauge', values })
const single = (value: number): MetricValues => [[{}, value]]
const counted = ({ store }: MetricDeps, from: string): number =>
  store.one(raw<{ n: number }>(`select count(*) as n from ${from}`)).n
const by = (deps: MetricDeps, label: string, from: string): MetricValues =>
  deps.store
    .all(raw<{ name: string; n: number }>(`select ${label} as name, count(*) as n from ${from} group by 1 order by 1`))
    .map(({ n, name }) => [{ [label]: name }, n] as const)

/** Seconds since the earliest of these times, or 0 if all are in the future. */
const lateness = ({ clock }: MetricDeps, moments: readonly (number | null)[]): number => {
  const passed = moments.filter((at) => at !== null && at < clock.now()) as number[]
  return passed.length === 0 ? 0 : (clock.now() - Math.min(...passed)) / SECOND
}

interface EndpointFigures {
  key: number
  status: string
  consecutive_failures: number
}
const endpoints = ({ store }: MetricDeps): EndpointFigures[] =>
  store.all(raw<EndpointFigures>('select key, status, consecutive_failures from webhooks where deleted_at is null'))
/** The backlog of a failing endpoint is not caused by this server. */
const stateOf = ({ consecutive_failures, status }: EndpointFigures): string =>
  status === 'active' && consecutive_failures >= PROBE_FROM ? 'failing' : status

/** Returns the times since which deliveries have been due, for endpoints in this state. */
function waitingSince(deps: MetricDeps, state: string): number[] {
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
const walked = new Map<string, { at: number; size: Promise<number> }>()

export function spoolBytes({ clock, config }: Pick<MetricDeps, 'clock' | 'config'>): Promise<number> {
  const folder = join(config.data_dir, 'spool')
  const known = walked.get(folder)
  const now = clock.now()
  if (known && now - known.at < WALK_EVERY) return known.size
  const total = (async () => {
    let sum = 0
    for (const name of await readdir(folder).catch(() => []))
      sum += await stat(join(folder, name)).then(
        ({ size }) => size,
        () => 0,
      )
    return sum
  })()
  walked.set(folder, { at: now, size: total })
  return total
}

/** Returns when the SMTP certificate expires, in Unix seconds, or an empty value if the file cannot be read. */
export function certificateEnd({ config }: Pick<MetricDeps, 'config'>): MetricValues {
  const file = certificateFiles(config).cert || join(config.data_dir, SELF_MADE)
  try {
    const read = new X509Certificate(readNamed(file))
    return [[{ use: 'smtp' }, Date.parse(read.validTo) / SECOND]]
  } catch {
    return []
  }
}

/** The same for each name that ACME orders a certificate for, or 0 until it is issued. */
function certificateEnds(deps: MetricDeps): MetricValues {
  const { acme, data_dir } = deps.config
  const certificateStore = new CertificateStore(data_dir)
  const named = (acme.enabled ? certificateStore.wanted() : []).map((name) => {
    const end = certificateStore.certificate(name)?.read.validToDate.getTime() ?? 0
    return [{ name }, end / SECOND] as const
  })
  return [...certificateEnd(deps), ...named]
}

/** A file in the data directory, to which `postrider backup` writes its time. */
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
function planUse({ clock, config, store }: MetricDeps, of: 'used' | 'included'): MetricValues {
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

/** Receivers with metrics of their own. The rest are counted together. */
const MAX_RECEIVERS = 50

/** Open alarms by receiver and kind, those of most accounts first. */
function receiverAlarms({ store }: MetricDeps): MetricValues {
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

const backupFigure = (name: string, help: string, value: (state: TargetState, deps: MetricDeps) => number): Metric =>
  gauge(`postrider_backup_${name}`, help, (deps) =>
    targetStates(deps.store, deps.config.backup, deps.clock.now()).map((state) => [
      { target: state.target },
      value(state, deps),
    ]),
  )

/** Returns a duration (ms) that is the same for each target. */
const dated = ({ config }: MetricDeps, span: number): MetricValues =>
  span === Infinity ? [] : titlesOf(config.backup.to).map((target) => [{ target }, span / SECOND])

export const FIGURES: readonly Metric[] = [
  gauge('postrider_build_info', 'Version of Postrider, as a label.', () => [[{ version }, 1]]),
  gauge(
    'postrider_serving_since_timestamp_seconds',
    'When the machine of the labels took over (Unix time).',
    ({ config }) => {
      const serving = readServing(config.data_dir)
      return serving
        ? [[{ machine: serving.name, term: String(serving.term) }, Date.parse(serving.since) / SECOND]]
        : []
    },
  ),
  gauge('postrider_problems', 'Present problems of this server, as in /health.', ({ troubles }) =>
    single(troubles.list().length),
  ),
  gauge('postrider_findings', 'Problems that checks found, as in "postrider doctor".', ({ operations }) => {
    const problems = operations.findings().filter(({ severity }) => severity !== 'ok')
    const alike = Map.groupBy(problems, ({ id, severity }) => `${severity} ${id}`).values()
    return [...alike].flatMap(([first, ...more]) =>
      first ? [[{ check: first.id, severity: first.severity }, 1 + more.length] as const] : [],
    )
  }),
  gauge('postrider_queue_deliveries', 'Recipients in the queue, by delivery status.', (deps) => [
    [{ status: 'queued' }, counted(deps, `deliveries where status = 'queued'`)],
    [{ status: 'active' }, counted(deps, `deliveries where status = 'active'`)],
  ]),
  gauge('postrider_queue_late_seconds', 'Time since the oldest queued delivery became due.', (deps) => {
    const query = `select min(next_attempt_at) as at from deliveries where status = 'queued'`
    return single(lateness(deps, [deps.store.one(raw<{ at: number | null }>(query)).at]))
  }),
  gauge('postrider_outcomes_week', 'Recipients by result in the last seven days.', ({ clock, store }) => {
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
  gauge('postrider_inbound_unread', 'Received messages that are not processed yet.', (deps) =>
    single(counted(deps, 'inbound_waiting')),
  ),
  gauge('postrider_webhook_deliveries', 'Webhook deliveries in the queue, by status.', (deps) => [
    [{ status: 'pending' }, counted(deps, `outbound_webhooks where status = 'pending'`)],
    [{ status: 'active' }, counted(deps, `outbound_webhooks where status = 'active'`)],
  ]),
  gauge(
    'postrider_webhook_endpoints',
    'Webhooks by state. A failing one receives a single delivery at a time.',
    (deps) =>
      ['active', 'failing', 'paused', 'disabled'].map((state) => [
        { state },
        endpoints(deps).filter((endpoint) => stateOf(endpoint) === state).length,
      ]),
  ),
  gauge(
    'postrider_webhook_late_seconds',
    'Time since the oldest webhook delivery to a working endpoint became due.',
    (deps) => single(lateness(deps, waitingSince(deps, 'active'))),
  ),
  gauge(
    'postrider_webhook_failing_late_seconds',
    'Time since the oldest webhook delivery to a failing endpoint became due.',
    (deps) => single(lateness(deps, waitingSince(deps, 'failing'))),
  ),
  gauge('postrider_campaigns_sending', 'Campaigns with the status sending.', (deps) =>
    single(counted(deps, `campaigns where status = 'sending' and deleted_at is null`)),
  ),
  gauge('postrider_domains', 'Sending domains by status.', (deps) =>
    by(deps, 'status', 'domains where deleted_at is null'),
  ),
  gauge('postrider_receiver_alarms', 'Accounts with an open alarm, by receiver and kind.', receiverAlarms),
  gauge('postrider_privacy_requests_pending', 'Erasures and exports that are not complete.', (deps) =>
    single(counted(deps, 'privacy_requests where next_attempt_at is not null')),
  ),
  gauge('postrider_plan_used_recipients', 'Recipients this month, for users whose plan has a limit.', (deps) =>
    planUse(deps, 'used'),
  ),
  gauge('postrider_plan_included_recipients', 'Recipients per month that the plan of a user includes.', (deps) =>
    planUse(deps, 'included'),
  ),
  gauge(
    'postrider_storage_bytes',
    'Size of the database, its write-ahead log and the spool (measured every five minutes).',
    async (deps) => {
      const file = join(deps.config.data_dir, 'postrider.db')
      return [
        [{ kind: 'database' }, sizeOf(file)],
        [{ kind: 'log' }, sizeOf(`${file}-wal`)],
        [{ kind: 'spool' }, await spoolBytes(deps)],
      ]
    },
  ),
  gauge(
    'postrider_wal_held_seconds',
    'Time for which another process has kept the write-ahead log from being reset. 0 if it is not.',
    ({ clock, store }) => single(store.logHeldFor(clock.now()) / SECOND),
  ),
  gauge('postrider_disk_free_bytes', 'Free space on the disk of the data directory.', ({ config }) => {
    const { bavail, bsize } = statfsSync(config.data_dir)
    return single(bavail * bsize)
  }),
  // The names of 0.2.0 stay next to those with the suffix that Prometheus recommends.
  ...['postrider_certificate_expiry_timestamp_seconds', 'postrider_certificate_end_seconds'].map((name) =>
    gauge(
      name,
      'Unix time when a certificate expires: the SMTP certificate, and one per name that ACME orders (0 until it is issued).',
      certificateEnds,
    ),
  ),
  ...['postrider_last_backup_timestamp_seconds', 'postrider_last_backup_seconds'].map((name) =>
    gauge(name, 'Unix time when "postrider backup" last created a backup. 0 if it never did.', (deps) =>
      single(lastBackup(deps)),
    ),
  ),
  backupFigure(
    'last_success_timestamp_seconds',
    'Unix time of the data in the last backup to a destination. 0 if there is no backup.',
    ({ last }) => (last ? last.started_at / SECOND : 0),
  ),
  backupFigure(
    'last_drill_timestamp_seconds',
    'Unix time of the last successful restore test of a destination. 0 before the first one.',
    (state) => (state.drilled ? state.drilled.ended_at / SECOND : 0),
  ),
  gauge('postrider_backup_failed', '1 if the last backup to a destination, or its last restore test, failed.', (deps) =>
    targetStates(deps.store, deps.config.backup, deps.clock.now()).flatMap(({ drillFailed, failed, target }) => [
      [{ target, kind: 'backup' }, failed ? 1 : 0] as const,
      [{ target, kind: 'drill' }, drillFailed ? 1 : 0] as const,
    ]),
  ),
  backupFigure(
    'late_after_seconds',
    'Age from which the last backup to a destination is late.',
    ({ last }, deps) => lateAfter(deps.config.backup, last?.started_at ?? deps.clock.now()) / SECOND,
  ),
  gauge(
    'postrider_backup_drill_interval_seconds',
    'Interval of the restore tests of a destination. Absent if they are off.',
    (deps) => dated(deps, DRILLED_EVERY[deps.config.backup.drill]),
  ),
  backupFigure('size_bytes', 'Bytes that the last backup sent to a destination.', ({ last }) => last?.octets ?? 0),
  backupFigure('duration_seconds', 'Duration of the last backup to a destination.', ({ last }) =>
    last ? (last.ended_at - last.started_at) / SECOND : 0,
  ),
  {
    name: 'postrider_backup_failures_total',
    help: 'Backups to a destination that failed in the last 400 days.',
    type: 'counter',
    values: (deps) =>
      targetStates(deps.store, deps.config.backup, deps.clock.now()).map(({ failures, target }) => [
        { target },
        failures,
      ]),
  },
  {
    name: 'postrider_event_loop_seconds_total',
    help: 'Time that the main thread was active or idle.',
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
    help: 'CPU time of all threads.',
    type: 'counter',
    values: () => {
      const { system, user } = process.cpuUsage()
      return single((system + user) / 1e6)
    },
  },
  gauge('process_resident_memory_bytes', 'Resident memory of the process.', () => single(process.memoryUsage.rss())),
]
