// Contacts (specification "Contact", D41): unique by address within an audience. A contact's status follows from the
// suppressions of the audience's domain: setting the status writes or removes a suppression.
import type { Clock } from '../base/clock.ts'
import { codeOf, must, refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isObject, jsonOf } from '../base/json.ts'
import type { Keyring } from '../base/keyring.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import { comparableOf } from '../message/address.ts'
import { marketingSuppressed, suppress, takeAll } from '../suppressions/suppressions.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Audience } from './audiences.ts'
import { noteConsent, endConsents, endRequests, recordConsent, type Consent, type NewConsent } from './consents.ts'

export type Contact = RowOf<'contacts'>

export interface ContactDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

export interface NewContact {
  email: string
  name?: string | null | undefined
  preferences?: Record<string, unknown> | null | undefined
  custom_fields?: Record<string, unknown> | null | undefined
  language?: string | null | undefined
}

export interface ContactChange extends Partial<NewContact> {
  status?: Contact['status'] | undefined
  /** With the status `unsubscribed`: from this audience alone, or from all campaigns of the domain. */
  unsubscribed_from?: UnsubscribedFrom | undefined
  /** Proof that a pending contact agreed, by which it becomes subscribed without a confirmation. */
  consent_evidence?: string | undefined
}

export const UNSUBSCRIBED_FROM = ['audience', 'domain'] as const
export type UnsubscribedFrom = (typeof UNSUBSCRIBED_FROM)[number]

/** From what an unsubscribed contact unsubscribed. Null for other contacts. */
export const unsubscribedFrom = ({ left_audience, status }: Pick<Contact, 'left_audience' | 'status'>) =>
  status !== 'unsubscribed' ? null : left_audience === 1 ? 'audience' : 'domain'

/** Returns the trimmed address in lower case, with the domain as A-label, or undefined if it is invalid. */
export function contactAddress(text: string): string | undefined {
  return comparableOf(text.trim())
}

const insertContact = statement<{
  id: string
  user_key: number
  audience_key: number
  email: string
  name: string | null
  preferences: string | null
  custom_fields: string | null
  status: Contact['status']
  language: string | null
  subscribed_at: number | null
  at: number
}>()((arg) =>
  db
    .insertInto('contacts')
    .values({
      id: arg.id,
      user_key: arg.user_key,
      audience_key: arg.audience_key,
      email: arg.email,
      name: arg.name,
      preferences: arg.preferences,
      custom_fields: arg.custom_fields,
      status: arg.status,
      language: arg.language,
      left_audience: 0,
      subscribed_at: arg.subscribed_at,
      status_at: arg.at,
      created_at: arg.at,
      updated_at: arg.at,
    })
    .onConflict((conflict) => conflict.columns(['audience_key', 'email']).doNothing())
    .returningAll(),
)

const suppressionsOf = statement<{ domain_key: number; email: string; erased: string }>()((arg) =>
  db
    .selectFrom('suppressions')
    .select('reason')
    .where('domain_key', '=', arg.domain_key)
    .where((eb) => eb.or([eb('email', '=', arg.email), eb('email', '=', arg.erased)]))
    .where('reason', 'in', ['unsubscribe', 'hard_bounce', 'complaint']),
)

/**
 * The status of a new contact, from the suppressions of its address:
 * adding a contact again does not subscribe it again.
 */
function statusOf(reader: Reader, keyring: Keyring, domainKey: number, email: string): Contact['status'] {
  const reasons = reader
    .all(suppressionsOf({ domain_key: domainKey, email, erased: erasedForm(keyring, email) }))
    .map(({ reason }) => reason)
  if (reasons.includes('complaint')) return 'complained'
  if (reasons.includes('hard_bounce')) return 'bounced'
  return reasons.includes('unsubscribe') ? 'unsubscribed' : 'subscribed'
}

const json = (value: Record<string, unknown> | null | undefined): string | null =>
  value === null || value === undefined ? null : JSON.stringify(value)

/**
 * Adds one contact with its consent, which can be one whose contact was removed. Returns undefined if its address is
 * already in the audience. `email` must be in the form of `contactAddress`.
 */
export function insert(
  tx: Tx,
  keyring: Keyring,
  audience: Audience,
  given: NewContact & { consent: NewConsent | Pick<Consent, 'key' | 'state'> },
  now: number,
): Contact | undefined {
  const isPending = given.consent.state === 'requested'
  const contact = tx.first(
    insertContact({
      id: newId(now),
      user_key: audience.user_key,
      audience_key: audience.key,
      email: given.email,
      name: given.name ?? null,
      preferences: json(given.preferences),
      custom_fields: json(given.custom_fields),
      status: isPending ? 'pending' : statusOf(tx, keyring, audience.domain_key, given.email),
      language: given.language ?? null,
      subscribed_at: isPending ? null : now,
      at: now,
    }),
  )
  if (!contact) return undefined
  if ('key' in given.consent) noteConsent(tx, given.consent, { contact_key: contact.key })
  else recordOwnConsent(tx, keyring, contact, given.consent, now)
  return contact
}

/** Adds a contact. Throws 422 for a malformed address or one that is in the audience already. */
export function addContact(
  { clock, keyring, store }: ContactDeps,
  audience: Audience,
  given: NewContact & { consent: NewConsent },
): Promise<Contact> {
  const email = keptAddress(given.email)
  return store.write((tx) => {
    const contact = insert(tx, keyring, audience, { ...given, email }, clock.now())
    if (!contact)
      throw refuseAttribute(
        'already_exists',
        'email',
        `${email} is already in this audience. Update the existing contact instead.`,
      )
    return contact
  })
}

function keptAddress(text: string): string {
  const email = contactAddress(text)
  if (email === undefined)
    throw refuseAttribute(
      'invalid',
      'email',
      `"${text}" is not an email address. Use an address such as ann@example.org.`,
    )
  return email
}

/** Changes a contact. Throws 422 for an address that is taken, or a status that cannot be set. */
export function changeContact(
  { clock, keyring, store }: ContactDeps,
  key: number,
  change: ContactChange & { consent: NewConsent },
): Promise<Contact> {
  const email = change.email === undefined ? undefined : keptAddress(change.email)
  return store.write((tx) => {
    const now = clock.now()
    const before = contactByKey(tx, key)
    const audience = before && tx.first(db.selectFrom('audiences').selectAll().where('key', '=', before.audience_key))
    if (!audience) throw refuse('not_found', 'No such resource exists. Check the id in the URL.')
    const moved = email !== undefined && email !== before.email
    if (moved) endOldConsents(tx, keyring, before, now)
    try {
      tx.run(
        db
          .updateTable('contacts')
          .set({
            ...(moved ? { email, status: statusOf(tx, keyring, audience.domain_key, email), status_at: now } : {}),
            ...(change.name === undefined ? {} : { name: change.name }),
            ...(change.preferences === undefined ? {} : { preferences: json(change.preferences) }),
            ...(change.custom_fields === undefined ? {} : { custom_fields: json(change.custom_fields) }),
            ...(change.language === undefined ? {} : { language: change.language }),
            updated_at: now,
          })
          .where('key', '=', key),
      )
    } catch (thrown) {
      if (codeOf(thrown) !== 'SQLITE_CONSTRAINT_UNIQUE') throw thrown
      throw refuseAttribute('already_exists', 'email', `${email} is already in this audience. Use another address.`)
    }
    const contact = must(contactByKey(tx, key), 'The contact')
    if (moved) recordOwnConsent(tx, keyring, contact, change.consent, now)
    if (change.status !== undefined) setStatus(tx, keyring, { audience, contact, change }, now)
    return must(contactByKey(tx, key), 'The contact')
  })
}

/** A new address has no proof of its own: the consents of the old one end, and the owner asserts a new one. */
function endOldConsents(tx: Tx, keyring: Keyring, contact: Contact, now: number): void {
  if (contact.status === 'pending')
    throw refuseAttribute(
      'confirmation_required',
      'email',
      `${contact.email} has not confirmed its subscription. Delete the contact and sign up the new address instead.`,
    )
  endConsents(tx, keyring, contact, now)
}

/** Records the consent of a contact as it is: one that unsubscribed has withdrawn it. */
function recordOwnConsent(tx: Tx, keyring: Keyring, contact: Contact, consent: NewConsent, now: number): void {
  const withdrawn = contact.status === 'unsubscribed' || contact.status === 'complained'
  recordConsent(tx, keyring, contact, { ...consent, ended_at: withdrawn ? now : null }, now)
}

interface StatusChange {
  audience: Audience
  contact: Contact
  change: ContactChange & { consent: NewConsent }
}

/** Subscribes or unsubscribes on the owner's order (D41). */
function setStatus(tx: Tx, keyring: Keyring, { audience, change, contact }: StatusChange, now: number): void {
  const { status } = change
  const from = change.unsubscribed_from ?? 'domain'
  if (contact.status === status && (status !== 'unsubscribed' || unsubscribedFrom(contact) === from)) return
  if (status !== 'subscribed' && status !== 'unsubscribed')
    throw refuseAttribute('invalid', 'status', `"status" cannot be set to ${status}. Use subscribed or unsubscribed.`)
  if (contact.status === 'pending') confirmByOwner(tx, keyring, { contact, change }, now)
  else if (contact.status === 'bounced' || contact.status === 'complained')
    throw refuseAttribute(
      'permanent_suppression',
      'status',
      `${contact.email} has ${contact.status}, which is permanent. It cannot be set to ${status}.`,
    )
  else if (status === 'subscribed') resubscribe(tx, audience, contact, now)
  else if (from === 'audience') leaveAudience(tx, contact, now)
  else {
    const { domain_key, user_key } = audience
    const entry = { user_key, domain_key, address: contact.email, source: 'manual' as const }
    suppress(tx, { ...entry, reason: 'unsubscribe', scope: 'marketing' }, now)
  }
}

/** A pending contact is subscribed only by its own confirmation, or if the owner has proof of its consent. */
function confirmByOwner(
  tx: Tx,
  keyring: Keyring,
  { change, contact }: Pick<StatusChange, 'change' | 'contact'>,
  now: number,
): void {
  if (change.status !== 'subscribed' || change.consent_evidence === undefined)
    throw refuseAttribute(
      'confirmation_required',
      'status',
      `${contact.email} has not confirmed its subscription. Wait for the confirmation, set consent_evidence, or delete the contact.`,
    )
  endRequests(tx, contact, now)
  recordConsent(tx, keyring, contact, change.consent, now)
  setOwnStatus(tx, contact.key, { status: 'subscribed', left_audience: 0 }, now)
}

const setOwnStatus = (
  tx: Tx,
  key: number,
  set: Partial<Pick<Contact, 'status' | 'left_audience'>>,
  now: number,
): unknown =>
  tx.run(
    db
      .updateTable('contacts')
      .set({ ...set, ...(set.status === undefined ? {} : { status_at: now }), updated_at: now })
      .where('key', '=', key),
  )

/** Unsubscribes a contact from its audience alone. This adds no suppression. */
export function leaveAudience(tx: Tx, contact: Contact, now: number): void {
  const { audience_key, email, id, key, status, user_key } = contact
  const subscribed = status === 'subscribed'
  setOwnStatus(tx, key, { left_audience: 1, ...(subscribed ? { status: 'unsubscribed' } : {}) }, now)
  if (!subscribed) return
  const audience = tx.one(db.selectFrom('audiences').select(['id', 'domain_key']).where('key', '=', audience_key))
  const data = { contact_id: id, audience_id: audience.id, form_id: null, email }
  appendEvent(tx, { type: 'contact.unsubscribed', user_key, domain_key: audience.domain_key, data, at: now })
}

/**
 * Subscribes a contact on its own confirmation, with the values that it has confirmed. Its consent is confirmed in the
 * same transaction.
 */
export function confirmContact(
  tx: Tx,
  contact: Contact,
  { fields, language, name }: { name: string | null; fields: Readonly<Record<string, string>>; language: string },
  now: number,
): Contact {
  const known = jsonOf(contact.custom_fields ?? '')
  const custom = { ...(isObject(known) ? known : {}), ...fields }
  const custom_fields = Object.keys(custom).length > 0 ? JSON.stringify(custom) : null
  const set = { name: name ?? contact.name, custom_fields, language }
  tx.run(db.updateTable('contacts').set(set).where('key', '=', contact.key))
  setOwnStatus(tx, contact.key, { status: 'subscribed', left_audience: 0 }, now)
  return must(contactByKey(tx, contact.key), 'The contact')
}

/**
 * Removes the unsubscribe suppression of an address on a domain, for one audience: its contacts in the other audiences
 * stay unsubscribed (AU24). Returns whether there was one.
 */
export function releaseFor(
  tx: Tx,
  { domain_key, key }: Pick<Audience, 'domain_key' | 'key'>,
  email: string,
  now: number,
): boolean {
  if (!marketingSuppressed(tx, domain_key, email)) return false
  const others = db.selectFrom('audiences').select('key').where('domain_key', '=', domain_key).where('key', '<>', key)
  tx.run(
    db
      .updateTable('contacts')
      .set({ left_audience: 1, updated_at: now })
      .where('email', '=', email)
      .where('status', '=', 'unsubscribed')
      .where('audience_key', 'in', others),
  )
  takeAll(tx, domain_key, email, now, 'unsubscribe')
  return true
}

/** Subscribes an unsubscribed contact again: neither a suppression nor the audience keeps it unsubscribed. */
export function resubscribe(
  tx: Tx,
  { domain_key }: Pick<Audience, 'domain_key'>,
  contact: Pick<Contact, 'key' | 'email'>,
  now: number,
): void {
  setOwnStatus(tx, contact.key, { left_audience: 0 }, now)
  takeAll(tx, domain_key, contact.email, now, 'unsubscribe')
  // Without a suppression, no trigger changes the status.
  const { status } = must(contactByKey(tx, contact.key), 'The contact')
  if (status === 'unsubscribed') setOwnStatus(tx, contact.key, { status: 'subscribed' }, now)
}

/** Undoes `leaveAudience`. The contact stays unsubscribed if a suppression of the domain says so. */
export function rejoinAudience(
  tx: Tx,
  { domain_key }: Pick<Audience, 'domain_key'>,
  { email, key, left_audience, status }: Contact,
  now: number,
): void {
  if (left_audience === 0) return
  const returns = status === 'unsubscribed' && !marketingSuppressed(tx, domain_key, email)
  setOwnStatus(tx, key, { left_audience: 0, ...(returns ? { status: 'subscribed' } : {}) }, now)
}

/** Sets the language of the contacts with an address on the sending domains. */
export const setLanguage = (
  tx: Tx,
  domains: readonly number[],
  email: string,
  language: string,
  now: number,
): unknown =>
  tx.run(
    db
      .updateTable('contacts')
      .set({ language, updated_at: now })
      .where('email', '=', email)
      .where('audience_key', 'in', db.selectFrom('audiences').select('key').where('domain_key', 'in', domains)),
  )

/** Removes the contact from its audience without adding a suppression. */
export function removeContact({ clock, keyring, store }: ContactDeps, key: number): Promise<void> {
  return store.write((tx) => {
    const contact = contactByKey(tx, key)
    if (contact) dropContact(tx, keyring, contact, clock.now())
  })
}

/** Like `removeContact`, inside a transaction. */
export function dropContact(tx: Tx, keyring: Keyring, contact: Pick<Contact, 'key' | 'email'>, now: number): void {
  endConsents(tx, keyring, contact, now)
  tx.run(db.deleteFrom('contacts').where('key', '=', contact.key))
}

const byKey = statement<{ key: number }>()((arg) => db.selectFrom('contacts').selectAll().where('key', '=', arg.key))

export function contactByKey(reader: Reader, key: number): Contact | undefined {
  return reader.first(byKey({ key }))
}
