// Deletes the bodies of old emails that have ended (setting retention.outbound_bodies). The recipients and the results
// stay.
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { forgetAttempts } from '../delivery/results/attempt-log.ts'
import { dropUnusedBodies } from './shared-bodies.ts'
import { filesOf } from '../base/spooled.ts'

const AT_ONCE = 500

/** Deletes the bodies of emails that were accepted before a time (ms) and have no open recipient. Returns how many. */
export async function removeOldBodies(
  { spool, store }: { spool: Spool; store: Store },
  before: number,
): Promise<number> {
  let removed = 0
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    const { files, gone, next } = await store.writeSoon((tx) => {
      // Keys rise with time: the first email that is too young ends the search.
      const rows = tx.all(
        raw<{ key: number; batch_key: number | null; spool: string | null; created_at: number; open: 0 | 1 }>(
          `select e.key, e.batch_key, b.spool, e.created_at, exists (select 1 from deliveries v where v.email_key = e.key
             and v.status in ('scheduled', 'queued', 'active', 'held')) as open
           from outbound_bodies b join outbound_emails e on e.key = b.email_key
           where b.email_key > ? order by b.email_key limit ${AT_ONCE}`,
          [from],
        ),
      )
      const old = rows.filter(({ created_at }) => created_at < before)
      const over = old.filter(({ open }) => open === 0)
      for (const { key } of over) {
        tx.run(raw('delete from outbound_bodies where email_key = ?', [key]))
        forgetAttempts(tx, key)
      }
      const more = rows.length === AT_ONCE && old.length === rows.length
      return {
        files: [
          ...over.flatMap((row) => filesOf(row.spool)),
          ...dropUnusedBodies(
            tx,
            over.map(({ batch_key }) => batch_key),
          ),
        ],
        gone: over.length,
        next: more ? (rows.at(-1)?.key ?? null) : null,
      }
    })
    await Promise.all(files.map((file) => spool.remove(file)))
    removed += gone
    after = next
  }
  return removed
}
