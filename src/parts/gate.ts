// The seam between delivery and a part that limits how much email is sent per day, such as warm-up. Delivery requests
// a slot before it claims email, and the count is written in the transaction that claims the email. So a slot that was
// taken stays taken after `kill -9`. Without such a part, there are no limits.
import type { RowOf } from '../store/schema/tables.ts'
import type { Host } from '../smtp/route.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Tx } from '../store/database.ts'

/** A lane by which email can go out. */
export interface Outlet {
  name: string
  /** The recipient domain. */
  domain: string
  bulk: boolean
}

/** A recipient as it was before its claim: a recipient that was counted today needs no second slot. */
export type Counted = Pick<RowOf<'deliveries'>, 'key' | 'tried_day'>

/** The limit that applies to the email of one claim. */
export interface DaySlot {
  /** The name that the limit applies to, such as a receiver. Email in memory with another receiver is queued again. */
  readonly receiver: string
  /** The day (since the epoch) for the rows of counted recipients, or null if they are not counted. */
  readonly day: number | null
  /** The number of recipients that can be attempted now. Infinity means no limit. */
  capacity(reader: Reader): number
  /** Whether bulk email is stopped for the day, even for recipients that were counted today. */
  isClosed(reader: Reader, now: number): boolean
  /** When the limit of the day ends. */
  opensAt(now: number): number
  /** Counts new recipients, whose rows are stored with `day`. */
  takeNew(tx: Tx, recipients: number): void
  /** Counts claimed recipients, except those that were counted today. */
  take(tx: Tx, deliveries: readonly Counted[]): void
  /** Releases the slots that a claim took, for recipients that were not attempted. */
  giveBack(tx: Tx, deliveries: readonly Counted[]): void
  /** Applies replies before they are stored: a block stops the bulk email that was claimed ahead. */
  heard(verdicts: readonly Verdict[], now: number): void
  /** Counts the result of a recipient, or releases its slot if the receiver was not contacted for it. */
  settled(tx: Tx, delivery: Counted, verdict: Verdict, now: number): void
}

/** The content of a bounce message or complaint about a recipient that was attempted earlier. */
export interface LateResult {
  kind: 'bounced' | 'complained'
  code: number | null
  enhanced: string | null
  text: string
  /** The address does not exist. */
  hard: boolean
}

/** The columns of a delivery, from before a late result, that identify how it was sent. */
export type SentDelivery = Pick<RowOf<'deliveries'>, 'lane' | 'remote_mta' | 'source' | 'updated_at'>

/** The number of days that email to many recipients takes. */
export interface Forecast {
  recipients: number
  /** The number of days (UTC) on which email is sent, or null if it never finishes. */
  days: number | null
  ends_at: number | null
  /** How many emails a relay sends. */
  relayed: number
  receivers: ReceiverForecast[]
  /** False while the receiver of a recipient is unknown. */
  exact: boolean
  /** Why the forecast is not exact, or why no email is delayed. */
  reason: string | null
}

export interface ReceiverForecast {
  receiver: string
  recipients: number
  /** How many of them are sent today. */
  today: number
  days: number | null
}

/** The forecast without limits. `byDomain` contains the number of recipients of each domain. */
export function sentToday(byDomain: ReadonlyMap<string, number>, now: number, reason: string | null = null): Forecast {
  const receivers = [...byDomain].map(([receiver, recipients]) => ({
    receiver,
    recipients,
    today: recipients,
    days: 1,
  }))
  const recipients = receivers.reduce((sum, each) => sum + each.recipients, 0)
  return { recipients, days: recipients === 0 ? 0 : 1, ends_at: now, relayed: 0, receivers, exact: true, reason }
}

export interface DeliveryGate {
  /** The limit for email on a lane, null if unlimited, or undefined if the route to the domain is not known yet. */
  slotFor(to: Outlet, now: number): DaySlot | null | undefined
  /** Records the route to a domain, or undefined if no route exists at present. */
  routed(domain: string, hosts: readonly Host[] | undefined, now: number): Promise<void>
  /** Counts a late result for the day on which the email was sent. */
  returned(tx: Tx, delivery: SentDelivery, result: LateResult, now: number): void
  /** The number of days that email sent from now on takes. `byDomain`: the number of recipients of each domain. */
  forecast(reader: Reader, byDomain: ReadonlyMap<string, number>, now: number): Forecast
}

/** The gate of a server without limits. */
export const OPEN_GATE: DeliveryGate = {
  slotFor: () => null,
  routed: () => Promise.resolve(),
  returned: () => {},
  forecast: (_, byDomain, now) => sentToday(byDomain, now),
}
