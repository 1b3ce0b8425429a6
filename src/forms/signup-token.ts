// The token of a hosted form proves when this server showed the form, without a cookie. It is bound to the form and its
// version, and can be used again, for example after the back button.
import type { Keyring } from '../base/keyring.ts'
import type { FormRow } from './versions.ts'

type FormVersion = Pick<FormRow, 'id' | 'version'>

const MAX_TOKEN = 200
const labelOf = ({ id, version }: FormVersion): string => `form ${id} ${version}`

export const sealFormToken = (keyring: Keyring, form: FormVersion, now: number): string =>
  keyring.seal(labelOf(form), String(now)).toString('base64url')

/** Returns when a form was shown, or undefined if this server did not issue the token for this form and version. */
export function readFormToken(keyring: Keyring, form: FormVersion, token: string): number | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const bytes = Buffer.from(token, 'base64url')
  // The decoder ignores foreign characters: only the exact form is accepted.
  if (bytes.toString('base64url') !== token) return undefined
  try {
    return Number(keyring.open(labelOf(form), bytes))
  } catch {
    return undefined
  }
}
