// Schemas of the OpenAPI document: of requests, of resources as each answer shows them, of documents. A component is
// created at the first reference to it, so every component is used.
import { z } from 'zod'
import { sole } from '../base/lists.ts'
import { ID_EXAMPLE, requestExample, type JsonObject } from './openapi-examples.ts'
import type { Field, Resource } from './resource.ts'
import { typeNamed } from './query.ts'

export type { JsonObject }

/** Which attributes an answer shows: in a list or included, alone, after creating, after changing. */
export type View = 'listed' | 'alone' | 'created' | 'changed'

/** Removes output of zod that readers do not need: patterns of timestamps, bounds of safe integers, names of keys. */
function plain(schema: JsonObject, io: 'input' | 'output'): void {
  if (schema['format'] === 'date-time') delete schema['pattern']
  if (schema['minimum'] === Number.MIN_SAFE_INTEGER) delete schema['minimum']
  if (schema['maximum'] === Number.MAX_SAFE_INTEGER) delete schema['maximum']
  delete schema['propertyNames']
  // Later versions may add members to answers (D2); requests are strict.
  if (io === 'output' && schema['additionalProperties'] === false) delete schema['additionalProperties']
  const either = schema['anyOf'] as JsonObject[] | undefined
  const [first, second] = either ?? []
  // Writes "X or null" as one schema when X has one type.
  if (either?.length === 2 && first && second?.['type'] === 'null' && typeof first['type'] === 'string') {
    delete schema['anyOf']
    Object.assign(schema, first, { type: [first['type'], 'null'] })
    if (Array.isArray(first['enum'])) schema['enum'] = [...(first['enum'] as unknown[]), null]
  }
}

/** The JSON Schema of a zod schema, without its `$schema` member. */
export function schemaOf(schema: z.ZodType, io: 'input' | 'output'): JsonObject {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    override: ({ jsonSchema }) => plain(jsonSchema as JsonObject, io),
  }) as JsonObject
  return rest
}

/** The schema of an attribute's value in requests (`input`) or answers (`output`). */
export function valueSchema({ about, answer, example, schema }: Field, io: 'input' | 'output'): JsonObject {
  const { description: _, ...rest } = schemaOf(io === 'output' ? (answer ?? schema) : schema, io)
  // An example has the form of requests; when answers have another form, they get no example.
  const fits = example !== undefined && !(io === 'output' && answer !== undefined && answer !== schema)
  return { ...rest, description: about, ...(fits ? { examples: [example] } : {}) }
}

/** "outbound-emails" -> "OutboundEmails" and "OutboundEmail". */
export const namesOf = (type: string): { one: string; many: string } => {
  const many = type
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
  const one = many.endsWith('Stats') ? many : many.replace(/ies$/, 'y').replace(/xes$/, 'x').replace(/s$/, '')
  return { one, many }
}

const hasRead = ({ attributes }: Resource<never>, read: Field['read']): boolean =>
  Object.values(attributes).some((field) => field.read === read)

/** The first view with the same content as this one: most resources have fewer than four different views. */
function viewOf(resource: Resource<never>, view: View): View {
  if (view === 'listed') return hasRead(resource, 'single') ? 'listed' : 'alone'
  return view !== 'alone' && hasRead(resource, 'once') ? view : 'alone'
}

const VIEW_NAMES: Record<View, (one: string) => string> = {
  alone: (one) => one,
  listed: (one) => `${one}Summary`,
  created: (one) => `Created${one}`,
  changed: (one) => `Changed${one}`,
}

export class Schemas {
  readonly components: JsonObject = {}
  readonly #types: ReadonlyMap<string, Resource<never>>

  constructor(resources: readonly Resource<never>[]) {
    this.#types = new Map(resources.map((resource) => [resource.type, resource]))
  }

  /** A reference to a component. The first call creates the component. */
  component(name: string, make: () => JsonObject): JsonObject {
    if (!Object.hasOwn(this.components, name)) {
      this.components[name] = {}
      this.components[name] = make()
    }
    return { $ref: `#/components/schemas/${name}` }
  }

  /** The schema of a resource in one of its views. */
  resource(resource: Resource<never>, asked: View): JsonObject {
    const view = viewOf(resource, asked)
    const name = VIEW_NAMES[view](resource.called ?? namesOf(resource.type).one)
    return this.component(name, () => this.#resourceSchema(resource, view))
  }

  #resourceSchema(resource: Resource<never>, view: View): JsonObject {
    const shown = Object.entries(resource.attributes).filter(
      ([, { read }]) => read !== 'never' && (read !== 'once' || view === 'created' || view === 'changed'),
    )
    // A list shows these attributes only when fields[type] names them (D69).
    const always = shown.filter(
      ([, { read }]) => (read !== 'single' || view !== 'listed') && (read !== 'once' || view === 'created'),
    )
    const relationships = Object.entries(resource.relationships ?? {})
    return {
      type: 'object',
      description: resource.about,
      required: [
        'type',
        'id',
        'attributes',
        ...(relationships.length > 0 ? ['relationships'] : []),
        ...(resource.self === undefined ? [] : ['links']),
      ],
      properties: {
        type: { type: 'string', const: resource.type },
        id: { type: 'string', description: 'Opaque.', examples: [ID_EXAMPLE] },
        attributes: {
          type: 'object',
          required: always.map(([name]) => name),
          properties: Object.fromEntries(shown.map(([name, field]) => [name, valueSchema(field, 'output')])),
        },
        ...(relationships.length > 0 ? { relationships: this.relationships(resource) } : {}),
        meta: this.component('ResourceMeta', () => ({
          type: 'object',
          description: 'There only where the database of this server is damaged.',
          properties: {
            damaged: {
              type: 'array',
              items: { type: 'string' },
              description: 'Attributes whose values are lost; they are shown as null.',
            },
          },
        })),
        ...(resource.self === undefined
          ? {}
          : {
              links: this.component('ResourceLinks', () => ({
                type: 'object',
                required: ['self'],
                properties: { self: { type: 'string', format: 'uri', description: 'The URL of the resource.' } },
              })),
            }),
      },
    }
  }

  /** The relationships of a resource with full linkage; `given`: only those of a create request. */
  relationships(resource: Resource<never>, given?: 'given'): JsonObject {
    const each = Object.entries(resource.relationships ?? {}).filter(([, { create }]) => create || !given)
    return {
      type: 'object',
      required: each.map(([name]) => name),
      properties: Object.fromEntries(
        each.map(([name, { type, optional }]) => {
          const identifier = this.identifier(type)
          const data = optional && !given ? { anyOf: [identifier, { type: 'null' }] } : identifier
          return [name, { type: 'object', required: ['data'], properties: { data } }]
        }),
      ),
    }
  }

  /** A reference to the schema of a resource identifier of this type. */
  identifier(type: string): JsonObject {
    return this.component(`${namesOf(type).one}Identifier`, () => ({
      type: 'object',
      description: `Names one of ${type}.`,
      required: ['type', 'id'],
      properties: { type: { type: 'string', const: type }, id: { type: 'string', examples: [ID_EXAMPLE] } },
    }))
  }

  /** The types that `include` may add, two steps deep. */
  #includable(resource: Resource<never>): Resource<never>[] {
    const found = new Set<Resource<never>>()
    const next = (from: Resource<never>): Resource<never>[] =>
      Object.values(from.relationships ?? {}).map(({ type }) => typeNamed(this.#types, type))
    for (const near of next(resource)) for (const each of [near, ...next(near)]) found.add(each)
    return [...found]
  }

  #included(resource: Resource<never>, includes: boolean): JsonObject {
    const items = includes ? this.#includable(resource).map((each) => this.resource(each, 'listed')) : []
    if (items.length === 0) return {}
    const one = sole(items) ?? { anyOf: items }
    return { included: { type: 'array', description: 'Only where the request sent `include`.', items: one } }
  }

  /** The schema of a document about one resource. */
  document(resource: Resource<never>, asked: View, includes: boolean): JsonObject {
    const view = viewOf(resource, asked)
    const name = VIEW_NAMES[view](namesOf(resource.type).one)
    return this.component(`${name}Document`, () => ({
      type: 'object',
      required: ['data'],
      properties: { data: this.resource(resource, view), ...this.#included(resource, includes) },
    }))
  }

  /** A reference to the schema of a page of this resource. */
  collection(resource: Resource<never>): JsonObject {
    return this.component(`${namesOf(resource.type).one}CollectionDocument`, () => ({
      type: 'object',
      required: ['data', 'links', 'meta'],
      properties: {
        data: { type: 'array', items: this.resource(resource, 'listed') },
        ...this.#included(resource, true),
        links: this.component('CollectionLinks', () => COLLECTION_LINKS),
        meta: this.component('CollectionMeta', () => COLLECTION_META),
      },
    }))
  }

  /**
   * The schema of a create or update request. `type` is the request document's type when it differs from the
   * resource's.
   */
  request(name: string, resource: Resource<never>, kind: 'create' | 'update', type = resource.type): JsonObject {
    const fields = Object.entries(resource.attributes).filter(([, field]) => field[kind])
    const given = Object.values(resource.relationships ?? {}).some(({ create }) => create)
    const relationships = kind === 'create' ? given : resource.relationships !== undefined
    return this.component(name, () => ({
      type: 'object',
      required: ['data'],
      properties: {
        data: {
          type: 'object',
          required: [
            'type',
            ...(kind === 'update' ? ['id'] : ['attributes']),
            ...(kind === 'create' && given ? ['relationships'] : []),
          ],
          properties: {
            type: { type: 'string', const: type },
            ...(kind === 'update' ? { id: { type: 'string', description: 'The id in the path.' } } : {}),
            attributes: {
              type: 'object',
              ...(kind === 'create' ? { additionalProperties: false } : { description: UPDATED }),
              ...(kind === 'create'
                ? { required: fields.filter(([, { create }]) => create === 'required').map(([each]) => each) }
                : {}),
              properties: Object.fromEntries(fields.map(([each, field]) => [each, valueSchema(field, 'input')])),
            },
            ...(relationships
              ? {
                  relationships: {
                    ...this.relationships(resource, kind === 'create' ? 'given' : undefined),
                    ...(kind === 'update' ? { required: [], description: LINKED } : {}),
                  },
                }
              : {}),
          },
        },
      },
      examples: [requestExample(resource, kind, type, (field) => valueSchema(field, 'input'))],
    }))
  }
}

const UPDATED =
  'What is not named keeps its value. Attributes that cannot be changed are taken with the value that they have; with another they are 422, like names that are not known.'
const LINKED = 'Taken as they are, so that what was read can be sent back; changes are 403.'

const cursor = (about: string): JsonObject => ({ type: ['string', 'null'], description: about })
const link = (about: string): JsonObject => ({ type: ['string', 'null'], format: 'uri', description: about })

const COLLECTION_LINKS: JsonObject = {
  type: 'object',
  description:
    'URLs of pages, to be asked for with the same headers. They keep filter, sort, include, fields and size.',
  required: ['first', 'last', 'prev', 'next'],
  properties: {
    first: { type: 'string', format: 'uri', description: 'The first page.' },
    last: { type: 'null', description: 'Always null.' },
    prev: link('The previous page; null on the first.'),
    next: link('The next page; null on the last.'),
  },
}
export const COLLECTION_META: JsonObject = {
  type: 'object',
  required: ['has_more', 'next_cursor', 'prev_cursor', 'per_page'],
  properties: {
    has_more: { type: 'boolean', description: 'Whether there is a next page.' },
    next_cursor: cursor('For page[cursor] of the next page.'),
    prev_cursor: cursor('For page[cursor] of the page before.'),
    per_page: { type: 'integer', description: 'The page size in use. A page of large bodies may hold fewer.' },
  },
}
