// Sign-ups (AU14 to AU17, AU26). A sign-up changes no contact: what was typed waits next to the consent until the owner
// of the address confirms. Whatever is known about the address, the visitor gets the same answer, and each outcome
// writes to the store, so that the time of the answer shows no difference either.
import { HOUR } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import {
  consentByKey,
  noteConsent,
  recordConsent,
  REFUSED_FOR,
  type Consent,
  type NewConsent,
} from '../campaigns/consents.ts'
import { insert, type Contact } from '../campaigns/contacts.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { isLimited } from '../recipients/limits.ts'
import { keptForms, marketingSuppressed } from '../suppressions/suppressions.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, sql } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { formByKey, isAvailable } from './forms.ts'
import { limitsOf, type FormTimes } from './limits.ts'
import { countSent } from './limits-form.ts'
import { FORM_EVENTS, type Outcome } from './signup-counts.ts'
import {
  CONFIRMATION,
  sendAlready,
  sendConfirmation,
  sendSubscribed,
  SUBSCRIBED,
  withAudience,
  type AudienceForm,
  type SignupEmailDeps,
} from './signup-email.ts'
import type { FormRow } from './versions.ts'

export type Signup = RowOf<'signups'>

/** What was typed besides the address. */
export interface Typed {
  name: string | null
  fields: Readonly<Record<string, string>>
}

export interface NewSignup {
  /** In the form of `signupAddress`. */
  email: string
  typed: Typed
  /** The version of the form that was shown, its language and the text that was agreed to. */
  version: number
  language: string
  text: string | null
  source: Extract<NewConsent['source'], 'form' | 'api'>
  page?: string | null
  origin?: string | null
  /** The hash of the client, if it is known. */
  client?: string | null
}

/** `closed`: the form was closed or its audience deleted in the meantime, and nothing was stored. */
export interface SignedUp {
  outcome: Outcome | 'closed'
  /** The keys of the contact, and of the consent that the sign-up made. */
  contact?: number
  consent?: number
}

/** The signal of a commit that holds a new sign-up. */
export const SIGNED_UP = 'signed up'

/** How long a sign-up waits for a paused form to be opened. */
export const WAITS_FOR = 24 * HOUR

export interface SignupDeps extends SignupEmailDeps {
  times: FormTimes
}

export const signupDeps = ({
  bells,
  config,
  keyring,
  store,
}: Pick<ApiDeps, 'bells' | 'config' | 'keyring' | 'store'>): SignupDeps => ({
  config,
  keyring,
  ring: bells.deliveries,
  times: limitsOf(store).forms,
})

/** Signs an address up, in one transaction. */
export function signUp(tx: Tx, deps: SignupDeps, formKey: number, given: NewSignup, now: number): SignedUp {
  const form = formByKey(tx, formKey)
  const of = form && isAvailable(tx, form) ? withAudience(tx, form) : undefined
  if (!of) return { outcome: 'closed' }
  // Whatever is known about the address: a form that is paused must not show it.
  const isOpen = countSent(tx, deps, of.form, now)
  const signedUp = outcomeOf(tx, deps, of, { ...given, isOpen }, now)
  const { outcome } = signedUp
  if (NOT_DONE.includes(outcome)) return { ...signedUp, ...stopSignup(tx, formKey, outcome, now) }
  if (outcome === 'confirmation_sent' || outcome === 'paused') count(tx, of.form, { requested_count: 1 }, now)
  else if (outcome === 'subscribed') count(tx, of.form, { requested_count: 1, confirmed_count: 1 }, now)
  else count(tx, of.form, {}, now)
  tx.afterCommit(() => FORM_EVENTS.signups.add({ outcome }))
  return signedUp
}

/** Outcomes that change nothing but the counts. */
const NOT_DONE: readonly Outcome[] = ['suppressed', 'limited', 'refused_lately']

/** Counts a sign-up that is stopped. */
export function stopSignup(tx: Tx, formKey: number, outcome: Outcome, now: number): SignedUp {
  count(tx, { key: formKey }, { stopped_count: 1 }, now)
  tx.afterCommit(() => FORM_EVENTS.signups.add({ outcome }))
  return { outcome }
}

type FormCount = `${'requested' | 'confirmed' | 'refused' | 'expired' | 'stopped'}_count`

/** Adds to the counts of a form. */
export function count(
  tx: Tx,
  { key }: Pick<FormRow, 'key'>,
  amounts: Partial<Record<FormCount, number>>,
  now: number,
): void {
  const set = Object.entries(amounts).map(([name, amount]) => [name, sql`${sql.ref(name)} + ${amount}`] as const)
  tx.run(
    db
      .updateTable('forms')
      .set({ ...Object.fromEntries(set), updated_at: now })
      .where('key', '=', key),
  )
}

function outcomeOf(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  given: NewSignup & { isOpen: boolean },
  now: number,
): SignedUp & { outcome: Outcome } {
  const { audience, domain } = of
  const { email, isOpen, language } = given
  const recipient = { domain_key: domain.key, address: email }
  if (isBlocked(tx, deps.keyring, recipient, now, true)) return { outcome: 'suppressed' }
  const contact = contactAt(tx, audience.key, email)
  if (contact?.status === 'bounced' || contact?.status === 'complained') return { outcome: 'suppressed' }
  if (contact?.status === 'subscribed') {
    const { result } = sendAlready(tx, deps, of, { to: email, language, contact }, now)
    return { outcome: result === 'sent' ? 'already_subscribed' : 'limited', contact: contact.key }
  }
  if (hasRefused(tx, deps.keyring, audience.user_key, email, now)) return { outcome: 'refused_lately' }
  // An address that has unsubscribed is asked even by a form without confirmation: anybody can sign it up.
  const single = of.form.opt_in === 'single' && !contact && !marketingSuppressed(tx, domain.key, email)
  const asked = { to: email, kind: single ? SUBSCRIBED : CONFIRMATION, audience: audience.key }
  if (isLimited(tx, deps, asked, now, deps.config.signup.per_address)) return { outcome: 'limited' }
  if (single && isOpen) return subscribe(tx, deps, of, given, now)
  if (!isOpen && isWaiting(tx, of.form, email)) return { outcome: 'paused' }
  return request(tx, deps, of, { ...given, contact }, now)
}

/**
 * Whether an address is suppressed on a domain, whatever its owner confirms: it was erased, or there is an entry for
 * another reason than `unsubscribe`. `permanently`: only entries for all email, bounces and complaints.
 */
export function isBlocked(
  reader: Reader,
  keyring: Keyring,
  { address, domain_key }: { domain_key: number; address: string },
  now: number,
  permanently = false,
): boolean {
  const entries = reader.all(
    db
      .selectFrom('suppressions')
      .select(['email', 'reason', 'scope'])
      .where('domain_key', '=', domain_key)
      .where('email', 'in', keptForms(keyring, address))
      .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', now)])),
  )
  return entries.some(
    ({ email, reason, scope }) =>
      email.startsWith('#') ||
      (permanently ? scope === 'all' || reason === 'hard_bounce' || reason === 'complaint' : reason !== 'unsubscribe'),
  )
}

export const contactAt = (reader: Reader, audienceKey: number, email: string): Contact | undefined =>
  reader.first(db.selectFrom('contacts').selectAll().where('audience_key', '=', audienceKey).where('email', '=', email))

function hasRefused(reader: Reader, keyring: Keyring, userKey: number, email: string, now: number): boolean {
  const refused = db
    .selectFrom('consents')
    .select('key')
    .where('user_key', '=', userKey)
    .where('recipient_hash', '=', recipientHash(keyring, email))
    .where('state', '=', 'refused')
    .where('ended_at', '>', now - REFUSED_FOR)
    .limit(1)
  return reader.first(refused) !== undefined
}

const isWaiting = (reader: Reader, { key }: FormRow, email: string): boolean =>
  reader.first(
    db
      .selectFrom('signups')
      .select('key')
      .where('form_key', '=', key)
      .where('email', '=', email)
      .where('state', '=', 'waiting'),
  ) !== undefined

const consentOf = (
  { form }: AudienceForm,
  { client = null, language, origin = null, page = null, source, text, version }: NewSignup,
  state: 'requested' | 'single',
  now: number,
): NewConsent => ({
  state,
  source,
  form_key: form.key,
  form_version: version,
  language,
  text,
  page,
  origin,
  request_client: client,
  requested_at: now,
})

/** Subscribes an address that nobody has confirmed, as the owner of the form has chosen. */
function subscribe(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  given: NewSignup,
  now: number,
): SignedUp & { outcome: Outcome } {
  const { email, language, typed } = given
  const consent = consentOf(of, given, 'single', now)
  const fields = Object.keys(typed.fields).length > 0 ? typed.fields : null
  const contact = insert(
    tx,
    deps.keyring,
    of.audience,
    { ...typed, custom_fields: fields, email, language, consent },
    now,
  )
  const row = contact && lastConsent(tx, contact)
  if (!row) return { outcome: 'limited' }
  const { messageId } = sendSubscribed(tx, deps, of, { to: email, language, consent: row }, now)
  if (messageId !== undefined) noteConsent(tx, row, { message_id: messageId })
  return { outcome: 'subscribed', contact: contact.key, consent: row.key }
}

const lastConsent = (reader: Reader, { key }: Contact): Consent | undefined =>
  reader.first(db.selectFrom('consents').selectAll().where('contact_key', '=', key).orderBy('key', 'desc').limit(1))

/** Stores a sign-up with its consent, and sends the confirmation email if the form is open. */
function request(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  { contact, isOpen, ...given }: NewSignup & { contact: Contact | undefined; isOpen: boolean },
  now: number,
): SignedUp & { outcome: Outcome } {
  const { email, typed } = given
  const { keyring } = deps
  const consent = consentOf(of, given, 'requested', now)
  const asked = contact ?? insert(tx, keyring, of.audience, { email, consent }, now)
  if (!asked) return { outcome: 'limited' }
  const row = contact ? recordConsent(tx, keyring, contact, consent, now) : lastConsent(tx, asked)
  if (!row) return { outcome: 'limited' }
  const signup = tx.one(
    db
      .insertInto('signups')
      .values({
        id: newId(now),
        user_key: of.audience.user_key,
        form_key: of.form.key,
        consent_key: row.key,
        email,
        typed: JSON.stringify(typed),
        language: given.language,
        state: 'waiting',
        email_id: null,
        expires_at: now + WAITS_FOR,
        created_at: now,
        updated_at: now,
      })
      .returningAll(),
  )
  tx.signal(SIGNED_UP)
  const sent = isOpen && askToConfirm(tx, deps, of, signup, now)
  return { outcome: sent ? 'confirmation_sent' : 'paused', contact: asked.key, consent: row.key }
}

/** Sends the confirmation email of a sign-up that waits. If it cannot be sent now, the sign-up goes on waiting. */
export function askToConfirm(tx: Tx, deps: SignupEmailDeps, of: AudienceForm, signup: Signup, now: number): boolean {
  const consent = consentByKey(tx, signup.consent_key)
  if (!consent) return false
  const contact = contactAt(tx, of.audience.key, signup.email)
  const { email, language } = signup
  const { id, messageId, result } = sendConfirmation(tx, deps, of, { to: email, language, contact, consent }, now)
  if (result !== 'sent' || id === undefined || messageId === undefined) return false
  noteConsent(tx, consent, { message_id: messageId })
  const expires_at = now + deps.config.signup.confirm_within
  tx.run(
    db
      .updateTable('signups')
      .set({ state: 'sent', email_id: id, expires_at, updated_at: now })
      .where('key', '=', signup.key),
  )
  return true
}
