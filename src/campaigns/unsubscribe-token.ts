// The token of an unsubscribe link: all that is needed to unsubscribe, signed, so that a link works when contact, campaign and mail are
// long gone (D45).
import type { Keyring } from '../base/keyring.ts'

export interface Leaving {
  /** Keys of the delivery, the sending domain and the audience. */
  delivery: number
  domain: number
  audience: number
  email: string
}

const MAC_BYTES = 12

export function unsubscribeUrl(
  keyring: Keyring,
  publicUrl: string,
  { delivery, domain, audience, email }: Leaving,
): string {
  const body = Buffer.from(JSON.stringify([delivery, domain, audience, email]))
  const token = Buffer.concat([keyring.mac('unsubscribe', body, MAC_BYTES), body])
  return `${publicUrl}/u/${token.toString('base64url')}`
}

/** What a token says; undefined when it is none of ours. */
export function readUnsubscribeToken(keyring: Keyring, token: string): Leaving | undefined {
  const bytes = Buffer.from(token, 'base64url')
  // Decoding overlooks foreign characters and the last bits of the last one; a token has one form only.
  if (bytes.toString('base64url') !== token) return undefined
  const body = bytes.subarray(MAC_BYTES)
  if (body.length === 0 || !keyring.proves('unsubscribe', body, bytes.subarray(0, MAC_BYTES), MAC_BYTES))
    return undefined
  const [delivery, domain, audience, email] = JSON.parse(body.toString()) as [number, number, number, string]
  return { delivery, domain, audience, email }
}
