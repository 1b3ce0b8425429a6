// Campaigns: their list, and the pages of one with what moves it. Writing is in page-editor.ts, the start in
// page-send.ts.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import {
  count,
  badge,
  live,
  pageOf,
  pager,
  percent,
  search,
  table,
  tabs,
  time,
  type Cell,
  type TableColumn,
} from '../webui/widgets.ts'
import { done, found, type Place } from '../webui/place.ts'
import { CAMPAIGN_STATUSES, type CampaignStatus } from '../states/campaign.ts'
import { isOneOf } from '../base/one-of.ts'
import { campaigns, campaignStats, campaignTotals } from './api.ts'
import { campaignReaches } from './api-reach.ts'
import { namesOf, number, relatedId, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { copyOf } from './page-copy.ts'
import { content, settings } from './page-content.ts'
import { leftOf, standing } from './page-figures.ts'
import { campaignPage, hasBegun, shownOf } from './page-frame.ts'
import { reachWords, suppressedPlace } from './page-reach.ts'
import { recipients, recipientsFile } from './page-recipients.ts'
import { figuresFile, report } from './page-report.ts'
import { send } from './page-send.ts'

const NAMES: Record<CampaignStatus, string> = {
  draft: 'Drafts',
  scheduled: 'Scheduled',
  sending: 'Sending',
  paused: 'Paused',
  sent: 'Sent',
  cancelled: 'Cancelled',
  failed: 'Failed',
}

/** The time that matters in a state, with the word for it. */
function timeOf({ attributes }: Thing<typeof campaigns>): Cell {
  const { finished_at, scheduled_at, started_at, status, updated_at } = attributes
  if (status === 'scheduled') return html`Starts ${time(scheduled_at)}`
  if (status === 'sent') return html`Sent ${time(finished_at)}`
  return started_at === null ? html`Changed ${time(updated_at)}` : html`Started ${time(started_at)}`
}

/** A campaign as a row of the list; what readers did is shown as shares of its recipients. */
async function rowOf(
  visit: Visit,
  campaign: Thing<typeof campaigns>,
  audience: string,
): Promise<{ state: string; cells: Cell[] }> {
  const begun = hasBegun(campaign)
  const path = `/campaigns/${campaign.id}`
  const [stats, whole] = await Promise.all([
    begun ? visit.get(campaignStats, `${path}/stats`) : undefined,
    text(campaign, 'status') === 'sending' ? visit.get(campaigns, path) : undefined,
  ])
  const all = number(campaign, 'recipients')
  const share = (name: 'unique_opens' | 'unique_clicks' | 'bounces'): Cell =>
    stats?.one && all > 0 && stats.one.attributes[name] !== null ? percent(number(stats.one, name) / all) : '–'
  const state = whole?.one ? await standing(visit, whole.one) : text(campaign, 'status')
  const cells = [
    html`<a href="${path}">${text(campaign, 'name')}</a>`,
    badge(state),
    campaign.attributes.recipients === null ? audience : `${count(all)} · ${audience}`,
    share('unique_opens'),
    share('unique_clicks'),
    share('bounces'),
    timeOf(campaign),
  ]
  return { state, cells }
}

/** The columns; a campaign that is finishing needs more room for its state. */
const columnsFor = (rows: readonly { state: string }[]): TableColumn[] => [
  { title: 'Name' },
  { title: 'Status', kind: 'status', ...(rows.some(({ state }) => state.includes('(')) ? { width: 20 } : {}) },
  { title: 'To', width: 15 },
  ...['Opened', 'Clicked', 'Bounced'].map((title): TableColumn => ({ title, kind: 'share' })),
  { title: 'When', kind: 'time', width: 20 },
]

const list: Place = {
  path: '/campaigns',
  async show(visit) {
    const q = visit.query('q')
    const status = isOneOf(CAMPAIGN_STATUSES, visit.query('status')) ? visit.query('status') : ''
    const filters = `${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}${status === '' ? '' : `&filter%5Bstatus%5D=${status}`}`
    const [answer, totals] = await Promise.all([
      visit.get(campaigns, `/campaigns?include=audience&${pageOf(visit, 25)}${filters}`),
      visit.get(campaignTotals, '/campaign-totals'),
    ])
    const names = namesOf(answer.included)
    const rows = await Promise.all(
      answer.many.map((campaign) => rowOf(visit, campaign, names.get(relatedId(campaign, 'audience') ?? '') ?? '')),
    )
    const sums = found(totals).one
    const some = CAMPAIGN_STATUSES.filter((each) => number(sums, each) > 0 || each === status)
    const to = (each: string): string => {
      const query = new URLSearchParams({ ...(each === '' ? {} : { status: each }), ...(q === '' ? {} : { q }) })
      return `/campaigns${query.size === 0 ? '' : `?${query.toString()}`}`
    }
    const all = some.reduce((sum, each) => sum + number(sums, each), 0)
    return page(visit, {
      title: 'Campaigns',
      about: 'One mail to an audience: written as a draft, tried, and started by a person.',
      errors: answer.errors,
      done: done(visit),
      actions: visit.reading ? '' : html`<a class="button" href="/campaigns/new">New campaign</a>`,
      body: html`${search(visit, 'Search a name or a subject', '', status === '' ? {} : { status })}
      ${live(
        visit,
        html`${
          all === 0
            ? ''
            : tabs('Status', [
                { to: to(''), name: 'All', count: all, here: status === '' },
                ...some.map((each) => ({
                  to: to(each),
                  name: NAMES[each],
                  count: number(sums, each),
                  here: each === status,
                })),
              ])
        }
        ${table(
          'Campaigns',
          columnsFor(rows),
          rows.map(({ cells }) => cells),
          q === '' && status === ''
            ? html`<p>No campaign yet. It goes to an audience: the people who asked for your news.</p>
                ${visit.reading ? '' : html`<a class="button plain" href="/audiences">Audiences</a>`}`
            : 'Nothing fits.',
        )}
        ${pager(visit, answer)}`,
      )}`,
    })
  },
}

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const shown = await shownOf(visit)
  if (!hasBegun(shown.campaign)) {
    const scheduled = text(shown.campaign, 'status') === 'scheduled'
    const reach = scheduled && (await visit.get(campaignReaches, `/campaigns/${shown.campaign.id}/reach`)).one
    return campaignPage(visit, shown, {
      tab: 'Content',
      live: reach ? html`<p>If it started now: ${reachWords(reach)}</p>` : '',
      body: content(shown),
      errors,
    })
  }
  return campaignPage(visit, shown, { tab: 'Report', ...(await report(visit, shown)), errors })
}

/** What is done with a campaign, and the sentence that confirms it. */
async function move(visit: Visit, action: string): Promise<Response> {
  const id = visit.context.req.param('id')!
  const here = `/campaigns/${id}`
  const { one: before } = found(await visit.get(campaigns, here))
  const name = `“${text(before, 'name')}”`
  switch (action) {
    case 'copy': {
      const answer = await visit.ask('POST', '/campaigns', copyOf(before))
      return answer.one
        ? visit.say(`/campaigns/${answer.one.id}`, `This is a copy of ${name}, a draft.`)
        : showOne(visit, answer.errors)
    }
    case 'remove': {
      const gone = await visit.ask('DELETE', here)
      return gone.status === 204 ? visit.say('/campaigns', `${name} is removed.`) : showOne(visit, gone.errors)
    }
    case 'unschedule': {
      const answer = await visit.ask('POST', `${here}/unschedule`)
      return answer.one
        ? visit.say(here, `${name} is a draft again, and does not start.`)
        : showOne(visit, answer.errors)
    }
    default: {
      const to = ({ pause: 'paused', resume: 'sending', cancel: 'cancelled' } as Record<string, string>)[action]
      const answer = await visit.ask('PATCH', here, { type: 'campaigns', id, attributes: { status: to } })
      if (!answer.one) return showOne(visit, answer.errors)
      const { one: after } = found(await visit.get(campaigns, here))
      return visit.say(here, movedWords(after))
    }
  }
}

/** "Paused. 1,974 of 1,994 not sent yet." */
function movedWords(campaign: Thing<typeof campaigns>): string {
  const status = text(campaign, 'status')
  const word = status === 'sending' ? 'Resumed' : NAMES[status as CampaignStatus]
  if (campaign.attributes.recipients === null) return `${word}. Nothing was sent.`
  const [all, left] = [number(campaign, 'recipients'), leftOf(campaign)]
  return status === 'cancelled'
    ? `${word}. ${count(all - left)} of ${count(all)} were sent.`
    : `${word}. ${count(left)} of ${count(all)} not sent yet.`
}

const one: Place = {
  path: '/campaigns/:id',
  show: (visit) => showOne(visit),
  act: (visit, given) => move(visit, given.action),
}

const ofRecipients: Place = {
  path: '/campaigns/:id/recipients',
  async show(visit) {
    const shown = await shownOf(visit)
    return campaignPage(visit, shown, { tab: 'Recipients', body: await recipients(visit, shown) })
  },
}

const ofContent: Place = {
  path: '/campaigns/:id/content',
  async show(visit) {
    const shown = await shownOf(visit)
    return campaignPage(visit, shown, { tab: 'Content', body: content(shown) })
  },
}

const ofSettings: Place = {
  path: '/campaigns/:id/settings',
  async show(visit) {
    const shown = await shownOf(visit)
    return campaignPage(visit, shown, { tab: 'Settings', body: settings(visit, shown) })
  },
}

export const campaignPlaces = [
  recipientsFile,
  figuresFile,
  ofRecipients,
  ofContent,
  ofSettings,
  send,
  one,
  list,
  suppressedPlace,
]
