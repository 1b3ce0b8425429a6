// What an operator sets, by the API or a command beside the running server (DV15): a number for a pair, no allowance,
// the first step again, and warm-up on or off. Each is noted with who did it; the server says it in its log.
import { isDeepStrictEqual } from 'node:util'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { shapingRules } from '../smtp/shaping-file.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { allowanceOf, ladderOf } from './ladder.ts'
import { moveTo, type Moment } from './judge.ts'
import { dayOf, isTurnedOff, type WarmupRow } from './pairs.ts'

/** What is set: a number fixes the allowance, `release` lets it go on by itself. */
export type Setting = { fix: number } | 'skip' | 'restart' | 'release'

/** Sets a pair; `by`: who. False when nothing changed. */
export function setPair(at: Moment, row: WarmupRow, setting: Setting, by: string): boolean {
  const { now, tx } = at
  const moved =
    typeof setting === 'object'
      ? moveTo(at, row, 'fix', { fixed: setting.fix })
      : setting === 'restart'
        ? moveTo(at, row, 'restart', { step: 0, fixed: null })
        : moveTo(at, row, setting, { fixed: null })
  if (!moved) return false
  const begun = setting === 'restart' ? { closed_day: null, quiet_day: dayOf(now) } : {}
  tx.run(
    db
      .updateTable('warmups')
      .set({ set_at: now, set_by: by, ...begun })
      .where('key', '=', row.key),
  )
  Object.assign(row, { set_at: now, set_by: by, ...begun })
  return true
}

/** Turns warm-up off or on; states are kept. False when it was so. */
export function turn(tx: Tx, on: boolean, by: string, now: number): boolean {
  if (isTurnedOff(tx) !== on) return false
  tx.run(
    db
      .insertInto('warmup_switch')
      .values({ key: 1, off: on ? 0 : 1, set_at: now, set_by: by })
      .onConflict((conflict) => conflict.column('key').doUpdateSet({ off: on ? 0 : 1, set_at: now, set_by: by })),
  )
  return true
}

/** When an operator set anything last (ms); 0: never. */
export const lastSet = (reader: Reader): number =>
  reader.fact(
    raw<{ at: number }>(
      'select max(coalesce((select max(set_at) from warmups), 0), coalesce((select max(set_at) from warmup_switch), 0)) as at',
    ),
  )?.at ?? 0

interface FollowDeps {
  store: Store
  log: Log
  config: Pick<Config, 'warmup'>
}

/**
 * Returns the function to call every second: it logs what was set, by whom, and wakes the queue; also after the
 * configuration or the shaping file was read again with other values.
 */
export function followSettings({ config, log, store }: FollowDeps, ring: () => void): () => void {
  let seen = lastSet(store)
  const ruling = () => ({ rules: shapingRules(), warmup: config.warmup })
  let before = ruling()
  return () => {
    const last = lastSet(store)
    const now = ruling()
    const read = !isDeepStrictEqual(now, before)
    before = now
    if (last === seen) return read ? ring() : undefined
    const rows = store.all(db.selectFrom('warmups').selectAll().where('set_at', '>', seen).orderBy('set_at'))
    for (const row of rows)
      log.info('warm-up set', {
        source: row.source,
        receiver: row.receiver,
        state: row.status,
        allowance: allowanceOf(ladderOf(shapingRules(), row.receiver), row),
        by: row.set_by,
      })
    const turned = store.first(db.selectFrom('warmup_switch').selectAll().where('set_at', '>', seen))
    if (turned) log.info('warm-up turned', { on: turned.off === 0, by: turned.set_by })
    seen = last
    ring()
  }
}
