// Proof of consent: why an address is in an audience, for its owner and for printing. Nothing edits or deletes a
// consent but time and an erasure.
import { hash } from 'node:crypto'
import { z } from 'zod'
import { recipientHash } from '../base/recipient-hash.ts'
import { define } from '../jsonapi/define.ts'
import { timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { field, type Filter } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import { CONSENT_STATES } from '../store/states/consent.ts'
import { EMAIL_STATUSES } from '../store/states/outbound-email.ts'
import { valuesOf, type RowOf } from '../store/schema/tables.ts'
import { findByKeys } from '../store/list.ts'
import { raw } from '../store/query.ts'
import { contactAddress } from './contacts.ts'
import { GRANTED, type Consent } from './consents.ts'

const WITHDRAWN = 'withdrawn'
const STATES = [...CONSENT_STATES, WITHDRAWN] as const
const granted = new Set<string>(GRANTED)
const GRANTED_SQL = `state in (${GRANTED.map((state) => `'${state}'`).join(', ')})`

/** The state as it is shown: a consent that was given and has ended was withdrawn. */
export const shownState = ({ ended_at, state }: Pick<Consent, 'state' | 'ended_at'>): (typeof STATES)[number] =>
  granted.has(state) && ended_at !== null ? WITHDRAWN : state

const byState: Filter = {
  column: 'state',
  whole: 20,
  sql: (value) =>
    value === WITHDRAWN
      ? { sql: `${GRANTED_SQL} and ended_at is not null`, parameters: [] }
      : { sql: `state = ? and (ended_at is null or not ${GRANTED_SQL})`, parameters: [value] },
  about: `Filter by state. Values: ${STATES.map((state) => `\`${state}\``).join(', ')}.`,
}

/** Finds the consents of contacts, and those that only have the hash of the address. */
const byEmail: Filter = {
  column: 'recipient_hash',
  whole: 320,
  sql(value, _, { keyring, userKey }) {
    const email = contactAddress(value) ?? value
    return {
      sql: 'recipient_hash = ? or contact_key in (select key from contacts where user_key = ? and email = ?)',
      parameters: [recipientHash(keyring, email), userKey, email],
      selective: true,
    }
  },
  about: 'Filter by email address. This includes contacts that were deleted.',
}

const byForm: Filter = {
  column: 'form_key',
  whole: 36,
  sql: (value, _, { userKey }) => ({
    sql: 'form_key = (select key from forms where id = ? and user_key = ?)',
    parameters: [value, userKey],
    selective: true,
  }),
  about: 'Filter by the id of a form.',
}

/** The id of the confirmation email, which its Message-ID contains (messageIdOf). */
const emailIn = ({ message_id }: Consent): string => message_id?.slice(1, message_id.indexOf('@')) ?? ''

const emailsOf = (reader: Reader, rows: readonly Consent[]) =>
  new Map(
    reader
      .all(
        raw<Pick<RowOf<'outbound_emails'>, 'id' | 'status'>>(
          'select id, status from outbound_emails where id in (select value from json_each(?))',
          [JSON.stringify(rows.map(emailIn))],
        ),
      )
      .map((email) => [email.id, email]),
  )

export const consents = define('consents', {
  table: 'consents',
  path: '/consents/:consent',
  scope: 'contacts',
  extension: true,
  about:
    'Proof of consent: why an address is in an audience. Every way into an audience creates one. It is kept for a time after the contact unsubscribed or was deleted.',
  attributes: {
    state: field(z.enum(STATES), {
      about:
        'State. `requested`: not confirmed yet. `confirmed`, `single` (without a confirmation), `asserted` (added by its owner) and `imported`: agreed. `withdrawn`: agreed, and unsubscribed or deleted later. `refused`, `expired` and `bounced`: never confirmed. `erased`: its data was erased on request.',
    }),
    source: field(z.enum(valuesOf('consents', 'source')), {
      about:
        'Where the address came from. `before`: it was in the audience before consents were stored. `page`: the subscriber’s own page.',
    }),
    requested_at: timeOrNull('Time of the sign-up. Null if there was none.'),
    confirmed_at: timeOrNull('Time of the confirmation. Null if there was none.'),
    ended_at: timeOrNull('Time when it was withdrawn, or ended without a confirmation. Null until then.'),
    restored_at: timeOrNull('Time when the contact subscribed again after it was withdrawn. Null if it did not.'),
    form_id: wordsOrNull('Id of the form, which may have been deleted. Null without a form.'),
    form_name: wordsOrNull('Name of the form. Null without a form.'),
    form_opt_in: field(z.enum(valuesOf('forms', 'opt_in')).nullable(), {
      about: 'Opt-in of the form now. Null without a form.',
    }),
    form_version: field(z.int().nullable(), { about: 'Version of the form. Null without a form.' }),
    language: wordsOrNull('Language of the text, as a BCP 47 tag. Null if unknown.'),
    text: wordsOrNull('Text of the declaration, exactly as it was shown. Null if unknown.'),
    text_sha256: wordsOrNull('SHA-256 of the text in UTF-8, as hex. Null without a text.'),
    page: wordsOrNull('URL of the page with the form. Null if unknown.'),
    origin: wordsOrNull('Origin of this page, as the browser sent it. Null if unknown.'),
    request_client: wordsOrNull('Keyed hash of the IP address that signed up, as hex. Null if unknown.'),
    confirm_client: wordsOrNull('Keyed hash of the IP address that confirmed, as hex. Null if unknown.'),
    message_id: wordsOrNull('Message-ID of the confirmation email. Null if none was sent.'),
    email_id: wordsOrNull('Id of this email. Null if it was deleted, or none was sent.'),
    email_status: field(z.enum(EMAIL_STATUSES).nullable(), {
      about: 'Delivery status of this email. Null without one.',
    }),
    evidence: wordsOrNull('Why the contact agreed, in the words of the owner. Null if absent.'),
    person: wordsOrNull('Who added the address: a user, or the name of a token. Null if it was not added by one.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when it was recorded.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', about: 'Time of the last change.' }),
  },
  relationships: {
    audience: { type: 'audiences', column: 'audience_key' },
    contact: { type: 'contacts', column: 'contact_key', optional: true },
  },
  filters: { state: byState, source: { column: 'source' }, form: byForm, email: byEmail },
  extend(rows, { reader }) {
    const keys = rows.map((row) => row['form_key']).filter((key) => key !== null) as number[]
    const forms = new Map(findByKeys(reader, 'forms', keys).map((form) => [form.key, form]))
    const emails = emailsOf(reader, rows as unknown as Consent[])
    for (const row of rows) {
      const consent = row as unknown as Consent
      const form = consent.form_key === null ? undefined : forms.get(consent.form_key)
      for (const name of ['id', 'name', 'opt_in']) row[`form_${name}`] = form?.[name] ?? null
      const email = emails.get(emailIn(consent))
      Object.assign(row, { email_id: email?.id ?? null, email_status: email?.status ?? null })
      row['state'] = shownState(consent)
      row['text_sha256'] = consent.text === null ? null : hash('sha256', consent.text, 'hex')
    }
  },
  actions: [
    { kind: 'list', about: 'List consents. This includes those of contacts and audiences that were deleted.' },
    { kind: 'show', about: 'Get a consent.' },
    {
      kind: 'list',
      path: '/contacts/:contact/consents',
      id: 'listContactConsents',
      within: { type: 'contacts', column: 'contact_key' },
      about: 'List the consents of a contact.',
    },
    {
      kind: 'list',
      path: '/audiences/:audience/consents',
      id: 'listAudienceConsents',
      within: { type: 'audiences', column: 'audience_key' },
      about: 'List the consents of an audience. This includes contacts that were deleted.',
    },
  ],
})
