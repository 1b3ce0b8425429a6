// The texts of a form as people see them. Each change of an open form makes a version, so that a consent can name the
// text that was shown. A version never changes, and stays when its form is deleted.
import { newId } from '../base/ids.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type FormRow = RowOf<'forms'>

/** A field besides the email address. The key `name` is the contact's name, others are custom fields. */
export interface AskedField {
  key: string
  /** Null for the field `name`, which the page labels in its language. */
  label: string | null
  required: boolean
}

/** The texts of a form in one language. */
export interface FormWords {
  title: string
  intro: string | null
  consent_text: string | null
  /** Null: "Subscribe" or "Send" in the language. */
  button: string | null
  /** Labels of fields by key. A field without one has the label of the default language. */
  labels: Readonly<Record<string, string>>
}

/** Everything that people see on a form. */
export interface FormTexts {
  /** The default language. */
  language: string
  languages: Readonly<Record<string, FormWords>>
  fields: readonly AskedField[]
  /** The consent is given with a checkbox. */
  consent_checkbox: boolean
  controller: string | null
  privacy_url: string | null
}

/** The texts of a form's row. */
export function textsOfForm(form: FormRow): FormTexts {
  const fields = JSON.parse(form.fields) as AskedField[]
  const translations = JSON.parse(form.translations) as Record<string, FormWords>
  const { button, consent_text, intro } = form
  const labels = Object.fromEntries(fields.flatMap(({ key, label }) => (label === null ? [] : [[key, label]])))
  const own = { title: form.title ?? '', intro, consent_text, button, labels }
  return {
    language: form.language,
    languages: { [form.language]: own, ...translations },
    fields,
    consent_checkbox: form.consent_checkbox === 1,
    controller: form.controller,
    privacy_url: form.privacy_url,
  }
}

/**
 * Writes the texts of a form as a version if they differ from its last one, and returns the number of the version. A
 * draft has one version, because nobody has seen it.
 */
export function writeVersion(tx: Tx, form: FormRow, by: string, now: number): number {
  const texts = JSON.stringify(textsOfForm(form))
  const last = tx.first(versionOf({ form_key: form.key, version: form.version }))
  if (last?.texts === texts) return form.version
  const version = form.status === 'draft' ? 1 : form.version + 1
  if (form.status === 'draft') tx.run(db.deleteFrom('form_versions').where('form_key', '=', form.key))
  const { key: form_key, user_key } = form
  tx.run(
    db
      .insertInto('form_versions')
      .values({ id: newId(now), user_key, form_key, version, texts, created_by: by, created_at: now }),
  )
  return version
}

const versionOf = statement<{ form_key: number; version: number }>()((arg) =>
  db
    .selectFrom('form_versions')
    .select('texts')
    .where('form_key', '=', arg.form_key)
    .where('version', '=', arg.version),
)

/** The texts of a version, or undefined if it does not exist. */
export function textsOfVersion(reader: Reader, formKey: number, version: number): FormTexts | undefined {
  const row = reader.first(versionOf({ form_key: formKey, version }))
  return row && (JSON.parse(row.texts) as FormTexts)
}

/** The texts that people see now. */
export const currentTexts = (reader: Reader, form: FormRow): FormTexts =>
  textsOfVersion(reader, form.key, form.version) ?? textsOfForm(form)

/** The tag of a form's language that fits a BCP 47 tag best: "de" and "de-CH" for "de-AT". */
export function languageAmong({ languages }: FormTexts, tag: string): string | undefined {
  const primary = (of: string): string | undefined => of.toLowerCase().split('-')[0]
  const tags = Object.keys(languages)
  return (
    tags.find((each) => each.toLowerCase() === tag.toLowerCase()) ??
    tags.find((each) => each.toLowerCase() === primary(tag)) ??
    tags.find((each) => primary(each) === primary(tag))
  )
}

/** The texts in a language, which falls back to the default language. */
export function wordsIn(texts: FormTexts, language: string): FormWords {
  const words = texts.languages[language] ?? texts.languages[texts.language]
  if (!words) throw new Error('A form has no texts in its default language.')
  return words
}

/** The label of a field in a language, or undefined for a field that the page labels. */
export const labelIn = (texts: FormTexts, { key, label }: AskedField, language: string): string | undefined =>
  wordsIn(texts, language).labels[key] ?? label ?? undefined
