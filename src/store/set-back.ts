// What a clock that was wrong left in the tables, and how it is put right (D120). A clock that runs ahead makes waits
// and lifetimes that lie far in the future once it is set back; a start long after the last sign of life must not end
// the lifetime of mail that nobody could try meanwhile.
import { DAY, HOUR, MINUTE } from '../base/clock.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

/**
 * Times until which something waits: moved earlier by as much as the clock was set back, never before now. What was due
 * under the clock that ran ahead has been done.
 */
export const WAITS = [
  'outbound_webhooks.next_attempt_at',
  'webhooks.held_until',
  'inbound_messages.next_attempt_at',
  'privacy_requests.next_attempt_at',
  'notices.next_attempt_at',
  'domains.next_check_at',
  'agents.next_slot_at',
  'sign_in_links.expires_at',
  'oauth_grants.code_expires_at',
] as const

/** Ends that lie at most this far (ms) from now, whenever they were made. */
export const ENDS = [
  ['deliveries.leased_until', 4 * HOUR, 'true'],
  ['outbound_webhooks.leased_until', MINUTE, 'true'],
  ['oauth_tokens.expires_at', HOUR, `kind = 'access'`],
  ['oauth_tokens.expires_at', 90 * DAY, `kind = 'refresh'`],
  ['oauth_clients.fresh_until', DAY, 'true'],
  ['suppressions.expires_at', 30 * DAY, `reason = 'soft_bounce'`],
] as const

/** Moments that have passed, so that none of them lies ahead. */
export const MOMENTS = [
  'sessions.created_at',
  'sessions.seen_at',
  'tokens.last_used_at',
  'soft_bounces.at',
  'deliveries.delayed_at',
  'deliveries.trouble_since',
  'domains.status_at',
  'domains.poll_from',
  'domains.missing_since',
  'agents.status_at',
] as const

/** What is only remembered: it is forgotten when it was learned in the future. */
const REMEMBERED = ['learned_lanes.learned_at', 'sts_policies.fetched_at'] as const

const parts = (name: string): [table: string, column: string] => name.split('.') as [string, string]

export interface SetBack {
  now: number
  /** By how much (ms) the clock was set back; 0: not known. */
  by: number
  /** The lifetime (ms) of new mail. */
  lifetime: number
}

/** Brings times that lie too far ahead back; returns how many mails wait no longer than they should. */
export function bringBack(tx: Tx, { by, lifetime, now }: SetBack): number {
  const limit = now + lifetime
  // A lifetime that ends too late says by how much the clock ran ahead when nothing else does.
  const { changes } = tx.run(
    raw(
      `update deliveries set expires_at = min(expires_at, ?),
         next_attempt_at = case when next_attempt_at > ? then max(?, next_attempt_at - max(?, expires_at - ?)) else next_attempt_at end
       where status in ('queued', 'held', 'active') and (expires_at > ? or (? > 0 and next_attempt_at > ?))`,
      [limit, now, now, by, limit, limit, by, now],
    ),
  )
  for (const [table, column] of by > 0 ? WAITS.map(parts) : [])
    tx.run(raw(`update ${table} set ${column} = max(?, ${column} - ?) where ${column} > ?`, [now, by, now]))
  for (const [name, length, where] of ENDS) {
    const [table, column] = parts(name)
    tx.run(raw(`update ${table} set ${column} = ? where ${where} and ${column} > ?`, [now + length, now + length]))
  }
  for (const [table, column] of MOMENTS.map(parts))
    tx.run(raw(`update ${table} set ${column} = ? where ${column} > ?`, [now, now]))
  for (const [table, column] of REMEMBERED.map(parts)) tx.run(raw(`delete from ${table} where ${column} > ?`, [now]))
  return changes
}

/**
 * Time in which nothing ran counts against no mail and no domain: what was left of their time at the last sign of life
 * is left now.
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

/** The time (ms) of the newest row that the server writes for every work; undefined when there is none. */
export const NEWEST = raw<{ at: number | null }>(
  `select max(at) as at from (select (select created_at from events order by key desc limit 1) as at
     union all select (select created_at from outbound_emails order by key desc limit 1)
     union all select (select received_at from inbound_messages order by key desc limit 1))`,
)
