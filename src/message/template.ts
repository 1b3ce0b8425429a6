// Merge tags: {{name}}, {{email}}, {{unsubscribe_url}}, {{unsubscribe_mailto}} and any key of a contact's custom fields. A template is cut
// into pieces once; filling it puts values between them. Values are never read as templates, and a tag without a value is empty.

/** Literal text, or the tag whose value goes there. */
export type Piece = string | { tag: string }

/** The name of a tag: what stands between the braces, without the spaces around it. */
const TAG = /\{\{\s*([^{}\s](?:[^{}]{0,198}[^{}\s])?)\s*\}\}/g

/** Cuts a template at its tags. No two literals follow each other. */
export function cutTemplate(text: string): Piece[] {
  const pieces: Piece[] = []
  let end = 0
  for (const match of text.matchAll(TAG)) {
    if (match.index > end) pieces.push(text.slice(end, match.index))
    pieces.push({ tag: match[1]! })
    end = match.index + match[0].length
  }
  if (end < text.length) pieces.push(text.slice(end))
  return pieces
}

/** Where tags stand. */
export const placesOfTags = (text: string): { start: number; end: number }[] =>
  Array.from(text.matchAll(TAG), ({ 0: { length }, index }) => ({ start: index, end: index + length }))

export const tagsOf = (pieces: readonly Piece[]): string[] =>
  pieces.flatMap((piece) => (typeof piece === 'string' ? [] : [piece.tag]))

/** Values by tag; own properties only, so that no tag reaches into what objects inherit. */
export type Values = Readonly<Record<string, string>>

export const valueOf = (values: Values, tag: string): string => (Object.hasOwn(values, tag) ? values[tag]! : '')

/** The text with its values, each through `form`. */
export function fill(
  pieces: readonly Piece[],
  values: Values,
  form: (value: string) => string = (value) => value,
): string {
  let text = ''
  for (const piece of pieces) text += typeof piece === 'string' ? piece : form(valueOf(values, piece.tag))
  return text
}

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

/** A value inside html, in text as in attributes. */
export const escapeHtml = (value: string): string => value.replace(/[&<>"']/g, (character) => ESCAPES[character]!)

/** A value inside a header: one line. */
export const oneLine = (value: string): string => value.replace(/[\r\n]+/g, '')

/** What a custom field's value is in a mail; what is no text, number or truth is nothing. */
export function textOfValue(value: unknown): string {
  if (typeof value === 'string') return value.toWellFormed().replaceAll('\0', '')
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}
