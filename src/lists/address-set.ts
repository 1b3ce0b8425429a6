// Remembers the addresses of a file as a set of 64-bit digests, about 16 octets each, so that millions fit into memory.
import { hash } from 'node:crypto'

export class Seen {
  #slots = new BigUint64Array(1024)
  #count = 0

  /** False when the text is in the set already. */
  add(text: string): boolean {
    // 0 is an empty slot.
    const digest = hash('sha1', text, 'buffer').readBigUInt64LE() || 1n
    if (!this.#put(digest)) return false
    if (++this.#count * 2 > this.#slots.length) this.#grow()
    return true
  }

  #put(digest: bigint): boolean {
    const mask = this.#slots.length - 1
    let at = Number(digest & 0xffff_ffffn) & mask
    for (; this.#slots[at] !== 0n; at = (at + 1) & mask) if (this.#slots[at] === digest) return false
    this.#slots[at] = digest
    return true
  }

  #grow(): void {
    const before = this.#slots
    this.#slots = new BigUint64Array(before.length * 2)
    for (const digest of before) if (digest !== 0n) this.#put(digest)
  }
}
