// Frees large buffers at once when they are no longer needed: the garbage collector frees memory outside its heap late,
// when several mails of 40 MB may have gathered.

const LARGE = 1024 * 1024

/** Frees the memory of a buffer of 1 MB or more. It must own its ArrayBuffer and must not be read again. */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (bytes.byteLength >= LARGE && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

/** A limit in octets for all objects of one kind in memory, such as request bodies under way (D74). */
export class Budget {
  readonly #most: number
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Reserves octets; false when too few are left. */
  take(octets: number): boolean {
    if (this.#taken + octets > this.#most) return false
    this.#taken += octets
    return true
  }

  /** Returns octets that `take` reserved. */
  giveBack(octets: number): void {
    this.#taken -= octets
  }

  get taken(): number {
    return this.#taken
  }
}
