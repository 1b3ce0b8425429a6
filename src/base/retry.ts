// Delays between tries: a list whose last entry repeats, each changed by up to 10 percent either way, so that things
// that failed together are not tried together.

export const JITTER = 0.1

/** The delay that a schedule has after the `failures`-th failure (from 1), exactly. */
export const stepOf = (schedule: readonly number[], failures: number): number =>
  schedule[Math.min(failures, schedule.length) - 1] ?? 0

/** The delay in ms after the `failures`-th failure (from 1). `random` is in [0, 1). */
export function retryDelay(schedule: readonly number[], failures: number, random: () => number = Math.random): number {
  return Math.round(stepOf(schedule, failures) * (1 - JITTER + 2 * JITTER * random()))
}
