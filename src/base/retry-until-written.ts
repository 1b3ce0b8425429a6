// Repeats writes that must not be lost: until the store has the result of an email, only this process knows it.
//
// Guarantees: a failed write is tried again after a second, doubling to half a minute, as long as the process runs.
// After `tryOften` it is tried every quarter of a second until `giveUp`. A write that is given up is logged by name. It
// is not thrown.
import { SECOND, type Clock } from './clock.ts'
import type { Log } from './log.ts'
import type { Troubles } from './trouble.ts'

const LONGEST_PAUSE = 30 * SECOND
const PAUSE_AT_END = 250

export class PersistentWrites {
  readonly #clock: Clock
  readonly #log: Log
  readonly #troubles: Troubles
  readonly #sleepers = new Set<() => void>()
  #ending = false
  #over = false

  constructor({ clock, log, troubles }: { clock: Clock; log: Log; troubles: Troubles }) {
    this.#clock = clock
    this.#log = log
    this.#troubles = troubles
  }

  /**
   * Runs `write` until it succeeds. Resolves with its value, or with undefined after `giveUp`: `what` then returns the
   * name of the lost write for the log. `waits` is called with true when the first try fails, and with false when a
   * later try succeeds or the write is given up.
   */
  async write<T>(
    what: () => string,
    write: () => Promise<T>,
    waits: (failing: boolean) => void = () => {},
  ): Promise<T | undefined> {
    let failed = false
    for (let pause = SECOND; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      try {
        const value = await write()
        if (failed) {
          waits(false)
          this.#troubles.clear('store')
        }
        return value
      } catch (thrown) {
        this.#troubles.report(
          'store',
          'The database cannot be written. Delivery results are kept in memory until it can be.',
          thrown,
        )
        if (!failed) waits(true)
        failed = true
        if (this.#over) {
          waits(false)
          this.#log.error('result_not_stored', { what: what() })
          return undefined
        }
        await this.#sleep(pause)
      }
    }
  }

  /** Call it when the process is about to stop: waiting writes are tried at once, and often. */
  tryOften(): void {
    this.#ending = true
    this.#wake()
  }

  /** Tries pending writes once more, and then gives them up. */
  giveUp(): void {
    this.#over = true
    this.tryOften()
  }

  #wake(): void {
    for (const wake of this.#sleepers) wake()
  }

  #sleep(pause: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        cancel()
        this.#sleepers.delete(end)
        resolve()
      }
      // At shutdown, real time counts, not the clock that tests set.
      const timer = this.#ending ? setTimeout(end, PAUSE_AT_END) : undefined
      const cancel = timer ? () => clearTimeout(timer) : this.#clock.wake(this.#clock.now() + pause, end)
      this.#sleepers.add(end)
    })
  }
}
