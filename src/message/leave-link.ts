// Whether a reader of a campaign's html can see an unsubscribe link (D61): the tag as visible text, or as the address
// of a link with visible content. When html or style is ambiguous, the answer is no: a second unsubscribe link does no
// harm, but a message without one does.
import { isNameIn } from '../base/one-of.ts'
import { must } from '../base/errors.ts'
import { count } from '../base/maps.ts'
import { cutHtml, plainTags } from './html-tags.ts'
import { readReferences, tokensOf, type Attributes } from './html-tokens.ts'
import { tagsOf } from './template.ts'

const TAG = 'unsubscribe_url'

/** Elements whose content is invisible in some or all mail clients. */
const UNSEEN = /^(?:head|template|noscript|object|svg|math|dialog|details|datalist|select|audio|video|canvas|map)$/
const VOID = /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr)$/
/** The end tags of these close every open element inside. Other misplaced end tags do not close a hidden element. */
const CELL = /^(?:table|caption|td|th|tr|tbody|thead|tfoot|body|html)$/
/** The start tags of these end a paragraph (HTML, "has a p element in button scope"). */
const BLOCK =
  /^(?:address|article|aside|blockquote|center|details|dialog|dir|div|dl|fieldset|figcaption|figure|footer|form|h[1-6]|header|hr|li|main|menu|nav|ol|p|pre|section|table|ul)$/

// Each group of zeros can match at one position only, so that many zeros do not make a pattern slow.
const ZERO = /^[-+]?(?:0+(?:\.0+)?|\.0+)(?![\d.])/
/** Style values that hide an element, by property. Text in the colour of its background is not detected. */
const HIDES = {
  display: /^none/,
  visibility: /^(?:hidden|collapse)/,
  'content-visibility': /^hidden/,
  opacity: /^(?:0+(?![\d.])|0*\.0)/,
  // Letters of one pixel are not readable.
  'font-size': /^(?:(?:0+(?:\.0+)?|\.0+)(?![\d.])|0*1?(?:\.\d+)?px)/,
  font: /(?:^|\s)0[a-z%]{0,3}(?:[\s/]|$)/,
  height: ZERO,
  width: ZERO,
  'max-height': ZERO,
  'max-width': ZERO,
  left: /^-\d{3}/,
  top: /^-\d{3}/,
  right: /^-\d{3}/,
  'text-indent': /^-\d{3}/,
  'margin-left': /^-\d{3}/,
  'margin-top': /^-\d{3}/,
  transform: /scale\(0/,
  zoom: ZERO,
  clip: /^rect/,
  'clip-path': /^[^n]/,
  color: /^transparent/,
}

function hides(style: string): boolean {
  const plain = style.replace(/\/\*[\s\S]*?(?:\*\/|$)/g, '')
  // An escape in the style can represent any of these words.
  if (plain.includes('\\')) return true
  return plain.split(';').some((declaration) => {
    const colon = declaration.indexOf(':')
    const name = declaration.slice(0, Math.max(colon, 0)).trim().toLowerCase()
    return (
      isNameIn(HIDES, name) &&
      HIDES[name].test(
        declaration
          .slice(colon + 1)
          .trim()
          .toLowerCase(),
      )
    )
  })
}

interface OpenElement {
  name: string
  hidden: boolean
  leaves: boolean
}

/** Whether a reader of the html can see an unsubscribe link. It reads the text once, so that no input makes it slow. */
export function hasUnsubscribeLink(html: string): boolean {
  const rules = hidingRules(html)
  const open: OpenElement[] = []
  const counts = new Map<string, number>()
  /** The number of open hidden elements, and of hidden elements with an unknown end. */
  let hidden = 0
  let leaving = 0
  const pop = (): OpenElement => {
    const top = must(open.pop(), 'An open element')
    count(counts, top.name, -1)
    if (top.hidden) hidden--
    if (top.leaves) leaving--
    return top
  }
  const close = (name: string): void => {
    if (!counts.get(name)) return
    const nested = open.at(-1)?.name === name
    let top = pop()
    for (; top.name !== name; top = pop()) if (top.hidden && !CELL.test(name)) hidden++
    if (top.hidden && !nested && !CELL.test(name) && !BLOCK.test(name)) hidden++
  }
  for (const token of tokensOf(plainTags(html))) {
    if ('open' in token) return false
    if ('text' in token) {
      if (hidden === 0 && isSeen(token.text, leaving > 0)) return true
      continue
    }
    const { attributes, closing, name } = token
    if (closing) {
      close(name)
      continue
    }
    if (BLOCK.test(name) && open.at(-1)?.name === 'p') pop()
    // A link inside a link ends the outer link.
    if (name === 'a') close('a')
    if (name === 'body') close('head')
    const unseen = UNSEEN.test(name) || isHidden(attributes, rules)
    if (name === 'img' && leaving > 0 && hidden === 0 && !unseen && isPicture(attributes)) return true
    if (VOID.test(name)) continue
    const leaves = name === 'a' && leads(attributes)
    open.push({ name, hidden: unseen, leaves })
    count(counts, name, 1)
    if (unseen) hidden++
    if (leaves) leaving++
  }
  return false
}

/** Whether text shows the tag, or, in an unsubscribe link, characters that do not depend on the fields of a contact. */
function isSeen(text: string, leaving: boolean): boolean {
  const pieces = cutHtml(text)
  if (tagsOf(pieces).includes(TAG)) return true
  return (
    leaving &&
    pieces.some(
      (piece) =>
        typeof piece === 'string' && /[\p{L}\p{N}\p{P}\p{S}]/u.test(piece.replace(BLANK, '').replace(/\p{Mn}/gu, '')),
    )
  )
}
/** Character references of invisible characters. */
const BLANK =
  /&(?:nbsp|[ezt]\w{0,20}sp|(?:thin|hair|num|punc|emsp\d+)\w{0,3}sp|shy|zwn?j|lrm|rlm|ZeroWidthSpace|NoBreak|#0*(?:9|10|13|32|160|173|847|6158|8192|819\d|820[0-7]|823[2-9]|8287|8288|12288|65279)|#x0*(?:9|a|d|20|a0|ad|34f|180e|200[0-9a-f]|202[89a-f]|205f|2060|3000|feff));?/gi

function leads({ values }: Attributes): boolean {
  const href = values.get('href')
  const [first] = href ? cutHtml(readReferences(href.value).trim()) : []
  return typeof first === 'object' && first.tag === TAG
}

function isHidden({ bare, values }: Attributes, rules: ReadonlySet<string>): boolean {
  if (bare.has('hidden') || values.has('hidden')) return true
  if (hides(readReferences(values.get('style')?.value ?? ''))) return true
  if (rules.size === 0) return false
  const names = (values.get('class')?.value ?? '').split(/\s+/).map((name) => `.${name}`)
  return [...names, `#${values.get('id')?.value ?? ''}`].some((name) => rules.has(name))
}

/** Whether a reader can see an image: an image of one pixel does not count. */
const isPicture = ({ values }: Attributes): boolean =>
  values.has('src') && ['width', 'height'].every((side) => !/^\s*0*[01](?![\d.])/.test(values.get(side)?.value ?? ''))

/** Classes and ids that a style sheet hides in windows of every size. */
function hidingRules(html: string): Set<string> {
  const found = new Set<string>()
  const begins = /<style(?=[\s/>])/gi
  const ends = /<\/style(?=[\s/>])/gi
  while (begins.exec(html)) {
    const from = html.indexOf('>', begins.lastIndex) + 1
    if (from === 0) break
    ends.lastIndex = from
    const end = ends.exec(html)?.index ?? html.length
    readSheet(html.slice(from, end), found)
    begins.lastIndex = end
  }
  return found
}

/** Reads the rules outside of all blocks: rules in "@media" apply to some windows only. */
function readSheet(sheet: string, found: Set<string>): void {
  const css = sheet.replace(/\/\*[\s\S]*?(?:\*\/|$)/g, '')
  let depth = 0
  let from = 0
  let begin = 0
  for (const { 0: brace, index } of css.matchAll(/[{}]/g)) {
    if (brace === '{') {
      if (depth++ === 0) begin = index
    } else if (depth > 0 && --depth === 0) {
      const selectors = css.slice(from, begin)
      from = index + 1
      if (selectors.includes('@') || !hides(css.slice(begin + 1, index))) continue
      for (const selector of selectors.split(',')) {
        const last = selector.trim().replace(/^[\s\S]*[\s>+~]/, '')
        for (const [name] of last.matchAll(/[.#][\w-]+/g)) found.add(name)
      }
    }
  }
}
