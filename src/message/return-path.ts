// The return path (D31): one address per delivery, whose local part says which delivery it was and proves that we made it.
// Lower-case base32, because some receivers fold the case of a local part; 26 characters.
import { base32, fromBase32 } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'

const KEY_BYTES = 6
const MAC_BYTES = 10

export function returnPathToken(keyring: Keyring, deliveryKey: number): string {
  const key = Buffer.alloc(KEY_BYTES)
  key.writeUIntBE(deliveryKey, 0, KEY_BYTES)
  return base32(Buffer.concat([key, keyring.mac('return-path', key, MAC_BYTES)]))
}

/** The delivery that a return path's local part names; undefined when the token is not one of ours. */
export function readReturnPathToken(keyring: Keyring, token: string): number | undefined {
  const bytes = fromBase32(token)
  // The last character has bits to spare: only the spelling that we make is ours.
  if (bytes?.length !== KEY_BYTES + MAC_BYTES || base32(bytes) !== token.toLowerCase()) return undefined
  const key = Buffer.from(bytes.subarray(0, KEY_BYTES))
  return keyring.proves('return-path', key, bytes.subarray(KEY_BYTES)) ? key.readUIntBE(0, KEY_BYTES) : undefined
}
