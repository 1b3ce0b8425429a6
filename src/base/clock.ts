// Time is a number of milliseconds since the epoch, and the clock can call a function at a time. No other file in src/
// reads Date.now() or sets a timer for a rule of mail, so that tests can turn the clock by hand.

export const SECOND = 1000
export const MINUTE = 60 * SECOND
export const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR

/** Cancels a wake-up. Harmless afterwards. */
export type Cancel = () => void

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number
  /**
   * Milliseconds since a fixed moment, independent of changes to the date. Time in which the machine is suspended does
   * not count.
   */
  elapsed(): number
  /** Calls `run` once, as soon as `now() >= time`, or when its wait has passed although the date was set back. */
  wake(time: number, run: () => void): Cancel
}

// setTimeout overflows at 2^31 ms (25 days) and then fires at once: so the sleep is cut into days.
const LONGEST_SLEEP = DAY

/** Two readings of the date that differ from the time that passed by more than this: the clock was set (D120). */
export const SET_BACK = MINUTE

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  wake(time, run) {
    let timer: NodeJS.Timeout
    const until = performance.now() + (time - Date.now())
    const left = (): number => {
      const byDate = time - Date.now()
      const byTimer = until - performance.now()
      // The date was set back, which would make every sleep longer.
      return byDate - byTimer > SET_BACK ? byTimer : byDate
    }
    // Timers use another clock and may fire slightly early.
    const end = (): void => (left() > 0 ? sleep(left()) : run())
    const sleep = (left: number): void => {
      timer = left > LONGEST_SLEEP ? setTimeout(end, LONGEST_SLEEP) : setTimeout(end, Math.max(0, left))
    }
    sleep(left())
    return () => clearTimeout(timer)
  },
}

/** A time in ms as ISO 8601 in UTC with milliseconds, the only form in API and webhooks (D10). */
export function iso(time: number): string {
  return new Date(time).toISOString()
}

/** The UTC date of a time, such as "2026-01-31". */
export const dateOf = (time: number): string => iso(time).slice(0, 10)

/** The number of the UTC day of a time, from 1 January 1970. */
export const dayOf = (time: number): number => Math.floor(time / DAY)

export const startOfDay = (time: number): number => dayOf(time) * DAY

/**
 * `time` (ms) moved by whole calendar months in UTC.
 * The day is limited to the last of the target month (31 Jan + 1 = 28 Feb).
 */
export function addMonths(time: number, months: number): number {
  const from = new Date(time)
  const to = new Date(time)
  to.setUTCDate(1)
  to.setUTCMonth(from.getUTCMonth() + months)
  const lastDay = new Date(Date.UTC(to.getUTCFullYear(), to.getUTCMonth() + 1, 0)).getUTCDate()
  to.setUTCDate(Math.min(from.getUTCDate(), lastDay))
  return to.getTime()
}

/** The last time that a Date can represent (ECMA-262, time values). */
export const LAST_TIME = 8.64e15

/** Whether a value is a time in ms that `iso` can write. */
export const isTime = (value: unknown): value is number => typeof value === 'number' && Math.abs(value) <= LAST_TIME
