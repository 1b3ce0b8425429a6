// Open and click tracking (D38): a pixel at the end of the html, and links that pass through this server. Tokens are
// signed. A redirect goes only to a target inside a token of ours. Not tracked: other schemes than http and https,
// fragments, and links that the sender marked with `data-postrider-track="off"`.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { endOfBody, readAttributes, readReferences } from './html-tokens.ts'

/** The facts for tracking an email. The key is derived from the instance key. */
export interface Tracking {
  /** Such as "https://mail.example.org". Tokens follow after /t/. */
  base: string
  /** Key of tracking tokens, base64. */
  key: string
  /** The key of the delivery, which tokens name. */
  delivery: number
  opens: boolean
  clicks: boolean
}

const MAC_BYTES = 12

const macOf = (key: Buffer, kind: 'o' | 'c', payload: string | Buffer): Buffer =>
  createHmac('sha256', key).update(`${kind}\n`).update(payload).digest().subarray(0, MAC_BYTES)

const sealToken = (key: Buffer, kind: 'o' | 'c', payload: string): string =>
  Buffer.concat([macOf(key, kind, payload), Buffer.from(payload)]).toString('base64url')

function openToken(key: Buffer, kind: 'o' | 'c', token: string): string | undefined {
  const bytes = Buffer.from(token, 'base64url')
  const body = bytes.subarray(MAC_BYTES)
  const mac = macOf(key, kind, body)
  const given = bytes.subarray(0, MAC_BYTES)
  return given.length === MAC_BYTES && timingSafeEqual(mac, given) ? body.toString() : undefined
}

/** The delivery that an open token names, or undefined if it is not ours. */
export function readOpenToken(key: Buffer, token: string): number | undefined {
  const text = openToken(key, 'o', token)
  return text === undefined ? undefined : Number(text)
}

/** The delivery and the link's target that a click token names, or undefined if it is not ours. */
export function readClickToken(key: Buffer, token: string): { delivery: number; url: string } | undefined {
  const text = openToken(key, 'c', token)
  if (text === undefined) return undefined
  const [delivery, url] = JSON.parse(text) as [number, string]
  return { delivery, url }
}

type LinkBase = Pick<Tracking, 'base' | 'key'>

/** The URL on this server that a tracked link leads to. */
export const trackedUrl = ({ base, key }: LinkBase, delivery: number, url: string): string =>
  `${base}/t/c/${sealToken(Buffer.from(key, 'base64'), 'c', JSON.stringify([delivery, url]))}`

/** The one-pixel image whose loading is counted as an open. */
export const pixelOf = ({ base, key }: LinkBase, delivery: number): string =>
  `<img src="${base}/t/o/${sealToken(Buffer.from(key, 'base64'), 'o', String(delivery))}.gif" width="1" height="1" alt="" style="border:0;width:1px;height:1px">`

/** The html with its links rewritten and the pixel put in. */
export function track(html: string, tracking: Tracking): string {
  const { clicks, delivery, opens } = tracking
  const linked = clicks ? rewriteLinks(html, (url) => trackedUrl(tracking, delivery, url)) : html
  if (!opens) return linked
  const pixel = pixelOf(tracking, delivery)
  const end = endOfBody(linked)
  return linked.slice(0, end) + pixel + linked.slice(end)
}

/** Replaces the href of every link with a web address. */
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

/** A campaign's merge tag may have a web address as value, which is known only when it is filled. */
const WEB = /^(?:https?:\/\/|\{\{)/i

/** A link's href: the offsets of its value, quotes included, and its URL. */
export interface Link {
  start: number
  end: number
  url: string
}

/** Elements that readers click: links, areas of an image, and the buttons that Outlook draws (VML). */
const CLICKED = /^(?:a|area|v:\w+)$/

/** Every element of `CLICKED` with a web address, or a merge tag that may become one. Linear time for any input. */
export function* readLinks(html: string): Iterable<Link> {
  const anchors = /<(?:a|area|v:\w{1,30})(?=[\s/])/gi
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

/** Attributes whose URL a click or the page itself follows, on any element. Then those that only some elements load. */
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
      const trackable = CLICKED.test(element) && name === 'href' && !off && WEB.test(url)
      yield { start: attribute.start, end: attribute.end, url, trackable }
    }
  }
}

/**
 * A URL without the characters that browsers ignore (URL Standard, basic parser, steps 1 to 3). Merge tags stay
 * unchanged.
 */
export const asBrowserReads = (url: string): string =>
  url
    .replace(/\{\{[^{}]{1,400}\}\}|[\t\r\n]/g, (each) => (each.startsWith('{') ? each : ''))
    .replace(/^[\0-\x20]+|[\0-\x20]+$/g, '')

/** Whether a target filled with foreign values is safe: no scheme that runs a program. */
export function isHarmless(url: string): boolean {
  // Browsers ignore invisible characters here (URL Standard, basic parser, steps 1 to 3).
  const [, scheme] = /^([^:/?#]*):/.exec(url.replace(/^[\0-\x20]+/, '').replace(/[\t\r\n]+/g, '')) ?? []
  return scheme === undefined || /^(?:https?|mailto|tel)$/i.test(scheme)
}
