// Tables of resources and of other rows. A column is declared once: its title, the value or function of its cells, and
// their links.
import { html } from 'hono/html'
import { paramsOf, sortable, type Resource } from '../jsonapi/resource.ts'
import type { AttributesOf } from '../jsonapi/shown.ts'
import {
  badge,
  count,
  hereWith,
  table,
  time,
  type Cell,
  type Html,
  type TableColumn,
  type TableOptions,
} from './html/widgets.ts'
import { namesOf, relatedId, type Answer, type Thing, type Visit } from './html/visit.ts'

export interface RowColumn<Row, Name = keyof Row & string> extends TableColumn {
  /** The value of the row by its name, displayed by the kind of the column, or a function. */
  of: Name | ((row: Row) => Cell)
  /** The path that the cell links to. */
  to?: (row: Row) => string
}

/** A column of resources. A value is an attribute. */
export type ViewColumn<R extends Resource> = RowColumn<Thing<R>, keyof AttributesOf<R> & string>

/** A value as a cell of this kind: a time, a state, a number or text. */
function shown(value: unknown, kind: TableColumn['kind']): Cell {
  if (kind === 'time') return time(value)
  if (kind === 'figure' || kind === 'share') return count(Number(value ?? 0))
  const text = typeof value === 'string' || typeof value === 'number' ? String(value) : ''
  return kind === 'status' ? badge(text) : text
}

function cell<Row>({ kind, of, to }: RowColumn<Row, string>, row: Row, values: object): Cell {
  const value = typeof of === 'function' ? of(row) : shown((values as Record<string, unknown>)[of], kind)
  return to ? html`<a href="${to(row)}">${value}</a>` : value
}

/** A table with a row for each resource. `empty` names the next step if the table is empty. */
export const tableOf = <R extends Resource>(
  caption: string,
  columns: readonly ViewColumn<R>[],
  things: readonly Thing<R>[],
  empty: Cell,
  options: TableOptions = {},
): Html =>
  table(
    caption,
    columns,
    things.map((thing) => columns.map((column) => cell(column, thing, thing.attributes))),
    empty,
    options,
  )

/** The attributes by which the list of a resource can be sorted. */
const offered = (resource: Resource): readonly string[] =>
  resource.actions.some((action) => paramsOf(action).includes('sort')) ? sortable(resource) : []

/** Columns with the attributes by which the API can sort. */
export function withOrder<R extends Resource>(resource: R, columns: readonly ViewColumn<R>[]): ViewColumn<R>[] {
  const names = offered(resource)
  return columns.map((each) =>
    typeof each.of === 'string' && names.includes(each.of) ? { sort: each.of, ...each } : each,
  )
}

/** The order in the URL of a page, as a parameter of the API. One that the API does not offer is ignored. */
export function orderOf(visit: Visit, resource: Resource): { asked: string; sorted: TableOptions['sorted'] & {} } {
  const sort = visit.query('sort')
  const keys = sort.split(',').map((key) => key.replace(/^-/, ''))
  const names = offered(resource)
  const isOffered = keys.every((key) => names.includes(key)) && new Set(keys).size === keys.length
  const to = (by: string): string => hereWith(visit, { sort: by, cursor: '', past: '' })
  return { asked: isOffered ? `&sort=${sort}` : '', sorted: { by: isOffered ? sort : '-created_at', to } }
}

/** The same for rows that are not resources, such as the entries of an attribute. */
export const rowTable = <Row extends object>(
  caption: string,
  columns: readonly RowColumn<Row>[],
  rows: readonly Row[],
  empty: Cell,
): Html =>
  table(
    caption,
    columns,
    rows.map((row) => columns.map((column) => cell(column as RowColumn<Row, string>, row, row))),
    empty,
  )

/** Columns of numbers: the titles by the names of their values. */
export const numbers = <Name extends string>(
  titles: Readonly<Record<Name, string>>,
): { title: string; kind: 'figure'; of: Name }[] =>
  Object.entries<string>(titles).map(([of, title]) => ({ title, kind: 'figure', of: of as Name }))

/** The name of a related resource that a list includes. */
export function relatedName<R extends Resource>({ included }: Answer<R>, name: string): (thing: Thing<R>) => string {
  const names = namesOf(included)
  return (thing) => names.get(relatedId(thing, name as never) ?? '') ?? ''
}
