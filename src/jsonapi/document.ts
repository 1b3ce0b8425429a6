// Builds response documents: resource objects, included resources with full linkage and each once, links and meta.
import { iso } from '../base/clock.ts'
import type { Reader } from '../store/database.ts'
import { findByKeys, type ListedRow } from '../store/list.ts'
import type { Query, Types } from './query.ts'
import { unlisted, type Kind, type Resource } from './resource.ts'

export interface ResourceObject {
  type: string
  id: string
  attributes?: Record<string, unknown>
  relationships?: Record<string, { data: { type: string; id: string } | null }>
  links?: { self: string }
}

export interface Writer {
  reader: Reader
  types: Types
  /** The API's base URL, without final slash. */
  base: string
  /** What the resources' own `extend` works with. */
  parts: unknown
  /** The document is about one resource, not a collection. */
  single: boolean
}

const SHOW: Record<Kind, (value: unknown) => unknown> = {
  plain: (value) => value,
  time: (value) => (value === null ? null : iso(value as number)),
  json: (value) => (typeof value === 'string' ? JSON.parse(value) : value),
  flag: (value) => (value === null ? null : value === 1),
}

/** The related rows of a page by table and key, each read once. */
type Related = Map<string, Map<number, ListedRow>>

export function buildDocument(
  writer: Writer,
  resource: Resource<never>,
  rows: ListedRow[],
  query: Pick<Query, 'include' | 'fields'>,
  once: Record<string, unknown> = {},
): { data: ResourceObject[]; included?: ResourceObject[] } {
  const related: Related = new Map()
  const included = new Map<string, ResourceObject>()
  const primary = new Set(rows.map((row) => row['id'] as string))
  resource.extend?.(rows, writer as never)
  loadRelated(writer, resource, rows, related)
  const data = rows.map((row) => resourceObject(writer, resource, row, query, related, once))
  for (const path of query.include ?? []) {
    let at = resource
    let level = rows
    for (const name of path) {
      const { type, column } = at.relationships![name]!
      const target = writer.types.get(type)!
      const keys = new Set(level.map((row) => row[column]).filter((key) => key !== null))
      level = [...keys].map((key) => related.get(type)?.get(key as number)).filter((row) => row !== undefined)
      if (level.length > 0) {
        target.extend?.(level, { ...writer, single: false } as never)
        loadRelated(writer, target, level, related)
      }
      at = target
      // Also where a sparse fieldset leaves the relationship out: it was asked for.
      for (const row of level) {
        const id = `${type} ${row['id'] as string}`
        if (included.has(id) || (type === resource.type && primary.has(row['id'] as string))) continue
        included.set(id, resourceObject({ ...writer, single: false }, target, row, query, related, {}))
      }
    }
  }
  return query.include ? { data, included: [...included.values()] } : { data }
}

function loadRelated({ reader, types }: Writer, resource: Resource<never>, rows: ListedRow[], related: Related): void {
  for (const { type, column } of Object.values(resource.relationships ?? {})) {
    const known = related.get(type) ?? new Map<number, ListedRow>()
    related.set(type, known)
    const keys = new Set(
      rows.map((row) => row[column] as number | null).filter((key) => key !== null && !known.has(key)),
    )
    if (keys.size > 0)
      for (const row of findByKeys(reader, types.get(type)!.table, [...keys] as number[], unlisted(types.get(type)!)))
        known.set(row.key, row)
  }
}

function resourceObject(
  writer: Writer,
  resource: Resource<never>,
  row: ListedRow,
  query: Pick<Query, 'fields'>,
  related: Related,
  once: Record<string, unknown>,
): ResourceObject {
  const wanted = query.fields.get(resource.type)
  const attributes: Record<string, unknown> = {}
  for (const [name, { read, kind }] of Object.entries(resource.attributes)) {
    if (wanted && !wanted.has(name)) continue
    if (read === 'once') {
      if (Object.hasOwn(once, name)) attributes[name] = once[name]
    } else if (read !== 'never' && (read !== 'single' || writer.single))
      attributes[name] = SHOW[kind ?? 'plain'](row[name])
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
  if (resource.self) object.links = { self: writer.base + resource.self.replace(/:\w+/, object.id) }
  return object
}
