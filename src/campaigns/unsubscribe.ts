// Unsubscribing (D45): writes a marketing suppression on the sending domain, and the event email.unsubscribed once.
// Contacts follow the suppression by trigger. It works when contact, campaign and mail are deleted.
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { openToken, sealToken, tokenBytes } from '../base/sealed-token.ts'
import { emailOf, emit, type Delivery } from '../delivery/results/settle.ts'
import {
  keptForm,
  livingDomain,
  marketingSuppressed,
  suppress,
  takeAll,
  type Suppression,
} from '../suppressions/suppressions.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'

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

export function hasLeft({ keyring, store }: LeaveDeps, leaving: Leaving): boolean {
  const domain = livingDomain(store, leaving.domain)
  return marketingSuppressed(store, domain, keptForm(store, keyring, domain, leaving.email))
}

// The token of an unsubscribe link. It holds all data for unsubscribing, so that a link still works when contact,
// campaign and mail are deleted (D45).

export interface Leaving {
  /** Keys of the delivery, the sending domain and the audience. */
  delivery: number
  domain: number
  audience: number
  email: string
}

const MAC_BYTES = 12
const LABEL = 'unsubscribe'

type LeavingValues = [delivery: number, domain: number, audience: number, email: string]

export const unsubscribeUrl = (
  keyring: Keyring,
  publicUrl: string,
  { delivery, domain, audience, email }: Leaving,
): string => `${publicUrl}/u/${sealToken(keyring, LABEL, [delivery, domain, audience, email])}`

/** Returns the content of a token, or undefined if this server did not issue it. */
export function readUnsubscribeToken(keyring: Keyring, token: string): Leaving | undefined {
  const values = openToken<LeavingValues>(keyring, LABEL, token) ?? signed(keyring, token)
  if (!values) return undefined
  const [delivery, domain, audience, email] = values
  return { delivery, domain, audience, email }
}

/** Reads the first token format: not encrypted, with a signature in front. Links in sent emails must keep working. */
function signed(keyring: Keyring, token: string): LeavingValues | undefined {
  const bytes = tokenBytes(token)
  if (!bytes) return undefined
  const body = bytes.subarray(MAC_BYTES)
  const holds = keyring.proves('unsubscribe', body, bytes.subarray(0, MAC_BYTES), MAC_BYTES)
  return holds ? (JSON.parse(body.toString()) as LeavingValues) : undefined
}
