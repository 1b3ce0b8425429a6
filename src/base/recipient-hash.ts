// The hash of a recipient's address (D56): HMAC-SHA-256 with the instance key over the comparable address. It
// replaces an erased address that must still be recognised.
import type { Keyring } from './keyring.ts'
import { localPart } from './local-part.ts'

/**
 * The form in which addresses are compared everywhere: lower case, in Unicode's composed form (RFC 6532 §3.1), without
 * quotes that the local part does not need. Different spellings of one mailbox have the same form. Mail is sent to the
 * address as it was given.
 */
export function comparable(address: string): string {
  const text = address.trim().toLowerCase().normalize('NFC')
  if (!text.startsWith('"')) return text
  const at = text.lastIndexOf('@')
  return (localPart(text.slice(0, at)) ?? text.slice(0, at)) + text.slice(at)
}

/** The hash as 64 hex digits. */
export const recipientHash = (keyring: Keyring, address: string): string =>
  keyring.mac('recipient', comparable(address)).toString('hex')

/** The value of an address column after erasure: "#" and the hash. It has no "@", so it is not an address. */
export const erasedForm = (keyring: Keyring, address: string): string => `#${recipientHash(keyring, address)}`
