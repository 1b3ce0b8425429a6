// The reputation of a sending domain, as the page of the domain shows it.
import { html } from 'hono/html'
import { barChart, dayWriter } from '../views/html/chart.ts'
import { inUtc } from '../views/html/period.ts'
import { count, figures, percent, table, type Html, type TableColumn } from '../views/html/widgets.ts'
import { found } from '../views/html/place.ts'
import { objects, type Visit } from '../views/html/visit.ts'
import { domainReputation } from './api-domain.ts'

const wider = (column: TableColumn): TableColumn => ({ ...column, width: 15 })

/** The results of a domain's email, newest day first. Receivers evaluate a domain by these rates. */
export async function domainDays(visit: Visit, domainId: string): Promise<Html> {
  const path = `/domains/${domainId}/reputation?filter%5Bzone%5D=${encodeURIComponent(visit.zone)}`
  const { one } = found(await visit.get(domainReputation, path))
  const days = objects(one, 'series')
  const active = days.filter(({ bounces, complaints, deliveries }) => deliveries + bounces + complaints > 0)
  if (active.length === 0)
    return html`<div class="empty">No emails were sent from this domain in the last 30 days.</div>`
  const share = (part: number, whole: number): string => (whole === 0 ? '–' : percent(part / whole))
  const day = dayWriter(visit.place)
  const utc = inUtc(visit, '30d')
  return html`${barChart({
    title: `Emails per day${utc}`,
    place: visit.place,
    at: days.map(({ at }) => Date.parse(at)),
    series: [
      { name: 'Delivered', tone: 'good', values: days.map(({ deliveries }) => deliveries) },
      { name: 'Bounced', tone: 'bad', values: days.map(({ bounces }) => bounces) },
    ],
  })}
  ${table(
    'Reputation',
    [
      { title: `Day${utc}`, kind: 'time' },
      ...figures('Delivered', 'Bounced', 'Bounce rate', 'Complaints', 'Complaint rate').map(wider),
    ],
    active
      .toReversed()
      .map(({ at, bounces, complaints, deliveries }) => [
        day(at),
        count(deliveries),
        count(bounces),
        share(bounces, deliveries + bounces),
        count(complaints),
        share(complaints, deliveries),
      ]),
    '',
  )}`
}
