// The hash of a recipient's address (D56): HMAC-SHA-256 with the instance key over the comparable address. It
// replaces an erased address that must still be recognised.
import type { Keyring } from './keyring.ts'

/**
 * The form in which addresses are compared everywhere: lower case, in Unicode's composed form (RFC 6532 §3.1). One
 * mailbox has one form, however a keyboard spells it; mail is sent to the address as it was given.
 */
export const comparable = (address: string): string => address.trim().toLowerCase().normalize('NFC')

/** The hash as 64 hex digits. */
export const recipientHash = (keyring: Keyring, address: string): string =>
  keyring.mac('recipient', comparable(address)).toString('hex')

/** The value of an address column after erasure: "#" and the hash. It has no "@", so it is not an address. */
export const erasedForm = (keyring: Keyring, address: string): string => `#${recipientHash(keyring, address)}`
