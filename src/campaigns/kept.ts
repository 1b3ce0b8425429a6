// Keeps results in memory for each reader: a transaction is a separate reader, and counts the rows that it sees.
import { keepNewest } from '../base/maps.ts'
import type { Reader } from '../store/database.ts'

class NewestResults<Result> extends Map<number, Result> {
  readonly #most: number

  constructor(most: number) {
    super()
    this.#most = most
  }

  override set(key: number, result: Result): this {
    super.set(key, result)
    keepNewest(this, this.#most)
    return this
  }
}

/** Returns a function that returns the results of a reader by key, of which the newest `most` are kept. */
export function keptPerReader<Result>(most: number): (reader: Reader) => Map<number, Result> {
  const readers = new WeakMap<Reader, Map<number, Result>>()
  return (reader) => {
    const kept = readers.get(reader) ?? new NewestResults<Result>(most)
    readers.set(reader, kept)
    return kept
  }
}
