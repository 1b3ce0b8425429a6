// Forgets an address in what owners were told.
import type { Tx } from '../store/database.ts'
import { holds, redact, type Erasing } from '../store/erasing.ts'
import { raw } from '../store/query.ts'

const AT_ONCE = 200

/** Works on some notices; true when there are more. */
export function forgetInNotices(tx: Tx, erasing: Erasing): boolean {
  const { address, userKey } = erasing
  const found = tx.all(
    raw<{ key: number; subject: string; text: string }>(
      `select key, subject, text from notices where user_key = ? and (${holds('subject')} or ${holds('text')}) limit ${AT_ONCE}`,
      [userKey, address, address],
    ),
  )
  for (const { key, subject, text } of found)
    tx.run(
      raw('update notices set subject = ?, text = ? where key = ?', [
        redact(subject, erasing),
        redact(text, erasing),
        key,
      ]),
    )
  return found.length === AT_ONCE
}
