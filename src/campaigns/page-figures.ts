// The facts and figures of a campaign: its sender and audience, its progress, and the funnel of its recipients.
import { html } from 'hono/html'
import { MINUTE, SECOND } from '../base/clock.ts'
import { campaignSender } from '../message/identity.ts'
import { badge, count, facts, figures, percent, table, time, type Cell, type Html } from '../webui/widgets.ts'
import { domains } from '../domains/api.ts'
import type { AttributesOf, NamesOf } from '../jsonapi/shown.ts'
import { audiences } from './api-audiences.ts'
import type { campaigns, campaignStats } from './api.ts'
import { number, text, those, type Thing, type Visit } from '../webui/visit.ts'

type CampaignResource = Thing<typeof campaigns>
type AudienceResource = Thing<typeof audiences>

/** The name of the sending domain of an audience; '' when it is gone. */
export async function domainOf(visit: Visit, audience: AudienceResource | undefined): Promise<string> {
  const { included } = audience
    ? await visit.get(audiences, `/audiences/${audience.id}?include=domain`)
    : { included: [] }
  const [domain] = those(domains, included)
  return domain ? text(domain, 'name') : ''
}

export function factsOf(campaign: CampaignResource, audience: AudienceResource | undefined, domain: string): Html {
  return facts([
    ['Status', badge(text(campaign, 'status'))],
    ['Subject', text(campaign, 'subject')],
    ['Audience', audience ? html`<a href="/audiences/${audience.id}">${nameOf(audience)}</a>` : ''],
    ['From', campaignSender(text(campaign, 'from_address') || null, domain)],
    ...(text(campaign, 'failure') === '' ? [] : ([['Why', text(campaign, 'failure')]] as const)),
    ...(campaign.attributes.scheduled_at === null
      ? []
      : ([['Starts', time(campaign.attributes.scheduled_at)]] as const)),
  ])
}

const nameOf = (audience: AudienceResource): string => text(audience, 'name') || 'its contacts'

/** From this share on no time is told: the rest may be mail that receivers put off, which is tried again much later. */
const TAIL = 0.95

/** The progress of a campaign and, while it is sent, its speed and the remaining time. */
export function progress(campaign: CampaignResource, at: number): Html {
  const all = number(campaign, 'recipients')
  const ended = number(campaign, 'concluded')
  const started = Date.parse(text(campaign, 'started_at'))
  const going = text(campaign, 'status') === 'sending' && ended > 0 && at - started >= SECOND
  const pace = going && ended < TAIL * all ? (ended / (at - started)) * MINUTE : 0
  const left = pace > 0 ? Math.ceil((all - ended) / pace) : 0
  return html`<progress max="${Math.max(all, 1)}" value="${ended}" aria-label="Finished">${ended} of ${all}</progress>
    <p>
      ${count(ended)} of ${count(all)}
      finished${left > 0 ? `, ${count(Math.round(pace))} a minute, about ${count(left)} ${left === 1 ? 'minute' : 'minutes'} left` : ''}.
      ${going && pace === 0 ? 'Mail that a receiver puts off is tried again, so no time can be told for the last ones.' : ''}
    </p>`
}

type StatsFigure = NamesOf<AttributesOf<typeof campaignStats>, number>

export function funnel(campaign: CampaignResource, stats: Thing<typeof campaignStats>): Html {
  const all = number(campaign, 'recipients')
  const share = (name: StatsFigure): string => (all === 0 ? '' : percent(number(stats, name) / all))
  const row = (label: string, name: StatsFigure, status?: string): readonly [Cell, string, string] => [
    status === undefined ? label : html`<a href="/campaigns/${campaign.id}?status=${status}#recipients">${label}</a>`,
    stats.attributes[name] === null ? 'not tracked' : count(number(stats, name)),
    stats.attributes[name] === null ? '' : share(name),
  ]
  return table(
    'What became of it',
    ['', ...figures('Mails', 'Share')],
    [
      ['To all recipients', count(all), ''],
      row('Delivered, also those that bounced later', 'deliveries'),
      row('Opened by people', 'unique_opens'),
      row('Followed a link', 'unique_clicks'),
      row('Bounced', 'bounces', 'bounced'),
      row('Complained', 'complaints', 'complained'),
      row('Unsubscribed', 'unsubscribes'),
    ],
    '',
  )
}
