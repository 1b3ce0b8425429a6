// Forgets an address in what was pushed to endpoints and in what they answered.
import type { Tx } from '../store/database.ts'
import { holds, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

const AT_ONCE = 200

/** Works on some deliveries and attempts; true when there are more. */
export function forgetInWebhooks(tx: Tx, erasing: Erasing): boolean {
  const { address, userKey } = erasing
  const deliveries = tx.all(
    raw<{ key: number; payload: string; response_body: string | null; reason: string | null }>(
      `select key, payload, response_body, reason from outbound_webhooks
       where user_key = ? and (${holds('payload')} or ${holds('response_body')} or ${holds('reason')}) limit ${AT_ONCE}`,
      [userKey, address, address, address],
    ),
  )
  const clean = (text: string | null): string | null => text && redact(text, erasing)
  for (const { key, payload, reason, response_body } of deliveries)
    tx.run(
      raw('update outbound_webhooks set payload = ?, response_body = ?, reason = ? where key = ?', [
        redact(payload, erasing),
        clean(response_body),
        clean(reason),
        key,
      ]),
    )
  const attempts = tx.all(
    raw<{ key: number; response_body: string | null; reason: string | null }>(
      `select a.key, a.response_body, a.reason from webhook_attempts a join outbound_webhooks w on w.key = a.delivery_key
       where w.user_key = ? and (${holds('a.response_body')} or ${holds('a.reason')}) limit ${AT_ONCE}`,
      [userKey, address, address],
    ),
  )
  for (const { key, reason, response_body } of attempts)
    tx.run(
      raw('update webhook_attempts set response_body = ?, reason = ? where key = ?', [
        clean(response_body),
        clean(reason),
        key,
      ]),
    )
  return deliveries.length === AT_ONCE || attempts.length === AT_ONCE
}
