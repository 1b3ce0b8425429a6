// Unsubscribing (D45): writes a marketing suppression on the sending domain, and the event email.unsubscribed once.
// Contacts follow the suppression by trigger. It works when contact, campaign and mail are deleted.
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { emailOf, emit, type Delivery } from '../delivery/results/settle.ts'
import {
  keptForm,
  livingDomain,
  marketingSuppressed,
  suppress,
  takeAll,
  type Suppression,
} from '../suppressions/suppressions.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { Leaving } from './unsubscribe-token.ts'

/** Unsubscribes the recipient of a delivery. False when the recipient was unsubscribed already. */
export function unsubscribe(
  tx: Tx,
  delivery: Pick<Delivery, 'key' | 'email_key' | 'address' | 'domain_key'>,
  source: Suppression['source'],
  now: number,
): boolean {
  const domain = livingDomain(tx, delivery.domain_key)
  const leaving = { delivery: delivery.key, domain, email: delivery.address }
  return leaveDomain(tx, leaving, source, now)
}

function leaveDomain(
  tx: Tx,
  { delivery, domain, email }: Pick<Leaving, 'delivery' | 'domain' | 'email'>,
  source: Suppression['source'],
  now: number,
): boolean {
  const owner = tx.first(db.selectFrom('domains').select(['key', 'user_key']).where('key', '=', domain))
  if (!owner || marketingSuppressed(tx, domain, email)) return false
  const entry = { user_key: owner.user_key, domain_key: domain, address: email, source }
  suppress(tx, { ...entry, reason: 'unsubscribe', scope: 'marketing' }, now)
  const sent = tx.first(db.selectFrom('deliveries').select('email_key').where('key', '=', delivery))
  const mail = sent && tx.first(emailOf({ key: sent.email_key }))
  if (mail) emit(tx, { email: mail, delivery: { key: delivery }, now }, 'email.unsubscribed', {})
  return true
}

export interface LeaveDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

/** Unsubscribes by a link. False when the recipient was unsubscribed already. */
export function leave({ clock, keyring, store }: LeaveDeps, leaving: Leaving): Promise<boolean> {
  return store.write((tx) => {
    const domain = livingDomain(tx, leaving.domain)
    const email = keptForm(tx, keyring, domain, leaving.email)
    return leaveDomain(tx, { ...leaving, domain, email }, 'unsubscribe_link', clock.now())
  })
}

/** Undoes `leave`: removes the unsubscribe suppression. */
export function rejoin({ clock, keyring, store }: LeaveDeps, leaving: Leaving): Promise<void> {
  return store.write((tx) => {
    const domain = livingDomain(tx, leaving.domain)
    takeAll(tx, domain, keptForm(tx, keyring, domain, leaving.email), clock.now(), 'unsubscribe')
  })
}

/** Whether the recipient is unsubscribed. */
export function hasLeft({ keyring, store }: LeaveDeps, leaving: Leaving): boolean {
  const domain = livingDomain(store, leaving.domain)
  return marketingSuppressed(store, domain, keptForm(store, keyring, domain, leaving.email))
}

/** The names of the sender as the unsubscribe page shows them. */
export function senderOf(reader: Reader, { domain, audience }: Leaving): { domain: string; audience: string | null } {
  const sender = reader.first(db.selectFrom('domains').select('name').where('key', '=', domain))
  const list = reader.first(db.selectFrom('audiences').select('name').where('key', '=', audience))
  return { domain: sender?.name ?? '', audience: list?.name ?? null }
}
