// A lane is all mail for one recipient domain, with its own due time, pace and pauses, so that a slow or rejecting
// receiving server delays no domain with other receiving servers (server-group.ts). Campaign mail has separate
// lanes. Other mail is sent before it.
import { MINUTE } from '../../base/clock.ts'
import type { MailTransaction } from '../queue/transaction.ts'
import type { Route } from '../wire/connect.ts'
import { domainOf, isBulk } from '../../message/lane-names.ts'
import type { Limits } from '../../smtp/shaping.ts'
import { Learned, Width } from './concurrency.ts'

/** Emails claimed ahead for each connection. */
const AHEAD = 4
/** The part of a lane's capacity that is free before more campaign mail is claimed. */
const BULK_PAGE = 1 / 4
/** How long a route is used before it is looked up again. */
const ROUTE_LIFETIME = 5 * MINUTE
const MAX_PAUSE = 30 * MINUTE

/** The part of connections and memory that campaigns may use. The rest is reserved for other mail. */
const BULK_SHARE = 0.75

/** How much of a shared limit campaign mail (`bulk`) or other mail may use. */
export const shareOf = (most: number, bulk: boolean): number => (bulk ? Math.ceil(most * BULK_SHARE) : most)

export class Lane {
  readonly name: string
  /** The recipient domain. */
  readonly domain: string
  readonly bulk: boolean
  /** When the next queued email is due, or null if unknown. */
  due: number | null = null
  /** Claimed mail that waits for a connection. */
  readonly waiting: MailTransaction[] = []
  /** Unfinished writes about the lane's mail. The lane claims no mail until they are done. */
  unwritten = 0
  inHand = 0
  /** New emails that are being stored as claimed. */
  coming = 0
  /** The route to its receiving servers, or null if it was not found yet. */
  route: Route | null = null
  routing = false
  limits: Limits
  /**
   * The lanes to which its mail may be bound, the first choice first (queue/ways.ts). Contains only the lane itself
   * without a choice.
   */
  choices: readonly string[] = []
  /** The operator holds the lane: its mail is not claimed. */
  held = false
  /** No new work before this time: no connection to its receiving servers works. */
  pausedUntil = 0
  /** When that pause began. */
  pausedAt = 0
  #pause = 0

  /** The learned number of connections for the lane's mail, from refusals that are about this domain only. */
  readonly width = new Width()
  /** The learned limits of the lane's receiving servers. */
  readonly learned: Learned

  constructor(name: string, limits: Limits, learned = new Learned()) {
    this.learned = learned
    this.name = name
    this.bulk = isBulk(name)
    this.domain = domainOf(name)
    this.limits = limits
  }

  /** How many more emails may be claimed now. */
  capacity(now: number): number {
    if (this.held || now < this.pausedUntil || this.unwritten > 0) return 0
    const most = this.limits.domain_connections * AHEAD
    const ahead = most - this.inMemory
    // A page costs as many statements as an email: while some waits, campaign mail is claimed in parts of the capacity.
    if (this.bulk && this.waiting.length > 0 && ahead < most * BULK_PAGE) return 0
    return Math.min(ahead, this.learned.pace.capacity(now))
  }

  /** When there may be mail to claim that goes out by the lane `to`, or null if no due time is known. */
  wakeAt(to: Lane): number | null {
    return this.due === null || this.held ? null : Math.max(this.due, to.pausedUntil, to.learned.pace.nextAt())
  }

  /** Emails in memory, including those that are being stored. */
  get inMemory(): number {
    return this.waiting.length + this.inHand + this.coming
  }

  knowsRoute(now: number): boolean {
    return this.route !== null && now - this.route.at < ROUTE_LIFETIME
  }

  /** Waits before the next connection: a minute, doubling to half an hour, until `relax`. */
  backOff(now: number): void {
    // A connection that fails during a pause has the same cause as the pause.
    if (now < this.pausedUntil) return
    this.#pause = Math.min(this.#pause === 0 ? MINUTE : this.#pause * 2, MAX_PAUSE)
    this.pausedAt = now
    this.pausedUntil = Math.max(this.pausedUntil, now + this.#pause)
  }

  /** Takes over the pause of lanes with the same receiving servers, for which no connection works. */
  pausedWith({ at, until }: { at: number; until: number }): void {
    if (until <= this.pausedUntil) return
    this.#pause = until - at
    this.pausedAt = at
    this.pausedUntil = until
  }

  /** Ends such a pause, because a receiving server accepts mail again. A longer pause of the lane itself stays. */
  reopen({ until }: { until: number }, now: number): void {
    if (this.pausedUntil > until) return
    this.#pause = 0
    this.pausedUntil = Math.min(this.pausedUntil, now)
  }

  /** Ends every pause, because the clock was set and the pauses were measured with the old time. */
  resume(now: number): void {
    this.pausedUntil = Math.min(this.pausedUntil, now)
  }

  /** Allows no new work before a time, for reasons that are not about the receiving server. */
  pauseUntil(time: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, time)
  }

  /** The end of a pause because no connection worked, or null if there is no such pause now. */
  pauseLearned(now: number): number | null {
    return this.#pause > 0 && this.pausedUntil > now ? this.pausedUntil : null
  }

  relax(): void {
    this.#pause = 0
  }

  /** The lane has no mail and no known due time: it can be dropped. */
  get empty(): boolean {
    return this.due === null && this.inMemory === 0 && this.unwritten === 0 && !this.routing
  }
}

/** The most emails in memory for all lanes of a provider together. */
export const providerShareOf = ({ limits }: Lane): number =>
  limits.provider_connections === 0 ? Infinity : limits.provider_connections * AHEAD

/** Emails in memory by provider: a provider at its limit must not fill the memory that others need. */
export function heldByProvider(lanes: Iterable<Lane>): Map<string, number> {
  const held = new Map<string, number>()
  for (const { inMemory, limits } of lanes) held.set(limits.name, (held.get(limits.name) ?? 0) + inMemory)
  return held
}

/**
 * Whether a lane may claim a new email, which goes out by the lane `to`, before queued mail: no queued mail is due, and
 * `lanes` leave capacity for it.
 */
export function mayClaimNew(lane: Lane, to: Lane, lanes: Iterable<Lane>, now: number): boolean {
  if (Math.min(lane.due ?? Infinity, to.due ?? Infinity) <= now || to.capacity(now) <= 0) return false
  const most = providerShareOf(to)
  if (most === Infinity) return true
  let held = 0
  for (const { inMemory, limits } of lanes) if (limits.name === to.limits.name) held += inMemory
  return held < most
}
