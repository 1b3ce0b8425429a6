// The addresses of a list: read from a record, and remembered.
import { hash } from 'node:crypto'
import { forTerminal } from '../base/clean-text.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import type { Wrong } from './words.ts'

/** The limit of the API. */
const MAX_EMAIL = 320

/** The address of a record, or what is wrong with it. `columns`: how many columns the first line has. */
export function addressIn(record: readonly string[], at: number, columns: number): string | Wrong {
  if (record.length !== columns) return { problem: `has ${record.length} columns, the first line has ${columns}` }
  const text = record[at]!.trim()
  if (text === '') return { problem: 'has no email address' }
  if (Buffer.byteLength(text) > MAX_EMAIL) return { problem: 'is too long for an email address' }
  return contactAddress(text) ?? { problem: `"${forTerminal(text)}" is not an email address` }
}

/** A set of 64-bit digests, about 16 octets each, so that millions fit into memory. */
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
