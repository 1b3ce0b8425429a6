// The reputation of a sending domain, as the page of the domain shows it.
import { count, figures, percent, table, type Html } from '../webui/widgets.ts'
import { found } from '../webui/place.ts'
import { objects, type Visit } from '../webui/visit.ts'
import { domainReputation } from './api-domain.ts'

/** How the mail did, the newest day first; receivers judge a domain by these shares. */
export async function domainDays(visit: Visit, domainId: string): Promise<Html> {
  const { one } = found(await visit.get(domainReputation, `/domains/${domainId}/reputation`))
  const share = (part: number, whole: number): string => (whole === 0 ? '–' : percent(part / whole))
  return table(
    'Reputation',
    ['Day', ...figures('Delivered', 'Bounced', 'Complaints')],
    objects(one, 'series')
      .toReversed()
      .map(({ at, bounces, complaints, deliveries }) => [
        at.slice(0, 10),
        count(deliveries),
        `${count(bounces)} (${share(bounces, deliveries + bounces)})`,
        `${count(complaints)} (${share(complaints, deliveries)})`,
      ]),
    'No mail was sent from this domain in 30 days.',
  )
}
