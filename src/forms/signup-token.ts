// The token of a hosted form proves when this server showed the form, without a cookie. It is bound to the form and its
// version, and can be used again, for example after the back button.
import type { Keyring } from '../base/keyring.ts'
import { openToken, sealToken } from '../base/sealed-token.ts'
import type { FormRow } from './versions.ts'

type FormVersion = Pick<FormRow, 'id' | 'version'>

const labelOf = ({ id, version }: FormVersion): string => `form ${id} ${version}`

export const sealFormToken = (keyring: Keyring, form: FormVersion, now: number): string =>
  sealToken(keyring, labelOf(form), [now])

/** Returns when a form was shown, or undefined if this server did not issue the token for this form and version. */
export const readFormToken = (keyring: Keyring, form: FormVersion, token: string): number | undefined =>
  openToken<[number]>(keyring, labelOf(form), token)?.[0]
