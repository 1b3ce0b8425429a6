// The parts of pages: times, numbers, states, tables, forms.
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import type { Answer, Visit } from './visit.ts'

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>
export type Cell = Html | string | number

/** A point in time: written in UTC, and shown in the reader's time zone when scripts run. */
export const time = (iso: unknown): Html =>
  typeof iso === 'string' && iso !== ''
    ? html`<time datetime="${iso}" title="${iso}">${iso.slice(0, 16).replace('T', ' ')} UTC</time>`
    : html`<span class="soft">–</span>`

export const count = (value: number): string => value.toLocaleString('en')
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

export interface Column {
  title: string
  /** A column of figures, aligned to the right. */
  figure?: true
}

/** A table that scrolls inside the page on narrow screens; `empty` names the next step when there are no rows. */
export function table(
  caption: string,
  columns: readonly (string | Column)[],
  rows: readonly (readonly Cell[])[],
  empty: Cell,
): Html {
  if (rows.length === 0) return html`<div class="empty">${empty}</div>`
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
          ${columns.map((column, at) => {
            const title = typeof column === 'string' ? column : column.title
            return title === '' ? html`<td></td>` : html`<th scope="col" class="${figure(at)}">${title}</th>`
          })}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell, at) => html`<td class="${figure(at)}">${cell}</td>`)}
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

/** A form with an action. Every form carries the proof that this server wrote it. */
export const form = (
  visit: Visit,
  action: string,
  body: Cell,
  options: { to?: string; confirm?: string; multipart?: true; kind?: string } = {},
): Html =>
  html`<form
    method="post"
    ${options.to === undefined ? '' : html`action="${options.to}"`}
    ${options.multipart ? html`enctype="multipart/form-data"` : ''}
    ${options.confirm === undefined ? '' : html`data-confirm="${options.confirm}"`}
    class="${options.kind ?? ''}"
  >
    <input type="hidden" name="proof" value="${visit.proof}" /><input type="hidden" name="action" value="${action}" />
    ${body}
  </form>`

/** A button with an action. When the action cannot be undone, its consequence is shown. */
export const button = (
  visit: Visit,
  action: string,
  label: string,
  options: { to?: string; confirm?: string; fields?: Record<string, string>; danger?: true } = {},
): Html | '' =>
  visit.reading
    ? ''
    : form(
        visit,
        action,
        html`${Object.entries(options.fields ?? {}).map(
            ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
          )}<button class="${options.danger ? 'danger' : 'plain'}">${label}</button>`,
        { kind: 'inline', ...options },
      )

export interface Field {
  name: string
  label: string
  value?: string
  type?: 'text' | 'email' | 'url' | 'password' | 'datetime-local' | 'number' | 'file'
  hint?: string
  required?: true
  /** The number of lines, for a text area. */
  lines?: number
  options?: readonly (readonly [value: string, label: string])[]
  accept?: string
  error?: string | undefined
}

/** A labelled field; when the API refused its value, the API's sentence is shown with it. */
export function field({
  accept,
  error,
  hint,
  label,
  lines,
  name,
  options,
  required,
  type = 'text',
  value = '',
}: Field): Html {
  const described = [hint === undefined ? '' : `${name}-hint`, error === undefined ? '' : `${name}-error`].filter(
    Boolean,
  )
  const shared = html`id="${name}" name="${name}" ${required ? html`required` : ''}
  ${described.length > 0 ? html`aria-describedby="${described.join(' ')}"` : ''}
  ${error === undefined ? '' : html`aria-invalid="true"`}`
  const control = options
    ? html`<select ${shared}>
        ${options.map(
          ([each, words]) => html`<option value="${each}" ${each === value ? html`selected` : ''}>${words}</option>`,
        )}
      </select>`
    : lines
      ? html`<textarea ${shared} rows="${lines}">${value}</textarea>`
      : html`<input
          ${shared}
          type="${type}"
          value="${type === 'file' ? '' : value}"
          ${accept === undefined ? '' : html`accept="${accept}"`}
        />`
  return html`<div class="field">
    <label for="${name}">${label}</label>
    ${control} ${hint === undefined ? '' : html`<p class="soft" id="${name}-hint">${hint}</p>`}
    ${error === undefined ? '' : html`<p class="bad" id="${name}-error">${error}</p>`}
  </div>`
}

/** The API's refusals that belong to no field of the form. */
export const refusals = (errors: Answer['errors']): Html | '' =>
  errors.length === 0
    ? ''
    : html`<div class="alert" role="alert">${errors.map(({ detail }) => html`<p>${detail}</p>`)}</div>`

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
