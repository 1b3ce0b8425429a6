// Builds response documents: resource objects, included resources (full linkage, each once), links and meta.
import { z } from 'zod'
import { iso, isTime } from '../base/clock.ts'
import { jsonOf } from '../base/json.ts'
import type { Log } from '../base/log.ts'
import type { Reader } from '../store/database.ts'
import { findByKeys, findId, type ListedRow, type ListPage } from '../store/list.ts'
import type { Direction } from './cursor.ts'
import { includedTypes, relationshipNamed, typeNamed, type RequestQuery, type Types } from './query.ts'
import type { Field, FieldKind, Resource } from './resource.ts'
import { namesUnlisted, unlisted } from './shown.ts'

export interface ResourceObject {
  type: string
  id: string
  attributes?: Record<string, unknown>
  relationships?: Record<string, { data: { type: string; id: string } | null }>
  links?: { self: string }
  /** The attributes whose stored values are corrupt, and therefore null here. */
  meta?: { damaged: string[] }
}

export interface Writer {
  reader: Reader
  /** Logs each corrupt row. */
  log: Log
  types: Types
  /** The API's base URL, without final slash. */
  base: string
  /** Passed to the resources' `extend`. */
  parts: unknown
  /** The document is about one resource, not a collection. */
  single: boolean
}

type Fieldset = Pick<RequestQuery, 'include' | 'fields'>

const NAMES = new WeakMap<z.ZodType, ReadonlySet<unknown> | null>()

/** Whether a text is one of the names in its enumeration. True for a schema without names. */
function isNamed(schema: z.ZodType, text: string): boolean {
  let names = NAMES.get(schema)
  if (names === undefined) {
    const inner = schema instanceof z.ZodNullable ? (schema.unwrap() as z.ZodType) : schema
    names = inner instanceof z.ZodEnum ? new Set(inner.options) : null
    NAMES.set(schema, names)
  }
  return names === null || names.has(text)
}

/** The value of a column as answers show it, or undefined if the stored value is corrupt. */
const SHOW: Record<FieldKind, (value: unknown) => unknown> = {
  plain: (value) => value,
  time: (value) => (value === null ? null : isTime(value) ? iso(value) : undefined),
  json: (value) => (typeof value === 'string' ? jsonOf(value) : value),
  flag: (value) => (value === null ? null : value === 1 || value === 0 ? value === 1 : undefined),
}

/**
 * Whether a stored value has the form that answers show. For attributes that requests set, only names and number ranges
 * are checked.
 */
function hasForm({ answer, create, kind, schema, update }: Field, value: unknown): boolean {
  const form = answer ?? (create === undefined && update === undefined ? schema : undefined)
  if (kind === 'time' || kind === 'flag' || value === undefined) return true
  // A number is always a count, a size or a code.
  if (typeof value === 'number' && (value < 0 || value > Number.MAX_SAFE_INTEGER)) return false
  if (form !== undefined) return form.safeParse(value).success
  return typeof value === 'string' ? isNamed(schema, value) : !(value instanceof Uint8Array)
}

/** The related rows of a page by table and key, each read once. Rows that are not included have only key and id. */
type Related = Map<string, Map<number, ListedRow>>

export interface ApiDocument {
  data: ResourceObject[]
  included?: ResourceObject[]
}

/** An unfinished document, to which rows are added a few at a time. */
interface DocumentDraft {
  writer: Writer
  query: Fieldset
  once: Record<string, unknown>
  related: Related
  data: ResourceObject[]
  included: Map<string, ResourceObject>
  /** The ids of all primary data, including rows that are added later. */
  primary: ReadonlySet<string>
}

function draftOf(
  writer: Writer,
  rows: ListedRow[],
  query: Fieldset,
  once: Record<string, unknown> = {},
): DocumentDraft {
  const primary = new Set(rows.map((row) => row['id'] as string))
  return { writer, query, once, related: new Map(), data: [], included: new Map(), primary }
}

const finished = ({ data, included, query }: DocumentDraft): ApiDocument =>
  query.include ? { data, included: [...included.values()] } : { data }

/** The document of rows: `data` in the given order, and the resources that the query includes. */
export function buildDocument(
  writer: Writer,
  resource: Resource<never>,
  rows: ListedRow[],
  query: Fieldset,
  once: Record<string, unknown> = {},
): ApiDocument {
  const draft = draftOf(writer, rows, query, once)
  join(draft, resource, rows)
  return finished(draft)
}

/** Characters of JSON text for the bodies in one list. A page that reaches the limit ends early. */
const MAX_BODIES = 16 * 1024 * 1024

/**
 * The document of a page. Bodies that the client named (D69) are read row by row, in the direction of the paging. When
 * they are large, the page ends early, but it has at least one row.
 */
export function buildPage(
  writer: Writer,
  resource: Resource<never>,
  page: ListPage,
  query: RequestQuery,
  direction: Direction,
): { document: ApiDocument; page: ListPage } {
  const { rows } = page
  const shown = [resource, ...includedTypes(query, resource, writer.types)]
  if (!shown.some((each) => namesUnlisted(each, query.fields)))
    return { document: buildDocument(writer, resource, rows, query), page }
  const draft = draftOf(writer, rows, query)
  const order = direction === 'after' ? rows : rows.toReversed()
  let size = 0
  for (const row of order) {
    if (size > MAX_BODIES) break
    const before = draft.included.size
    join(draft, resource, [row])
    const fresh = [draft.data.at(-1), ...[...draft.included.values()].slice(before)]
    size += JSON.stringify(fresh).length
  }
  const taken = draft.data.length
  if (direction === 'before') draft.data.reverse()
  const document = finished(draft)
  if (taken === rows.length) return { document, page }
  return direction === 'after'
    ? { document, page: { ...page, rows: rows.slice(0, taken), hasNext: true } }
    : { document, page: { ...page, rows: rows.slice(-taken), hasPrevious: true } }
}

function join(draft: DocumentDraft, resource: Resource<never>, rows: ListedRow[]): void {
  const { included, primary, query, related, writer } = draft
  complete(writer, resource, rows, query)
  loadRelated(draft, resource, rows)
  for (const row of rows) draft.data.push(resourceObject(draft, resource, row, writer.single))
  for (const path of query.include ?? []) {
    let at = resource
    let level = rows
    for (const name of path) {
      const { type, column } = relationshipNamed(at, name)
      const target = typeNamed(writer.types, type)
      const keys = new Set(level.map((row) => row[column]).filter((key) => key !== null))
      level = [...keys].map((key) => related.get(type)?.get(key as number)).filter((row) => row !== undefined)
      at = target
      const nameOf = (row: ListedRow): string => `${type} ${row['id'] as string}`
      const fresh = level.filter(
        (row) => !included.has(nameOf(row)) && !(type === resource.type && primary.has(row['id'] as string)),
      )
      if (fresh.length > 0) complete({ ...writer, single: false }, target, fresh, query)
      if (level.length > 0) loadRelated(draft, target, level)
      // Added even if a sparse fieldset omits the relationship, because the client requested it with `include`.
      for (const row of fresh) included.set(nameOf(row), resourceObject(draft, target, row, false))
    }
  }
}

/** Adds data of other tables to rows, and the columns that lists omit, when the client named them. */
function complete(writer: Writer, resource: Resource<never>, rows: ListedRow[], { fields }: Fieldset): void {
  const whole = !writer.single && namesUnlisted(resource, fields)
  if (whole) {
    const keys = rows.map(({ key }) => key)
    const full = new Map(findByKeys(writer.reader, resource.table, keys).map((row) => [row.key, row]))
    for (const row of rows) Object.assign(row, full.get(row.key))
  }
  resource.extend?.(rows, { ...writer, parts: writer.parts as never, single: writer.single || whole })
}

function loadRelated(
  { query, related, writer: { reader, types } }: DocumentDraft,
  resource: Resource<never>,
  rows: ListedRow[],
): void {
  for (const { type, column } of Object.values(resource.relationships ?? {})) {
    const known = related.get(type) ?? new Map<number, ListedRow>()
    related.set(type, known)
    const keys = new Set(
      rows.map((row) => row[column] as number | null).filter((key) => key !== null && !known.has(key)),
    )
    const target = typeNamed(types, type)
    const [only] = keys
    if (keys.size === 1 && typeof only === 'number' && query.include === undefined) {
      // A link needs only the id. Usually all emails of a page have the same domain.
      const row = findId(reader, target.table, only)
      if (row) known.set(row.key, row)
    } else if (keys.size > 0)
      for (const row of findByKeys(reader, target.table, [...keys] as number[], unlisted(target)))
        known.set(row.key, row)
  }
}

function resourceObject(
  { once, query, related, writer }: DocumentDraft,
  resource: Resource<never>,
  row: ListedRow,
  single: boolean,
): ResourceObject {
  const wanted = query.fields.get(resource.type)
  const attributes: Record<string, unknown> = {}
  const damaged: string[] = []
  for (const [name, attribute] of Object.entries(resource.attributes)) {
    const { kind, read } = attribute
    if (wanted && !wanted.has(name)) continue
    if (read === 'once') {
      if (single && Object.hasOwn(once, name)) attributes[name] = once[name]
    } else if (read !== 'never' && (read !== 'single' || single || wanted)) {
      const stored = row[name]
      let shown = SHOW[kind ?? 'plain'](stored)
      if (!hasForm(attribute, shown) || (shown === undefined && stored !== undefined)) {
        damaged.push(name)
        shown = null
      }
      attributes[name] = shown
    }
  }
  const relationships: NonNullable<ResourceObject['relationships']> = {}
  for (const [name, { type, column }] of Object.entries(resource.relationships ?? {})) {
    if (wanted && !wanted.has(name)) continue
    const other = related.get(type)?.get(row[column] as number)
    relationships[name] = { data: other ? { type, id: other['id'] as string } : null }
  }
  const object: ResourceObject = { type: resource.type, id: row['id'] as string }
  if (Object.keys(attributes).length > 0) object.attributes = attributes
  if (Object.keys(relationships).length > 0) object.relationships = relationships
  if (damaged.length > 0) {
    // One corrupt row must not hide the other rows of its page.
    writer.log.error('row_corrupt', { id: object.id, type: resource.type, columns: damaged })
    object.meta = { damaged }
  }
  if (resource.self) object.links = { self: writer.base + resource.self.replace(/:\w+/, object.id) }
  return object
}
