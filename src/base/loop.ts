// The due-time loop, which runs every queue. A queue is a table whose rows have the time at which they are due. A loop
// does all work that is due, gets the time of the next due row, and sleeps until then or until `ring` is called.
//
// Guarantees:
// - A loop never runs twice at the same time.
// - `ring` during a run causes another run.
// - A fault is logged. The loop continues after a pause that doubles from one second to a minute.
// - stop() waits for the run in progress.
import { MINUTE, SECOND, type Cancel, type Clock } from './clock.ts'
import type { Log } from './log.ts'

export interface LoopOptions {
  name: string
  clock: Clock
  log: Log
  /** Does all work that is due. Returns the time at which the next work is due, or null if the queue is empty. */
  run: (now: number) => Promise<number | null> | number | null
}

export class Loop {
  readonly #options: LoopOptions
  #running: Promise<void> | null = null
  #rung = false
  #started = false
  #cancel: Cancel | null = null
  #pause = SECOND

  constructor(options: LoopOptions) {
    this.#options = options
  }

  /** Starts the loop and its first run. Before the start, `ring` has no effect. */
  start(): void {
    this.#started = true
    this.ring()
  }

  /** Wakes the loop, because work may be due. Cheap, and safe at any time. */
  ring(): void {
    if (!this.#started) return
    this.#rung = true
    if (this.#running === null) {
      this.#running = this.#turn().finally(() => {
        this.#running = null
        if (this.#rung && this.#started) this.ring()
      })
    }
  }

  /** Stops the loop. Resolves after the current run. */
  async stop(): Promise<void> {
    this.#started = false
    this.#cancel?.()
    await this.#running
  }

  async #turn(): Promise<void> {
    const { clock, log, name, run } = this.#options
    // Several calls of `ring` in one turn of the event loop cause one run.
    await Promise.resolve()
    let next: number | null = null
    while (this.#rung && this.#started) {
      this.#rung = false
      try {
        next = await run(clock.now())
        this.#pause = SECOND
      } catch (thrown) {
        log.fault(`loop ${name}`, thrown)
        next = clock.now() + this.#pause
        this.#pause = Math.min(this.#pause * 2, MINUTE)
      }
    }
    this.#cancel?.()
    this.#cancel = next === null || !this.#started ? null : clock.wake(next, () => this.ring())
  }
}
