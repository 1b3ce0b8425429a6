// Query parameters. A parameter that is unknown or not allowed on an endpoint gets 400 with its full name (D9). A
// repeated parameter is refused, because two programs that read one URL may disagree about which value counts.
import { must, refuse, type Code, type Refusal } from '../base/errors.ts'
import type { Order } from '../store/list.ts'
import { sortable, type Param, type Relationship, type Resource } from './resource.ts'

export const DEFAULT_SIZE = 25
export const MAX_SIZE = 100
const MAX_DEPTH = 2
/** The most values of one filter; more would make the query slow. */
const MAX_VALUES = 50
/** The most characters of a value that is not split at commas. */
const MAX_WHOLE = 500

export interface RequestQuery {
  /** The parameters as the client sent them, without the cursor: the page links repeat them. */
  kept: [string, string][]
  filters: Map<string, string[]>
  sort: string
  order: Order[]
  /** Paths such as ['webhook', 'domain']; undefined when there is no `include`. */
  include: string[][] | undefined
  fields: Map<string, Set<string>>
  size: number
  cursor: string | undefined
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
  }
  const seen = new Set<string>()
  for (const [name, value] of search) {
    const [, family, member] = /^([a-z_]+)(?:\[([^[\]]*)\])?$/.exec(name) ?? []
    const nested = family === 'filter' || family === 'fields' || family === 'page'
    if (family === undefined || !params.includes(family as Param) || nested !== (member !== undefined))
      throw wrong('invalid_query', name, `The parameter "${name}" is not supported here.`)
    if (seen.has(name)) throw wrong('invalid_query', name, `The parameter "${name}" is given more than once.`)
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
        throw wrong('invalid_query', member, `"${member}" and "filter[${member}]" are the same; give one.`)
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
          `Pages are asked for with page[cursor] and page[size], not "${name}".`,
        )
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
  if (!filter) throw wrong('unsupported_filter', name, `${resource.type} cannot be filtered by "${member}".`)
  // SQLite ends a text at NUL: a search would use only the text before it.
  if (value.includes('\0')) throw wrong('invalid_query', name, `The parameter "${name}" holds a NUL character.`)
  const values = filter.sql ? [value] : value.split(',')
  if (filter.sql && value.length > MAX_WHOLE)
    throw wrong('unsupported_filter', name, `This filter takes at most ${MAX_WHOLE} characters.`)
  if (values.length > MAX_VALUES)
    throw wrong('unsupported_filter', name, `A filter takes at most ${MAX_VALUES} values.`)
  if (filter.flag && values.some((text) => text !== 'true' && text !== 'false'))
    throw wrong('unsupported_filter', name, `"${member}" is true or false.`)
  return values
}

/** The page size. An invalid number or 0 becomes 25; a size above 100 becomes 100 (specification "Limits"). */
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
        `${resource.type} cannot be sorted by "${column}"; use ${allowed.join(', ')}.`,
      )
    if (order.findIndex((other) => other.column === column) !== index)
      throw wrong('unsupported_sort', 'sort', `"${column}" is named more than once.`)
  }
  for (const part of order)
    if (must(resource.attributes[part.column], 'The attribute of a sort').schema.safeParse(null).success)
      part.nullable = true
  return order
}

function parseInclude(value: string, resource: Resource<never>, types: Types): string[][] {
  const paths = value === '' ? [] : [...new Set(value.split(','))].map((path) => path.split('.'))
  for (const path of paths) {
    if (path.length > MAX_DEPTH)
      throw wrong('unsupported_include', 'include', `"${path.join('.')}" is deeper than ${MAX_DEPTH}.`)
    let at: Resource<never> | undefined = resource
    for (const name of path) {
      const relationship: { type: string } | undefined =
        at?.relationships && Object.hasOwn(at.relationships, name) ? at.relationships[name] : undefined
      if (!relationship)
        throw wrong('unsupported_include', 'include', `"${path.join('.')}" is not a relationship of ${resource.type}.`)
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
    if (!shown) throw wrong('unsupported_fields', parameter, `The document holds no resources of type "${type}".`)
    for (const name of names)
      if (!readable(shown).has(name))
        throw wrong('unsupported_fields', parameter, `"${name}" is not a field of ${type}.`)
  }
}

/** The fields that a client may name: attributes that answers show, and relationships. */
function readable(resource: Resource<never>): Set<string> {
  const attributes = Object.entries(resource.attributes).filter(([, { read }]) => read !== 'once' && read !== 'never')
  return new Set([...attributes.map(([name]) => name), ...Object.keys(resource.relationships ?? {})])
}
