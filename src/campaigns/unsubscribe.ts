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
// campaign and mail are deleted (D45). It is encrypted: recipient, list, domain and the length of the address cannot be
// read from it (D60).

export interface Leaving {
  /** Keys of the delivery, the sending domain and the audience. */
  delivery: number
  domain: number
  audience: number
  email: string
}

const MAC_BYTES = 12
const LABEL = 'unsubscribe'
/** The content is padded to a multiple of this many bytes. */
const BLOCK = 48

export function unsubscribeUrl(
  keyring: Keyring,
  publicUrl: string,
  { delivery, domain, audience, email }: Leaving,
): string {
  const content = JSON.stringify([delivery, domain, audience, email])
  const over = Buffer.byteLength(content) % BLOCK
  const padded = content + ' '.repeat(over === 0 ? 0 : BLOCK - over)
  return `${publicUrl}/u/${keyring.seal(LABEL, padded).toString('base64url')}`
}

/** Returns the content of a token, or undefined if this server did not issue it. */
export function readUnsubscribeToken(keyring: Keyring, token: string): Leaving | undefined {
  const bytes = Buffer.from(token, 'base64url')
  // The decoder ignores foreign characters and unused bits of the last character: only the exact form is accepted.
  if (bytes.toString('base64url') !== token) return undefined
  const content = opened(keyring, bytes) ?? signed(keyring, bytes)
  if (content === undefined) return undefined
  const [delivery, domain, audience, email] = JSON.parse(content) as [number, number, number, string]
  return { delivery, domain, audience, email }
}

function opened(keyring: Keyring, bytes: Buffer): string | undefined {
  try {
    return keyring.open(LABEL, bytes)
  } catch {
    return undefined
  }
}

/** Reads the first token format: not encrypted, with a signature in front. Links in sent emails must keep working. */
function signed(keyring: Keyring, bytes: Buffer): string | undefined {
  const body = bytes.subarray(MAC_BYTES)
  const holds = body.length > 0 && keyring.proves('unsubscribe', body, bytes.subarray(0, MAC_BYTES), MAC_BYTES)
  return holds ? body.toString() : undefined
}
