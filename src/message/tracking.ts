// Open and click tracking (D38): a pixel at the end of the html, and links that pass through this server. Tokens are
// signed; a redirect goes only to a target inside a token of ours. Not tracked: other schemes than http and https,
// fragments, and links that the sender marked with `data-postrider-track="off"`.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { HmacKey } from '../base/hmac.ts'

/** The facts for tracking a mail; the key is derived from the instance key. */
export interface Tracking {
  /** Such as "https://mail.example.org"; tokens follow after /t/. */
  base: string
  /** Key of tracking tokens, base64. */
  key: string
  /** The key of the delivery, which tokens name. */
  delivery: number
  opens: boolean
  clicks: boolean
}

const MAC_BYTES = 12

/** The characters of MAC_BYTES in base64url; they end at a whole group of four. */
const MAC_TEXT = (MAC_BYTES / 3) * 4

const sealToken = (key: HmacKey, kind: 'o' | 'c', payload: string): string =>
  key.of(`${kind}\n${payload}`, 'base64url').slice(0, MAC_TEXT) + Buffer.from(payload).toString('base64url')

function openToken(key: Buffer, kind: 'o' | 'c', token: string): string | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const body = bytes.subarray(MAC_BYTES)
  const mac = createHmac('sha256', key).update(`${kind}\n`).update(body).digest().subarray(0, MAC_BYTES)
  const given = bytes.subarray(0, MAC_BYTES)
  return given.length === MAC_BYTES && timingSafeEqual(mac, given) ? body.toString() : undefined
}

/** The delivery that an open token names; undefined when it is not ours. */
export function readOpenToken(key: Buffer, token: string): number | undefined {
  const text = openToken(key, 'o', token)
  return text === undefined ? undefined : Number(text)
}

/** The delivery and the link's target that a click token names; undefined when it is not ours. */
export function readClickToken(key: Buffer, token: string): { delivery: number; url: string } | undefined {
  const text = openToken(key, 'c', token)
  if (text === undefined) return undefined
  const [delivery, url] = JSON.parse(text) as [number, string]
  return { delivery, url }
}

type LinkBase = Pick<Tracking, 'base' | 'key'>

/** The URL on this server that a tracked link leads to. */
export const trackedUrl = ({ base, key }: LinkBase, delivery: number, url: string): string =>
  `${base}/t/c/${sealToken(secretOf(key), 'c', JSON.stringify([delivery, url]))}`

/** The one-pixel image whose loading is counted as an open. */
export const pixelOf = ({ base, key }: LinkBase, delivery: number): string =>
  `<img src="${base}/t/o/${sealToken(secretOf(key), 'o', String(delivery))}.gif" width="1" height="1" alt="" style="border:0;width:1px;height:1px">`

let known: { text: string; secret: HmacKey } | undefined

/** The decoded key; kept, because all mails use the same one. */
function secretOf(text: string): HmacKey {
  if (known?.text !== text) known = { text, secret: new HmacKey(Buffer.from(text, 'base64')) }
  return known.secret
}

/** The html with its links rewritten and the pixel put in. */
export function track(html: string, tracking: Tracking): string {
  const { clicks, delivery, opens } = tracking
  const linked = clicks ? rewriteLinks(html, (url) => trackedUrl(tracking, delivery, url)) : html
  if (!opens) return linked
  const pixel = pixelOf(tracking, delivery)
  const end = endOfBody(linked)
  return linked.slice(0, end) + pixel + linked.slice(end)
}

/**
 * The offset of the last `</body`, else the end. Not searched in lower case, which may be longer than the text ("İ").
 */
export function endOfBody(html: string): number {
  let end = html.length
  for (const { index } of html.matchAll(/<\/body/gi)) end = index
  return end
}

/** Replaces the href of every `<a …>` with a web address. */
export function rewriteLinks(html: string, replace: (url: string) => string): string {
  let output = ''
  let done = 0
  for (const { start, end, url } of readLinks(html)) {
    if (!URL.canParse(url)) continue
    output += html.slice(done, start) + `"${replace(url)}"`
    done = end
  }
  return output + html.slice(done)
}

/** A campaign's merge tag may hold a web address, which is known only when it is filled. */
const WEB = /^(?:https?:\/\/|\{\{)/i

/** A link's href: the offsets of its value, quotes included, and its URL. */
export interface Link {
  start: number
  end: number
  url: string
}

/** Every `<a …>` with a web address, or with a merge tag that may become one. Linear time for any input. */
export function* readLinks(html: string): Iterable<Link> {
  const anchors = /<a(?=[\s/])/gi
  for (let match = anchors.exec(html); match; match = anchors.exec(html)) {
    const tag = readAttributes(html, anchors.lastIndex)
    const href = tag.values.get('href')
    anchors.lastIndex = tag.end
    if (!href || tag.values.get('data-postrider-track')?.value === 'off') continue
    const url = readReferences(href.value).trim()
    if (WEB.test(url)) yield { start: href.start, end: href.end, url }
  }
}

/** An attribute that holds a URL. */
export interface Target extends Link {
  /** A web link, or a merge tag that may become one, without `data-postrider-track="off"`. */
  trackable: boolean
}

/** Attributes whose URL a click or the page itself follows, on any element; then those that only some elements load. */
const FOLLOWED = new Set(['href', 'xlink:href', 'action', 'formaction'])
const LOADED = new Set(['src', 'data'])
const LOADING = new Set(['iframe', 'frame', 'embed', 'object'])

/** Every attribute that holds a URL, in the order of the text. Linear time, as readLinks. */
export function* readTargets(html: string): Iterable<Target> {
  const elements = /<([a-z][a-z0-9:-]{0,30})(?=[\s/])/gi
  for (let match = elements.exec(html); match; match = elements.exec(html)) {
    const [, name = ''] = match
    const element = name.toLowerCase()
    const { values: attributes, end } = readAttributes(html, elements.lastIndex)
    elements.lastIndex = end
    const off = attributes.get('data-postrider-track')?.value === 'off'
    for (const [name, attribute] of attributes) {
      if (!FOLLOWED.has(name) && !(LOADED.has(name) && LOADING.has(element))) continue
      const url = readReferences(attribute.value).trim()
      const trackable = element === 'a' && name === 'href' && !off && WEB.test(url)
      yield { start: attribute.start, end: attribute.end, url, trackable }
    }
  }
}

/** Whether a target filled with foreign values is safe: no scheme that runs a program. */
export function isHarmless(url: string): boolean {
  // Browsers ignore invisible characters here (URL Standard, basic parser, steps 1 to 3).
  const [, scheme] = /^([^:/?#]*):/.exec(url.replace(/^[\0-\x20]+/, '').replace(/[\t\r\n]+/g, '')) ?? []
  return scheme === undefined || /^(?:https?|mailto|tel)$/i.test(scheme)
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
}

const NONE: ReadonlySet<string> = new Set()

/** The attributes of a tag, read from offset `from`; of equal names the first counts (HTML, attribute name state). */
export function readAttributes(html: string, from: number): Attributes {
  const values = new Map<string, Attribute>()
  let bare: Set<string> | undefined
  const attribute = /[\s/]*(?:(>)|([^\s/>=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>][^\s>]*)))?|=)/y
  attribute.lastIndex = from
  for (;;) {
    const start = attribute.lastIndex
    const match = attribute.exec(html)
    if (!match || match[1] !== undefined)
      return { values, bare: bare ?? NONE, end: match ? attribute.lastIndex : start }
    const value = match[3] ?? match[4] ?? match[5]
    const name = match[2]?.toLowerCase()
    if (name !== undefined && value === undefined) (bare ??= new Set()).add(name)
    if (name === undefined || value === undefined || values.has(name)) continue
    const length = value.length + (match[5] === undefined ? 2 : 0)
    values.set(name, { value, start: attribute.lastIndex - length, end: attribute.lastIndex })
  }
}
