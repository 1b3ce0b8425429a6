// Why a delivery of an event is pending or held: the state of its endpoint. All listed endpoints are read at once.
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Webhook, WebhookDelivery } from './endpoints.ts'
import { lastFailure } from './replay.ts'

type WaitingDelivery = Pick<WebhookDelivery, 'status' | 'webhook_key' | 'next_attempt_at'>

/** Why this server disabled a webhook. */
export const DISABLED: Readonly<Record<string, string>> = {
  gone: 'Webhook disabled: the endpoint returned 410 Gone',
  failures: 'Webhook disabled: too many attempts failed in a row',
}

/** Returns a function that returns why a delivery is not attempted now, or null, and the time of its next attempt. */
export function waitingReasons(
  reader: Reader,
  rows: readonly WaitingDelivery[],
): (row: WaitingDelivery) => { waiting_reason: string | null; next_attempt_at: number | null } {
  const waiting = rows.filter(({ status }) => status === 'pending' || status === 'held')
  const keys = JSON.stringify([...new Set(waiting.map(({ webhook_key }) => webhook_key))])
  const found =
    waiting.length === 0
      ? []
      : reader.all(raw<Webhook>('select * from webhooks where key in (select value from json_each(?))', [keys]))
  const known = new Map(found.map((webhook) => [webhook.key, { webhook, reason: reasonOf(reader, webhook) }]))
  return ({ next_attempt_at: next, status, webhook_key }) => {
    const { reason = null, webhook } = known.get(webhook_key) ?? {}
    if (status === 'pending')
      return { waiting_reason: reason, next_attempt_at: next && Math.max(next, webhook?.held_until ?? 0) }
    if (status !== 'held') return { waiting_reason: null, next_attempt_at: next }
    return {
      waiting_reason: webhook?.status === 'active' && webhook.deleted_at === null ? HELD : reason,
      next_attempt_at: next,
    }
  }
}

const HELD = 'Held while the webhook was paused or disabled'

/** Why deliveries of an endpoint wait, or null if they are attempted. */
function reasonOf(reader: Reader, { consecutive_failures, deleted_at, disabled_reason, key, status }: Webhook) {
  if (deleted_at !== null) return 'Webhook removed'
  if (status !== 'active') return DISABLED[disabled_reason ?? ''] ?? `Webhook ${status}`
  if (consecutive_failures === 0) return null
  const cause = lastFailure(reader, key)
  return `Endpoint failing${cause === null ? '' : `: ${cause}`}`
}
