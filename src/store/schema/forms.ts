// The tables of sign-up forms: the forms, the texts that people saw, and sign-ups that wait for their confirmation.
import { FORM_STATUSES } from '../states/form.ts'
import { due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

const shown = { null: true, digested: true, person: 'mark' } as const

export const formsTables = tablesOf('forms', {
  forms: {
    digest: 27,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      domain_key: integer({ digested: true }),
      /** The audience of a sign-up form. Null for a contact form. */
      audience_key: integer({ null: true, digested: true }),
      /** The inbox of a contact form. */
      inbox_key: integer({ null: true, digested: true }),
      name: text({ digested: true, person: 'mark' }),
      /** The last part of its URL, unique on the server. */
      slug: text({ digested: true, person: 'mark' }),
      status: oneOf(FORM_STATUSES),
      /** Why it was paused, as a sentence. */
      paused_reason: text({ null: true, undigested: 'an explanation', nobody: 'numbers of sign-ups' }),
      opt_in: oneOf(['double', 'single'], { digested: true }),
      single_reason: text(shown),
      title: text(shown),
      intro: text(shown),
      consent_text: text(shown),
      /** The consent is given with a checkbox of its own. */
      consent_checkbox: flag({ digested: true }),
      button: text(shown),
      confirm_note: text(shown),
      /** Who is responsible for the data. */
      controller: text(shown),
      privacy_url: text(shown),
      language: text({ digested: true, nobody: 'a language' }),
      /** { [language]: { title, intro, consent_text, button, labels } } */
      translations: json({ digested: true, person: 'mark' }),
      /** { key, label, required }[] */
      fields: json({ digested: true, person: 'mark' }),
      /** string[]: origins whose pages can contain the form. */
      origins: json({ digested: true, person: 'mark' }),
      requested_url: text(shown),
      confirmed_url: text(shown),
      from_address: text(shown),
      reply_to: text(shown),
      welcome_subject: text(shown),
      welcome_html: text(shown),
      /** The name of the field that people do not see. */
      honeypot: text({ digested: true, nobody: 'a random name' }),
      version: integer(),
      requested_count: integer(),
      confirmed_count: integer(),
      refused_count: integer(),
      expired_count: integer(),
      stopped_count: integer(),
      /** When it was opened, paused or closed. */
      status_at: time(),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The texts and fields of a form exactly as people saw them. A version never changes. */
  form_versions: {
    digest: 28,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      form_key: integer({ digested: true }),
      version: integer({ digested: true }),
      /** FormTexts of forms/versions.ts. */
      texts: json({ digested: true, person: 'mark' }),
      created_by: text({ undigested: 'a name for display', person: 'mark' }),
      created_at: time(),
    },
  },
  /** Sign-ups that wait: for the form to be opened again, or for the confirmation. The row goes when it ends. */
  signups: {
    digest: 29,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      form_key: integer({ digested: true }),
      consent_key: integer({ digested: true }),
      email: text({ digested: true, person: 'own step', held: true }),
      /** { name, fields }: what was typed. It reaches the contact only by a confirmation. */
      typed: json({ digested: true, person: 'mark', held: true }),
      language: text({ undigested: 'a language', nobody: 'a language' }),
      /**
       * Waiting: the form is paused, and no email has been sent. A trigger sets `bounced` and `complained` by the
       * status of the confirmation email.
       */
      state: oneOf(['waiting', 'sent', 'bounced', 'complained']),
      /** The id of the confirmation email. */
      email_id: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      expires_at: due({ ahead: 'wait' }),
      created_at: time(),
      updated_at: time(),
    },
  },
})
