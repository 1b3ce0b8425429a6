// Identifiers. Public ids are UUIDv7 (RFC 9562 §5.7): they sort by time of creation, and cannot be guessed (D10).
import { randomBytes, randomFillSync } from 'node:crypto'

const POOL = Buffer.alloc(4096)
let used = POOL.length

/** Random bytes, of a few at a time. They are valid until the next call. */
export function someRandom(count: number): Buffer {
  if (used + count > POOL.length) {
    randomFillSync(POOL)
    used = 0
  }
  return POOL.subarray(used, (used += count))
}

/** A UUIDv7 for a time in ms, with 74 random bits. */
export function newId(now: number): string {
  const noise = someRandom(10)
  const time = now.toString(16).padStart(12, '0')
  const a = ((noise.readUInt16BE(0) & 0x0fff) | 0x7000).toString(16)
  const b = ((noise.readUInt16BE(2) & 0x3fff) | 0x8000).toString(16)
  const node = noise.readUIntBE(4, 6).toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-${a}-${b}-${node}`
}

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** `prefix` and 32 random bytes in base62, 43 digits: the form of bearer tokens (D14). */
export function newSecret(prefix: string): string {
  let number = BigInt(`0x${randomBytes(32).toString('hex')}`)
  let digits = ''
  for (let i = 0; i < 43; i++) {
    digits = BASE62.charAt(Number(number % 62n)) + digits
    number /= 62n
  }
  return prefix + digits
}

const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567'

/** Lower-case base32 (RFC 4648 §6 alphabet, unpadded): it is safe when a receiver changes the case of a local part. */
export function base32(bytes: Uint8Array): string {
  let text = ''
  let bits = 0
  let value = 0
  for (const byte of bytes) {
    value = (value << 8) | byte
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += BASE32.charAt((value >>> bits) & 31)
    }
    value &= (1 << bits) - 1
  }
  return bits > 0 ? text + BASE32.charAt((value << (5 - bits)) & 31) : text
}

/** The bytes of `base32` text in either case, or undefined if it has another character. */
export function fromBase32(text: string): Uint8Array | undefined {
  const bytes: number[] = []
  let bits = 0
  let value = 0
  for (const character of text.toLowerCase()) {
    const digit = BASE32.indexOf(character)
    if (digit < 0) return undefined
    value = (value << 5) | digit
    bits += 5
    if (bits >= 8) {
      bits -= 8
      bytes.push((value >>> bits) & 255)
      value &= (1 << bits) - 1
    }
  }
  return Uint8Array.from(bytes)
}
