// A campaign's figures, counted at each request: mails by their status, and the events of readers (D37).
import type { Reader } from '../store/database.ts'
import { told } from '../store/event-sums.ts'
import { raw } from '../store/query.ts'

export interface CampaignCounts {
  deliveries: number
  bounces: number
  complaints: number
  unsubscribes: number
  opens: number
  clicks: number
  unique_opens: number
  unique_clicks: number
  machine_opens: number
  machine_clicks: number
}

export function campaignCounts(reader: Reader, key: number): CampaignCounts {
  const mails = reader.first(
    raw<Record<'deliveries' | 'bounces' | 'complaints', number>>(
      `select
         count(delivered_at) as deliveries,
         count(*) filter (where status = 'bounced') as bounces,
         count(*) filter (where status = 'complained') as complaints
       from outbound_emails where campaign_key = ?`,
      [key],
    ),
  )!
  const read = reader.first(
    raw<
      Record<
        'opens' | 'clicks' | 'unique_opens' | 'unique_clicks' | 'machine_opens' | 'machine_clicks' | 'unsubscribes',
        number
      >
    >(
      `with told as (
         ${told(`campaign_key = ? and type in ('email.opened', 'email.clicked', 'email.unsubscribed')`)})
       select
         total(times) filter (where type = 'email.opened' and not machine) as opens,
         total(times) filter (where type = 'email.clicked' and not machine) as clicks,
         count(distinct iif(type = 'email.opened' and not machine, email_key, null)) as unique_opens,
         count(distinct iif(type = 'email.clicked' and not machine, email_key, null)) as unique_clicks,
         total(times) filter (where type = 'email.opened' and machine) as machine_opens,
         total(times) filter (where type = 'email.clicked' and machine) as machine_clicks,
         count(distinct iif(type = 'email.unsubscribed', email_key, null)) as unsubscribes
       from told`,
      [key, key],
    ),
  )!
  return { ...mails, ...read }
}

/** How many mails of a campaign came to an end, each once: one that bounced after it was delivered too. */
export const concludedOf = (reader: Reader, key: number): number =>
  reader.first(
    raw<{ count: number }>(
      `select count(*) as count from outbound_emails where campaign_key = ? and status not in ('queued', 'sent')`,
      [key],
    ),
  )!.count
