// Reader activity of a campaign: opens and clicks by hour, and its links by clicks (D81).
import { z } from 'zod'
import { setImmediate as turn } from 'node:timers/promises'
import { keptPerReader } from './kept.ts'
import { HOUR, iso } from '../base/clock.ts'
import { field } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'

const point = z.object({ at: z.iso.datetime(), opens: z.int(), clicks: z.int() })
const link = z.object({ url: z.string(), clicks: z.int() })
/** The maximum number of returned hours, including quiet ones: three months. */
const MAX_HOURS = 24 * 92

/** Every hour from the first to the last with activity. */
function series(hours: ReadonlyMap<number, { opens: number; clicks: number }>): z.output<typeof point>[] {
  const times = [...hours.keys()]
  const last = Math.max(...times)
  const points: z.output<typeof point>[] = []
  for (let at = Math.max(Math.min(...times), last - MAX_HOURS * HOUR); at <= last; at += HOUR)
    points.push({ at: iso(at), ...(hours.get(at) ?? { opens: 0, clicks: 0 }) })
  return points
}

export const campaignActivity = define('campaign-activity', {
  table: 'campaigns',
  scope: 'campaigns',
  about: 'Opens and clicks of a campaign over time, without those by machines such as link scanners.',
  extension: true,
  attributes: {
    series: field(z.array(point), {
      about: 'Opens and clicks per hour, from the first hour with activity to the last.',
    }),
    links: field(z.array(link), { about: 'Link URLs with their clicks, most clicked first.' }),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/activity',
      within: { type: 'campaigns', column: 'campaign_key' },
      params: [],
      id: 'getCampaignActivity',
      about: 'Get the opens and clicks of a campaign. The response contains them over time, and the clicks per link.',
      async run({ parent, parts }) {
        const { hours, links } = await activityOf(parts.store, parent.key)
        return [
          {
            key: 0,
            id: String(parent['id']),
            series: series(hours),
            links: Array.from(links, ([url, clicks]) => ({ url, clicks })).toSorted((a, b) => b.clicks - a.clicks),
          },
        ]
      },
    },
  ],
})

// Reader activity of a campaign, over time and by link. A large campaign has many events, so each is read once: the
// sums are cached in memory, and the next request reads only newer events in small batches.

interface Activity {
  /** Human opens and clicks per hour (ms since 1970, start of the hour). */
  hours: Map<number, { opens: number; clicks: number }>
  /** Human clicks per link target. */
  links: Map<string, number>
}

interface KeptActivity extends Activity {
  /** The last events that were read. */
  opened: number
  clicked: number
  /** How often events had been removed when the first was read: then all is read again. */
  removed: number
}

/** The maximum number of links per campaign. */
const MAX_LINKS = 500
/** The number of events that are read before other work can run. */
const AT_ONCE = 1000

const kept = keptPerReader<KeptActivity>(20)

/** Returns the reader activity of a campaign without automatic opens and clicks. Yields to other work. */
async function activityOf(reader: Reader, campaign: number): Promise<Activity> {
  const known = kept(reader)
  const removed = reader.generation('events', 'removed')
  const last = known.get(campaign)
  const sums = last?.removed === removed ? last : { hours: new Map(), links: new Map(), opened: 0, clicked: 0, removed }
  known.set(campaign, sums)
  while (addMore(reader, campaign, sums, 'opened') + addMore(reader, campaign, sums, 'clicked') > 0) await turn()
  return sums
}

/** Adds the next events of a kind to the sums. Returns 0 if there are no more. */
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
