// The event log: one row for each event, written in the same transaction as its cause. Webhooks, statistics and
// reputation read it. `data` holds only facts that the resource itself does not show.
import { newId } from '../base/ids.ts'
import type { EventType } from '../states/events.ts'
import type { Tx } from './database.ts'
import { raw } from './query.ts'

/** The signal of a commit that holds new events. */
export const EVENTS = 'events'

export interface NewEvent {
  type: EventType
  user_key: number
  domain_key?: number | null
  email_key?: number | null
  campaign_key?: number | null
  data?: Record<string, unknown>
  at: number
}

const COLUMNS = ['id', 'user_key', 'domain_key', 'email_key', 'campaign_key', 'type', 'data', 'created_at']
const row = `(${COLUMNS.map(() => '?').join(', ')})`

/** Writes events and signals `EVENTS`. Call it in the transaction that writes the cause; `at` is in ms. */
export function appendEvents(tx: Tx, events: readonly NewEvent[]): void {
  if (events.length === 0) return
  const values = events.flatMap(({ type, user_key, domain_key, email_key, campaign_key, data, at }) => [
    newId(at),
    user_key,
    domain_key ?? null,
    email_key ?? null,
    campaign_key ?? null,
    type,
    data ? JSON.stringify(data) : '{}',
    at,
  ])
  tx.run(raw(`insert into events (${COLUMNS.join(', ')}) values ${events.map(() => row).join(', ')}`, values))
  for (const { user_key } of events) tx.signal(EVENTS, user_key)
}

/** Writes one event; see `appendEvents`. */
export const appendEvent = (tx: Tx, event: NewEvent): void => appendEvents(tx, [event])
