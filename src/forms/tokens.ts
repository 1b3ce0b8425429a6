// The tokens that forms and their emails contain. They are encrypted: what they hold cannot be read or changed. A token
// is bound to its label, and can be used again, for example after the back button.
import { hash } from 'node:crypto'
import { DAY } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { openToken, sealToken } from '../base/sealed-token.ts'
import type { FormRow } from './versions.ts'

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

export const confirmUrl = (keyring: Keyring, publicUrl: string, { consent, email, form, until }: ConfirmLink): string =>
  `${publicUrl}/c/${sealToken(keyring, LABEL, [consent, form, email, until])}`

/** Returns the content of a token, or undefined if this server did not issue it. */
export function readConfirmToken(keyring: Keyring, token: string): ConfirmLink | undefined {
  const opened = openToken<[number, number, string, number]>(keyring, LABEL, token)
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
  sealToken(keyring, labelOf(form), [now])

/** Returns when a form was shown, or undefined if this server did not issue the token for this form and version. */
export const readFormToken = (keyring: Keyring, form: FormVersion, token: string): number | undefined =>
  openToken<[number]>(keyring, labelOf(form), token)?.[0]

const CHECK_TIME = DAY
const checkLabel = ({ id }: Pick<FormRow, 'id'>): string => `form check ${id}`

/** The hash of the values that a check page shows or contains. */
const checkedValues = (posted: ControlValues): string => {
  const values = [...posted].filter(([name]) => name !== 'check' && name !== 't')
  return hash('sha256', JSON.stringify(values.toSorted(([a], [b]) => (a < b ? -1 : 1))))
}

export const sealCheck = (keyring: Keyring, form: Pick<FormRow, 'id'>, posted: ControlValues, now: number): string =>
  sealToken(keyring, checkLabel(form), [now, checkedValues(posted)])

/** Whether a request comes from a check page that showed the same values in the last 24 hours. */
export function isChecked(keyring: Keyring, form: Pick<FormRow, 'id'>, posted: ControlValues, now: number): boolean {
  const [at, values] = openToken<[number, string]>(keyring, checkLabel(form), posted.get('check') ?? '') ?? [NaN]
  return at <= now && now - at <= CHECK_TIME && values === checkedValues(posted)
}
