// The end of a sign-up: the owner of the address confirms or refuses, the link expires, or the confirmation email
// bounces. The consent holds the result, so that each later request by the same link is answered from it (AU25).
import { MINUTE } from '../base/clock.ts'
import { must } from '../base/errors.ts'
import {
  consentByKey,
  endRequests,
  GRANTED,
  moveConsent,
  noteConsent,
  requestsOf,
  type Consent,
} from '../campaigns/consents.ts'
import {
  confirmContact,
  contactByKey,
  dropContact,
  insert,
  leaveAudience,
  rejoinAudience,
  releaseFor,
  type Contact,
} from '../campaigns/contacts.ts'
import { suppress } from '../suppressions/suppressions.ts'
import type { Reader, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db } from '../store/query.ts'
import type { ConfirmLink } from './tokens.ts'
import { formByKey, isAvailable } from './forms.ts'
import { pauseIfAbused } from './limits-form.ts'
import { FORM_EVENTS } from './signup-counts.ts'
import { contactAt, count, isBlocked, type Signup, type Typed } from './signup.ts'
import { evenIfDeleted, sendWelcome, withAudience, type AudienceForm, type SignupEmailDeps } from './signup-email.ts'

/** Scanners press every button of a page. Both buttons of a link within this time mean a refusal (AU25). */
const BOTH_WITHIN = 10 * MINUTE

/** What a confirmation undid, besides the status of the contact: an unsubscription from the domain, or also one from
 * the audience. A refusal restores it. */
const RELEASED = 1
const RELEASED_LEFT = 2

/** What a confirmation link leads to. */
export type LinkState =
  | { kind: 'unknown' }
  | { kind: 'open'; of: AudienceForm; consent: Consent; signup: Signup }
  | { kind: 'confirmed'; of: AudienceForm; consent: Consent }
  /** `again`: the owner of the address can confirm nevertheless. */
  | { kind: 'refused'; of: AudienceForm; consent: Consent; again: boolean }
  | { kind: 'expired'; of: AudienceForm; consent: Consent | undefined }
  /** Nobody can subscribe by the form any more: it is closed, or it or its audience was deleted. */
  | { kind: 'closed'; of: AudienceForm; consent: Consent | undefined }
  /** The domain cannot write to the address. */
  | { kind: 'blocked'; of: AudienceForm }

/** Reads what a link leads to. This changes nothing (AU23). */
export function stateOfLink(reader: Reader, link: ConfirmLink, now: number): LinkState {
  const form = formByKey(reader, link.form)
  const of = form && evenIfDeleted(reader, form)
  const consent = consentByKey(reader, link.consent)
  if (!of || consent?.state === 'erased') return { kind: 'unknown' }
  if (!withAudience(reader, form)) return { kind: 'closed', of, consent }
  if (consent && isSubscribed(reader, consent)) return { kind: 'confirmed', of, consent }
  if (consent?.state === 'refused') {
    const again = form.deleted_at === null && now < link.until && now >= (consent.ended_at ?? now) + BOTH_WITHIN
    return { kind: 'refused', of, consent, again }
  }
  const signup = consent?.state === 'requested' && now < link.until ? signupOf(reader, consent) : undefined
  if (form.deleted_at === null && consent && signup) return { kind: 'open', of, consent, signup }
  return { kind: isAvailable(form) ? 'expired' : 'closed', of, consent }
}

/** Whether the contact of a consent is subscribed, by this consent or by another one. */
const isSubscribed = (reader: Reader, consent: Consent): boolean => contactOf(reader, consent)?.status === 'subscribed'

const contactOf = (reader: Reader, { contact_key }: Consent): Contact | undefined =>
  contact_key === null ? undefined : contactByKey(reader, contact_key)

const signupOf = (reader: Reader, { key }: Consent): Signup | undefined =>
  reader.first(db.selectFrom('signups').selectAll().where('consent_key', '=', key))

export interface Confirmation {
  typed: Typed
  /** The language of the page. */
  language: string
  /** The hash of the client, if it is known. */
  client: string | null
}

/** Confirms a sign-up by its link, once. Returns what the link leads to then. */
export function confirm(tx: Tx, deps: SignupEmailDeps, link: ConfirmLink, given: Confirmation, now: number): LinkState {
  const state = stateOfLink(tx, link, now)
  if (state.kind !== 'open' && !(state.kind === 'refused' && state.again)) return state
  const { consent, of } = state
  if (isBlocked(tx, deps.keyring, { domain_key: of.domain.key, address: link.email }, now))
    return { kind: 'blocked', of }
  const set = { confirmed_at: consent.confirmed_at ?? now, confirm_client: given.client, ended_at: null }
  const confirmed = moveConsent(tx, consent, 'confirm', now, set)
  if (!confirmed) return state
  const before = contactAt(tx, of.audience.key, link.email)
  if (releaseFor(tx, of.audience, link.email, now))
    noteConsent(tx, consent, { released: before?.left_audience === 1 ? RELEASED_LEFT : RELEASED })
  const known =
    contactAt(tx, of.audience.key, link.email) ??
    insert(tx, deps.keyring, of.audience, { email: link.email, consent: confirmed }, now)
  const { language, typed } = given
  const contact = confirmContact(tx, must(known, 'The contact of a confirmation'), { ...typed, language }, now)
  endRequests(tx, contact, now)
  count(tx, of.form, { confirmed: 1 }, now)
  tx.afterCommit(() => FORM_EVENTS.ends.add({ result: 'confirmed' }))
  const { audience, domain, form } = of
  appendEvent(tx, {
    type: 'contact.confirmed',
    user_key: domain.user_key,
    domain_key: domain.key,
    data: { contact_id: contact.id, audience_id: audience.id, form_id: form.id, email: contact.email },
    at: now,
  })
  // A consent that a scanner refused was confirmed before, so its welcome email was sent.
  if (consent.confirmed_at === null) sendWelcome(tx, deps, of, { consent: confirmed, contact }, now)
  return { kind: 'confirmed', of, consent: confirmed }
}

/**
 * Refuses a sign-up by its link: "this was not me", or one click on "unsubscribe" (AU43). Long after the confirmation,
 * it unsubscribes from the audience. Returns what the link leads to then.
 */
export function refuse(tx: Tx, deps: SignupEmailDeps, link: ConfirmLink, now: number): LinkState {
  const state = stateOfLink(tx, link, now)
  if (state.kind === 'unknown' || state.kind === 'blocked' || state.kind === 'refused') return state
  const { consent, of } = state
  if (!consent) return state
  const late = consent.state === 'confirmed' && now >= (consent.confirmed_at ?? now) + BOTH_WITHIN
  if (late || !refuseConsent(tx, deps, { of, consent, email: link.email }, now)) {
    const contact = contactOf(tx, consent)
    if (contact) leaveAudience(tx, contact, now)
  }
  return { kind: 'refused', of, consent, again: false }
}

/** Refuses a consent with other requests to its contact. Returns false if its state does not allow it. */
function refuseConsent(
  tx: Tx,
  deps: SignupEmailDeps,
  { consent, email, of }: { of: AudienceForm; consent: Consent; email: string },
  now: number,
): boolean {
  const refused = moveConsent(tx, consent, 'refuse', now, { ended_at: now, released: 0 })
  if (!refused) return false
  const contact = contactOf(tx, consent)
  if (contact) {
    for (const other of requestsOf(tx, contact.key)) moveConsent(tx, other, 'refuse', now, { ended_at: now })
    // A contact that only the refused sign-up has made goes. Another one is as unsubscribed as it was before.
    if (isDisposable(tx, contact)) dropContact(tx, deps.keyring, contact, now)
    else if (contact.status === 'subscribed') leaveAudience(tx, contact, now)
    if (consent.released !== 0) {
      const entry = { user_key: of.domain.user_key, domain_key: of.domain.key, address: email }
      suppress(tx, { ...entry, reason: 'unsubscribe', scope: 'marketing', source: 'unsubscribe_link' }, now)
      const kept = contactOf(tx, consent)
      if (kept && consent.released === RELEASED) rejoinAudience(tx, of.audience, kept, now)
    }
  }
  const counts = consent.state === 'confirmed' || consent.state === 'single' ? { confirmed: -1 } : {}
  count(tx, of.form, { ...counts, refused: 1 }, now)
  tx.afterCommit(() => FORM_EVENTS.ends.add({ result: 'refused' }))
  pauseIfAbused(tx, deps, of.form, now)
  return true
}

/**
 * Whether nothing but requests made a contact: it has no consent that was given, even if it was withdrawn. A contact
 * that unsubscribed stays in any case, so that an import does not subscribe it.
 */
const isDisposable = (reader: Reader, { key, status }: Pick<Contact, 'key' | 'status'>): boolean =>
  status !== 'unsubscribed' &&
  !reader.first(
    db.selectFrom('consents').select('key').where('contact_key', '=', key).where('state', 'in', GRANTED).limit(1),
  )

/** Ends a sign-up whose time is over, or whose confirmation email bounced or was reported as spam. */
export function endSignup(tx: Tx, deps: SignupEmailDeps, signup: Signup, now: number): void {
  const consent = consentByKey(tx, signup.consent_key)
  const form = formByKey(tx, signup.form_key)
  if (consent && form && signup.state === 'complained') {
    const of = evenIfDeleted(tx, form)
    if (of && refuseConsent(tx, deps, { of, consent, email: signup.email }, now)) return
  }
  const bounced = signup.state === 'bounced'
  tx.run(db.deleteFrom('signups').where('key', '=', signup.key))
  const moved = consent && moveConsent(tx, consent, bounced ? 'bounce' : 'expire', now, { ended_at: now })
  if (!moved || !form) return
  const contact = contactOf(tx, moved)
  if (contact && isDisposable(tx, contact) && requestsOf(tx, contact.key).length === 0)
    dropContact(tx, deps.keyring, contact, now)
  if (!bounced) count(tx, form, { expired: 1 }, now)
  tx.afterCommit(() => FORM_EVENTS.ends.add({ result: bounced ? 'bounced' : 'expired' }))
  if (bounced) pauseIfAbused(tx, deps, form, now)
}
