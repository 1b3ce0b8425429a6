// The token of an unsubscribe link. It holds all data for unsubscribing, so that a link still works when contact,
// campaign and mail are deleted (D45). It is sealed: recipient, list, domain and the length of the address cannot be
// read from it (D60).
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
/** The content is padded to a multiple of this many octets. */
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

/** The content of a token; undefined when it was not made by this server. */
export function readUnsubscribeToken(keyring: Keyring, token: string): Leaving | undefined {
  const bytes = Buffer.from(token, 'base64url')
  // The decoder ignores foreign characters and unused bits of the last character: only the exact form is accepted.
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

/** Reads the first form of tokens: not sealed, with a signature in front. Links in sent mail must keep working. */
function signed(keyring: Keyring, bytes: Buffer): string | undefined {
  const body = bytes.subarray(MAC_BYTES)
  const holds = body.length > 0 && keyring.proves('unsubscribe', body, bytes.subarray(0, MAC_BYTES), MAC_BYTES)
  return holds ? body.toString() : undefined
}
