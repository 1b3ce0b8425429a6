// Proof of consent: why an address is in an audience. Every way in writes a consent in the transaction that writes the
// contact. A consent never holds the address: it names the contact, and keeps the hash of the address when the contact
// is removed.
import { DAY } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { newId } from '../base/ids.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import { consentMachine, type ConsentMove, type ConsentState } from '../store/states/consent.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Consent = RowOf<'consents'>

/** States of contacts that agreed, in contrast to requests. */
export const GRANTED = ['confirmed', 'single', 'asserted', 'imported'] as const satisfies readonly ConsentState[]

/** What is known about a consent. Absent members are unknown. */
const KNOWN = [
  'form_key',
  'form_version',
  'language',
  'text',
  'page',
  'origin',
  'request_client',
  'confirm_client',
  'message_id',
  'evidence',
  'person',
  'requested_at',
  'confirmed_at',
  'ended_at',
] as const
type KnownFacts = Pick<Consent, (typeof KNOWN)[number]>

/** How an address came into an audience. */
export type NewConsent = Pick<Consent, 'state' | 'source'> & Partial<KnownFacts>

/** The contact of a consent. Without a key, only the hash of the address is stored. */
export interface ConsentOf {
  user_key: number
  audience_key: number
  key: number | null
  email: string
}

const COLUMNS = [
  'id',
  'user_key',
  'audience_key',
  'contact_key',
  'recipient_hash',
  'state',
  'source',
  ...KNOWN,
  'released',
  'created_at',
  'updated_at',
] as const
type Inserted = Pick<Consent, (typeof COLUMNS)[number]>

const insertConsent = statement<Inserted>()((arg) =>
  db
    .insertInto('consents')
    .values(Object.fromEntries(COLUMNS.map((name) => [name, arg[name]])) as Inserted)
    .returningAll(),
)

/** Records a consent, in the transaction that writes its contact. */
export function recordConsent(
  tx: Tx,
  keyring: Keyring,
  { audience_key, email, key, user_key }: ConsentOf,
  { source, state, ...given }: NewConsent,
  now: number,
): Consent {
  const known = Object.fromEntries(KNOWN.map((name) => [name, given[name] ?? null])) as KnownFacts
  const row = { user_key, audience_key, contact_key: key, recipient_hash: recipientHash(keyring, email), state, source }
  return tx.one(insertConsent({ id: newId(now), ...row, ...known, released: 0, created_at: now, updated_at: now }))
}

/**
 * Moves a consent by its state table and sets other columns with it. Returns undefined if the table does not allow the
 * move, and then changes nothing.
 */
export function moveConsent(
  tx: Tx,
  { key, state }: Pick<Consent, 'key' | 'state'>,
  move: ConsentMove,
  now: number,
  set: Partial<Omit<Consent, 'key' | 'id' | 'state'>> = {},
): Consent | undefined {
  const row = consentMachine.next(state, move)
  if (!row) return undefined
  return tx.first(
    db
      .updateTable('consents')
      .set({ ...set, state: row.to, updated_at: now })
      .where('key', '=', key)
      .where('state', '=', state)
      .returningAll(),
  )
}

/** The consents of an address in an account, newest first: those of its contacts, and those that only have its hash. */
export function consentsOf(reader: Reader, keyring: Keyring, userKey: number, email: string): Consent[] {
  return reader.all(
    db
      .selectFrom('consents')
      .selectAll()
      .where('user_key', '=', userKey)
      .where((eb) =>
        eb.or([
          eb('recipient_hash', '=', recipientHash(keyring, email)),
          eb(
            'contact_key',
            'in',
            eb.selectFrom('contacts').select('key').where('user_key', '=', userKey).where('email', '=', email),
          ),
        ]),
      )
      .orderBy('key', 'desc'),
  )
}

/** Adds to a consent its confirmation email, or the contact that it leads to after the former one was removed. */
export function noteConsent(
  tx: Tx,
  { key }: Pick<Consent, 'key'>,
  set: Partial<Pick<Consent, 'contact_key' | 'message_id' | 'released'>>,
): void {
  tx.run(db.updateTable('consents').set(set).where('key', '=', key))
}

/** Ends the consents of a contact whose address its owner removes or replaces. They keep the hash of the address. */
export function endConsents(tx: Tx, keyring: Keyring, contact: { key: number; email: string }, now: number): void {
  tx.run(
    raw(
      `update consents set contact_key = null, recipient_hash = ?, ended_at = coalesce(ended_at, ?), updated_at = ? where contact_key = ?`,
      [recipientHash(keyring, contact.email), now, now, contact.key],
    ),
  )
}

/** Ends the requests to a contact that is subscribed. */
export function endRequests(tx: Tx, contact: { key: number }, now: number): void {
  for (const request of requestsOf(tx, contact.key)) moveConsent(tx, request, 'expire', now, { ended_at: now })
}

/** The open requests to a contact. */
export const requestsOf = (reader: Reader, contactKey: number): Consent[] =>
  reader.all(
    db.selectFrom('consents').selectAll().where('contact_key', '=', contactKey).where('state', '=', 'requested'),
  )

/**
 * Reduces the consents of an erased address to stubs (AU35): hash, form, version and times stay, to prove that the
 * contact had agreed. Must run before the contacts are deleted.
 */
export function eraseConsents(tx: Tx, userKey: number, address: string, hash: string, now: number): void {
  tx.run(
    raw(
      `update consents set state = 'erased', recipient_hash = ?, contact_key = null, language = null, text = null,
         page = null, origin = null, request_client = null, confirm_client = null, message_id = null, evidence = null,
         ended_at = coalesce(ended_at, ?), updated_at = ?
       where user_key = ? and (recipient_hash = ?
         or contact_key in (select key from contacts where user_key = ? and email = ?))`,
      [hash, now, now, userKey, hash, userKey, address],
    ),
  )
}

/** How long consents are kept after their end (ms). */
export interface ConsentRetention {
  keep_proof: number
  keep_requests: number
}

const AT_ONCE = 500

/** How long an address that refused gets no other request of the account (AU43). Its consent is kept that long. */
export const REFUSED_FOR = 90 * DAY

const refused = statement<{ user_key: number; recipient_hash: string; after: number }>()((arg) =>
  db
    .selectFrom('consents')
    .select('audience_key')
    .where('user_key', '=', arg.user_key)
    .where('recipient_hash', '=', arg.recipient_hash)
    .where('state', '=', 'refused')
    .where('ended_at', '>', arg.after),
)

/** The audiences of an account for which the owner of an address refused a sign-up in the last 90 days (AU43). */
export const refusalsOf = (reader: Reader, keyring: Keyring, userKey: number, email: string, now: number): number[] =>
  reader
    .all(refused({ user_key: userKey, recipient_hash: recipientHash(keyring, email), after: now - REFUSED_FOR }))
    .map(({ audience_key }) => audience_key)

/** Deletes consents whose time is over, and ends those whose contact is gone with its audience. */
export async function forgetConsents(store: Store, { keep_proof, keep_requests }: ConsentRetention, now: number) {
  const requests = `('requested', 'refused', 'expired', 'bounced')`
  for (;;) {
    const changes = await store.write((tx) => {
      const orphaned = tx.run(
        raw(
          `update consents set ended_at = ?, updated_at = ? where key in (select key from consents
             where contact_key is null and ended_at is null limit ?)`,
          [now, now, AT_ONCE],
        ),
      )
      const old = tx.run(
        raw(
          `delete from consents where key in (select key from consents
             where ended_at <= case when state = 'refused' then ? when state in ${requests} then ? else ? end
               and (contact_key is null or state in ${requests}) limit ?)`,
          [now - Math.max(keep_requests, REFUSED_FOR), now - keep_requests, now - keep_proof, AT_ONCE],
        ),
      )
      return Math.max(orphaned.changes, old.changes)
    })
    if (changes < AT_ONCE) return
  }
}

const byKey = statement<{ key: number }>()((arg) => db.selectFrom('consents').selectAll().where('key', '=', arg.key))

export const consentByKey = (reader: Reader, key: number): Consent | undefined => reader.first(byKey({ key }))
