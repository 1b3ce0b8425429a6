// The emails of a sign-up: the request to confirm, "already subscribed", "subscribed" and the welcome email. The first
// three can be requested by anybody for any address, so they contain nothing that the visitor typed (AU19).
import type { Config } from '../base/config.ts'
import { must } from '../base/errors.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { brandOf } from '../campaigns/brand.ts'
import type { Consent } from '../campaigns/consents.ts'
import type { Contact } from '../campaigns/contacts.ts'
import { unsubscribeUrl } from '../campaigns/unsubscribe.ts'
import { DAY } from '../base/clock.ts'
import { withoutLineEnds } from '../base/clean-text.ts'
import { withFooter } from '../message/footer.ts'
import { cutHtml } from '../message/html-tags.ts'
import { valuesOf } from '../message/identity.ts'
import type { Unsubscribe } from '../message/list-unsubscribe.ts'
import { cutTemplate, escapeHtml, fill } from '../message/template.ts'
import { MAX_SUBJECT, TooLarge } from '../message/too-large.ts'
import {
  sendToRecipient,
  type RecipientEmail,
  type RecipientEmailDeps,
  type RecipientEmailResult,
} from '../recipients/email.ts'
import { textsOf, type Texts } from '../recipients/languages.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { confirmUrl } from './tokens.ts'
import type { FormRow } from './versions.ts'

export interface SignupEmailDeps extends RecipientEmailDeps {
  config: RecipientEmailDeps['config'] & Pick<Config, 'http' | 'signup'>
}

/** A form with its audience and the audience's sending domain. */
export interface AudienceForm {
  form: FormRow
  audience: Audience
  domain: RowOf<'domains'>
}

/** The form with its audience, or undefined if the audience or its domain was deleted. */
export function withAudience(reader: Reader, form: FormRow): AudienceForm | undefined {
  const of = evenIfDeleted(reader, form)
  return of?.audience.deleted_at === null && of.domain.deleted_at === null ? of : undefined
}

/** The form with its audience, or undefined for a contact form. */
export function evenIfDeleted(reader: Reader, form: FormRow): AudienceForm | undefined {
  const audience = reader.first(db.selectFrom('audiences').selectAll().where('key', '=', form.audience_key))
  const domain = audience && reader.first(db.selectFrom('domains').selectAll().where('key', '=', audience.domain_key))
  return domain && { form, audience, domain }
}

/** The names that recipients see: of the list, and of who sends it. */
export function namesOf(reader: Reader, { audience, domain, form }: AudienceForm): { list: string; sender: string } {
  const name = brandOf(reader, domain.user_key).sender_name ?? domain.name
  return { list: audience.title ?? form.title ?? name, sender: form.controller ?? name }
}

/** The time in which an address gets one welcome email of an audience. */
const WELCOME_AGAIN = 30 * DAY

interface SignupEmail {
  to: string
  /** The language of the sign-up, and that of the contact. */
  language: string
  contact?: Pick<Contact, 'language'> | undefined
}

const languageOf = ({ audience }: AudienceForm, { contact, language }: SignupEmail): Texts =>
  textsOf({ contact: contact?.language, signup: language, audience: audience.language })

/** Queues an email in the name of the form. */
function send(
  tx: Tx,
  deps: SignupEmailDeps,
  { domain, form }: AudienceForm,
  email: Omit<RecipientEmail, 'domain' | 'from' | 'replyTo'>,
  now: number,
): RecipientEmailResult {
  const sender = { domain, from: form.from_address, replyTo: form.reply_to }
  return sendToRecipient(tx, deps, { ...sender, ...email }, now)
}

const oneClick = (url: string, mail = false): Unsubscribe => ({ uris: [url], one_click: true, mail })

/** The page of a subscriber, which needs no email that was sent before. */
export const subscriberUrl = (
  { config, keyring }: SignupEmailDeps,
  { audience, domain }: AudienceForm,
  email: string,
) => unsubscribeUrl(keyring, config.http.public_url, { delivery: 0, domain: domain.key, audience: audience.key, email })

type WrittenSignup = Pick<RecipientEmail, 'subject' | 'text' | 'button'> & {
  after: NonNullable<RecipientEmail['after']>
}
interface SignupLinks {
  /** The link of the consent, which works until then. For an address that is subscribed already, its page. */
  url: string
  until: number
  page: string
}

/** The emails that anybody can request, by their tags. */
const WRITE = {
  confirmation: ({ date, t }, names, { until, url }) => ({
    subject: t('email_confirm_subject', names),
    text: [t('email_confirm_text', names)],
    button: { label: t('email_confirm_button'), url },
    after: [
      t('email_confirm_nothing'),
      t('email_confirm_until', { date: date(until) }),
      { label: t('email_refuse_link'), url },
    ],
  }),
  already_subscribed: ({ t }, names, { url }) => ({
    subject: t('email_already_subject', names),
    text: [t('email_already_text', names)],
    button: { label: t('email_already_button'), url },
    after: [],
  }),
  // To an address that a form without confirmation has subscribed (AU26).
  subscribed: ({ t }, names, { page, url }) => ({
    subject: t('email_subscribed_subject', names),
    text: [t('email_subscribed_text', names)],
    button: { label: t('manage_link'), url: page },
    after: [{ label: t('email_refuse_link'), url }],
  }),
} satisfies Record<string, (texts: Texts, names: ReturnType<typeof namesOf>, links: SignupLinks) => WrittenSignup>
export type Requested = keyof typeof WRITE

/**
 * Queues an email that anybody can request. One click on "unsubscribe" in a mail program refuses the consent (AU21), or
 * unsubscribes an address that is subscribed already.
 */
export function sendRequested(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  { consent, kind, ...email }: SignupEmail & { kind: Requested; consent?: Pick<Consent, 'key'> },
  now: number,
): RecipientEmailResult {
  const { audience, form } = of
  const { to } = email
  const { http, signup } = deps.config
  const texts = languageOf(of, email)
  const page = subscriberUrl(deps, of, to)
  const until = now + signup.confirm_within
  const link = consent && { consent: consent.key, form: form.key, email: to, until }
  const url = link ? confirmUrl(deps.keyring, http.public_url, link) : page
  const { after, text, ...written } = WRITE[kind](texts, namesOf(tx, of), { page, until, url })
  const content: Omit<RecipientEmail, 'domain'> = {
    ...written,
    to,
    lang: texts.lang,
    text: [...text, ...(kind === 'confirmation' && form.confirm_note !== null ? [form.confirm_note] : [])],
    after: [
      ...after,
      ...(form.privacy_url === null ? [] : [{ label: texts.t('privacy_notice'), url: form.privacy_url }]),
    ],
    tag: kind,
    limit: { audience: audience.key, perAddress: signup.per_address },
    unsubscribe: oneClick(url),
  }
  return send(tx, deps, of, content, now)
}

/**
 * Queues the welcome email of the form, if it has one: once for each confirmation, and at most once in 30 days for an
 * address and audience (AU27). If it cannot be sent, the confirmation is valid nevertheless.
 */
export function sendWelcome(
  tx: Tx,
  deps: SignupEmailDeps,
  of: AudienceForm,
  { consent, contact }: { consent: Consent; contact: Contact },
  now: number,
): void {
  const { audience, form } = of
  const { welcome_html: body_html, welcome_subject: subject } = form
  if (body_html === null || subject === null || wasWelcomed(tx, deps, { audience, consent, contact }, now)) return
  const url = subscriberUrl(deps, of, contact.email)
  const filled = filledWelcome({ subject, html: body_html }, contact, url)
  if (!filled) return
  const content: Omit<RecipientEmail, 'domain'> = {
    ...filled,
    to: contact.email,
    lang: languageOf(of, { to: contact.email, language: consent.language ?? form.language, contact }).lang,
    text: [],
    tag: 'welcome',
    unsubscribe: oneClick(url, true),
    idempotencyKey: `welcome ${consent.id}`,
  }
  send(tx, deps, of, content, now)
}

/** The welcome email with the values of the contact, or undefined if they make it too large. */
function filledWelcome(
  { html, subject }: { html: string; subject: string },
  contact: Contact,
  url: string,
): { html: string; subject: string } | undefined {
  const values = { ...valuesOf(contact), unsubscribe_url: url }
  try {
    return {
      subject: fill(cutTemplate(subject), values, withoutLineEnds, MAX_SUBJECT),
      html: fill(cutHtml(withFooter({ html, text: null }, true).html), values, escapeHtml),
    }
  } catch (thrown) {
    if (thrown instanceof TooLarge) return undefined
    throw thrown
  }
}

function wasWelcomed(
  tx: Tx,
  { keyring }: SignupEmailDeps,
  { audience, consent, contact }: { audience: Audience; consent: Consent; contact: Contact },
  now: number,
): boolean {
  const { others } = must(
    tx.first(
      raw<{ others: number }>(
        `select count(*) as others from consents
         where user_key = ? and recipient_hash = ? and audience_key = ? and key <> ? and confirmed_at > ?`,
        [audience.user_key, recipientHash(keyring, contact.email), audience.key, consent.key, now - WELCOME_AGAIN],
      ),
    ),
    'A count',
  )
  return others > 0
}
