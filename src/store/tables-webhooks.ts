// The tables of webhooks, and of what owners are told.
import type { EventType } from '../states/events.ts'
import type { WebhookStatus } from '../states/webhook.ts'
import type { Outcome } from '../states/webhook-delivery.ts'
import type { Flag, Json, Key } from './columns.ts'

export interface Webhooks {
  key: Key
  id: string
  user_key: number
  domain_key: number
  name: string
  url: string
  /** EventType[] or ["*"] */
  events: Json
  status: WebhookStatus
  disabled_reason: 'gone' | 'failures' | null
  /** Failed attempts since the last success. */
  consecutive_failures: number
  /** An endpoint that fails is left alone until then. */
  held_until: number | null
  secret_hint: string
  /** "whsec_…" under the instance key; null once deleted. */
  sealed_secret: Uint8Array | null
  sealed_previous: Uint8Array | null
  /** The previous secret signs until then. */
  previous_until: number | null
  deleted_at: number | null
  created_at: number
  updated_at: number
}

export interface OutboundWebhooks {
  key: Key
  /** Also the webhook-id header. */
  id: string
  user_key: number
  webhook_key: number
  event: EventType
  /** The mail that the event is about, '' for others: events about one mail are sent one after the other. */
  about: string
  /** The body as it is sent, byte for byte. */
  payload: string
  status: Outcome
  attempts: number
  next_attempt_at: number | null
  leased_until: number | null
  response_status: number | null
  response_body: string | null
  /** Why the last attempt failed, in words. */
  reason: string | null
  /** The id of the delivery that it repeats. */
  replay_of: string | null
  created_at: number
  updated_at: number
}

export interface WebhookAttempts {
  key: Key
  delivery_key: number
  number: number
  at: number
  /** Milliseconds. */
  duration: number
  response_status: number | null
  response_body: string | null
  reason: string | null
}

/** How far a reader of the event log has come. */
export interface EventCursors {
  reader: string
  event_key: number
}

/** What an owner should know, told by mail where a domain can send it. */
export interface Notices {
  key: Key
  id: string
  /** Null: it is the operator's, who is no user. */
  user_key: number | null
  /** Where it goes when not to the user's address. */
  recipient: string | null
  /** The domain that it is about, if any. */
  domain_key: number | null
  subject: string
  text: string
  /** 2: it is only for the list, or was given up. */
  mailed: Flag | 2
  attempts: number
  /** Null: it is not to be mailed any more. */
  next_attempt_at: number | null
  /** What the last attempt came to. */
  response: string | null
  created_at: number
}
