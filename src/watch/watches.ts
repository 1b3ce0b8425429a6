// The rows of the watch: what is looked after, which of it is due, and what an answer changes. A change counts after
// two equal answers (DV91), also across a restart: the first one is a column of the row.
import { DAY, MINUTE } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { RowOf } from '../schema/tables.ts'
import { watchMachine, type WatchMove, type WatchStatus } from '../states/watch.ts'
import type { Reader, Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import { BELIEVED, TEST_QUESTIONS, type WatchAnswer } from './lists.ts'
import { REVERSE_QUESTIONS } from './reverse.ts'
import type { WatchedThing } from './subjects.ts'

export type WatchRow = RowOf<'watches'>

/** The time over which a round is spread, and between two answers that count. */
export const SPREAD = 10 * MINUTE
/** The most questions of a round. */
export const MOST_QUESTIONS = 200
/** Questions about the addresses of the host name. */
const OWN_QUESTIONS = 2
const KEPT = 400 * DAY
const MAX_ANSWER = 500

const present = db.selectFrom('watches').selectAll().where('left_at', 'is', null)

/** Everything that is watched, in the order of subjects. */
export const listWatches = (reader: Reader): WatchRow[] =>
  reader.all(present.orderBy('kind').orderBy('subject').orderBy('list'))

/** A watch by its id, also one that has ended. */
export const watchById = (reader: Reader, id: string): WatchRow | undefined =>
  reader.first(db.selectFrom('watches').selectAll().where('id', '=', id))

/** The changes of a watch, the newest first. */
export const changesOf = (reader: Reader, watchKey: number): RowOf<'watch_changes'>[] =>
  reader.all(db.selectFrom('watch_changes').selectAll().where('watch_key', '=', watchKey).orderBy('key', 'desc'))

/** Whether any list gave an answer about an address or a domain that can be believed. */
export const isWatched = (reader: Reader, subject: string): boolean =>
  reader.first(
    present.where('subject', '=', subject).where('list', '!=', '').where('status', '!=', 'unknown').limit(1),
  ) !== undefined

/** The zones of the lists that have an address or a domain. */
export const listedOn = (reader: Reader, subject: string): string[] =>
  reader
    .all(present.where('subject', '=', subject).where('status', '=', 'listed').orderBy('list'))
    .map(({ list }) => list)

/** The names of an address, and whether they lead back; null: not known. */
export function reverseOf(
  reader: Reader,
  address: string,
): { reverse: string | null; forward_confirmed: boolean | null } {
  const of = (kind: 'reverse' | 'forward'): WatchRow | undefined =>
    reader.first(present.where('subject', '=', address).where('kind', '=', kind).where('status', '!=', 'unknown'))
  const [reverse, forward] = [of('reverse'), of('forward')]
  return { reverse: reverse?.answer || null, forward_confirmed: forward ? forward.status === 'clear' : null }
}

const placeOf = ({ kind, list, subject }: WatchedThing): string => `${kind} ${subject} ${list}`

/**
 * Adds what is new, and ends what is watched no more. `silent`: addresses may be missing because DNS did not answer;
 * then no address ends.
 */
export function follow(
  tx: Tx,
  { silent, things }: { things: readonly WatchedThing[]; silent: boolean },
  now: number,
): void {
  const known = new Map(tx.all(db.selectFrom('watches').selectAll()).map((row) => [placeOf(row), row]))
  for (const thing of things) {
    const row = known.get(placeOf(thing))
    known.delete(placeOf(thing))
    if (!row)
      tx.run(db.insertInto('watches').values({ ...thing, ...UNKNOWN, id: newId(now), since: now, created_at: now }))
    else if (row.left_at !== null)
      tx.run(
        db
          .updateTable('watches')
          .set({ left_at: null, since: now, hostname: thing.hostname })
          .where('key', '=', row.key),
      )
    else if (row.hostname !== thing.hostname)
      tx.run(db.updateTable('watches').set({ hostname: thing.hostname }).where('key', '=', row.key))
  }
  for (const row of known.values())
    if (row.left_at === null && !(silent && row.kind !== 'domain_list')) leave(tx, row, now)
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
  told_unknown_at: null,
  left_at: null,
} as const

/** What is known of something that is not watched would be shown for ever. */
function leave(tx: Tx, row: WatchRow, now: number): void {
  const { status: _, round_at: __, ...nothing } = UNKNOWN
  const answer = 'not watched any more'
  const set = { ...nothing, answer, since: now, left_at: now }
  if (row.status === 'unknown') tx.run(db.updateTable('watches').set(set).where('key', '=', row.key))
  else if (move(tx, watchMachine, row.key, 'lose', set)) note(tx, row, { state: 'unknown', answer }, now)
}

/** Removes what is older than the history is kept. */
export function forgetOld(tx: Tx, now: number): void {
  tx.run(db.deleteFrom('watch_changes').where('at', '<', now - KEPT))
  tx.run(db.deleteFrom('watches').where('left_at', '<', now - KEPT))
}

/** Questions that are kept for the tests of lists: in the time of a round each is tested so often. */
const testCost = (lists: number): number => lists * TEST_QUESTIONS * (Math.ceil(SPREAD / BELIEVED) + 1)

const costOf = (group: readonly WatchRow[]): number =>
  group.reduce((sum, { kind }) => sum + (kind === 'reverse' ? REVERSE_QUESTIONS : kind === 'forward' ? 0 : 1), 0)

/**
 * Chooses what a round asks about: whole subjects, those that waited longest first, as many as its questions allow.
 * Returns them by subject.
 */
export function beginRound(tx: Tx, now: number): WatchRow[][] {
  const rows = tx.all(present.orderBy('round_at').orderBy('key'))
  let left = MOST_QUESTIONS - OWN_QUESTIONS - testCost(new Set(rows.flatMap(({ list }) => list || [])).size)
  const groups = [...Map.groupBy(rows, ({ subject }) => subject).values()].filter(
    (group) => (left -= costOf(group)) >= 0,
  )
  for (const { key } of groups.flat()) tx.run(db.updateTable('watches').set({ round_at: now }).where('key', '=', key))
  return groups
}

/** Makes the subjects of a round due one after the other. The second answer to a change keeps its own time. */
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

/** The time of the last round; undefined when there was none. */
export const lastRound = (reader: Reader): number | undefined =>
  reader.one(raw<{ at: number | null }>('select max(round_at) as at from watches where left_at is null', [])).at ??
  undefined

/** What is due, by subject. */
export function dueWatches(reader: Reader, now: number): WatchRow[][] {
  const rows = reader.all(present.where('due_at', '<=', now).orderBy('due_at').orderBy('key').limit(MOST_QUESTIONS))
  return [...Map.groupBy(rows, ({ subject }) => subject).values()]
}

/** When the next one is due; undefined when none is. */
export const nextDue = (reader: Reader): number | undefined =>
  reader.one(raw<{ at: number | null }>('select min(due_at) as at from watches where left_at is null', [])).at ??
  undefined

const MOVES: Record<WatchStatus, WatchMove> = { listed: 'list', wrong: 'fault', clear: 'clear', unknown: 'lose' }

/**
 * Writes an answer. Returns the row after its change when the answer was the second of its kind, at least `apart` (ms)
 * after the first; undefined when nothing changed.
 */
export function settle(
  tx: Tx,
  key: number,
  found: WatchAnswer,
  { apart, now }: { apart: number; now: number },
): WatchRow | undefined {
  const row = tx.first(present.where('key', '=', key))
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
  const changed = { ...settled, answer: reading.answer, since: first, told_unknown_at: null }
  if (!move(tx, watchMachine, key, MOVES[reading.state], changed)) return undefined
  note(tx, row, reading, first)
  return { ...row, ...changed, status: reading.state }
}

function note(tx: Tx, { key, status }: WatchRow, { answer, state }: WatchAnswer, at: number): void {
  tx.run(db.insertInto('watch_changes').values({ watch_key: key, previous_state: status, state, answer, at }))
}
