// The figures of one mail, counted from its events.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { countEvents } from '../reputation/stats.ts'
import { define } from '../jsonapi/define.ts'

const count = (about: string) => field(z.int(), { about })
const tracked = (about: string) =>
  field(z.int().nullable(), { about: `${about} Null when the mail was not tracked for it.` })

export const outboundEmailStats = define('outbound-email-stats', {
  table: 'outbound_emails',
  about: 'What became of one mail, in figures.',
  attributes: {
    deliveries: count('Recipients whose exchanger accepted it.'),
    opens: tracked('Times it was opened by people.'),
    clicks: tracked('Times a link was followed by people.'),
    bounces: count('Recipients that refused it for good.'),
    complaints: count('Recipients that complained.'),
    unique_opens: tracked('Recipients that opened it.'),
    unique_clicks: tracked('Recipients that followed a link.'),
    machine_opens: tracked('Times a machine fetched the pixel.'),
    machine_clicks: tracked('Times a machine followed a link.'),
  },
  extend(rows, { reader }) {
    const counts = countEvents(
      reader,
      rows.map(({ key }) => key),
    )
    for (const row of rows) {
      Object.assign(row, counts.get(row.key))
      // A campaign's mail may have no delivery event; its row holds the time of delivery.
      if (row['campaign_key'] !== null) row['deliveries'] = row['delivered_at'] === null ? 0 : 1
      if (row['opens_tracked'] === 0) Object.assign(row, { opens: null, unique_opens: null, machine_opens: null })
      if (row['clicks_tracked'] === 0) Object.assign(row, { clicks: null, unique_clicks: null, machine_clicks: null })
    }
  },
  actions: [
    {
      kind: 'show',
      path: '/outbound-emails/:outboundEmail/stats',
      scope: 'emails:read',
      params: [],
      about: 'The figures of a mail.',
    },
  ],
})
