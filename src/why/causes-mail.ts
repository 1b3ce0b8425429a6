// Causes that concern the email itself and stopped or delayed it.
import { stopWords } from '../suppressions/stops.ts'
import { isAboutUs, REPLY_CLASSES, type ReplyClass } from '../smtp/reply-reason.ts'
import { quoted, type CauseEntry, type Found, type FoundWhyRow } from './evidence.ts'

const ofClass = (rows: readonly FoundWhyRow[], meant: ReplyClass): FoundWhyRow[] =>
  rows.filter(({ reason }) => reason?.class === meant)

/** Replies to this email: to attempts, requests to slow down, and replies to queued email. */
const saidTo = (found: Found): FoundWhyRow[] =>
  ['attempts', 'queue', 'waiting'].flatMap((source) => found.of(source, 'reply'))
const isOwn = ({ source }: FoundWhyRow): boolean => source !== 'replies'

/** The meaning of the newest reply. */
const says: CauseEntry['says'] = ([row]) => row.reason?.sentence ?? ''
const fix = ([row]: readonly [FoundWhyRow, ...FoundWhyRow[]]): string => row.reason?.fix ?? ''

/** A reply to this email. Equal replies to other emails are shown next to it. */
const saidToMail = (meant: ReplyClass): CauseEntry => ({
  cause: meant,
  rows(found) {
    const own = ofClass(saidTo(found), meant)
    // A reply that was counted once is the reply to this email.
    const often = ofClass(found.of('replies'), meant).filter(({ times = 1 }) => times > own.length)
    return own.length === 0 ? [] : [...own, ...often]
  },
  says: (rows) => rows.find(isOwn)?.reason?.sentence ?? '',
  fix: (rows) => rows.find(isOwn)?.reason?.fix ?? '',
})

/** A reply to many emails that this email did not get. */
const saidToMany = (meant: ReplyClass): CauseEntry => ({
  cause: meant,
  reach: 'receiver',
  confidence: ({ kind }) => (kind === 'domain' || !isAboutUs(meant) ? 'possible' : 'likely'),
  rows(found) {
    if (found.subject.kind !== 'receiver' && !isAboutUs(meant)) return []
    return ofClass(saidTo(found), meant).length > 0 ? [] : ofClass(found.of('replies'), meant)
  },
  says(rows, subject) {
    const times = rows.reduce((sum, row) => sum + (row.times ?? 1), 0)
    return `${says(rows, subject)} Recently seen ${times === 1 ? 'once' : `${times.toLocaleString('en')} times`}.`
  },
  fix,
})

/** Replies to senders that are unknown, or send more than the receiver expects. */
const OF_DISTRUST: ReadonlySet<ReplyClass | undefined> = new Set(['block', 'rate', 'reputation', 'policy', 'greylist'])

/** Whether the name of the sender matters: for one email, only if its receiver distrusts the sender. */
export const matters = (found: Found): boolean =>
  found.subject.kind !== 'email' || saidTo(found).some(({ reason }) => OF_DISTRUST.has(reason?.class))

/** A cause that concerns a domain concerns the subject itself if the subject is the domain. */
export const ofDomain: NonNullable<CauseEntry['reach']> = ({ kind }) => (kind === 'domain' ? 'subject' : 'server')

/** The enhanced code at the start of this server's own texts. */
const CODE = /^\d\.\d+\.\d+ /

const isQueued = ({ subject }: Found, fits: (delivery: { attempts: number }) => boolean): boolean =>
  subject.mails.some(({ deliveries }) => deliveries.some((each) => each.status === 'queued' && fits(each)))

export const MAIL_CAUSES: readonly CauseEntry[] = [
  ...REPLY_CLASSES.map(saidToMail),
  {
    cause: 'receiver_trouble',
    rows: (found) => saidTo(found).filter(({ reason }) => reason && reason.class === undefined),
    says,
    fix,
  },
  {
    cause: 'unknown_reply',
    rows: (found) => saidTo(found).filter(({ reason }) => reason === undefined),
    says: () => 'The receiving server did not accept it, with an unknown reply.',
    fix: 'Read the reply, or ask the postmaster of the receiving server.',
  },
  {
    cause: 'no_tls',
    says: ([row]) => `The connection to the receiving server did not meet the TLS requirements: ${quoted(row.text)}`,
    fix: 'Postrider retries automatically. If it continues, contact the postmaster of the receiving server, or turn off "Require" for the domain if you set it.',
  },
  {
    cause: 'dane',
    says: ([row]) => `The TLSA records (DANE) of the receiving server prevented delivery: ${quoted(row.text)}`,
    fix: 'Postrider retries automatically, but only delivers if the certificate matches. Tell the postmaster of the receiving server that its TLSA records and its certificate do not match, or that its DNS fails.',
  },
  {
    cause: 'no_way',
    says: ([row]) => `The email reached no receiving server. ${quoted(row.text).replace(CODE, '')}`,
    fix: 'Check the address. "postrider doctor" checks whether this server can reach other servers.',
  },
  {
    cause: 'rejected',
    says: ([row]) => `This server did not send it: ${quoted(row.text)}`,
    fix: 'Correct the problem, then resend the email.',
  },
  {
    cause: 'suppressed',
    rows: (found) => [...found.of('suppressions'), ...found.of('attempts', 'suppressed')],
    says(rows) {
      const row = rows.find(({ source }) => source === 'suppressions')
      return row
        ? `This address is suppressed: ${stopWords({ reason: row.fact })}.`
        : `The address was suppressed: ${quoted(rows[0].text)}`
    },
    fix: 'Remove the suppression only if the owner of the address wants your email, then resend it.',
  },
  {
    cause: 'complaint',
    rows: (found) => found.of('complaints', 'own'),
    says: () => 'The recipient marked it as spam. The address is suppressed.',
    fix: 'Send only to people who subscribed, with one-click unsubscribe.',
  },
  {
    cause: 'local_trouble',
    rows(found) {
      const waits = found.of('queue', 'for us')
      return waits.length === 0 ? [] : [...waits, ...found.of('local trouble')]
    },
    says(rows) {
      const trouble = rows.find(({ source }) => source === 'local trouble')
      return `This server cannot send it at the moment${trouble ? `: ${trouble.text}` : '.'}`
    },
    fix: '"postrider doctor" finds the cause (disk, memory, file descriptors). The email stays queued and is sent automatically afterwards.',
  },
  {
    cause: 'missing_key_record',
    says: () =>
      'The DKIM record of the sending domain was missing in DNS at the last check, so receiving servers could not verify the signature.',
    fix: 'Publish the DKIM record shown on the domain’s page, then check the domain. The email is sent automatically.',
  },
  {
    cause: 'hold',
    says: () => 'The operator of this server has put this recipient domain on hold.',
    fix: 'The operator can release it on the Queue page, or with "postrider queue release --lane DOMAIN".',
  },
  {
    cause: 'paused_campaign',
    says: () => 'The campaign is paused. Its emails stay queued until it resumes.',
    fix: 'Resume the campaign on its page.',
  },
  {
    cause: 'held',
    rows: (found) => (found.with('paused_campaign').length > 0 ? [] : found.of('queue', 'held')),
    says: () => 'The operator of this server has put the email on hold.',
    fix: 'The operator can release it on the email’s page.',
  },
  {
    cause: 'ended_campaign',
    says: ([row]) => `${row.text}.`,
    fix: 'Copy the campaign, correct the problem, and send the copy.',
  },
  {
    cause: 'paused_agent',
    says: () => 'The agent that sends it is paused. New emails from it are rejected.',
    fix: 'Resume the agent on the Agents page, or with "postrider agent resume".',
  },
  {
    cause: 'slow_agent',
    confidence: 'likely',
    rows: (found) => [
      ...(isQueued(found, ({ attempts }) => attempts === 0) ? found.of('agents', 'probation') : []),
      ...(isQueued(found, () => true) ? found.of('agents', 'damaged') : []),
    ],
    says: ([row]) => `The sending rate of its agent is limited. ${row.text}.`,
    fix: 'The rate rises automatically with good delivery results.',
  },
  {
    cause: 'pause_of_receiver',
    confidence: 'likely',
    says: () =>
      'Delivery to this recipient domain is paused for a short time: its server asked for less, refused the connection or did not respond.',
    fix: 'Delivery resumes automatically.',
  },
  {
    cause: 'limit_of_receiver',
    confidence: 'likely',
    says: () =>
      'Email to this recipient domain is sent more slowly, because its servers asked for less within the last hour.',
    fix: 'The limit rises with every accepted email, and ends an hour after the last such reply.',
  },
  {
    cause: 'domain_state',
    says: ([row]) => `${row.text} and cannot send.`,
    fix: 'The domain’s page lists the missing records. Only the operator can reactivate a suspended domain.',
  },
  ...REPLY_CLASSES.map(saidToMany),
]
