// Delays between tries: a list whose last entry repeats, each changed by up to 10 percent either way, so that jobs that
// failed together are not retried together. Also the delay that another server requests.
import { DAY, SECOND } from './clock.ts'

export const JITTER = 0.1

/** The delay that a schedule has after the `failures`-th failure (from 1), exactly. */
export const stepOf = (schedule: readonly number[], failures: number): number =>
  schedule[Math.min(failures, schedule.length) - 1] ?? 0

/** The delay in ms after the `failures`-th failure (from 1). `random` is in [0, 1). */
export function retryDelay(schedule: readonly number[], failures: number, random: () => number = Math.random): number {
  return Math.round(stepOf(schedule, failures) * (1 - JITTER + 2 * JITTER * random()))
}

/**
 * Returns the wait in ms of a Retry-After header (RFC 9110 §10.2.3), at most `most`, or undefined without a valid one.
 */
export function retryAfter(header: string | undefined, now: number, most = DAY): number | undefined {
  if (header === undefined) return undefined
  const text = header.trim()
  // Date.parse reads "-5" and "1.5" as dates. An HTTP date always starts with the name of a day (RFC 9110 §5.6.7).
  const wait = /^\d+$/.test(text) ? Number(text) * SECOND : /^[A-Z]/i.test(text) ? Date.parse(text) - now : NaN
  return Number.isNaN(wait) ? undefined : Math.min(Math.max(wait, 0), most)
}
