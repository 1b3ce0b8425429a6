// Time, as everything here takes it: a number of milliseconds since the epoch, and one call that asks to be woken.
// Nothing else in src/ reads Date.now() or sets a timer for a rule of the trade, so that tests turn the clock by hand.

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** Takes back a wake-up; harmless after it happened. */
export type Cancel = () => void

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /** Calls `run` once, as soon as `now() >= time`. */
  wake(time: number, run: () => void): Cancel
}

// setTimeout overflows at 2^31 ms (25 days) and fires at once; a day is far enough to look again.
const LONGEST_SLEEP = DAY

export const systemClock: Clock = {
  now: () => Date.now(),
  wake(time, run) {
    let timer: NodeJS.Timeout
    // Timers run by another clock and may be a fraction early.
    const end = (): void => (Date.now() < time ? sleep() : run())
    const sleep = (): void => {
      const left = time - Date.now()
      timer = left > LONGEST_SLEEP ? setTimeout(sleep, LONGEST_SLEEP) : setTimeout(end, Math.max(0, left))
    }
    sleep()
    return () => clearTimeout(timer)
  },
}

/** ISO 8601 in UTC with milliseconds, the one form of a time on the wire (D10). */
export function iso(time: number): string {
  return new Date(time).toISOString()
}

/** `time` moved by whole calendar months in UTC; the day is clamped to the target month's last (31 Jan + 1 = 28 Feb). */
export function addMonths(time: number, months: number): number {
  const from = new Date(time)
  const to = new Date(time)
  to.setUTCDate(1)
  to.setUTCMonth(from.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), lastDay))
  return to.getTime()
}
