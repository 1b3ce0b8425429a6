// Sign-ups by the API, for the owner's own pages, and one more confirmation email for a pending contact (AU17). They
// pass the same limits as the hosted form.
import { z } from 'zod'
import { refuse, refuseAttribute } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { isObject, jsonOf } from '../base/json.ts'
import { customerOf, isAddress } from '../base/network.ts'
import { consentByKey } from '../campaigns/consents.ts'
import type { Contact } from '../campaigns/contacts.ts'
import { define } from '../jsonapi/define.ts'
import { timeOrNull } from '../jsonapi/fields.ts'
import { field, parentOf } from '../jsonapi/resource.ts'
import { languageTag, line } from '../jsonapi/schemas.ts'
import { limitedUntil } from '../recipients/limits.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import { forms } from './api.ts'
import { consentText } from './api-schemas.ts'
import { deletedTarget, formByKey, type FormRow } from './forms.ts'
import { MAX_FIELD } from './hosted.ts'
import { clientHash, limitsOf } from './limits.ts'
import { OUTCOMES } from './signup-counts.ts'
import { signupAddress, typedLine } from './signup-input.ts'
import { signupDeps, signUp, stopSignup, type NewSignup, type SignedUp, type Typed } from './signup.ts'
import { currentTexts, languageAmong, wordsIn, type FormTexts } from './versions.ts'

const given = { create: 'optional', read: 'never' } as const

const outcome = field(z.enum(OUTCOMES), {
  about: `Result of the sign-up:
- \`confirmation_sent\`: the confirmation email is queued.
- \`subscribed\`: the address is subscribed, because the form needs no confirmation.
- \`already_subscribed\`: the address was subscribed, and got an email that says so.
- \`paused\`: the sign-up waits until the form is opened again.
- \`suppressed\`: the sending domain cannot send to the address.
- \`limited\`: the address got too many such emails in the last 24 hours, or the client has signed up too often.
- \`refused_lately\`: the owner of the address refused a sign-up in the last 90 days.`,
})

const fields = z
  .custom<Record<string, unknown>>(isObject, 'must be an object')
  .refine((value) => Object.keys(value).length <= 10, 'must have at most 10 keys')
  .refine(
    (value) => Object.values(value).every((each) => typeof each === 'string' && each.length <= MAX_FIELD),
    `must have texts of at most ${MAX_FIELD} characters as values`,
  )
  .meta({ type: 'object', additionalProperties: { type: 'string', maxLength: MAX_FIELD } })

export const signups = define('signups', {
  table: 'signups',
  scope: 'contacts',
  extension: true,
  about: 'Sign-ups of addresses for the audience of a form.',
  attributes: {
    email: field(line(320), {
      ...given,
      create: 'required',
      about: 'Email address of the visitor.',
      example: 'ann@example.net',
    }),
    name: field(line(MAX_FIELD, 'characters').nullable(), {
      ...given,
      about: 'Name that the visitor entered, if the form asks for it.',
      example: 'Ann',
    }),
    fields: field(fields, {
      ...given,
      about: 'Values of the other fields of the form, by key.',
      example: { city: 'Ghent' },
    }),
    language: field(languageTag(), {
      ...given,
      about: 'Language of the page, as a BCP 47 tag. By default that of the form.',
      example: 'de',
    }),
    page: field(
      line(500, 'characters').refine(
        (url) => URL.canParse(url) && /^https?:/i.test(url),
        'must be an http or https URL',
      ),
      { ...given, about: 'URL of your page with the form.', example: 'https://example.net/news' },
    ),
    client_address: field(
      z.string('must be an IP address').refine((value) => isAddress(value), 'must be an IP address'),
      {
        ...given,
        about:
          'IP address of the visitor. It is limited like a visitor of the hosted form, and only its hash is stored.',
        example: '192.0.2.7',
      },
    ),
    consent_text: field(consentText(), {
      ...given,
      about: 'Text that the visitor agreed to. Null if it was that of the form.',
      example: 'I want the newsletter of Acme.',
    }),
    outcome,
  },
  relationships: {
    contact: { type: 'contacts', column: 'contact_key', optional: true },
    consent: { type: 'consents', column: 'consent_key', optional: true },
  },
  actions: [
    {
      kind: 'create',
      path: '/forms/:form/signups',
      within: { type: 'forms', column: 'form_key' },
      id: 'createSignup',
      status: 202,
      audit: 'never',
      refuses: ['form_closed'],
      about: 'Sign an address up for the audience of a form, with the checks and limits of its page.',
      run: async ({ attributes, now, parent, parts, within }) => {
        const form = parentOf(forms, { parent, within })
        if (form.audience_key === null)
          throw refuse('form_closed', 'A contact form has no audience. Use a form with an audience.')
        const texts = currentTexts(parts.store, form)
        const email = signupAddress(attributes.email)
        if (email === undefined)
          throw refuseAttribute(
            'invalid',
            'email',
            `"${attributes.email}" is not an email address. Use an address such as ann@example.org.`,
          )
        const { client_address: client, consent_text = null, name = null } = attributes
        const asked = languageAmong(texts, attributes.language ?? '') ?? texts.language
        const given: NewSignup = {
          email,
          typed: typedOf(texts, name, attributes.fields ?? {}),
          version: form.version,
          language: consent_text === null ? asked : (attributes.language ?? asked),
          text: consent_text ?? wordsIn(texts, asked).consent_text,
          source: 'api',
          page: attributes.page ?? null,
          client: client === undefined ? null : clientHash(parts.keyring, client),
        }
        const { clients } = limitsOf(parts.store)
        const isLimited = client !== undefined && clients.take(customerOf(client), parts.config.signup, now) > 0
        const signedUp = await parts.store.write((tx) =>
          isLimited ? stopSignup(tx, form.key, 'limited', now) : signUp(tx, signupDeps(parts), form.key, given, now),
        )
        return { row: rowOf(parts.store, form, signedUp, now) }
      },
    },
  ],
})

function typedOf(texts: FormTexts, name: string | null, given: Record<string, unknown>): Typed {
  const known = texts.fields.map(({ key }) => key)
  const unknown = Object.keys(given).find((key) => key === 'name' || !known.includes(key))
  if (unknown !== undefined)
    throw refuseAttribute(
      'invalid',
      'fields',
      `The form has no field "${unknown}". Use one of: ${known.join(', ') || 'none'}.`,
    )
  if (name !== null && !known.includes('name'))
    throw refuseAttribute('invalid', 'name', 'The form does not ask for a name. Add the field "name" to it first.')
  const cleaned = Object.entries(given).map(([key, value]) => [key, typedLine(String(value))] as const)
  return {
    name: name === null ? null : typedLine(name) || null,
    fields: Object.fromEntries(cleaned.filter(([, value]) => value !== '')),
  }
}

function rowOf(reader: Reader, form: FormRow, { consent, contact, outcome }: SignedUp, now: number) {
  if (outcome === 'closed')
    throw refuse('form_closed', deletedTarget(reader, form) ?? 'The form is not open. Set its status to open first.')
  return { key: 0, id: newId(now), outcome, contact_key: contact ?? null, consent_key: consent ?? null }
}

export const contactConfirmations = define('contact-confirmations', {
  table: 'contacts',
  path: '/contacts/:contact',
  scope: 'contacts',
  only: 'audience_key in (select key from audiences where deleted_at is null)',
  extension: true,
  about: 'One more confirmation email for a pending contact.',
  attributes: {
    outcome,
    possible_at: timeOrNull('Time from which the address can get the email. Null unless the outcome is `limited`.'),
  },
  actions: [
    {
      kind: 'act',
      path: 'confirmation',
      id: 'confirmContact',
      audit: 'people',
      refuses: ['form_closed', 'transition_not_allowed'],
      about:
        'Send one more confirmation email to a pending contact. The address gets one for an audience in five minutes, and `signup.per_address` emails about sign-ups in 24 hours.',
      run: async ({ now, parts, row }) => {
        const { audience_key, email, key, status } = row as unknown as Contact
        const { form, signedUp } = await parts.store.write((tx) => {
          const signup = tx.first(
            db
              .selectFrom('signups as s')
              .innerJoin('consents as c', 'c.key', 's.consent_key')
              .selectAll('s')
              .where('c.contact_key', '=', key)
              .orderBy('s.key', 'desc')
              .limit(1),
          )
          const consent = signup && consentByKey(tx, signup.consent_key)
          const form = signup && formByKey(tx, signup.form_key)
          if (status !== 'pending' || !consent || !form)
            throw refuse('transition_not_allowed', `${email} is ${status}. Only pending contacts can confirm.`)
          const given: NewSignup = {
            email,
            typed: jsonOf(signup.typed) as unknown as Typed,
            version: consent.form_version ?? form.version,
            language: signup.language,
            text: consent.text,
            source: 'api',
            page: consent.page,
            origin: consent.origin,
            client: consent.request_client,
          }
          return { form, signedUp: signUp(tx, signupDeps(parts), form.key, given, now) }
        })
        const asked = { to: email, kind: 'confirmation', audience: audience_key }
        const until =
          signedUp.outcome === 'limited'
            ? limitedUntil(parts.store, parts, asked, now, parts.config.signup.per_address)
            : undefined
        const possible_at = until === undefined || until === Infinity ? null : until
        return { row: { ...rowOf(parts.store, form, signedUp, now), key: row.key, id: row.id, possible_at } }
      },
    },
  ],
})
