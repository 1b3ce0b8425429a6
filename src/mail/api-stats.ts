// The statistics of one email, counted from its events.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { countEvents } from '../reputation/stats.ts'
import { define } from '../jsonapi/define.ts'

const count = (about: string) => field(z.int(), { about })
const tracked = (about: string) =>
  field(z.int().nullable(), { about: `${about} Null if the email was not tracked for it.` })

export const outboundEmailStats = define('outbound-email-stats', {
  table: 'outbound_emails',
  path: '/outbound-emails/:outboundEmail/stats',
  scope: 'emails',
  marketing: 'campaign_key is not null',
  about: 'Statistics of an email.',
  attributes: {
    deliveries: count('Recipients whose receiving server accepted the email.'),
    opens: tracked('Opens, without those by machines.'),
    clicks: tracked('Clicks on links, without those by machines.'),
    bounces: count('Recipients whose email was permanently rejected.'),
    complaints: count('Recipients who complained.'),
    unique_opens: tracked('Recipients who opened the email.'),
    unique_clicks: tracked('Recipients who clicked a link.'),
    machine_opens: tracked('Opens by machines, such as image proxies and scanners.'),
    machine_clicks: tracked('Clicks by machines, such as link scanners.'),
  },
  extend(rows, { reader }) {
    const counts = countEvents(
      reader,
      rows.map(({ key }) => key),
    )
    for (const row of rows) {
      Object.assign(row, counts.get(row.key))
      // A campaign's mail may have no delivery event. Its row holds the time of delivery.
      if (row['campaign_key'] !== null) row['deliveries'] = row['delivered_at'] === null ? 0 : 1
      if (row['opens_tracked'] === 0) Object.assign(row, { opens: null, unique_opens: null, machine_opens: null })
      if (row['clicks_tracked'] === 0) Object.assign(row, { clicks: null, unique_clicks: null, machine_clicks: null })
    }
  },
  actions: [{ kind: 'show', params: [], about: 'Get the statistics of an email.' }],
})
