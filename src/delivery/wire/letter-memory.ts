// The memory of large emails that threads compose and send at once (D202): 20 connections to one receiver would hold 20
// emails of 40 MB. A thread requests capacity before it composes a large email, and gives it back when the email was
// sent.
import { memoryHere } from '../../base/memory.ts'

/** Emails of this size (bytes) and more request capacity. */
export const LARGE_LETTER = 1024 * 1024
/** The part of the memory that such emails may have together: each exists about twice while it is made. */
const PART = 8

export class LetterMemory<Holder> {
  readonly #most: number
  readonly #held = new Map<Holder, number>()
  readonly #waiting: { holder: Holder; bytes: number; go: () => void }[] = []
  #taken = 0

  constructor(most = memoryHere() / PART) {
    this.#most = most
  }

  /** Resolves when there is capacity: immediately for an email that is the only one, of any size. */
  take(holder: Holder, bytes: number): Promise<void> {
    return new Promise((go) => {
      this.#waiting.push({ holder, bytes, go })
      this.#next()
    })
  }

  giveBack(holder: Holder, bytes: number): void {
    const held = this.#held.get(holder) ?? 0
    const given = Math.min(held, bytes)
    this.#held.set(holder, held - given)
    this.#taken -= given
    this.#next()
  }

  /** Gives back the memory that a thread held, and drops its requests: the thread has ended. */
  end(holder: Holder): void {
    for (const each of this.#waiting.filter((waiting) => waiting.holder === holder))
      this.#waiting.splice(this.#waiting.indexOf(each), 1)
    this.giveBack(holder, Infinity)
    this.#held.delete(holder)
  }

  #next(): void {
    for (let [first] = this.#waiting; first; [first] = this.#waiting) {
      const { bytes, go, holder } = first
      if (this.#taken > 0 && this.#taken + bytes > this.#most) return
      this.#waiting.shift()
      this.#taken += bytes
      this.#held.set(holder, (this.#held.get(holder) ?? 0) + bytes)
      go()
    }
  }
}
