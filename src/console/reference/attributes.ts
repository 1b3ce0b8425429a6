// The attributes of a schema as rows of a table: nested ones below their names ("attachments[].filename"), each with
// its type and limits in words.
import { refersTo, type JsonSchema, type Reference } from './document.ts'

export interface AttributeRow {
  name: string
  type: string
  required: boolean
  about: string
  /** What a value must keep to, in words. */
  limits: string[]
  /** The values that are allowed, when they are listed. */
  values: string[]
  /** When an answer shows it, where that is not always. */
  when?: string
}

/** The alternatives of a schema, without null; whether null is one of them. */
function alternatives(reference: Reference, given: JsonSchema): { schemas: JsonSchema[]; orNull: boolean } {
  const schema = reference.resolve(given)
  if (schema.anyOf !== undefined) {
    const each = schema.anyOf.map((one) => alternatives(reference, one))
    return { schemas: each.flatMap(({ schemas }) => schemas), orNull: each.some(({ orNull }) => orNull) }
  }
  const types = Array.isArray(schema.type) ? schema.type : [schema.type ?? '']
  const left = types.filter((type) => type !== 'null')
  return {
    schemas: left.map((type) => ({ ...schema, type })),
    orNull: types.includes('null'),
  }
}

/** "string", "array of strings", "date and time", "string or array of strings". */
function typeOf(reference: Reference, schema: JsonSchema): string {
  const { orNull, schemas } = alternatives(reference, schema)
  const words = schemas.map((each) => {
    if (each.type === 'array')
      return each.items === undefined ? 'array' : `array of ${many(typeOf(reference, each.items))}`
    if (each.type === 'object' && typeof each.additionalProperties === 'object' && each.properties === undefined)
      return `object with ${many(typeOf(reference, each.additionalProperties)) || 'values'} by name`
    return FORMATS[each.format ?? ''] ?? (each.type === '' ? 'any value' : (each.type ?? ''))
  })
  return [...new Set([...words, ...(orNull ? ['null'] : [])])].join(' or ')
}

const FORMATS: Record<string, string> = { 'date-time': 'date and time', uri: 'URL', email: 'email address' }

const many = (type: string): string =>
  type
    .split(' or ')
    .map((word) => ({ 'date and time': 'times', 'any value': 'any values', null: 'null', '': '' })[word] ?? `${word}s`)
    .join(' or ')

const figure = (value: number): string => value.toLocaleString('en')

function limitsOf(schema: JsonSchema): string[] {
  const { maxItems, maxLength, maxProperties, maximum, minItems, minLength, minimum, pattern } = schema
  const between = (least: number | undefined, most: number | undefined, noun: string): string[] => {
    if (least !== undefined && most !== undefined) return [`${figure(least)} to ${figure(most)}${noun}`]
    if (most !== undefined) return [`at most ${figure(most)}${noun}`]
    return least === undefined ? [] : [`at least ${figure(least)}${noun}`]
  }
  return [
    ...between(minLength, maxLength, ' characters'),
    ...between(minimum, maximum, ''),
    ...between(minItems, maxItems, ' entries'),
    ...between(undefined, maxProperties, ' names'),
    ...(schema.uniqueItems === true ? ['no entry twice'] : []),
    ...(pattern === undefined ? [] : [`matches \`${pattern}\``]),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
  ]
}

/** The values that are listed: those of a constant, of a list, of the entries of an array. */
const valuesOf = ({ const: constant, enum: values, items }: JsonSchema): string[] => {
  if (constant !== undefined) return [JSON.stringify(constant)]
  if (values !== undefined) return values.filter((value) => value !== null).map((value) => JSON.stringify(value))
  return items === undefined ? [] : valuesOf(items)
}

/** One value as a row. */
export function rowOf(reference: Reference, name: string, schema: JsonSchema, required: boolean): AttributeRow {
  const all = alternatives(reference, schema).schemas
  const told = schema.description ?? reference.resolve(schema).description ?? ''
  return {
    name,
    type: typeOf(reference, schema),
    required,
    about: told,
    limits: [...new Set(all.flatMap(limitsOf))],
    values: [...new Set(all.flatMap(valuesOf))],
  }
}

/** The properties of an object, each followed by those of the objects in it. */
export function rowsOf(reference: Reference, given: JsonSchema, above = ''): AttributeRow[] {
  const { properties = {}, required = [] } = reference.resolve(given)
  return Object.entries(properties).flatMap(([name, schema]) => [
    rowOf(reference, above + name, schema, required.includes(name)),
    ...innerRows(reference, schema, above + name),
  ])
}

function innerRows(reference: Reference, schema: JsonSchema, name: string): AttributeRow[] {
  return alternatives(reference, schema).schemas.flatMap((each) => {
    if (each.type === 'object' && each.properties !== undefined) return rowsOf(reference, each, `${name}.`)
    return each.type === 'array' && each.items !== undefined ? innerRows(reference, each.items, `${name}[]`) : []
  })
}

/** The rows of a request: its attributes and relationships in JSON:API, its members in any other. */
export function requestRows(reference: Reference, given: JsonSchema): AttributeRow[] {
  const schema = reference.resolve(given)
  const data = schema.properties?.['data']
  const parts = data && reference.resolve(data).properties
  if (parts?.['attributes'] === undefined) return rowsOf(reference, schema)
  return [...rowsOf(reference, parts['attributes']), ...relationshipRows(reference, parts['relationships'])]
}

function relationshipRows(reference: Reference, schema: JsonSchema | undefined): AttributeRow[] {
  const { properties = {}, required = [] } = schema ?? {}
  return Object.entries(properties).map(([name, each]) => {
    const { orNull, schemas } = alternatives(reference, each.properties?.['data'] ?? {})
    const type = schemas.map(({ properties: inner }) => String(inner?.['type']?.const)).join(' or ')
    return {
      name: `relationships.${name}`,
      type: orNull ? 'relationship or null' : 'relationship',
      required: required.includes(name),
      about: `One of \`${type}\`, by its id.`,
      limits: [],
      values: [],
    }
  })
}

/** The attributes of the resource that the operations of a page answer with, out of all ways to show it. */
export function answerRows(reference: Reference, resources: readonly JsonSchema[]): AttributeRow[] {
  const views = resources.map((each) => {
    const { properties = {} } = reference.resolve(each)
    const attributes = properties['attributes'] ?? {}
    const shown = new Set(attributes.required)
    const rows = [...rowsOf(reference, attributes), ...relationshipRows(reference, properties['relationships'])]
    return { name: refersTo(each), rows, shown }
  })
  const alone = views.find(({ name }) => !/^(?:Created|Changed)|Summary$/.test(name))
  const listed = views.find(({ name }) => name.endsWith('Summary'))
  const rows = new Map(views.flatMap((view) => view.rows.map((row) => [row.name, row])))
  return [...rows.values()].map((row) => {
    const inner = /[.[]/.test(row.name)
    if (!inner && alone && !alone.rows.some(({ name }) => name === row.name)) return { ...row, when: ONCE }
    if (!inner && listed && alone && alone.shown.has(row.name) && !listed.shown.has(row.name))
      return { ...row, when: UNLISTED }
    return row
  })
}

const ONCE = 'Shown once: in the answer that makes it.'
const UNLISTED = 'Lists show it only when `fields[…]` names it.'

/** The members of what this server sends: it sends them, so none is marked as required. */
export const sentRows = (reference: Reference, schema: JsonSchema, above = ''): AttributeRow[] =>
  rowsOf(reference, schema, above).map((row) => ({ ...row, required: false }))

/** The schemas of the resources in the answers of an operation. */
export function resourcesIn(reference: Reference, document: JsonSchema | undefined): JsonSchema[] {
  const data = document && reference.resolve(document).properties?.['data']
  if (data === undefined) return []
  const one = reference.resolve(data).type === 'array' ? reference.resolve(data).items : data
  return one?.$ref === undefined ? [] : [one]
}
