// The recipients of a campaign, each with the state of the mail, as a page and as a file.
import { html } from 'hono/html'
import { isOneOf } from '../base/one-of.ts'
import { csv } from '../views/html/csv.ts'
import { badge, pageOf, pager, segments, table, time, type Html } from '../views/html/widgets.ts'
import { found, type Place } from '../views/html/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { contacts } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { objects, relatedId, text, thingOf, type Thing, type Visit } from '../views/html/visit.ts'
import { answerOf, replyParts } from '../views/html/reply.ts'
import type { ShownCampaign } from './page-frame.ts'

/** The states of a recipient's mail by which the page and the file can be filtered. */
const STATUSES = ['queued', 'delivered', 'bounced', 'complained', 'suppressed', 'failed'] as const

/** A state as the page names it. */
const wordOf = (status: string): string => (status === 'sent' ? 'queued' : status)

const filterOf = (visit: Visit): string => {
  const status = visit.query('status')
  return isOneOf(STATUSES, status) ? status : ''
}
const pathOf = (id: string, filter: string): string =>
  `/outbound-emails?filter%5Bcampaign%5D=${id}${filter === '' ? '' : `&filter%5Bstatus%5D=${filter === 'queued' ? 'queued,sent' : filter}`}`

export async function recipients(visit: Visit, { campaign: { id } }: ShownCampaign): Promise<Html> {
  const filter = filterOf(visit)
  const mails = await visit.get(outboundEmails, `${pathOf(id, filter)}&${pageOf(visit)}`)
  const here = `/campaigns/${id}/recipients`
  const query = filter === '' ? '' : `?status=${filter}`
  return html`<div class="row">
      ${segments(
        'Status',
        ['', ...STATUSES].map((each) => ({
          to: each === '' ? here : `${here}?status=${each}`,
          name: each === '' ? 'All' : wordOf(each).replace(/^./, (letter) => letter.toUpperCase()),
          here: each === filter,
        })),
      )}
      <a class="button plain" href="${here}.csv${query}">Export ${filter === '' ? 'all' : wordOf(filter)}</a>
    </div>
    ${table(
      'Recipients',
      [
        { title: 'Address', width: 30 },
        { title: 'Status', kind: 'status' },
        { title: 'Delivered', kind: 'time' },
        { title: 'Opened', kind: 'time' },
        'Details',
      ],
      mails.many.map((mail) => {
        const [recipient] = objects(mail, 'recipients')
        return [
          html`<a href="/mail/${mail.id}">${text(mail, 'to')}</a>`,
          badge(wordOf(text(mail, 'status'))),
          time(mail.attributes.delivered_at),
          time(mail.attributes.first_opened_at),
          recipient ? (recipient.waiting_reason ?? answerOf(recipient)) : '',
        ]
      }),
      'No recipients with this status.',
    )}
    ${pager(visit, mails)}`
}

/** The name of a file about a campaign, from its own name: "november-newsletter-bounced.csv". */
export function fileName(campaign: Thing<typeof campaigns>, part: string): string {
  const name = text(campaign, 'name')
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 60)
  return `${name === '' ? 'campaign' : name}-${part}.csv`
}

const TITLES =
  'email,name,status,sent_at,delivered_at,bounced_at,opened_at,clicked_at,unsubscribed_at,smtp_code,enhanced_code,response'

export const recipientsFile: Place = {
  path: '/campaigns/:id/recipients.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    const { one: campaign } = found(await visit.get(campaigns, `/campaigns/${id}`))
    const filter = filterOf(visit)
    return csv(visit, fileName(campaign, filter === '' ? 'recipients' : wordOf(filter)), {
      of: outboundEmails,
      path: `${pathOf(id, filter)}&include=contact`,
      titles: TITLES.split(','),
      row(mail, included) {
        const other = included.get(relatedId(mail, 'contact') ?? '')
        const contact = other && thingOf(contacts, other)
        const [recipient] = objects(mail, 'recipients')
        return [
          text(mail, 'to'),
          contact ? text(contact, 'name') : '',
          text(mail, 'status'),
          text(mail, 'sent_at'),
          text(mail, 'delivered_at'),
          text(mail, 'bounced_at'),
          text(mail, 'first_opened_at'),
          text(mail, 'first_clicked_at'),
          contact && text(contact, 'status') === 'unsubscribed' ? text(contact, 'updated_at') : '',
          ...(recipient ? replyParts(recipient) : ['', '', '']),
        ]
      },
    })
  },
}
