// The identity of a message as it is shown: sender, subject and Message-ID. The messages of a campaign take them from
// the campaign, and their own columns are empty. The merge tags of the subject are filled with the present data of the
// contact. When the contact was removed, the merge tags are shown unfilled.
import { jsonOf } from '../base/json.ts'
import { cutTemplate, startOfFilled, textOfValue, type TemplateValues } from './template.ts'

export interface Identity {
  from: string
  subject: string
  message_id: string
}

/** The columns that a campaign's messages share. */
export interface SharedIdentity {
  from_address: string | null
  subject: string
}

/** The data that fills merge tags. */
export interface Tagged {
  email: string
  name: string | null
  /** A JSON object by the names of its fields. */
  custom_fields: string | null
}

/** Values by merge tag, without the unsubscribe tags, which are empty in every test (specification "Campaign"). */
export function valuesOf({ custom_fields, email, name }: Tagged): TemplateValues {
  const values = Object.create(null) as Record<string, string>
  const own = custom_fields === null ? undefined : jsonOf(custom_fields)
  for (const [field, value] of Object.entries(own ?? {})) values[field] = textOfValue(value)
  values['name'] = name ?? ''
  values['email'] = email
  return values
}

/**
 * The recipient of a campaign's email: the contact, or in a test (`test_mode`) only the address. Otherwise undefined.
 */
export const taggedOf = (
  contact: { email: string | null; name: string | null; custom_fields: string | null },
  { test_mode, to }: { test_mode: number | null; to: string },
): Tagged | undefined =>
  contact.email !== null
    ? { ...contact, email: contact.email }
    : test_mode === 1
      ? { email: to, name: null, custom_fields: null }
      : undefined

/** The sender of a campaign. `domain` is its sending domain. */
export const campaignSender = (from: string | null, domain: string): string => from ?? `noreply@${domain}`

/** The Message-ID of a message, by its id and its sending domain, with angle brackets (RFC 5322 §3.6.4). */
export const messageIdOf = (id: string, domain: string): string => `<${id}@${domain}>`

/** The identity of a campaign's email. `domain` is the sending domain, `to` is the recipient. */
export const sharedIdentity = (
  id: string,
  { from_address, subject }: SharedIdentity,
  domain: string,
  to: Tagged | undefined,
): Identity => ({
  from: campaignSender(from_address, domain),
  subject: to && subject.includes('{{') ? startOfFilled(cutTemplate(subject), valuesOf(to)) : subject,
  message_id: messageIdOf(id, domain),
})

/** The identity of any mail: from its own columns or, when it is a campaign's, from those of the campaign. */
export const identityOf = (
  { from, id, message_id, subject }: Identity & { id: string },
  campaign: SharedIdentity | undefined,
  domain: string,
  to: Tagged | undefined,
): Identity => (campaign ? sharedIdentity(id, campaign, domain, to) : { from, subject, message_id })
