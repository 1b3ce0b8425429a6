// Erases the contacts with an address, and the address from senders of campaigns. Marks in the other texts of contacts,
// audiences and campaigns follow from their description (store/schema/campaigns.ts).
import type { Tx } from '../store/database.ts'
import { eraseConsents } from './consents.ts'
import { names, sliceEnd, type Erasing, type ErasingStep } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

/** Deletes the contacts with the address, in every audience, and reduces their consents to stubs. */
export function forgetContacts(tx: Tx, { address, at, hash, userKey }: Erasing): void {
  eraseConsents(tx, userKey, address, hash.slice(1), at)
  tx.run(raw('delete from contacts where user_key = ? and email = ?', [userKey, address]))
}

/** A campaign that may still send gets a working sender address of its domain instead of a mark. */
export const forgetSenders: ErasingStep = (tx, { address, userKey }, after) => {
  const end = sliceEnd(tx, { table: 'campaigns', userKey, after })
  if (end === null) return null
  const open = tx.all(
    raw<{ key: number; from_address: string | null; reply_to: string | null }>(
      `select key, from_address, reply_to from campaigns where user_key = ? and key > ? and key <= ?
         and status in ('draft', 'scheduled', 'sending', 'paused')`,
      [userKey, after, end],
    ),
  )
  for (const { from_address, key, reply_to } of open) {
    const kept = [from_address, reply_to].map((text) => (names(text, address) ? null : text))
    tx.run(raw('update campaigns set from_address = ?, reply_to = ? where key = ?', [...kept, key]))
  }
  return end
}
