// Merge tags: {{name}}, {{email}}, {{unsubscribe_url}}, {{unsubscribe_mailto}} and any key of a contact's custom
// fields. {{name|friend}} has a default for contacts without the value. A template is cut into pieces once. Filling it
// inserts values between them. Values are never parsed as templates. A tag without a value and without a default
// becomes empty.

import { withoutLineEnds } from '../base/clean-text.ts'
import { MAX_MESSAGE, TooLarge } from './too-large.ts'

/** The most characters of a filled subject that a list or a page shows. */
const MAX_SHOWN = 2000

/**
 * Literal text, or a tag to be replaced by its value. `otherwise` is the default for a tag without a value:
 * {{name|friend}}.
 */
export type Piece = string | Tag

export interface Tag {
  tag: string
  otherwise?: string
  /** The tag as written, when it has a bar or other white space: a field of a contact may have that name. */
  whole?: string
  /** The value is part of a parameter's value in a URL, where it is percent-encoded. */
  encoded?: boolean
}

/** A tag. Its name is the text between the braces, without spaces around it. */
export const TAG = /\{\{\s*([^{}\s](?:[^{}]{0,198}[^{}\s])?)\s*\}\}/g

/** How the text between the braces of a tag is read: as it is, or as html (html-tags.ts). */
export interface TagReading {
  /** Separates the name from the default. */
  bar: RegExp
  /** The characters to trim at both ends of the default. */
  blanks: RegExp
  /** The characters of a name. */
  seen: (name: string) => string
}
const AS_WRITTEN: TagReading = { bar: /\|/, blanks: /^\s+|\s+$/g, seen: (name) => name }

/** Cuts a template at its tags. No two literals follow each other. */
export function cutTemplate(text: string, reading: TagReading = AS_WRITTEN): Piece[] {
  const pieces: Piece[] = []
  let end = 0
  let part: UrlPart = 'start'
  for (const { 0: whole, 1: inside = '', index } of text.matchAll(TAG)) {
    const literal = text.slice(end, index)
    if (literal !== '') pieces.push(literal)
    part = partAfter(part, literal)
    pieces.push(tagOf(inside, reading, part === 'value'))
    if (part === 'start') part = 'tag'
    end = index + whole.length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}

/** Where a text ends: at the start of a word, behind a tag there, in a URL, in a parameter of it, or elsewhere. */
type UrlPart = 'start' | 'tag' | 'url' | 'name' | 'value' | 'elsewhere'

function partAfter(before: UrlPart, literal: string): UrlPart {
  let part = before
  let text = literal
  const [tail = ''] = /[^\s"'<>()[\]]*$/.exec(literal.slice(-MAX_URL)) ?? []
  if (tail.length < literal.length) [part, text] = ['start', tail]
  if (text === '') return part
  if (part === 'tag') part = /^[/?]/.test(text) ? 'url' : 'elsewhere'
  if (part === 'start') {
    const scheme = /(?:^|[^a-z])(?:https?:\/\/|mailto:)/i.exec(text)
    if (!scheme) return 'elsewhere'
    ;[part, text] = ['url', text.slice(scheme.index + scheme[0].length)]
  }
  if (part === 'elsewhere') return part
  if (part === 'url') {
    const query = text.search(/[?#]/)
    if (query < 0) return 'url'
    ;[part, text] = ['name', text.slice(query + 1)]
  }
  const last = Math.max(text.lastIndexOf('&'), text.lastIndexOf('#'))
  if (last >= 0) [part, text] = ['name', text.slice(last + 1)]
  return text.includes('=') ? 'value' : part
}
const MAX_URL = 4096

function tagOf(text: string, { bar, blanks, seen }: TagReading, encoded: boolean): Tag {
  const at = bar.exec(text)
  const whole = seen(text)
  // Line ends and no-break spaces of an editor are one space, as in the text part.
  const tag = seen(text.slice(0, at?.index))
    .trim()
    .replace(/ *[^\S ]\s*/g, ' ')
  return {
    tag,
    ...(at ? { otherwise: text.slice(at.index + at[0].length).replace(blanks, '') } : {}),
    ...(tag === whole ? {} : { whole }),
    ...(encoded ? { encoded } : {}),
  }
}

/** Braces in literal text that look like the beginning of a tag, with some of the text behind them. */
export const strayBraces = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) => (typeof piece === 'string' ? (piece.match(/\{\{[^{}<]{0,40}/g) ?? []) : []))

export const placesOfTags = (text: string): { start: number; end: number }[] =>
  Array.from(text.matchAll(TAG), ({ 0: { length }, index }) => ({ start: index, end: index + length }))

export const tagsOf = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.tag]))

/** Values by tag. Only own properties count, so that no tag reads an inherited one such as "constructor". */
export type TemplateValues = Readonly<Record<string, string>>

/** The value of a tag passed through `form`, otherwise the tag's default, otherwise ''. */
export function valueOf(
  values: TemplateValues,
  { encoded, otherwise, tag, whole = tag }: Tag,
  form: (value: string) => string,
): string {
  const own = (name: string): string => (Object.hasOwn(values, name) ? values[name] : undefined) ?? ''
  const value = own(whole) || own(tag)
  if (value === '' && otherwise !== undefined) return otherwise
  return form(encoded ? encodeURIComponent(value.toWellFormed()) : value)
}

/**
 * The text with its values filled in, each passed through `form`. Throws TooLarge as soon as it has `most` characters:
 * short tags and long values make a text that no memory holds.
 */
export function fill(
  pieces: readonly Piece[],
  values: TemplateValues,
  form: (value: string) => string = (value) => value,
  most = MAX_MESSAGE,
): string {
  let text = ''
  for (const piece of pieces) {
    text += typeof piece === 'string' ? piece : valueOf(values, piece, form)
    if (text.length >= most) throw new TooLarge()
  }
  return text
}

/** The start of the filled text on one line, to show in lists: at most `most` characters and an ellipsis. */
export function startOfFilled(pieces: readonly Piece[], values: TemplateValues, most = MAX_SHOWN): string {
  let text = ''
  for (const piece of pieces) {
    text += (typeof piece === 'string' ? piece : valueOf(values, piece, (value) => value)).slice(0, most + 1)
    if (text.length > most) return `${withoutLineEnds(text.slice(0, most)).toWellFormed()}…`
  }
  return withoutLineEnds(text)
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** A value for html, in text or in a quoted attribute. */
export const escapeHtml = (value: string): string =>
  value.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)

/** The text of a custom field's value, or '' for anything but text, numbers and booleans. */
export function textOfValue(value: unknown): string {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '')
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
