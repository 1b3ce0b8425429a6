// Counts the values of a JSON text while it is read, before it is parsed: a few megabytes of brackets or commas would
// need a hundred times as much memory, and block the event loop for seconds. The text need not be valid: JSON.parse
// finds that.
import { refuse } from '../base/errors.ts'

/** The most values of a request, containers included, and the most levels of nesting (D74). */
export const MAX_VALUES = 100_000
export const MAX_LEVELS = 64

const QUOTE = 0x22
const COMMA = 0x2c
const BACKSLASH = 0x5c

export class JsonGuard {
  #values = 1
  #level = 0
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
      else if (byte === COMMA) this.#values++
      // [ and { differ in one bit, ] and } too.
      else if ((byte | 0x20) === 0x7b) {
        this.#values++
        this.#level++
        if (this.#level > MAX_LEVELS)
          throw refuse('invalid_document', `The request document may be nested ${MAX_LEVELS} levels deep.`, {
            pointer: '',
          })
      } else if ((byte | 0x20) === 0x7d) this.#level--
      if (this.#values > MAX_VALUES)
        throw refuse('invalid_document', `The request document may hold ${MAX_VALUES} values.`, { pointer: '' })
    }
  }

  /** The offset at which a string ends, or the last octet when it goes on. */
  #string(bytes: Uint8Array, from: number): number {
    let at = from
    if (this.#escaped) {
      this.#escaped = false
      at++
    }
    for (;;) {
      const quote = bytes.indexOf(QUOTE, at)
      const backslash = bytes.subarray(at, quote < 0 ? bytes.length : quote).indexOf(BACKSLASH)
      if (backslash < 0) {
        if (quote < 0) return bytes.length
        this.#inString = false
        return quote
      }
      at += backslash + 2
      if (at > bytes.length) {
        this.#escaped = true
        return bytes.length
      }
    }
  }
}
