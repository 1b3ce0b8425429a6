// Notices about reports, at most one per domain, subject and day.
import { addNotice } from '../users/notices.ts'
import { counted } from '../base/text.ts'
import { dateOf, DAY } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import type { Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db } from '../store/query.ts'
import { fixOf, tlsTroubleOf } from './tls-figures.ts'

/** Adds a notice unless the domain had one with this subject within a day. Returns whether it was added. */
export function noticeOnce(tx: Tx, domain: Domain, subject: string, text: string, now: number): boolean {
  const sent = tx.first(
    db
      .selectFrom('notices')
      .select('key')
      .where('domain_key', '=', domain.key)
      .where('subject', '=', subject)
      .where('created_at', '>', now - DAY),
  )
  if (sent) return false
  addNotice(tx, { user_key: domain.user_key, domain_key: domain.key, subject, text }, now)
  return true
}

/** Notifies the owner and the webhooks if the reports of a day show a problem. */
export function notifyOfTlsTrouble(tx: Tx, domain: Domain, when: number, now: number): void {
  const trouble = tlsTroubleOf(tx, domain, when)
  if (!trouble) return
  const { day, enforced, failures, results, sessions } = trouble
  const at = dateOf(day * DAY)
  const lines = Object.entries(results).map(
    ([result, count]) => `${result}: ${counted(count, 'session')}. ${fixOf(result)}`,
  )
  const text = [
    `On ${at}, ${failures} of ${sessions} TLS connections that delivered email for ${domain.name} failed, according to the reports of the senders.`,
    enforced
      ? 'The policy of the domain (MTA-STS or DANE) requires TLS, so this email was delayed or not delivered.'
      : '',
    ...lines,
    `All TLS reports: /domains/${domain.name}/reports/tls`,
  ]
  const body = text.filter((each) => each !== '').join('\n\n')
  if (!noticeOnce(tx, domain, `TLS connections for ${domain.name} fail`, body, now)) return
  appendEvent(tx, {
    type: 'domain.tls_failures',
    user_key: domain.user_key,
    domain_key: domain.key,
    data: { day: at, sessions, failures, results },
    at: now,
  })
}
