// Corrects rows that were written while the clock was wrong (D120). A clock that runs ahead creates waits and lifetimes
// that are far in the future once it is set back. A start long after the last run must not end the lifetime of mail
// that could not be tried in between.
import { COLUMNS } from './schema/tables.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

export interface SetBack {
  now: number
  /** By how much (ms) the clock was set back. 0 if not known. */
  by: number
  /** The lifetime (ms) of new mail. */
  lifetime: number
}

/** Moves back times that are too far ahead. Returns how many emails were affected. */
export function bringBack(tx: Tx, { by, lifetime, now }: SetBack): number {
  const limit = now + lifetime
  // If `by` is not known, a lifetime that is too long shows how far the clock ran ahead.
  const { changes } = tx.run(
    raw(
      `update deliveries set expires_at = min(expires_at, ?),
         next_attempt_at = case when next_attempt_at > ? then max(?, next_attempt_at - max(?, expires_at - ?)) else next_attempt_at end
       where status in ('queued', 'held', 'active') and (expires_at > ? or (? > 0 and next_attempt_at > ?))`,
      [limit, now, now, by, limit, limit, by, now],
    ),
  )
  // Jobs that were due under the wrong clock have been done, so times are never moved before the present.
  for (const { ahead, name, table } of COLUMNS)
    if (ahead === 'wait' && by > 0)
      tx.run(raw(`update ${table} set ${name} = max(?, ${name} - ?) where ${name} > ?`, [now, by, now]))
    else if (ahead === 'past') tx.run(raw(`update ${table} set ${name} = ? where ${name} > ?`, [now, now]))
    else if (ahead === 'forget') tx.run(raw(`delete from ${table} where ${name} > ?`, [now]))
    else if (typeof ahead === 'object')
      for (const { where = 'true', within } of ahead)
        tx.run(raw(`update ${table} set ${name} = ? where ${where} and ${name} > ?`, [now + within, now + within]))
  return changes
}

/**
 * Time in which the server did not run does not count for emails and domains: they keep the time that they had left at
 * the last run.
 */
export function lengthen(tx: Tx, { by, lifetime, now }: SetBack): number {
  const { changes } = tx.run(
    raw(
      `update deliveries set expires_at = min(expires_at + ?, ?)
       where status in ('queued', 'held', 'active') and expires_at > ? and expires_at < ?`,
      [by, now + lifetime, now - by, now + lifetime],
    ),
  )
  for (const column of ['status_at', 'poll_from', 'missing_since'])
    tx.run(raw(`update domains set ${column} = min(${column} + ?, ?) where ${column} <= ?`, [by, now, now - by]))
  tx.run(raw('update notices set created_at = min(created_at + ?, ?) where next_attempt_at is not null', [by, now]))
  return changes
}

/** The time (ms) of the newest row that the server writes for every job, or undefined. */
export const NEWEST = raw<{ at: number | null }>(
  `select max(at) as at from (select (select created_at from events order by key desc limit 1) as at
     union all select (select created_at from outbound_emails order by key desc limit 1)
     union all select (select received_at from inbound_messages order by key desc limit 1))`,
)
