// The content of a campaign as readers see it, and its settings with what ends, copies or removes it.
import { html } from 'hono/html'
import { campaignSender } from '../message/identity.ts'
import { button, dangers } from '../webui/forms.ts'
import { facts, time, type Cell, type Html } from '../webui/widgets.ts'
import { text, texts, type Visit } from '../webui/visit.ts'
import { hasBegun, type ShownCampaign } from './page-frame.ts'

export const content = ({ campaign: { id } }: ShownCampaign): Html =>
  html`<p class="soft">
      With the data of the audience’s newest contact. The links to unsubscribe are made when it is sent, and style
      blocks (&lt;style&gt;) are not shown here.
    </p>
    <div class="previews">
      <iframe sandbox src="/campaigns/${id}/preview" title="On a desk" class="desk"></iframe>
      <iframe sandbox src="/campaigns/${id}/preview" title="On a phone" class="phone"></iframe>
    </div>`

/** Whether opens or clicks are tracked, in words. */
const tracked = (wanted: boolean | null | undefined): string =>
  wanted === null || wanted === undefined ? 'as the domain is set' : wanted ? 'yes' : 'no'

export function settings(visit: Visit, { audience, campaign, domain }: ShownCampaign): Html {
  const { attributes, id } = campaign
  const status = text(campaign, 'status')
  const replies = texts(campaign, 'reply_to')
  const at = (name: string, value: unknown): [string, Cell][] => (value === null ? [] : [[name, time(value)]])
  const here = { to: `/campaigns/${id}` }
  const sent = hasBegun(campaign) ? 'Mail that was not sent is never sent.' : 'It does not start.'
  return html`${facts([
    ['Name', text(campaign, 'name')],
    ['Subject', text(campaign, 'subject')],
    ['Audience', audience ? html`<a href="/audiences/${audience.id}">${text(audience, 'name')}</a>` : 'removed'],
    ['From', campaignSender(text(campaign, 'from_address') || null, domain)],
    ['Replies go to', replies.length === 0 ? 'the sender' : replies.join(', ')],
    ['Opens are tracked', tracked(attributes.track_opens)],
    ['Clicks are tracked', tracked(attributes.track_clicks)],
    ...(attributes.test_mode
      ? ([['A test', `goes to ${text(campaign, 'test_recipient_email') || 'nobody'} alone`]] as const)
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
            button(visit, 'cancel', 'Cancel the campaign', {
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
            'The campaign and its report are removed; what it has sent stays on record.',
            button(visit, 'remove', 'Remove', {
              ...here,
              danger: true,
              confirm: `“${text(campaign, 'name')}” is removed; what it has sent stays on record.`,
            }),
          ] as const,
        ]
      : []),
  ])}`
}
