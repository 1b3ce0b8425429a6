// The tokens that forms and their emails contain. They are encrypted: what they hold cannot be read or changed. A token
// is bound to its label, and can be used again, for example after the back button.
import { hash } from 'node:crypto'
import { DAY } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { FormRow } from './versions.ts'

const MAX_TOKEN = 1000

const sealedJson = (keyring: Keyring, label: string, content: string): string =>
  keyring.seal(label, content).toString('base64url')

/** Returns the content of a token, or undefined if this server did not issue it with this label. */
function openedJson<T>(keyring: Keyring, label: string, token: string): T | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const bytes = Buffer.from(token, 'base64url')
  // The decoder ignores foreign characters and unused bits of the last character: only the exact form is accepted.
  if (bytes.toString('base64url') !== token) return undefined
  try {
    return JSON.parse(keyring.open(label, bytes)) as T
  } catch {
    return undefined
  }
}

// The token of a confirmation link holds all that a new link needs, because the address of a sign-up is deleted when
// the sign-up ends (D60).

export interface ConfirmLink {
  /** Keys of the consent and of the form. */
  consent: number
  form: number
  email: string
  /** When the link expires. */
  until: number
}

const LABEL = 'confirmation'
/** The content is padded to a multiple of this many bytes, so that its length does not show that of the address. */
const BLOCK = 48

export function confirmUrl(keyring: Keyring, publicUrl: string, { consent, email, form, until }: ConfirmLink): string {
  const content = JSON.stringify([consent, form, email, until])
  const padded = content + ' '.repeat((BLOCK - (Buffer.byteLength(content) % BLOCK)) % BLOCK)
  return `${publicUrl}/c/${sealedJson(keyring, LABEL, padded)}`
}

/** Returns the content of a token, or undefined if this server did not issue it. */
export function readConfirmToken(keyring: Keyring, token: string): ConfirmLink | undefined {
  const opened = openedJson<[number, number, string, number]>(keyring, LABEL, token)
  if (!opened) return undefined
  const [consent, form, email, until] = opened
  return { consent, form, email, until }
}

// The tokens of a hosted form need no cookie: one proves when this server showed the form, the other one which values
// its check page showed (AU13).

/** What was typed, by the names of the controls. */
type ControlValues = ReadonlyMap<string, string>

type FormVersion = Pick<FormRow, 'id' | 'version'>

const labelOf = ({ id, version }: FormVersion): string => `form ${id} ${version}`

export const sealFormToken = (keyring: Keyring, form: FormVersion, now: number): string =>
  sealedJson(keyring, labelOf(form), String(now))

/** Returns when a form was shown, or undefined if this server did not issue the token for this form and version. */
export const readFormToken = (keyring: Keyring, form: FormVersion, token: string): number | undefined =>
  openedJson(keyring, labelOf(form), token)

const CHECK_TIME = DAY
const checkLabel = ({ id }: Pick<FormRow, 'id'>): string => `form check ${id}`

/** The hash of the values that a check page shows or contains. */
const checkedValues = (posted: ControlValues): string => {
  const values = [...posted].filter(([name]) => name !== 'check' && name !== 't')
  return hash('sha256', JSON.stringify(values.toSorted(([a], [b]) => (a < b ? -1 : 1))))
}

export const sealCheck = (keyring: Keyring, form: Pick<FormRow, 'id'>, posted: ControlValues, now: number): string =>
  sealedJson(keyring, checkLabel(form), JSON.stringify([now, checkedValues(posted)]))

/** Whether a request comes from a check page that showed the same values in the last 24 hours. */
export function isChecked(keyring: Keyring, form: Pick<FormRow, 'id'>, posted: ControlValues, now: number): boolean {
  const [at, values] = openedJson<[number, string]>(keyring, checkLabel(form), posted.get('check') ?? '') ?? [NaN]
  return at <= now && now - at <= CHECK_TIME && values === checkedValues(posted)
}
