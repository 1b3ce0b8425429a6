// Counts the queued emails of each campaign that were not attempted yet. The runner (run.ts) reports queued emails, and
// the composer's source (letters.ts) reports first attempts.
import { must } from '../base/errors.ts'
import { SECOND, type Clock } from '../base/clock.ts'

/** The maximum number of a campaign's emails that wait for their first attempt. */
const MOST = 1000
/**
 * If no email was attempted for this time (ms), the receiving servers of the queued emails are slow, so more emails are
 * queued.
 */
const STUCK = SECOND / 4

export class QueuedAhead {
  readonly #clock: Clock
  readonly #ahead = new Map<number, number>()
  /** The time of the last first attempt. */
  readonly #moved = new Map<number, number>()
  #half: () => void = () => {}

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Calls `half` when half of the maximum was attempted. */
  onHalf(half: () => void): void {
    this.#half = half
  }

  queued(campaign: number, mails: number): void {
    this.#ahead.set(campaign, (this.#ahead.get(campaign) ?? 0) + mails)
    this.#moved.set(campaign, this.#clock.now())
  }

  /** Must be called at the first attempt of each email. */
  attempted(campaign: number): void {
    const ahead = (this.#ahead.get(campaign) ?? 1) - 1
    this.#ahead.set(campaign, ahead)
    this.#moved.set(campaign, this.#clock.now())
    if (ahead === MOST / 2) this.#half()
  }

  /** The time at which more emails are queued without an attempt, or null if the maximum is not reached. */
  stuckAt(campaign: number): number | null {
    return (this.#ahead.get(campaign) ?? 0) < MOST
      ? null
      : must(this.#moved.get(campaign), 'The time of the last move') + STUCK
  }

  forget(campaign: number): void {
    this.#ahead.delete(campaign)
  }

  forgetAll(): void {
    this.#ahead.clear()
    this.#moved.clear()
  }
}
