// The notice and the event when others report that encrypted connections fail, once a day for a domain (DV44).
import { DAY, iso } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { noticeOnce } from './notice-once.ts'
import { fixOf, tlsTroubleOf } from './tls-figures.ts'

/** Tells the owner, and the webhooks, once a day (DV44). */
export function tellOfTlsTrouble(tx: Tx, domain: Domain, when: number, now: number): void {
  const trouble = tlsTroubleOf(tx, domain, when)
  if (!trouble) return
  const { day, enforced, failures, results, sessions } = trouble
  const at = iso(day * DAY).slice(0, 10)
  const lines = Object.entries(results).map(([result, count]) => `${result}: ${count} sessions. ${fixOf(result)}`)
  const text = [
    `On ${at} ${failures} of ${sessions} connections that brought mail for ${domain.name} failed, as their senders report.`,
    enforced ? 'Its policy (MTA-STS or TLSA) lets no mail come without TLS: mail was delayed or did not come.' : '',
    ...lines,
    `All reports: /domains/${domain.name}/reports/tls`,
  ]
  const said = text.filter((each) => each !== '').join('\n\n')
  if (!noticeOnce(tx, domain, `Encrypted mail to ${domain.name} fails`, said, now)) return
  appendEvent(tx, {
    type: 'domain.report_trouble',
    user_key: domain.user_key,
    domain_key: domain.key,
    data: { day: at, sessions, failures, results },
    at: now,
  })
}
