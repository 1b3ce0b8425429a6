// Examples for the OpenAPI document: given in the descriptions, or derived from the schema.
import { afterLast } from '../base/text.ts'
import { must } from '../base/errors.ts'
import type { Field, Resource } from './resource.ts'

export type JsonObject = Record<string, unknown>

export const ID_EXAMPLE = '019bc186-de00-738a-a9ec-e0b19577265d'
const TIME_EXAMPLE = '2026-01-15T12:00:00.000Z'
const URL_EXAMPLE = 'https://mail.example.org/api/v1'

/** Returns a value that is valid for a schema. `components` are the targets of its references. */
export function exampleOf(schema: JsonObject, components: JsonObject = {}): unknown {
  if (typeof schema['$ref'] === 'string')
    return exampleOf(components[afterLast(schema['$ref'], '/')] as JsonObject, components)
  if (Array.isArray(schema['examples'])) return (schema['examples'] as unknown[])[0]
  if ('const' in schema) return schema['const']
  if (Array.isArray(schema['enum'])) return (schema['enum'] as unknown[])[0]
  for (const word of ['anyOf', 'oneOf'])
    if (Array.isArray(schema[word]))
      return exampleOf(must((schema[word] as JsonObject[])[0], 'An alternative of a schema'), components)
  const { type } = schema
  if (Array.isArray(type)) return type.includes('null') ? null : exampleOf({ ...schema, type: type[0] }, components)
  switch (type) {
    case 'array':
      return Number(schema['minItems'] ?? 0) > 0 ? [exampleOf(schema['items'] as JsonObject, components)] : []
    case 'boolean':
      return false
    case 'integer':
    case 'number':
      return schema['minimum'] ?? 0
    case 'null':
      return null
    case 'string':
      return schema['format'] === 'date-time' ? TIME_EXAMPLE : schema['format'] === 'uri' ? URL_EXAMPLE : 'text'
    default: {
      const properties = (schema['properties'] ?? {}) as Record<string, JsonObject>
      const required = (schema['required'] ?? []) as string[]
      return Object.fromEntries(
        required.map((name) => [name, exampleOf(must(properties[name], `Property ${name}`), components)]),
      )
    }
  }
}

/**
 * An example document that creates a resource with only its required members, or changes one attribute. Where one of
 * several attributes must be there, it is the first that has an example. Where no relationship must be there, it is the
 * first that can be.
 */
export function requestExample(
  resource: Resource<never>,
  kind: 'create' | 'update',
  type: string,
  schemaOf: (field: Field) => JsonObject,
): JsonObject {
  const fields = Object.entries(resource.attributes).filter(([, field]) => field[kind])
  const required = fields.filter(([, { create }]) => kind === 'create' && create === 'required')
  const first = kind === 'create' ? fields.filter(([, { example }]) => example !== undefined) : fields
  const shown = required.length > 0 ? required : first.slice(0, 1)
  const given = Object.entries(resource.relationships ?? {}).filter(([, { create }]) => kind === 'create' && create)
  const needed = given.filter(([, { optional }]) => !optional)
  const related = needed.length > 0 ? needed : given.slice(0, 1)
  return {
    data: {
      type,
      ...(kind === 'update' ? { id: ID_EXAMPLE } : {}),
      attributes: Object.fromEntries(shown.map(([name, field]) => [name, field.example ?? exampleOf(schemaOf(field))])),
      ...(related.length > 0
        ? {
            relationships: Object.fromEntries(
              related.map(([name, of]) => [name, { data: { type: of.type, id: ID_EXAMPLE } }]),
            ),
          }
        : {}),
    },
  }
}
