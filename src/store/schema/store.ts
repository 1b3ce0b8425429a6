// The tables of store: events and digests.
import type { EventType } from '../states/events.ts'
import { blob, flag, id, integer, json, key, tablesOf, time, word } from './table.ts'

export const storeTables = tablesOf('store', {
  /** Digests of texts in other tables, kept by triggers (store/digests.ts). */
  digests: {
    undigested: 'the digests',
    columns: {
      of: integer(),
      row_key: integer(),
      digest: blob(),
    },
  },
  events: {
    undigested: 'a log; what is pushed of it is a row of outbound_webhooks',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer({ null: true }),
      email_key: integer({ null: true }),
      /** The campaign that the mail belongs to, or that the event is about. */
      campaign_key: integer({ null: true }),
      type: word<EventType>(),
      data: json({ person: 'mark', held: true }),
      created_at: time(),
    },
  },
  /** Counts of deleted email events. */
  event_sums: {
    undigested: 'figures',
    columns: {
      email_key: integer(),
      type: word<EventType>(),
      /** 0: no single delivery. */
      delivery: integer(),
      machine: flag(),
      campaign_key: integer({ null: true }),
      times: integer(),
    },
  },
})
