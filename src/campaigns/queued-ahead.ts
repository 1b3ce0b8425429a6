// Counts for each campaign the mails that are queued and not attempted yet. The runner (run.ts) reports queued mails,
// and the letters (letters.ts) report first attempts.
import { must } from '../base/errors.ts'
import { SECOND, type Clock } from '../base/clock.ts'

/** The most mails of a campaign that wait for their first attempt. */
const MOST = 1000
/**
 * When no mail was attempted for this time (ms), the exchangers
 * of the waiting mails are slow, and more mails are queued.
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

  /** Calls `half` when half of the mails that may wait were attempted. */
  onHalf(half: () => void): void {
    this.#half = half
  }

  queued(campaign: number, mails: number): void {
    this.#ahead.set(campaign, (this.#ahead.get(campaign) ?? 0) + mails)
    this.#moved.set(campaign, this.#clock.now())
  }

  /** Call it when a mail was attempted for the first time. */
  attempted(campaign: number): void {
    const ahead = (this.#ahead.get(campaign) ?? 1) - 1
    this.#ahead.set(campaign, ahead)
    this.#moved.set(campaign, this.#clock.now())
    if (ahead === MOST / 2) this.#half()
  }

  /** The time at which more mails are queued although none was attempted; null when there is room for more mails. */
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
