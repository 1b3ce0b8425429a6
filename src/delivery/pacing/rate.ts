// The number of emails per second that a receiving server accepts from us, learned from its answers (D64). A lane has
// no pace until a rate answer ("rate limit exceeded") arrives. Then the pace is half of the rate that was accepted
// lately. It rises quickly to just below that rate, and slowly beyond it.
import { HOUR, SECOND } from '../../base/clock.ts'

/** The accepted rate is measured over this many seconds. */
const OBSERVED = 10
const SLOWEST = 1 / 60
/** A pace above this, in emails per second, means no limit. */
const UNLIMITED = 1000
const RAISE_EVERY = SECOND
/**
 * Near and above the rate of the last refusal, the pace is raised after this time. The first step is this part of the
 * pace, and each further step is twice as large.
 */
const PROBE_EVERY = 10 * SECOND
const FIRST_PROBE = 0.05
/** The part of the rate of the last refusal to which the pace returns quickly. */
const NEAR = 0.9
/** The most emails that may be sent at once, in seconds of the pace. */
const BURST = 0.2
const REMEMBERED = HOUR

/** After this many rate answers to an email, a further one counts as an attempt, like any other 4xx. */
const SPARED = 8
const MAX_KNOWN = 10_000

export class Pace {
  #perSecond = Infinity
  /** The rate of the last refusal. */
  #wall = Infinity
  #slowedAt = -Infinity
  #raisedAt = 0
  #probe = FIRST_PROBE
  /** The pace before its last rise: the receiving server accepted that rate. */
  #held = 0
  /** The number of emails that could be sent at `#creditAt`. */
  #credit = 0
  #creditAt = 0
  /** The number of accepted emails, by second. */
  #taken: { second: number; mails: number }[] = []
  readonly #spared = new Map<number, number>()

  /** Emails per second, or Infinity if unlimited. */
  get perSecond(): number {
    return this.#perSecond
  }

  /** Restores a pace that was learned at the time `at`, by this process or an earlier one. */
  restore(perSecond: number, at: number): void {
    this.#perSecond = this.#wall = perSecond
    this.#slowedAt = this.#raisedAt = this.#creditAt = at
  }

  /** The time when the limit was last lowered, or -Infinity for never. */
  get learnedAt(): number {
    return this.#slowedAt
  }

  /** How many emails may be sent now. */
  capacity(now: number): number {
    if (this.stale(now)) this.#perSecond = Infinity
    // The small addition keeps a rounding error from delaying an email that is due exactly now.
    return this.#perSecond === Infinity ? Infinity : Math.max(0, Math.floor(this.#creditOf(now) + 1e-6))
  }

  /** When the next email may be sent, or 0 if there is no pace. */
  nextAt(): number {
    if (this.#perSecond === Infinity) return 0
    return Math.ceil(this.#creditAt + (Math.max(0, 1 - this.#credit) / this.#perSecond) * SECOND)
  }

  /** Call it when this many emails are sent. */
  went(mails: number, now: number): void {
    if (this.#perSecond === Infinity) return
    this.#credit = this.#creditOf(now) - mails
    this.#creditAt = now
  }

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
   * Call it when an email whose attempt began at `begunAt` got a rate answer. The answer is ignored if the attempt
   * began before the last rate answer that counted, because the pace was already lowered for it.
   */
  refused(begunAt: number, now: number): void {
    if (begunAt <= this.#slowedAt) return
    this.#wall = Math.min(this.#perSecond, Math.max(this.#observed(now), this.#held) || 1)
    this.#held = 0
    this.#change(Math.max(SLOWEST, this.#wall / 2), now)
    // The next email waits a second longer: receivers count emails per second, and the present second is used up.
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

  ended(delivery: number): void {
    this.#spared.delete(delivery)
  }

  /** Whether the limit was learned so long ago that it no longer applies. */
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

  /** The recently accepted emails per second. */
  #observed(now: number): number {
    const second = Math.floor(now / SECOND)
    const lately = this.#taken.filter((taken) => second - taken.second < OBSERVED)
    const first = lately[0]?.second ?? second
    return lately.reduce((sum, { mails }) => sum + mails, 0) / Math.max(1, Math.min(OBSERVED, second - first))
  }
}
