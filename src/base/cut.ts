// Waits that a stop can cut short: a DNS answer or a web server may take longer than the process has left.

export class Cut {
  #isCut = false
  readonly #waits = new Set<() => void>()

  /** Returns the result of `work`, or `instead` if the cut came first. */
  or<T>(work: Promise<T>, instead: T): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = (): void => resolve(instead)
      this.#waits.add(end)
      void work.then(resolve, reject).finally(() => this.#waits.delete(end))
      if (this.#isCut) end()
    })
  }

  /** Cuts all waits short, including later ones. */
  cut(): void {
    this.#isCut = true
    for (const end of this.#waits) end()
  }
}
