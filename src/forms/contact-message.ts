// Contact forms: what was typed becomes an email of this server in an inbox, whose answers go to the visitor. It passes
// the same checks and limits as a sign-up before it is written here.
import { createPrivateKey } from 'node:crypto'
import { newId } from '../base/ids.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { OpenKeys, signingKeyOf } from '../domains/keys.ts'
import { writeOwnMessage } from '../inbound/own-message.ts'
import { knownAddress } from '../message/address.ts'
import { compose } from '../message/compose.ts'
import { sign } from '../message/dkim.ts'
import { messageIdOf } from '../message/identity.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { formByKey } from './forms.ts'
import { shownLabel, wordsOf } from './hosted.ts'
import { limitsOf } from './limits.ts'
import { countSent } from './limits-form.ts'
import { FORM_EVENTS } from './signup-counts.ts'
import type { FormInput } from './signup-input.ts'
import { count } from './signup.ts'
import { currentTexts, type FormRow } from './versions.ts'

export interface ContactMessageDeps {
  store: Store
  keyring: Keyring
  config: Pick<Config, 'hostname' | 'http' | 'signup'>
}

interface ContactMessage {
  form: FormRow
  input: FormInput
  /** The language of the page. */
  language: string
}

/** Delivers a message to the inbox of its form. Returns false if the form is not open any more. */
export function deliverMessage(deps: ContactMessageDeps, given: ContactMessage, now: number): Promise<boolean> {
  const times = limitsOf(deps.store).forms
  return deps.store.write((tx) => {
    const form = formByKey(tx, given.form.key)
    const inbox =
      form?.status === 'open' && form.deleted_at === null
        ? tx.first(
            db.selectFrom('inboxes').selectAll().where('key', '=', form.inbox_key).where('deleted_at', 'is', null),
          )
        : undefined
    if (!form || !inbox || !countSent(tx, { ...deps, times }, form, now)) return false
    const { hostname } = deps.config
    const message = composed(tx, deps, { ...given, form, inbox }, now)
    writeOwnMessage(tx, { hostname, inbox, message }, now)
    count(tx, form, { requested: 1 }, now)
    tx.afterCommit(() => FORM_EVENTS.messages.add())
    return true
  })
}

/** The message, signed by the domain of the inbox. What was typed is only in Reply-To and in the text. */
function composed(
  tx: Tx,
  { keyring }: ContactMessageDeps,
  { form, inbox, input, language }: ContactMessage & { inbox: { address: string; domain_key: number } },
  now: number,
): string {
  const { name } = tx.one(db.selectFrom('domains').select('name').where('key', '=', inbox.domain_key))
  const visitor = knownAddress(input.email)
  const message = [
    ...compose({
      from: { ...knownAddress(`noreply@${name}`), name: form.name },
      to: [knownAddress(inbox.address)],
      cc: [],
      replyTo: [{ ...visitor, name: input.typed.name ?? '' }],
      subject: form.title ?? form.name,
      html: '',
      text: textOf(tx, form, input, language),
      attachments: [],
      messageId: messageIdOf(newId(now), name),
      date: now,
      extra: [['Auto-Submitted', 'auto-generated']],
      tracking: null,
    }),
  ].join('')
  const held = signingKeyOf(tx, inbox.domain_key)
  const key = held && 'key' in held ? new OpenKeys(tx, keyring).get(held.key) : undefined
  if (!key) return message
  const { privateKey, selector } = key
  return sign(message, { domain: name, selector, privateKey: createPrivateKey(privateKey), time: now })
}

function textOf(tx: Tx, form: FormRow, { email, message, typed }: FormInput, language: string): string {
  const texts = currentTexts(tx, form)
  const { t } = wordsOf(form.language)
  const lines = texts.fields.flatMap((field) => {
    const value = field.key === 'name' ? typed.name : typed.fields[field.key]
    return value ? [`${shownLabel(texts, field, form.language)}: ${value}`] : []
  })
  return [`${t('email_label')}: ${email}`, ...lines, `${t('language_choice')}: ${language}`, '', message, ''].join('\n')
}
