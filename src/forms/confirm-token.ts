// The token of a confirmation link. It holds all that a new link needs, because the address of a sign-up is deleted
// when the sign-up ends.
import type { Keyring } from '../base/keyring.ts'
import { openToken, sealToken } from '../base/sealed-token.ts'

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
  const values = openToken<[number, number, string, number]>(keyring, LABEL, token)
  if (!values) return undefined
  const [consent, form, email, until] = values
  return { consent, form, email, until }
}
