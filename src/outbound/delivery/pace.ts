// How many mails a second an exchanger takes from us, as it was learned (D64). A lane has no pace until a rate answer
// ("rate limit exceeded") comes: then it goes at half of what was taken lately, comes back quickly to just below that,
// and beyond it slowly.
import { HOUR, SECOND } from '../../base/clock.ts'

/** What was taken is looked at over so many seconds. */
const OBSERVED = 10
const SLOWEST = 1 / 60
/** Faster than this is no limit, in mails per second. */
const UNLIMITED = 1000
const RAISE_EVERY = SECOND
/**
 * Above the rate that was refused last, the pace is raised this seldom; the first step is this part, and each further
 * one twice as large.
 */
const PROBE_EVERY = 10 * SECOND
const FIRST_PROBE = 0.05
/** The part of the rate that was refused last to which the pace comes back quickly. */
const NEAR = 0.9
/** Mails that may go at once, in seconds of the pace. */
const BURST = 0.2
const REMEMBERED = HOUR

/** So often a mail that got a rate answer goes back with its attempt. Then it has had one, as after any other 4xx. */
const SPARED = 8
const MAX_KNOWN = 10_000

export class Pace {
  #perSecond = Infinity
  /** The rate that was refused last. */
  #wall = Infinity
  #slowedAt = -Infinity
  #raisedAt = 0
  #probe = FIRST_PROBE
  /** The pace before it was raised last: that was taken. */
  #held = 0
  /** Mails that might go at `#creditAt`. */
  #credit = 0
  #creditAt = 0
  /** Mails taken, by second. */
  #taken: { second: number; mails: number }[] = []
  readonly #spared = new Map<number, number>()

  /** Mails per second; Infinity when nothing is known. */
  get perSecond(): number {
    return this.#perSecond
  }

  /** What was learned at a time, by this process or an earlier one. */
  restore(perSecond: number, at: number): void {
    this.#perSecond = this.#wall = perSecond
    this.#slowedAt = this.#raisedAt = this.#creditAt = at
  }

  /** When it was learned last; -Infinity for never. */
  get learnedAt(): number {
    return this.#slowedAt
  }

  /** How many mails may go now. */
  room(now: number): number {
    if (this.stale(now)) this.#perSecond = Infinity
    // What is due to the millisecond is not late by a rounding.
    return this.#perSecond === Infinity ? Infinity : Math.max(0, Math.floor(this.#creditOf(now) + 1e-6))
  }

  /** When the next mail may go; 0 when there is no pace. */
  nextAt(): number {
    if (this.#perSecond === Infinity) return 0
    return Math.ceil(this.#creditAt + (Math.max(0, 1 - this.#credit) / this.#perSecond) * SECOND)
  }

  /** So many mails go now. */
  went(mails: number, now: number): void {
    if (this.#perSecond === Infinity) return
    this.#credit = this.#creditOf(now) - mails
    this.#creditAt = now
  }

  /** A mail was taken. */
  succeeded(now: number): void {
    const second = Math.floor(now / SECOND)
    const last = this.#taken.at(-1)
    if (last?.second === second) last.mails++
    else {
      this.#taken.push({ second, mails: 1 })
      if (this.#taken.length > OBSERVED) this.#taken.shift()
    }
    if (this.#perSecond === Infinity || now - this.#raisedAt < RAISE_EVERY) return
    const near = this.#wall * NEAR
    const before = this.#perSecond
    if (this.#perSecond < near) {
      this.#change(Math.min(near, this.#perSecond + this.#wall / 10), now)
    } else {
      if (now - this.#raisedAt < PROBE_EVERY) return
      this.#change(this.#perSecond * (1 + this.#probe), now)
      this.#probe = Math.min(1, this.#probe * 2)
    }
    this.#held = before
    this.#raisedAt = now
    if (this.#perSecond > UNLIMITED) this.#perSecond = Infinity
  }

  /**
   * A mail whose attempt began at a time got a rate answer. Answers to mails that were under way at the last one say
   * nothing new.
   */
  refused(begunAt: number, now: number): void {
    if (begunAt <= this.#slowedAt) return
    this.#wall = Math.min(this.#perSecond, Math.max(this.#observed(now), this.#held) || 1)
    this.#held = 0
    this.#change(Math.max(SLOWEST, this.#wall / 2), now)
    // A second passes first: receivers count by the second, and the present one is used up.
    this.#credit = Math.min(0, this.#credit) - this.#perSecond
    this.#slowedAt = now
    this.#raisedAt = now
    this.#probe = FIRST_PROBE
  }

  /** Whether the attempt of a delivery that got a rate answer is given back. */
  spares(delivery: number): boolean {
    const times = this.#spared.get(delivery) ?? 0
    if (times >= SPARED || (times === 0 && this.#spared.size >= MAX_KNOWN)) return false
    this.#spared.set(delivery, times + 1)
    return true
  }

  /** A delivery has its end. */
  ended(delivery: number): void {
    this.#spared.delete(delivery)
  }

  /** Whether nothing is remembered that would still matter. */
  stale(now: number): boolean {
    return now - this.#slowedAt >= REMEMBERED
  }

  #change(perSecond: number, now: number): void {
    this.#credit = this.#creditOf(now)
    this.#creditAt = now
    this.#perSecond = perSecond
  }

  #creditOf(now: number): number {
    if (this.#perSecond === Infinity) return 0
    const most = Math.max(1, this.#perSecond * BURST)
    return Math.min(most, this.#credit + ((now - this.#creditAt) / SECOND) * this.#perSecond)
  }

  /** Mails per second that were taken lately. */
  #observed(now: number): number {
    const second = Math.floor(now / SECOND)
    const lately = this.#taken.filter((taken) => second - taken.second < OBSERVED)
    const first = lately[0]?.second ?? second
    return lately.reduce((sum, { mails }) => sum + mails, 0) / Math.max(1, Math.min(OBSERVED, second - first))
  }
}
