// Days of a time zone, made of whole hours, because metrics are counted per hour.
import { HOUR, MINUTE } from './clock.ts'

export function isZone(name: string): boolean {
  try {
    return /^[A-Za-z][\w+/-]{0,60}$/.test(name) && Boolean(new Intl.DateTimeFormat('en', { timeZone: name }))
  } catch {
    return false
  }
}

/** Hours since the epoch from `from` on and before `until`, and the time (ms) at which they start in their zone. */
export interface HourSpan {
  at: number
  from: number
  until: number
}

/**
 * The last days of a zone, oldest first. The last one contains `now`. An hour belongs to the day of its middle, so days
 * of zones with half hours are rounded. A day on which the clocks change has 23 or 25 hours.
 */
export function daysOf(zone: string, now: number, count: number): HourSpan[] {
  // The locale writes "2026-11-24". Formatting is slow, so only hours near the ends of days are formatted.
  const format = new Intl.DateTimeFormat('sv-SE', { timeZone: zone })
  const dateIn = (hour: number): string => format.format((hour + 0.5) * HOUR)
  const days: HourSpan[] = []
  let from = Math.floor(now / HOUR) + 1
  while (days.length < count) {
    const until = from
    const date = dateIn(until - 1)
    from = until - (days.length === 0 ? 1 : 23)
    while (dateIn(from - 1) === date) from--
    const hour = from * HOUR
    const at = [0, 15, 30].map((minutes) => hour + minutes * MINUTE).find((each) => format.format(each) === date)
    days.unshift({ at: at ?? hour, from, until })
  }
  return days
}

/** The hours of the last day up to `now`, and the hour in which that day began. */
export function hoursOf(now: number): HourSpan[] {
  const last = Math.floor(now / HOUR)
  return Array.from({ length: 25 }, (_, index) => last - 24 + index).map((hour) => ({
    at: hour * HOUR,
    from: hour,
    until: hour + 1,
  }))
}
