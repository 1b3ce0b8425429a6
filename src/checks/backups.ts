// What is known of backups by target: for doctor, /metrics, the notice of a late one, and the schedule (B13).
import { storesOnly, titlesOf } from '../base/backup-target.ts'
import { DAY, HOUR } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { nextRun, parseCron } from '../base/cron.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'

export type BackupRun = RowOf<'backup_runs'>

export interface TargetState {
  target: string
  last: BackupRun | undefined
  /** The first try; what has never succeeded is late from then on. */
  first: number | undefined
  /** The failure after the last success, or that of the last one itself: its backup is there, and old ones stay. */
  failed: BackupRun | undefined
  /** Whether it can be drilled. */
  givesBack: boolean
  drilled: BackupRun | undefined
  drillFailed: BackupRun | undefined
  failures: number
}

/**
 * The state of each configured target, in their order. Runs of a time to come are from when the clock was ahead, and
 * count for nothing.
 */
export const targetStates = (reader: Reader, { to }: Pick<Config['backup'], 'to'>, now: number): TargetState[] =>
  titlesOf(to).map((title, index) => ({ ...stateOf(reader, title, now), givesBack: !storesOnly(to[index] ?? '') }))

function stateOf(reader: Reader, target: string, now: number): Omit<TargetState, 'givesBack'> {
  // A backup has its name when it is there whole; what failed then was the removal of old ones.
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

/** Of so many waits of a schedule the longest is looked for: a week of one that runs each day. */
const WAITS = 8

/** A daily backup is late after so long; one that is made more rarely after one and a half of its periods. */
const LATE = 36 * HOUR

export function lateAfter({ schedule }: Pick<Config['backup'], 'schedule'>, now: number): number {
  const cron = parseCron(schedule)
  const next = cron && nextRun(cron, now)
  const after = cron && next !== undefined ? nextRun(cron, next) : undefined
  return next === undefined || after === undefined ? LATE : Math.max(LATE, (after - next) * 1.5)
}

/** How often each target's newest backup is restored as a test (ms). */
export const DRILLED_EVERY: Readonly<Record<Config['backup']['drill'], number>> = {
  never: Infinity,
  daily: DAY,
  weekly: 7 * DAY,
  monthly: 30 * DAY,
}

/** So few stay whatever is kept: a quarter is the most that goes at a time. */
const LEAST_KEPT = 4

/**
 * How long a backup lies at a target at the most, and with it an address that was erased since (B12); undefined where
 * none is made by the schedule. Of each day, week and month that has a backup one counts, so that a rare schedule keeps
 * them longer.
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
  const { daily, monthly, weekly } = keep
  return Math.max(
    daily * Math.max(DAY, wait),
    weekly * Math.max(7 * DAY, wait),
    monthly * Math.max(31 * DAY, wait),
    LEAST_KEPT * wait,
  )
}

/** The targets that have had no backup for too long. */
export const lateTargets = (states: readonly TargetState[], backup: Config['backup'], now: number): TargetState[] =>
  states.filter(({ first, last }) => {
    const since = last?.ended_at ?? first
    return since !== undefined && now - since > lateAfter(backup, now)
  })
