// The tables of webhooks: endpoints and deliveries of webhooks.
import { MINUTE } from '../../base/clock.ts'
import type { EventType } from '../states/events.ts'
import { OUTCOMES } from '../states/webhook-delivery.ts'
import { WEBHOOK_STATUSES } from '../states/webhook.ts'
import { blob, due, id, integer, json, key, oneOf, tablesOf, text, time, word } from './table.ts'

const ENDPOINT = 'what an endpoint said'
const CREDENTIAL = 'the endpoint refuses a wrong one'

export const webhooksTables = tablesOf('webhooks', {
  webhooks: {
    digest: 12,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      domain_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark' }),
      url: text({ digested: true, person: 'mark' }),
      /** EventType[] or ["*"] */
      events: json({ digested: true, nobody: 'types of events' }),
      status: oneOf(WEBHOOK_STATUSES),
      disabled_reason: oneOf(['gone', 'failures'], { null: true }),
      /** Failed attempts since the last success. */
      consecutive_failures: integer(),
      /** A failing endpoint gets no calls before this time. */
      held_until: due({ null: true, ahead: 'wait' }),
      secret_hint: text({ undigested: 'the end of a secret, for people', nobody: 'the end of a secret' }),
      /** "whsec_…", encrypted with the instance key. Null once deleted. */
      sealed_secret: blob({ null: true, digested: true }),
      sealed_previous: blob({ null: true, digested: true }),
      /** Until this time the previous secret signs too. */
      previous_until: due({ null: true, harmless: 'the former secret signs longer' }),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
      format: oneOf(['standard', 'listmonk']),
      /** For HTTP Basic. */
      username: text({ null: true, undigested: CREDENTIAL, nobody: 'a name for a program' }),
      /** Encrypted with the instance key. */
      sealed_password: blob({ null: true, undigested: CREDENTIAL }),
    },
  },
  outbound_webhooks: {
    digest: 23,
    columns: {
      key: key(),
      /** Also the webhook-id header. */
      id: id(),
      user_key: integer(),
      webhook_key: integer({ digested: true }),
      event: word<EventType>({ digested: true }),
      /** The email of the event, or ''. Events about one email are sent in order. */
      about: text({ undigested: 'the key of a mail', nobody: 'the key of a mail' }),
      /** The body as it is sent, byte for byte. */
      payload: json({ digested: true, person: 'own step', held: true }),
      status: oneOf(OUTCOMES),
      attempts: integer(),
      next_attempt_at: due({ null: true, ahead: 'wait' }),
      leased_until: due({ null: true, ahead: [{ within: MINUTE }] }),
      response_status: integer({ null: true }),
      response_body: text({ null: true, undigested: ENDPOINT, person: 'own step', held: true }),
      /** The reason of the last failure, as a sentence. */
      reason: text({ null: true, undigested: ENDPOINT, person: 'own step', held: true }),
      replay_of: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  webhook_attempts: {
    undigested: ENDPOINT,
    owned: 'delivery_key in (select key from outbound_webhooks where user_key = ?)',
    columns: {
      key: key(),
      delivery_key: integer(),
      number: integer(),
      at: time(),
      /** Milliseconds. */
      duration: integer(),
      response_status: integer({ null: true }),
      response_body: text({ null: true, person: 'mark' }),
      reason: text({ null: true, person: 'mark' }),
    },
  },
  /** The last event that a reader of the event log has read. */
  event_cursors: {
    undigested: 'names of readers',
    columns: {
      reader: text({ nobody: 'a part of the program' }),
      event_key: integer(),
    },
  },
})
