// Lists of the API on pages: filters, search, table and page links. The URL of the page has the same filters.
import { html } from 'hono/html'
import { refuse } from '../base/errors.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { refusals } from './html/forms.ts'
import { filter as folded, live, pageOf, pager, search, tabs, type Cell, type Html } from './html/widgets.ts'
import type { Answer, Visit } from './html/visit.ts'
import { selectable, type Bulk } from './bulk.ts'
import { orderOf, tableOf, withOrder, type ViewColumn } from './table.ts'

/** Tabs that filter a list by one attribute. */
interface FilterTabs {
  /** The purpose of the filter, for a screen reader. */
  label: string
  /** The name of the parameter in the URL of the page. */
  name: string
  /** The name of the filter in the API, if it differs. */
  filter?: string
  /** Values with their names, '' for all. `filter`: the value in the API, if it differs. */
  options: readonly { value: string; name: string; count?: number; filter?: string }[]
}

type ViewColumns<R extends Resource> = readonly ViewColumn<R>[]

export interface ListView<R extends Resource> {
  of: R
  /** The list in the API, such as "/inboxes", with parameters that never change. */
  from: string
  caption: string
  columns: ViewColumns<R> | ((answer: Answer<R>) => ViewColumns<R> | Promise<ViewColumns<R>>)
  /** The number of rows on a page. */
  size?: number
  /** The table is updated after events. */
  live?: true
  tabs?: FilterTabs
  /** The label of the search box. */
  search?: string
  bulk?: Bulk<R>
  /** The content without rows, with the next step. */
  empty: Cell
  /** The content if no row matches the search and the tab. */
  noMatch?: Cell
}

/** Returns the chosen tab, or the first one if the URL names no tab. */
const chosen = (visit: Visit, { name, options }: FilterTabs) =>
  options.find(({ value }) => value === visit.query(name)) ?? options[0]

/** The path of this page with another tab. */
function pathWith(visit: Visit, name: string, value: string): string {
  const query = new URLSearchParams()
  if (value !== '') query.set(name, value)
  for (const kept of ['q', 'sort']) if (visit.query(kept) !== '') query.set(kept, visit.query(kept))
  return `${visit.context.req.path}${query.size === 0 ? '' : `?${query.toString()}`}`
}

/** The parameters of the API for the page, the tab and the search of a visit. */
function filtersOf<R extends Resource>(visit: Visit, { search: searches, size, tabs: by }: ListView<R>): string {
  const tab = by && chosen(visit, by)
  const value = tab?.filter ?? tab?.value ?? ''
  const q = searches === undefined ? '' : visit.query('q')
  return [
    pageOf(visit, size),
    ...(by && value !== '' ? [`filter%5B${by.filter ?? by.name}%5D=${value}`] : []),
    ...(q === '' ? [] : [`filter%5Bsearch%5D=${encodeURIComponent(q)}`]),
  ].join('&')
}

/** Reads the requested page of a list, and shows it. Throws 404 if the resource that the list is in does not exist. */
export async function listOf<R extends Resource>(
  visit: Visit,
  view: ListView<R>,
): Promise<{ answer: Answer<R>; body: Html }> {
  const { columns, empty, from, noMatch, of, search: label, tabs: by } = view
  const { asked, sorted } = orderOf(visit, of)
  const answer = await visit.get(of, `${from}${from.includes('?') ? '&' : '?'}${filtersOf(visit, view)}${asked}`)
  if (answer.status === 404) throw refuse('not_found', 'Page not found.')
  const tab = by ? (chosen(visit, by)?.value ?? '') : ''
  const filtered = tab !== '' || (label !== undefined && visit.query('q') !== '')
  const nothing = filtered && noMatch !== undefined ? noMatch : empty
  const { bar, boxes } = selectable(visit, view.bulk, answer.many)
  const rows = tableOf(
    view.caption,
    withOrder(of, typeof columns === 'function' ? await columns(answer) : columns),
    answer.many,
    nothing,
    { sorted, ...boxes },
  )
  const choice = by
    ? tabs(
        by.label,
        by.options.map(({ value, ...each }) => ({ ...each, to: pathWith(visit, by.name, value), here: value === tab })),
      )
    : ''
  const kept = {
    ...(by && tab !== '' && { [by.name]: tab }),
    ...(visit.query('sort') !== '' && { sort: visit.query('sort') }),
  }
  const found = label === undefined ? '' : folded(visit.query('q') === '' ? 0 : 1, search(visit, label, '', kept))
  const refused = refusals(answer.errors)
  const table = html`${rows} ${bar} ${pager(visit, answer)}`
  return {
    answer,
    // The search box is not updated, because a user may be typing into it.
    body: view.live
      ? html`${found} ${refused} ${live(visit, html`${choice} ${table}`)}`
      : html`${choice} ${found} ${refused} ${table}`,
  }
}
