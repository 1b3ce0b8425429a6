// Figures of mails, counted from the event log each time they are asked for: they cannot drift from what happened (D37).
import type { Reader } from '../store/database.ts'
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

/** The counts of some emails, by their keys. A mail that failed for want of time or a way is no bounce. */
export function countEvents(reader: Reader, emailKeys: readonly number[]): Map<number, Counts> {
  const rows = reader.all(
    raw<Counts & { email_key: number }>(
      `with told as (
         select email_key, type, json_extract(data, '$.delivery') as delivery, json_extract(data, '$.kind') as kind,
                coalesce(json_extract(data, '$.machine'), 0) as machine
         from events where email_key in (select value from json_each(?)))
       select email_key,
         sum(type = 'email.delivered') as deliveries,
         sum(type = 'email.opened' and not machine) as opens,
         sum(type = 'email.clicked' and not machine) as clicks,
         sum(type = 'email.bounced' and kind is not 'failed') as bounces,
         sum(type = 'email.complained') as complaints,
         count(distinct iif(type = 'email.opened' and not machine, delivery, null)) as unique_opens,
         count(distinct iif(type = 'email.clicked' and not machine, delivery, null)) as unique_clicks,
         sum(type = 'email.opened' and machine) as machine_opens,
         sum(type = 'email.clicked' and machine) as machine_clicks
       from told group by email_key`,
      [JSON.stringify(emailKeys)],
    ),
  )
  const counted = new Map(rows.map(({ email_key, ...counts }) => [email_key, counts]))
  return new Map(emailKeys.map((key) => [key, counted.get(key) ?? NONE]))
}
