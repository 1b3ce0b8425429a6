// Waits that can be cut, for a stop: what they wait for (an answer of DNS, of a web server) may take longer than the
// process may live.

export class Cut {
  #isCut = false
  readonly #waits = new Set<() => void>()

  /** What `work` gives; `instead` when it gave nothing before the cut. */
  or<T>(work: Promise<T>, instead: T): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = (): void => resolve(instead)
      this.#waits.add(end)
      void work.then(resolve, reject).finally(() => this.#waits.delete(end))
      if (this.#isCut) end()
    })
  }

  /** Ends all waits, and each further one at once. */
  cut(): void {
    this.#isCut = true
    for (const end of this.#waits) end()
  }
}
