// Merge tags: {{name}}, {{email}}, {{unsubscribe_url}}, {{unsubscribe_mailto}} and any key of a contact's custom
// fields; {{name|friend}} has a text for contacts without the value. A template is cut into pieces once; filling it
// puts values between them. Values are never read as templates; a tag without a value and without such a text becomes
// empty.

/**
 * Literal text, or a tag to be replaced by its value; `otherwise` is the literal text for a tag without a value:
 * {{name|friend}}.
 */
export type Piece = string | Tag

export interface Tag {
  tag: string
  otherwise?: string
  /** The tag as written, when it has a bar: a field of a contact may have that name. */
  whole?: string
}

/** A tag; its name is the text between the braces, without spaces around it. */
const TAG = /\{\{\s*([^{}\s](?:[^{}]{0,198}[^{}\s])?)\s*\}\}/g

/** Cuts a template at its tags. No two literals follow each other. */
export function cutTemplate(text: string): Piece[] {
  const pieces: Piece[] = []
  let end = 0
  for (const { 0: whole, 1: inside = '', index } of text.matchAll(TAG)) {
    if (index > end) pieces.push(text.slice(end, index))
    pieces.push(tagOf(inside))
    end = index + whole.length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}

function tagOf(text: string): Tag {
  const bar = text.indexOf('|')
  return bar < 0
    ? { tag: text }
    : { tag: text.slice(0, bar).trim(), otherwise: text.slice(bar + 1).trim(), whole: text }
}

/** Braces in literal text that look like the beginning of a tag, with some of the text behind them. */
export const strayBraces = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) => (typeof piece === 'string' ? (piece.match(/\{\{[^{}<]{0,40}/g) ?? []) : []))

/** The offsets of tags. */
export const placesOfTags = (text: string): { start: number; end: number }[] =>
  Array.from(text.matchAll(TAG), ({ 0: { length }, index }) => ({ start: index, end: index + length }))

/** The names of the tags among pieces. */
export const tagsOf = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.tag]))

/** Values by tag; only own properties count, so that no tag reads an inherited one such as "constructor". */
export type TemplateValues = Readonly<Record<string, string>>

/** The value of a tag passed through `form`, else the tag's own text for this case, else ''. */
export function valueOf(
  values: TemplateValues,
  { otherwise, tag, whole = tag }: Tag,
  form: (value: string) => string,
): string {
  const own = (name: string): string => (Object.hasOwn(values, name) ? values[name] : undefined) ?? ''
  const value = own(whole) || own(tag)
  return value === '' && otherwise !== undefined ? otherwise : form(value)
}

/** The text with its values filled in, each passed through `form`. */
export function fill(
  pieces: readonly Piece[],
  values: TemplateValues,
  form: (value: string) => string = (value) => value,
): string {
  let text = ''
  for (const piece of pieces) text += typeof piece === 'string' ? piece : valueOf(values, piece, form)
  return text
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** A value for html, in text or in a quoted attribute. */
export const escapeHtml = (value: string): string =>
  value.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? character)

/** The text of a custom field's value; '' for anything but text, numbers and booleans. */
export function textOfValue(value: unknown): string {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '')
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
