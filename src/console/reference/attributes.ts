// The attributes of a schema as rows of a table, each with its type and limits. Nested attributes have the names of
// their parents ("attachments[].filename").
import { refersTo, type JsonSchema, type Reference } from './document.ts'

export interface AttributeRow {
  name: string
  type: string
  required: boolean
  about: string
  /** The limits of the value, as text. */
  limits: string[]
  /** The allowed values, if the schema lists them. */
  values: string[]
  /** When a response contains it, if it does not always. */
  when?: string
}

/** The alternatives of a schema without null, and whether null is one of them. */
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

/** Returns a type as text: "string", "array of strings", "date and time", "string or array of strings". */
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
    ...(schema.uniqueItems === true ? ['unique entries'] : []),
    ...(pattern === undefined ? [] : [`matches \`${pattern}\``]),
    ...(schema.default === undefined ? [] : [`default \`${JSON.stringify(schema.default)}\``]),
  ]
}

/** The values of a constant, of an enumeration, or of the entries of an array. */
const valuesOf = ({ const: constant, enum: values, items }: JsonSchema): string[] => {
  if (constant !== undefined) return [JSON.stringify(constant)]
  if (values !== undefined) return values.filter((value) => value !== null).map((value) => JSON.stringify(value))
  return items === undefined ? [] : valuesOf(items)
}

/** Returns one attribute as a row. */
export function rowOf(reference: Reference, name: string, schema: JsonSchema, required: boolean): AttributeRow {
  const all = alternatives(reference, schema).schemas
  const about = schema.description ?? reference.resolve(schema).description ?? ''
  return {
    name,
    type: typeOf(reference, schema),
    required,
    about,
    limits: [...new Set(all.flatMap(limitsOf))],
    values: [...new Set(all.flatMap(valuesOf))],
  }
}

/** Returns the properties of an object, each followed by nested ones. */
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

/** Returns the rows of a request: attributes and relationships in JSON:API, members in any other format. */
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
      about: `The id of a resource of type \`${type}\`.`,
      limits: [],
      values: [],
    }
  })
}

/** Returns the attributes of a resource in the responses of a page, from all its views. */
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

const ONCE = 'Returned once, in the response that creates it.'
const UNLISTED = 'Lists return it only if `fields[…]` names it.'

/** Returns the members of a document that this server sends. They are not marked as required. */
export const sentRows = (reference: Reference, schema: JsonSchema, above = ''): AttributeRow[] =>
  rowsOf(reference, schema, above).map((row) => ({ ...row, required: false }))

/** Returns the schemas of the resources in a response. */
export function resourcesIn(reference: Reference, document: JsonSchema | undefined): JsonSchema[] {
  const data = document && reference.resolve(document).properties?.['data']
  if (data === undefined) return []
  const one = reference.resolve(data).type === 'array' ? reference.resolve(data).items : data
  return one?.$ref === undefined ? [] : [one]
}
