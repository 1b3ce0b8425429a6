// Causes that are about the mail itself: what stopped it, or made it late.
import { isAboutUs, REPLY_CLASSES, type ReplyClass } from '../smtp/reply-reason.ts'
import type { CauseEntry, Found, FoundWhyRow } from './evidence.ts'

const ofClass = (rows: readonly FoundWhyRow[], meant: ReplyClass): FoundWhyRow[] =>
  rows.filter(({ reason }) => reason?.class === meant)

/** Replies to this mail: to attempts, and those that asked for less and cost none. */
const saidTo = (found: Found): FoundWhyRow[] => [...found.of('attempts', 'reply'), ...found.of('queue', 'reply')]
const isOwn = ({ source }: FoundWhyRow): boolean => source !== 'replies'

/** What the newest reply means. */
const says: CauseEntry['says'] = ([row]) => row.reason?.sentence ?? ''
const mend = ([row]: readonly [FoundWhyRow, ...FoundWhyRow[]]): string => row.reason?.mend ?? ''

/** What was said to this mail; what the receiver says to others is shown beside it. */
const saidToMail = (meant: ReplyClass): CauseEntry => ({
  cause: meant,
  reach: 'subject',
  strength: 'shown',
  rows(found) {
    const own = ofClass(saidTo(found), meant)
    // What was said once was said to this mail.
    const often = ofClass(found.of('replies'), meant).filter(({ times = 1 }) => times > own.length)
    return own.length === 0 ? [] : [...own, ...often]
  },
  says: (rows) => rows.find(isOwn)?.reason?.sentence ?? '',
  mend: (rows) => rows.find(isOwn)?.reason?.mend ?? '',
})

/** What the receiver says to many, and did not say to this mail. */
const saidToMany = (meant: ReplyClass): CauseEntry => ({
  cause: meant,
  reach: 'receiver',
  strength: ({ kind }) => (kind === 'domain' || !isAboutUs(meant) ? 'possible' : 'likely'),
  rows(found) {
    if (found.subject.kind !== 'receiver' && !isAboutUs(meant)) return []
    return ofClass(saidTo(found), meant).length > 0 ? [] : ofClass(found.of('replies'), meant)
  },
  says(rows, subject) {
    const times = rows.reduce((sum, row) => sum + (row.times ?? 1), 0)
    return `${says(rows, subject)} It was said ${times === 1 ? 'once' : `${times.toLocaleString('en')} times`} of late.`
  },
  mend,
})

/** What a receiver says to senders that it does not know, or that send more than it expects. */
const OF_DISTRUST: ReadonlySet<ReplyClass | undefined> = new Set(['block', 'rate', 'reputation', 'policy', 'greylist'])

/** Whether a receiver distrusts the sender: only then the age or the volume of its mail explains something. */
export const isDistrusted = (found: Found): boolean =>
  (found.subject.kind === 'mail' ? saidTo(found) : found.of('replies')).some(({ reason }) =>
    OF_DISTRUST.has(reason?.class),
  )

/** Whether the name of the sender has a part in it: of one mail, only where its receiver distrusts it. */
export const matters = (found: Found): boolean => found.subject.kind !== 'mail' || isDistrusted(found)

/** What is about a domain is about the subject itself when the domain is asked about. */
export const ofDomain: CauseEntry['reach'] = ({ kind }) => (kind === 'domain' ? 'subject' : 'server')

/** The words of a row behind the address and its outcome. */
const quoted = ({ text }: FoundWhyRow): string => text.slice(text.indexOf(': ') + 2)

/** The enhanced code that this server's own words begin with. */
const CODE = /^\d\.\d+\.\d+ /

const isQueued = ({ subject }: Found, fits: (delivery: { attempts: number }) => boolean): boolean =>
  subject.mails.some(({ deliveries }) => deliveries.some((each) => each.status === 'queued' && fits(each)))

const SUPPRESSED: Readonly<Record<string, string>> = {
  unsubscribe: 'it unsubscribed',
  hard_bounce: 'a receiver said that it does not exist',
  complaint: 'its owner called mail of yours spam',
  manual: 'somebody entered it',
  list_import: 'it was imported so',
  soft_bounce: 'its mailbox refused several mails',
}

export const MAIL_CAUSES: readonly CauseEntry[] = [
  ...REPLY_CLASSES.map(saidToMail),
  {
    cause: 'receiver_trouble',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => saidTo(found).filter(({ reason }) => reason && reason.class === undefined),
    says,
    mend,
  },
  {
    cause: 'unknown_reply',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => saidTo(found).filter(({ reason }) => reason === undefined),
    says: () => 'The receiver did not take it, in words whose meaning is not known here.',
    mend: 'Read its words; its postmaster can say more.',
  },
  {
    cause: 'no_tls',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => [...found.of('tls', 'no tls'), ...found.of('waiting', 'no tls')],
    says: ([row]) => `The way to the receiver was not encrypted and proven as it has to be: ${quoted(row)}`,
    mend: 'It is tried again by itself. If it goes on, tell the receiver; or take "Require" off the domain, if you set it.',
  },
  {
    cause: 'dane',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => [...found.of('tls', 'dane'), ...found.of('waiting', 'dane')],
    says: ([row]) => `The receiver’s TLSA records (DANE) did not let the mail go: ${quoted(row)}`,
    mend: 'Nothing is sent without the proof that these records demand; it is tried again by itself. Tell the postmaster of the receiver: its records and its certificate, or its DNS, do not fit.',
  },
  {
    cause: 'no_way',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => [...found.of('attempts', 'own'), ...found.of('waiting', 'own')],
    says: ([row]) => `The mail reached no server of the receiver. ${quoted(row).replace(CODE, '')}`,
    mend: 'Check the address. "postrider doctor" tells whether this server reaches others.',
  },
  {
    cause: 'rejected',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('attempts', 'rejected'),
    says: ([row]) => `This server did not send it: ${quoted(row)}`,
    mend: 'Correct what is named, and send it again.',
  },
  {
    cause: 'suppressed',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => [...found.of('suppressions'), ...found.of('attempts', 'suppressed')],
    says(rows) {
      const row = rows.find(({ source }) => source === 'suppressions')
      return row
        ? `Nothing is sent to this address: ${SUPPRESSED[row.fact] ?? row.fact}.`
        : `Nothing was sent to this address: ${quoted(rows[0])}`
    },
    mend: 'Take the address off the suppressions only when its owner wants your mail; then send it again.',
  },
  {
    cause: 'complaint',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('complaints', 'own'),
    says: () => 'Its reader called it spam; nothing more is sent to this address.',
    mend: 'Write to those alone who asked, and let them leave by one click.',
  },
  {
    cause: 'local_trouble',
    reach: 'subject',
    strength: 'shown',
    rows(found) {
      const waits = found.of('queue', 'for us')
      return waits.length === 0 ? [] : [...waits, ...found.of('local trouble')]
    },
    says(rows) {
      const trouble = rows.find(({ source }) => source === 'local trouble')
      return `This server cannot send it at the moment${trouble ? `: ${trouble.text}` : '.'}`
    },
    mend: '"postrider doctor" names what lacks (disk, memory, descriptors). The mail goes out by itself afterwards; nothing is lost.',
  },
  {
    cause: 'missing_key_record',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('queue', 'no record'),
    says: () =>
      'The DKIM record of the sending domain was not seen in DNS at the last check: receivers could not prove the mail.',
    mend: 'Publish the DKIM record that the page of the domain shows, then check the domain; the mail goes out by itself.',
  },
  {
    cause: 'hold',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('lanes', 'hold'),
    says: () => 'The operator of this server holds all mail for this domain.',
    mend: 'The operator releases it on the page Queue, or by "postrider queue release DOMAIN".',
  },
  {
    cause: 'paused_campaign',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('campaign', 'paused'),
    says: () => 'The campaign is paused: its mail waits until it goes on.',
    mend: 'Resume the campaign on its page.',
  },
  {
    cause: 'held',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => (found.of('campaign', 'paused').length > 0 ? [] : found.of('queue', 'held')),
    says: () => 'The operator of this server holds the mail.',
    mend: 'The operator releases it on the page of the mail.',
  },
  {
    cause: 'ended_campaign',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('campaign', 'cancelled', 'failed'),
    says: ([row]) => `${row.text}.`,
    mend: 'Copy the campaign, correct what is named, and send the copy.',
  },
  {
    cause: 'paused_agent',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('agents', 'paused'),
    says: () => 'The agent that sends it is paused: new mail of it is refused.',
    mend: 'Resume the agent on the page Agents, or by "postrider agent resume".',
  },
  {
    cause: 'slow_agent',
    reach: 'subject',
    strength: 'likely',
    rows: (found) => [
      ...(isQueued(found, ({ attempts }) => attempts === 0) ? found.of('agents', 'probation') : []),
      ...(isQueued(found, () => true) ? found.of('agents', 'damaged') : []),
    ],
    says: ([row]) => `Its turn comes at the pace of its agent. ${row.text}.`,
    mend: 'The pace rises by itself with good mail.',
  },
  {
    cause: 'pause_of_receiver',
    reach: 'subject',
    strength: 'likely',
    rows: (found) => found.of('lanes', 'pause'),
    says: () =>
      'All mail for this domain pauses for a little: the receiver asked for less, refused the connection or did not answer.',
    mend: 'It goes on by itself.',
  },
  {
    cause: 'domain_state',
    reach: 'subject',
    strength: 'shown',
    rows: (found) => found.of('domain'),
    says: ([row]) => `${row.text}: nothing is sent from it.`,
    mend: 'The page of the domain says what lacks; a suspended one is the operator’s to allow.',
  },
  ...REPLY_CLASSES.map(saidToMany),
]
