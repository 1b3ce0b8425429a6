// Merge tags in html as editors write them (D226): with no-break spaces, character references, or markup between and
// inside the braces. They mean the same tag as in the text part, which is made from the same html.
import { plainText } from './compose.ts'
import { readReferences, tokensOf } from './html-tokens.ts'
import { cutTemplate, type Piece, type TagReading } from './template.ts'

const OPEN = '(?:\\{|&(?:#0*123|#x0*7b|lbrace|lcub);)'
const CLOSE = '(?:\\}|&(?:#0*125|#x0*7d|rbrace|rcub);)'
/** Markup that changes how letters look. Other elements are not allowed inside a merge tag. */
const MARK =
  '(?:</?(?:span|b|i|u|em|strong|font|small|big|s|strike|mark|sub|sup|code|tt|wbr|ins|del|abbr|bdi|bdo|a|o:p)(?=[\\s/>])[^<>{}]{0,300}>|<!--[^<>{}]{0,100}-->)'
const WRITTEN = new RegExp(
  `${OPEN}(${MARK}{0,8})${OPEN}((?:[^{}<]|${MARK}){1,400}?)${CLOSE}(${MARK}{0,8})${CLOSE}`,
  'gi',
)
const MARKS = new RegExp(MARK, 'gi')
const FRONT = new RegExp(`^(?:\\s|&nbsp;|${MARK})*`, 'i')
const BAR = /\||&(?:#0*124|#x0*7c|vert|verbar|VerticalLine);/i

/** The html with each merge tag in one piece: braces of their own, and the markup from inside before or after them. */
export function plainTags(html: string): string {
  if (html.includes('{') && html.includes('&')) learn(html)
  let output = ''
  let done = 0
  let texts: Iterator<{ start: number; end: number }> | undefined
  let text: { start: number; end: number } | undefined
  for (const match of html.matchAll(WRITTEN)) {
    const { 0: whole, 1: between = '', 2: inside = '', 3: last = '', index } = match
    if (whole === `{{${inside}}}` && !inside.includes('<')) continue
    const name = inside.slice(0, BAR.exec(inside)?.index)
    // Markup behind the bar is of the text there.
    const bare = name.includes('<') ? inside.replace(MARKS, '') : inside
    if (bare.trim() === '') continue
    // In an attribute, a script or a comment such markup is plain text.
    texts ??= textsOf(html)
    while (!text || text.end <= index) {
      const next = texts.next()
      if (next.done === true) return output + html.slice(done)
      text = next.value
    }
    if (text.start > index) continue
    const [front = ''] = FRONT.exec(inside) ?? []
    const parts = bare === inside ? [] : [front, inside.slice(front.length)]
    const [before = '', behind = ''] = parts.map((part) => (part.match(MARKS) ?? []).join(''))
    output += `${html.slice(done, index)}${between}${before}{{${bare}}}${behind}${last}`
    done = index + whole.length
  }
  return output + html.slice(done)
}

function* textsOf(html: string): Generator<{ start: number; end: number }, undefined> {
  for (const token of tokensOf(html)) if ('text' in token) yield { start: token.at, end: token.at + token.text.length }
}

const AS_SEEN: TagReading = {
  bar: BAR,
  blanks: /^(?:\s|&(?:nbsp|#0*160|#x0*a0);)+|(?:\s|&(?:nbsp|#0*160|#x0*a0);)+$/gi,
  seen: (html) => readReferences(html.replace(NAMED, (reference) => characters.get(reference) ?? reference)),
}

/** References that `readReferences` does not know. */
const NAMED = /&(?!(?:amp|quot|apos|lt|gt);)[a-z][a-z0-9]{1,31};/gi
/** Their characters as the text part has them. A reference without one is its own. */
const characters = new Map<string, string>()
const MOST_CHARACTERS = 20_000
const BETWEEN = '\ue000'

/** Decodes all references of a page at once: one by one takes seconds for a page full of them. */
function learn(html: string): void {
  const fresh = [...new Set(html.match(NAMED))].filter((reference) => !characters.has(reference))
  if (fresh.length === 0) return
  if (characters.size + fresh.length > MOST_CHARACTERS) characters.clear()
  const read = plainText(fresh.join(BETWEEN)).split(BETWEEN)
  for (const [at, reference] of fresh.slice(0, MOST_CHARACTERS).entries())
    characters.set(reference, read[at] ?? reference)
}

/** Cuts html at its merge tags. The names of tags are read as a reader sees them. */
export const cutHtml = (html: string): Piece[] => cutTemplate(plainTags(html), AS_SEEN)
