// Writes the result of an attempt. Only this file changes the state of a recipient, both after an SMTP reply and after
// a later delivery report. The status of the email follows its primary recipient only.
import type { Config } from '../../base/config.ts'
import { HOUR, MINUTE, SECOND } from '../../base/clock.ts'
import { retryDelay } from '../../base/retry.ts'
import { classify, isAboutRecipient, type BounceClass } from '../../smtp/bounce-class.ts'
import type { Verdict } from '../../smtp/verdict.ts'
import { deliveryMachine, type DeliveryMove } from '../../store/states/delivery.ts'
import { emailMachine, type EmailMove } from '../../store/states/outbound-email.ts'
import type { EventType } from '../../store/states/events.ts'
import type { Tx } from '../../store/database.ts'
import { appendEvents } from '../../store/events.ts'
import { move, moveThrough } from '../../store/move.ts'
import { db, raw, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { boundTo, relayIn, unboundLane } from '../../message/lane-names.ts'
import { retrySlot } from '../../reputation/agents.ts'
import { endedAttempts, logAttempt } from './attempt-log.ts'
import type { DaySlot } from '../../parts/gate.ts'
import { countReceiver } from '../../reputation/receivers.ts'
import { noteSoftBounce, suppress } from '../../suppressions/suppressions.ts'
import { tally } from '../../reputation/tally.ts'
import { must } from '../../base/errors.ts'

export type Delivery = RowOf<'deliveries'>
export type EmailKeys = Pick<RowOf<'outbound_emails'>, 'key' | 'user_key' | 'domain_key' | 'campaign_key' | 'agent_id'>

/** The signal of a commit that holds a result of a campaign's mail. */
export const CAMPAIGN_MAIL = 'campaign mail'

/** email.delayed is emitted on the first deferral, then at most this often (D26). */
const DELAYED_EVERY = 4 * HOUR

/** Kinds of verdict, except `delivered`, that are final for a recipient. */
type End = Exclude<Verdict['kind'], 'deferred' | 'waiting' | 'delivered'>

/**
 * Mail waits during local problems for as long as the problem has lasted, within these bounds: so the wait doubles
 * (D72).
 */
const SHORTEST_WAIT = 10 * SECOND
const LONGEST_WAIT = 10 * MINUTE

/** The moves that a verdict causes: of the recipient, and of the email when it is the primary recipient. */
const MOVES: Record<End, { delivery: DeliveryMove; email: EmailMove }> = {
  bounced: { delivery: 'refuse', email: 'refused' },
  failed: { delivery: 'expire', email: 'expired' },
  rejected: { delivery: 'reject', email: 'rejected' },
  suppressed: { delivery: 'suppress', email: 'suppressed' },
}

const EVENTS: Record<End, EventType> = {
  bounced: 'email.bounced',
  failed: 'email.bounced',
  rejected: 'email.rejected',
  suppressed: 'email.rejected',
}

export const emailOf = statement<{ key: number }>()((arg) =>
  db
    .selectFrom('outbound_emails')
    .select(['key', 'user_key', 'domain_key', 'campaign_key', 'agent_id', 'status'])
    .where('key', '=', arg.key),
)

export interface Settling {
  delivery: Delivery
  verdict: Verdict
  now: number
  email: EmailKeys
  config: Pick<Config, 'delivery'>
  /** Its slot in a daily limit. */
  slot?: DaySlot | undefined
  /** The SMTP transcript is not stored, nor is the text of the reply to an email that was delivered. */
  brief?: true
}

/** The age of the email (ms) when it is settled. */
export const ageOf = ({ config, delivery, now }: Settling): number =>
  now - (delivery.expires_at - config.delivery.lifetime)

/** The source that is stored with an attempt: only for mail that was bound to one. */
export const sourceOf = ({ lane }: Pick<Delivery, 'lane'>, { source }: Pick<Verdict, 'source'>): string | null =>
  boundTo(lane) === undefined ? null : (source ?? null)

/** The columns of a delivery's row that come from a reply. */
type ReplyColumns = ReturnType<typeof replyOf>

function replyOf({ brief, delivery, now, verdict }: Settling) {
  return {
    smtp_code: verdict.code,
    enhanced_code: verdict.enhanced,
    response: brief && verdict.kind === 'delivered' ? null : verdict.text,
    remote_mta: verdict.host,
    tls: verdict.tls,
    security: verdict.security,
    source: sourceOf(delivery, verdict),
    dialogue: brief ? null : verdict.dialogue,
    leased_until: null,
    trouble_since: null,
    updated_at: now,
  }
}

/**
 * Settles an active delivery. A deferral after the end of the email's lifetime is final: the delivery has failed. Does
 * not write if the owner has deleted the email in the meantime.
 */
export function settle(tx: Tx, settling: Settling): void {
  const { config, delivery, email, now, slot, verdict } = settling
  slot?.settled(tx, delivery, verdict, now)
  const reply = replyOf(settling)
  if (verdict.kind === 'waiting' && waitForUs(tx, delivery, verdict, now)) return
  if (verdict.kind === 'delivered') return settleDelivered(tx, settling, reply)
  if (verdict.handed && delivery.role === 'to') moveEmail(tx, settling, 'handed')
  if (verdict.soon && now < delivery.expires_at) {
    const next = { ...reply, attempts: delivery.attempts - 1, next_attempt_at: now }
    return void move(tx, deliveryMachine, delivery.key, 'lapse', next)
  }
  if (verdict.kind === 'deferred') {
    const soonest = now + retryDelay(config.delivery.retry, endedAttempts(tx, delivery) + 1)
    const next = email.agent_id === null ? soonest : retrySlot(tx, email.user_key, email.agent_id, soonest)
    if (next < delivery.expires_at) return defer(tx, settling, { ...reply, next_attempt_at: next })
  }
  end(tx, settling, reply, verdict.kind === 'deferred' || verdict.kind === 'waiting' ? 'failed' : verdict.kind)
}

type PutOff = Pick<Delivery, 'key' | 'attempts' | 'delayed_at'> & { email: EmailKeys }

/** Emits email.delayed for email that waits for a daily limit. */
export function tellPutOff(
  tx: Tx,
  mails: readonly PutOff[],
  of: { now: number; next: number; response: string },
): void {
  const { next, now, response } = of
  const due = mails.filter(({ delayed_at }) => delayed_at === null || now - delayed_at >= DELAYED_EVERY)
  for (const { attempts, email, ...delivery } of due) {
    const reply = { stage: 'warm-up', smtp_code: null, enhanced_code: null, response, remote_mta: null }
    emit(tx, { delivery, email, now }, 'email.delayed', { ...reply, next_attempt_at: next, attempts })
  }
  tx.run(
    raw('update deliveries set delayed_at = ? where key in (select value from json_each(?))', [
      now,
      JSON.stringify(due.map(({ key }) => key)),
    ]),
  )
}

/** Puts the delivery back for another attempt. */
function defer(tx: Tx, settling: Settling, reply: ReplyColumns & { next_attempt_at: number }): void {
  const { delivery, email, now, verdict } = settling
  const delayed = delivery.delayed_at === null || now - delivery.delayed_at >= DELAYED_EVERY
  const moved = move(tx, deliveryMachine, delivery.key, 'defer', { ...reply, ...(delayed ? { delayed_at: now } : {}) })
  // Not moved: a report has ended the delivery in the meantime.
  if (!moved) return
  logAttempt(tx, delivery, { ...verdict, source: reply.source }, now)
  countReceiver(tx, { email, delivery, verdict, age: ageOf(settling) }, now)
  if (!delayed) return
  const { attempts } = delivery
  emit(tx, settling, 'email.delayed', { ...describe(verdict), next_attempt_at: reply.next_attempt_at, attempts })
}

/** Ends a delivery whose recipient does not get the email. */
function end(tx: Tx, settling: Settling, reply: ReplyColumns, kind: End): void {
  const { delivery, email, now, verdict } = settling
  const { delivery: on, email: onEmail } = MOVES[kind]
  if (!move(tx, deliveryMachine, delivery.key, on, reply)) return
  // A delivery that waited for this server until it expired is not a result of its receiver.
  const of = verdict.kind === 'waiting' ? verdict : { ...verdict, kind }
  countReceiver(tx, { email, delivery, verdict: of, age: ageOf(settling) }, now)
  if (kind === 'bounced') tally(tx, email, 'bounce', now)
  const lost = kind === 'bounced' || kind === 'failed' ? kind : undefined
  const bounce = lost && classify({ ...verdict, sender: senderOf(tx, email, delivery) })
  const { suppression } = verdict
  const details = {
    ...describe(verdict),
    kind,
    ...(bounce && { class: bounce }),
    ...(suppression !== undefined && { suppression }),
  }
  if (lost && bounce && isAboutRecipient(verdict))
    suppressAfterBounce(tx, settling, { address: delivery.address, source: 'smtp' }, lost, bounce)
  if (delivery.role === 'to') moveEmail(tx, settling, onEmail, details)
  else emit(tx, settling, EVENTS[kind], details)
}

const nameOf = statement<{ key: number }>()((arg) => db.selectFrom('domains').select('name').where('key', '=', arg.key))

/** The sending domain for `classify`, or undefined if the recipient is at the same domain. */
export function senderOf(tx: Tx, { domain_key }: EmailKeys, { address }: Delivery): string | undefined {
  const name = tx.first(nameOf({ key: domain_key }))?.name
  return name === undefined || address.toLowerCase().endsWith(`@${name}`) ? undefined : name
}

/** The usual end: the email was handed over and accepted. It may not have the status `sent` yet. */
function settleDelivered(tx: Tx, settling: Settling, reply: ReplyColumns): void {
  const { delivery, email, now, verdict } = settling
  const primary = delivery.role === 'to'
  if (!move(tx, deliveryMachine, delivery.key, 'accept', reply)) {
    if (primary) moveEmail(tx, settling, 'handed')
    return
  }
  countReceiver(tx, { email, delivery, verdict, age: ageOf(settling) }, now)
  tally(tx, email, 'delivery', now)
  const details = { ...describe(verdict), kind: 'delivered' }
  if (!primary) return emit(tx, settling, 'email.delivered', details)
  const steps = (['handed', 'accepted'] as const).map((on) => [on, stampOf(on, now)] as const)
  const events = moveThrough(tx, emailMachine, email.key, steps).flatMap(({ emits, on }) =>
    emits ? [{ type: emits, details: on === 'accepted' ? details : {} }] : [],
  )
  emitAll(tx, settling, events)
}

/**
 * The columns of a claimed delivery whose attempt does not count. If it was the only attempt, the delivery is no longer
 * bound to a source. Mail for a relay stays with it: a relay that is down must not cause sending from an address over
 * its limit.
 */
export function untried({ attempts, lane }: Pick<Delivery, 'attempts' | 'lane'>): { attempts: number; lane?: string } {
  const unbound = relayIn(lane) === undefined ? unboundLane(lane) : lane
  return { attempts: attempts - 1, ...(attempts > 1 || unbound === lane ? {} : { lane: unbound }) }
}

/** The lane of a row whose attempt does not count, in SQL: as in `untried`. */
export const UNBOUND_IF_UNTRIED = `iif(attempts = 1 and instr(lane, '|') > 0 and instr(lane, '|>') = 0, substr(lane, 1, instr(lane, '|') - 1), lane)`

/**
 * Delays a delivery because of local trouble, as if it had not been attempted. Returns false if its lifetime ends
 * earlier.
 */
function waitForUs(tx: Tx, delivery: Delivery, { enhanced, text }: Verdict, now: number): boolean {
  const since = delivery.trouble_since ?? now
  const next = now + Math.min(Math.max(now - since, SHORTEST_WAIT), LONGEST_WAIT)
  if (next >= delivery.expires_at) return false
  move(tx, deliveryMachine, delivery.key, 'wait', {
    ...untried(delivery),
    next_attempt_at: next,
    trouble_since: since,
    smtp_code: null,
    remote_mta: null,
    enhanced_code: enhanced,
    response: text,
    leased_until: null,
    updated_at: now,
  })
  return true
}

/**
 * Applies a bounce that is about its recipient to the address:
 * a permanent suppression, or one more soft bounce (D35, D63).
 */
export function suppressAfterBounce(
  tx: Tx,
  { email, now }: Pick<Subject, 'email' | 'now'>,
  { address, source }: { address: string; source: 'smtp' | 'dsn' },
  kind: 'bounced' | 'failed',
  bounce: BounceClass,
): void {
  const { domain_key, user_key } = email
  const about = { user_key, domain_key, address, source }
  if (kind === 'bounced' && bounce === 'hard') suppress(tx, { ...about, reason: 'hard_bounce', scope: 'all' }, now)
  else if (bounce === 'soft' || bounce === 'quota') noteSoftBounce(tx, about, now)
}

/**
 * Ends a recipient without an attempt, because the address is suppressed or erased. `response` and the reason of the
 * suppression are for webhooks.
 */
export function suppressRecipient(
  tx: Tx,
  { delivery, email, now }: Subject & { delivery: { key: number; role: string } },
  response: string,
  suppression: string,
): void {
  move(tx, deliveryMachine, delivery.key, 'suppress', { next_attempt_at: null, updated_at: now })
  const details = { kind: 'suppressed', response, suppression }
  if (delivery.role === 'to') moveEmail(tx, { email, delivery, now }, 'suppressed', details)
  else emit(tx, { email, delivery, now }, 'email.rejected', details)
}

/** The email of an event, and the time of the event. */
export interface Subject {
  email: EmailKeys
  delivery: Pick<Delivery, 'key'>
  now: number
}

/** Moves the email by its table, stamps the time of its new status and emits the table's event. */
export function moveEmail(tx: Tx, subject: Subject, on: EmailMove, details: Record<string, unknown> = {}): void {
  const row = move(tx, emailMachine, subject.email.key, on, stampOf(on, subject.now))
  if (row?.emits) emit(tx, subject, row.emits, details)
}

/** The time column of a move: each move leads to one status, and the column has the name of that status. */
function stampOf(on: EmailMove, now: number): Record<string, number> {
  const { to } = must(
    emailMachine.rows.find((row) => row.on === on),
    'The move of a mail',
  )
  return { [`${to}_at`]: now, updated_at: now }
}

export function emit(tx: Tx, subject: Subject, type: EventType, details: Record<string, unknown>): void {
  emitAll(tx, subject, [{ type, details }])
}

function emitAll(
  tx: Tx,
  { delivery, email: { campaign_key, domain_key, key, user_key }, now }: Subject,
  events: readonly { type: EventType; details: Record<string, unknown> }[],
): void {
  const silent = (type: EventType): boolean =>
    campaign_key !== null && COUNTED_OTHERWISE.includes(type) && !isHeard(tx, domain_key)
  const about = { user_key, domain_key, email_key: key, campaign_key, at: now }
  appendEvents(
    tx,
    events.flatMap(({ type, details }) =>
      silent(type) ? [] : [{ type, ...about, data: { delivery: delivery.key, ...details } }],
    ),
  )
}

/** A campaign's statistics for these come from its emails: the events are written only if the domain has a webhook. */
const COUNTED_OTHERWISE: readonly EventType[] = ['email.sent', 'email.delivered']

const listeners = statement<{ domain_key: number }>()((arg) =>
  db
    .selectFrom('webhooks')
    .select('key')
    .where('domain_key', '=', arg.domain_key)
    .where('deleted_at', 'is', null)
    .limit(1),
)

/** Whether a sending domain has a webhook. */
export const isHeard = (tx: Tx, domainKey: number): boolean =>
  tx.fact(listeners({ domain_key: domainKey })) !== undefined

function describe({ stage, code, enhanced, text, host }: Verdict): Record<string, unknown> {
  return { stage, smtp_code: code, enhanced_code: enhanced, response: text, remote_mta: host }
}
