// What readers of a campaign did: opens and clicks by hour, and its links by their clicks (D81).
import { z } from 'zod'
import { HOUR, iso } from '../base/clock.ts'
import { activityOf } from './activity.ts'
import { field } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION } from '../jsonapi/fields.ts'

const point = z.object({ at: z.iso.datetime(), opens: z.int(), clicks: z.int() })
const link = z.object({ url: z.string(), clicks: z.int() })
/** The most hours that are shown, quiet ones included: three months. */
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
  about: `What readers of a campaign did, without machines that look at mail. ${EXTENSION}`,
  attributes: {
    series: field(z.array(point), { about: 'Opens and clicks by hour, from the first to the last.' }),
    links: field(z.array(link), { about: 'The targets of links by clicks, the most clicked first.' }),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/campaigns/:campaign/activity',
      within: { type: 'campaigns', column: 'campaign_key' },
      params: [],
      id: 'getCampaignActivity',
      scope: 'campaigns:read',
      about: `Opens and clicks of a campaign over time, and its links by clicks. ${EXTENSION}`,
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
