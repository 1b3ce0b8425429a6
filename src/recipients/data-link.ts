// The link to the data about a recipient. It is emailed to the address itself, so only its owner can use it, and it
// works for an hour. The token is encrypted.
import { HOUR, type Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { hasErased } from '../suppressions/stops.ts'
import { erasedForm } from '../base/recipient-hash.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'

/** Whose data a link shows: those of an address in the account of a sending domain. */
export interface DataHolder {
  domain: { key: number; name: string; user_key: number }
  email: string
}

const LABEL = 'recipient data'
const LIFE = HOUR
const MAX_TOKEN = 1000
/** The content is padded to a multiple of this many bytes. */
const BLOCK = 48

export function dataUrl(keyring: Keyring, publicUrl: string, { domain, email }: DataHolder, now: number): string {
  const content = JSON.stringify([domain.key, email, now + LIFE])
  const padded = content.padEnd(content.length + BLOCK - (Buffer.byteLength(content) % BLOCK))
  return `${publicUrl}/me/${keyring.seal(LABEL, padded).toString('base64url')}`
}

interface DataToken {
  /** The key of the sending domain. */
  domain: number
  email: string
  until: number
}

/** Returns the content of a token, or undefined if this server did not issue it. */
export function openDataToken(keyring: Keyring, token: string): DataToken | undefined {
  const bytes = Buffer.from(token.slice(0, MAX_TOKEN), 'base64url')
  if (bytes.toString('base64url') !== token) return undefined
  try {
    const [domain, email, until] = JSON.parse(keyring.open(LABEL, bytes)) as [number, string, number]
    return { domain, email, until }
  } catch {
    return undefined
  }
}

/** Returns whose data a token shows, or undefined if it is forged or expired, or the address was erased since. */
export function dataHolderOf(
  { clock, keyring, store }: { clock: Clock; keyring: Keyring; store: Reader },
  token: string,
): DataHolder | undefined {
  const opened = openDataToken(keyring, token)
  if (!opened || clock.now() >= opened.until) return undefined
  const { domain: key, email } = opened
  const domain = store.first(db.selectFrom('domains').select(['key', 'name', 'user_key']).where('key', '=', key))
  return domain && !isErased(store, keyring, key, email) ? { domain, email } : undefined
}

const isErased = (reader: Reader, keyring: Keyring, domain: number, email: string): boolean =>
  hasErased(reader, domain) &&
  reader.first(
    db
      .selectFrom('suppressions')
      .select('key')
      .where('domain_key', '=', domain)
      .where('email', '=', erasedForm(keyring, email)),
  ) !== undefined
