// The rows of pairs and their days. A pair is a sending IP address and a receiver. The receiver `*` is the total of the
// address. Its row is created when email first needs it.
import { createHash } from 'node:crypto'
import { DAY, dayOf, HOUR } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { shapingRules } from '../smtp/shaping.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { scheduleOf, type DayFigures } from './schedule.ts'

export interface Pair {
  source: string
  receiver: string
}

/** In `warmup_domains`, the receiver of domains whose email has no warm-up. */
export const UNCOUNTED = ''

export type WarmupRow = RowOf<'warmups'>

export { dayOf }

/** When sending resumes on the next day: in its first hour, each pair at its own minute. */
export function opensAt({ receiver, source }: Pair, now: number): number {
  const [high = 0, low = 0] = createHash('sha256').update(`${source} ${receiver}`).digest()
  return (dayOf(now) + 1) * DAY + Math.floor((((high << 8) | low) / 65536) * HOUR)
}

const FIGURES = ['tried', 'bulk', 'deferred', 'refused', 'complained', 'bounced', 'blocked'] as const
const DAYS: SumTable = { table: 'warmup_days', by: ['warmup_key', 'day'], of: FIGURES }

export const addToDay = (tx: Tx, key: number, day: number, amounts: Partial<DayFigures>): void =>
  tx.add(
    DAYS,
    [key, day],
    FIGURES.map((each) => amounts[each] ?? 0),
  )

const byPair = statement<Pair>()((arg) =>
  db.selectFrom('warmups').selectAll().where('source', '=', arg.source).where('receiver', '=', arg.receiver),
)

export const findPair = (reader: Reader, pair: Pair): WarmupRow | undefined => reader.first(byPair(pair))

/** How a pair starts: at the first step, or without a limit if its address had sent before warm-up was installed. */
export function beginning(reader: Reader, { receiver, source }: Pair): Pick<WarmupRow, 'status' | 'step'> {
  const known = reader.fact(
    raw<{ established: 0 | 1 }>('select established from warmup_sources where source = ?', [source]),
  )
  return known?.established === 1
    ? { status: 'warm', step: scheduleOf(shapingRules(), receiver).steps.length - 1 }
    : { status: 'warming', step: 0 }
}

/** The row of a pair, which is created if it does not exist. */
export const pairIn = (tx: Tx, pair: Pair, now: number): WarmupRow =>
  findPair(tx, pair) ??
  tx.one(
    db
      .insertInto('warmups')
      .values({
        id: newId(now),
        ...pair,
        ...beginning(tx, pair),
        fixed: null,
        reason: null,
        since: now,
        judged_day: dayOf(now) - 1,
        set_at: null,
        set_by: null,
        created_at: now,
        updated_at: now,
      })
      .returningAll(),
  )

const NONE: DayFigures = { tried: 0, bulk: 0, deferred: 0, refused: 0, complained: 0, bounced: 0, blocked: 0 }

export type WarmupDay = RowOf<'warmup_days'>

const byDay = statement<{ key: number; day: number }>()((arg) =>
  db.selectFrom('warmup_days').selectAll().where('warmup_key', '=', arg.key).where('day', '=', arg.day),
)

/** The figures of a day, all 0 for a day without email. */
export const dayIn = (
  reader: Reader,
  key: number,
  day: number,
): DayFigures & Pick<WarmupDay, 'daily_limit' | 'verdict'> =>
  reader.first(byDay({ key, day })) ?? { ...NONE, daily_limit: null, verdict: null }

/** The average per day of all email, and of transactional email, in the week before a day. */
export function weekBefore(reader: Reader, key: number, day: number): { tried: number; transactional: number } {
  const { transactional, tried } = reader.one(
    raw<{ transactional: number; tried: number }>(
      `select coalesce(sum(tried - bulk), 0) as transactional, coalesce(sum(tried), 0) as tried
       from warmup_days where warmup_key = ? and day >= ? and day < ?`,
      [key, day - 7, day],
    ),
  )
  return { tried: tried / 7, transactional: transactional / 7 }
}

/** The receivers of those domains whose receiver is known. */
export const receiversOf = (reader: Reader, domains: readonly string[]): Map<string, string> =>
  new Map(
    reader
      .all(
        raw<{ domain: string; receiver: string }>(
          'select domain, receiver from warmup_domains where domain in (select value from json_each(?))',
          [JSON.stringify(domains)],
        ),
      )
      .map(({ domain, receiver }) => [domain, receiver]),
  )

/** Whether bulk email of a pair is stopped because of the verdict of today. */
export const isStopped = ({ status }: Pick<WarmupRow, 'status'>, today: WarmupDay['verdict']): boolean =>
  today === 'bad' && status !== 'unlimited'
