// Changes by an operator, from the API or from a command next to the running server: a limit, no limit, the first step,
// or the schedule again. Each is stored with the operator, and the running server logs it.
import { isDeepStrictEqual } from 'node:util'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { shapingRules } from '../smtp/shaping.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { moveTo, type Moment } from './judge.ts'
import { dayOf, type WarmupRow } from './pairs.ts'
import { dailyLimitOf, scheduleOf } from './schedule.ts'

/** `release` returns to the schedule. */
export type Setting = { fix: number } | 'skip' | 'restart' | 'release'

/** Sets a pair in the name of an operator. False if it did not change. */
export function setPair(at: Moment, row: WarmupRow, setting: Setting, by: string): boolean {
  const { now, tx } = at
  const moved =
    typeof setting === 'object'
      ? moveTo(at, row, 'fix', { fixed: setting.fix })
      : moveTo(at, row, setting, { fixed: null, ...(setting === 'restart' ? { step: 0 } : {}) })
  if (!moved) return false
  if (setting === 'restart')
    tx.run(raw('update warmup_days set verdict = null where warmup_key = ? and day = ?', [row.key, dayOf(now)]))
  const set = { set_at: now, set_by: by }
  tx.run(db.updateTable('warmups').set(set).where('key', '=', row.key))
  Object.assign(row, set)
  return true
}

/** The time (ms) of the last change by an operator, or 0. */
export const lastSet = (reader: Reader): number =>
  reader.fact(raw<{ at: number | null }>('select max(set_at) as at from warmups'))?.at ?? 0

/**
 * Returns the function to call every second. It logs changes by operators and calls `changed`, also after a reload of
 * the configuration or the shaping file with other values.
 */
export function followSettings(
  { config, log, store }: { store: Store; log: Log; config: Pick<Config, 'warmup'> },
  changed: () => void,
): () => void {
  let seen = lastSet(store)
  const inForce = () => ({ rules: shapingRules(), warmup: config.warmup })
  let before = inForce()
  return () => {
    const last = lastSet(store)
    const now = inForce()
    const reloaded = !isDeepStrictEqual(now, before)
    before = now
    if (last === seen) return reloaded ? changed() : undefined
    for (const row of store.all(db.selectFrom('warmups').selectAll().where('set_at', '>', seen).orderBy('set_at')))
      log.info('warmup_settings_changed', {
        source: row.source,
        receiver: row.receiver,
        state: row.status,
        daily_limit: dailyLimitOf(scheduleOf(shapingRules(), row.receiver), row),
        operator: row.set_by,
      })
    seen = last
    changed()
  }
}
