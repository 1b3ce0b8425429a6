// Old events go, and what figures are counted from stays as sums: one small row for what happened to one recipient of one mail. A figure
// counts events and sums alike, so that it is the same before and after.
import type { Reader, Store } from './database.ts'
import { raw } from './query.ts'

/** Rows that one transaction moves. */
const AT_ONCE = 500

/** What figures count. A mail that failed for want of time or a way is no bounce. */
const COUNTED = `type in ('email.delivered', 'email.opened', 'email.clicked', 'email.bounced', 'email.complained', 'email.unsubscribed')
  and email_key is not null and not (type = 'email.bounced' and json_extract(data, '$.kind') is 'failed')`

const DELIVERY = `coalesce(json_extract(data, '$.delivery'), 0)`
const MACHINE = `coalesce(json_extract(data, '$.machine'), 0)`

/**
 * SQL of what was told about mails, from events and sums: email_key, type, delivery (0: none), machine (0 or 1), times. `where` speaks of
 * columns that both tables have (email_key, campaign_key, type). It stands there twice, so its parameters are given twice.
 */
export const told = (where: string): string => `
  select email_key, type, ${DELIVERY} as delivery, ${MACHINE} as machine, 1 as times from events where ${COUNTED} and ${where}
  union all
  select email_key, type, delivery, machine, times from event_sums where ${where}`

/**
 * Removes the events from before a time (ms) up to a key, which their readers have passed, a little at a time; returns how many went.
 * Sums are written in the transaction in which their events go.
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
