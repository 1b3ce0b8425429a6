// What the pages of one campaign share: the campaign with its audience, the head with what can be done now, the tabs.
import { html } from 'hono/html'
import { campaignSender } from '../message/identity.ts'
import { page } from '../webui/frame.ts'
import { button } from '../webui/forms.ts'
import { badge, live, tabs, time, type Cell, type Html } from '../webui/widgets.ts'
import { done, found } from '../webui/place.ts'
import { audiences } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { text, those, type Answer, type Labels, type Thing, type Visit } from '../webui/visit.ts'
import { domainOf, standing } from './page-figures.ts'

export interface ShownCampaign {
  campaign: Thing<typeof campaigns>
  audience: Thing<typeof audiences> | undefined
  /** The name of the sending domain. */
  domain: string
  /** The state of the campaign in words. */
  state: string
}

export async function shownOf(visit: Visit): Promise<ShownCampaign> {
  const id = visit.context.req.param('id') ?? ''
  const { included, one: campaign } = found(await visit.get(campaigns, `/campaigns/${id}?include=audience`))
  const [audience] = those(audiences, included)
  const [domain, state] = await Promise.all([domainOf(visit, audience), standing(visit, campaign)])
  return { campaign, audience, domain, state }
}

export const hasBegun = ({ attributes }: ShownCampaign['campaign']): boolean => attributes.started_at !== null

type Tab = 'Report' | 'Recipients' | 'Content' | 'Settings'

/** The tabs of a campaign; one that has not begun has neither report nor recipients. */
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

/** What a person does with a campaign in this state, at the right of the head. */
function doing(visit: Visit, { campaign }: ShownCampaign): Cell {
  if (visit.reading) return ''
  const here = `/campaigns/${campaign.id}`
  const act = (action: string, label: string): Html | '' => button(visit, action, label, { to: here })
  const send = (label: string): Html => html`<a class="button" href="${here}/send">${label}</a>`
  switch (text(campaign, 'status')) {
    case 'draft':
      return html`<a class="button plain" href="${here}/edit">Edit</a> ${send('Review and send')}`
    case 'scheduled':
      return html`${act('unschedule', 'Unschedule')} ${send('Change the time')}`
    case 'sending':
      return act('pause', 'Pause')
    case 'paused':
      return act('resume', 'Resume')
    default:
      return act('copy', 'Copy as a draft')
  }
}

/** Where a campaign stands: its state, its audience, its sender, and the time that matters now. */
function standingLine({ audience, campaign, domain, state }: ShownCampaign): Html {
  const { attributes } = campaign
  const { finished_at, scheduled_at, started_at, status } = attributes
  const [word, at] =
    status === 'scheduled'
      ? ['Starts', scheduled_at]
      : status === 'sent'
        ? ['Sent', finished_at]
        : started_at === null
          ? ['Changed', attributes.updated_at]
          : ['Started', started_at]
  const failure = text(campaign, 'failure')
  return html`<p class="row">
      ${badge(state)}
      <span class="soft"
        >To ${audience ? html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>` : 'a removed audience'}
        · From ${campaignSender(text(campaign, 'from_address') || null, domain)} · ${word} ${time(at)}</span
      >
    </p>
    ${failure === '' ? '' : html`<div class="alert"><p>${failure}</p></div>`}`
}

interface CampaignPage {
  tab?: Tab
  /** The part that is updated after events, and what stands below it. */
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
        : html`${hasBegun(campaign) ? html`<a class="button plain" href="/why/${campaign.id}">Why?</a>` : ''}
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
