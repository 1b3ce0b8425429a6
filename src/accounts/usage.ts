// Counts the used volume of a plan: each recipient counts as one, by calendar month in UTC (specification "Volume",
// D16). It is counted in the transaction that accepts the mail; 80 % and 100 % cause an event, once a month.
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import type { Reader, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { planNameOf, planOf } from '../identity/plan.ts'

const APPROACHING = 0.8

export const monthOf = (now: number): string => new Date(now).toISOString().slice(0, 7)

const userByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('users').select(['plan', 'downgrade_to', 'downgrade_at']).where('key', '=', arg.key),
)

const count = statement<{ user_key: number; month: string; recipients: number }>()((arg) =>
  db
    .insertInto('usage')
    .values({ user_key: arg.user_key, month: arg.month, used: arg.recipients })
    .onConflict((conflict) =>
      conflict
        .columns(['user_key', 'month'])
        .doUpdateSet((eb) => ({ used: eb('usage.used', '+', eb.ref('excluded.used')) })),
    )
    .returningAll(),
)

/**
 * Counts recipients; a negative number gives back recipients without a mail. Throws 422 volume_exceeded; then nothing
 * is counted.
 */
export function useVolume(
  tx: Tx,
  config: Pick<Config, 'plans'>,
  userKey: number,
  recipients: number,
  now: number,
): void {
  const user = tx.fact(userByKey({ key: userKey }))
  if (!user || recipients === 0) return
  const { included_volume: included } = planOf(config, user, now)
  const month = monthOf(now)
  if (included !== null && recipients > 0) {
    const { used = 0 } = usageOf(tx, userKey, month) ?? {}
    if (used + recipients > included)
      throw refuse(
        'volume_exceeded',
        `The plan ${planNameOf(user, now)} includes ${included} recipients a month; ${used} are used, and this would need ${recipients} more.`,
        { pointer: '/data' },
      )
  }
  const usage = tx.one(count({ user_key: userKey, month, recipients }))
  if (included !== null) tell(tx, usage, planNameOf(user, now), included, now)
}

export function usageOf(reader: Reader, userKey: number, month: string): RowOf<'usage'> | undefined {
  return reader.first(db.selectFrom('usage').selectAll().where('user_key', '=', userKey).where('month', '=', month))
}

function tell(tx: Tx, usage: RowOf<'usage'>, plan: string, included: number, now: number): void {
  const { approached_at, month, reached_at, used, user_key } = usage
  const note = (
    type: 'usage.limit_approaching' | 'usage.limit_reached',
    column: 'approached_at' | 'reached_at',
  ): void => {
    const place = db.updateTable('usage').where('user_key', '=', user_key).where('month', '=', month)
    tx.run(place.set({ [column]: now }))
    appendEvent(tx, { type, user_key, data: { plan, included_volume: included, used, month }, at: now })
  }
  if (used >= included * APPROACHING && approached_at === null) note('usage.limit_approaching', 'approached_at')
  if (used >= included && reached_at === null) note('usage.limit_reached', 'reached_at')
}
