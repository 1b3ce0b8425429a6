// The event log: one row for each event, written in the same transaction as its cause. Webhooks, statistics and
// reputation read it. `data` holds only what the resource itself does not show.
import { newId } from '../base/ids.ts'
import type { EventType } from '../states/events.ts'
import type { Tx } from './database.ts'
import { db, statement } from './query.ts'

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

const insert = statement<{
  id: string
  user_key: number
  domain_key: number | null
  email_key: number | null
  campaign_key: number | null
  type: EventType
  data: string
  created_at: number
}>()((arg) =>
  db.insertInto('events').values({
    id: arg.id,
    user_key: arg.user_key,
    domain_key: arg.domain_key,
    email_key: arg.email_key,
    campaign_key: arg.campaign_key,
    type: arg.type,
    data: arg.data,
    created_at: arg.created_at,
  }),
)

/** Writes an event and signals `EVENTS`. Call it in the transaction that writes the cause; `at` is in ms. */
export function appendEvent(tx: Tx, { type, user_key, domain_key, email_key, campaign_key, data, at }: NewEvent): void {
  tx.run(
    insert({
      id: newId(at),
      user_key,
      domain_key: domain_key ?? null,
      email_key: email_key ?? null,
      campaign_key: campaign_key ?? null,
      type,
      data: data ? JSON.stringify(data) : '{}',
      created_at: at,
    }),
  )
  tx.signal(EVENTS)
}
