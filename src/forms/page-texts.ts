// The controls that edit a form: its texts, its fields and its translations.
import { html } from 'hono/html'
import { storedFields, type FormFields } from '../views/form.ts'
import { field } from '../views/html/forms.ts'
import type { Form } from '../views/html/place.ts'
import { flag, objects, record, texts, type Thing } from '../views/html/visit.ts'
import type { Html } from '../views/html/widgets.ts'
import { forms } from './api.ts'

type FormThing = Thing<typeof forms>

/** The fields besides the email address and the name. */
const MOST_FIELDS = 3

const isSignUp = ({ relationships }: FormThing): boolean => Boolean(relationships?.['audience']?.data)

/** The texts that people see, in the default language. */
const texted = (one: FormThing): FormFields => ({
  name: { label: 'Name', hint: 'Only you see it.', required: true },
  title: { section: 'Texts', label: 'Title' },
  intro: { label: 'Introduction', lines: 3 },
  ...(isSignUp(one) && {
    consent_text: {
      label: 'Consent text',
      lines: 4,
      hint: 'The text that people agree to. Say what you send and how often. It is kept as proof.',
    },
    consent_checkbox: {
      label: 'Consent is given with',
      value: flag(one, 'consent_checkbox') ? 'yes' : '',
      options: [
        ['', 'the button'],
        ['yes', 'a checkbox'],
      ],
      read: (given: Form) => given.get('consent_checkbox') === 'yes',
    },
  }),
  button: { label: 'Button', hint: 'If empty, it is “Subscribe” or “Send” in the language.' },
  controller: { label: 'Responsible for the data', hint: 'Name and place of your organisation.' },
  privacy_url: { label: 'Privacy notice', type: 'url', hint: 'https://…' },
  language: { label: 'Language', hint: 'A language tag, such as en or pt-BR.' },
})

const REQUIRED = [
  ['', 'optional'],
  ['yes', 'required'],
] as const

/** The field for the name, and up to three others. */
const asked = (one: FormThing): FormFields => ({
  fields: {
    section: 'Fields',
    label: 'Fields',
    show: (typed, error) => {
      const list = objects(one, 'fields') as { key: string; label: string | null; required: boolean }[]
      const name = list.find(({ key }) => key === 'name')
      const others = list.filter(({ key }) => key !== 'name')
      const value = (control: string, stored: string): string => (typed?.has(control) ? typed.get(control) : stored)
      return html`<fieldset id="fields">
        <legend>Fields besides the email address</legend>
        ${error === undefined ? '' : html`<p class="bad" id="fields-error">${error}</p>`}
        ${field({
          name: 'asks-name',
          label: 'Name',
          options: [
            ['', 'not asked'],
            ['optional', 'optional'],
            ['yes', 'required'],
          ],
          value: value('asks-name', name ? (name.required ? 'yes' : 'optional') : ''),
        })}
        ${Array.from({ length: MOST_FIELDS }, (_, at) => {
          const stored = others[at]
          return html`<div class="row">
            ${field({ name: `label-${at}`, label: `Label ${at + 1}`, value: value(`label-${at}`, stored?.label ?? '') })}
            ${field({ name: `key-${at}`, label: 'Custom field', value: value(`key-${at}`, stored?.key ?? '') })}
            ${field({ name: `need-${at}`, label: 'Answer', options: REQUIRED, value: value(`need-${at}`, stored?.required ? 'yes' : '') })}
          </div>`
        })}
      </fieldset>`
    },
    read: fieldsIn,
  },
})

function fieldsIn(given: Form): object[] {
  const name = given.get('asks-name')
  const others = Array.from({ length: MOST_FIELDS }, (_, at) => ({
    key: given.get(`key-${at}`).trim(),
    label: given.get(`label-${at}`).trim() || null,
    required: given.get(`need-${at}`) === 'yes',
  }))
  return [
    ...(name === '' ? [] : [{ key: 'name', label: null, required: name === 'yes' }]),
    ...others.filter(({ key, label }) => key !== '' || label !== null),
  ]
}

/** The texts of a translation with their labels, and the lines of their controls. */
const TRANSLATED = {
  title: ['Title', 0],
  intro: ['Introduction', 3],
  consent_text: ['Consent text', 4],
  button: ['Button', 0],
} as const
type Translated = keyof typeof TRANSLATED

/** A fieldset for each translation, and one for another language. */
const translated = (one: FormThing): FormFields => ({
  translations: {
    section: 'Translations',
    label: 'Translations',
    show: (typed, error) => {
      const stored = Object.entries(record(one, 'translations')) as unknown as [string, Record<string, unknown>][]
      const keys = (objects(one, 'fields') as { key: string }[]).map(({ key }) => key).filter((key) => key !== 'name')
      const each = [...stored, ['', {}] as const]
      return html`${error === undefined ? '' : html`<p class="bad" id="translations-error">${error}</p>`}
      ${each.map(([tag, words], at) => translation(typed, { at, tag, words, keys, signUp: isSignUp(one) }))}`
    },
    read: translationsIn,
  },
})

interface Translation {
  at: number
  tag: string
  words: Readonly<Record<string, unknown>>
  /** The keys of the fields with labels. */
  keys: readonly string[]
  signUp: boolean
}

function translation(typed: Form | undefined, { at, keys, signUp, tag, words }: Translation): Html {
  const control = (name: string, label: string, stored: unknown, lines: number): Html => {
    const named = `translation-${at}-${name}`
    const value = typed?.has(named) ? typed.get(named) : typeof stored === 'string' ? stored : ''
    return field({ name: named, label, value, ...(lines > 0 && { lines }) })
  }
  const labels = (words['labels'] ?? {}) as Record<string, unknown>
  const names = (Object.keys(TRANSLATED) as Translated[]).filter((name) => signUp || name !== 'consent_text')
  return html`<details ${typed?.get(`translation-${at}-title`) && tag === '' ? html`open` : ''}>
    <summary>${tag === '' ? 'Add a language' : `Texts in ${tag}`}</summary>
    ${control('tag', 'Language', tag, 0)}
    ${names.map((name) => control(name, TRANSLATED[name][0], words[name], TRANSLATED[name][1]))}
    ${keys.map((key) => control(`label-${key}`, `Label of ${key}`, labels[key], 0))}
    ${tag === '' ? '' : html`<p class="soft">To remove the language, empty its title.</p>`}
  </details>`
}

function translationsIn(given: Form): Record<string, object> {
  const found: Record<string, object> = {}
  const entries = new Map(given.entries())
  for (const [name, tag] of entries) {
    const [, at] = /^translation-(\d{1,3})-tag$/.exec(name) ?? []
    const of = (text: string): string => entries.get(`translation-${at}-${text}`)?.trim() ?? ''
    if (at === undefined || tag.trim() === '' || of('title') === '') continue
    const prefix = `translation-${at}-label-`
    const labels = [...entries].filter(([each, label]) => each.startsWith(prefix) && label.trim() !== '')
    found[tag.trim()] = {
      ...Object.fromEntries(Object.keys(TRANSLATED).map((each) => [each, of(each).replaceAll('\r\n', '\n') || null])),
      labels: Object.fromEntries(labels.map(([each, label]) => [each.slice(prefix.length), label.trim()])),
    }
  }
  return found
}

/** How people subscribe, and the emails after that. */
const SUBSCRIBED: FormFields = {
  opt_in: {
    section: 'Confirmation',
    label: 'Opt-in',
    options: [
      ['double', 'Subscribers confirm by email'],
      ['single', 'None: anybody can subscribe any address'],
    ],
  },
  single_reason: {
    label: 'Reason without a confirmation',
    hint: 'Required without a confirmation, for example that people are signed in.',
  },
  confirm_note: { label: 'Note in the confirmation email', lines: 3 },
  confirmed_url: { label: 'Page after the confirmation', type: 'url' },
  from_address: { label: 'From' },
  reply_to: { label: 'Reply-To' },
  welcome_subject: { section: 'Welcome email', label: 'Subject of the welcome email' },
  welcome_html: { label: 'HTML of the welcome email', lines: 6, hint: 'Merge tags such as {{name}} are replaced.' },
}

/** The websites that contain the form. */
const placed = (one: FormThing): FormFields => ({
  origins: {
    section: 'Your website',
    label: 'Websites with the form',
    value: texts(one, 'origins').join('\n'),
    lines: 3,
    hint: 'One origin on each line, such as https://www.example.org.',
    read: (given) => given.get('origins').split(/\s+/).filter(Boolean),
  },
  requested_url: {
    label: 'Page after the form was sent',
    type: 'url',
    hint: 'On one of these websites. If empty, it is a page of this server.',
  },
})

/** The fields of the page of a form, in their order. */
export const editFields = (one: FormThing): FormFields =>
  storedFields(forms, one, {
    ...texted(one),
    ...asked(one),
    ...translated(one),
    ...placed(one),
    ...(isSignUp(one) && SUBSCRIBED),
  })
