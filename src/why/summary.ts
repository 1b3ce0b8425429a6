// The status of a subject as a sentence, and the open questions (D162).
import { dateOf } from '../base/clock.ts'
import { moment, type Found } from './evidence.ts'
import { OF_CAMPAIGN, type WhySubject } from './subject.ts'

export interface NotKnown {
  question: string
  reason: string
}

/** The status of an email to one recipient, as a sentence. */
const STANDS: Readonly<Record<string, string>> = {
  queued: 'The email is queued.',
  active: 'The email is being sent.',
  held: 'The email is on hold.',
  delivered: 'The receiving server accepted the email.',
  complained: 'The receiving server accepted the email.',
  bounced: 'The receiving server rejected the email.',
  failed: 'Delivery failed, and Postrider stopped retrying.',
  rejected: 'This server did not send the email.',
  suppressed: 'The email was not sent.',
}

const WORDS: Readonly<Record<string, string>> = { active: 'being sent', held: 'on hold' }

function statusText({ campaign, kind, mails, name }: WhySubject): string {
  if (kind !== 'email') return kind === 'domain' ? `Email from ${name}.` : `Email to ${name}.`
  const deliveries = mails.flatMap((mail) => mail.deliveries)
  const [only, ...more] = deliveries
  const ofOne = campaign === undefined || name !== campaign.id
  if (only && more.length === 0 && ofOne) {
    const next =
      only.status === 'queued' && only.next_attempt_at !== null ? ` Next attempt ${moment(only.next_attempt_at)}.` : ''
    return `${STANDS[only.status] ?? `The email is ${only.status}.`}${next}`
  }
  const statuses = Map.groupBy(deliveries, ({ status }) => status)
  const counts = [...statuses].map(([status, all]) => {
    const atLeast = !ofOne && all.length >= OF_CAMPAIGN ? 'at least ' : ''
    return `${atLeast}${all.length.toLocaleString('en')} ${WORDS[status] ?? status}`
  })
  if (ofOne) return `${counts.join(', ')} of ${deliveries.length} recipients.`
  if (campaign.started_at === null) return 'The campaign has not started.'
  return counts.length === 0
    ? 'All emails of the campaign so far were delivered.'
    : `Campaign emails that were not delivered, or got complaints: ${counts.join(', ')}.`
}

export const summaryOf = (subject: WhySubject, says: string | undefined): string =>
  says === undefined ? `${statusText(subject)} No evidence of a problem was found.` : `${statusText(subject)} ${says}`

/** Returns the open questions, each with how to answer it. */
export function unknownsOf(found: Found, causes: readonly string[]): NotKnown[] {
  const { subject } = found
  const statuses = new Set(subject.mails.flatMap(({ deliveries }) => deliveries.map(({ status }) => status)))
  const open: NotKnown[] = []
  if (statuses.has('delivered'))
    open.push({
      question: 'In which folder of the mailbox is the email?',
      reason:
        'The receiving server accepted it (250) and does not report the folder. Check a mailbox of your own at this provider, or ask the recipient.',
    })
  if (causes.includes('unknown_reply'))
    open.push({
      question: 'What does the SMTP reply mean?',
      reason: 'The reply matches no known pattern. Ask the postmaster of the receiving server.',
    })
  if (causes.length > 0) return open
  if (statuses.has('queued') || statuses.has('active'))
    open.push({
      question: 'Why is it still queued?',
      reason: 'No attempt has finished yet, and the email is not held. The next attempt will show more.',
    })
  if (subject.kind !== 'email')
    open.push({
      question: 'Is there a problem without evidence?',
      reason: `There is no sign of one since ${dateOf(subject.since)}. The replies to the next emails will show more.`,
    })
  return open
}
