// The rows of the watch: subjects, due times, and the changes by an answer. A change counts after two equal answers,
// even across a restart, because the first one is a column of the row.
import { MINUTE } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { watchMachine, type WatchMove, type WatchStatus } from '../store/states/watch.ts'
import type { Reader, Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import { BELIEVED, TEST_QUESTIONS, type WatchAnswer } from './lists.ts'
import { REVERSE_QUESTIONS } from './reverse.ts'
import type { WatchedThing } from './subjects.ts'

export type WatchRow = RowOf<'watches'>

/** The duration of a round, and the time between two answers that count. */
export const SPREAD = 10 * MINUTE
/** The most queries of a round. */
export const MOST_QUESTIONS = 200
/** The queries for the addresses of the hostname. */
const OWN_QUESTIONS = 2
const MAX_ANSWER = 500

const all = db.selectFrom('watches').selectAll()

/** All checks, by kind and subject. */
export const listWatches = (reader: Reader): WatchRow[] =>
  reader.all(all.orderBy('kind').orderBy('subject').orderBy('list'))

/** Whether any list returned a reliable answer about an address or a domain. */
export const isWatched = (reader: Reader, subject: string): boolean =>
  reader.first(all.where('subject', '=', subject).where('list', '!=', '').where('status', '!=', 'unknown').limit(1)) !==
  undefined

/** The zones of the lists that contain an address or a domain. */
export const listedOn = (reader: Reader, subject: string): string[] =>
  reader.all(all.where('subject', '=', subject).where('status', '=', 'listed').orderBy('list')).map(({ list }) => list)

/** The PTR names of an address, and whether they are forward-confirmed, or null if unknown. */
export function reverseOf(
  reader: Reader,
  address: string,
): { reverse_dns: string | null; forward_confirmed: boolean | null } {
  const of = (kind: 'reverse' | 'forward'): WatchRow | undefined =>
    reader.first(all.where('subject', '=', address).where('kind', '=', kind).where('status', '!=', 'unknown'))
  const [reverse, forward] = [of('reverse'), of('forward')]
  return { reverse_dns: reverse?.answer || null, forward_confirmed: forward ? forward.status === 'clear' : null }
}

const nameOf = ({ kind, list, subject }: WatchedThing): string => `${kind} ${subject} ${list}`

/**
 * Adds new checks, and removes those that are no longer needed. `silent`: addresses may be missing because DNS did
 * not answer, so no address is removed.
 */
export function follow(
  tx: Tx,
  { silent, things }: { things: readonly WatchedThing[]; silent: boolean },
  now: number,
): void {
  const known = new Map(tx.all(all).map((row) => [nameOf(row), row]))
  for (const thing of things) {
    const row = known.get(nameOf(thing))
    known.delete(nameOf(thing))
    if (!row)
      tx.run(db.insertInto('watches').values({ ...thing, ...UNKNOWN, id: newId(now), since: now, created_at: now }))
    else if (row.hostname !== thing.hostname)
      tx.run(db.updateTable('watches').set({ hostname: thing.hostname }).where('key', '=', row.key))
  }
  const gone = [...known.values()].filter(({ kind }) => !silent || kind === 'domain_list')
  for (const { key } of gone) tx.run(db.deleteFrom('watches').where('key', '=', key))
}

const UNKNOWN = {
  status: 'unknown',
  answer: '',
  checked_at: null,
  seen: null,
  seen_at: null,
  round_at: null,
  due_at: null,
  told_at: null,
} as const

/** The queries that are reserved for the tests of lists during a round. */
const testCost = (lists: number): number => lists * TEST_QUESTIONS * (Math.ceil(SPREAD / BELIEVED) + 1)

const costOf = (group: readonly WatchRow[]): number =>
  group.reduce((sum, { kind }) => sum + (kind === 'reverse' ? REVERSE_QUESTIONS : kind === 'forward' ? 0 : 1), 0)

/** Chooses the checks of a round: whole subjects, oldest first, as many as the limit of queries allows. */
export function beginRound(tx: Tx, now: number): WatchRow[][] {
  const rows = tx.all(all.orderBy('round_at').orderBy('key'))
  let left = MOST_QUESTIONS - OWN_QUESTIONS - testCost(new Set(rows.flatMap(({ list }) => list || [])).size)
  const groups = [...Map.groupBy(rows, ({ subject }) => subject).values()].filter(
    (group) => (left -= costOf(group)) >= 0,
  )
  for (const { key } of groups.flat()) tx.run(db.updateTable('watches').set({ round_at: now }).where('key', '=', key))
  return groups
}

/** Spreads the subjects of a round over time. The second lookup of a change keeps its own time. */
export function spreadRound(tx: Tx, groups: readonly (readonly WatchRow[])[], now: number): void {
  for (const [at, group] of groups.entries())
    for (const { key, seen } of group)
      if (seen === null)
        tx.run(
          db
            .updateTable('watches')
            .set({ due_at: now + Math.floor((at * SPREAD) / groups.length) })
            .where('key', '=', key),
        )
}

/** The time of the last round, or undefined before the first. */
export const lastRound = (reader: Reader): number | undefined =>
  reader.one(raw<{ at: number | null }>('select max(round_at) as at from watches')).at ?? undefined

/** The checks that are due, by subject. */
export function dueWatches(reader: Reader, now: number): WatchRow[][] {
  const rows = reader.all(all.where('due_at', '<=', now).orderBy('due_at').orderBy('key').limit(MOST_QUESTIONS))
  return [...Map.groupBy(rows, ({ subject }) => subject).values()]
}

/** The time when the next check is due, or undefined without one. */
export const nextDue = (reader: Reader): number | undefined =>
  reader.one(raw<{ at: number | null }>('select min(due_at) as at from watches')).at ?? undefined

const MOVES: Record<WatchStatus, WatchMove> = { listed: 'list', wrong: 'fault', clear: 'clear', unknown: 'lose' }

/**
 * Stores an answer. Returns the changed row if the answer was the second of its kind, at least `apart` (ms) after the
 * first. Otherwise undefined.
 */
export function settle(
  tx: Tx,
  key: number,
  found: WatchAnswer,
  { apart, now }: { apart: number; now: number },
): WatchRow | undefined {
  const row = tx.first(all.where('key', '=', key))
  if (!row) return undefined
  const reading = { ...found, answer: found.answer.slice(0, MAX_ANSWER) }
  const settled = { checked_at: now, seen: null, seen_at: null, due_at: null }
  if (reading.state === row.status) {
    tx.run(
      db
        .updateTable('watches')
        .set({ ...settled, answer: reading.answer })
        .where('key', '=', key),
    )
    return undefined
  }
  const first = row.seen === reading.state && row.seen_at !== null ? row.seen_at : now
  if (first === now || now - first < apart) {
    const seen = { checked_at: now, seen: reading.state, seen_at: first, due_at: first + apart }
    tx.run(db.updateTable('watches').set(seen).where('key', '=', key))
    return undefined
  }
  const changed = { ...settled, answer: reading.answer, since: first }
  return move(tx, watchMachine, key, MOVES[reading.state], changed) && { ...row, ...changed, status: reading.state }
}
