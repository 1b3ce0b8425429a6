// Sign-up forms and contact forms, and the texts that people saw on them.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { define } from '../jsonapi/define.ts'
import { count, holding, words, wordsOrNull } from '../jsonapi/fields.ts'
import { relatedIn } from '../jsonapi/related.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { address, languageTag, line, nameField, text, unlessBlank } from '../jsonapi/schemas.ts'
import { FORM_STATUSES } from '../store/states/form.ts'
import { nameOfCaller } from '../users/users.ts'
import * as schemas from './api-schemas.ts'
import { addForm, changeForm, removeForm, type FormTarget } from './forms.ts'
import { embedHtml, formUrl } from './hosted.ts'
import type { FormRow, FormTexts } from './versions.ts'

const both = { create: 'optional', update: true } as const
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', sort: true, about })
const byName = (call: Pick<Call<{ store: Parameters<typeof nameOfCaller>[0] }>, 'caller' | 'parts'>): string =>
  nameOfCaller(call.parts.store, call.caller)

const audience = relatedIn('audience', 'audiences')
const inbox = relatedIn('inbox', 'inboxes', 'domains:read')

/** The audience or the inbox that a request names. Throws 422 unless it names exactly one. */
function targetOf(call: Parameters<typeof audience.find>[0]): FormTarget {
  const [subscribed, received] = [audience.find(call), inbox.find(call)]
  const row = subscribed ?? received
  if (!row || (subscribed && received))
    throw refuse(
      row ? 'invalid' : 'required',
      'A form has exactly one of the relationships "audience" (a sign-up form) and "inbox" (a contact form).',
      { pointer: '/data' },
    )
  const { domain_key } = row
  const [audience_key, inbox_key] = [subscribed?.key ?? null, received?.key ?? null]
  return { user_key: call.caller.userKey, domain_key, audience_key, inbox_key }
}

const counts = z.object({
  requested: z.int().describe('Sign-ups, or messages of a contact form.'),
  confirmed: z.int().describe('Sign-ups that were confirmed.'),
  refused: z.int().describe('Sign-ups that the owner of the address refused.'),
  expired: z.int().describe('Sign-ups that were not confirmed in time.'),
  stopped: z.int().describe('Requests by robots, or over a limit.'),
})

const FIELDS = [
  { key: 'name', label: null, required: false },
  { key: 'city', label: 'City', required: false },
]

/** Stored texts, which can be those of an unfinished draft. */
const shownWords = z.object({
  title: z.string().describe('Title.'),
  intro: z.string().nullable().describe('Introduction. Null if absent.'),
  consent_text: z.string().nullable().describe('Text that people agreed to. Null if absent.'),
  button: z.string().nullable().describe('Text of the button. Null if it was that of the server.'),
  labels: z.record(z.string(), z.string()).describe('Labels of fields by key.'),
})
const shownField = z.object({
  key: z.string().describe('`name`, or the name of the custom field.'),
  label: z.string().nullable().describe('Label in the default language. Null if it was that of the server.'),
  required: z.boolean().describe('Whether it had to be filled in.'),
})

export const forms = define('forms', {
  table: 'forms',
  path: '/forms/:form',
  scope: 'contacts',
  only: 'deleted_at is null',
  extension: true,
  about:
    'Forms on which people subscribe to an audience (sign-up forms) or write to an inbox (contact forms). A form has its own page on this server, and can be part of pages of other websites.',
  attributes: {
    name: nameField('Website'),
    slug: field(schemas.slug(), {
      create: 'optional',
      about: 'Last part of the URL of the form. If absent, it is made of the name. It cannot be changed later.',
      example: 'acme-news',
    }),
    status: field(z.enum(FORM_STATUSES, { error: `must be one of ${FORM_STATUSES.join(', ')}` }), {
      update: true,
      sort: true,
      about:
        'Status. An update can open, pause and close the form. People can use a form that is open. While it is paused, sign-ups are stored, and their confirmation emails are sent when it is opened again.',
    }),
    paused_reason: wordsOrNull('Why the server paused the form. Null if it did not.'),
    opt_in: field(z.enum(['double', 'single'], 'must be "double" or "single"'), {
      ...both,
      about:
        'Whether subscribers confirm by email (`double`, the default), or are subscribed at once (`single`), which anybody can do for any address.',
    }),
    single_reason: field(schemas.singleReason(), {
      ...both,
      about: 'Why people are subscribed without a confirmation. Required with `single`. 10 to 500 characters.',
    }),
    title: field(schemas.title(), { ...both, about: 'Title that people see.', example: 'Acme News' }),
    intro: field(schemas.intro(), { ...both, about: 'Introduction, as plain text. Null if absent.' }),
    consent_text: field(schemas.consentText(), {
      ...both,
      about: 'Text that people agree to, as plain text. It is kept as proof. An open sign-up form must have it.',
      example: 'I would like to receive Acme News by email once a month.',
    }),
    consent_checkbox: field(z.boolean('must be true or false'), {
      ...both,
      kind: 'flag',
      about: 'Whether people agree with a checkbox instead of the button.',
    }),
    button: field(schemas.button(), { ...both, about: 'Text of the button. If null, it is that of the server.' }),
    confirm_note: field(schemas.confirmNote(), {
      ...both,
      about: 'A note in the confirmation email, as plain text. Null if absent.',
    }),
    controller: field(schemas.controller(), {
      ...both,
      about: 'Who is responsible for the data: name and place. An open form must have it.',
      example: 'Acme Ltd, Ghent',
    }),
    privacy_url: field(schemas.privacyUrl(), {
      ...both,
      about: 'URL of your privacy notice. An open form must have it.',
      example: 'https://www.example.org/privacy',
    }),
    language: field(languageTag(), {
      ...both,
      answer: z.string(),
      about: 'Language of the texts, as a BCP 47 tag. By default that of the audience, or English.',
      example: 'en',
    }),
    translations: field(schemas.translations(), {
      ...both,
      kind: 'json',
      answer: z.record(z.string(), shownWords),
      about: 'Texts in other languages, by their BCP 47 tags. People see the language that fits best.',
      example: { de: { title: 'Acme-Neuigkeiten', consent_text: 'Ich möchte die Acme-Neuigkeiten erhalten.' } },
    }),
    fields: field(schemas.fields(), {
      ...both,
      kind: 'json',
      about: 'Fields besides the email address: `name`, and up to three others, which become custom fields.',
      example: FIELDS,
    }),
    origins: field(schemas.origins(), {
      ...both,
      kind: 'json',
      answer: z.array(z.string()),
      about: 'Origins of the websites that contain the form.',
      example: ['https://www.example.org'],
    }),
    requested_url: field(schemas.pageUrl(), {
      ...both,
      about:
        'Page that people see after the form was sent, on one of the `origins`. If null, it is one of this server.',
    }),
    confirmed_url: field(schemas.pageUrl(), {
      ...both,
      about: 'Page that people see after the confirmation, on one of the `origins`. If null, it is one of this server.',
    }),
    from_address: field(address().nullable(), {
      ...both,
      about: 'Sender of the confirmation and welcome emails. If null, noreply@ on the sending domain.',
    }),
    reply_to: field(address().nullable(), {
      ...both,
      about: 'Address for replies to these emails. If null, replies go to the sender.',
    }),
    welcome_subject: field(unlessBlank(line(255)), {
      ...both,
      about: 'Subject of an email after the confirmation. It can contain merge tags. Null if none is sent.',
    }),
    welcome_html: field(text(100 * 1024).nullable(), {
      ...both,
      read: 'single',
      about: 'HTML body of this email. It can contain merge tags. Null if none is sent.',
    }),
    version: count('Number of the version that people see. Each change of an open form that they see makes a new one.'),
    honeypot: words('Name of a field that people do not see. Requests that fill it in are ignored.'),
    public_url: words('URL of the form on this server.'),
    embed_html: field(z.string(), { read: 'single', about: 'HTML of the form for other websites.' }),
    counts: field(counts, { about: 'Number of sign-ups by result.' }),
    status_at: time('Time of the last change of the status.'),
    created_at: time('Time when the form was created.'),
    updated_at: time('Time of the last change.'),
  },
  relationships: {
    audience: { type: 'audiences', column: 'audience_key', create: true, optional: true },
    inbox: { type: 'inboxes', column: 'inbox_key', create: true, optional: true },
  },
  filters: {
    status: { column: 'status' },
    audience: { column: 'audience_key', type: 'audiences' },
    search: holding('name', 'title', 'slug'),
  },
  extend(rows, { parts, single }) {
    const { config } = parts as { config: Parameters<typeof formUrl>[0] }
    for (const row of rows) {
      const form = row as unknown as FormRow
      const { confirmed_count, expired_count, refused_count, requested_count, stopped_count } = form
      Object.assign(row, {
        public_url: formUrl(config, form),
        counts: {
          requested: requested_count,
          confirmed: confirmed_count,
          refused: refused_count,
          expired: expired_count,
          stopped: stopped_count,
        },
      })
      if (single) row['embed_html'] = embedHtml(form, config)
    }
  },
  actions: [
    { kind: 'list', about: 'List forms.' },
    {
      kind: 'create',
      refuses: ['not_found', 'already_exists', 'address_outside_domain', 'limit_reached'],
      about: 'Create a form, as a draft. It names either an audience (a sign-up form) or an inbox (a contact form).',
      before: (call) => {
        audience.before(call)
        inbox.before(call)
      },
      run: async (call) => ({
        row: { ...(await addForm(call.parts, targetOf(call), call.attributes, byName(call))) },
      }),
    },
    { kind: 'show', about: 'Get a form.' },
    {
      kind: 'update',
      refuses: ['transition_not_allowed', 'domain_not_active', 'address_outside_domain'],
      about: 'Update a form, or open, pause or close it.',
      run: async (call) => ({
        row: { ...(await changeForm(call.parts, call.row.key, call.attributes, byName(call))) },
      }),
    },
    {
      kind: 'delete',
      about: 'Delete a form. The texts that people agreed to stay with their consents.',
      run: ({ parts, row }) => removeForm(parts, row.key),
    },
  ],
})

export const formVersions = define('form-versions', {
  table: 'form_versions',
  scope: 'contacts',
  extension: true,
  about: 'Texts and fields of a form exactly as people saw them. A version never changes.',
  attributes: {
    version: field(z.int(), { sort: true, about: 'Number of the version. Consents contain it.' }),
    language: words('Default language, as a BCP 47 tag.'),
    languages: field(z.record(z.string(), shownWords), { about: 'Texts by language.' }),
    fields: field(z.array(shownField), { about: 'Fields besides the email address.' }),
    consent_checkbox: field(z.boolean(), { about: 'Whether people agreed with a checkbox.' }),
    controller: wordsOrNull('Who is responsible for the data.'),
    privacy_url: wordsOrNull('URL of the privacy notice.'),
    created_by: words('Who changed the form: the address of a user, or the name of a token.'),
    created_at: time('Time from which people saw it.'),
  },
  relationships: { form: { type: 'forms', column: 'form_key' } },
  extend(rows) {
    for (const row of rows) Object.assign(row, JSON.parse(row['texts'] as string) as FormTexts)
  },
  actions: [
    {
      kind: 'list',
      path: '/forms/:form/versions',
      within: { type: 'forms', column: 'form_key', removed: true },
      about: 'List the versions of a form, newest first. This includes deleted forms.',
    },
  ],
})
