// What an owner should know without asking: kept here, and told by mail where one of the owner's domains can send it.
import type { Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'

export type Notice = RowOf<'notices'>

export function addNotice(
  { store, clock }: { store: Store; clock: Clock },
  userKey: number,
  subject: string,
  text: string,
): Promise<Notice> {
  const now = clock.now()
  return store.write((tx) => {
    const { key } = tx.run(
      db.insertInto('notices').values({ id: newId(now), user_key: userKey, subject, text, mailed: 0, created_at: now }),
    )
    return tx.first(db.selectFrom('notices').selectAll().where('key', '=', key))!
  })
}

export function markMailed({ store }: { store: Store }, key: number): Promise<void> {
  return store.write((tx) => void tx.run(db.updateTable('notices').set({ mailed: 1 }).where('key', '=', key)))
}

/** Newest first, with their owner's address. */
export function listNotices(reader: Reader): (Notice & { email: string })[] {
  return reader.all(
    db
      .selectFrom('notices')
      .innerJoin('users', 'users.key', 'notices.user_key')
      .selectAll('notices')
      .select('users.email')
      .orderBy('notices.key', 'desc')
      .limit(200),
  )
}
