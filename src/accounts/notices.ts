// Notices to an account's owner or to the operator. A notice is stored in the transaction of its cause, and the server
// itself mails it.
import { stepOf } from '../base/retry.ts'
import { DAY, MINUTE } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, sql } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'

export type Notice = RowOf<'notices'>

export interface NewNotice {
  /** Null is allowed only with `recipient`. */
  user_key: number | null
  /** The address, when it is not the user's own. */
  recipient?: string
  /** The domain that the notice is about, if any. */
  domain_key: number | null
  subject: string
  text: string
}

/** A notice is retried for this long. */
const PATIENCE = 7 * DAY
/** The delays between attempts; the last one repeats. */
const RETRY = [1, 5, 15, 30, 60, 120, 240, 360].map((minutes) => minutes * MINUTE)

/** Stores a notice and returns its id. `mailed` 2: it is only listed, not mailed. */
export function addNotice(tx: Tx, given: NewNotice, now: number, mailed: 0 | 2 = 0): string {
  const id = newId(now)
  const next_attempt_at = mailed === 0 ? now : null
  tx.run(db.insertInto('notices').values({ id, ...given, mailed, attempts: 0, next_attempt_at, created_at: now }))
  return id
}

const MAX_TEXT = 8 * 1024

/**
 * For events that strangers can cause often: one notice a day for each domain and subject. It is not mailed; it counts
 * and lists the events.
 */
export function countInNotice(tx: Tx, given: NewNotice, entry: string, now: number): void {
  const today = tx.first(
    db
      .selectFrom('notices')
      .select(['key', 'text'])
      .where('domain_key', '=', given.domain_key)
      .where('subject', '=', given.subject)
      .where('created_at', '>', now - DAY)
      .orderBy('key', 'desc')
      .limit(1),
  )
  if (!today) return void addNotice(tx, { ...given, text: `1 within a day. ${given.text}\n\n${entry}` }, now, 2)
  const count = Number(/^\d+/.exec(today.text)?.[0] ?? 0) + 1
  const counted = today.text.replace(/^\d+/, String(count))
  const text = counted.length + entry.length < MAX_TEXT ? `${counted}\n${entry}` : counted
  tx.run(db.updateTable('notices').set({ text }).where('key', '=', today.key))
}

/** A notice with its address. */
export type AddressedNotice = Notice & { email: string }

const addressed = db
  .selectFrom('notices')
  .leftJoin('users', 'users.key', 'notices.user_key')
  .selectAll('notices')
  .select(sql<string>`coalesce(notices.recipient, users.email)`.as('email'))

/** One notice by its id. */
export const findNotice = (reader: Reader, id: string): Notice | undefined =>
  reader.first(db.selectFrom('notices').selectAll().where('id', '=', id))

/** Stops mailing a notice that is not needed any more. */
export function dropNotice(tx: Tx, id: string): void {
  tx.run(
    db.updateTable('notices').set({ mailed: 2, next_attempt_at: null }).where('id', '=', id).where('mailed', '=', 0),
  )
}

/** The last 200 notices, newest first. */
export function listNotices(reader: Reader): AddressedNotice[] {
  return reader.all(addressed.orderBy('notices.key', 'desc').limit(200))
}

/** The next notices to mail, earliest first, without the ones in progress. */
export function nextNotices(reader: Reader, busy: readonly number[], limit: number): AddressedNotice[] {
  return reader.all(
    addressed
      .where('notices.next_attempt_at', 'is not', null)
      .where('notices.key', 'not in', busy)
      .orderBy('notices.next_attempt_at')
      .limit(limit),
  )
}

/**
 * Called before an attempt: counts it and sets the time of the next one, in case the process ends during the attempt.
 */
export function beginAttempt(tx: Tx, { attempts, key }: Notice, now: number): void {
  const delay = stepOf(RETRY, attempts + 1)
  tx.run(
    db
      .updateTable('notices')
      .set({ attempts: attempts + 1, next_attempt_at: now + delay })
      .where('key', '=', key),
  )
}

/**
 * Called after an attempt. A permanently refused notice is tried again once a day, because the mailbox may be repaired.
 * True after the last attempt.
 */
export function endAttempt(
  tx: Tx,
  { created_at, key }: Notice,
  { response, result }: { result: 'mailed' | 'later' | 'refused'; response: string },
  now: number,
): boolean {
  const one = tx.first(db.selectFrom('notices').select('next_attempt_at').where('key', '=', key))
  // The owner was removed during the attempt, and the notice with the owner.
  if (!one) return true
  const next = result === 'refused' ? now + DAY : (one.next_attempt_at ?? now)
  const over = result === 'mailed' || next > created_at + PATIENCE
  const mailed = result === 'mailed' ? 1 : over ? 2 : 0
  tx.run(
    db
      .updateTable('notices')
      .set({ mailed, response, next_attempt_at: over ? null : next })
      .where('key', '=', key),
  )
  return over
}
