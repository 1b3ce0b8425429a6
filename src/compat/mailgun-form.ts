// Reads the forms of Mailgun's clients, urlencoded or multipart, within limits.
import { refuse } from '../base/errors.ts'
import { inOwnTurn } from '../base/semaphore.ts'
import { withBytes } from '../jsonapi/body.ts'
import { hasManyFields } from '../views/html/fields.ts'
import { invalid, type CompatCall } from './kit.ts'
import { fieldsIn, type FormFile } from './mailgun-multipart.ts'

const MAX_PARTS = 2500
const MAX_NAME = 256
const MAX_FIELD = 25 * 1024 * 1024

type FormValue = string | FormFile

/** Names are compared without case, except for those that the client chooses behind "v:" and "h:". */
function canonical(name: string): string {
  if (/^h:x-mailgun-variables$/i.test(name)) return 'h:X-Mailgun-Variables'
  return /^[hv]:/i.test(name) ? name.charAt(0).toLowerCase() + name.slice(1) : name.toLowerCase()
}

/** A form: the values of each field in their order. */
export class MailgunForm {
  readonly #values: Map<string, FormValue[]>
  /** The names that were read or refused. The others are ignored. */
  readonly #read = new Set<string>()

  constructor(values: Map<string, FormValue[]>) {
    this.#values = values
  }

  names(): string[] {
    return [...this.#values.keys()]
  }

  ignored(): Set<string> {
    return new Set(this.names().filter((name) => !this.#read.has(name)))
  }

  /** Marks a field as ignored although it was read. */
  ignore(name: string): void {
    this.#read.delete(name)
  }

  /** All texts of a field. Throws a CompatError for a file. */
  texts(name: string): string[] {
    this.#read.add(name)
    return (this.#values.get(name) ?? []).map((value) => {
      if (typeof value !== 'string') throw invalid(name, `"${name}" must be text, not a file.`)
      return value
    })
  }

  /** The text of a field, or undefined. Throws a CompatError for several: one of them would be lost. */
  text(name: string): string | undefined {
    return this.#only(name, this.texts(name))
  }

  #only<Value>(name: string, all: readonly Value[]): Value | undefined {
    if (all.length > 1) throw invalid(name, `"${name}" can have one value, and the request has ${all.length}.`)
    return all[0]
  }

  /** All files of a field. Throws a CompatError for text. */
  files(name: string): FormFile[] {
    this.#read.add(name)
    return (this.#values.get(name) ?? []).map((value) => {
      if (typeof value === 'string') throw invalid(name, `"${name}" must be a file with a file name.`)
      return value
    })
  }

  /** The text of a field that may be a file. */
  content(name: string): Buffer | undefined {
    this.#read.add(name)
    const value = this.#only(name, this.#values.get(name) ?? [])
    return typeof value === 'string' ? Buffer.from(value) : value?.bytes
  }

  /** yes, no, or undefined if the field is absent. Throws a CompatError for another word. */
  flag(name: string, more: readonly string[] = []): boolean | undefined {
    const text = this.text(name)
    if (text === undefined || text === '') return undefined
    if (['yes', 'true', 'True', '1', ...more].includes(text)) return true
    if (['no', 'false', 'False', '0'].includes(text)) return false
    throw invalid(name, `"${name}" must be "yes" or "no".`)
  }
}

/** Runs `use` with the form of a request. Throws a CompatError or a Refusal. */
export function withMailgunForm<T>(call: CompatCall, use: (form: MailgunForm) => Promise<T>): Promise<T> {
  const type = call.header('content-type') ?? ''
  return withBytes(call.context.req.raw, call.limits, async (bytes) => {
    if (hasManyFields(bytes, type, MAX_PARTS))
      throw refuse('payload_too_large', `The form has more than ${MAX_PARTS} fields.`)
    const values = new Map<string, FormValue[]>()
    for (const [given, value] of await inOwnTurn(bytes.length, () => fieldsIn(bytes, type))) {
      if (given.length > MAX_NAME) throw invalid('', `A field has a name of more than ${MAX_NAME} characters.`)
      if (typeof value === 'string' && value.length > MAX_FIELD)
        throw invalid(given, `"${given}" must be at most ${MAX_FIELD} characters long.`)
      const name = canonical(given)
      const others = values.get(name)
      if (others) others.push(value)
      else values.set(name, [value])
    }
    return use(new MailgunForm(values))
  })
}

/** More than 1,000 addresses with their names have. */
const MAX_ADDRESSES = 1024 * 1024

/**
 * Splits a list of addresses at its commas, except for those in quotes and angle brackets. Throws a CompatError for a
 * list that is too long.
 */
export function addressesIn(texts: readonly string[]): string[] {
  if (texts.reduce((sum, { length }) => sum + length, 0) > MAX_ADDRESSES)
    throw invalid('to', `A list of addresses must be at most ${MAX_ADDRESSES} characters long.`)
  return texts.flatMap((text) => {
    const found: string[] = []
    let [from, isQuoted, isBracketed] = [0, false, false]
    for (let at = 0; at < text.length; at++) {
      const character = text[at]
      if (isQuoted && character === '\\') at++
      else if (character === '"') isQuoted = !isQuoted
      else if (isQuoted) continue
      else if (character === '<') isBracketed = true
      else if (character === '>') isBracketed = false
      else if (character === ',' && !isBracketed) {
        found.push(text.slice(from, at))
        from = at + 1
      }
    }
    return [...found, text.slice(from)].map((each) => each.trim()).filter((each) => each !== '')
  })
}
