// What an owner should know without asking: kept here with its cause, and mailed where one of the owner's domains can send it.
import { newId } from '../base/ids.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'

export type Notice = RowOf<'notices'>

export interface NewNotice {
  user_key: number
  /** The domain that it is about and may be mailed from. */
  domain_key: number
  subject: string
  text: string
}

/** `mailed` 2: the notice is only for the list. */
export function addNotice(tx: Tx, given: NewNotice, now: number, mailed: 0 | 2 = 0): void {
  tx.run(db.insertInto('notices').values({ id: newId(now), ...given, mailed, created_at: now }))
}

export function markNotice({ store }: { store: Store }, key: number, as: 'mailed' | 'given up'): Promise<void> {
  const mailed = as === 'mailed' ? 1 : 2
  return store.write((tx) => void tx.run(db.updateTable('notices').set({ mailed }).where('key', '=', key)))
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

/** Those not mailed yet whose domain can send now, oldest first, with the addresses of both ends. */
export function mailableNotices(reader: Reader, after: number): (Notice & { email: string; domain: string })[] {
  return reader.all(
    db
      .selectFrom('notices')
      .innerJoin('users', 'users.key', 'notices.user_key')
      .innerJoin('domains', 'domains.key', 'notices.domain_key')
      .selectAll('notices')
      .select(['users.email', 'domains.name as domain'])
      .where('notices.mailed', '=', 0)
      .where('notices.key', '>', after)
      .where('domains.status', '=', 'active')
      .where('domains.deleted_at', 'is', null)
      .orderBy('notices.key')
      .limit(100),
  )
}
