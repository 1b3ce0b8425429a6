// The tables of webhooks: endpoints and deliveries of webhooks.
import type { EventType } from '../../states/events.ts'
import type { Outcome } from '../../states/webhook-delivery.ts'
import type { WebhookStatus } from '../../states/webhook.ts'
import type { Json, Key } from '../columns.ts'

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
  /** A failing endpoint gets no calls before this time. */
  held_until: number | null
  secret_hint: string
  /** "whsec_…", sealed with the instance key; null once deleted. */
  sealed_secret: Uint8Array | null
  sealed_previous: Uint8Array | null
  /** Until this time the previous secret signs too. */
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
  /** The mail that the event is about, '' for others: events about one mail are sent in order. */
  about: string
  /** The body as it is sent, byte for byte. */
  payload: string
  status: Outcome
  attempts: number
  next_attempt_at: number | null
  leased_until: number | null
  response_status: number | null
  response_body: string | null
  /** Why the last attempt failed, as a sentence. */
  reason: string | null
  /** The id of the delivery that this one repeats. */
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

/** The last event that a reader of the event log has read. */
export interface EventCursors {
  reader: string
  event_key: number
}

export interface WebhooksTables {
  webhooks: Webhooks
  outbound_webhooks: OutboundWebhooks
  webhook_attempts: WebhookAttempts
  event_cursors: EventCursors
}
