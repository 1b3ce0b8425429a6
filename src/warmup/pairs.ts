// The rows of pairs: a source address and a receiver, `*` for the total of the source. A pair is made when mail first
// asks for it.
import { createHash } from 'node:crypto'
import { DAY, HOUR } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { shapingRules } from '../smtp/shaping-file.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { ladderOf, TOTAL, type DayFigures } from './ladder.ts'

/** A source address and the receiver of its mail. */
export interface Pair {
  source: string
  receiver: string
}

/** The receiver of domains whose mail has no warm-up (DV17), in `warmup_domains`. */
export const UNCOUNTED = ''

export type WarmupRow = RowOf<'warmups'>

export const dayOf = (time: number): number => Math.floor(time / DAY)

/** When a pair opens on the next day: in its first hour, each pair at a moment of its own (DV8). */
export function opensAt({ receiver, source }: Pair, now: number): number {
  const [high = 0, low = 0] = createHash('sha256').update(`${source} ${receiver}`).digest()
  return (dayOf(now) + 1) * DAY + Math.floor((((high << 8) | low) / 65536) * HOUR)
}

const FIGURES = ['tried', 'bulk', 'deferred', 'refused', 'complained', 'bounced', 'blocked'] as const

export const DAYS: SumTable = { table: 'warmup_days', by: ['warmup_key', 'day'], of: FIGURES }

/** Adds to the figures of a day. */
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

/** The step at which pairs of an established source without history begin (DV14), from 0. */
const FOURTH = 3

/** How a pair begins: at the first step; for an established source higher, and its total without an allowance. */
export function beginning(reader: Reader, { receiver, source }: Pair): Pick<WarmupRow, 'status' | 'step'> {
  const known = reader.fact(
    raw<{ established: 0 | 1 }>('select established from warmup_sources where source = ?', [source]),
  )
  if (known?.established !== 1) return { status: 'warming', step: 0 }
  const last = ladderOf(shapingRules(), receiver).steps.length - 1
  return receiver === TOTAL ? { status: 'warm', step: last } : { status: 'warming', step: Math.min(FOURTH, last) }
}

/** The row of a pair; it is made when there is none. */
export const pairIn = (tx: Tx, pair: Pair, now: number): WarmupRow => findPair(tx, pair) ?? addPair(tx, pair, now)

export function addPair(
  tx: Tx,
  pair: Pair,
  now: number,
  at: Pick<WarmupRow, 'status' | 'step'> = beginning(tx, pair),
): WarmupRow {
  const day = dayOf(now)
  return tx.one(
    db
      .insertInto('warmups')
      .values({
        id: newId(now),
        ...pair,
        status: at.status,
        step: at.step,
        fixed: null,
        reason: null,
        since: now,
        closed_day: null,
        judged_day: day - 1,
        quiet_day: day,
        told_day: null,
        set_at: null,
        set_by: null,
        created_at: now,
        updated_at: now,
      })
      .returningAll(),
  )
}

const NONE: DayFigures = { tried: 0, bulk: 0, deferred: 0, refused: 0, complained: 0, bounced: 0, blocked: 0 }

export type WarmupDay = RowOf<'warmup_days'>

const byDay = statement<{ key: number; day: number }>()((arg) =>
  db.selectFrom('warmup_days').selectAll().where('warmup_key', '=', arg.key).where('day', '=', arg.day),
)

/** The figures of a day; all are 0 for a day without mail. */
export const dayIn = (
  reader: Reader,
  key: number,
  day: number,
): DayFigures & Pick<WarmupDay, 'allowance' | 'verdict'> =>
  reader.first(byDay({ key, day })) ?? { ...NONE, allowance: null, verdict: null }

/** What was tried between two days, the first one included: transactional mail, all mail, and the largest day. */
export const sumsOf = (reader: Reader, key: number, from: number, until: number) =>
  reader.one(
    raw<{ transactional: number; tried: number; largest: number }>(
      `select coalesce(sum(tried - bulk), 0) as transactional, coalesce(sum(tried), 0) as tried,
         coalesce(max(tried), 0) as largest
       from warmup_days where warmup_key = ? and day >= ? and day < ?`,
      [key, from, until],
    ),
  )

/** Whether an operator has turned warm-up off (DV15). */
export const isTurnedOff = (reader: Reader): boolean =>
  reader.fact(raw<{ off: 0 | 1 }>('select off from warmup_switch where key = 1'))?.off === 1
