// The statements that claim received messages for examination. A claim counts as an attempt and holds the message for
// the length of a lease. New messages have 0 attempts; only messages that an ended process had claimed have more.
//
// A message that waits in the memory of this process is leased too, without a claim: so a message is due only while no
// process knows it.
import { HOUR } from '../base/clock.ts'
import { raw } from '../store/query.ts'
import type { InboundMessage } from './record.ts'
import type { WaitingMessage } from './queue.ts'

/** Longer than a message waits in memory. A start ends all leases. */
export const LEASE = HOUR

/** Due messages that no process had claimed, the oldest first. */
export const due = (now: number, limit: number) =>
  raw<WaitingMessage>(
    `select key, client from inbound_messages where next_attempt_at <= ? and attempts = 0
     order by next_attempt_at limit ?`,
    [now, limit],
  )

/** Leases the messages with these keys, which wait in memory. */
export const lease = (now: number, keys: readonly number[]) =>
  raw(
    `update inbound_messages set next_attempt_at = ?
     where key in (select value from json_each(?)) and next_attempt_at is not null`,
    [now + LEASE, JSON.stringify(keys)],
  )

const UNCLAIMED = 'key in (select value from json_each(?)) and next_attempt_at is not null and attempts = 0'

/** Claims the messages with these keys that must still be examined and that are not claimed. */
export const named = (now: number, keys: readonly number[]) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ? where ${UNCLAIMED} returning *`,
    [now + LEASE, JSON.stringify(keys)],
  )

/** As `named`, for messages that memory holds and that are leased: only their keys are returned. */
export const leased = (keys: readonly number[]) =>
  raw<{ key: number }>(`update inbound_messages set attempts = attempts + 1 where ${UNCLAIMED} returning key`, [
    JSON.stringify(keys),
  ])

/** Claims again a message that an ended process had claimed. */
export const suspected = (now: number, key: number) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key = ? and next_attempt_at is not null and attempts > 0 returning *`,
    [now + LEASE, key],
  )

/** The messages that an ended process had claimed, those with the fewest attempts first. */
export const suspects = raw<{ key: number }>(
  `select key from inbound_messages where next_attempt_at is not null and attempts > 0
   order by attempts, next_attempt_at`,
)

/** When the first message is due that no ended process had claimed, in epoch ms. */
export const earliest = raw<{ at: number | null }>(
  'select min(next_attempt_at) as at from inbound_messages where next_attempt_at is not null and attempts = 0',
)

/** Makes every message due that was claimed, leased or waited when the last process ended. */
export const release = (now: number) =>
  raw('update inbound_messages set next_attempt_at = ? where next_attempt_at is not null', [now])

/** Ends a claim as if it had not been made; the message is due at `at`. */
export const unclaim = (key: number, at: number) =>
  raw('update inbound_messages set next_attempt_at = ?, attempts = max(attempts - 1, 0) where key = ?', [at, key])
