// The recipients of a campaign as a file, each with the state of the mail.
import { isOneOf } from '../base/one-of.ts'
import { csv } from '../webui/csv.ts'
import { found, type Place } from '../webui/place.ts'
import { outboundEmails } from '../mail/api.ts'
import { contacts } from './api-audiences.ts'
import { campaigns } from './api.ts'
import { objects, relatedId, text, thingOf } from '../webui/visit.ts'

/** The states of a recipient's mail by which the page and the file can be filtered. */
export const STATUSES = ['queued', 'delivered', 'bounced', 'complained', 'suppressed', 'failed'] as const

export const download: Place = {
  path: '/campaigns/:id/recipients.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    found(await visit.get(campaigns, `/campaigns/${id}`))
    const status = visit.query('status')
    const path = `/outbound-emails?filter%5Bcampaign%5D=${id}${isOneOf(STATUSES, status) ? `&filter%5Bstatus%5D=${status}` : ''}&include=contact`
    return csv(visit, `recipients${isOneOf(STATUSES, status) ? `-${status}` : ''}.csv`, {
      of: outboundEmails,
      path,
      titles:
        'email,name,status,sent_at,delivered_at,bounced_at,opened_at,clicked_at,unsubscribed_at,smtp_code,response'.split(
          ',',
        ),
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
          String(recipient?.smtp_code ?? ''),
          recipient?.response ?? '',
        ]
      },
    })
  },
}
