// The one-way form of a recipient's address (D56): HMAC-SHA-256 under the instance key over the address in lower case. It stands where an
// address was erased and must still be recognised.
import type { Keyring } from './keyring.ts'

/** 64 hex digits. */
export const recipientHash = (keyring: Keyring, address: string): string =>
  keyring.mac('recipient', address.trim().toLowerCase()).toString('hex')

/** What a column of addresses holds instead of an erased one; no address begins so. */
export const erasedForm = (keyring: Keyring, address: string): string => `#${recipientHash(keyring, address)}`
