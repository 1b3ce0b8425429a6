// Counts of mail events. They are counted at each request from the events and the sums of deleted events, so that they
// always match (D37).
import type { Reader } from '../store/database.ts'
import { countedEvents } from '../store/events.ts'
import { raw } from '../store/query.ts'

export interface Counts {
  deliveries: number
  opens: number
  clicks: number
  bounces: number
  complaints: number
  unique_opens: number
  unique_clicks: number
  machine_opens: number
  machine_clicks: number
}

const NONE: Counts = {
  deliveries: 0,
  opens: 0,
  clicks: 0,
  bounces: 0,
  complaints: 0,
  unique_opens: 0,
  unique_clicks: 0,
  machine_opens: 0,
  machine_clicks: 0,
}

/** The counts of some emails, keyed by the emails' keys. */
export function countEvents(reader: Reader, emailKeys: readonly number[]): Map<number, Counts> {
  const those = JSON.stringify(emailKeys)
  const rows = reader.all(
    raw<Counts & { email_key: number }>(
      `with countedEvents as (${countedEvents('email_key in (select value from json_each(?))')})
       select email_key,
         total(times) filter (where type = 'email.delivered') as deliveries,
         total(times) filter (where type = 'email.opened' and not machine) as opens,
         total(times) filter (where type = 'email.clicked' and not machine) as clicks,
         total(times) filter (where type = 'email.bounced') as bounces,
         total(times) filter (where type = 'email.complained') as complaints,
         count(distinct iif(type = 'email.opened' and not machine, delivery, null)) as unique_opens,
         count(distinct iif(type = 'email.clicked' and not machine, delivery, null)) as unique_clicks,
         total(times) filter (where type = 'email.opened' and machine) as machine_opens,
         total(times) filter (where type = 'email.clicked' and machine) as machine_clicks
       from countedEvents group by email_key`,
      [those, those],
    ),
  )
  const counted = new Map(rows.map(({ email_key, ...counts }) => [email_key, counts]))
  return new Map(emailKeys.map((key) => [key, counted.get(key) ?? NONE]))
}
