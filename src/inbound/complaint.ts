// Handles complaints (D62). A proven complaint whose token names a mail of ours is applied to that mail. A complaint
// that is not proven, or names no mail, changes nothing and is listed among the notices of its domain.
import { countInNotice } from '../accounts/notices.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { unsubscribe } from '../campaigns/unsubscribe.ts'
import type { Report } from '../message/report.ts'
import { readReturnPathToken, readUnsubscribeLocalPart } from '../message/return-path.ts'
import { countUnmatched, receiverOf } from '../reputation/receivers.ts'
import type { Warmup } from '../warmup/places.ts'
import { recipientMeant, settleComplaint } from '../delivery/results/returned.ts'
import type { Tx } from '../store/database.ts'
import { db } from '../store/query.ts'

export type ComplaintReport = Extract<Report, { kind: 'complaint' | 'opt-out' }>

export interface Complaint {
  report: ComplaintReport
  /** Keys of the deliveries whose return path received it. */
  returned: number[]
  proven: boolean
  /** The hosted domain whose address received the complaint; null when there is none. */
  domain: number | null
  /** The domain of the complaint's From field. */
  from: string
  client: string
}

export const UNPROVEN = 'Unproven complaint'
export const UNMATCHED = 'Complaint about an unknown mail'
const MAX_ENTRY = 500

export function heedComplaint(
  tx: Tx,
  { keyring, log, warmup }: { keyring: Keyring; log: Log; warmup: Warmup },
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
  log.info('report', { kind, proven, matched: meant.length, from: complaint.from, client: complaint.client })
  if (!proven || meant.length === 0) return tell(tx, complaint, meant[0]?.delivery ?? mailOf(tx, returned, named), now)
  for (const { delivery, token } of meant)
    if (kind === 'complaint') settleComplaint(tx, token, report.recipient, report.feedbackType, { now, warmup })
    else unsubscribe(tx, delivery, 'unsubscribe_mail', now)
}

/** The mail that the tokens name, without its recipient. */
function mailOf(tx: Tx, ...tokens: number[][]): { domain_key: number; email_key: number } | undefined {
  const keys = tokens.flat()
  return keys.length === 0
    ? undefined
    : tx.first(db.selectFrom('deliveries').select(['domain_key', 'email_key']).where('key', 'in', keys).limit(1))
}

/** Writes the notice. It names no recipient's address, because a notice is kept when the address is erased. */
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
        ? 'It names no mail of yours, or not which of its recipients complains, so nothing was changed.'
        : 'Neither DKIM nor SPF proves who sent it, so nothing was changed.',
    },
    `${report.feedbackType} from ${from} (client ${client})${about}`.slice(0, MAX_ENTRY).toWellFormed(),
    now,
  )
}
