// Query parameters. A parameter that is unknown or not allowed on an endpoint gets 400 with its full name (D9). A
// repeated parameter is refused, because two applications that read one URL may use different values.
import { must, refuse, type Code, type Refusal } from '../base/errors.ts'
import type { Order } from '../store/list.ts'
import { sortable, type Param, type Relationship, type Resource } from './resource.ts'

export const DEFAULT_SIZE = 25
export const MAX_SIZE = 100
const MAX_DEPTH = 2
/** The maximum number of values in one filter, because more would make the query slow. */
const MAX_VALUES = 50

export interface RequestQuery {
  /** The parameters as the client sent them, without the cursor: the page links repeat them. */
  kept: [string, string][]
  filters: Map<string, string[]>
  sort: string
  order: Order[]
  /** Paths such as ['webhook', 'domain'], or undefined without `include`. */
  include: string[][] | undefined
  fields: Map<string, Set<string>>
  size: number
  cursor: string | undefined
  force: boolean
}

export type Types = ReadonlyMap<string, Resource<never>>

/** The resource of a type that another resource names. */
export const typeNamed = (types: Types, type: string): Resource<never> => must(types.get(type), 'A resource type')

/** A relationship of a resource, by its name. */
export const relationshipNamed = ({ relationships }: Resource<never>, name: string): Relationship =>
  must(relationships?.[name], 'A relationship')

const wrong = (code: Code, parameter: string, detail: string): Refusal => refuse(code, detail, { parameter })

/** Reads the query of a request on `resource`. Throws 400. */
export function parseQuery(
  search: Iterable<[string, string]>,
  resource: Resource<never>,
  params: readonly Param[],
  types: Types,
): RequestQuery {
  const query: RequestQuery = {
    kept: [],
    filters: new Map(),
    sort: '-created_at',
    order: [{ column: 'created_at', descending: true }],
    include: undefined,
    fields: new Map(),
    size: DEFAULT_SIZE,
    cursor: undefined,
    force: false,
  }
  const seen = new Set<string>()
  for (const [name, value] of search) {
    const [, family, member] = /^([a-z_]+)(?:\[([^[\]]*)\])?$/.exec(name) ?? []
    const nested = family === 'filter' || family === 'fields' || family === 'page'
    if (family === undefined || !params.includes(family as Param) || nested !== (member !== undefined))
      throw wrong('invalid_query', name, `The parameter "${name}" is not supported here. Remove it.`)
    if (seen.has(name))
      throw wrong('invalid_query', name, `The parameter "${name}" occurs more than once. Send it once.`)
    seen.add(name)
    if (name !== 'page[cursor]') query.kept.push([name, value])
    readParam(query, { name, family: family as Param, member: member ?? name, value }, resource, types)
  }
  checkFields(query, resource, types)
  return query
}

/** A parameter: `filter[status]=queued` has the family `filter` and the member `status`. */
interface Given {
  name: string
  family: Param
  member: string
  value: string
}

function readParam(
  query: RequestQuery,
  { family, member, name, value }: Given,
  resource: Resource<never>,
  types: Types,
): void {
  switch (family) {
    case 'filter':
    case 'inbox':
      if (query.filters.has(member))
        throw wrong(
          'invalid_query',
          member,
          `"${member}" and "filter[${member}]" are the same parameter. Send only one of them.`,
        )
      query.filters.set(member, parseFilter(name, member, value, resource))
      break
    case 'fields':
      query.fields.set(member, new Set(value.split(',').filter(Boolean)))
      break
    case 'page':
      if (member === 'cursor') query.cursor = value
      else if (member === 'size') query.size = parseSize(value)
      else
        throw wrong(
          'unknown_page_parameter',
          name,
          `The parameter "${name}" is not supported. Use page[cursor] and page[size].`,
        )
      break
    case 'force':
      if (value !== 'true' && value !== 'false')
        throw wrong('invalid_query', name, 'The parameter "force" must be true or false.')
      query.force = value === 'true'
      break
    case 'sort':
      query.sort = value
      query.order = parseSort(value, resource)
      break
    case 'include':
      query.include = parseInclude(value, resource, types)
      break
  }
}

/** The resources that a request includes. */
export function includedTypes(query: RequestQuery, resource: Resource<never>, types: Types): Set<Resource<never>> {
  const found = new Set<Resource<never>>()
  for (const path of query.include ?? []) {
    let at: Resource<never> = resource
    for (const name of path) found.add((at = typeNamed(types, relationshipNamed(at, name).type)))
  }
  return found
}

function parseFilter(name: string, member: string, value: string, resource: Resource<never>): string[] {
  const filter = resource.filters && Object.hasOwn(resource.filters, member) ? resource.filters[member] : undefined
  if (!filter)
    throw wrong('unsupported_filter', name, `${resource.type} cannot be filtered by "${member}". Remove the filter.`)
  // SQLite ends a text at NUL, so a search would use only the text before it.
  if (value.includes('\0'))
    throw wrong('invalid_query', name, `The parameter "${name}" contains a NUL character. Remove it.`)
  const values = filter.whole === undefined ? value.split(',') : [value]
  if (value.length > (filter.whole ?? Infinity))
    throw wrong('unsupported_filter', name, `"filter[${member}]" is too long. The limit is ${filter.whole} characters.`)
  if (values.length > MAX_VALUES)
    throw wrong('unsupported_filter', name, `"filter[${member}]" has too many values. The limit is ${MAX_VALUES}.`)
  if (filter.flag && values.some((text) => text !== 'true' && text !== 'false'))
    throw wrong('unsupported_filter', name, `"filter[${member}]" is not valid. Use true or false.`)
  return values
}

/** The page size. An invalid number or 0 becomes 25, and a size above 100 becomes 100 (specification "Limits"). */
function parseSize(value: string): number {
  const size = /^\d+$/.test(value) ? Number(value) : 0
  return size < 1 || !Number.isSafeInteger(size) ? DEFAULT_SIZE : Math.min(size, MAX_SIZE)
}

function parseSort(value: string, resource: Resource<never>): Order[] {
  const allowed = sortable(resource)
  const order: Order[] = value
    .split(',')
    .map((key) => ({ column: key.replace(/^-/, ''), descending: key.startsWith('-') }))
  for (const [index, { column }] of order.entries()) {
    if (!allowed.includes(column))
      throw wrong(
        'unsupported_sort',
        'sort',
        `${resource.type} cannot be sorted by "${column}". Use ${allowed.join(', ')}.`,
      )
    if (order.findIndex((other) => other.column === column) !== index)
      throw wrong('unsupported_sort', 'sort', `"sort" contains "${column}" more than once. Name it once.`)
  }
  for (const part of order) {
    const { schema, sort } = must(resource.attributes[part.column], 'The attribute of a sort')
    if (sort === 'key') part.column = 'key'
    else if (schema.safeParse(null).success) part.nullable = true
  }
  return order
}

function parseInclude(value: string, resource: Resource<never>, types: Types): string[][] {
  const paths = value === '' ? [] : [...new Set(value.split(','))].map((path) => path.split('.'))
  for (const path of paths) {
    if (path.length > MAX_DEPTH)
      throw wrong(
        'unsupported_include',
        'include',
        `"${path.join('.')}" has too many levels. "include" allows ${MAX_DEPTH}.`,
      )
    let at: Resource<never> | undefined = resource
    for (const name of path) {
      const relationship: { type: string } | undefined =
        at?.relationships && Object.hasOwn(at.relationships, name) ? at.relationships[name] : undefined
      if (!relationship)
        throw wrong(
          'unsupported_include',
          'include',
          `"${path.join('.')}" is not a relationship of ${resource.type}. Remove it from "include".`,
        )
      at = types.get(relationship.type)
    }
  }
  return paths
}

function checkFields(query: RequestQuery, resource: Resource<never>, types: Types): void {
  const present = new Map([resource, ...includedTypes(query, resource, types)].map((each) => [each.type, each]))
  for (const [type, names] of query.fields) {
    const parameter = `fields[${type}]`
    const shown = present.get(type)
    if (!shown)
      throw wrong(
        'unsupported_fields',
        parameter,
        `The response contains no resources of type "${type}". Remove "fields[${type}]", or include the type.`,
      )
    for (const name of names)
      if (!readable(shown).has(name))
        throw wrong(
          'unsupported_fields',
          parameter,
          `"${name}" is not a field of ${type}. Remove it from "fields[${type}]".`,
        )
  }
}

/** The fields that a client may name: attributes that answers show, and relationships. */
function readable(resource: Resource<never>): Set<string> {
  const attributes = Object.entries(resource.attributes).filter(([, { read }]) => read !== 'once' && read !== 'never')
  return new Set([...attributes.map(([name]) => name), ...Object.keys(resource.relationships ?? {})])
}
