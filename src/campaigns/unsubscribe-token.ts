// The token of an unsubscribe link: all that is needed to unsubscribe, so that a link works when contact, campaign and mail are long gone
// (D45). It is sealed: nothing of recipient, list or domain can be read from it (D60), nor how long an address is.
import type { Keyring } from '../base/keyring.ts'

export interface Leaving {
  /** Keys of the delivery, the sending domain and the audience. */
  delivery: number
  domain: number
  audience: number
  email: string
}

const MAC_BYTES = 12
const LABEL = 'unsubscribe'
/** Octets that a token's content is a multiple of. */
const BLOCK = 48

export function unsubscribeUrl(
  keyring: Keyring,
  publicUrl: string,
  { delivery, domain, audience, email }: Leaving,
): string {
  const content = JSON.stringify([delivery, domain, audience, email])
  const over = Buffer.byteLength(content) % BLOCK
  const padded = content + ' '.repeat(over === 0 ? 0 : BLOCK - over)
  return `${publicUrl}/u/${keyring.seal(LABEL, padded).toString('base64url')}`
}

/** What a token says; undefined when it is none of ours. */
export function readUnsubscribeToken(keyring: Keyring, token: string): Leaving | undefined {
  const bytes = Buffer.from(token, 'base64url')
  // Decoding overlooks foreign characters and the last bits of the last one; a token has one form only.
  if (bytes.toString('base64url') !== token) return undefined
  const content = opened(keyring, bytes) ?? signed(keyring, bytes)
  if (content === undefined) return undefined
  const [delivery, domain, audience, email] = JSON.parse(content) as [number, number, number, string]
  return { delivery, domain, audience, email }
}

function opened(keyring: Keyring, bytes: Buffer): string | undefined {
  try {
    return keyring.open(LABEL, bytes)
  } catch {
    return undefined
  }
}

/** As tokens were made at first: readable, with a signature in front. Links that were sent go on working. */
function signed(keyring: Keyring, bytes: Buffer): string | undefined {
  const body = bytes.subarray(MAC_BYTES)
  const holds = body.length > 0 && keyring.proves('unsubscribe', body, bytes.subarray(0, MAC_BYTES), MAC_BYTES)
  return holds ? body.toString() : undefined
}
