// Counts the values of a JSON text while it arrives, before it is parsed: a few megabytes of brackets or commas would
// need a hundred times as much memory, and block the event loop for seconds. The text may be invalid; JSON.parse finds
// that later.
import { refuse } from '../base/errors.ts'

/**
 * The most values in a request (objects and lists included), levels of nesting, and members of one object (D74). No
 * object that the API accepts is as large.
 */
export const MAX_VALUES = 100_000
export const MAX_LEVELS = 64
export const MAX_MEMBERS = 1000

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c
const OPENS_OBJECT = 0x7b
/** Marks a list; its commas are not counted, because a list may be longer than an object. */
const UNCOUNTED = -1

export class JsonGuard {
  #values = 1
  #level = 0
  /** For each open level, the number of commas so far in its object. */
  readonly #members = new Int32Array(MAX_LEVELS + 1).fill(UNCOUNTED)
  #inString = false
  #escaped = false

  /** Reads the next octets. Throws 400 beyond the limits. */
  push(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++) {
      if (this.#inString) {
        at = this.#string(bytes, at)
        continue
      }
      const byte = bytes[at]!
      if (byte === QUOTE) this.#inString = true
      else if (byte === COMMA) this.#comma()
      // [ and { differ in one bit, and so do ] and }.
      else if ((byte | 0x20) === 0x7b) {
        this.#values++
        this.#level++
        if (this.#level > MAX_LEVELS)
          throw refuse('invalid_document', `The request document may be nested ${MAX_LEVELS} levels deep.`, {
            pointer: '',
          })
        // In invalid JSON with too many closing brackets the level is 0 or less.
        if (this.#level > 0) this.#members[this.#level] = byte === OPENS_OBJECT ? 0 : UNCOUNTED
      } else if ((byte | 0x20) === 0x7d) this.#level--
      if (this.#values > MAX_VALUES)
        throw refuse('invalid_document', `The request document may hold ${MAX_VALUES} values.`, { pointer: '' })
    }
  }

  #comma(): void {
    this.#values++
    const members = this.#members[this.#level] ?? UNCOUNTED
    if (members === UNCOUNTED) return
    this.#members[this.#level] = members + 1
    if (members + 2 > MAX_MEMBERS)
      throw refuse('invalid_document', `An object of the request document may have ${MAX_MEMBERS} members.`, {
        pointer: '',
      })
  }

  /** The position where a string ends, or of the last octet when the string goes on. Looks at each octet once. */
  #string(bytes: Uint8Array, from: number): number {
    let at = this.#escaped ? from + 1 : from
    while (at < bytes.length) {
      const byte = bytes[at]!
      if (byte === QUOTE) {
        this.#inString = false
        this.#escaped = false
        return at
      }
      at += byte === BACKSLASH ? 2 : 1
    }
    // The last octet was a backslash: the next octet is escaped, so it does not end the string.
    this.#escaped = at > bytes.length
    return bytes.length
  }
}
