// A campaign's figures: mails by their status, counted at each request, and the events of readers (D37). Events are
// counted again only after an event was added or removed: a campaign of 100,000 mails has tens of thousands of events,
// and its page is read often.
import type { Reader } from '../store/database.ts'
import { told } from '../store/event-sums.ts'
import { raw } from '../store/query.ts'

interface ReaderCounts {
  unsubscribes: number
  opens: number
  clicks: number
  unique_opens: number
  unique_clicks: number
  machine_opens: number
  machine_clicks: number
}

export interface CampaignCounts extends ReaderCounts {
  deliveries: number
  bounces: number
  complaints: number
}

/** The last counts of one campaign, and the state of the events from which they were counted (`sourceOf`). */
interface CountedSince {
  from: string
  counts: ReaderCounts
}

/** The most campaigns whose counts are kept. */
const MAX_KEPT = 100
/** The kept counts of each reader. A transaction is a separate reader, and counts the events that it sees. */
const kept = new WeakMap<Reader, Map<number, CountedSince>>()

export function campaignCounts(reader: Reader, key: number): CampaignCounts {
  const mails = reader.one(
    raw<Record<'deliveries' | 'bounces' | 'complaints', number>>(
      `select
         count(delivered_at) as deliveries,
         count(*) filter (where status = 'bounced') as bounces,
         count(*) filter (where status = 'complained') as complaints
       from outbound_emails where campaign_key = ?`,
      [key],
    ),
  )
  return { ...mails, ...readerCounts(reader, key) }
}

function readerCounts(reader: Reader, key: number): ReaderCounts {
  const known = kept.get(reader) ?? new Map<number, CountedSince>()
  kept.set(reader, known)
  const from = sourceOf(reader, key)
  const last = known.get(key)
  if (last?.from === from) return last.counts
  const counts = countEvents(reader, key)
  if (known.size >= MAX_KEPT) known.clear()
  known.set(key, { from, counts })
  return counts
}

/** A text that changes when a reader's event of the campaign was added, or any event was removed or summed up. */
function sourceOf(reader: Reader, key: number): string {
  const newest = (type: string): string =>
    `coalesce((select max(key) from events where campaign_key = ? and type = '${type}'), 0)`
  const { at } = reader.one(
    raw<{ at: number }>(
      `select max(${['email.opened', 'email.clicked', 'email.unsubscribed'].map(newest).join(', ')}) as at`,
      [key, key, key],
    ),
  )
  return `${at} ${reader.generation('events', 'removed')} ${reader.generation('event_sums', 'changed')}`
}

function countEvents(reader: Reader, key: number): ReaderCounts {
  return reader.one(
    raw<ReaderCounts>(
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
  )
}

/** The number of a campaign's mails that have ended. A mail that bounced after its delivery is counted once. */
export const concludedOf = (reader: Reader, key: number): number =>
  reader.one(
    raw<{ count: number }>(
      `select count(*) as count from outbound_emails where campaign_key = ? and status not in ('queued', 'sent')`,
      [key],
    ),
  ).count
