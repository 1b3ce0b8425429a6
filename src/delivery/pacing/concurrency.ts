// The number of connections that a receiving server accepts from us at once, learned from its answers (D64). A
// connection that is refused while another works lowers the number. Successes raise it slowly. It is kept until an hour
// after the last refusal, even when the lane has ended.
import { HOUR, SECOND } from '../../base/clock.ts'
import { Pace } from './rate.ts'

/** Successes raise the number by one at most this often. */
const RAISE_EVERY = 10 * SECOND
/** Refusals within this time count as one: their connections were opened together. */
const BURST = SECOND
const REMEMBERED = HOUR

export class Width {
  #allowed = Infinity
  #refusedAt = -Infinity
  #raisedAt = 0

  /** Connections that may be open, of `most` that the provider's limits allow. */
  of(most: number): number {
    return Math.min(most, this.#allowed)
  }

  /** Call it when a connection was refused while `open` connections existed, including this one. */
  refused(open: number, now: number): void {
    const halved = now - this.#refusedAt >= BURST ? Math.floor(Math.min(this.#allowed, open) / 2) : open - 1
    this.#allowed = Math.max(1, Math.min(this.#allowed, halved, open - 1))
    this.#refusedAt = now
    this.#raisedAt = now
  }

  succeeded(now: number): void {
    if (now - this.#raisedAt < RAISE_EVERY) return
    this.#allowed++
    this.#raisedAt = now
  }

  /** The learned number of connections, or Infinity if there is no learned limit. */
  get allowed(): number {
    return this.#allowed
  }

  /** The time when the limit was last lowered, or -Infinity for never. */
  get learnedAt(): number {
    return this.#refusedAt
  }

  /** Restores a number that was learned at the time `at`, by this process or an earlier one. */
  restore(allowed: number, at: number): void {
    this.#allowed = allowed
    this.#refusedAt = this.#raisedAt = at
  }

  /** Takes over the number that another lane learned about the same receiving servers, if it is lower. */
  learn(other: Width): void {
    if (other.allowed < this.#allowed) this.restore(other.allowed, Math.max(other.learnedAt, this.#refusedAt))
  }

  /** Whether the limit was learned so long ago that it no longer applies. */
  stale(now: number): boolean {
    return now - this.#refusedAt >= REMEMBERED
  }
}

/** The learned limits of a lane's receiving servers. */
export class Learned {
  /** Shared by all lanes of a group, once the lane has one. */
  width = new Width()
  readonly pace = new Pace()

  /** Whether there is a learned limit. */
  get isAny(): boolean {
    return this.width.allowed < Infinity || this.pace.perSecond < Infinity
  }

  stale(now: number): boolean {
    return this.width.stale(now) && this.pace.stale(now)
  }
}

export class KnownLimits {
  readonly #known = new Map<string, Learned>()

  of(lane: string): Learned {
    const known = this.#known.get(lane) ?? new Learned()
    this.#known.set(lane, known)
    return known
  }

  entries(): IterableIterator<[string, Learned]> {
    return this.#known.entries()
  }

  /** Forgets old limits of lanes that are not in use (`inUse`). */
  sweep(now: number, inUse: (lane: string) => boolean): void {
    for (const [lane, learned] of this.#known) if (!inUse(lane) && learned.stale(now)) this.#known.delete(lane)
  }
}
