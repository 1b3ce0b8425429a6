// The event log: one row for each event, written in the same transaction as its cause. Webhooks, statistics and
// reputation read it. `data` holds only facts that the resource itself does not show.
import { newId } from '../base/ids.ts'
import type { EventType } from './states/events.ts'
import type { Tx, Store } from './database.ts'
import { raw } from './query.ts'
import { must } from '../base/errors.ts'

/** The signal of a commit that holds new events. */
export const EVENTS = 'events'

export interface NewEvent {
  type: EventType
  user_key: number
  domain_key?: number | null
  email_key?: number | null
  campaign_key?: number | null
  data?: Record<string, unknown>
  at: number
}

const COLUMNS = ['id', 'user_key', 'domain_key', 'email_key', 'campaign_key', 'type', 'data', 'created_at']
const row = `(${COLUMNS.map(() => '?').join(', ')})`

/** Writes events and signals `EVENTS`. Call it in the transaction that writes the cause. `at` is in ms. */
export function appendEvents(tx: Tx, events: readonly NewEvent[]): void {
  if (events.length === 0) return
  const values = events.flatMap(({ type, user_key, domain_key, email_key, campaign_key, data, at }) => [
    newId(at),
    user_key,
    domain_key ?? null,
    email_key ?? null,
    campaign_key ?? null,
    type,
    data ? JSON.stringify(data) : '{}',
    at,
  ])
  tx.run(raw(`insert into events (${COLUMNS.join(', ')}) values ${events.map(() => row).join(', ')}`, values))
  for (const { user_key } of events) tx.signal(EVENTS, user_key)
}

export const appendEvent = (tx: Tx, event: NewEvent): void => appendEvents(tx, [event])

// Old events are deleted, and their counts are kept as sums: one small row for each kind of event of one recipient.
// Metrics add events and sums, so that they are the same before and after.

/** Rows that one transaction moves. */
const AT_ONCE = 500

/** Events that metrics count. An email that failed for lack of time or of a route is not counted as a bounce. */
const COUNTED = `type in ('email.delivered', 'email.opened', 'email.clicked', 'email.bounced', 'email.complained', 'email.unsubscribed')
  and email_key is not null and not (type = 'email.bounced' and json_extract(data, '$.kind') is 'failed')`

const DELIVERY = `coalesce(json_extract(data, '$.delivery'), 0)`
const MACHINE = `coalesce(json_extract(data, '$.machine'), 0)`

/**
 * SQL of all counted email events, from events and sums: email_key, type, delivery (0 without one), machine (0 or 1),
 * times. `where` may use columns that both tables have (email_key, campaign_key, type). It occurs twice, so its
 * parameters must be given twice.
 */
export const countedEvents = (where: string): string => `
  select email_key, type, ${DELIVERY} as delivery, ${MACHINE} as machine, 1 as times from events where ${COUNTED} and ${where}
  union all
  select email_key, type, delivery, machine, times from event_sums where ${where}`

/**
 * Deletes the events before a time (ms) and up to a key that all readers of the log have passed, a few at a time.
 * Returns their number. The sums are written in the same transaction.
 */
export async function removeOldEvents(store: Store, before: number, upTo: number): Promise<number> {
  let removed = 0
  for (let after = 0; ;) {
    const found = store.all(oldest(after, upTo))
    const old = found.filter(({ created_at }) => created_at < before).map(({ key }) => key)
    if (old.length === 0) return removed
    removed += await store.writeSoon((tx) => sumUp(tx, old))
    after = must(found.at(-1), 'The last event').key
  }
}

/** The events after a key. Events have the order of their keys, except when the date was set. */
const oldest = (after: number, upTo: number) =>
  raw<{ key: number; created_at: number }>(
    `select key, created_at from events where key > ? and key <= ? order by key limit ${AT_ONCE}`,
    [after, upTo],
  )

/** Deletes events and adds them to the sums. Returns how many there were. */
function sumUp(tx: Tx, keys: readonly number[]): number {
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
}
