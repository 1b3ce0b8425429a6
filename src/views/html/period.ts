// The period of statistics: the one in the page's address, the links to the others, and the filters of the API.
import { isOneOf } from '../../base/one-of.ts'
import { html } from 'hono/html'
import { dayWriter } from './chart.ts'
import type { Visit } from './visit.ts'
import { segments, type Html } from './widgets.ts'

const PERIODS = ['24h', '7d', '30d'] as const
export const periodOf = (visit: Visit, otherwise = '24h'): string =>
  isOneOf(PERIODS, visit.query('period')) ? visit.query('period') : otherwise

/** The period in words, as in "the previous 7 days". */
export const periodName = (period: string): string => (period === '24h' ? '24 hours' : period.replace('d', ' days'))

/** The filters of statistics. Days are those of the user's time zone. */
export const periodFilters = (visit: Visit, period: string): string =>
  `filter%5Bperiod%5D=${period}&filter%5Bzone%5D=${encodeURIComponent(visit.zone)}`

/** Says that the days of a chart or table are in UTC, if so. */
export const inUtc = (visit: Visit, period: string): string =>
  period !== '24h' && visit.zone === 'UTC' ? ' (UTC)' : ''

/** A note about days that version 0.2.0 stored, or ''. */
export const oldDays = (visit: Visit, before: string): Html | '' =>
  before === ''
    ? ''
    : html`<p class="soft">
        Days before ${dayWriter(visit.place)(before)} are in UTC, because they are stored without hours.
      </p>`

export const periods = (visit: Visit, now: string): Html =>
  segments(
    'Period',
    PERIODS.map((each) => ({
      to: `${visit.context.req.path}?period=${each}`,
      name: each.replace('h', ' h').replace('d', ' days'),
      here: each === now,
    })),
  )
