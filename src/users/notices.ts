// Notifications to an account's owner, to one user or to the operator. A notification is stored in the transaction of
// its cause, and the server emails it.
import { stepOf } from '../base/retry.ts'
import { DAY, MINUTE } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { forInstance } from '../base/named-instance.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw, sql } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Notice = RowOf<'notices'>

export interface NewNotice {
  /** The account. Null is allowed only with `recipient`. */
  user_key: number | null
  /** The address, if the notification is for one user. By default, the owner of the account receives it. */
  recipient?: string
  /** The domain of the notification, if any. */
  domain_key: number | null
  subject: string
  text: string
}

/** How long a notification is retried. */
const PATIENCE = 7 * DAY
/** The delays between attempts. The last one repeats. */
const RETRY = [1, 5, 15, 30, 60, 120, 240, 360].map((minutes) => minutes * MINUTE)

/**
 * The address of an account's owner, as SQL: the user whose account it is, or if they are no longer an owner, the owner
 * who joined first. Notifications use it when they are sent, so that former owners get none.
 */
const ownerOf = (account: string): string =>
  `(select u.email from members m join users u on u.key = m.member_key
    where m.user_key = ${account} and m.role = 'owner' and m.joined_at is not null
    order by u.locked_at is not null, m.member_key <> m.user_key, m.joined_at, m.key limit 1)`

/** The address of an account's owner, or undefined if it has none. */
export const ownerAddress = (reader: Reader, account: number): string | undefined =>
  reader.first(raw<{ email: string | null }>(`select ${ownerOf('?')} as email`, [account]))?.email ?? undefined

/** Stores a notification and returns its id. `mailed` 2 means that it is only listed. */
export function addNotice(tx: Tx, given: NewNotice, now: number, mailed: 0 | 2 = 0): string {
  const id = newId(now)
  const next_attempt_at = mailed === 0 ? now : null
  const text = forInstance(given.text)
  tx.run(db.insertInto('notices').values({ id, ...given, text, mailed, attempts: 0, next_attempt_at, created_at: now }))
  return id
}

const MAX_TEXT = 8 * 1024

/**
 * For events that untrusted senders can cause often: one notification per day for each domain and subject. It is not
 * emailed, but counts and lists the events.
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
  if (!today) return void addNotice(tx, { ...given, text: `1 in the last 24 hours. ${given.text}\n\n${entry}` }, now, 2)
  const count = Number(/^\d+/.exec(today.text)?.[0] ?? 0) + 1
  const counted = today.text.replace(/^\d+/, String(count))
  const text = counted.length + entry.length < MAX_TEXT ? `${counted}\n${entry}` : counted
  tx.run(db.updateTable('notices').set({ text }).where('key', '=', today.key))
}

export type AddressedNotice = Notice & { email: string }

const addressed = db
  .selectFrom('notices')
  .leftJoin('users', 'users.key', 'notices.user_key')
  .selectAll('notices')
  .select(sql<string>`coalesce(notices.recipient, ${sql.raw(ownerOf('notices.user_key'))}, users.email)`.as('email'))

export const findNotice = (reader: Reader, id: string): Notice | undefined =>
  reader.first(db.selectFrom('notices').selectAll().where('id', '=', id))

/** Cancels the email of an obsolete notification. */
export function dropNotice(tx: Tx, id: string): void {
  tx.run(
    db.updateTable('notices').set({ mailed: 2, next_attempt_at: null }).where('id', '=', id).where('mailed', '=', 0),
  )
}

/** The last 200 notifications, newest first. */
export function listNotices(reader: Reader): AddressedNotice[] {
  return reader.all(addressed.orderBy('notices.key', 'desc').limit(200))
}

/** The next notifications to email, earliest first, without the ones in progress. */
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
 * Called after an attempt. A permanently rejected notification is retried once a day, because the mailbox may be fixed.
 * Returns true after the last attempt.
 */
export function endAttempt(
  tx: Tx,
  { created_at, email, key }: AddressedNotice,
  { response, result }: { result: 'mailed' | 'later' | 'refused'; response: string },
  now: number,
): boolean {
  const one = tx.first(db.selectFrom('notices').select('next_attempt_at').where('key', '=', key))
  // The owner and the notification were removed during the attempt.
  if (!one) return true
  const next = result === 'refused' ? now + DAY : (one.next_attempt_at ?? now)
  const over = result === 'mailed' || next > created_at + PATIENCE
  const mailed = result === 'mailed' ? 1 : over ? 2 : 0
  tx.run(
    db
      .updateTable('notices')
      .set({ mailed, response, next_attempt_at: over ? null : next, ...(over && { recipient: email }) })
      .where('key', '=', key),
  )
  return over
}
