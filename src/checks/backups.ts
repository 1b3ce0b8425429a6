// The state of the backups by destination: for doctor, /metrics, the alert about a late backup, and the schedule.
import { titlesOf } from '../base/backup-target.ts'
import { DAY, HOUR } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { nextRun, parseCron } from '../base/cron.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type BackupRun = RowOf<'backup_runs'>

export interface TargetState {
  target: string
  last: BackupRun | undefined
  /** The first attempt. Without a success, the backup is late from then on. */
  first: number | undefined
  /** The failure after the last success. With a name: the backup succeeded, but old ones could not be deleted. */
  failed: BackupRun | undefined
  drilled: BackupRun | undefined
  drillFailed: BackupRun | undefined
  failures: number
}

/**
 * Returns the state of each configured target, in their order. Runs in the future, from a clock that was ahead, are
 * ignored.
 */
export const targetStates = (reader: Reader, { to }: Pick<Config['backup'], 'to'>, now: number): TargetState[] =>
  titlesOf(to).map((title) => stateOf(reader, title, now))

function stateOf(reader: Reader, target: string, now: number): TargetState {
  // A backup with a name is complete. In that case, the deletion of old ones failed.
  const newest = (kind: BackupRun['kind'], is: 'well' | 'faulty'): BackupRun | undefined =>
    reader.first(
      raw<BackupRun>(
        `select * from backup_runs where target = ? and kind = ? and ${is === 'well' ? '(fault is null or name is not null)' : 'fault is not null'} and ended_at <= ? order by ended_at desc, key desc limit 1`,
        [target, kind, now],
      ),
    )
  const { failures, first } = reader.one(
    raw<{ failures: number; first: number | null }>(
      `select count(*) filter (where fault is not null and kind = 'backup') as failures,
         min(started_at) filter (where kind = 'backup') as first from backup_runs where target = ? and ended_at <= ?`,
      [target, now],
    ),
  )
  const since = (fault: BackupRun | undefined, good: BackupRun | undefined): BackupRun | undefined =>
    fault && (!good || fault.key >= good.key) ? fault : undefined
  const last = newest('backup', 'well')
  const drilled = newest('drill', 'well')
  return {
    target,
    last,
    first: first ?? undefined,
    failed: since(newest('backup', 'faulty'), last),
    drilled,
    drillFailed: since(newest('drill', 'faulty'), drilled),
    failures,
  }
}

/** The number of intervals of a schedule, of which the longest is used: a week of a daily one. */
const WAITS = 8

/** Without a schedule, a backup is late after this time, and no run takes longer. */
const LATE = 36 * HOUR
/** The shortest delay after a scheduled time: a restore test may be in progress. */
const LEAST_DELAY = HOUR / 2

/**
 * Returns the age of a backup (ms) from which it is late: "backup.late_after", or half an interval after the next
 * scheduled time, which is 36 hours for a daily backup. `since`: the time of its data.
 */
export function lateAfter({ late_after, schedule }: Config['backup'], since: number): number {
  if (late_after > 0) return late_after
  const cron = parseCron(schedule)
  const next = cron && nextRun(cron, since)
  const after = cron && next !== undefined ? nextRun(cron, next) : undefined
  return next === undefined || after === undefined ? LATE : next - since + Math.max(LEAST_DELAY, (after - next) / 2)
}

/** Returns the time after which a run is stopped. The first backup to a slow destination takes long. */
export const longestRun = (backup: Config['backup'], now: number): number => Math.max(LATE, lateAfter(backup, now))

/** How often each target's newest backup is restored as a test (ms). */
export const DRILLED_EVERY: Readonly<Record<Config['backup']['drill'], number>> = {
  never: Infinity,
  daily: DAY,
  weekly: 7 * DAY,
  monthly: 30 * DAY,
}

/** So few backups always stay, because at most a quarter is deleted at a time. */
const LEAST_KEPT = 4

/** How long backups use an object with spool files of which some were deleted. */
export const REUSED_FOR = 31 * DAY

/**
 * Returns how long a target keeps a backup at most, and with it an address that was erased since, or undefined
 * without scheduled backups. One backup counts for each day, week and month that has one, so a less frequent schedule
 * keeps them longer.
 */
export function livesOnFor({ keep, schedule, to }: Config['backup'], now: number): number | undefined {
  const cron = parseCron(schedule)
  if (to.length === 0 || !cron) return undefined
  let wait = 0
  for (let at = now, n = 0; n < WAITS; n++) {
    const next = nextRun(cron, at) ?? at
    if (n > 0) wait = Math.max(wait, next - at)
    at = next
  }
  const { daily, hourly, monthly, weekly } = keep
  const kept = Math.max(
    hourly * HOUR,
    daily * Math.max(DAY, wait),
    weekly * Math.max(7 * DAY, wait),
    monthly * Math.max(31 * DAY, wait),
    LEAST_KEPT * wait,
  )
  // Shared objects are deleted once a day.
  return kept + REUSED_FOR + DAY
}

/** Returns the targets whose last backup is too old. */
export const lateTargets = (states: readonly TargetState[], backup: Config['backup'], now: number): TargetState[] =>
  states.filter(({ first, last }) => {
    const since = last?.started_at ?? first
    return since !== undefined && now - since > lateAfter(backup, since)
  })
