// Codes for whoever lost the device of the second factor: ten of them, shown once, each good for one sign-in. Only a
// MAC under the instance key is stored, because 50 random bits would be found from a plain hash.
import { randomBytes } from 'node:crypto'
import { base32 } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { User } from './users.ts'

const COUNT = 10
/** Ten letters of base32. */
const LETTERS = 10

type CodeOwner = Pick<User, 'key'>

const macOf = (keyring: Keyring, { key }: CodeOwner, code: string): Buffer =>
  keyring.mac('session', JSON.stringify(['recovery', key, code]))

/** Makes new codes; the ones before are no longer valid. As a person reads them: "abcde-fghij". */
export function makeRecoveryCodes(tx: Tx, keyring: Keyring, user: CodeOwner): string[] {
  forgetRecoveryCodes(tx, user)
  return Array.from({ length: COUNT }, () => {
    const code = base32(randomBytes(7)).slice(0, LETTERS)
    tx.run(db.insertInto('recovery_codes').values({ mac: macOf(keyring, user, code), user_key: user.key }))
    return `${code.slice(0, LETTERS / 2)}-${code.slice(LETTERS / 2)}`
  })
}

export const newRecoveryCodes = (
  { keyring, store }: { keyring: Keyring; store: Store },
  user: CodeOwner,
): Promise<string[]> => store.write((tx) => makeRecoveryCodes(tx, keyring, user))

export function forgetRecoveryCodes(tx: Tx, { key }: CodeOwner): void {
  tx.run(db.deleteFrom('recovery_codes').where('user_key', '=', key))
}

/** Uses a code, in either case and with any white space or hyphens. False when it is not valid. */
export function useRecoveryCode(tx: Tx, keyring: Keyring, user: CodeOwner, given: string): boolean {
  const code = given.toLowerCase().replaceAll(/[\s-]/g, '')
  if (!/^[a-z2-7]{10}$/.test(code)) return false
  const used = db.deleteFrom('recovery_codes').where('mac', '=', macOf(keyring, user, code))
  return tx.run(used.where('user_key', '=', user.key)).changes > 0
}

export const recoveryCodesLeft = (reader: Reader, { key }: CodeOwner): number =>
  reader.all(db.selectFrom('recovery_codes').select('mac').where('user_key', '=', key)).length
