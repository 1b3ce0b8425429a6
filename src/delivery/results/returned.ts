// Applies reports about our mail (D25, D35): late bounces and complaints. Only the signed token decides which email a
// report is about. The report itself only names the recipient of that transaction. The effects are those of an SMTP
// reply: state, event, suppression. A second report about the same recipient has no effect.
import { asLocalPart } from '../../base/local-part.ts'
import { parseAddrSpec } from '../../message/address.ts'
import { classify, isAboutRecipient } from '../../smtp/bounce-class.ts'
import { deliveryMachine } from '../../store/states/delivery.ts'
import type { Reader, Tx } from '../../store/database.ts'
import { isMark } from '../../store/erasing.ts'
import { move } from '../../store/move.ts'
import { db, statement } from '../../store/query.ts'
import { logDelivered } from './attempt-log.ts'
import { emailOf, emit, suppressAfterBounce, moveEmail, senderOf, type Delivery } from './settle.ts'
import { normalised } from '../../suppressions/stops.ts'
import { suppress } from '../../suppressions/suppressions.ts'
import { countComplaint, receiverOf } from '../../reputation/receivers.ts'
import { domainOf } from '../../message/lane-names.ts'
import { takeBackDelivery, tally } from '../../reputation/tally.ts'
import type { DeliveryGate } from '../../parts/gate.ts'

/** The time of a report, and the gate that counts it. */
export interface Returning {
  now: number
  gate: Pick<DeliveryGate, 'returned'>
}

/** The content of a report about one recipient. */
export interface ReturnedRecipient {
  address: string
  original: string | null
  status: string | null
  code: number | null
  text: string
  host: string | null
}

const deliveryByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('deliveries').selectAll().where('key', '=', arg.key),
)

const ofMail = statement<{ email_key: number }>()((arg) =>
  db.selectFrom('deliveries').selectAll().where('email_key', '=', arg.email_key),
)

/**
 * The delivery that a report with this token is about: that of the first address in the report that is a recipient,
 * otherwise that of the only recipient.
 */
function meant(
  reader: Reader,
  token: number,
  addresses: readonly (string | null)[],
  spared: readonly string[] = [],
): Delivery | undefined {
  const named = reader.first(deliveryByKey({ key: token }))
  if (!named) return undefined
  // A deferred recipient may be bound to another source since.
  const domain = domainOf(named.lane)
  const all = reader.all(ofMail({ email_key: named.email_key })).filter(({ lane }) => domainOf(lane) === domain)
  const wanted = addresses.flatMap((address) => (address === null || address === '' ? [] : [comparable(address)]))
  for (const name of wanted) {
    const found = all.find(({ address }) => normalised(address) === name)
    if (found) return found
  }
  // The mail may have been forwarded: then the report has an address that we do not know.
  const together = all.filter(({ lane }) => lane === named.lane)
  return together.length === 1 && !spared.some((address) => comparable(address) === normalised(named.address))
    ? named
    : undefined
}

/** A report may write a domain in Unicode (RFC 6533 §3), which the store has in ASCII, and leave quotes out. */
function comparable(address: string): string {
  const at = address.lastIndexOf('@')
  const quoted = asLocalPart(address.slice(0, Math.max(at, 0))) + address.slice(at)
  return normalised((parseAddrSpec(address) ?? parseAddrSpec(quoted))?.address ?? address)
}

/**
 * Applies a delivery report of a failure. `spared` are the addresses in the same report that have not failed. Returns
 * the address that bounced, or undefined if the report has no effect.
 */
export function settleReturned(
  tx: Tx,
  token: number,
  returned: ReturnedRecipient,
  spared: readonly string[] | undefined,
  { gate, now }: Returning,
): string | undefined {
  const delivery = meant(tx, token, [returned.original, returned.address], spared)
  const email = delivery && tx.first(emailOf({ key: delivery.email_key }))
  if (!email) return undefined
  // The address was erased: the report may contain it, but its text must not be stored again, and a mark cannot be
  // suppressed.
  const forgotten = isMark(delivery.address)
  const text = forgotten ? '' : returned.text
  const said = { stage: 'report', code: returned.code, enhanced: returned.status, text: returned.text } as const
  logDelivered(tx, delivery)
  const moved = move(tx, deliveryMachine, delivery.key, 'return', {
    smtp_code: returned.code,
    enhanced_code: returned.status,
    response: text,
    leased_until: null,
    next_attempt_at: null,
    updated_at: now,
  })
  if (!moved) return undefined
  if (delivery.status === 'delivered') takeBackDelivery(tx, email, delivery.updated_at)
  tally(tx, email, 'bounce', now)
  const bounce = classify({ ...said, sender: senderOf(tx, email, delivery) })
  gate.returned(tx, delivery, { ...said, text, kind: 'bounced', hard: bounce === 'hard' }, now)
  if (!forgotten && isAboutRecipient(said))
    suppressAfterBounce(tx, { email, now }, { address: delivery.address, source: 'dsn' }, 'bounced', bounce)
  const details = {
    stage: said.stage,
    smtp_code: returned.code,
    enhanced_code: returned.status,
    response: text,
    remote_mta: returned.host,
    kind: 'bounced',
    class: bounce,
  }
  if (delivery.role === 'to') moveEmail(tx, { email, delivery, now }, 'returned', details)
  else emit(tx, { email, delivery, now }, 'email.bounced', details)
  return delivery.address
}

/** Applies a complaint (feedback type abuse). Returns the address, or undefined if the complaint has no effect. */
export function settleComplaint(
  tx: Tx,
  token: number,
  recipient: string | null,
  feedbackType: string,
  { gate, now }: Returning,
): string | undefined {
  const delivery = meant(tx, token, [recipient])
  const email = delivery && tx.first(emailOf({ key: delivery.email_key }))
  const set = { leased_until: null, next_attempt_at: null, updated_at: now }
  if (!email) return undefined
  logDelivered(tx, delivery)
  if (!move(tx, deliveryMachine, delivery.key, 'complain', set)) return undefined
  const { domain_key, user_key } = email
  const entry = { user_key, domain_key, address: delivery.address, source: 'arf' as const }
  if (!isMark(delivery.address)) suppress(tx, { ...entry, reason: 'complaint', scope: 'all' }, now)
  tally(tx, email, 'complaint', now)
  countComplaint(tx, user_key, receiverOf(delivery.remote_mta, domainOf(delivery.lane)), now)
  gate.returned(tx, delivery, { kind: 'complained', code: null, enhanced: null, text: '', hard: false }, now)
  const details = { feedback_type: feedbackType }
  if (delivery.role === 'to') moveEmail(tx, { email, delivery, now }, 'complained', details)
  else emit(tx, { email, delivery, now }, 'email.complained', details)
  return delivery.address
}

/** The delivery with this token and recipient, for unsubscribing. */
export const recipientMeant = (reader: Reader, token: number, recipient: string | null): Delivery | undefined =>
  meant(reader, token, [recipient])
