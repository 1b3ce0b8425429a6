// A schedule as cron writes it: five fields (minute, hour, day of the month, month, day of the week), in UTC.
import { DAY, HOUR, MINUTE, startOfDay } from './clock.ts'

/** The allowed values of each field. */
export interface Cron {
  minutes: ReadonlySet<number>
  hours: ReadonlySet<number>
  days: ReadonlySet<number>
  months: ReadonlySet<number>
  weekdays: ReadonlySet<number>
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
/** A 29 February is at most eight years away. */
const FARTHEST = 8 * 366

interface CronField {
  least: number
  most: number
  names?: readonly string[]
}

/**
 * Parses a schedule such as "0 2 * * *" or "30 1 * * mon-fri". Undefined for other texts, and for a day that never
 * comes.
 */
export function parseCron(text: string): Cron | undefined {
  const [minute = '', hour = '', day = '', month = '', weekday = '', ...more] = text.trim().toLowerCase().split(/\s+/)
  const minutes = parseField(minute, { least: 0, most: 59 })
  const hours = parseField(hour, { least: 0, most: 23 })
  const days = parseField(day, { least: 1, most: 31 })
  const months = parseField(month, { least: 1, most: 12, names: MONTHS })
  // 7 is Sunday too.
  const weekdays = parseField(weekday, { least: 0, most: 7, names: WEEKDAYS })
  if (more.length > 0 || !minutes || !hours || !days || !months || !weekdays) return undefined
  if (weekdays.delete(7)) weekdays.add(0)
  const cron = { minutes, hours, days, months, weekdays }
  return nextRun(cron, 0) === undefined ? undefined : cron
}

function parseField(word: string, { least, most, names = [] }: CronField): Set<number> | undefined {
  const set = new Set<number>()
  const valueOf = (said: string): number =>
    names.includes(said) ? names.indexOf(said) + least : /^\d{1,2}$/.test(said) ? Number(said) : NaN
  for (const part of word.split(',')) {
    const [, range = '', step] = /^([^/]+)(?:\/(\d{1,2}))?$/.exec(part) ?? []
    const [first = '', last, ...more] = range.split('-')
    const from = range === '*' ? least : valueOf(first)
    // "5/10" is every tenth from 5 on.
    const to = range === '*' || (last === undefined && step !== undefined) ? most : valueOf(last ?? first)
    const by = Number(step ?? 1)
    if (more.length > 0 || !(from >= least && to <= most && from <= to && by > 0)) return undefined
    for (let value = from; value <= to; value += by) set.add(value)
  }
  return set
}

function isDay({ days, months, weekdays }: Cron, date: Date): boolean {
  if (!months.has(date.getUTCMonth() + 1)) return false
  const byMonth = days.has(date.getUTCDate())
  const byWeek = weekdays.has(date.getUTCDay())
  // As in cron: when both are restricted, one of them is enough.
  return days.size >= 31 || weekdays.size >= 7 ? byMonth && byWeek : byMonth || byWeek
}

/** The first time of the schedule after `time` (ms), or undefined if it never comes. */
export function nextRun(cron: Cron, time: number): number | undefined {
  const today = startOfDay(time)
  const timesOf = (day: number): number[] =>
    [...cron.hours].flatMap((hour) => [...cron.minutes].map((minute) => day + hour * HOUR + minute * MINUTE))
  for (let day = today; day < today + FARTHEST * DAY; day += DAY) {
    if (!isDay(cron, new Date(day))) continue
    const later = timesOf(day).filter((at) => at > time)
    if (later.length > 0) return Math.min(...later)
  }
  return undefined
}
