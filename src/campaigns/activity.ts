// What readers of a campaign did, over time and by link. The events of a large campaign are many, so each is read once:
// the sums are kept in memory, and the next request reads only newer events, a few at a time.
import { HOUR } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'

export interface Activity {
  /** Opens and clicks of people by the hour (ms since 1970, at its beginning). */
  hours: Map<number, { opens: number; clicks: number }>
  /** Clicks of people by the link's target. */
  links: Map<string, number>
}

interface KeptActivity extends Activity {
  /** The last events that were read. */
  opened: number
  clicked: number
  /** How often events had been removed when the first was read: then all is read again. */
  removed: number
}

/** The most campaigns whose sums are kept, and the most links of one. */
const MAX_KEPT = 20
const MAX_LINKS = 500
/** The events that are read at once, before other work can run. */
const AT_ONCE = 1000

const kept = new WeakMap<Reader, Map<number, KeptActivity>>()

/** The activity of a campaign's readers, without machines that look at mail; other work can run meanwhile. */
export async function activityOf(reader: Reader, campaign: number): Promise<Activity> {
  const known = kept.get(reader) ?? new Map<number, KeptActivity>()
  kept.set(reader, known)
  const removed = reader.generation('events', 'removed')
  const last = known.get(campaign)
  const sums = last?.removed === removed ? last : { hours: new Map(), links: new Map(), opened: 0, clicked: 0, removed }
  if (!known.has(campaign) && known.size >= MAX_KEPT) known.clear()
  known.set(campaign, sums)
  while (addMore(reader, campaign, sums, 'opened') + addMore(reader, campaign, sums, 'clicked') > 0)
    await new Promise((resolve) => void setImmediate(resolve))
  return sums
}

/** Adds the next events of a kind to the sums; returns 0 when there are no more. */
function addMore(reader: Reader, campaign: number, sums: KeptActivity, kind: 'opened' | 'clicked'): number {
  const events = reader.all(
    raw<{ key: number; at: number; machine: number; url: string | null }>(
      `select key, created_at as at, coalesce(json_extract(data, '$.machine'), 0) as machine, json_extract(data, '$.url') as url
       from events where campaign_key = ? and type = ? and key > ? order by key limit ${AT_ONCE}`,
      [campaign, `email.${kind}`, sums[kind]],
    ),
  )
  for (const { at, key, machine, url } of events) {
    sums[kind] = key
    if (machine === 1) continue
    const hour = Math.floor(at / HOUR) * HOUR
    const sum = sums.hours.get(hour) ?? { opens: 0, clicks: 0 }
    sums.hours.set(hour, sum)
    if (kind === 'opened') sum.opens++
    else sum.clicks++
    if (url !== null && (sums.links.has(url) || sums.links.size < MAX_LINKS))
      sums.links.set(url, (sums.links.get(url) ?? 0) + 1)
  }
  return events.length
}
