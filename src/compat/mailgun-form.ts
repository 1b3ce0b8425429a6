// Reads the forms of Mailgun's clients, urlencoded or multipart, within limits.
import { refuse } from '../base/errors.ts'
import { withBytes } from '../jsonapi/body.ts'
import { hasManyFields } from '../views/html/fields.ts'
import { CompatError, invalid, type CompatCall } from './kit.ts'

const MAX_PARTS = 2500
const MAX_NAME = 256
const MAX_FIELD = 25 * 1024 * 1024

/** A form: the values of each field in their order. */
export class MailgunForm {
  readonly #values: Map<string, (string | File)[]>
  /** The names that were read or refused. The others are ignored. */
  readonly #read = new Set<string>()

  constructor(values: Map<string, (string | File)[]>) {
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

  /** The last text of a field, as browsers and Mailgun understand repeated fields, or undefined. */
  text(name: string): string | undefined {
    return this.texts(name).at(-1)
  }

  /** All files of a field. Throws a CompatError for text. */
  files(name: string): File[] {
    this.#read.add(name)
    return (this.#values.get(name) ?? []).map((value) => {
      if (typeof value === 'string') throw invalid(name, `"${name}" must be a file with a file name.`)
      return value
    })
  }

  /** The text of a field that may be a file. */
  async content(name: string): Promise<Buffer | undefined> {
    this.#read.add(name)
    const value = this.#values.get(name)?.at(-1)
    if (value === undefined) return undefined
    return typeof value === 'string' ? Buffer.from(value) : Buffer.from(await value.arrayBuffer())
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

/** The beginning of a part that is a text, with a name that needs no decoding. */
const TEXT_PART = /^\r\ncontent-disposition: form-data; name="([\w:.-]+)"$/i
const LINE = Buffer.from('\r\n')

/**
 * The fields of a multipart form in the way that clients write forms without files, or undefined for any other form. It
 * costs an eighth of the parser of the runtime, which reads a stream.
 */
export function textFields(bytes: Buffer, type: string): [string, string][] | undefined {
  const [, boundary] = /^multipart\/form-data; ?boundary=([\w-]{1,70})$/i.exec(type) ?? []
  if (boundary === undefined) return undefined
  const between = Buffer.from(`\r\n--${boundary}`)
  const fields: [string, string][] = []
  if (!bytes.subarray(0, between.length - LINE.length).equals(between.subarray(LINE.length))) return undefined
  let at = between.length - LINE.length
  for (let end = bytes.indexOf(between, at); end >= 0; end = bytes.indexOf(between, at)) {
    const from = bytes.indexOf('\r\n\r\n', at)
    const [, name] =
      (from >= 0 && from <= at + 2 * MAX_NAME && TEXT_PART.exec(bytes.toString('latin1', at, from))) || []
    // A byte order mark is not part of the text.
    if (name === undefined || from + 4 > end || bytes[from + 4] === 0xef) return undefined
    fields.push([name, bytes.toString('utf8', from + 4, end)])
    at = end + between.length
  }
  return /^--(?:\r\n)?$/.test(bytes.toString('latin1', at, at + 5)) ? fields : undefined
}

/** The fields of a form. Throws a CompatError. */
async function parsedForm(bytes: Buffer<ArrayBuffer>, type: string): Promise<Iterable<[string, string | File]>> {
  if (/^application\/x-www-form-urlencoded\b/i.test(type)) return new URLSearchParams(bytes.toString())
  const texts = textFields(bytes, type)
  if (texts) return texts
  try {
    const form = await new Response(bytes, { headers: { 'Content-Type': type } }).formData()
    return form as unknown as Iterable<[string, string | File]>
  } catch {
    throw new CompatError(400, [
      {
        code: 'invalid_document',
        detail: 'The body must be a form: application/x-www-form-urlencoded or multipart/form-data.',
        field: undefined,
      },
    ])
  }
}

/** Runs `use` with the form of a request. Throws a CompatError or a Refusal. */
export function withMailgunForm<T>(call: CompatCall, use: (form: MailgunForm) => Promise<T>): Promise<T> {
  const type = call.header('content-type') ?? ''
  return withBytes(call.context.req.raw, call.limits, async (bytes) => {
    if (hasManyFields(bytes, type, MAX_PARTS))
      throw refuse('payload_too_large', `The form has more than ${MAX_PARTS} fields.`)
    const parsed = await parsedForm(bytes, type)
    const values = new Map<string, (string | File)[]>()
    for (const [name, value] of parsed) {
      if (name.length > MAX_NAME) throw invalid('', `A field has a name of more than ${MAX_NAME} characters.`)
      if (typeof value === 'string' && value.length > MAX_FIELD)
        throw invalid(name, `"${name}" must be at most ${MAX_FIELD} characters long.`)
      values.set(name, [...(values.get(name) ?? []), value])
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
