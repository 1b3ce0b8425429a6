// Figures of an account over time (D76); those by receiver are in api-receivers.ts.
import { z } from 'zod'
import { DAY, HOUR, iso } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { outcomesByHour } from './receivers.ts'
import { accountFigures } from './tally.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION } from '../jsonapi/fields.ts'

const PERIODS = { '24h': DAY, '7d': 7 * DAY, '30d': 30 * DAY } as const
export type PeriodName = keyof typeof PERIODS
export const periodFilter = {
  period: {
    column: 'period',
    about: 'How far back: 24h (when absent), 7d or 30d; days are days of UTC, today is the last of them.',
  },
}

/** Throws 400 for an unknown period. */
export function periodOf({ filters: asked, now }: Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }): {
  period: PeriodName
  since: number
} {
  const [period = '24h', ...more] = asked.get('period') ?? []
  if (more.length > 0 || !Object.hasOwn(PERIODS, period))
    throw refuse('unsupported_filter', 'The period is 24h, 7d or 30d.', { parameter: 'filter[period]' })
  const since = now - PERIODS[period as PeriodName]
  // The figures of past days are stored by whole days (UTC), so a long period is this day and whole days before it.
  return { period: period as PeriodName, since: period === '24h' ? since : Math.ceil(since / DAY) * DAY }
}

export const share = (part: number, whole: number): number => (whole === 0 ? 0 : Math.round((part / whole) * 1e5) / 1e5)
export const rate = (about: string) => field(z.number(), { about })
export const point = z.object({ at: z.iso.datetime(), delivered: z.int(), deferred: z.int(), refused: z.int() })

/** Sums by hour, or by day (UTC) for a long period. Hours without mail are included. */
export function series<Sums extends Record<string, number>>(
  hours: readonly (Sums & { hour: number })[],
  empty: Sums,
  { now, period, since }: { period: PeriodName; since: number; now: number },
): (Sums & { at: string })[] {
  const step = period === '24h' ? HOUR : DAY
  const sums = new Map<number, Sums & { at: string }>()
  for (let at = Math.floor(since / step) * step; at <= now; at += step) sums.set(at, { ...empty, at: iso(at) })
  const names = Object.keys(empty)
  for (const each of hours) {
    const sum: Record<string, unknown> | undefined = sums.get(Math.floor((each.hour * HOUR) / step) * step)
    if (sum) for (const name of names) sum[name] = Number(sum[name]) + Number(each[name])
  }
  return [...sums.values()]
}

export const statistics = define('statistics', {
  table: 'tallies',
  called: 'Statistics',
  about: `What became of the mail of an account in a period. ${EXTENSION}`,
  attributes: {
    period: field(z.enum(Object.keys(PERIODS) as [PeriodName, ...PeriodName[]]), {
      about: 'How far back the figures go.',
    }),
    sent: count('Recipients whose mail was delivered or refused.'),
    delivered: count('Recipients whose exchanger took the mail, without those that bounced later.'),
    bounced: count('Recipients that refused it for good, later reports included.'),
    complained: count('Complaints.'),
    bounce_rate: rate('Bounces as a share of what was delivered or bounced, 0 to 1.'),
    complaint_rate: rate('Complaints as a share of what was delivered, 0 to 1.'),
    series: field(z.array(point), { about: 'By hour for 24h, else by day (UTC), oldest first.' }),
  },
  filters: periodFilter,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/statistics',
      id: 'getStatistics',
      scope: 'emails:read',
      about: `The figures of a period. ${EXTENSION}`,
      run(call) {
        const { caller, now, parts } = call
        const asked = periodOf(call)
        const { bounces, complaints, deliveries } = accountFigures(parts.store, caller.userKey, asked.since)
        return [
          {
            key: 0,
            id: asked.period,
            period: asked.period,
            sent: deliveries + bounces,
            delivered: deliveries,
            bounced: bounces,
            complained: complaints,
            bounce_rate: share(bounces, deliveries + bounces),
            complaint_rate: share(complaints, deliveries),
            series: series(
              outcomesByHour(parts.store, caller.userKey, asked.since),
              { delivered: 0, deferred: 0, refused: 0 },
              { ...asked, now },
            ),
          },
        ]
      },
    },
  ],
})
