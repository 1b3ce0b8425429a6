// Erases an address from the sign-ups: those that wait are deleted (AU35). The campaigns erase contacts and consents. A
// link in an email that was sent leads to the neutral page then.
import type { Erasing } from '../store/erasing.ts'
import type { Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'

export function forgetSignups(tx: Tx, { address, userKey }: Erasing): void {
  tx.run(raw('delete from signups where user_key = ? and email = ?', [userKey, address]))
}
