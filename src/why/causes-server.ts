// Causes with evidence from warm-up, blocklists, reverse DNS and external reports.
import { ALARM_EFFECTS } from '../reputation/alarm-words.ts'
import type { ReceiverAlarmKind } from '../store/states/receiver-alarm.ts'
import { matters, ofDomain } from './causes-mail.ts'
import type { CauseEntry, Found } from './evidence.ts'
import type { WhySubject } from './subject.ts'

const sureOfDomain: NonNullable<CauseEntry['confidence']> = ({ kind }) => (kind === 'domain' ? 'confirmed' : 'likely')

/** Whether all email of the subject was delivered. */
const isTaken = ({ kind, mails }: WhySubject): boolean =>
  kind === 'email' && mails.every(({ deliveries }) => deliveries.every(({ status }) => status === 'delivered'))

/** Whether a receiving server replied that it cannot authenticate the sender. */
const isUnproven = (found: Found): boolean =>
  found.of('attempts', 'reply').some(({ reason }) => reason?.class === 'authentication')

const waits = (found: Found): boolean => found.of('warm-up', 'waits').length > 0

export const SERVER_CAUSES: readonly CauseEntry[] = [
  {
    cause: 'queue_held',
    reach: 'server',
    rows: (found) => (isTaken(found.subject) ? [] : found.of('local trouble', 'machine')),
    says: () => 'This server holds its queue, because another machine used this data last and may still be sending.',
    fix: 'The operator must turn off the other server and run "postrider adopt". Then the queue is sent automatically.',
  },
  {
    cause: 'warm_up',
    rows: (found) => (waits(found) ? found.of('warm-up', 'waits', 'full') : []),
    says: () => 'The daily warm-up limit for the provider is reached.',
    fix: (_, { operator }) =>
      operator
        ? 'It is sent automatically, and the limit rises after each good day. Urgent email can use a relay ("warmup.route"). To change the limit, use the Warm-up page or "postrider warmup set RECEIVER --daily-limit N".'
        : 'It is sent automatically, and the limit rises after each good day. The operator of this server can raise it.',
  },
  {
    cause: 'warm_up_setback',
    reach: 'receiver',
    confidence: 'likely',
    rows: (found) => (waits(found) || matters(found) ? found.of('warm-up', 'reduced', 'holding') : []),
    says: ([row]) =>
      row.fact === 'reduced'
        ? 'The warm-up limit was reduced by one step: a provider blocked this server, or rejected too much of its email.'
        : 'The warm-up limit does not rise: a provider deferred or rejected more email than on a good day.',
    fix: 'Send less unsolicited email, and start with contacts who open your emails. After a good day the limit rises again.',
  },
  {
    cause: 'relay',
    confidence: 'likely',
    says: () => 'It is sent through the warm-up relay, which has not accepted it yet.',
    fix: 'Postrider retries automatically. The operator can check the relay with "postrider doctor".',
  },
  {
    cause: 'receiver_alarm',
    reach: 'receiver',
    confidence: 'likely',
    rows: (found) => (isTaken(found.subject) ? [] : found.of('alarms')),
    says: ([row]) => ALARM_EFFECTS[row.fact as ReceiverAlarmKind],
    fix: 'The provider’s page shows its replies with their meanings. The alarm closes automatically after a better day.',
  },
  {
    cause: 'listed',
    reach: 'server',
    confidence: 'likely',
    rows: (found) => (matters(found) ? found.of('watch', 'listed') : []),
    says: () => 'An IP address of this server is on a blocklist that many receiving servers use.',
    fix: 'Find and stop the email that caused the listing, then request removal. The Blocklists page links to the list.',
  },
  {
    cause: 'listed_domain',
    reach: ofDomain,
    confidence: sureOfDomain,
    rows: (found) => (matters(found) ? found.of('watch', 'domain listed') : []),
    says: () => 'The sending domain, or the host of its links, is on a blocklist.',
    fix: 'Find and fix the cause, such as a list of unconfirmed addresses, then request removal. The Blocklists page links to the list.',
  },
  {
    cause: 'wrong_reverse',
    reach: 'server',
    confidence: 'likely',
    rows: (found) => (matters(found) ? found.of('watch', 'wrong') : []),
    says: () => 'Reverse DNS of an IP address of this server is wrong. Many receiving servers reject such email.',
    fix: 'Ask your hosting provider to set the PTR record to the EHLO name, which must resolve to this IP address.',
  },
  {
    cause: 'failing_dmarc',
    reach: ofDomain,
    confidence: sureOfDomain,
    rows: (found) => (found.subject.kind === 'domain' || isUnproven(found) ? found.of('DMARC reports') : []),
    says: () => 'DMARC reports show email of the domain from your own sources that passes neither DKIM nor SPF.',
    fix: 'Set up DKIM for the domain at that source, or add it to SPF. The domain’s Reports page lists every source.',
  },
]
