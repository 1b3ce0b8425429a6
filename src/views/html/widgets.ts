// The parts of pages: times, numbers, states, tables. The forms are in forms.ts.
import { countedGrouped, percent as percentText } from '../../base/text.ts'
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Answer, Visit } from './visit.ts'

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>
export type Cell = Html | string | number

/** The format of a point in time: short, with its seconds, or as the time until then. */
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

/** The length of an ISO time up to its minutes, and up to its seconds. */
const MINUTES = 16
const SECONDS = 19

/**
 * A point in time, written in UTC. The frame of the page writes it in the browser's time zone (`inZone`), the script in
 * the browser's language. The whole time is its title.
 */
export const time = (iso: unknown): Html => pointInTime(iso, 'short')
/** A point in time with its seconds, for steps whose order matters. */
export const exactTime = (iso: unknown): Html => pointInTime(iso, 'seconds')
/** A future point in time, such as the next attempt: "in 4 min". */
export const timeUntil = (iso: unknown): Html => pointInTime(iso, 'until')

/** The points in time of a finished page, as `pointInTime` writes them. No other text contains this tag. */
const WRITTEN = /(<time datetime="([^"]+)" title="[^"]*" data-form="(\w+)"\s*>)[^<]*(?=<\/time)/g

/** Converts the points in time of a page to a zone. */
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
export { countedGrouped as counted }
export const percent = (share: number): string => percentText(share, share > 0 && share < 0.01 ? 2 : 1)

/** A number of bytes with its unit. */
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
  'refusing',
  'reduced',
  'listed',
  'wrong',
  'alarm',
  'error',
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
  'warming up',
  'warn',
  'suppressed',
  'deferred',
  'in progress',
  'missing',
  'no address',
  'no confirmation',
  'does not match',
  'slow',
])

/** The labels for states on all pages, if they differ from the name in the API. */
const LABELS: Readonly<Record<string, string>> = { fail: 'failed', virus_detected: 'virus found', warn: 'warning' }

/** A state, shown as a word, optionally with a figure after it. The colour only supplements it. */
export const badge = (state: string): Html => {
  const word = state.split(' (', 1)[0] ?? state
  return html`<span class="badge ${GOOD.has(word) ? 'good' : BAD.has(word) ? 'bad' : WAITS.has(word) ? 'waits' : ''}"
    >${LABELS[state] ?? state.replaceAll('_', ' ')}</span
  >`
}

/** The content of a column. It decides its width, and the position of its cells in a row on a phone. */
type ColumnKind = 'text' | 'status' | 'time' | 'figure' | 'share' | 'spark' | 'action' | 'actions' | 'more' | 'box'

export interface TableColumn {
  title: string
  /** `text` by default. */
  kind?: ColumnKind
  /** The share of the table in percent. Columns of text without one divide the remaining width. */
  width?: 10 | 15 | 20 | 25 | 30 | 40
  /** Long texts take several lines. Otherwise they end with an ellipsis. */
  wraps?: true
  /** The ascending order of the API by this column, such as "status,created_at". */
  sort?: string
  /** Phones do not show it. */
  wide?: true
}

export interface TableOptions {
  /** The order of the rows, and the address of the page in another order. Headers of sortable columns link to it. */
  sorted?: { by: string; to: (sort: string) => string }
  /** The checkbox of each row. */
  boxes?: readonly Html[]
}

/** The opposite order. */
const reversed = (sort: string): string =>
  sort.replaceAll(/(^|,)(-?)/g, (_, comma, minus) => comma + (minus ? '' : '-'))

/** The header of a column. A sortable one is a link to its order, or to the opposite of the present one. */
function header({ kind, sort, title }: TableColumn, look: string, { sorted }: TableOptions): Html {
  if (kind === 'box')
    return html`<td class="${look}">
      <label><input type="checkbox" data-all aria-label="Select all on this page" /></label>
    </td>`
  if (title === '') return html`<td class="${look}"></td>`
  if (sort === undefined || !sorted) return html`<th scope="col" class="${look}">${title}</th>`
  const state = sorted.by === sort ? 'ascending' : sorted.by === reversed(sort) ? 'descending' : 'none'
  // Times and numbers start with the newest and the largest.
  const first = kind === 'time' || kind === 'figure' ? reversed(sort) : sort
  const to = sorted.to(state === 'none' ? first : reversed(sorted.by))
  return html`<th scope="col" class="${look}" aria-sort="${state}"><a href="${to}">${title}</a></th>`
}

export const figures = (...titles: readonly string[]): TableColumn[] =>
  titles.map((title) => ({ title, kind: 'figure' }))

/** The positions of a column's cells in the two lines that a row has on a phone. The other cells come below. */
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
    box: [],
  }
  // Without a second text, a second time has its place.
  if (columns.filter(({ kind = 'text', wide }) => kind === 'text' && !wide).length < 2) free.time.push('p3')
  return columns.map(({ kind = 'text', wide }) => {
    const places: string[] = free[kind]
    if (wide) return 'wide'
    return places.shift() ?? (['spark', 'action', 'actions', 'more', 'box'].includes(kind) ? '' : 'px')
  })
}

const looksOf = ({ kind, width, wraps }: TableColumn, place = ''): string =>
  [kind ? `k-${kind}` : '', width ? `w${width}` : '', wraps ? 'wraps' : '', place].filter(Boolean).join(' ')

/** A table with one line per row. On a phone a row is two lines. `empty` names the next step if the table is empty. */
export function table(
  caption: string,
  given: readonly (string | TableColumn)[],
  rows: readonly (readonly Cell[])[],
  empty: Cell,
  options: TableOptions = {},
): Html {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  const { boxes } = options
  const columns = [
    ...(boxes ? [{ title: '', kind: 'box' } as const] : []),
    ...given.map((each): TableColumn => (typeof each === 'string' ? { title: each } : each)),
  ]
  const places = phonePlaces(columns)
  const shown = columns.map((column, at) => ({ ...column, look: looksOf(column, places[at]) }))
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${shown.map(({ look, ...column }) => header(column, look, options))}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row, index) =>
            html`<tr>
              ${[...(boxes ? [boxes[index] ?? ''] : []), ...row].map((cell, at) => html`<td class="${shown[at]?.look ?? ''}" data-title="${shown[at]?.title ?? ''}">${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

/** A figure with its name. With an address, it is a link to the counted rows. */
export const tile = (label: string, value: Cell, more: { to?: string; note?: Cell } = {}): Html => {
  const body = html`<span>${label}</span><strong>${value}</strong>${more.note === undefined ? '' : more.note}`
  return more.to === undefined
    ? html`<div class="tile">${body}</div>`
    : html`<a class="tile" href="${more.to}">${body}</a>`
}

/** Tabs below the head of a page: links to its parts, with optional counts. */
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

/** A choice between views of the same list, as links side by side. */
export const segments = (label: string, links: readonly { to: string; name: string; here: boolean }[]): Html =>
  html`<nav class="segments" aria-label="${label}">
    ${links.map(({ here, name, to }) => html`<a href="${to}" ${here ? html`aria-current="true"` : ''}>${name}</a>`)}
  </nav>`

/** The address of the page with other query parameters, and without its last confirmation. '' removes one. */
export function hereWith({ context }: Visit, changed: Readonly<Record<string, string>>): string {
  const { pathname, searchParams } = new URL(context.req.url)
  for (const [name, value] of Object.entries({ said: '', ...changed }))
    if (value === '') searchParams.delete(name)
    else searchParams.set(name, value)
  return searchParams.size === 0 ? pathname : `${pathname}?${searchParams.toString()}`
}

/** The rows of a page among all rows of its list. `more`: the list has more than `total`. */
interface CountedRows {
  rows: number
  size: number
  total: number
  more: boolean
}

/**
 * Links to the previous and the next page, which keep the query and add `more`, and the position of the page: "1-50 of
 * 2,526".
 */
export function pager(
  visit: Visit,
  { next, previous }: Pick<Answer, 'next' | 'previous'>,
  counted?: CountedRows,
  more: Record<string, string> = {},
): Html | '' {
  if (next === null && previous === null && !counted?.rows) return ''
  const { rows = 0, size = 0 } = counted ?? {}
  // The number of rows before the page, which a cursor does not contain.
  const [back, on] = visit.query('sort') === '' ? ['Newer', 'Older'] : ['Previous', 'Next']
  const before = previous === null ? 0 : Math.min(Number(/^\d{1,9}$/.exec(visit.query('past'))?.[0] ?? 0), 1e9)
  const to = (cursor: string, at: number): string =>
    hereWith(visit, { ...more, cursor, ...(counted && { past: String(Math.max(at, 0)) }) })
  return html`<nav class="pager" aria-label="Pages">
    ${counted && rows > 0 ? html`<span class="soft">${placeIn(counted, before)}</span>` : ''}
    ${previous === null ? '' : html`<a class="button plain small" href="${to(previous, before - size)}" rel="prev">${back}</a>`}
    ${next === null ? '' : html`<a class="button plain small" href="${to(next, before + rows)}" rel="next">${on}</a>`}
  </nav>`
}

/** "1-50 of 2,526", or "more than" for a list that was not counted to its end. */
function placeIn({ more, rows, total }: CountedRows, before: number): string {
  const [first, last] = [before + 1, before + rows]
  return `${count(first)}–${count(last)} of ${more ? `more than ${count(Math.max(total, last))}` : count(Math.max(total, last))}`
}

/** The requested page of a list, as query parameters of the API. */
export const pageOf = (visit: Visit, size = 50): string => {
  const cursor = visit.query('cursor')
  return `page%5Bsize%5D=${size}${cursor === '' ? '' : `&page%5Bcursor%5D=${encodeURIComponent(cursor)}`}`
}

/** Filters, which a phone shows behind one button. `set`: how many of them are set. */
export const filter = (set: number, body: Cell): Html =>
  html`<details class="filter">
      <summary class="button plain">Filter${set > 0 ? ` (${set})` : ''}</summary>
    </details>
    <div class="filtered">${body}</div>`

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

/** Untrusted HTML in its own frame, and a link that shows its remote images, too. */
export function looks(visit: Visit, body: string, address: string, title: string): Html {
  const asked = visit.query('pictures') === 'yes'
  const remote = /<img\b[^>]*\bsrc\s*=\s*["']?https?:/i.test(body)
  return html`<p class="soft">
      ${asked ? 'Scripts and forms are blocked. This server fetched the remote images.' : 'Scripts, forms and remote images are blocked.'}
      ${remote && !asked ? html`<a href="?pictures=yes#looks">Show images</a>. This server fetches them, so the sender does not see your IP address.` : ''}
    </p>
    <iframe
      id="looks"
      sandbox="allow-same-origin"
      src="${address}${asked ? '?pictures=yes' : ''}"
      title="${title}"
      class="fit"
    ></iframe>`
}
