// The tables of store: events and digests.
import type { EventType } from '../../states/events.ts'
import type { Flag, Json, Key } from '../columns.ts'

/** Digests of texts in other tables, kept by triggers (digests.ts). */
export interface Digests {
  of: number
  row_key: number
  digest: Uint8Array
}

export interface Events {
  key: Key
  id: string
  user_key: number
  domain_key: number | null
  email_key: number | null
  /** The campaign that the mail belongs to, or that the event is about. */
  campaign_key: number | null
  type: EventType
  data: Json
  created_at: number
}

/** Counts of mail events that were deleted. */
export interface EventSums {
  email_key: number
  type: EventType
  /** 0: no single delivery. */
  delivery: number
  machine: Flag
  campaign_key: number | null
  times: number
}

export interface StoreTables {
  digests: Digests
  events: Events
  event_sums: EventSums
}
