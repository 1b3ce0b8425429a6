// How a subject stands, in a sentence, and what is not known of it (D162).
import { iso } from '../base/clock.ts'
import { moment, type Found } from './evidence.ts'
import { OF_CAMPAIGN, type WhySubject } from './subject.ts'

export interface NotKnown {
  question: string
  because: string
}

/** How a mail to one recipient stands. */
const STANDS: Readonly<Record<string, string>> = {
  queued: 'The mail waits.',
  active: 'The mail is being sent.',
  held: 'The mail is on hold.',
  delivered: 'The receiver took the mail.',
  complained: 'The receiver took the mail.',
  bounced: 'The receiver refused the mail.',
  failed: 'The mail was given up.',
  rejected: 'This server did not send the mail.',
  suppressed: 'The mail was not sent.',
}

const WORDS: Readonly<Record<string, string>> = { queued: 'waiting', active: 'being sent', held: 'on hold' }

function standing({ campaign, kind, mails, name }: WhySubject): string {
  if (kind !== 'mail') return kind === 'domain' ? `Mail from ${name}.` : `Mail to ${name}.`
  const deliveries = mails.flatMap((mail) => mail.deliveries)
  const [only, ...more] = deliveries
  const ofOne = campaign === undefined || name !== campaign.id
  if (only && more.length === 0 && ofOne) {
    const next =
      only.status === 'queued' && only.next_attempt_at !== null ? ` Next try ${moment(only.next_attempt_at)}.` : ''
    return `${STANDS[only.status] ?? `The mail is ${only.status}.`}${next}`
  }
  const statuses = Map.groupBy(deliveries, ({ status }) => status)
  const counts = [...statuses].map(([status, all]) => {
    const atLeast = !ofOne && all.length >= OF_CAMPAIGN ? 'at least ' : ''
    return `${atLeast}${all.length.toLocaleString('en')} ${WORDS[status] ?? status}`
  })
  if (ofOne) return `${counts.join(', ')} of ${deliveries.length} recipients.`
  if (campaign.started_at === null) return 'The campaign has not begun.'
  return counts.length === 0
    ? 'All mail of the campaign that was sent has arrived.'
    : `Mail of the campaign that did not simply arrive: ${counts.join(', ')}.`
}

export const summaryOf = (subject: WhySubject, says: string | undefined): string =>
  says === undefined
    ? `${standing(subject)} Nothing that is known here speaks of a trouble.`
    : `${standing(subject)} ${says}`

/** The questions that stay open, each with what would tell. */
export function unknownsOf(found: Found, causes: readonly string[]): NotKnown[] {
  const { subject } = found
  const statuses = new Set(subject.mails.flatMap(({ deliveries }) => deliveries.map(({ status }) => status)))
  const open: NotKnown[] = []
  if (statuses.has('delivered'))
    open.push({
      question: 'Does the reader see it, in which folder?',
      because:
        'The receiver said 250, and no receiver says more. A mailbox of your own there, or the reader, can tell.',
    })
  if (causes.includes('unknown_reply'))
    open.push({
      question: 'What do the receiver’s words mean?',
      because: 'No entry of the replies that are known fits them. The postmaster of the receiver can tell.',
    })
  if (causes.length > 0) return open
  if (statuses.has('queued') || statuses.has('active'))
    open.push({
      question: 'Why does it wait?',
      because: 'No attempt has ended yet, and nothing holds it: its turn comes. The next attempt will tell.',
    })
  if (subject.kind !== 'mail')
    open.push({
      question: 'Is there a trouble that nobody told of?',
      because: `Nothing since ${iso(subject.since).slice(0, 10)} speaks of one. The replies to the next mail will tell.`,
    })
  return open
}
