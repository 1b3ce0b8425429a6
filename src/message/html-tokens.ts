// The tokens of an html page: text, tags and invisible parts. This is the one scanner that decides where markup is:
// where the page ends, which links a reader sees, and where merge tags are allowed. Linear time for any input.

/** Elements whose content is text and not markup (HTML, parsing in the states RAWTEXT, RCDATA and script data). */
const RAW = /^(?:style|script|title|textarea|xmp|iframe|noembed|noframes|plaintext)$/

/**
 * Text, or a tag, from the offset `at`. `open`: a comment, tag or text element without an end, which contains the rest
 * of the page. Comments, declarations and the content of text elements are left out.
 */
export type HtmlToken = { at: number } & (
  | { text: string }
  | { name: string; closing: boolean; attributes: Attributes }
  | { open: true }
)

export function* tokensOf(html: string): Iterable<HtmlToken> {
  const tag = /<(\/?)([a-z][^\s/>]*)/iy
  let text = 0
  for (let at = html.indexOf('<'); at >= 0; at = html.indexOf('<', at)) {
    tag.lastIndex = at
    const [whole = '', slash, name = ''] = tag.exec(html) ?? []
    const declared = whole === '' && /[!?/]/.test(html[at + 1] ?? '')
    if (whole === '' && !declared) {
      at++
      continue
    }
    if (at > text) yield { at: text, text: html.slice(text, at) }
    if (declared) {
      const [mark, length] = html.startsWith('<!--', at) ? ['-->', 3] : ['>', 1]
      const end = html.indexOf(mark, length === 3 ? at + 4 : at)
      if (end < 0) return yield { at, open: true }
      at = text = end + length
      continue
    }
    const lower = name.toLowerCase()
    const attributes = readAttributes(html, at + whole.length)
    if (!attributes.closed) return yield { at, open: true }
    yield { at, name: lower, closing: slash === '/', attributes }
    const start = at
    at = text = Math.max(attributes.end, at + whole.length)
    if (slash === '' && RAW.test(lower)) {
      const rest = new RegExp(`</${lower}(?=[\\s/>])`, 'gi')
      rest.lastIndex = at
      const end = rest.exec(html)
      if (!end) return yield { at: start, open: true }
      at = text = end.index
    }
  }
  if (text < html.length) yield { at: text, text: html.slice(text) }
}

/**
 * The offset of the last real `</body` tag, otherwise the end of the visible part: content inserted there is neither in
 * a comment nor in a script, style or attribute.
 */
export function endOfBody(html: string): number {
  let end: number | undefined
  for (const token of tokensOf(html)) {
    if ('name' in token && token.closing && token.name === 'body') end = token.at
    if ('open' in token) return end ?? token.at
  }
  return end ?? html.length
}

const NAMED: Record<string, string> = { amp: '&', quot: '"', apos: "'", lt: '<', gt: '>' }

/** An attribute's value without the character references that addresses are written with. */
export const readReferences = (value: string): string =>
  value.replace(/&(?:(amp|quot|apos|lt|gt)|#(\d{1,7})|#x([\da-f]{1,6}));/gi, (whole, name, decimal, hex) => {
    if (name !== undefined) return NAMED[name.toLowerCase()] ?? whole
    const code = decimal === undefined ? parseInt(hex, 16) : Number(decimal)
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : whole
  })

interface Attribute {
  value: string
  /** Offset of the value, quotes included. */
  start: number
  end: number
}

export interface Attributes {
  /** The attributes with a value, by lower-case name. */
  values: Map<string, Attribute>
  /** The names of the attributes without a value. */
  bare: ReadonlySet<string>
  /** Where the tag ends. */
  end: number
  /** False: the page ends inside the tag, or inside a quoted value of it. */
  closed: boolean
}

const NONE: ReadonlySet<string> = new Set()

/** The attributes of a tag, read from offset `from`. The first of equal names counts (HTML, attribute name state). */
export function readAttributes(html: string, from: number): Attributes {
  const values = new Map<string, Attribute>()
  let bare: Set<string> | undefined
  let open = false
  const attribute = /[\s/]*(?:(>)|([^\s/>=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>][^\s>]*)))?|=)/y
  attribute.lastIndex = from
  for (;;) {
    const start = attribute.lastIndex
    const match = attribute.exec(html)
    if (!match || match[1] !== undefined)
      return { values, bare: bare ?? NONE, end: match ? attribute.lastIndex : start, closed: match !== null && !open }
    const value = match[3] ?? match[4] ?? match[5]
    const name = match[2]?.toLowerCase()
    if (name !== undefined && value === undefined) (bare ??= new Set()).add(name)
    // "=" and an unclosed quote: a browser treats the rest of the page as the value.
    if (match[0].endsWith('=') && /^\s*["']/.test(html.slice(attribute.lastIndex, attribute.lastIndex + 64)))
      open = true
    if (name === undefined || value === undefined || values.has(name)) continue
    const length = value.length + (match[5] === undefined ? 2 : 0)
    values.set(name, { value, start: attribute.lastIndex - length, end: attribute.lastIndex })
  }
}

/** The path of the images that this server stores, below its public URL. */
export const IMAGES_PATH = '/images'

export interface Picture {
  /** The address as written, or ''. */
  url: string
  /** The alternative text, or ''. */
  alt: string
}

/** Every `<img …>` of a page. Linear time for any input. */
export function* readPictures(html: string): Iterable<Picture> {
  const tags = /<img(?=[\s/>])/gi
  for (let tag = tags.exec(html); tag; tag = tags.exec(html)) {
    const { end, values } = readAttributes(html, tags.lastIndex)
    tags.lastIndex = end
    yield { url: readReferences(values.get('src')?.value ?? '').trim(), alt: values.get('alt')?.value ?? '' }
  }
}
