// Sign-ups (AU14 to AU17, AU26). A sign-up changes no contact: what was typed waits next to the consent until the owner
// of the address confirms. Whatever is known about the address, the visitor gets the same answer, and each outcome
// writes to the store, so that the time of the answer shows no difference either.
import { HOUR } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { noteConsent, recordConsent, refusalsOf, type NewConsent } from '../campaigns/consents.ts'
import { insert, type Contact } from '../campaigns/contacts.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { isLimited } from '../recipients/limits.ts'
import { keptForms, marketingSuppressed } from '../suppressions/suppressions.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw, sql } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { formByKey, isAvailable } from './forms.ts'
import { limitsOf, type FormTimes } from './limits.ts'
import { countSent } from './limits-form.ts'
import { FORM_EVENTS, type Outcome } from './signup-counts.ts'
import { sendRequested, withAudience, type AudienceForm, type SignupEmailDeps } from './signup-email.ts'
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
  const of = form && isAvailable(form) ? withAudience(tx, form) : undefined
  if (!of) return { outcome: 'closed' }
  // Whatever is known about the address: a form that is paused must not show it.
  const isOpen = countSent(tx, deps, of.form, now)
  const signedUp = outcomeOf(tx, deps, of, { ...given, isOpen }, now)
  const { outcome } = signedUp
  if (NOT_DONE.includes(outcome)) return { ...signedUp, ...stopSignup(tx, formKey, outcome, now) }
  const isNew = outcome !== 'already_subscribed'
  count(tx, of.form, { ...(isNew && { requested: 1 }), ...(outcome === 'subscribed' && { confirmed: 1 }) }, now)
  tx.afterCommit(() => FORM_EVENTS.signups.add({ outcome }))
  return signedUp
}

/** Outcomes that change nothing but the counts. */
const NOT_DONE: readonly Outcome[] = ['suppressed', 'limited', 'refused_lately']

/** Counts a sign-up that is stopped. */
export function stopSignup(tx: Tx, key: number, outcome: Outcome, now: number): SignedUp {
  count(tx, { key }, { stopped: 1 }, now)
  tx.afterCommit(() => FORM_EVENTS.signups.add({ outcome }))
  return { outcome }
}

type FormCount = 'requested' | 'confirmed' | 'refused' | 'expired' | 'stopped'

/** Adds to the counts of a form. */
export function count(
  tx: Tx,
  { key }: { key: number },
  amounts: Partial<Record<FormCount, number>>,
  now: number,
): void {
  const set = Object.entries(amounts).map(([name, amount]) => [
    `${name}_count`,
    sql`${sql.ref(`${name}_count`)} + ${amount}`,
  ])
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
    const { result } = sendRequested(tx, deps, of, { kind: 'already_subscribed', to: email, language, contact }, now)
    return { outcome: result === 'sent' ? 'already_subscribed' : 'limited', contact: contact.key }
  }
  if (refusalsOf(tx, deps.keyring, audience.user_key, email, now).length > 0) return { outcome: 'refused_lately' }
  // An address that has unsubscribed is asked even by a form without confirmation: anybody can sign it up.
  const single = of.form.opt_in === 'single' && !contact && !marketingSuppressed(tx, domain.key, email)
  const asked = { to: email, kind: single ? 'subscribed' : 'confirmation', audience: audience.key }
  if (isLimited(tx, deps, asked, now, deps.config.signup.per_address)) return { outcome: 'limited' }
  if (single && isOpen) return subscribe(tx, deps, of, given, now)
  if (!isOpen && isWaiting(tx, of.form, email)) return { outcome: 'paused' }
  return request(tx, deps, of, { ...given, known: contact }, now)
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

const isWaiting = (reader: Reader, { key }: FormRow, email: string): boolean =>
  reader.first(raw(`select 1 from signups where form_key = ? and email = ? and state = 'waiting'`, [key, email])) !==
  undefined

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

/** Adds a contact with its consent. `outcomeOf` has found that the address is not in the audience. */
function added(tx: Tx, keyring: Keyring, { audience }: AudienceForm, given: Parameters<typeof insert>[3], now: number) {
  const contact = must(insert(tx, keyring, audience, given, now), 'The contact')
  const consent = tx.one(db.selectFrom('consents').selectAll().where('contact_key', '=', contact.key))
  return { contact, consent }
}

/** Subscribes an address that nobody has confirmed, as the owner of the form has chosen. */
function subscribe(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  given: NewSignup,
  now: number,
): SignedUp & { outcome: Outcome } {
  const { email, language, typed } = given
  const custom_fields = Object.keys(typed.fields).length > 0 ? typed.fields : null
  const own = { email, language, name: typed.name, custom_fields, consent: consentOf(of, given, 'single', now) }
  const { consent, contact } = added(tx, deps.keyring, of, own, now)
  const { messageId } = sendRequested(tx, deps, of, { kind: 'subscribed', to: email, language, consent }, now)
  if (messageId !== undefined) noteConsent(tx, consent, { message_id: messageId })
  return { outcome: 'subscribed', contact: contact.key, consent: consent.key }
}

/** Stores a sign-up with its consent, and sends the confirmation email if the form is open. */
function request(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  { isOpen, known, ...given }: NewSignup & { known: Contact | undefined; isOpen: boolean },
  now: number,
): SignedUp & { outcome: Outcome } {
  const { email, language, typed } = given
  const asked = consentOf(of, given, 'requested', now)
  const { consent, contact } = known
    ? { contact: known, consent: recordConsent(tx, deps.keyring, known, asked, now) }
    : added(tx, deps.keyring, of, { email, consent: asked }, now)
  const signup = tx.one(
    db
      .insertInto('signups')
      .values({
        id: newId(now),
        user_key: of.audience.user_key,
        form_key: of.form.key,
        consent_key: consent.key,
        email,
        typed: JSON.stringify(typed),
        language,
        state: 'waiting',
        expires_at: now + WAITS_FOR,
        created_at: now,
        updated_at: now,
      })
      .returningAll(),
  )
  tx.signal(SIGNED_UP)
  const sent = isOpen && askToConfirm(tx, deps, of, signup, now)
  return { outcome: sent ? 'confirmation_sent' : 'paused', contact: contact.key, consent: consent.key }
}

/** Sends the confirmation email of a sign-up that waits. If it cannot be sent now, the sign-up goes on waiting. */
export function askToConfirm(tx: Tx, deps: SignupEmailDeps, of: AudienceForm, signup: Signup, now: number): boolean {
  const { consent_key, email, key, language } = signup
  const asked = { to: email, language, contact: contactAt(tx, of.audience.key, email), consent: { key: consent_key } }
  const { id, messageId, result } = sendRequested(tx, deps, of, { kind: 'confirmation', ...asked }, now)
  if (result !== 'sent' || id === undefined || messageId === undefined) return false
  noteConsent(tx, asked.consent, { message_id: messageId })
  const expires_at = now + deps.config.signup.confirm_within
  const set = { state: 'sent', email_id: id, expires_at, updated_at: now } as const
  tx.run(db.updateTable('signups').set(set).where('key', '=', key))
  return true
}
