// Pages: the list of campaigns, and their actions. The editor is in page-editor.ts, the start in page-send.ts.
import { html } from 'hono/html'
import { badge, count, percent, time, type Cell, facts, type Html } from '../views/html/widgets.ts'
import { found, type Place } from '../views/html/place.ts'
import { CAMPAIGN_STATUSES, type CampaignStatus } from '../store/states/campaign.ts'
import { campaigns, campaignStats, campaignTotals } from './api.ts'
import { campaignReach } from './api-reach.ts'
import { segments } from './api-segments.ts'
import { number, relatedId, text, type Answer, type Thing, type Visit, texts } from '../views/html/visit.ts'
import type { Bulk } from '../views/bulk.ts'
import type { ListView } from '../views/list.ts'
import { listPlaces } from '../views/pages.ts'
import { relatedName, type ViewColumn } from '../views/table.ts'
import { leftOf, standing, campaignPage, hasBegun, shownOf, type ShownCampaign } from './page-frame.ts'
import { reachWords, suppressedPlace } from './page-reach.ts'
import { recipients, recipientsFile } from './page-recipients.ts'
import { figuresFile, report } from './page-report.ts'
import { send } from './page-send.ts'
import { campaignSender } from '../message/identity.ts'
import { button, dangers } from '../views/html/forms.ts'

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
  return started_at === null ? html`Edited ${time(updated_at)}` : html`Started ${time(started_at)}`
}

/** The state of a campaign, and its statistics if it has started. */
async function moreOf(
  visit: Visit,
  campaign: Thing<typeof campaigns>,
): Promise<{ state: string; stats: Thing<typeof campaignStats> | undefined }> {
  const path = `/campaigns/${campaign.id}`
  const [stats, whole] = await Promise.all([
    hasBegun(campaign) ? visit.get(campaignStats, `${path}/stats`) : undefined,
    text(campaign, 'status') === 'sending' ? visit.get(campaigns, path) : undefined,
  ])
  const state = whole?.one ? await standing(visit, whole.one) : text(campaign, 'status')
  return { state, stats: stats?.one }
}

type Share = 'unique_opens' | 'unique_clicks' | 'bounces'

/** The columns of the list. Opens and clicks are fractions of the recipients. */
async function columnsFor(
  visit: Visit,
  answer: Answer<typeof campaigns>,
): Promise<readonly ViewColumn<typeof campaigns>[]> {
  const all = await Promise.all(answer.many.map(async (each) => [each.id, await moreOf(visit, each)] as const))
  const more = new Map(all)
  const audience = relatedName(answer, 'audience')
  const share = (title: string, name: Share): ViewColumn<typeof campaigns> => ({
    title,
    kind: 'share',
    of(campaign) {
      const [stats, recipients] = [more.get(campaign.id)?.stats, number(campaign, 'recipients')]
      return stats && recipients > 0 && stats.attributes[name] !== null
        ? percent(number(stats, name) / recipients)
        : '–'
    },
  })
  // A finishing campaign needs more space for its state.
  const wide = all.some(([, { state }]) => state.includes('('))
  return [
    { title: 'Name', of: 'name', to: ({ id }) => `/campaigns/${id}` },
    {
      title: 'Status',
      kind: 'status',
      sort: 'status',
      of: ({ id }) => badge(more.get(id)?.state ?? ''),
      ...(wide ? { width: 20 } : {}),
    },
    {
      title: 'To',
      width: 15,
      of: (each) =>
        each.attributes.recipients === null
          ? audience(each)
          : `${count(number(each, 'recipients'))} · ${audience(each)}`,
    },
    share('Opened', 'unique_opens'),
    share('Clicked', 'unique_clicks'),
    share('Bounced', 'bounces'),
    { title: 'Date', kind: 'time', width: 20, of: timeOf },
  ]
}

const BULK: Bulk<typeof campaigns> = {
  of: campaigns,
  named: (campaign) => text(campaign, 'name'),
  noun: 'campaign',
  actions: {
    pause: { label: 'Pause', said: 'Paused', ask: { attributes: { status: 'paused' } } },
    resume: {
      label: 'Resume',
      said: 'Resumed',
      confirm: 'The remaining emails will be sent.',
      ask: { attributes: { status: 'sending' } },
    },
    remove: {
      label: 'Delete',
      said: 'Deleted',
      danger: true,
      confirm: 'This deletes the campaigns and their reports. The emails that they sent are kept.',
    },
  },
}

async function listView(visit: Visit): Promise<ListView<typeof campaigns>> {
  const sums = found(await visit.get(campaignTotals, '/campaign-totals')).one
  const some = CAMPAIGN_STATUSES.filter((each) => number(sums, each) > 0 || each === visit.query('status'))
  const all = some.reduce((sum, each) => sum + number(sums, each), 0)
  const options = some.map((value) => ({ value, name: NAMES[value], count: number(sums, value) }))
  return {
    of: campaigns,
    from: '/campaigns?include=audience',
    caption: 'Campaigns',
    live: true,
    size: 25,
    search: 'Search names and subjects',
    ...(all > 0 && {
      tabs: { label: 'Status', name: 'status', options: [{ value: '', name: 'All', count: all }, ...options] },
    }),
    columns: (answer) => columnsFor(visit, answer),
    empty: html`<p>No campaigns yet. A campaign is sent to an audience: a list of your subscribers.</p>
      ${visit.reading ? '' : html`<a class="button plain" href="/audiences">Audiences</a>`}`,
    noMatch: 'No campaigns match.',
  }
}

const list = listPlaces({
  path: '/campaigns',
  title: 'Campaigns',
  about: 'One email to an audience. Write a draft, test it, then send it.',
  head: (visit) => (visit.reading ? '' : html`<a class="button" href="/campaigns/new">New campaign</a>`),
  list: listView,
  bulk: () => BULK,
})

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const shown = await shownOf(visit)
  if (!hasBegun(shown.campaign)) {
    const scheduled = text(shown.campaign, 'status') === 'scheduled'
    const reach = scheduled && (await visit.get(campaignReach, `/campaigns/${shown.campaign.id}/reach`)).one
    return campaignPage(visit, shown, {
      tab: 'Content',
      live: reach ? html`<p>If sent now: ${reachWords(reach)}</p>` : '',
      body: content(shown),
      errors,
    })
  }
  return campaignPage(visit, shown, { tab: 'Report', ...(await report(visit, shown)), errors })
}

/** The attributes that a copy takes over: all but the time and the status. */
const COPIED = [
  'subject',
  'body_html',
  'body_text',
  'from_address',
  'reply_to',
  'test_mode',
  'test_recipient_email',
  'require_unsubscribe_link',
  'track_opens',
  'track_clicks',
] as const
const MAX_NAME = 255

/**
 * The document of a new draft from a campaign. A started campaign cannot become a draft again, so a copy is the way to
 * change it.
 */
function copyOf(campaign: Thing<typeof campaigns>, segment: string | undefined) {
  const own = Object.fromEntries(COPIED.map((name) => [name, campaign.attributes[name]]))
  const audience = campaign.relationships?.audience?.data
  return {
    type: 'campaigns',
    attributes: { ...own, name: `Copy of ${text(campaign, 'name')}`.slice(0, MAX_NAME).toWellFormed() },
    relationships: {
      ...(audience && { audience: { data: audience } }),
      ...(segment !== undefined && { segment: { data: { type: 'segments', id: segment } } }),
    },
  }
}

/** The segment of a campaign, if it was not deleted. */
async function segmentOf(visit: Visit, campaign: Thing<typeof campaigns>): Promise<string | undefined> {
  const id = relatedId(campaign, 'segment')
  return id === undefined ? undefined : (await visit.get(segments, `/segments/${id}`)).one?.id
}

/** Runs an action on a campaign, and shows its confirmation. */
async function move(visit: Visit, action: string): Promise<Response> {
  const id = visit.context.req.param('id')!
  const here = `/campaigns/${id}`
  const { one: before } = found(await visit.get(campaigns, here))
  const name = `“${text(before, 'name')}”`
  switch (action) {
    case 'copy': {
      const segment = await segmentOf(visit, before)
      const answer = await visit.ask('POST', '/campaigns', copyOf(before, segment))
      const lost = segment === undefined && relatedId(before, 'segment') !== undefined
      const more = lost ? ' Its segment was deleted, so the draft is for all contacts of the audience.' : ''
      return answer.one
        ? visit.say(`/campaigns/${answer.one.id}`, `Copied ${name} as a new draft.${more}`)
        : showOne(visit, answer.errors)
    }
    case 'remove': {
      const gone = await visit.ask('DELETE', here)
      return gone.status === 204 ? visit.say('/campaigns', `Deleted ${name}.`) : showOne(visit, gone.errors)
    }
    case 'unschedule': {
      const answer = await visit.ask('POST', `${here}/unschedule`)
      return answer.one
        ? visit.say(here, `${name} is a draft again and will not start.`)
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

/** "Paused. 1,974 of 1,994 still to send." */
function movedWords(campaign: Thing<typeof campaigns>): string {
  const status = text(campaign, 'status')
  const word = status === 'sending' ? 'Resumed' : NAMES[status as CampaignStatus]
  if (campaign.attributes.recipients === null) return `${word}. Nothing was sent.`
  const [all, left] = [number(campaign, 'recipients'), leftOf(campaign)]
  return status === 'cancelled'
    ? `${word}. ${count(all - left)} of ${count(all)} were sent.`
    : `${word}. ${count(left)} of ${count(all)} still to send.`
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
  ...list,
  suppressedPlace,
]

// The content of a campaign as readers see it, and its settings with the actions that end, copy or remove it.

export const content = ({ campaign: { id } }: ShownCampaign): Html =>
  html`<p class="soft">
      Uses the data of the audience’s newest contact. Unsubscribe links are created when the email is sent. Style blocks
      (&lt;style&gt;) are not shown in this preview.
    </p>
    <div class="previews">
      ${(['desk', 'phone'] as const).map(
        (size) =>
          html`<iframe
            sandbox="allow-same-origin"
            src="/campaigns/${id}/preview"
            title="${size === 'desk' ? 'Desktop' : 'Phone'} preview"
            class="${size} fit"
          ></iframe>`,
      )}
    </div>`

/** The tracking of opens and clicks, as text. */
const tracked = (wanted: boolean | null | undefined): string =>
  wanted === null || wanted === undefined ? 'domain default' : wanted ? 'on' : 'off'

export function settings(visit: Visit, { audience, campaign, domain, segment }: ShownCampaign): Html {
  const { attributes, id } = campaign
  const status = text(campaign, 'status')
  const replies = texts(campaign, 'reply_to')
  const at = (name: string, value: unknown): [string, Cell][] => (value === null ? [] : [[name, time(value)]])
  const here = { to: `/campaigns/${id}` }
  const sent = hasBegun(campaign) ? 'The remaining emails will not be sent.' : 'The campaign will not start.'
  return html`${facts([
    ['Name', text(campaign, 'name')],
    ['Subject', text(campaign, 'subject')],
    ['Audience', audience ? html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>` : 'deleted'],
    ...(segment ? ([['Segment', html`<a href="/segments/${segment.id}">${text(segment, 'name')}</a>`]] as const) : []),
    ['From', campaignSender(text(campaign, 'from_address') || null, domain)],
    ['Reply-to', replies.length === 0 ? 'From address' : replies.join(', ')],
    ['Open tracking', tracked(attributes.track_opens)],
    ['Click tracking', tracked(attributes.track_clicks)],
    ...(attributes.test_mode
      ? ([['Test mode', `sends only to ${text(campaign, 'test_recipient_email') || '(no address)'}`]] as const)
      : []),
    ['Created', time(attributes.created_at)],
    ...at('Starts', status === 'scheduled' ? attributes.scheduled_at : null),
    ...at('Started', attributes.started_at),
    ...at('Finished', attributes.finished_at),
  ])}
  ${
    status === 'draft' && !visit.reading
      ? html`<p><a class="button plain" href="/campaigns/${id}/edit">Edit</a></p>`
      : ''
  }
  ${dangers(visit, [
    ...(['scheduled', 'paused'].includes(status)
      ? [
          [
            sent,
            button(visit, 'cancel', 'Cancel campaign', {
              ...here,
              danger: true,
              confirm: `${sent} This cannot be undone.`,
            }),
          ] as const,
        ]
      : []),
    ...(['draft', 'cancelled', 'sent', 'failed'].includes(status)
      ? [
          [
            'Deletes the campaign and its report. The emails that it sent are kept.',
            button(visit, 'remove', 'Delete campaign', {
              ...here,
              danger: true,
              confirm: `This deletes “${text(campaign, 'name')}” and its report. The emails that it sent are kept.`,
            }),
          ] as const,
        ]
      : []),
  ])}`
}
