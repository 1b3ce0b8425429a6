// What readers of a campaign did: opens and clicks over time, and its links by their clicks.
import { html } from 'hono/html'
import { HOUR } from '../base/clock.ts'
import { barChart, type Bars } from '../webui/chart.ts'
import { page } from '../webui/frame.ts'
import { count, figures, table, time } from '../webui/widgets.ts'
import { found, type Place } from '../webui/place.ts'
import { campaignActivity } from './api-activity.ts'
import { campaigns } from './api.ts'
import { objects, text } from '../webui/visit.ts'

/** How many hours the chart shows: the first two days, in which people read. */
const SHOWN = 48

/** The hours as bars, those without opens and clicks too, so that the bars stand at their time. */
function hours(series: readonly { at: string; opens: number; clicks: number }[]): Pick<Bars, 'at' | 'series'> {
  const by = new Map(series.map((each) => [Date.parse(each.at), each]))
  const first = Math.min(...by.keys())
  const last = Math.max(...by.keys())
  const shown = Math.min(SHOWN, Math.max((last - first) / HOUR + 1, 12))
  const at = Array.from({ length: shown }, (_, index) => first + index * HOUR)
  return {
    at,
    series: [
      { name: 'Clicks', tone: 'good', values: at.map((each) => by.get(each)?.clicks ?? 0) },
      { name: 'Opens', tone: 'one', values: at.map((each) => by.get(each)?.opens ?? 0) },
    ],
  }
}

export const activity: Place = {
  path: '/campaigns/:id/activity',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const [campaign, answer] = await Promise.all([
      visit.get(campaigns, `/campaigns/${id}`),
      visit.get(campaignActivity, `/campaigns/${id}/activity`),
    ])
    const { one } = found(answer)
    const series = objects(one, 'series')
    const links = objects(one, 'links')
    const busy = series.filter(({ clicks, opens }) => clicks + opens > 0)
    return page(visit, {
      title: `Readers of ${text(found(campaign).one, 'name')}`,
      about:
        'Opens and clicks of people, hour by hour, and the links that they followed. Machines that look at mail are left out.',
      crumbs: [
        ['/campaigns', 'Campaigns'],
        [`/campaigns/${id}`, text(found(campaign).one, 'name')],
      ],
      body: html`${
          series.length === 0
            ? html`<div class="empty">Nobody has opened it yet, or the domain does not track: see its settings.</div>`
            : html`${barChart({
                  title: 'Opens and clicks by hour',
                  zone: visit.zone,
                  ...hours(series),
                })}
                <details>
                  <summary>The figures as a table</summary>
                  ${table(
                    'Opens and clicks',
                    [{ title: 'Hour', kind: 'time' }, ...figures('Opens', 'Clicks')],
                    busy.slice(0, 500).map(({ at, clicks, opens }) => [time(at), count(opens), count(clicks)]),
                    '',
                  )}
                </details>`
        }
        <h2>Links</h2>
        ${table(
          'Links',
          ['Leads to', ...figures('Clicks')],
          links.map(({ clicks, url }) => [url, count(clicks)]),
          'No link was followed yet.',
        )}`,
    })
  },
}
