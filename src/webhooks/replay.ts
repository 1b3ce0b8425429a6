// A replay: a new delivery, with its own id, of an event that was delivered or failed before;
// the original stays as it is.
import type { Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'
import { webhookByKey } from './endpoints.ts'

export type WebhookDelivery = RowOf<'outbound_webhooks'>

/** Creates the new delivery, due at once. Throws 404 when its endpoint was removed. */
export function replayDelivery(
  { store, clock, ring }: { store: Store; clock: Clock; ring: () => void },
  key: number,
): Promise<WebhookDelivery> {
  return store.write((tx) => {
    const now = clock.now()
    const original = tx.first(db.selectFrom('outbound_webhooks').selectAll().where('key', '=', key))
    const webhook = original && webhookByKey(tx, original.webhook_key)
    if (!original || !webhook) throw refuse('not_found', 'The webhook of this delivery no longer exists.')
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
    return tx.first(db.selectFrom('outbound_webhooks').selectAll().where('key', '=', made))!
  })
}

export interface Attempt {
  number: number
  at: number
  duration: number
  response_status: number | null
  response_body: string | null
  reason: string | null
}

/** Every attempt of a delivery, in order. */
export function attemptsOf(reader: Reader, key: number): Attempt[] {
  return reader.all(
    db
      .selectFrom('webhook_attempts')
      .select(['number', 'at', 'duration', 'response_status', 'response_body', 'reason'])
      .where('delivery_key', '=', key)
      .orderBy('key'),
  )
}
