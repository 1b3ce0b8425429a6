// A lane is all mail for one recipient domain: it has its own connections, its own due time and its own patience, so that a
// slow or refusing exchanger holds up nobody else.
import { MINUTE, SECOND } from '../base/clock.ts'
import type { Host } from '../smtp/route.ts'
import type { Consignment } from './claim.ts'

/** Connections at once to one recipient domain. */
export const LANE_CONNECTIONS = 20
/** Mails claimed ahead for each connection. */
const AHEAD = 4
/** Mails on one connection before a new one is opened. */
export const MAILS_PER_CONNECTION = 200
/** How long an unused connection is kept. */
export const IDLE = 3 * SECOND
/** How long the exchangers of a domain are believed. */
const ROUTE_LIFETIME = 5 * MINUTE
const MAX_PAUSE = 30 * MINUTE

export class Lane {
  readonly domain: string
  /** When the next mail in the store is due; null when none is known. */
  due: number | null = null
  /** Claimed and waiting for a connection. */
  readonly waiting: Consignment[] = []
  /** Running senders. */
  senders = 0
  /** Consignments in the hands of senders. */
  inHand = 0
  /** Senders without work, each waiting to be handed some. */
  readonly idle: ((work: Consignment | undefined) => void)[] = []
  route: { hosts: Host[]; at: number } | null = null
  /** No new work before this time: the exchanger asked for patience (421) or cannot be reached. */
  pausedUntil = 0
  /** When that pause began. */
  pausedAt = 0
  #pause = 0

  constructor(domain: string) {
    this.domain = domain
  }

  /** How many more mails may be claimed now. */
  room(now: number): number {
    return now < this.pausedUntil ? 0 : LANE_CONNECTIONS * AHEAD - this.waiting.length - this.inHand
  }

  /** When there may be something to claim; null when nothing is known of. */
  wakeAt(): number | null {
    return this.due === null ? null : Math.max(this.due, this.pausedUntil)
  }

  routeAt(now: number): Host[] | undefined {
    return this.route && now - this.route.at < ROUTE_LIFETIME ? this.route.hosts : undefined
  }

  /** Waits before the next connection: a minute, doubling to half an hour, until `relax`. */
  backOff(now: number): void {
    // Connections that fail together are one failure.
    if (now < this.pausedUntil) return
    this.#pause = Math.min(this.#pause === 0 ? MINUTE : this.#pause * 2, MAX_PAUSE)
    this.pausedAt = now
    this.pausedUntil = Math.max(this.pausedUntil, now + this.#pause)
  }

  relax(): void {
    this.#pause = 0
  }

  /** Nothing to remember: the lane may be forgotten. */
  get empty(): boolean {
    return this.due === null && this.waiting.length === 0 && this.senders === 0
  }
}
