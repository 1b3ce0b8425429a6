// Delays between tries: a list whose last entry repeats, each changed by up to 10 percent either way, so that things
// that failed together are not tried together.

export const JITTER = 0.1

/** The delay in ms after the `failures`-th failure (from 1). `random` is in [0, 1). */
export function retryDelay(schedule: readonly number[], failures: number, random: () => number = Math.random): number {
  const base = schedule[Math.min(failures, schedule.length) - 1] ?? 0
  return Math.round(base * (1 - JITTER + 2 * JITTER * random()))
}
