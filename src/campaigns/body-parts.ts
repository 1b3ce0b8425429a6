// Splits the HTML of a campaign into the parts that the editor shows: text, preview text (shown by inboxes next to the
// subject) and design. It is split only if joining the parts returns the same HTML. Other HTML is one text without a
// design, so that no content is lost.
import { isObject, jsonOf } from '../base/json.ts'
import { isOneOf } from '../base/one-of.ts'
import { escapeHtml } from '../message/template.ts'
import { around, BEGIN, DESIGNS, END, PLAIN_LOOK, type Design, type Look } from './designs.ts'

export interface BodyParts {
  /** '': the text is the whole HTML. */
  design: Design | ''
  look: Look
  /** The preview text. May be empty. */
  preview: string
  text: string
}

/** Hidden in the email itself. Inboxes show it next to the subject. */
const HIDDEN = '<div data-preview="" style="display:none;max-height:0;overflow:hidden;mso-hide:all">'
const HIDDEN_END = '</div>\n'
/** The characters at the beginning in which the preview text and the design are looked for. */
const HEAD = 20_000
export const MAX_LOOK = { brand: 100, logo: 2000, postal: 500, colour: 7 } as const
/** The maximum length of a preview text. Inboxes show about 100 characters. */
export const MAX_PREVIEW = 300

const REFERENCES = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' } as const
const unescaped = (text: string): string =>
  text.replace(/&(?:lt|gt|quot|#39|amp);/g, (each) => REFERENCES[each as keyof typeof REFERENCES])

const hiddenOf = (preview: string): string => (preview === '' ? '' : `${HIDDEN}${escapeHtml(preview)}${HIDDEN_END}`)

/** Returns the valid values as a look. */
export function lookOf(given: Readonly<Record<string, unknown>>): Look {
  const value = (name: keyof Look): string => {
    const text = given[name]
    return typeof text === 'string' ? text.toWellFormed().trim().slice(0, MAX_LOOK[name]) : ''
  }
  const [logo, colour] = [value('logo'), value('colour').toLowerCase()]
  return {
    brand: value('brand'),
    logo: /^https?:\/\/[^\s/]/i.test(logo) ? logo : '',
    colour: /^#[0-9a-f]{6}$/.test(colour) ? colour : PLAIN_LOOK.colour,
    postal: value('postal').replaceAll('\r\n', '\n'),
  }
}

/** The HTML that its parts make. */
export function bodyOf({ design, look, preview, text }: BodyParts): string {
  const hidden = hiddenOf(preview)
  if (design !== '') {
    const { before, behind } = around(design, look, hidden)
    return before + text + behind
  }
  if (hidden === '') return text
  const [open = ''] = /<body\b[^<>]{0,2000}>\n?/i.exec(text.slice(0, HEAD)) ?? []
  const at = open === '' ? 0 : text.indexOf(open) + open.length
  return text.slice(0, at) + hidden + text.slice(at)
}

/** The parts of a campaign's HTML. */
export function partsOf(html: string): BodyParts {
  const head = html.slice(0, HEAD)
  const [from, to] = [head.indexOf(HIDDEN), head.indexOf(HIDDEN_END, head.indexOf(HIDDEN))]
  const hidden = from >= 0 && to > from ? html.slice(from, to + HIDDEN_END.length) : ''
  const preview = hidden === '' ? '' : unescaped(hidden.slice(HIDDEN.length, -HIDDEN_END.length))
  const whole = { design: '', look: PLAIN_LOOK, preview: '', text: html } as const
  for (const parts of [
    designed(html, preview),
    { ...whole, preview, text: hidden === '' ? html : html.replace(hidden, () => '') },
  ])
    if (parts && bodyOf(parts) === html) return parts
  return whole
}

function designed(html: string, preview: string): BodyParts | undefined {
  const [, said] = /<meta name="design" content="([^"<>]{2,8000})">/.exec(html.slice(0, HEAD)) ?? []
  const given = said === undefined ? undefined : jsonOf(unescaped(said))
  const [from, to] = [html.indexOf(BEGIN), html.lastIndexOf(END)]
  if (!isObject(given) || from < 0 || to < from + BEGIN.length) return undefined
  const design = given['design']
  if (typeof design !== 'string' || !isOneOf(DESIGNS, design)) return undefined
  return { design, look: lookOf(given), preview, text: html.slice(from + BEGIN.length, to) }
}
