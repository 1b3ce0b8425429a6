// Large buffers that are done with are given back at once: the collector comes for memory outside its heap when it likes, and
// a few mails of 40 MB would be there by then.

const LARGE = 1024 * 1024

/** Frees the memory behind a large buffer, which must be its own and must not be read again. */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (bytes.byteLength >= LARGE && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

/** Octets that everything of one kind may hold in memory together: request bodies under way (D74). */
export class Budget {
  readonly #most: number
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Takes octets; false when there are not so many left. */
  take(octets: number): boolean {
    if (this.#taken + octets > this.#most) return false
    this.#taken += octets
    return true
  }

  giveBack(octets: number): void {
    this.#taken -= octets
  }

  get taken(): number {
    return this.#taken
  }
}
