// The placeholders of a body that the emails of a batch share: {{key}} or %recipient.key%. The values are filled in
// once, so that a value with a placeholder stays as it is.
import { withoutLineEnds } from '../base/clean-text.ts'
import { escapeHtml, TAG, type TemplateValues } from './template.ts'
import type { WrittenBody } from './stored-body.ts'

export type Syntax = 'mustache' | 'percent'

/** A placeholder. Its name is the first group. */
const PLACEHOLDERS: Record<Syntax, RegExp> = { mustache: TAG, percent: /%recipient\.([^%\r\n]{1,200})%/g }

type ValueForm = (value: string) => string
const asItIs: ValueForm = (value) => value

/** The form of values in html. The clients of the percent syntax escape the values themselves. */
export const htmlForm = (syntax: Syntax): ValueForm => (syntax === 'mustache' ? escapeHtml : asItIs)

/** The text with its values. A placeholder without a value is empty (mustache), or stays (percent). */
export const filledText = (syntax: Syntax, text: string, values: TemplateValues, form: ValueForm = asItIs): string =>
  text.replace(PLACEHOLDERS[syntax], (whole, name: string) =>
    Object.hasOwn(values, name) ? form(values[name] ?? '') : syntax === 'percent' ? whole : '',
  )

/** The same for text of one line. */
export const filledLine = (syntax: Syntax, text: string, values: TemplateValues): string =>
  filledText(syntax, text, values, withoutLineEnds)

/** The most characters of a line with its values. Longer ones fit into no header field. */
const MAX_LINE = 10_000

/** The same, or undefined if the line would be far too long: short placeholders and long values make any length. */
export function shortLine(syntax: Syntax, text: string, values: TemplateValues): string | undefined {
  let length = text.length
  for (const [, name = ''] of text.matchAll(PLACEHOLDERS[syntax])) {
    length += (Object.hasOwn(values, name) ? values[name] : undefined)?.length ?? 0
    if (length > MAX_LINE) return undefined
  }
  return filledLine(syntax, text, values)
}

/** How often a text has each placeholder. */
export function countPlaceholders(syntax: Syntax, text: string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const [, name = ''] of text.matchAll(PLACEHOLDERS[syntax])) counts.set(name, (counts.get(name) ?? 0) + 1)
  return counts
}

/** The shared body with the values of one recipient. */
export function filledBody(syntax: Syntax, body: WrittenBody, values: TemplateValues): WrittenBody {
  const { headers, html, text, unsubscribe } = body
  return {
    ...body,
    html: filledText(syntax, html, values, htmlForm(syntax)),
    text: text && filledText(syntax, text, values),
    ...(headers && { headers: headers.map(([name, value]) => [name, filledLine(syntax, value, values)]) }),
    ...(unsubscribe && {
      unsubscribe: { ...unsubscribe, uris: unsubscribe.uris.map((uri) => filledLine(syntax, uri, values)) },
    }),
  }
}

/** The values of a recipient as they are stored. */
export const writeValues = (values: TemplateValues): string => JSON.stringify({ values })
export const readValues = (content: string): TemplateValues =>
  (JSON.parse(content) as { values: TemplateValues }).values
