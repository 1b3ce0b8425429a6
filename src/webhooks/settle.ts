// Writes the result of an attempt at a webhook: retries, and the effects of failures on the endpoint (D53, D54).
import type { Config } from '../base/config.ts'
import { retryAfter, retryDelay, stepOf } from '../base/retry.ts'
import { addNotice, type NewNotice } from '../users/notices.ts'
import { webhookMachine } from '../store/states/webhook.ts'
import { webhookDeliveryMachine } from '../store/states/webhook-delivery.ts'
import type { Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import { db, statement } from '../store/query.ts'
import { holdWaiting, webhookByKey, type Webhook, type WebhookDelivery } from './endpoints.ts'
import type { Posted } from './post.ts'

const MAX_ATTEMPTS = 10
/** From this many failures in a row on, an endpoint gets one delivery at a time. */
export const PROBE_FROM = 3
const DISABLE_AT = 10

/** Whether the endpoint accepted the delivery. */
export const isFine = ({ reason, status }: Posted): boolean =>
  status !== null && status >= 200 && status < 300 && reason === null

/** Whether the stored payload is still the one that was sent. */
const kept = (tx: Tx, { key, payload }: WebhookDelivery): boolean =>
  tx.first(payloadByKey({ key }))?.payload === payload

const payloadByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('outbound_webhooks').select('payload').where('key', '=', arg.key),
)

interface WebhookSettling {
  delivery: WebhookDelivery
  response: Posted
  config: Pick<Config, 'webhooks'>
  /** The start of the attempt. */
  at: number
  now: number
  duration: number
}

/** Writes the result of an attempt. Returns why the endpoint was disabled, undefined when it was not. */
export function settle(tx: Tx, { at, config, delivery, duration, now, response }: WebhookSettling): string | undefined {
  const { reason, status } = response
  // An address was erased from the payload during the attempt. The response can contain it, so it is not stored.
  const body = kept(tx, delivery) ? response.body : null
  const fine = isFine(response)
  const why = fine ? null : (reason ?? `returned status ${status}`)
  const shown = { response_status: status, response_body: body, reason: why }
  tx.run(
    db
      .insertInto('webhook_attempts')
      .values({ delivery_key: delivery.key, number: delivery.attempts, at, duration, ...shown }),
  )
  const webhook = webhookByKey(tx, delivery.webhook_key)
  const set = { ...shown, leased_until: null, updated_at: now }
  if (fine) {
    move(tx, webhookDeliveryMachine, delivery.key, 'accept', set)
    if (webhook && webhook.consecutive_failures > 0)
      tx.run(
        db.updateTable('webhooks').set({ consecutive_failures: 0, held_until: null }).where('key', '=', webhook.key),
      )
    return undefined
  }
  const delay =
    status === 429
      ? (retryAfter(response.retryAfter, now) ?? retryDelay(config.webhooks.retry, delivery.attempts))
      : retryDelay(config.webhooks.retry, delivery.attempts)
  const over = delivery.attempts >= Math.min(MAX_ATTEMPTS, config.webhooks.retry.length + 1)
  if (over) move(tx, webhookDeliveryMachine, delivery.key, 'give_up', set)
  else if (webhook?.status === 'active')
    move(tx, webhookDeliveryMachine, delivery.key, 'retry', { ...set, next_attempt_at: now + delay })
  else move(tx, webhookDeliveryMachine, delivery.key, 'hold', set)
  return webhook && noteFailure(tx, webhook, { at, config, now, status })
}

/** Counts a failure of an endpoint: held and probed from the third in a row, disabled at the tenth or by 410. */
function noteFailure(
  tx: Tx,
  webhook: Webhook,
  { at, config, now, status }: Pick<WebhookSettling, 'at' | 'config' | 'now'> & { status: number | null },
): string | undefined {
  // Requests that were running when the endpoint was held count as the failure for which it was held.
  const known = webhook.held_until !== null && at < webhook.held_until
  const failures = webhook.consecutive_failures + (known ? 0 : 1)
  const { probe } = config.webhooks
  const step = failures >= PROBE_FROM ? now + stepOf(probe, failures - PROBE_FROM + 1) : null
  const held = known ? webhook.held_until : step
  tx.run(
    db.updateTable('webhooks').set({ consecutive_failures: failures, held_until: held }).where('key', '=', webhook.key),
  )
  const on = status === 410 ? 'gone' : failures >= DISABLE_AT ? 'exhausted' : undefined
  if (!on) return undefined
  const reason = on === 'gone' ? 'gone' : 'failures'
  if (!move(tx, webhookMachine, webhook.key, on, { disabled_reason: reason, updated_at: now })) return undefined
  holdWaiting(tx, webhook.key, now)
  const why = on === 'gone' ? 'the endpoint returned 410 Gone' : `${failures} attempts in a row failed`
  addNotice(tx, noticeOf(webhook, why), now)
  return why
}

/** The notification to the owner of a disabled endpoint (specification "Receiver obligations and retries"). */
function noticeOf({ domain_key, id, name, url, user_key }: Webhook, why: string): NewNotice {
  return {
    user_key,
    domain_key,
    subject: `Webhook "${name}" was disabled`,
    text: `Postrider stopped sending events to your webhook "${name}" (${url}), because ${why}.

Postrider keeps recording events. When the endpoint works again, resume the webhook in the console (or PATCH
/webhooks/${id} with "active": true) and resend the deliveries that you need.
`,
  }
}
