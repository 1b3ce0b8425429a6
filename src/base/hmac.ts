// HMAC-SHA-256 (RFC 2104) of short texts under one key. A mail of a campaign has a handful of them: two hashes at once
// take half as long as an Hmac object.
import { hash } from 'node:crypto'

const BLOCK = 64
const DIGEST = 32
/** Room for the texts, which are copied behind the padded key. */
const ROOM = 1024

export class HmacKey {
  readonly #inner = Buffer.alloc(BLOCK + ROOM)
  readonly #outer = Buffer.alloc(BLOCK + DIGEST)

  /** The key is copied; it has at most 64 octets. */
  constructor(key: Uint8Array) {
    if (key.length > BLOCK) throw new RangeError('An HMAC key has at most 64 octets.')
    for (let at = 0; at < BLOCK; at++) {
      const octet = key[at] ?? 0
      this.#inner[at] = octet ^ 0x36
      this.#outer[at] = octet ^ 0x5c
    }
  }

  /** The HMAC as text: latin1 has a character for each octet. */
  of(text: string | Uint8Array, as: 'latin1' | 'base64url'): string {
    const size = typeof text === 'string' ? Buffer.byteLength(text) : text.length
    const inner = size <= ROOM ? this.#inner : Buffer.concat([this.#inner.subarray(0, BLOCK)], BLOCK + size)
    if (typeof text === 'string') inner.write(text, BLOCK)
    else inner.set(text, BLOCK)
    this.#outer.write(hash('sha256', inner.subarray(0, BLOCK + size), 'latin1'), BLOCK, 'latin1')
    return hash('sha256', this.#outer, as)
  }
}
