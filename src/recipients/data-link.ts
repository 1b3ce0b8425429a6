// The link to the data about a recipient. It is emailed to the address itself, so only its owner can use it, and it
// works for an hour.
import { HOUR, type Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import { openToken, sealToken } from '../base/sealed-token.ts'
import { keptForm } from '../suppressions/suppressions.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'

/** Whose data a link shows: those of an address in the account of a sending domain. */
export interface DataHolder {
  domain: { key: number; name: string; user_key: number }
  /** In the form in which contacts have it. */
  email: string
}

const LABEL = 'recipient data'
const LIFE = HOUR

export const dataUrl = (keyring: Keyring, publicUrl: string, { domain, email }: DataHolder, now: number): string =>
  `${publicUrl}/me/${sealToken(keyring, LABEL, [domain.key, email, now + LIFE])}`

/** Returns whose data a token shows, or undefined if it is forged or expired, or the address was erased since. */
export function dataHolderOf(
  { clock, keyring, store }: { clock: Clock; keyring: Keyring; store: Reader },
  token: string,
): DataHolder | undefined {
  const [key, email, until] = openToken<[number, string, number]>(keyring, LABEL, token) ?? []
  if (key === undefined || email === undefined || until === undefined || clock.now() >= until) return undefined
  const domain = store.first(db.selectFrom('domains').select(['key', 'name', 'user_key']).where('key', '=', key))
  return domain && keptForm(store, keyring, key, email) === email ? { domain, email } : undefined
}
