// The statements that claim received messages for examination. A claim counts as an attempt and holds the message for
// the length of a lease. New messages have 0 attempts. Only messages that an ended process had claimed have more.
// A message that waits in the memory of this process is leased too, without a claim: so a message is due only while no
// process knows it.
import { HOUR } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import type { Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { InboundMessage, WaitingMessage } from './queue.ts'

/** Longer than a message waits in memory. A start ends all leases. */
export const LEASE = HOUR

export const insertWaiting = statement<RowOf<'inbound_waiting'>>()((arg) =>
  db.insertInto('inbound_waiting').values({
    message_key: arg.message_key,
    attempts: arg.attempts,
    next_attempt_at: arg.next_attempt_at,
  }),
)

export const endWait = statement<{ key: number }>()((arg) =>
  db.deleteFrom('inbound_waiting').where('message_key', '=', arg.key),
)

/** Due messages that no process had claimed, the oldest first. */
export const due = (now: number, limit: number) =>
  raw<WaitingMessage>(
    `select m.key, m.client from inbound_waiting w join inbound_messages m on m.key = w.message_key
     where w.next_attempt_at <= ? and w.attempts = 0 order by w.message_key limit ?`,
    [now, limit],
  )

/** Leases the messages with these keys, which wait in memory. */
export const lease = (now: number, keys: readonly number[]) =>
  raw('update inbound_waiting set next_attempt_at = ? where message_key in (select value from json_each(?))', [
    now + LEASE,
    JSON.stringify(keys),
  ])

const UNCLAIMED = 'message_key in (select value from json_each(?)) and attempts = 0'

interface ClaimedKey {
  key: number
  attempts: number
}

/** Claims the messages with these keys that must still be examined and that are not claimed. */
export const named = (tx: Tx, now: number, keys: readonly number[]): InboundMessage[] =>
  messagesOf(
    tx,
    tx.all(
      raw<ClaimedKey>(
        `update inbound_waiting set attempts = attempts + 1, next_attempt_at = ? where ${UNCLAIMED}
         returning message_key as key, attempts`,
        [now + LEASE, JSON.stringify(keys)],
      ),
    ),
  )

/** Like `named`, for messages in memory that are leased: only their keys are returned. */
export const leased = (keys: readonly number[]) =>
  raw<Pick<ClaimedKey, 'key'>>(
    `update inbound_waiting set attempts = attempts + 1 where ${UNCLAIMED} returning message_key as key`,
    [JSON.stringify(keys)],
  )

/** Claims again a message that an ended process had claimed. */
export const suspected = (tx: Tx, now: number, key: number): InboundMessage | undefined =>
  messagesOf(
    tx,
    tx.all(
      raw<ClaimedKey>(
        `update inbound_waiting set attempts = attempts + 1, next_attempt_at = ?
         where message_key = ? and attempts > 0 returning message_key as key, attempts`,
        [now + LEASE, key],
      ),
    ),
  )[0]

function messagesOf(tx: Tx, claims: readonly ClaimedKey[]): InboundMessage[] {
  if (claims.length === 0) return []
  const keys = JSON.stringify(claims.map(({ key }) => key))
  const rows = tx.all(
    raw<RowOf<'inbound_messages'>>('select * from inbound_messages where key in (select value from json_each(?))', [
      keys,
    ]),
  )
  const byKey = new Map(rows.map((row) => [row.key, row]))
  return claims.map(({ attempts, key }) => ({ ...must(byKey.get(key), 'A message that waits'), attempts }))
}

/** The messages that an ended process had claimed, those with the fewest attempts first. */
export const suspects = raw<{ key: number }>(
  'select message_key as key from inbound_waiting where attempts > 0 order by attempts, next_attempt_at',
)

/** When the first message is due that no ended process had claimed, in epoch ms. */
export const earliest = raw<{ at: number | null }>(
  'select min(next_attempt_at) as at from inbound_waiting where attempts = 0',
)

/** Makes every message due that was claimed, leased or waited when the last process ended. */
export const release = (now: number) => raw('update inbound_waiting set next_attempt_at = ?', [now])

/** Ends a claim as if it had not been made. The message is due at `at`. */
export const unclaim = (key: number, at: number) =>
  raw('update inbound_waiting set next_attempt_at = ?, attempts = max(attempts - 1, 0) where message_key = ?', [
    at,
    key,
  ])
