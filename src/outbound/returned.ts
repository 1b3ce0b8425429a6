// What reports about our mail mean (D25, D35): a bounce that came home later, a complaint. Whose mail it was is decided by the signed
// token alone; what the report says only tells which recipient of that transaction is meant. It ends where an SMTP reply ends: state,
// event, suppression. A second report of the same changes nothing.
import { parseAddrSpec } from '../message/address.ts'
import { classify, isAboutRecipient } from '../smtp/bounce-class.ts'
import { deliveryMachine } from '../states/delivery.ts'
import type { Reader, Tx } from '../store/database.ts'
import { isMark } from '../store/erasing.ts'
import { move } from '../store/move.ts'
import { db, statement } from '../store/query.ts'
import { emailOf, emit, hold, moveEmail, type Delivery } from './settle.ts'
import { normalised, suppress } from './suppressions.ts'
import { takeBackDelivery, tally } from './tally.ts'

/** What a report says of one recipient. */
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

const companions = statement<{ email_key: number; lane: string }>()((arg) =>
  db.selectFrom('deliveries').selectAll().where('email_key', '=', arg.email_key).where('lane', '=', arg.lane),
)

/** The delivery that a report with this token means: the first of its addresses that was written to, else the only one there is. */
function meant(
  reader: Reader,
  token: number,
  addresses: readonly (string | null)[],
  spared: readonly string[] = [],
): Delivery | undefined {
  const named = reader.first(deliveryByKey({ key: token }))
  if (!named) return undefined
  const all = reader.all(companions({ email_key: named.email_key, lane: named.lane }))
  const wanted = addresses
    .filter((address) => address !== null && address !== '')
    .map((address) => comparable(address!))
  for (const name of wanted) {
    const found = all.find(({ address }) => normalised(address) === name)
    if (found) return found
  }
  // The address may have been forwarded: then the report names one that we do not know.
  return all.length === 1 && !spared.some((address) => comparable(address) === normalised(named.address))
    ? named
    : undefined
}

/** Reports may write a domain in its own script (RFC 6533 §3); here it stands in ASCII. */
const comparable = (address: string): string => normalised(parseAddrSpec(address)?.address ?? address)

/**
 * A delivery report told of a failure, and of other addresses something else (`spared`). Returns the address that bounced, or
 * undefined when it changed nothing.
 */
export function settleReturned(
  tx: Tx,
  token: number,
  told: ReturnedRecipient,
  spared: readonly string[] | undefined,
  now: number,
): string | undefined {
  const delivery = meant(tx, token, [told.original, told.address], spared)
  const email = delivery && tx.first(emailOf({ key: delivery.email_key }))
  if (!email) return undefined
  // Who was forgotten stays so: the report may name the address, and its mark is none.
  const forgotten = isMark(delivery.address)
  const text = forgotten ? '' : told.text
  const said = { stage: 'report', code: told.code, enhanced: told.status, text: told.text } as const
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
  const bounce = classify(said)
  if (!forgotten && isAboutRecipient(said))
    hold(tx, email, { address: delivery.address, source: 'dsn' }, 'bounced', bounce, now)
  const details = {
    stage: said.stage,
    smtp_code: told.code,
    enhanced_code: told.status,
    response: text,
    remote_mta: told.host,
    kind: 'bounced',
    class: bounce,
  }
  if (delivery.role === 'to') moveEmail(tx, email, 'returned', now, delivery, details)
  else emit(tx, 'email.bounced', email, delivery, details, now)
  return delivery.address
}

/** A recipient complained (feedback type abuse). Returns the address, or undefined when it changed nothing. */
export function settleComplaint(
  tx: Tx,
  token: number,
  recipient: string | null,
  feedbackType: string,
  now: number,
): string | undefined {
  const delivery = meant(tx, token, [recipient])
  const email = delivery && tx.first(emailOf({ key: delivery.email_key }))
  const set = { leased_until: null, next_attempt_at: null, updated_at: now }
  if (!email || !move(tx, deliveryMachine, delivery.key, 'complain', set)) return undefined
  const { domain_key, user_key } = email
  const entry = { user_key, domain_key, address: delivery.address, source: 'arf' as const }
  if (!isMark(delivery.address)) suppress(tx, { ...entry, reason: 'complaint', scope: 'all' }, now)
  tally(tx, email, 'complaint', now)
  const details = { feedback_type: feedbackType }
  if (delivery.role === 'to') moveEmail(tx, email, 'complained', now, delivery, details)
  else emit(tx, 'email.complained', email, delivery, details, now)
  return delivery.address
}

/** The recipient that a token and a report mean; for those who want to unsubscribe. */
export const recipientMeant = (reader: Reader, token: number, recipient: string | null): Delivery | undefined =>
  meant(reader, token, [recipient])
