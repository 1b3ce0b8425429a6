// The period of figures: what the page's address names, and the links to the others.
import { isOneOf } from '../base/one-of.ts'
import type { Visit } from './visit.ts'
import { segments, type Html } from './widgets.ts'

/** The days of each period. */
export const DAYS: Readonly<Record<string, number>> = { '24h': 1, '7d': 7, '30d': 30 }
const PERIODS = ['24h', '7d', '30d'] as const
export const periodOf = (visit: Visit, otherwise = '24h'): string =>
  isOneOf(PERIODS, visit.query('period')) ? visit.query('period') : otherwise

export const periods = (visit: Visit, now: string): Html =>
  segments(
    'Period',
    PERIODS.map((each) => ({
      to: `${visit.context.req.path}?period=${each}`,
      name: each.replace('h', ' h').replace('d', ' days'),
      here: each === now,
    })),
  )
