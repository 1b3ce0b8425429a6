// The report of a started campaign: five statistics next to those of the previous campaign, opens and clicks in the
// first two days, and links by clicks. All statistics are also available as a file.
import { html } from 'hono/html'
import { HOUR } from '../base/clock.ts'
import { barChart, type Bars } from '../views/html/chart.ts'
import { csvFile } from '../views/html/csv.ts'
import { count, counted, figures, percent, table, tile, time, type Cell, type Html } from '../views/html/widgets.ts'
import type { AttributesOf, NamesOf } from '../jsonapi/shown.ts'
import { found, type Place } from '../views/html/place.ts'
import { campaignActivity } from './api-activity.ts'
import { campaigns, campaignStats } from './api.ts'
import { number, objects, relatedId, text, type Thing, type Visit } from '../views/html/visit.ts'
import { progress, type ShownCampaign } from './page-frame.ts'
import { fileName } from './page-recipients.ts'
import { forecastOf, waitsPart } from './page-forecast.ts'

type CampaignFigures = Thing<typeof campaignStats>
type StatsFigure = NamesOf<AttributesOf<typeof campaignStats>, number>

/** The statistics of the report, each with its label and the email status that it counts. */
const FIGURES: readonly (readonly [label: string, name: StatsFigure, status?: string])[] = [
  ['Delivered', 'deliveries', 'delivered'],
  ['Opened', 'unique_opens'],
  ['Clicked', 'unique_clicks'],
  ['Bounced', 'bounces', 'bounced'],
  ['Unsubscribed', 'unsubscribes'],
]

/** A statistic as a fraction of the recipients, or undefined if it was not tracked or there are no recipients. */
function shareOf(stats: CampaignFigures, name: StatsFigure): number | undefined {
  const all = number(stats, 'recipients')
  return stats.attributes[name] === null || all === 0 ? undefined : number(stats, name) / all
}

/** The previous campaign to the same audience, with its statistics. */
async function before(
  visit: Visit,
  campaign: ShownCampaign['campaign'],
): Promise<{ name: string; stats: CampaignFigures } | undefined> {
  const audience = relatedId(campaign, 'audience')
  if (audience === undefined) return undefined
  const { many } = await visit.get(
    campaigns,
    `/campaigns?filter%5Baudience%5D=${audience}&filter%5Bstatus%5D=sent&page%5Bsize%5D=20`,
  )
  const started = text(campaign, 'started_at')
  const [last] = many
    .filter((each) => text(each, 'started_at') < started)
    .toSorted((a, b) => (text(a, 'started_at') < text(b, 'started_at') ? 1 : -1))
  if (!last) return undefined
  const { one: stats } = await visit.get(campaignStats, `/campaigns/${last.id}/stats`)
  return stats && { name: text(last, 'name'), stats }
}

function tiles(id: string, stats: CampaignFigures, last: CampaignFigures | undefined): Html {
  return html`<div class="tiles">
    ${FIGURES.map(([label, name, status]) => {
      const share = shareOf(stats, name)
      const former = last && shareOf(last, name)
      const notes = [
        stats.attributes[name] === null ? 'not tracked' : share === undefined ? '' : percent(share),
        former === undefined ? '' : `previous ${percent(former)}`,
        name === 'unsubscribes' && number(stats, 'complaints') > 0
          ? `${count(number(stats, 'complaints'))} complained`
          : '',
      ].filter(Boolean)
      return tile(label, stats.attributes[name] === null ? '–' : count(number(stats, name)), {
        note: html`<span>${notes.length === 0 ? ' ' : notes.join(' · ')}</span>`,
        ...(status === undefined ? {} : { to: `/campaigns/${id}/recipients?status=${status}` }),
      })
    })}
  </div>`
}

/** The hours in the chart: most recipients read within the first two days. */
const SHOWN = 48

type Point = Readonly<{ at: string; opens: number; clicks: number }>

/** One bar per hour from the start, including empty hours, so that the time axis is linear. */
function hours(visit: Visit, series: readonly Point[], started: number): Bars {
  const by = new Map(series.map((each) => [Date.parse(each.at), each]))
  const begin = Math.floor(started / HOUR) * HOUR
  const last = Math.max(...by.keys())
  const first = Math.min(...by.keys()) < begin + SHOWN * HOUR ? begin : Math.min(...by.keys())
  const shown = Math.min(SHOWN, Math.max((last - first) / HOUR + 1, 12))
  const at = Array.from({ length: shown }, (_, index) => first + index * HOUR)
  return {
    title: `Opens and clicks per hour, ${first === begin ? `first ${shown} hours` : `${shown} hours, not from the start`}`,
    place: visit.place,
    at,
    // Recipients who clicked also opened, so a sum of both has no meaning.
    grouped: true,
    series: [
      { name: 'Opens', tone: 'one', values: at.map((each) => by.get(each)?.opens ?? 0) },
      { name: 'Clicks', tone: 'good', values: at.map((each) => by.get(each)?.clicks ?? 0) },
    ],
  }
}

function chart(visit: Visit, campaign: ShownCampaign['campaign'], series: readonly Point[], tracked: boolean): Html {
  if (series.length === 0)
    return html`<div class="empty">
      ${tracked ? 'No opens yet.' : 'Opens and clicks were not tracked. To track your next campaign, turn on tracking in the settings of the domain.'}
    </div>`
  const busy = series.filter(({ clicks, opens }) => clicks + opens > 0)
  return html`${barChart(hours(visit, series, Date.parse(text(campaign, 'started_at'))))}
    <details>
      <summary>Show as table</summary>
      ${table(
        'Opens and clicks',
        [{ title: 'Hour', kind: 'time' }, ...figures('Opens', 'Clicks')],
        busy.slice(0, 500).map(({ at, clicks, opens }) => [time(at), count(opens), count(clicks)]),
        '',
      )}
    </details>`
}

type Followed = Readonly<{ url: string; clicks: number }>

function links(list: readonly Followed[]): Html {
  const all = list.reduce((sum, { clicks }) => sum + clicks, 0)
  return html`<h2>Links</h2>
    ${table(
      'Links',
      ['URL', ...figures('Clicks', 'Share')],
      list.map(({ clicks, url }): Cell[] => [url, count(clicks), percent(clicks / all)]),
      'No clicks yet.',
    )}`
}

export async function report(visit: Visit, { campaign, state }: ShownCampaign): Promise<{ live: Html; body: Html }> {
  const { id } = campaign
  const open = ['sending', 'paused'].includes(text(campaign, 'status'))
  const [stats, activity, last, forecast] = await Promise.all([
    visit.get(campaignStats, `/campaigns/${id}/stats`),
    visit.get(campaignActivity, `/campaigns/${id}/activity`),
    // An unfinished campaign is not compared with a finished one, and its page is reloaded often.
    open ? undefined : before(visit, campaign),
    open ? forecastOf(visit, id) : undefined,
  ])
  const { one } = found(stats)
  const readers = found(activity).one
  const followed: readonly Followed[] = objects(readers, 'links')
  const tracked = one.attributes.unique_opens !== null || one.attributes.unique_clicks !== null
  const waits = waitsPart(forecast, visit.allows('emails:read'))
  return {
    live: html`${open ? progress(campaign, state, visit.now(), waits !== '') : ''} ${waits}
      ${tiles(id, one, last?.stats)}
      <p class="soft">
        Percentages of ${counted(number(one, 'recipients'), 'recipient')}. Emails that bounced later also count as
        delivered. Opens and clicks exclude bots.
        ${last ? `“Previous” is ${last.name}, the previous campaign to this audience.` : ''}
      </p>`,
    body: html`${chart(visit, campaign, objects(readers, 'series'), tracked)}
      ${followed.length === 0 && one.attributes.unique_clicks === null ? '' : links(followed)}
      <p class="apart"><a class="button plain" href="/campaigns/${id}/figures.csv">Export report</a></p>`,
  }
}

/** Every figure of the report as a file: the sums, the hours, the links. */
export const figuresFile: Place = {
  path: '/campaigns/:id/figures.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const [campaign, stats, activity] = await Promise.all([
      visit.get(campaigns, `/campaigns/${id}`),
      visit.get(campaignStats, `/campaigns/${id}/stats`),
      visit.get(campaignActivity, `/campaigns/${id}/activity`),
    ])
    const { one } = found(stats)
    const readers = found(activity).one
    const followed = objects(readers, 'links')
    const all = followed.reduce((sum, { clicks }) => sum + clicks, 0)
    const share = (value: number | undefined): string => (value === undefined ? '' : percent(value))
    return csvFile(visit, fileName(found(campaign).one, 'report'), [
      ['part', 'name', 'value', 'share'],
      ...(Object.keys(one.attributes) as StatsFigure[]).map((name) => [
        'total',
        name,
        one.attributes[name] === null ? 'not tracked' : String(number(one, name)),
        name === 'recipients' ? '' : share(shareOf(one, name)),
      ]),
      ...objects(readers, 'series').flatMap(({ at, clicks, opens }) => [
        ['opens by hour', at, String(opens), ''],
        ['clicks by hour', at, String(clicks), ''],
      ]),
      ...followed.map(({ clicks, url }) => ['clicks by link', url, String(clicks), share(clicks / all)]),
    ])
  },
}
