// What readers of a campaign did: opens and clicks over time, and its links by their clicks.
import { html } from 'hono/html'
import { SECOND } from '../base/clock.ts'
import { page } from '../webui/frame.ts'
import { count, lineChart, table, time, type Html } from '../webui/widgets.ts'
import { found, type Place } from '../webui/place.ts'
import { campaignActivity } from './api-activity.ts'
import { campaigns } from './api.ts'
import { objects, text } from '../webui/visit.ts'

const line = (title: string, unit: string, points: readonly (readonly [at: string, value: number])[]): Html =>
  html`<h2>${title}</h2>
    ${lineChart(title, { unit, span: 24 * 3600, points: points.map(([at, value]) => [Date.parse(at) / SECOND, value]) })}`

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
      scripts: ['chart.js'],
      body: html`<p><a href="/campaigns/${id}">Back to the campaign</a></p>
        ${
          series.length === 0
            ? html`<div class="empty">Nobody has opened it yet, or the domain does not track: see its settings.</div>`
            : html`${line(
                  'Opens by hour',
                  'opens',
                  series.map(({ at, opens }) => [at, opens]),
                )}
                ${line(
                  'Clicks by hour',
                  'clicks',
                  series.map(({ at, clicks }) => [at, clicks]),
                )}
                <details>
                  <summary>The figures as a table</summary>
                  ${table(
                    'Opens and clicks',
                    ['Hour', { title: 'Opens', figure: true }, { title: 'Clicks', figure: true }],
                    busy.slice(0, 500).map(({ at, clicks, opens }) => [time(at), count(opens), count(clicks)]),
                    '',
                  )}
                </details>`
        }
        <h2>Links</h2>
        ${table(
          'Links',
          ['Leads to', { title: 'Clicks', figure: true }],
          links.map(({ clicks, url }) => [url, count(clicks)]),
          'No link was followed yet.',
        )}`,
    })
  },
}
