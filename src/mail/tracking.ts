// Records opens and clicks (D38). Opens and clicks of machines (proxies that fetch for people, scanners that check an
// email before they deliver it) are marked as such. Neither the address nor the user agent of the visitor is kept.
import { DAY, SECOND, type Clock } from '../base/clock.ts'
import type { Store } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db, raw, statement } from '../store/query.ts'

export interface TrackedVisit {
  method: string
  userAgent: string | undefined
}

/** The row below the states: time, and the choices. */
const TOO_SOON = 2 * SECOND
/** Apple's mail proxy sends the bare user agent "Mozilla/5.0". */
const MACHINES =
  /^mozilla\/5\.0$|bot\b|crawl|spider|proxy|preview|scan|barracuda|proofpoint|mimecast|symantec|safelinks|headless|curl|wget|python|java\/|go-http/i

const known = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('deliveries as d')
    .innerJoin('outbound_emails as e', 'e.key', 'd.email_key')
    .select([
      'd.key',
      'd.status',
      'd.updated_at',
      'e.key as email_key',
      'e.user_key',
      'e.domain_key',
      'e.campaign_key',
      'e.contact_key',
      'e.first_opened_at',
      'e.first_clicked_at',
    ])
    .where('d.key', '=', arg.key),
)

/** Records that a contact reads email, at most once a day, because campaigns only need the last weeks. */
const seen = (of: { contact: number; now: number }) =>
  raw(
    `insert into readers (audience_key, contact_key, seen_at) select audience_key, key, ? from contacts where key = ?
     on conflict do update set seen_at = excluded.seen_at where excluded.seen_at - readers.seen_at >= ${DAY}`,
    [of.now, of.contact],
  )

/** Records an open or a click, unless the email was deleted. */
export function noteVisit(
  { store, clock }: { store: Store; clock: Clock },
  kind: 'opened' | 'clicked',
  deliveryKey: number,
  { method, userAgent = '' }: TrackedVisit,
  url?: string,
): Promise<void> {
  return store.write((tx) => {
    const delivery = tx.first(known({ key: deliveryKey }))
    if (!delivery) return
    const now = clock.now()
    const soon = delivery.status === 'delivered' && now - delivery.updated_at < TOO_SOON
    const machine = method === 'HEAD' || soon || MACHINES.test(userAgent)
    const column = kind === 'opened' ? 'first_opened_at' : 'first_clicked_at'
    if (!machine && delivery[column] === null)
      tx.run(
        db
          .updateTable('outbound_emails')
          .set({ [column]: now, updated_at: now })
          .where('key', '=', delivery.email_key),
      )
    if (!machine && delivery.contact_key !== null) tx.run(seen({ contact: delivery.contact_key, now }))
    appendEvent(tx, {
      type: kind === 'opened' ? 'email.opened' : 'email.clicked',
      user_key: delivery.user_key,
      domain_key: delivery.domain_key,
      email_key: delivery.email_key,
      campaign_key: delivery.campaign_key,
      data: { delivery: delivery.key, machine, ...(url === undefined ? {} : { url }) },
      at: now,
    })
  })
}
