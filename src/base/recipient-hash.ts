// The hash of a recipient's address (D56): HMAC-SHA-256 with the instance key over the address in lower case. It
// replaces an erased address that must still be recognised.
import type { Keyring } from './keyring.ts'

/** The hash as 64 hex digits. */
export const recipientHash = (keyring: Keyring, address: string): string =>
  keyring.mac('recipient', address.trim().toLowerCase()).toString('hex')

/** The value of an address column after erasure: "#" and the hash. It has no "@", so it is no address. */
export const erasedForm = (keyring: Keyring, address: string): string => `#${recipientHash(keyring, address)}`
