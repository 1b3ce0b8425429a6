// Figures of an account over time (D76). Those by receiver are in api-receivers.ts.
import { z } from 'zod'
import { DAY, HOUR, iso } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { isOneOf, namesIn } from '../base/one-of.ts'
import { daysOf, hoursOf, isZone, type HourSpan } from '../base/zone.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import { outcomesByHour, utcDaysBefore, type HourOfOutcomes } from './receivers.ts'
import { accountFigures } from './tally.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, timeOrNull } from '../jsonapi/fields.ts'

const DAYS = { '24h': 1, '7d': 7, '30d': 30 } as const
type PeriodName = keyof typeof DAYS
export const zoneFilter = {
  zone: { column: 'zone', about: 'IANA time zone of the days, such as `Europe/Berlin`. The default is UTC.' },
}
export const periodFilter = {
  period: { column: 'period', about: 'Period: 24h (the default), 7d or 30d. Today is the last day of a period.' },
  ...zoneFilter,
}

type Filters = ReadonlyMap<string, string[]>

/** Returns the value of a filter, or '' without one. Throws 400 for several values. */
function oneValue(filters: Filters, name: string): string {
  const [value = '', ...more] = filters.get(name) ?? []
  if (more.length > 0)
    throw refuse('unsupported_filter', `"${name}" has several values. Use one.`, { parameter: `filter[${name}]` })
  return value
}

/** Throws 400 for an unknown zone. */
export function zoneOf(filters: Filters): string {
  const zone = oneValue(filters, 'zone') || 'UTC'
  if (isZone(zone)) return zone
  const detail = 'This time zone is unknown. Use a name such as Europe/Berlin.'
  throw refuse('unsupported_filter', detail, { parameter: 'filter[zone]' })
}

export interface StatisticsPeriod {
  period: PeriodName
  zone: string
  /** Its hours or days, oldest first. */
  spans: readonly HourSpan[]
  /** As many before it. The last one is as long as the last one of the period, which is not over. */
  earlier: readonly HourSpan[]
  /** The start (ms). */
  since: number
}

/** Throws 400 for an unknown period. */
export function periodOf({ filters, now }: Call<ApiDeps> & { filters: Filters }): StatisticsPeriod {
  const period = oneValue(filters, 'period') || '24h'
  if (!isOneOf(namesIn(DAYS), period))
    throw refuse('unsupported_filter', 'This period is not supported. Use 24h, 7d or 30d.', {
      parameter: 'filter[period]',
    })
  const zone = zoneOf(filters)
  const hours = hoursOf(now)
  const days = daysOf(zone, now, 2 * DAYS[period])
  const spans = period === '24h' ? hours : days.slice(DAYS[period])
  const earlier =
    period === '24h'
      ? hours.map(({ at, from, until }) => ({ at: at - DAY, from: from - 24, until: until - 24 }))
      : days.slice(0, DAYS[period])
  const elapsed = Math.round(now / HOUR) - (spans.at(-1)?.from ?? 0)
  return {
    period,
    zone,
    spans,
    earlier: earlier.map((span, at) =>
      at < earlier.length - 1 ? span : { ...span, until: Math.min(span.until, span.from + elapsed) },
    ),
    since: firstHour(spans) * HOUR,
  }
}

export const firstHour = ([first]: readonly HourSpan[]): number => first?.from ?? 0

export const share = (part: number, whole: number): number => (whole === 0 ? 0 : Math.round((part / whole) * 1e5) / 1e5)
export const rate = (about: string) => field(z.number(), { about })
export const point = z.object({ at: z.iso.datetime(), delivered: z.int(), deferred: z.int(), refused: z.int() })

/** Sums of hours or days. Those without mail are included. */
export function series<Sums extends Record<string, number>>(
  hours: readonly (Sums & { hour: number })[],
  empty: Sums,
  spans: readonly HourSpan[],
): (Sums & { at: string })[] {
  const names = Object.keys(empty)
  const sums = spans.map(({ at }): Sums & { at: string } => ({ ...empty, at: iso(at) }))
  for (const each of hours) {
    const at = spans.findLastIndex(({ from }) => each.hour >= from)
    const sum: Record<string, unknown> | undefined = each.hour < (spans[at]?.until ?? 0) ? sums[at] : undefined
    if (sum) for (const name of names) sum[name] = Number(sum[name]) + Number(each[name])
  }
  return sums
}

/** The figures of an account in some hours or days. */
function figuresOf(reader: Reader, userKey: number, spans: readonly HourSpan[], hours: readonly HourOfOutcomes[]) {
  const { bounces, complaints, deliveries } = accountFigures(reader, userKey, {
    from: firstHour(spans),
    until: spans.at(-1)?.until ?? 0,
  })
  return {
    sent: deliveries + bounces,
    delivered: deliveries,
    bounced: bounces,
    complained: complaints,
    bounce_rate: share(bounces, deliveries + bounces),
    complaint_rate: share(complaints, deliveries),
    series: series(hours, { delivered: 0, deferred: 0, refused: 0 }, spans),
  }
}

export const UTC_DAYS_BEFORE = timeOrNull(
  'Time before which days are in UTC, because their hours are not stored. Null if all days are in the time zone.',
)
const previous = z.object({
  sent: z.int(),
  delivered: z.int(),
  bounced: z.int(),
  complained: z.int(),
  bounce_rate: z.number(),
  complaint_rate: z.number(),
  series: z.array(point),
})

export const statistics = define('statistics', {
  table: 'tallies',
  scope: 'emails',
  called: 'Statistics',
  about: 'Delivery statistics of an account for a period.',
  extension: true,
  attributes: {
    period: field(z.enum(namesIn(DAYS)), {
      about: 'Period.',
    }),
    sent: count('Number of recipients with a result: delivered or bounced.'),
    delivered: count(
      'Number of recipients whose receiving server accepted the email, without those that bounced later.',
    ),
    bounced: count('Number of recipients that permanently rejected the email, including later bounce messages.'),
    complained: count('Number of complaints.'),
    bounce_rate: rate('Bounces as a share of deliveries and bounces, from 0 to 1.'),
    complaint_rate: rate('Complaints as a share of deliveries, from 0 to 1.'),
    series: field(z.array(point), {
      about: 'Statistics per hour for 24h, otherwise per day of the time zone, oldest first.',
    }),
    previous: field(previous.nullable(), {
      about:
        'Same statistics for the period of the same length before, up to the same time of its last day. Null if it has no emails.',
    }),
    utc_days_before: UTC_DAYS_BEFORE,
  },
  filters: periodFilter,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/statistics',
      id: 'getStatistics',
      about: 'Get the delivery statistics of the account for a period.',
      run(call) {
        const { caller, parts } = call
        const { earlier, period, since, spans, zone } = periodOf(call)
        const hours = outcomesByHour(parts.store, caller.userKey, firstHour(earlier))
        const before = figuresOf(parts.store, caller.userKey, earlier, hours)
        const quiet = before.sent === 0 && before.series.every(({ deferred, delivered }) => deferred + delivered === 0)
        return [
          {
            key: 0,
            id: period,
            period,
            ...figuresOf(parts.store, caller.userKey, spans, hours),
            previous: quiet ? null : before,
            utc_days_before: utcDaysBefore(parts.store, caller.userKey, zone, since),
          },
        ]
      },
    },
  ],
})
