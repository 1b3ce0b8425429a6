// A lane is all mail for one recipient domain: it has its own connections, its own due time and its own patience, so that a
// slow or refusing exchanger holds up nobody else. Campaigns have lanes beside those of other mail, which goes before them.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Consignment } from './claim.ts'
import type { Route } from './connect.ts'
import { domainOf, isBulk } from './lane-names.ts'
import type { Limits } from './shaping.ts'
import { Learned } from './width.ts'

/** Mails claimed ahead for each connection. */
const AHEAD = 4
/** How long an unused connection is kept. */
const IDLE = 3 * SECOND
/** How long the exchangers of a domain are believed. */
const ROUTE_LIFETIME = 5 * MINUTE
const MAX_PAUSE = 30 * MINUTE

/** Of connections and of memory, campaigns leave so much to other mail. */
const BULK_SHARE = 0.75

export class Lane {
  readonly name: string
  /** Where its mail goes. */
  readonly domain: string
  readonly bulk: boolean
  /** When the next mail in the store is due; null when none is known. */
  due: number | null = null
  /** Claimed and waiting for a connection. */
  readonly waiting: Consignment[] = []
  /** Running senders. */
  senders = 0
  /** Writes about its mail that wait for the store: until they are done it claims nothing. */
  unwritten = 0
  /** Consignments in the hands of senders. */
  inHand = 0
  /** Senders without work, each waiting to be handed some. */
  readonly idle: ((work: Consignment | undefined) => void)[] = []
  /** The way there, once it was found. */
  route: Route | null = null
  /** The way is being looked for. */
  routing = false
  limits: Limits
  /** The operator holds it: nothing is claimed. */
  held = false
  /** No new work before this time: no connection to its exchangers works. */
  pausedUntil = 0
  /** When that pause began. */
  pausedAt = 0
  #pause = 0

  /** What its exchangers take, as far as that was learned. */
  readonly learned: Learned

  constructor(name: string, limits: Limits, learned = new Learned()) {
    this.learned = learned
    this.name = name
    this.bulk = isBulk(name)
    this.domain = domainOf(name)
    this.limits = limits
  }

  /** What it may have of something that all lanes share. */
  shareOf(most: number): number {
    return this.bulk ? Math.ceil(most * BULK_SHARE) : most
  }

  /** How many more mails may be claimed now. */
  room(now: number): number {
    if (this.held || now < this.pausedUntil || this.unwritten > 0) return 0
    const ahead = this.limits.domain_connections * AHEAD - this.waiting.length - this.inHand
    return Math.min(ahead, this.learned.pace.room(now))
  }

  /** When there may be something to claim; null when nothing is known of. */
  wakeAt(): number | null {
    return this.due === null || this.held ? null : Math.max(this.due, this.pausedUntil, this.learned.pace.nextAt())
  }

  /** How many connections it may have. */
  get width(): number {
    return this.learned.width.of(this.limits.domain_connections)
  }

  knowsWay(now: number): boolean {
    return this.route !== null && now - this.route.at < ROUTE_LIFETIME
  }

  /** Waits before the next connection: a minute, doubling to half an hour, until `relax`. */
  backOff(now: number): void {
    // Connections that fail together are one failure.
    if (now < this.pausedUntil) return
    this.#pause = Math.min(this.#pause === 0 ? MINUTE : this.#pause * 2, MAX_PAUSE)
    this.pausedAt = now
    this.pausedUntil = Math.max(this.pausedUntil, now + this.#pause)
  }

  /** Nothing new before a time; says nothing about the exchanger. */
  pauseUntil(time: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, time)
  }

  /** Until when no connection is tried because none worked; null when that is over. */
  pauseLearned(now: number): number | null {
    return this.#pause > 0 && this.pausedUntil > now ? this.pausedUntil : null
  }

  relax(): void {
    this.#pause = 0
  }

  /** Waits a little for more mail, with an open connection; undefined when none came. */
  idleFor(clock: Clock): Promise<Consignment | undefined> {
    return new Promise((resolve) => {
      const hand = (work: Consignment | undefined): void => {
        cancel()
        resolve(work)
      }
      const cancel = clock.wake(clock.now() + IDLE, () => {
        this.idle.splice(this.idle.indexOf(hand), 1)
        resolve(undefined)
      })
      this.idle.push(hand)
    })
  }

  /** Nothing to remember: the lane may be forgotten. */
  get empty(): boolean {
    return this.due === null && this.waiting.length === 0 && this.senders === 0 && !this.routing
  }
}

/** Mails that may be in memory for all lanes of a provider together. */
export const shareOf = ({ limits }: Lane): number =>
  limits.provider_connections === 0 ? Infinity : limits.provider_connections * AHEAD

/** Mails in memory by provider: one at its limit must not fill the window that others need. */
export function heldByProvider(lanes: Iterable<Lane>): Map<string, number> {
  const held = new Map<string, number>()
  for (const { inHand, limits, waiting } of lanes)
    held.set(limits.name, (held.get(limits.name) ?? 0) + waiting.length + inHand)
  return held
}

/** A sender without work, of a provider's lanes or of any; taken off its lane's list. */
export function someIdle(lanes: Iterable<Lane>, of?: Limits): Lane['idle'][number] | undefined {
  for (const { idle, limits } of lanes) if (idle.length > 0 && (!of || limits.name === of.name)) return idle.shift()
  return undefined
}
