// Causes that concern more than one email: the contact lists, the domain, this server.
import { percent } from '../base/text.ts'
import { RATE_LIMITS } from '../reputation/findings.ts'
import { matters, ofDomain } from './causes-mail.ts'
import type { CauseEntry } from './evidence.ts'
import type { WhySubject } from './subject.ts'

/** Whether the email has its final status: a present problem of this server is not the cause. */
const isPast = ({ kind, mails }: WhySubject): boolean =>
  kind === 'email' &&
  mails.every(({ deliveries }) => deliveries.every(({ status }) => status !== 'queued' && status !== 'active'))

export const SENDER_CAUSES: readonly CauseEntry[] = [
  {
    cause: 'bad_list',
    reach: 'receiver',
    confidence: 'likely',
    says: () => 'Many addresses of this list do not exist. Mailbox providers treat that as a sign of spam.',
    fix: 'Find out where these addresses came from, and send only to confirmed subscribers.',
  },
  {
    cause: 'missing_records',
    reach: ofDomain,
    confidence: ({ kind }) => (kind === 'domain' ? 'confirmed' : 'likely'),
    says: () =>
      'DNS records of the sending domain are missing or do not match, so receiving servers cannot authenticate the sender.',
    fix: 'Publish the records shown on the domain’s page, then check them there.',
  },
  {
    cause: 'receives_nothing',
    rows: (found) => found.of('inboxes'),
    says: ([{ fact }]) =>
      fact === 'suspended'
        ? 'The domain is suspended, so messages to its inboxes are rejected permanently.'
        : 'The domain is not verified, so messages to its inboxes are deferred (451). Senders retry later.',
    fix: 'Publish the required records shown on the domain’s page, then check them there. The domain receives once it is verified. Only the operator can reactivate a suspended domain.',
  },
  {
    cause: 'many_complaints',
    reach: ofDomain,
    confidence: 'likely',
    rows: (found) => (matters(found) ? found.of('complaints', 'share') : []),
    says: () => `At least ${percent(RATE_LIMITS.complaint_rate[0])} of recipients mark the email as spam.`,
    fix: 'Send only to people who subscribed, less often, and with one-click unsubscribe.',
  },
  {
    cause: 'reputation_warning',
    reach: ofDomain,
    confidence: 'likely',
    rows: (found) => (matters(found) ? found.of('reputation') : []),
    says: () => 'Too many emails of the domain bounce or get complaints.',
    fix: 'Pause campaigns, remove inactive addresses, and restart with contacts who open your emails.',
  },
  {
    cause: 'server_trouble',
    reach: 'server',
    confidence: 'possible',
    rows: (found) => (isPast(found.subject) || found.of('queue', 'for us').length > 0 ? [] : found.of('local trouble')),
    says: ([row]) => `This server has a problem: ${row.text}`,
    fix: '"postrider doctor" finds the cause.',
  },
]
