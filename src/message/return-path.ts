// Addresses that name a delivery (D31): the return path and the unsubscribe address. The local part holds the
// delivery's key and proves that this server made it. It is 26 characters of lower-case base32, because some receivers
// change the case of a local part.
import { base32, fromBase32 } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'

const KEY_BYTES = 6
const MAC_BYTES = 10

type TokenPurpose = 'return-path' | 'unsubscribe'

function deliveryToken(keyring: Keyring, purpose: TokenPurpose, deliveryKey: number): string {
  const key = Buffer.alloc(KEY_BYTES)
  key.writeUIntBE(deliveryKey, 0, KEY_BYTES)
  return base32(Buffer.concat([key, keyring.mac(purpose, key, MAC_BYTES)]))
}

/** The delivery that a token names, or undefined if the token is not one of ours. */
function readToken(keyring: Keyring, purpose: TokenPurpose, token: string): number | undefined {
  const bytes = fromBase32(token)
  // The last character has unused bits: only this server's spelling is accepted.
  if (bytes?.length !== KEY_BYTES + MAC_BYTES || base32(bytes) !== token.toLowerCase()) return undefined
  const key = Buffer.from(bytes.subarray(0, KEY_BYTES))
  return keyring.proves(purpose, key, bytes.subarray(KEY_BYTES), MAC_BYTES) ? key.readUIntBE(0, KEY_BYTES) : undefined
}

/** The local part of a delivery's return path: 26 characters. */
export const returnPathToken = (keyring: Keyring, deliveryKey: number): string =>
  deliveryToken(keyring, 'return-path', deliveryKey)

/** The delivery that a return path's local part names, or undefined if the token is not one of ours. */
export const readReturnPathToken = (keyring: Keyring, token: string): number | undefined =>
  readToken(keyring, 'return-path', token)

const UNSUBSCRIBE = 'u-'

/** The local part of the address that unsubscribes the recipient of a delivery (RFC 2369 §3.2). */
export const unsubscribeLocalPart = (keyring: Keyring, deliveryKey: number): string =>
  UNSUBSCRIBE + deliveryToken(keyring, 'unsubscribe', deliveryKey)

/** Replaces the token that identifies the recipient, in an email that is shown to another reader. */
export const HIDDEN = 'known-to-the-recipient'

/** The unsubscribe address as a URI. `mailFrom` is the return path's domain. */
export const unsubscribeMailto = (local: string, mailFrom: string): string =>
  `mailto:${local}@${mailFrom}?subject=unsubscribe`

/** The delivery that an unsubscribe address names, or undefined if the address is not one of ours. */
export const readUnsubscribeLocalPart = (keyring: Keyring, local: string): number | undefined =>
  local.toLowerCase().startsWith(UNSUBSCRIBE)
    ? readToken(keyring, 'unsubscribe', local.slice(UNSUBSCRIBE.length))
    : undefined
