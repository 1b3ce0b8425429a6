// Records a processed message in one transaction: a row in each inbox, the effects of a report on its mail, an
// unsubscription. A message without a row is deleted.
import type { Config } from '../base/config.ts'
import { counters } from '../base/counters.ts'
import { must } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { afterLast } from '../base/text.ts'
import { addNotice, countInNotice } from '../users/notices.ts'
import { unsubscribe } from '../campaigns/unsubscribe.ts'
import { withoutForgedField } from '../message/authentication.ts'
import { mailboxesOf } from '../message/mailboxes.ts'
import { mailText, partOf, textOf } from '../message/part-text.ts'
import type { Report } from '../message/report.ts'
import type { ReceivedReport, ReportReceiver } from '../parts/received.ts'
import { settleReturned, recipientMeant, settleComplaint } from '../delivery/results/returned.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import type { Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db, raw, statement } from '../store/query.ts'
import type { NewRow } from '../store/schema/tables.ts'
import type { InboundStatus } from '../store/states/inbound-email.ts'
import { endWait } from './claims.ts'
import type { InboundMessage } from './queue.ts'
import type { InboundRecipient } from './recipients.ts'
import type { Judgement, Reading, Verdicts } from './reader.ts'
import { nameOfVirus } from './scan.ts'
import { readReturnPathToken, readUnsubscribeLocalPart } from '../message/return-path.ts'
import { countUnmatched, receiverOf } from '../reputation/receivers.ts'

/** The facts about a message after it was read and evaluated. `aggregate`: its contents as an aggregate report. */
export type JudgedReading = Reading & { judgement: Judgement | null; aggregate?: unknown }

export interface RecordDeps {
  config: Pick<Config, 'hostname'>
  reports: Pick<ReportReceiver, 'received'>
  keyring: Keyring
  log: Log
  gate: Pick<DeliveryGate, 'returned'>
}

const NO_VERDICTS: Verdicts = { spf: 'none', dkim: 'none', dmarc: 'none', arc: 'none' }
/** The results if the evaluation failed. */
const UNKNOWN: Verdicts = { spf: 'temperror', dkim: 'temperror', dmarc: 'temperror', arc: 'none' }
const MAX_NOTICE = 8 * 1024

const liveInbox = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('inboxes')
    .select(['key', 'user_key', 'domain_key'])
    .where('key', '=', arg.key)
    .where('deleted_at', 'is', null),
)

const insertBody = statement<NewRow<'inbound_bodies'>>()((arg) =>
  db.insertInto('inbound_bodies').values({
    message_key: arg.message_key,
    headers: arg.headers,
    text: arg.text,
    html: arg.html,
    attachments: arg.attachments,
    text_part: arg.text_part,
    html_part: arg.html_part,
    authentication: arg.authentication,
  }),
)

const insertEmail = statement<NewRow<'inbound_emails'> & { key?: never }>()((arg) =>
  db.insertInto('inbound_emails').values({
    id: arg.id,
    user_key: arg.user_key,
    domain_key: arg.domain_key,
    inbox_key: arg.inbox_key,
    message_key: arg.message_key,
    status: arg.status,
    reason: arg.reason,
    sender: arg.sender,
    recipients: arg.recipients,
    subject: arg.subject,
    from: arg.from,
    to: arg.to,
    cc: arg.cc,
    reply_to: arg.reply_to,
    message_id: arg.message_id,
    in_reply_to: arg.in_reply_to,
    references: arg.references,
    authentication: arg.authentication,
    seen: arg.seen,
    size: arg.size,
    received_at: arg.received_at,
    created_at: arg.created_at,
    updated_at: arg.updated_at,
  }),
)

/**
 * Records a processed message, once: a commit that failed with an error may be on the disk nevertheless. Returns the
 * name of its file in the spool if no row refers to it any more.
 */
export function record(
  tx: Tx,
  deps: RecordDeps,
  message: InboundMessage,
  reading: JudgedReading,
  now: number,
): string | null {
  if (tx.run(endWait({ key: message.key })).changes > 0) return recordWaiting(tx, deps, message, reading, now)
  return tx.first(raw('select 1 from inbound_messages where key = ?', [message.key])) ? null : message.spool
}

function recordWaiting(
  tx: Tx,
  deps: RecordDeps,
  message: InboundMessage,
  reading: JudgedReading,
  now: number,
): string | null {
  const recipients = JSON.parse(message.recipients) as InboundRecipient[]
  const report = reading.kind === 'read' ? reading.report : undefined
  const inboxes = new Map<number, string[]>()
  let kept = false
  for (const recipient of recipients) {
    if (recipient.kind === 'inbox')
      for (const inbox of recipient.inboxes) inboxes.set(inbox, [...(inboxes.get(inbox) ?? []), recipient.address])
    else if (message.cut === 1) continue
    else if (recipient.kind === 'reports')
      kept = deps.reports.received(tx, reportMail(recipient, message, reading), now) || kept
    else if (isFeedback(report)) continue
    else if (recipient.kind === 'return') {
      count(tx, 'report')
      applyReport(tx, deps, recipient.delivery, report, now)
    } else if (recipient.kind === 'role') {
      count(tx, 'notice')
      notifyOwner(tx, recipient, message, reading, now)
    } else {
      count(tx, 'unsubscribe')
      // A message with the null sender is automatic.
      if (message.mail_from !== '') applyUnsubscription(tx, recipient.delivery, report, now)
    }
  }
  // Feedback loops of mailbox providers send complaints to ordinary addresses. A token in the copy of our email
  // identifies it.
  if (isFeedback(report)) {
    count(tx, 'report')
    applyComplaint(tx, deps, complaintOf(message, recipients, report, reading), now)
  }
  const stored =
    [...inboxes].filter(([key, addresses]) => deliverTo(tx, { key, addresses }, message, reading, now)).length > 0
  if (!stored && !kept) {
    tx.run(db.deleteFrom('inbound_messages').where('key', '=', message.key))
    return message.spool
  }
  if (!stored) return null
  const withheld = message.virus !== null
  const body = reading.kind === 'read' && !withheld ? reading.body : null
  tx.run(
    insertBody({
      message_key: message.key,
      headers: JSON.stringify(withoutForgedField(reading.header?.headers ?? {}, deps.config.hostname)),
      text: textOf(body?.text ?? null),
      html: textOf(body?.html ?? null),
      text_part: partOf(body?.text ?? null),
      html_part: partOf(body?.html ?? null),
      attachments: JSON.stringify(body?.attachments ?? []),
      authentication: reading.judgement?.field ?? null,
    }),
  )
  return null
}

/** The fields of a message that the receipt of a report needs. */
const reportMail = (
  { about, domain }: Extract<InboundRecipient, { kind: 'reports' }>,
  message: InboundMessage,
  { aggregate, judgement }: JudgedReading,
): ReceivedReport => ({
  messageKey: message.key,
  domain,
  about,
  reading: aggregate,
  author: judgement?.author ?? null,
  dmarcPassed: judgement?.verdicts.dmarc === 'pass',
  signed: judgement?.signed === true,
  infected: message.virus !== null,
})

/** Counts the message, after the commit. */
const count = (tx: Tx, outcome: string): void => tx.afterCommit(() => counters.inbound.add({ outcome }))

/** Writes the row of one inbox and its event. Returns false if the inbox was deleted in the meantime. */
function deliverTo(
  tx: Tx,
  to: { key: number; addresses: string[] },
  message: InboundMessage,
  reading: JudgedReading,
  now: number,
): boolean {
  const inbox = tx.fact(liveInbox({ key: to.key }))
  if (!inbox) return false
  const { header } = reading
  const { status, reason } = statusOf(message, reading)
  count(tx, status)
  const { key } = tx.run(
    insertEmail({
      id: newId(message.received_at),
      user_key: inbox.user_key,
      domain_key: inbox.domain_key,
      inbox_key: inbox.key,
      message_key: message.key,
      status,
      reason,
      sender: message.mail_from,
      recipients: JSON.stringify([...new Set(to.addresses)]),
      subject: header?.subject ?? null,
      from: header?.from ?? null,
      to: JSON.stringify(header?.to ?? []),
      cc: JSON.stringify(header?.cc ?? []),
      reply_to: JSON.stringify(header?.reply_to ?? []),
      message_id: header?.message_id ?? null,
      in_reply_to: header?.in_reply_to ?? null,
      references: JSON.stringify(header?.references ?? []),
      authentication: JSON.stringify(reading.judgement?.verdicts ?? (message.cut === 1 ? NO_VERDICTS : UNKNOWN)),
      seen: 0,
      size: message.size,
      received_at: message.received_at,
      created_at: now,
      updated_at: now,
    }),
  )
  // An oversized message was rejected, so there is no event.
  if (status !== 'oversized')
    appendEvent(tx, {
      type: 'inbound_email.received',
      user_key: inbox.user_key,
      domain_key: inbox.domain_key,
      data: { inbound: key },
      at: now,
    })
  return true
}

function statusOf(
  { cut, virus }: InboundMessage,
  reading: JudgedReading,
): { status: InboundStatus; reason: string | null } {
  if (cut === 1) return { status: 'oversized', reason: 'It is larger than this server accepts.' }
  if (virus !== null) return { status: 'virus_detected', reason: nameOfVirus(virus) }
  return reading.kind === 'rejected'
    ? { status: 'parse_rejected', reason: reading.reason }
    : { status: 'received', reason: null }
}

const isFeedback = (report: Report | undefined): report is ComplaintReport =>
  report?.kind === 'complaint' || report?.kind === 'opt-out'

function complaintOf(
  { client, mail_from }: InboundMessage,
  recipients: readonly InboundRecipient[],
  report: ComplaintReport,
  { header, judgement }: JudgedReading,
): Complaint {
  return {
    report,
    returned: recipients.flatMap((each) => (each.kind === 'return' ? each.delivery : [])),
    proven: judgement?.proven === true,
    domain: recipients.find((each) => each.kind === 'role')?.domain ?? null,
    from: afterLast(mailboxesOf(header?.from ?? mail_from)[0]?.address ?? '', '@').toLowerCase(),
    client,
  }
}

/** Handles mail to a return path. Automatic answers and notifications have no effect. */
function applyReport(tx: Tx, { gate, log }: RecordDeps, token: number, report: Report | undefined, now: number): void {
  const bounced =
    report?.kind === 'bounce'
      ? report.recipients
          .map((returned) => settleReturned(tx, token, returned, report.spared, { gate, now }))
          .filter((address) => address !== undefined)
      : []
  log.info('feedback_received', { kind: report?.kind ?? 'none', bounced: bounced.join(',') })
}

/** Handles mail to an unsubscribe address from a person or their email client. Ignores automatic replies. */
function applyUnsubscription(tx: Tx, token: number, report: Report | undefined, now: number): void {
  if (report) return
  const delivery = tx.first(db.selectFrom('deliveries').selectAll().where('key', '=', token))
  if (delivery) unsubscribe(tx, delivery, 'unsubscribe_mail', now)
}

/** Mail to postmaster or abuse without an inbox becomes a notice of the domain's owner. */
function notifyOwner(
  tx: Tx,
  { address, domain: domainKey }: Extract<InboundRecipient, { kind: 'role' }>,
  message: InboundMessage,
  reading: JudgedReading,
  now: number,
): void {
  const domain = tx.first(
    raw<{ key: number; user_key: number }>(
      `select key, user_key from domains where ${domainKey === null ? 'deleted_at is null' : 'key = ?'} order by key limit 1`,
      domainKey === null ? [] : [domainKey],
    ),
  )
  if (!domain) return
  const { header } = reading
  const body = message.virus === null && reading.kind === 'read' ? reading.body : null
  const bytes = (): Buffer => Buffer.from(must(message.content, 'The content of a message'))
  const text = mailText(body?.text ?? body?.html ?? null, bytes) ?? ''
  addNotice(
    tx,
    {
      user_key: domain.user_key,
      domain_key: domain.key,
      subject: `Message for ${address}: ${header?.subject ?? ''}`.slice(0, 255).toWellFormed(),
      text: `From: ${header?.from ?? message.mail_from}\nClient: ${message.client}\n\n${text.slice(0, MAX_NOTICE).toWellFormed()}`,
    },
    now,
    2,
  )
}

// Handles complaints (D62). A proven complaint whose token names an email of ours is applied to that email. A complaint
// that is not proven, or names no email, has no effect and is listed among the notices of its domain.

export type ComplaintReport = Extract<Report, { kind: 'complaint' | 'opt-out' }>

export interface Complaint {
  report: ComplaintReport
  /** Keys of the deliveries whose return path received it. */
  returned: number[]
  proven: boolean
  /** The hosted domain whose address received the complaint, or null. */
  domain: number | null
  /** The domain of the complaint's From field. */
  from: string
  client: string
}

export const UNPROVEN = 'Unauthenticated complaint'
export const UNMATCHED = 'Complaint about an unknown email'
const MAX_ENTRY = 500

export function applyComplaint(
  tx: Tx,
  { gate, keyring, log }: { keyring: Keyring; log: Log; gate: Pick<DeliveryGate, 'returned'> },
  complaint: Complaint,
  now: number,
): void {
  const { proven, report, returned } = complaint
  const named = report.tokens.flatMap(
    (token) => readReturnPathToken(keyring, token) ?? readUnsubscribeLocalPart(keyring, token) ?? [],
  )
  const meant = [...new Set([...returned, ...named])].flatMap((token) => {
    const delivery = recipientMeant(tx, token, report.recipient)
    return delivery ? [{ token, delivery }] : []
  })
  const { kind } = report
  log.info('feedback_received', { kind, proven, matched: meant.length, from: complaint.from, client: complaint.client })
  if (!proven || meant.length === 0) return tell(tx, complaint, meant[0]?.delivery ?? mailOf(tx, returned, named), now)
  for (const { delivery, token } of meant)
    if (kind === 'complaint') settleComplaint(tx, token, report.recipient, report.feedbackType, { gate, now })
    else unsubscribe(tx, delivery, 'unsubscribe_mail', now)
}

/** The email of the tokens, without its recipient. */
function mailOf(tx: Tx, ...tokens: number[][]): { domain_key: number; email_key: number } | undefined {
  const keys = tokens.flat()
  return keys.length === 0
    ? undefined
    : tx.first(db.selectFrom('deliveries').select(['domain_key', 'email_key']).where('key', 'in', keys).limit(1))
}

/** Writes the notice, without a recipient's address, because a notice is kept when the address is erased. */
function tell(
  tx: Tx,
  { client, domain, from, proven, report }: Complaint,
  mail: { domain_key: number; email_key: number } | undefined,
  now: number,
): void {
  const key = mail?.domain_key ?? domain
  const owner =
    key === null ? undefined : tx.first(db.selectFrom('domains').select(['key', 'user_key']).where('key', '=', key))
  if (!owner) return
  if (proven && report.kind === 'complaint') countUnmatched(tx, owner.user_key, receiverOf(from, from), now)
  const sent = mail && tx.first(db.selectFrom('outbound_emails').select('message_id').where('key', '=', mail.email_key))
  const about = sent?.message_id ? ` about ${sent.message_id}` : ''
  countInNotice(
    tx,
    {
      user_key: owner.user_key,
      domain_key: owner.key,
      subject: proven ? UNMATCHED : UNPROVEN,
      text: proven
        ? 'No matching email or recipient was found. No suppression was added.'
        : 'The report passed neither DKIM nor SPF. No suppression was added.',
    },
    `${report.feedbackType} from ${from} (client ${client})${about}`.slice(0, MAX_ENTRY).toWellFormed(),
    now,
  )
}
