// The recipients of a campaign as a file, each with the state of the mail.
import { isOneOf } from '../base/one-of.ts'
import { csv } from '../webui/csv.ts'
import { found, type Place } from '../webui/place.ts'
import { objects, text } from '../webui/visit.ts'

/** The states of a recipient's mail by which the page and the file can be filtered. */
export const STATUSES = ['queued', 'delivered', 'bounced', 'complained', 'suppressed', 'failed'] as const

export const download: Place = {
  path: '/campaigns/:id/recipients.csv',
  async show(visit) {
    const id = visit.context.req.param('id')!
    found(await visit.get(`/campaigns/${id}`))
    const status = visit.query('status')
    const path = `/outbound-emails?filter%5Bcampaign%5D=${id}${isOneOf(STATUSES, status) ? `&filter%5Bstatus%5D=${status}` : ''}&include=contact`
    const titles =
      'email,name,status,sent_at,delivered_at,bounced_at,opened_at,clicked_at,unsubscribed_at,smtp_code,response'.split(
        ',',
      )
    return csv(
      visit,
      `recipients${isOneOf(STATUSES, status) ? `-${status}` : ''}.csv`,
      titles,
      path,
      (mail, included) => {
        const contact = included.get(mail.relationships?.['contact']?.data?.id ?? '')
        const [recipient] = objects<{ response: string | null; smtp_code: number | null }>(mail, 'recipients')
        const left =
          contact && text(contact, 'status') === 'unsubscribed'
            ? text(contact, 'status_at') || text(contact, 'updated_at')
            : ''
        return [
          text(mail, 'to'),
          contact ? text(contact, 'name') : '',
          text(mail, 'status'),
          text(mail, 'sent_at'),
          text(mail, 'delivered_at'),
          text(mail, 'bounced_at'),
          text(mail, 'first_opened_at'),
          text(mail, 'first_clicked_at'),
          left,
          String(recipient?.smtp_code ?? ''),
          recipient?.response ?? '',
        ]
      },
    )
  },
}
