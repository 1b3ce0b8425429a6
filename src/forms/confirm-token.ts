// The token of a confirmation link. It holds all that a new link needs, because the address of a sign-up is deleted
// when the sign-up ends. It is encrypted: address, form and consent cannot be read from it (D60).
import type { Keyring } from '../base/keyring.ts'

export interface ConfirmLink {
  /** Keys of the consent and of the form. */
  consent: number
  form: number
  email: string
  /** When the link expires. */
  until: number
}

const LABEL = 'confirmation'
const MAX_TOKEN = 1000
/** The content is padded to a multiple of this many bytes, so that its length does not show that of the address. */
const BLOCK = 48

export function confirmUrl(keyring: Keyring, publicUrl: string, { consent, email, form, until }: ConfirmLink): string {
  const content = JSON.stringify([consent, form, email, until])
  const padded = content + ' '.repeat((BLOCK - (Buffer.byteLength(content) % BLOCK)) % BLOCK)
  return `${publicUrl}/c/${keyring.seal(LABEL, padded).toString('base64url')}`
}

/** Returns the content of a token, or undefined if this server did not issue it. */
export function readConfirmToken(keyring: Keyring, token: string): ConfirmLink | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const bytes = Buffer.from(token, 'base64url')
  // The decoder ignores foreign characters and unused bits of the last character: only the exact form is accepted.
  if (bytes.toString('base64url') !== token) return undefined
  try {
    const [consent, form, email, until] = JSON.parse(keyring.open(LABEL, bytes)) as [number, number, string, number]
    return { consent, form, email, until }
  } catch {
    return undefined
  }
}
