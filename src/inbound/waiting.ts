// Keys of messages that wait until other messages have ended, by the customer that sent them. Customers are served in
// turn.
//
// The lists are in memory and bounded. They only shorten a wait: each message also has a due time in the database, so
// that a message on no list (after a restart, or beyond the bound) is found at that time.

/** The most keys in one list of waiting messages. */
const MAX_KEYS = 100_000

export class Waiting {
  readonly #byCustomer = new Map<string, Set<number>>()
  #size = 0

  add(customer: string, key: number): void {
    if (this.#size >= MAX_KEYS) return
    const keys = this.#byCustomer.get(customer) ?? new Set()
    if (keys.has(key)) return
    this.#byCustomer.set(customer, keys.add(key))
    this.#size++
  }

  /** The number of keys. */
  get size(): number {
    return this.#size
  }

  /** Removes and returns at most `limit` keys, one of each customer in turn, and at most `roomOf` of a customer. */
  take(limit: number, roomOf: (customer: string) => number): number[] {
    const taken: number[] = []
    const counts = new Map<string, number>()
    for (const [customer, keys] of this.#byCustomer) {
      if (taken.length >= limit) break
      const count = counts.get(customer) ?? 0
      if (count >= roomOf(customer)) continue
      counts.set(customer, count + 1)
      const key = keys.values().next().value!
      keys.delete(key)
      taken.push(key)
      // A customer that is removed and added again comes after the others, in this loop as well.
      this.#byCustomer.delete(customer)
      if (keys.size > 0) this.#byCustomer.set(customer, keys)
    }
    this.#size -= taken.length
    return taken
  }
}
