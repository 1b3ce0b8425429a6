// The number of mails per second that an exchanger accepts from us, as learned (D64). A lane has no pace until a rate
// answer ("rate limit exceeded") arrives. Then the pace is half of the rate that was accepted lately. It rises quickly
// to just below that rate, and slowly beyond it.
import { HOUR, SECOND } from '../../base/clock.ts'

/** The accepted rate is measured over this many seconds. */
const OBSERVED = 10
const SLOWEST = 1 / 60
/** A pace above this, in mails per second, means no limit. */
const UNLIMITED = 1000
const RAISE_EVERY = SECOND
/**
 * Near and above the rate that was refused last, the pace is raised after this time. The first step is this part of the
 * pace, and each further step is twice as large.
 */
const PROBE_EVERY = 10 * SECOND
const FIRST_PROBE = 0.05
/** The part of the rate that was refused last to which the pace comes back quickly. */
const NEAR = 0.9
/** The most mails that may go at once, in seconds of the pace. */
const BURST = 0.2
const REMEMBERED = HOUR

/** After this many rate answers to a mail, a further one counts as an attempt, like any other 4xx. */
const SPARED = 8
const MAX_KNOWN = 10_000

export class Pace {
  #perSecond = Infinity
  /** The rate that was refused last. */
  #wall = Infinity
  #slowedAt = -Infinity
  #raisedAt = 0
  #probe = FIRST_PROBE
  /** The pace before its last rise: the exchanger accepted that rate. */
  #held = 0
  /** The number of mails that might go at `#creditAt`. */
  #credit = 0
  #creditAt = 0
  /** The number of accepted mails, by second. */
  #taken: { second: number; mails: number }[] = []
  readonly #spared = new Map<number, number>()

  /** Mails per second; Infinity when nothing is known. */
  get perSecond(): number {
    return this.#perSecond
  }

  /** Restores a pace that this process or an earlier one learned at the time `at`. */
  restore(perSecond: number, at: number): void {
    this.#perSecond = this.#wall = perSecond
    this.#slowedAt = this.#raisedAt = this.#creditAt = at
  }

  /** The time of the last lesson; -Infinity for never. */
  get learnedAt(): number {
    return this.#slowedAt
  }

  /** How many mails may go now. */
  room(now: number): number {
    if (this.stale(now)) this.#perSecond = Infinity
    // The small addition keeps a rounding error from delaying a mail that is due exactly now.
    return this.#perSecond === Infinity ? Infinity : Math.max(0, Math.floor(this.#creditOf(now) + 1e-6))
  }

  /** When the next mail may go; 0 when there is no pace. */
  nextAt(): number {
    if (this.#perSecond === Infinity) return 0
    return Math.ceil(this.#creditAt + (Math.max(0, 1 - this.#credit) / this.#perSecond) * SECOND)
  }

  /** Call it when this many mails go. */
  went(mails: number, now: number): void {
    if (this.#perSecond === Infinity) return
    this.#credit = this.#creditOf(now) - mails
    this.#creditAt = now
  }

  /** Call it when a mail was accepted. */
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
   * Call it when a mail whose attempt began at `begunAt` got a rate answer. The answer is ignored if the attempt began
   * before the last rate answer that counted: it tells nothing new.
   */
  refused(begunAt: number, now: number): void {
    if (begunAt <= this.#slowedAt) return
    this.#wall = Math.min(this.#perSecond, Math.max(this.#observed(now), this.#held) || 1)
    this.#held = 0
    this.#change(Math.max(SLOWEST, this.#wall / 2), now)
    // The next mail waits a second longer: receivers count mails per second, and the present second is used up.
    this.#credit = Math.min(0, this.#credit) - this.#perSecond
    this.#slowedAt = now
    this.#raisedAt = now
    this.#probe = FIRST_PROBE
  }

  /** Whether the attempt of a delivery that got a rate answer is not counted. */
  spares(delivery: number): boolean {
    const times = this.#spared.get(delivery) ?? 0
    if (times >= SPARED || (times === 0 && this.#spared.size >= MAX_KNOWN)) return false
    this.#spared.set(delivery, times + 1)
    return true
  }

  /** Call it when a delivery has ended. */
  ended(delivery: number): void {
    this.#spared.delete(delivery)
  }

  /** Whether the last lesson is so old that it no longer counts. */
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

  /** The mails per second that were accepted lately. */
  #observed(now: number): number {
    const second = Math.floor(now / SECOND)
    const lately = this.#taken.filter((taken) => second - taken.second < OBSERVED)
    const first = lately[0]?.second ?? second
    return lately.reduce((sum, { mails }) => sum + mails, 0) / Math.max(1, Math.min(OBSERVED, second - first))
  }
}
