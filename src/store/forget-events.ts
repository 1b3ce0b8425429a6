// Forgets an address in the event log: what was said of it in words is marked, what happened stays.
import type { Tx } from './database.ts'
import { redact, type Erasing, holds } from './erasing.ts'
import { raw } from './query.ts'

const AT_ONCE = 200

/** Works on some events; true when there are more. */
export function forgetInEvents(tx: Tx, erasing: Erasing): boolean {
  const found = tx.all(
    raw<{ key: number; data: string }>(
      `select key, data from events where user_key = ? and ${holds('data')} limit ${AT_ONCE}`,
      [erasing.userKey, erasing.address],
    ),
  )
  for (const { data, key } of found)
    tx.run(raw('update events set data = ? where key = ?', [redact(data, erasing), key]))
  return found.length === AT_ONCE
}
