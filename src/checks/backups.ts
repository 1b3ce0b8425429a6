// What is known of backups by target: for doctor, /metrics, the notice of a late one, and the schedule (B13).
import { titlesOf } from '../base/backup-target.ts'
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
  /** The failure after the last success. */
  failed: BackupRun | undefined
  drilled: BackupRun | undefined
  drillFailed: BackupRun | undefined
  failures: number
}

/**
 * The state of each configured target, in their order. Runs of a time to come are from when the clock was ahead, and
 * count for nothing.
 */
export const targetStates = (reader: Reader, { to }: Pick<Config['backup'], 'to'>, now: number): TargetState[] =>
  titlesOf(to).map((target) => stateOf(reader, target, now))

function stateOf(reader: Reader, target: string, now: number): TargetState {
  const newest = (kind: BackupRun['kind'], is: 'null' | 'not null'): BackupRun | undefined =>
    reader.first(
      raw<BackupRun>(
        `select * from backup_runs where target = ? and kind = ? and fault is ${is} and ended_at <= ? order by ended_at desc, key desc limit 1`,
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
    fault && (!good || fault.key > good.key) ? fault : undefined
  const last = newest('backup', 'null')
  const drilled = newest('drill', 'null')
  return {
    target,
    last,
    first: first ?? undefined,
    failed: since(newest('backup', 'not null'), last),
    drilled,
    drillFailed: since(newest('drill', 'not null'), drilled),
    failures,
  }
}

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

/** The targets that have had no backup for too long. */
export const lateTargets = (states: readonly TargetState[], backup: Config['backup'], now: number): TargetState[] =>
  states.filter(({ first, last }) => {
    const since = last?.ended_at ?? first
    return since !== undefined && now - since > lateAfter(backup, now)
  })
