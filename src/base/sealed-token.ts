// Tokens of links: encrypted values. Neither the values nor their length can be read from a link (D60).
import type { Keyring } from './keyring.ts'

/** Longer texts are rejected. */
const MAX_TOKEN = 1000
/** The content is padded to a multiple of this many bytes. */
const BLOCK = 48

type TokenValues = readonly (string | number)[]

export function sealToken(keyring: Keyring, label: string, values: TokenValues): string {
  const content = JSON.stringify(values)
  const padded = content + ' '.repeat((BLOCK - (Buffer.byteLength(content) % BLOCK)) % BLOCK)
  return keyring.seal(label, padded).toString('base64url')
}

/**
 * The bytes of a token, or undefined if it is not in its exact form: the decoder ignores foreign characters and unused
 * bits of the last character.
 */
export function tokenBytes(token: string): Buffer | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const bytes = Buffer.from(token, 'base64url')
  return bytes.toString('base64url') === token ? bytes : undefined
}

/** Returns the values of a token, or undefined if this server did not issue it with this label. */
export function openToken<Values extends TokenValues>(
  keyring: Keyring,
  label: string,
  token: string,
): Values | undefined {
  const bytes = tokenBytes(token)
  try {
    return bytes && (JSON.parse(keyring.open(label, bytes)) as Values)
  } catch {
    return undefined
  }
}
