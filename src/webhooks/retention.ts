// Deletes finished deliveries and their attempts after the time in retention.events. Pending ones are kept.
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Rows that one transaction reads. */
const AT_ONCE = 500

/** Deletes finished deliveries created before a time (ms), in small batches. Returns how many. */
export async function removeOldDeliveries(store: Store, before: number): Promise<number> {
  let removed = 0
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    const { gone, next } = await store.writeSoon((tx) => {
      // Keys increase with time, so the first delivery that is too new ends the search.
      const rows = tx.all(
        raw<{ key: number; created_at: number; open: 0 | 1 }>(
          `select key, created_at, status in ('pending', 'active') as open from outbound_webhooks
           where key > ? order by key limit ${AT_ONCE}`,
          [from],
        ),
      )
      const old = rows.filter(({ created_at }) => created_at < before)
      const over = old.filter(({ open }) => open === 0)
      for (const { key } of over) tx.run(raw('delete from outbound_webhooks where key = ?', [key]))
      const more = rows.length === AT_ONCE && old.length === rows.length
      return { gone: over.length, next: more ? (rows.at(-1)?.key ?? null) : null }
    })
    removed += gone
    after = next
  }
  return removed
}
