// Claims email within the limits of a gate (parts/gate.ts): with slots for its recipients, by another source that has
// capacity, or by the relay for overflow. Otherwise the email waits until the limit of the day ends.
import { iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { unboundLane } from '../message/lane-names.ts'
import type { DeliveryGate, DaySlot } from '../parts/gate.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Lane } from './pacing/lanes.ts'
import { claimDue, submittedIn, UNTRIED } from './queue/claim.ts'
import type { Claim, MailTransaction, Sources } from './queue/transaction.ts'
import type { Ways } from './queue/ways.ts'
import { emailOf, tellPutOff } from './results/settle.ts'

export interface LimitDeps {
  sources: Sources
  gate: DeliveryGate
  ways: Ways
  config: Pick<Config, 'delivery' | 'warmup'>
}

/** Claimed email, and the lane by which it is sent. */
export interface ClaimedFor {
  to: Lane
  mails: MailTransaction[]
}

/** A lane by which email can be sent now. */
interface WayChoice {
  to: Lane
  slot: DaySlot | null
  capacity: number
  closed: boolean
}

/** Recipients that one statement postpones. */
const PUT_OFF_AT_ONCE = 1000

/** The lanes by which email can be sent, those without a limit first. */
function choicesOf({ gate }: LimitDeps, reader: Reader, lanes: readonly Lane[], now: number): WayChoice[] {
  const choices = lanes.map((to): WayChoice => {
    const slot = gate.slotFor(to, now) ?? null
    const capacity = slot?.capacity(reader) ?? Infinity
    return { to, slot, capacity, closed: capacity <= 0 && slot?.isClosed(reader, now) === true }
  })
  return choices.length < 2
    ? choices
    : choices.toSorted((one, other) => Number(other.capacity === Infinity) - Number(one.capacity === Infinity))
}

/** A lane with capacity for a new email, and its slot there, or undefined if the email has to be queued. */
export function slotForNew(
  deps: LimitDeps,
  tx: Tx,
  lanes: readonly Lane[],
  recipients: number,
  now: number,
): { to: Lane; slot: DaySlot | null } | undefined {
  const [first] = lanes
  // It gets its slot when its route is known (`fits`).
  if (first && deps.gate.slotFor(first, now) === undefined) return { to: first, slot: null }
  return choicesOf(deps, tx, lanes, now).find(({ capacity }) => capacity >= recipients)
}

/** Whether email in memory has its slot with the receiver of its lane, or undefined if the route is not known. */
export function fits(gate: DeliveryGate, mail: MailTransaction, lane: Lane, now: number): boolean | undefined {
  const slot = gate.slotFor(lane, now)
  if (slot === undefined) return undefined
  return slot === null || slot.day === null || mail.slot?.receiver === slot.receiver
}

/** A claim: email of `lane` that is sent by one of `lanes`. `relay`: the lane of the relay for overflow. */
export interface WantedMail {
  lane: Lane
  lanes: readonly Lane[]
  limit: number
  /** How much each lane may claim. */
  mostOf: (to: Lane) => number
  relay: Lane | undefined
}

/** Claims due email. Email over today's limit waits, or goes by the relay. */
export function claimWithin(
  deps: LimitDeps,
  tx: Tx,
  { lane, lanes, limit, mostOf, relay }: WantedMail,
  now: number,
): ClaimedFor[] {
  const claimed: ClaimedFor[] = []
  let left = limit
  const claim = (to: Lane, slot: DaySlot | null, what: Pick<Claim, 'limit' | 'only'>): number => {
    const mails = claimDue(tx, deps.sources, { lane: lane.name, to: to.name, now, ...what })
    const recipients = mails.flatMap(({ deliveries }) => deliveries)
    if (slot && mails.length > 0) {
      slot.take(tx, recipients)
      for (const mail of mails) mail.slot = slot
    }
    claimed.push({ to, mails })
    left -= recipients.length
    return recipients.length
  }
  const choices = choicesOf(deps, tx, lanes, now)
  for (const { capacity, closed, slot, to } of choices) {
    const most = Math.min(left, mostOf(to))
    // Recipients that were counted today do not need a second slot.
    if (capacity < most && slot && slot.day !== null && !closed)
      claim(to, slot, { limit: most, only: { triedOn: slot.day } })
    const some = Math.min(left, mostOf(to), capacity)
    if (some > 0 && claim(to, slot, { limit: some }) < some) return claimed
  }
  const limits = choices.flatMap(({ slot }) => slot ?? [])
  if (left <= 0 || limits.length < choices.length || limits.some((slot) => slot.capacity(tx) > 0)) return claimed
  if (relay) {
    const some = Math.min(left, mostOf(relay))
    if (some > 0) claim(relay, null, { limit: some, only: 'untried' })
  }
  // Recipients that were counted today continue, unless bulk email is stopped.
  const day = choices.every(({ closed }) => closed) ? -1 : (limits[0]?.day ?? -1)
  putOff(deps, tx, lane, { limits, now, day, tried: relay !== undefined })
  return claimed
}

/** The lane of the relay for overflow of a lane, or undefined if the overflow waits. */
export function relayFor({ config, ways }: LimitDeps, { bulk, name }: Lane): string | undefined {
  const { bulk_overflow, transactional_overflow } = config.warmup
  return (bulk ? bulk_overflow : transactional_overflow) === 'relay' && unboundLane(name) === name
    ? ways.relayLane(name)
    : undefined
}

interface Postponed {
  limits: readonly DaySlot[]
  now: number
  /** Recipients that were counted on this day continue. */
  day: number
  /** Only email that already has a result: the rest is sent by the relay. */
  tried: boolean
}

/** Postpones due email of a lane until the first of its limits ends. */
function putOff({ config }: LimitDeps, tx: Tx, lane: Lane, { day, limits, now, tried }: Postponed): void {
  const opens = Math.min(...limits.map((slot) => slot.opensAt(now)))
  const words = `warm-up: the limit for ${limits[0]?.receiver} is reached for today; sending resumes at ${iso(opens)}`
  const waiting = tx.all(
    raw<Pick<RowOf<'deliveries'>, 'key' | 'email_key' | 'attempts' | 'delayed_at'>>(
      `update deliveries set next_attempt_at = ?, response = ?, smtp_code = null, enhanced_code = null, remote_mta = null,
         expires_at = iif(attempts = 0, ?, expires_at)
       where key in (select key from deliveries where status = 'queued' and lane = ? and next_attempt_at <= ?
         and (tried_day is null or tried_day <> ?)${tried ? ` and not ${UNTRIED}` : ''}
         order by next_attempt_at limit ${PUT_OFF_AT_ONCE})
       returning key, email_key, attempts, delayed_at`,
      [opens, words, opens + config.delivery.lifetime, lane.name, now, day],
    ),
  )
  // The campaign page shows how many of its emails wait, so there are no events for them.
  const submitted = lane.bulk ? submittedIn(tx, waiting) : undefined
  const mails = waiting.flatMap(({ email_key, ...row }) => {
    if (submitted?.has(email_key) === false) return []
    const email = tx.first(emailOf({ key: email_key }))
    return email ? [{ ...row, email }] : []
  })
  tellPutOff(tx, mails, { now, next: opens, response: words })
}

/** Recipients that one statement makes due. */
const FREED_AT_ONCE = 10_000

/** Makes email due that waits for a limit, because the limit has changed. */
export async function freeWaiting(store: Store, now: number): Promise<void> {
  for (let more = true; more;)
    more = await store.writeSoon(
      (tx) =>
        tx.run(
          raw(
            `update deliveries set next_attempt_at = ? where key in (select key from deliveries
               where status = 'queued' and next_attempt_at > ? and response >= 'warm-up:' and response < 'warm-up;'
               limit ${FREED_AT_ONCE})`,
            [now, now],
          ),
        ).changes === FREED_AT_ONCE,
    )
}
