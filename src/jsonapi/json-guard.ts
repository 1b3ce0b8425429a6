// Counts the values of a JSON text while it arrives, before it is parsed: a few megabytes of brackets or commas would
// need a hundred times as much memory, and block the event loop for seconds. The text may be invalid, which JSON.parse
// finds later.
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
/** Marks a list. Its commas are not counted, because a list may be longer than an object. */
const UNCOUNTED = -1

/** Bytes that are read as one string. A larger one would be in memory twice. */
const STEP = 64 * 1024

/** A number in a list counts as this part of a value, where files may arrive as lists of numbers. It needs 8 bytes. */
const NUMBER = 1 / 64

export class JsonGuard {
  readonly #number: number
  #values = 1
  #level = 0
  /** For each open level, the number of commas so far in its object. */
  readonly #members = new Int32Array(MAX_LEVELS + 1).fill(UNCOUNTED)
  #inString = false
  #escaped = false
  /** Whether any input was read. */
  begun = false

  /** `numbers`: whether long lists of numbers are accepted. */
  constructor({ numbers = false } = {}) {
    this.#number = numbers ? NUMBER : 1
  }

  /** Reads the next bytes. Throws 400 beyond the limits. */
  push(bytes: Uint8Array): void {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    // latin1 is one character per byte. Strings are searched natively, so that the end of a long text is found fast.
    for (let at = 0; at < buffer.length; at += STEP) this.read(buffer.toString('latin1', at, at + STEP))
  }

  /** Reads text. All syntax of JSON is ASCII, so a character may be one or more bytes. */
  read(text: string): void {
    this.begun = true
    for (let at = this.#inString ? this.#string(text, 0) : 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      if (code === QUOTE) {
        this.#inString = true
        // The position behind the string. The loop adds one.
        at = this.#string(text, at + 1) - 1
      } else if (code === COMMA) this.#comma(isDigit(text.charCodeAt(at + 1)) ? this.#number : 1)
      // [ and { differ in one bit, and so do ] and }.
      else if ((code | 0x20) === 0x7b) this.#open(code)
      else if ((code | 0x20) === 0x7d) this.#level--
    }
  }

  #open(code: number): void {
    this.#count()
    this.#level++
    if (this.#level > MAX_LEVELS)
      throw refuse(
        'invalid_document',
        `The request document is nested too deeply. The limit is ${MAX_LEVELS} levels.`,
        { pointer: '' },
      )
    // In invalid JSON with too many closing brackets the level is 0 or less.
    if (this.#level > 0) this.#members[this.#level] = code === OPENS_OBJECT ? 0 : UNCOUNTED
  }

  /** `weight`: of the value behind it in a list. */
  #comma(weight: number): void {
    const members = this.#members[this.#level] ?? UNCOUNTED
    this.#count(members === UNCOUNTED ? weight : 1)
    if (members === UNCOUNTED) return
    this.#members[this.#level] = members + 1
    if (members + 2 > MAX_MEMBERS)
      throw refuse(
        'invalid_document',
        `An object in the request document has too many members. The limit is ${MAX_MEMBERS}.`,
        {
          pointer: '',
        },
      )
  }

  #count(weight = 1): void {
    this.#values += weight
    if (this.#values > MAX_VALUES)
      throw refuse('invalid_document', `The request document has too many values. The limit is ${MAX_VALUES}.`, {
        pointer: '',
      })
  }

  /** The position behind the end of the string that is open at `from`, or of the text when the string goes on. */
  #string(text: string, from: number): number {
    // The previous text ended with a backslash: the first character is escaped, so it does not end the string.
    const start = this.#escaped ? from + 1 : from
    this.#escaped = false
    for (let at = start; ; at++) {
      at = text.indexOf('"', at)
      if (at < 0) break
      if (backslashes(text, start, at) % 2 > 0) continue
      this.#inString = false
      return at + 1
    }
    this.#escaped = backslashes(text, start, text.length) % 2 > 0
    return text.length
  }
}

const isDigit = (code: number): boolean => code >= 0x30 && code <= 0x39

/** The number of backslashes directly before a position, at most down to `start`. */
function backslashes(text: string, start: number, end: number): number {
  let at = end
  while (at > start && text.charCodeAt(at - 1) === BACKSLASH) at--
  return end - at
}
