// What a campaign that has begun still holds in the queue: how many mails by the domains of their recipients, and how
// many of them wait for a warm-up. A few thousand rows are read at a time; the result is kept for some seconds.
import { SECOND, type Clock } from '../base/clock.ts'
import { count } from '../base/maps.ts'
import { domainOf } from '../message/lane-names.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'

export interface Queued {
  /** Mails in the queue by the domains of their recipients. */
  domains: Map<string, number>
  /** How many of them wait for a warm-up (DV8). */
  waiting: number
}

const AT_ONCE = 5000
const KEPT = 10 * SECOND
const MOST_KEPT = 100

const kept = new WeakMap<Reader, Map<number, { at: number; counted: Promise<Queued> }>>()

export function queuedOf({ clock, store }: { clock: Clock; store: Reader }, campaign: number): Promise<Queued> {
  const known = kept.get(store) ?? new Map<number, { at: number; counted: Promise<Queued> }>()
  kept.set(store, known)
  const now = clock.now()
  const last = known.get(campaign)
  if (last && now - last.at < KEPT) return last.counted
  if (known.size >= MOST_KEPT) known.clear()
  const counted = countQueued(store, campaign)
  known.set(campaign, { at: now, counted })
  // What failed is counted again.
  counted.catch(() => known.delete(campaign))
  return counted
}

async function countQueued(reader: Reader, campaign: number): Promise<Queued> {
  const queued: Queued = { domains: new Map(), waiting: 0 }
  for (let from = 0; ;) {
    const rows = reader.all(
      raw<{ key: number; lane: string | null; waits: 0 | 1 }>(
        `select e.key, d.lane, coalesce(d.status = 'queued' and d.response >= 'warm-up:' and d.response < 'warm-up;', 0) as waits
         from (select key from outbound_emails where campaign_key = ? and status = 'queued' and delivered_at is null
           and key > ? order by key limit ${AT_ONCE}) e
         left join deliveries d on d.email_key = e.key`,
        [campaign, from],
      ),
    )
    for (const { lane, waits } of rows) {
      if (lane !== null) count(queued.domains, domainOf(lane), 1)
      queued.waiting += waits
    }
    if (rows.length < AT_ONCE) return queued
    from = rows.at(-1)?.key ?? from
    await new Promise((resolve) => void setImmediate(resolve))
  }
}
