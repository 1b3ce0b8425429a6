// Shared by the pages of one campaign: the campaign with its audience, the header with the available actions, the tabs.
import { html } from 'hono/html'
import { campaignSender } from '../message/identity.ts'
import { page } from '../views/html/frame.ts'
import { button } from '../views/html/forms.ts'
import { badge, live, tabs, time, type Cell, type Html, count, counted } from '../views/html/widgets.ts'
import { done, found } from '../views/html/place.ts'
import { audiences } from './api-audiences.ts'
import { segments } from './api-segments.ts'
import { campaigns } from './api.ts'
import { text, those, type Answer, type Labels, type Thing, type Visit, number, objects } from '../views/html/visit.ts'
import { MINUTE, SECOND } from '../base/clock.ts'
import { domains } from '../domains/api.ts'
import { outboundEmails } from '../mail/api.ts'

export interface ShownCampaign {
  campaign: Thing<typeof campaigns>
  audience: Thing<typeof audiences> | undefined
  /** The segment to which it is sent, if any. */
  segment: Thing<typeof segments> | undefined
  domain: string
  /** The displayed state of the campaign. */
  state: string
}

export async function shownOf(visit: Visit): Promise<ShownCampaign> {
  const id = visit.context.req.param('id') ?? ''
  const { included, one: campaign } = found(await visit.get(campaigns, `/campaigns/${id}?include=audience,segment`))
  const [audience] = those(audiences, included)
  const [segment] = those(segments, included)
  const [domain, state] = await Promise.all([domainOf(visit, audience), standing(visit, campaign)])
  return { campaign, audience, segment, domain, state }
}

export const hasBegun = ({ attributes }: ShownCampaign['campaign']): boolean => attributes.started_at !== null

type Tab = 'Report' | 'Recipients' | 'Content' | 'Settings'

/** The tabs of a campaign. Report and recipients appear after the start. */
const tabsOf = (campaign: ShownCampaign['campaign']): readonly (readonly [tab: Tab, path: string])[] =>
  hasBegun(campaign)
    ? [
        ['Report', ''],
        ['Recipients', '/recipients'],
        ['Content', '/content'],
        ['Settings', '/settings'],
      ]
    : [
        ['Content', ''],
        ['Settings', '/settings'],
      ]

/** The actions for a campaign in this state, at the right of the header. */
function doing(visit: Visit, { campaign }: ShownCampaign): Cell {
  if (visit.reading) return ''
  const here = `/campaigns/${campaign.id}`
  const act = (action: string, label: string): Html | '' => button(visit, action, label, { to: here })
  const send = (label: string): Html => html`<a class="button" href="${here}/send">${label}</a>`
  switch (text(campaign, 'status')) {
    case 'draft':
      return html`<a class="button plain" href="${here}/edit">Edit</a> ${send('Review and send')}`
    case 'scheduled':
      return html`${act('unschedule', 'Unschedule')} ${send('Reschedule')}`
    case 'sending':
      return act('pause', 'Pause')
    case 'paused':
      return act('resume', 'Resume')
    default:
      return act('copy', 'Copy to draft')
  }
}

/** The summary line: the campaign's state, audience, sender, and the relevant time. */
function standingLine({ audience, campaign, domain, segment, state }: ShownCampaign): Html {
  const { attributes } = campaign
  const { finished_at, scheduled_at, started_at, status } = attributes
  const [word, at] =
    status === 'scheduled'
      ? ['Starts', scheduled_at]
      : status === 'sent'
        ? ['Sent', finished_at]
        : started_at === null
          ? ['Edited', attributes.updated_at]
          : ['Started', started_at]
  const failure = text(campaign, 'failure')
  return html`<p class="row">
      ${badge(state)}
      <span class="soft"
        >To
        ${audience ? html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>` : 'a deleted audience'}${segment ? html`, segment <a href="/segments/${segment.id}">${text(segment, 'name')}</a>` : ''}
        · From ${campaignSender(text(campaign, 'from_address') || null, domain)} · ${word} ${time(at)}</span
      >
    </p>
    ${failure === '' ? '' : html`<div class="alert"><p>${failure}</p></div>`}`
}

interface CampaignPage {
  tab?: Tab
  /** The part that live updates replace, and the content below it. */
  live?: Html | ''
  body: Cell
  errors?: Answer['errors']
  labels?: Labels
}

export async function campaignPage(
  visit: Visit,
  shown: ShownCampaign,
  { body, errors = [], labels, live: lively = '', tab }: CampaignPage,
): Promise<Response> {
  const { campaign } = shown
  const here = `/campaigns/${campaign.id}`
  const name = text(campaign, 'name')
  return page(visit, {
    title: tab === undefined ? 'Review and send' : name,
    about: text(campaign, 'subject'),
    crumbs: [['/campaigns', 'Campaigns'], ...(tab === undefined ? [[here, name] as const] : [])],
    actions:
      tab === undefined
        ? ''
        : html`${hasBegun(campaign) && visit.allows('emails:read') ? html`<a class="button plain" href="/why/${campaign.id}">Why?</a>` : ''}
          ${doing(visit, shown)}`,
    errors,
    ...(labels === undefined ? {} : { labels }),
    done: done(visit),
    body: html`${
      tab === undefined
        ? ''
        : tabs(
            'Campaign',
            tabsOf(campaign).map(([each, path]) => ({ to: `${here}${path}`, name: each, here: each === tab })),
          )
    }
    ${live(visit, html`${standingLine(shown)} ${lively}`, { actions: true })} ${body}`,
  })
}

// The progress of a campaign: its state, its progress bar while it is sending, and the sending domain of its audience.

type CampaignResource = Thing<typeof campaigns>

/** The sending domain of an audience, or '' if the audience was removed. */
export async function domainOf(visit: Visit, audience: Thing<typeof audiences> | undefined): Promise<string> {
  const { included } = audience
    ? await visit.get(audiences, `/audiences/${audience.id}?include=domain`)
    : { included: [] }
  const [domain] = those(domains, included)
  return domain ? text(domain, 'name') : ''
}

/** The number of recipients whose email has no final result. */
export const leftOf = (campaign: CampaignResource): number =>
  Math.max(number(campaign, 'recipients') - number(campaign, 'concluded'), 0)

/** Up to this many emails are checked one by one. Above it, one percent of the recipients is the limit. */
const FEW = 100

/** The displayed state of a campaign. If all remaining emails were deferred, it is finishing. */
export async function standing(visit: Visit, campaign: CampaignResource): Promise<string> {
  const status = text(campaign, 'status')
  const left = leftOf(campaign)
  if (status !== 'sending' || left === 0) return status
  const words = `finishing (${count(left)} queued)`
  if (left > FEW) return left <= number(campaign, 'recipients') / 100 ? words : status
  const { many } = await visit.get(
    outboundEmails,
    `/outbound-emails?filter%5Bcampaign%5D=${campaign.id}&filter%5Bstatus%5D=queued,sent&page%5Bsize%5D=${FEW}`,
  )
  const putOff = many.filter((mail) =>
    objects(mail, 'recipients').some(({ attempts, next_attempt_at }) => attempts > 0 && next_attempt_at !== null),
  )
  return putOff.length === left ? words : status
}

/** From this progress on, no remaining time is shown: the rest may be deferred emails, which are retried much later. */
const TAIL = 0.95

/**
 * The progress of a campaign and, while it is sending and no email `waits` for days, its speed and the remaining time.
 */
export function progress(campaign: CampaignResource, state: string, at: number, waits: boolean): Html {
  const all = number(campaign, 'recipients')
  const ended = number(campaign, 'concluded')
  const started = Date.parse(text(campaign, 'started_at'))
  const going = state === 'sending' && !waits && ended > 0 && at - started >= SECOND
  const pace = going && ended < TAIL * all ? (ended / (at - started)) * MINUTE : 0
  const left = pace > 0 ? Math.ceil((all - ended) / pace) : 0
  return html`<progress max="${Math.max(all, 1)}" value="${ended}" aria-label="Progress">${ended} of ${all}</progress>
    <p>
      ${count(ended)} of ${count(all)}
      completed${left > 0 ? `, ${count(Math.round(pace))} per minute, about ${counted(left, 'minute')} left` : ''}.
      ${state.startsWith('finishing') && !waits ? 'The remaining emails were deferred and will be retried, so there is no time estimate.' : ''}
    </p>`
}
