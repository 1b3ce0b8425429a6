// Deliveries that a user requests: a replay of an event that was already delivered or failed, with a new id and without
// a change of the original, and an example event.
import { iso, type Clock } from '../base/clock.ts'
import { must, refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { textsOf } from '../base/json.ts'
import { isNameIn } from '../base/one-of.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { webhookByKey, type WebhookDelivery } from './endpoints.ts'
import { listmonkBody } from './listmonk.ts'
import { SAMPLES } from './samples.ts'

/** Creates the new delivery, due at once. Throws 404 if its endpoint was removed. */
export function replayDelivery(
  { store, clock, ring }: { store: Store; clock: Clock; ring: () => void },
  key: number,
): Promise<WebhookDelivery> {
  return store.write((tx) => {
    const now = clock.now()
    const original = tx.first(db.selectFrom('outbound_webhooks').selectAll().where('key', '=', key))
    const webhook = original && webhookByKey(tx, original.webhook_key)
    if (!original || !webhook)
      throw refuse(
        'not_found',
        'The webhook of this delivery no longer exists. Create a new webhook to receive events.',
      )
    const open = webhook.status === 'active'
    const { key: made } = tx.run(
      db.insertInto('outbound_webhooks').values({
        id: newId(now),
        user_key: original.user_key,
        webhook_key: original.webhook_key,
        event: original.event,
        about: original.about,
        payload: original.payload,
        status: open ? 'pending' : 'held',
        attempts: 0,
        next_attempt_at: open ? now : null,
        replay_of: original.id,
        created_at: now,
        updated_at: now,
      }),
    )
    tx.afterCommit(ring)
    return tx.one(db.selectFrom('outbound_webhooks').selectAll().where('key', '=', made))
  })
}

/**
 * Creates the delivery of an example event, due at once: of the first type that the webhook receives. Throws 422 when
 * the webhook is paused or disabled.
 */
export function deliverSample(
  { store, clock, ring }: { store: Store; clock: Clock; ring: () => void },
  webhook: Pick<RowOf<'webhooks'>, 'key' | 'user_key' | 'status' | 'events' | 'format'>,
): Promise<void> {
  if (webhook.status !== 'active')
    throw refuse('transition_not_allowed', `The webhook is ${webhook.status}. Resume it first ("active": true).`)
  const [heard] = textsOf(webhook.events)
  const isListmonk = webhook.format === 'listmonk'
  const event = isListmonk
    ? 'email.bounced'
    : heard !== undefined && isNameIn(SAMPLES, heard)
      ? heard
      : 'email.delivered'
  return store.write((tx) => {
    const now = clock.now()
    tx.run(
      db.insertInto('outbound_webhooks').values({
        id: newId(now),
        user_key: webhook.user_key,
        webhook_key: webhook.key,
        event,
        about: '',
        payload: isListmonk
          ? must(listmonkBody('email.bounced', SAMPLES['email.bounced']), 'The recipient of a sample')
          : JSON.stringify({ type: event, timestamp: iso(now), data: SAMPLES[event] }),
        status: 'pending',
        attempts: 0,
        next_attempt_at: now,
        created_at: now,
        updated_at: now,
      }),
    )
    tx.afterCommit(ring)
  })
}

export interface WebhookAttempt {
  number: number
  at: number
  duration: number
  response_status: number | null
  response_body: string | null
  reason: string | null
}

/** All attempts of a delivery, in order. */
export function attemptsOf(reader: Reader, key: number): WebhookAttempt[] {
  return reader.all(
    db
      .selectFrom('webhook_attempts')
      .select(['number', 'at', 'duration', 'response_status', 'response_body', 'reason'])
      .where('delivery_key', '=', key)
      .orderBy('key'),
  )
}

/** The last failure of an endpoint is searched among this many attempts of all endpoints. */
const LOOKED_AT = 10_000

/** The reason of an endpoint's last failed attempt, or null if it is not recent. */
export function lastFailure(reader: Reader, webhookKey: number): string | null {
  const row = reader.first(
    raw<{ reason: string }>(
      `select a.reason from webhook_attempts a join outbound_webhooks d on d.key = a.delivery_key
       where d.webhook_key = ? and a.reason is not null and a.key > (select max(key) from webhook_attempts) - ${LOOKED_AT}
       order by a.key desc limit 1`,
      [webhookKey],
    ),
  )
  return row?.reason ?? null
}
