// A notice that is not repeated within a day.
import { addNotice } from '../accounts/notices.ts'
import { DAY } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { db } from '../store/query.ts'

/** At most one notice of this subject for a domain within a day. */
export function noticeOnce(tx: Tx, domain: Domain, subject: string, text: string, now: number): boolean {
  const told = tx.first(
    db
      .selectFrom('notices')
      .select('key')
      .where('domain_key', '=', domain.key)
      .where('subject', '=', subject)
      .where('created_at', '>', now - DAY),
  )
  if (told) return false
  addNotice(tx, { user_key: domain.user_key, domain_key: domain.key, subject, text }, now)
  return true
}
