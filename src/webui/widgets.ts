// The parts of pages: times, numbers, states, tables. The forms are in forms.ts.
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Answer, Visit } from './visit.ts'

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>
export type Cell = Html | string | number

const pointInTime = (iso: unknown, digits: number): Html =>
  typeof iso === 'string' && iso !== ''
    ? html`<time datetime="${iso}" title="${iso}" ${digits > MINUTES ? html`data-seconds` : ''}
        >${iso.slice(0, digits).replace('T', ' ')} UTC</time
      >`
    : html`<span class="soft">–</span>`

/** The digits of an ISO time that end with its minutes, and with its seconds. */
const MINUTES = 16
const SECONDS = 19

/** A point in time: written in UTC, and shown in the reader's time zone when scripts run. */
export const time = (iso: unknown): Html => pointInTime(iso, MINUTES)
/** A point in time with its seconds, where the order of steps matters. */
export const exactTime = (iso: unknown): Html => pointInTime(iso, SECONDS)

export const count = (value: number): string => value.toLocaleString('en')
/** A number with its noun: "1 row", "2 rows". */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`
export const percent = (share: number): string => `${(share * 100).toFixed(share > 0 && share < 0.01 ? 2 : 1)} %`

/** A number of octets with its unit. */
export function octets(value: number): string {
  const unit = ['octets', 'KB', 'MB', 'GB', 'TB']
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
  'verified',
  'trusted',
  'opened',
  'clicked',
])
const BAD = new Set([
  'failing',
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
])
const WAITS = new Set([
  'queued',
  'sending',
  'scheduled',
  'verifying',
  'pending',
  'paused',
  'held',
  'on hold',
  'warn',
  'suppressed',
  'deferred',
  'under way',
])

/** A state, shown as a word; the colour only adds to it. */
export const badge = (state: string): Html =>
  html`<span class="badge ${GOOD.has(state) ? 'good' : BAD.has(state) ? 'bad' : WAITS.has(state) ? 'waits' : ''}"
    >${state.replaceAll('_', ' ')}</span
  >`

export interface TableColumn {
  title: string
  /** A column of figures, aligned to the right. */
  figure?: true
}

/**
 * A table; on narrow screens each row is a block with the titles of the columns before its values. `empty` names the
 * next step when there are no rows.
 */
export function table(
  caption: string,
  columns: readonly (string | TableColumn)[],
  rows: readonly (readonly Cell[])[],
  empty: Cell,
): Html {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
  const titleOf = (at: number): string => {
    const column = columns[at]!
    return typeof column === 'string' ? column : column.title
  }
  const figure = (at: number): string => {
    const column = columns[at]
    return typeof column === 'object' && column.figure ? 'figure' : ''
  }
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${caption}">
    <table>
      <caption class="hidden">
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map((_, at) => (titleOf(at) === '' ? html`<td></td>` : html`<th scope="col" class="${figure(at)}">${titleOf(at)}</th>`))}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell, at) => html`<td class="${figure(at)}" data-title="${titleOf(at)}">${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}

/** Links to the previous and the next page; they keep the query. */
export function pager(visit: Visit, { next, previous }: Pick<Answer, 'next' | 'previous'>): Html | '' {
  if (next === null && previous === null) return ''
  const to = (cursor: string): string => {
    const url = new URL(visit.context.req.url)
    url.searchParams.set('cursor', cursor)
    return url.pathname + url.search
  }
  return html`<nav class="pager" aria-label="Pages">
    ${previous === null ? '' : html`<a href="${to(previous)}" rel="prev">Newer</a>`}
    ${next === null ? '' : html`<a href="${to(next)}" rel="next">Older</a>`}
  </nav>`
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

/** A line of one figure over time: pairs of a time in seconds and a value. `span`: it covers at least these seconds. */
export const lineChart = (
  title: string,
  { points, span, unit }: { unit: string; span: number; points: readonly (readonly [at: number, value: number])[] },
): Html =>
  html`<figure
    class="chart"
    data-line="${JSON.stringify(points)}"
    data-unit="${unit}"
    data-span="${span}"
    aria-label="${title}"
  ></figure>`

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
export const live = (visit: Visit, body: Cell): Html => {
  const { pathname, search: query } = new URL(visit.context.req.url)
  return html`<div
    id="live"
    hx-get="${pathname}${query}"
    hx-trigger="changed from:body"
    hx-select="#live"
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
      sandbox
      src="${address}${asked ? '?pictures=yes' : ''}"
      title="${title}"
      loading="lazy"
    ></iframe>`
}
