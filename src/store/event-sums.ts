// Old events are deleted, and their counts are kept as sums: one small row for each kind of event of one recipient.
// Figures add events and sums, so that they are the same before and after.
import type { Reader, Store } from './database.ts'
import { raw } from './query.ts'

/** Rows that one transaction moves. */
const AT_ONCE = 500

/** Events that figures count. A mail that failed for lack of time or of a route is not counted as a bounce. */
const COUNTED = `type in ('email.delivered', 'email.opened', 'email.clicked', 'email.bounced', 'email.complained', 'email.unsubscribed')
  and email_key is not null and not (type = 'email.bounced' and json_extract(data, '$.kind') is 'failed')`

const DELIVERY = `coalesce(json_extract(data, '$.delivery'), 0)`
const MACHINE = `coalesce(json_extract(data, '$.machine'), 0)`

/**
 * SQL of all counted mail events, from events and sums: email_key, type, delivery (0: none), machine (0 or 1), times.
 * `where` may use columns that both tables have (email_key, campaign_key, type). It occurs twice, so its parameters
 * must be given twice.
 */
export const told = (where: string): string => `
  select email_key, type, ${DELIVERY} as delivery, ${MACHINE} as machine, 1 as times from events where ${COUNTED} and ${where}
  union all
  select email_key, type, delivery, machine, times from event_sums where ${where}`

/**
 * Deletes the events before a time (ms) and up to a key that all readers of the log have passed, a few at a time;
 * returns their number. The sums are written in the same transaction.
 */
export async function removeOldEvents(store: Store, before: number, upTo: number): Promise<number> {
  for (let removed = 0; ;) {
    const gone = await store.writeSoon((tx) => {
      const keys = oldKeys(tx, before, upTo)
      if (keys.length === 0) return 0
      const those = [JSON.stringify(keys)]
      tx.run(
        raw(
          `insert into event_sums (email_key, type, delivery, machine, campaign_key, times)
           select email_key, type, ${DELIVERY}, ${MACHINE}, campaign_key, count(*) from events
           where key in (select value from json_each(?)) and ${COUNTED} group by 1, 2, 3, 4
           on conflict do update set times = times + excluded.times`,
          those,
        ),
      )
      return tx.run(raw('delete from events where key in (select value from json_each(?))', those)).changes
    })
    removed += gone
    if (gone < AT_ONCE) return removed
  }
}

function oldKeys(reader: Reader, before: number, upTo: number): number[] {
  const old = raw<{ key: number }>(
    `select key from events where created_at < ? and key <= ? order by created_at limit ${AT_ONCE}`,
    [before, upTo],
  )
  return reader.all(old).map(({ key }) => key)
}
