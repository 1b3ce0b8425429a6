// The number of connections that an exchanger accepts from us at once, as learned (D64). A connection that is refused
// while another works lowers the number; successes raise it slowly. It is kept until an hour after the last refusal,
// even when the lane has ended.
import { HOUR, SECOND } from '../base/clock.ts'

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

  /** A connection was refused while `open` connections existed, this one included. */
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

  /** Whether the last refusal is too long ago to matter. */
  stale(now: number): boolean {
    return now - this.#refusedAt >= REMEMBERED
  }
}

/** Learned widths by lane. */
export class Widths {
  readonly #known = new Map<string, Width>()

  of(lane: string): Width {
    const known = this.#known.get(lane) ?? new Width()
    this.#known.set(lane, known)
    return known
  }

  /** Forgets what is too old; `inUse` says which lanes exist. */
  sweep(now: number, inUse: (lane: string) => boolean): void {
    for (const [lane, width] of this.#known) if (!inUse(lane) && width.stale(now)) this.#known.delete(lane)
  }
}
