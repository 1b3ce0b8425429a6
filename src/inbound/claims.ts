// The statements that claim received messages for examination. A claim counts as an attempt and holds the message for
// the length of a lease. New messages have 0 attempts; only messages that an ended process had claimed have more.
import { HOUR } from '../base/clock.ts'
import { raw } from '../store/query.ts'
import type { InboundMessage } from './record.ts'

/** The most due messages that one query reads. */
const LOOKED_AT = 500
/** Longer than any examination takes: only a start releases claimed messages. */
const LEASE = HOUR

/** Claims due messages, at most `limit`, clients in turn: for each client `ofOne` minus the number in `held`, so that a
 *  busy client delays no other. Only the first few hundred due messages are read. */
export const due = (now: number, limit: number, held: Record<string, number>, ofOne: number) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key in (
       select waiting.key from (
         select key, next_attempt_at, client, row_number() over (partition by client order by next_attempt_at) as place
         from (select key, next_attempt_at, client from inbound_messages
               where next_attempt_at <= ? and attempts = 0 order by next_attempt_at limit ${LOOKED_AT})
       ) as waiting left join json_each(?) as held on held.key = client
       where place + coalesce(held.value, 0) <= ?
       order by place + coalesce(held.value, 0), waiting.next_attempt_at limit ?) returning *`,
    [now + LEASE, now, JSON.stringify(held), ofOne, limit],
  )

/** Claims the messages with these keys that must still be examined and that are not claimed. */
export const named = (now: number, keys: readonly number[]) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key in (select value from json_each(?)) and next_attempt_at is not null and attempts = 0 returning *`,
    [now + LEASE, JSON.stringify(keys)],
  )

/** Claims one of the messages that an ended process had claimed: the message with the fewest attempts. */
export const suspect = (now: number) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key = (select key from inbound_messages where next_attempt_at <= ? and attempts > 0
                  order by attempts, next_attempt_at limit 1) returning *`,
    [now + LEASE, now],
  )

/** A message that an ended process had claimed, if there is one. */
export const anySuspect = raw<{ key: number }>(
  'select key from inbound_messages where next_attempt_at is not null and attempts > 0 limit 1',
)

/** When the first message is due, in epoch ms; with `suspects` messages that an ended process had claimed count too. */
export const earliest = (suspects: boolean) =>
  raw<{ at: number | null }>(
    `select min(next_attempt_at) as at from inbound_messages
     where next_attempt_at is not null${suspects ? '' : ' and attempts = 0'}`,
  )

/** Makes every message due that was claimed or waited when the last process ended. */
export const release = (now: number) =>
  raw('update inbound_messages set next_attempt_at = ? where next_attempt_at is not null', [now])

/** Ends a claim as if it had not been made; the message is due at `at`. */
export const unclaim = (key: number, at: number) =>
  raw('update inbound_messages set next_attempt_at = ?, attempts = max(attempts - 1, 0) where key = ?', [at, key])
