// Figures for a monitoring system in Prometheus' text format 0.0.4, at /metrics, for programs on this machine alone. What is expensive to
// count is not counted: each figure comes from an index, or from sums that are kept anyway.
import { statfsSync } from 'node:fs'
import { performance } from 'node:perf_hooks'
import { Hono, type Context } from 'hono'
import { DAY, HOUR, SECOND, type Clock } from '../base/clock.ts'
import { version } from '../base/version.ts'
import type { Config } from '../base/config.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { clientAddress } from './client-address.ts'

export interface MetricsDesk {
  store: Store
  clock: Clock
  config: Pick<Config, 'data_dir' | 'http'>
}

type Labels = Record<string, string>

interface Metric {
  name: string
  help: string
  type: 'gauge' | 'counter'
  /** Each value with its labels. */
  values: (desk: MetricsDesk) => readonly (readonly [Labels, number])[]
}

const single = (value: number): [Labels, number][] => [[{}, value]]
const counted = ({ store }: MetricsDesk, from: string, parameters: readonly unknown[] = []): number =>
  store.first(raw<{ n: number }>(`select count(*) as n from ${from}`, parameters))!.n

/** Rows that were due before now: what lags. */
function lateness({ clock, store }: MetricsDesk, table: string, where: string): number {
  const { at } = store.first(
    raw<{ at: number | null }>(`select min(next_attempt_at) as at from ${table} where ${where}`),
  )!
  return at === null ? 0 : Math.max(0, (clock.now() - at) / SECOND)
}

const METRICS: readonly Metric[] = [
  {
    name: 'postrider_build_info',
    help: 'The version, as a label.',
    type: 'gauge',
    values: () => [[{ version }, 1]],
  },
  {
    name: 'postrider_queue_deliveries',
    help: 'Recipients whose mail has not found its end, by state.',
    type: 'gauge',
    values: (desk) => [
      [{ status: 'queued' }, counted(desk, `deliveries where status = 'queued'`)],
      [{ status: 'active' }, counted(desk, `deliveries where status = 'active'`)],
    ],
  },
  {
    name: 'postrider_queue_late_seconds',
    help: 'How long the mail whose turn has come has waited for it.',
    type: 'gauge',
    values: (desk) => single(lateness(desk, 'deliveries', `status = 'queued'`)),
  },
  {
    name: 'postrider_outcomes_week',
    help: 'What became of mail in the last seven days.',
    type: 'gauge',
    values: ({ clock, store }) => {
      const { bounces, complaints, deliveries } = store.first(
        raw<{ deliveries: number; bounces: number; complaints: number }>(
          `select coalesce(sum(deliveries), 0) as deliveries, coalesce(sum(bounces), 0) as bounces,
             coalesce(sum(complaints), 0) as complaints from tallies where hour >= ?`,
          [Math.floor((clock.now() - 7 * DAY) / HOUR)],
        ),
      )!
      return [
        [{ outcome: 'delivered' }, deliveries],
        [{ outcome: 'bounced' }, bounces],
        [{ outcome: 'complained' }, complaints],
      ]
    },
  },
  {
    name: 'postrider_inbound_unread',
    help: 'Received messages that wait to be read.',
    type: 'gauge',
    values: (desk) => single(counted(desk, 'inbound_messages where next_attempt_at is not null')),
  },
  {
    name: 'postrider_webhook_deliveries',
    help: 'Events that have not reached their endpoint, by state.',
    type: 'gauge',
    values: (desk) => [
      [{ status: 'pending' }, counted(desk, `outbound_webhooks where status = 'pending'`)],
      [{ status: 'active' }, counted(desk, `outbound_webhooks where status = 'active'`)],
    ],
  },
  {
    name: 'postrider_webhook_late_seconds',
    help: 'How long the event whose turn has come has waited for it.',
    type: 'gauge',
    values: (desk) => single(lateness(desk, 'outbound_webhooks', `status = 'pending'`)),
  },
  {
    name: 'postrider_campaigns_sending',
    help: 'Campaigns that are being sent.',
    type: 'gauge',
    values: (desk) => single(counted(desk, `campaigns where status = 'sending' and deleted_at is null`)),
  },
  {
    name: 'postrider_domains',
    help: 'Sending domains by status.',
    type: 'gauge',
    values: ({ store }) =>
      store
        .all(
          raw<{ status: string; n: number }>(
            'select status, count(*) as n from domains where deleted_at is null group by status order by status',
          ),
        )
        .map(({ n, status }) => [{ status }, n] as const),
  },
  {
    name: 'postrider_privacy_requests_pending',
    help: 'Erasures and exports that are not done.',
    type: 'gauge',
    values: (desk) => single(counted(desk, 'privacy_requests where next_attempt_at is not null')),
  },
  {
    name: 'postrider_disk_free_bytes',
    help: 'Free space where the data directory is.',
    type: 'gauge',
    values: ({ config }) => {
      const { bavail, bsize } = statfsSync(config.data_dir)
      return single(bavail * bsize)
    },
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
  {
    name: 'process_resident_memory_bytes',
    help: 'Memory that the process holds.',
    type: 'gauge',
    values: () => single(process.memoryUsage.rss()),
  },
]

/** No value of a label needs escaping: they are words of ours. */
const labelled = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${value}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

const LOOPBACK = /^(?:127\.|::1$)/

export function createMetrics(desk: MetricsDesk): Hono {
  const app = new Hono()
  // A request that a proxy has passed on comes from somewhere else, whoever the proxy is.
  const isHere = (context: Context): boolean =>
    LOOPBACK.test(clientAddress(context)) &&
    ['x-forwarded-for', 'forwarded', 'x-real-ip'].every((name) => context.req.header(name) === undefined)
  app.get('/metrics', (context) => {
    if (!isHere(context)) return context.text('There is nothing here.\n', 404)
    const lines = METRICS.flatMap(({ help, name, type, values }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...values(desk).map(([labels, value]) => `${name}${labelled(labels)} ${value}`),
    ])
    return context.body(`${lines.join('\n')}\n`, 200, {
      'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      'Cache-Control': 'no-store',
    })
  })
  return app
}
