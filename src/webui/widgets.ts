// The parts of pages: times, numbers, states, tables. The forms are in forms.ts.
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Answer, Visit } from './visit.ts'

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>
export type Cell = Html | string | number

/** How a point in time is shown: short, with its seconds, or as the time until then. */
type TimeForm = 'short' | 'seconds' | 'until'

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** "24 Nov 15:04", in UTC. */
const shortly = (iso: string, digits: number): string =>
  `${Number(iso.slice(8, 10))} ${MONTHS[Number(iso.slice(5, 7)) - 1] ?? ''} ${iso.slice(11, digits)}`

const pointInTime = (iso: unknown, form: TimeForm): Html =>
  typeof iso === 'string' && iso !== ''
    ? html`<time datetime="${iso}" title="${iso}" data-form="${form}"
        >${shortly(iso, form === 'seconds' ? SECONDS : MINUTES)}</time
      >`
    : html`<span class="soft">–</span>`

/** The digits of an ISO time that end with its minutes, and with its seconds. */
const MINUTES = 16
const SECONDS = 19

/**
 * A point in time: written in UTC. The frame of the page writes it in the zone that the browser told (`inZone`), the
 * script in the words of the browser. The whole is its title.
 */
export const time = (iso: unknown): Html => pointInTime(iso, 'short')
/** A point in time with its seconds, where the order of steps matters. */
export const exactTime = (iso: unknown): Html => pointInTime(iso, 'seconds')
/** A point in time that comes, such as the next attempt: "in 4 min". */
export const timeUntil = (iso: unknown): Html => pointInTime(iso, 'until')

/** The points in time of a page that is made, as `pointInTime` writes them; no other text holds a tag. */
const WRITTEN = /(<time datetime="([^"]+)" title="[^"]*" data-form="(\w+)"\s*>)[^<]*(?=<\/time)/g

/** A page with its points in time as they are in a zone. */
export function inZone(page: string, zone: string): string {
  if (zone === 'UTC') return page
  const writer = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options })
  const day = writer({ day: 'numeric', month: 'short' })
  const minutes = { hour: '2-digit', minute: '2-digit' } as const
  const [short, seconds] = [writer(minutes), writer({ ...minutes, second: '2-digit' })]
  return page.replace(WRITTEN, (whole, tag: string, iso: string, form: string) => {
    const at = new Date(iso)
    if (Number.isNaN(at.getTime())) return whole
    return `${tag}${day.format(at)} ${(form === 'seconds' ? seconds : short).format(at)}`
  })
}

export const count = (value: number): string => value.toLocaleString('en')
/** A number with its noun: "1 row", "2 rows". */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`
export const percent = (share: number): string => `${(share * 100).toFixed(share > 0 && share < 0.01 ? 2 : 1)}%`

/** A number of octets with its unit. */
export function octets(value: number): string {
  const unit = ['bytes', 'KB', 'MB', 'GB', 'TB']
  let at = 0
  let size = value
  for (; size >= 1000 && at < unit.length - 1; at++) size /= 1000
  return `${at === 0 ? size : size.toFixed(1)} ${unit[at]!}`
}

const GOOD = new Set([
  'delivered',
  'active',
  'sent',
  'subscribed',
  'received',
  'done',
  'ok',
  'found',
  'verified',
  'trusted',
  'warm',
  'opened',
  'clicked',
  'good',
  'clear',
])
const BAD = new Set([
  'failing',
  'late',
  'bounced',
  'failed',
  'rejected',
  'complained',
  'disabled',
  'suspended',
  'virus_detected',
  'fail',
  'damaged',
  'unsubscribed',
  'refusing',
  'went back',
  'listed',
  'wrong',
  'alarm',
])
const WAITS = new Set([
  'queued',
  'waiting',
  'sending',
  'finishing',
  'scheduled',
  'verifying',
  'pending',
  'paused',
  'held',
  'holding',
  'on hold',
  'warm-up',
  'warn',
  'suppressed',
  'deferred',
  'under way',
  'missing',
  'different',
  'slow',
])

/** States that pages call by another word than the API. */
const SAID: Readonly<Record<string, string>> = { queued: 'waiting', deferred: 'waiting' }

/** A state, shown as a word, perhaps with a figure behind it; the colour only adds to it. */
export const badge = (state: string): Html => {
  const word = state.split(' (', 1)[0] ?? state
  return html`<span class="badge ${GOOD.has(word) ? 'good' : BAD.has(word) ? 'bad' : WAITS.has(word) ? 'waits' : ''}"
    >${SAID[word] ? state.replace(word, SAID[word]) : state.replaceAll('_', ' ')}</span
  >`
}

/** What a column holds. It decides its width, and where its cells stand in a row on a phone. */
type ColumnKind = 'text' | 'status' | 'time' | 'figure' | 'share' | 'spark' | 'action' | 'actions' | 'more'

export interface TableColumn {
  title: string
  /** `text` when it is absent. */
  kind?: ColumnKind
  /** The share of the table in percent; columns of text without one divide what is left. */
  width?: 10 | 15 | 20 | 25 | 30 | 40
  /** Long texts take several lines; otherwise they end with an ellipsis. */
  wraps?: true
}

/** Columns of figures, as most tables have several. */
export const figures = (...titles: readonly string[]): TableColumn[] =>
  titles.map((title) => ({ title, kind: 'figure' }))

/** Where the cells of a column stand in the two lines that a row has on a phone; what has no place comes below. */
function phonePlaces(columns: readonly TableColumn[]): string[] {
  const free = {
    text: ['p1', 'p3'],
    status: ['p4'],
    time: ['p2'],
    figure: [],
    share: [],
    spark: [],
    action: [],
    actions: [],
    more: [],
  }
  return columns.map(({ kind = 'text' }) => {
    const places: string[] = free[kind]
    return places.shift() ?? (['spark', 'action', 'actions', 'more'].includes(kind) ? '' : 'px')
  })
}

/**
 * A table with one line a row; on a phone a row is two lines. `empty` names the next step when there are no rows.
 */
export function table(
  caption: string,
  given: readonly (string | TableColumn)[],
  rows: readonly (readonly Cell[])[],
  empty: Cell,
): Html {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  const columns = given.map((each): TableColumn => (typeof each === 'string' ? { title: each } : each))
  const places = phonePlaces(columns)
  const shown = columns.map(({ kind, title, width, wraps }, at) => ({
    title,
    look: [kind ? `k-${kind}` : '', width ? `w${width}` : '', wraps ? 'wraps' : '', places[at]]
      .filter(Boolean)
      .join(' '),
  }))
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${shown.map(({ look, title }) => (title === '' ? html`<td class="${look}"></td>` : html`<th scope="col" class="${look}">${title}</th>`))}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell, at) => html`<td class="${shown[at]?.look ?? ''}" data-title="${shown[at]?.title ?? ''}">${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

/** A figure with its name; with an address it leads to what it counts. */
export const tile = (label: string, value: Cell, more: { to?: string; note?: Cell } = {}): Html => {
  const body = html`<span>${label}</span><strong>${value}</strong>${more.note === undefined ? '' : more.note}`
  return more.to === undefined
    ? html`<div class="tile">${body}</div>`
    : html`<a class="tile" href="${more.to}">${body}</a>`
}

/** Tabs below the head of a page: links to its parts, with counts where there are some. */
export const tabs = (
  label: string,
  links: readonly { to: string; name: string; count?: number; here: boolean }[],
): Html =>
  html`<nav class="tabs" aria-label="${label}">
    ${links.map(
      ({ count: some, here, name, to }) =>
        html`<a href="${to}" ${here ? html`aria-current="true"` : ''}
          >${name}${some === undefined ? '' : ` ${count(some)}`}</a
        >`,
    )}
  </nav>`

/** A choice between a few views of the same list, as links side by side. */
export const segments = (label: string, links: readonly { to: string; name: string; here: boolean }[]): Html =>
  html`<nav class="segments" aria-label="${label}">
    ${links.map(({ here, name, to }) => html`<a href="${to}" ${here ? html`aria-current="true"` : ''}>${name}</a>`)}
  </nav>`

/** The rows of a page among all rows of its list; `more`: the list has more than `total`. */
interface CountedRows {
  rows: number
  size: number
  total: number
  more: boolean
}

/** Links to the previous and the next page, which keep the query, and where the page is: "1-50 of 2,526". */
export function pager(
  visit: Visit,
  { next, previous }: Pick<Answer, 'next' | 'previous'>,
  counted?: CountedRows,
): Html | '' {
  if (next === null && previous === null && !counted?.rows) return ''
  const { rows = 0, size = 0 } = counted ?? {}
  // How many rows are before the page; a cursor does not say it.
  const before = previous === null ? 0 : Math.min(Number(/^\d{1,9}$/.exec(visit.query('past'))?.[0] ?? 0), 1e9)
  const to = (cursor: string, at: number): string => {
    const url = new URL(visit.context.req.url)
    url.searchParams.set('cursor', cursor)
    if (counted) url.searchParams.set('past', String(Math.max(at, 0)))
    return url.pathname + url.search
  }
  return html`<nav class="pager" aria-label="Pages">
    ${counted && rows > 0 ? html`<span class="soft">${placeIn(counted, before)}</span>` : ''}
    ${previous === null ? '' : html`<a class="button plain small" href="${to(previous, before - size)}" rel="prev">Newer</a>`}
    ${next === null ? '' : html`<a class="button plain small" href="${to(next, before + rows)}" rel="next">Older</a>`}
  </nav>`
}

/** "1-50 of 2,526", or of more than were counted. */
function placeIn({ more, rows, total }: CountedRows, before: number): string {
  const [first, last] = [before + 1, before + rows]
  return `${count(first)}–${count(last)} of ${more ? `more than ${count(Math.max(total, last))}` : count(Math.max(total, last))}`
}

/** The requested page of a list, as query parameters of the API. */
export const pageOf = (visit: Visit, size = 50): string => {
  const cursor = visit.query('cursor')
  return `page%5Bsize%5D=${size}${cursor === '' ? '' : `&page%5Bcursor%5D=${encodeURIComponent(cursor)}`}`
}

/** One search box. */
export const search = (visit: Visit, label: string, hint = '', hidden: Record<string, string> = {}): Html =>
  html`<form class="search" method="get" role="search">
    ${Object.entries(hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
    <label for="q">${label}</label>
    <div class="row">
      <input id="q" name="q" type="search" value="${visit.query('q')}" autocomplete="off" />
      <button class="plain">Search</button>
    </div>
    ${hint === '' ? '' : html`<p class="soft">${hint}</p>`}
  </form>`

/** Code to copy. */
export const codeShown = (id: string, code: string): Html =>
  html`<div class="code">
    <button class="plain small" type="button" data-copy="${id}">Copy</button>
    <pre tabindex="0" id="${id}">${code}</pre>
  </div>`

/** A list of names and values. */
export const facts = (rows: readonly (readonly [name: string, value: Cell])[]): Html =>
  html`<dl class="facts">
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`

/** A part of a page that is updated after events. */
export const live = (visit: Visit, body: Cell, { actions = false } = {}): Html => {
  const { pathname, search: query } = new URL(visit.context.req.url)
  return html`<div
    id="live"
    hx-get="${pathname}${query}"
    hx-trigger="changed from:body"
    hx-select="#live"
    ${actions ? html`hx-select-oob="#do"` : ''}
    hx-swap="outerHTML"
    hx-disinherit="*"
  >
    ${body}
  </div>`
}

/** HTML from strangers in its own frame, and a link that shows its remote pictures too. */
export function looks(visit: Visit, body: string, address: string, title: string): Html {
  const asked = visit.query('pictures') === 'yes'
  const remote = /<img\b[^>]*\bsrc\s*=\s*["']?https?:/i.test(body)
  return html`<p class="soft">
      Scripts and forms are left
      out${asked ? '; this server fetched the pictures.' : ', and pictures from elsewhere too.'}
      ${remote && !asked ? html`<a href="?pictures=yes#looks">Show the pictures</a>: this server fetches them, so that their owner does not learn who looks.` : ''}
    </p>
    <iframe
      id="looks"
      sandbox="allow-same-origin"
      src="${address}${asked ? '?pictures=yes' : ''}"
      title="${title}"
      class="fit"
    ></iframe>`
}
