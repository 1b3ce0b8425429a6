// Applies reports about our mail (D25, D35): late bounces and complaints. Only the signed token decides which mail a
// report is about; the report itself only names the recipient of that transaction. The effects are those of an SMTP
// reply: state, event, suppression. A second report about the same recipient changes nothing.
import { parseAddrSpec } from '../../message/address.ts'
import { classify, isAboutRecipient } from '../../smtp/bounce-class.ts'
import { deliveryMachine } from '../../states/delivery.ts'
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
import type { Warmup } from '../../warmup/places.ts'
import { noteReturned, saidByReport } from './warmup-place.ts'

/** When a report came, and where it counts. */
export interface Returning {
  now: number
  warmup: Warmup
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
 * The delivery that a report with this token is about:
 * that of the first address in the report to which the mail went, else that of the only recipient.
 */
function meant(
  reader: Reader,
  token: number,
  addresses: readonly (string | null)[],
  spared: readonly string[] = [],
): Delivery | undefined {
  const named = reader.first(deliveryByKey({ key: token }))
  if (!named) return undefined
  // A recipient that was put off may be bound to another source since.
  const domain = domainOf(named.lane)
  const all = reader.all(ofMail({ email_key: named.email_key })).filter(({ lane }) => domainOf(lane) === domain)
  const wanted = addresses.flatMap((address) => (address === null || address === '' ? [] : [comparable(address)]))
  for (const name of wanted) {
    const found = all.find(({ address }) => normalised(address) === name)
    if (found) return found
  }
  // The mail may have been forwarded: then the report names an address that we do not know.
  const together = all.filter(({ lane }) => lane === named.lane)
  return together.length === 1 && !spared.some((address) => comparable(address) === normalised(named.address))
    ? named
    : undefined
}

/** A report may write a domain in Unicode (RFC 6533 §3); the store has it in ASCII. */
const comparable = (address: string): string => normalised(parseAddrSpec(address)?.address ?? address)

/**
 * Applies a delivery report of a failure. `spared` are the addresses in the same report that have not failed.
 * Returns the address that bounced, or undefined when nothing changed.
 */
export function settleReturned(
  tx: Tx,
  token: number,
  told: ReturnedRecipient,
  spared: readonly string[] | undefined,
  { now, warmup }: Returning,
): string | undefined {
  const delivery = meant(tx, token, [told.original, told.address], spared)
  const email = delivery && tx.first(emailOf({ key: delivery.email_key }))
  if (!email) return undefined
  // The address was erased:
  // the report may name it, but its text must not be stored again, and a mark cannot be suppressed.
  const forgotten = isMark(delivery.address)
  const text = forgotten ? '' : told.text
  const said = { stage: 'report', code: told.code, enhanced: told.status, text: told.text } as const
  logDelivered(tx, delivery)
  const moved = move(tx, deliveryMachine, delivery.key, 'return', {
    smtp_code: told.code,
    enhanced_code: told.status,
    response: text,
    leased_until: null,
    next_attempt_at: null,
    updated_at: now,
  })
  if (!moved) return undefined
  if (delivery.status === 'delivered') takeBackDelivery(tx, email, delivery.updated_at)
  tally(tx, email, 'bounce', now)
  const bounce = classify({ ...said, sender: senderOf(tx, email, delivery) })
  const kind = saidByReport({ code: told.code, enhanced: told.status, text }, bounce === 'hard')
  if (kind) noteReturned(tx, warmup, delivery, { kind, words: text }, now)
  if (!forgotten && isAboutRecipient(said))
    suppressAfterBounce(tx, { email, now }, { address: delivery.address, source: 'dsn' }, 'bounced', bounce)
  const details = {
    stage: said.stage,
    smtp_code: told.code,
    enhanced_code: told.status,
    response: text,
    remote_mta: told.host,
    kind: 'bounced',
    class: bounce,
  }
  if (delivery.role === 'to') moveEmail(tx, { email, delivery, now }, 'returned', details)
  else emit(tx, { email, delivery, now }, 'email.bounced', details)
  return delivery.address
}

/** Applies a complaint (feedback type abuse). Returns the address, or undefined when nothing changed. */
export function settleComplaint(
  tx: Tx,
  token: number,
  recipient: string | null,
  feedbackType: string,
  { now, warmup }: Returning,
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
  noteReturned(tx, warmup, delivery, { kind: 'complained', words: '' }, now)
  const details = { feedback_type: feedbackType }
  if (delivery.role === 'to') moveEmail(tx, { email, delivery, now }, 'complained', details)
  else emit(tx, { email, delivery, now }, 'email.complained', details)
  return delivery.address
}

/** The delivery that a token and a recipient name; for unsubscribing. */
export const recipientMeant = (reader: Reader, token: number, recipient: string | null): Delivery | undefined =>
  meant(reader, token, [recipient])
