// A recipient wants no more mail of this kind (D45): a marketing suppression on the sending domain, and email.unsubscribed once.
import { emailOf, emit, type Delivery } from '../outbound/settle.ts'
import { marketingSuppressed, suppress, type Suppression } from '../outbound/suppressions.ts'
import type { Tx } from '../store/database.ts'

/** Unsubscribes the recipient of a delivery. Returns false when that had been done before. */
export function unsubscribe(
  tx: Tx,
  delivery: Pick<Delivery, 'key' | 'email_key' | 'address'>,
  source: Suppression['source'],
  now: number,
): boolean {
  const email = tx.first(emailOf({ key: delivery.email_key }))
  if (!email) return false
  const { domain_key, user_key } = email
  if (marketingSuppressed(tx, domain_key, delivery.address)) return false
  const entry = { user_key, domain_key, address: delivery.address, source }
  suppress(tx, { ...entry, reason: 'unsubscribe', scope: 'marketing' }, now)
  emit(tx, 'email.unsubscribed', email, delivery, {}, now)
  return true
}
