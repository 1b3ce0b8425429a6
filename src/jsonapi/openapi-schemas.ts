// Schemas of the OpenAPI document: of requests, of resources as each answer shows them, of documents. A component is
// created at the first reference to it, so every component is used.
import { z } from 'zod'
import { sole } from '../base/lists.ts'
import { ID_EXAMPLE, requestExample, type JsonObject } from './openapi-examples.ts'
import { answerType, type ActionOf, type Field, type Resource } from './resource.ts'
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
  // Later versions may add members to answers (D2). Requests are strict.
  if (io === 'output' && schema['additionalProperties'] === false) delete schema['additionalProperties']
  const either = schema['anyOf'] as JsonObject[] | undefined
  const [first, second] = either ?? []
  // Writes "X or null" as one schema if X has one type.
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
  // An example has the form of requests. If answers have another form, they get no example.
  const fits = example !== undefined && !(io === 'output' && answer !== undefined && answer !== schema)
  return { ...rest, description: about, ...(fits ? { examples: [example] } : {}) }
}

/** Names without a singular of their own. Only the type `statistics` has had one since 0.2.0 ("Statistic"). */
const UNCOUNTABLE = /(?:Evidence|Reach|Stats|.Statistics)$/
/** English plurals whose singular lacks "es", and not only "s". */
const ES = /(?:ch|sh|ss|x|z)es$/

/** Returns the singular of a name: "Watches" -> "Watch", "Entries" -> "Entry", "Statistics" as it is. */
export function singular(many: string): string {
  if (UNCOUNTABLE.test(many)) return many
  if (many.endsWith('ies')) return many.replace(/ies$/, 'y')
  return many.replace(ES.test(many) ? /es$/ : /s$/, '')
}

/** "outbound-emails" -> "OutboundEmails" and "OutboundEmail". */
export const namesOf = (type: string): { one: string; many: string } => {
  const many = type
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
  return { one: singular(many), many }
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

  /** The resource that the answer to an action shows. */
  answered(action: ActionOf<never>, resource: Resource<never>): Resource<never> {
    return typeNamed(this.#types, answerType(action, resource))
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
      ...(resource.extension ? { 'x-postrider-extension': true } : {}),
      required: [
        'type',
        'id',
        'attributes',
        ...(relationships.length > 0 ? ['relationships'] : []),
        ...(resource.self === undefined ? [] : ['links']),
      ],
      properties: {
        type: { type: 'string', const: resource.type },
        id: { type: 'string', description: 'Id of the resource. Treat it as opaque.', examples: [ID_EXAMPLE] },
        attributes: {
          type: 'object',
          required: always.map(([name]) => name),
          properties: Object.fromEntries(shown.map(([name, field]) => [name, valueSchema(field, 'output')])),
        },
        ...(relationships.length > 0 ? { relationships: this.relationships(resource) } : {}),
        meta: this.component('ResourceMeta', () => ({
          type: 'object',
          description: 'Present only if data of the resource is corrupt.',
          properties: {
            damaged: {
              type: 'array',
              items: { type: 'string' },
              description: 'Attributes whose values are lost. They are returned as null.',
            },
          },
        })),
        ...(resource.self === undefined
          ? {}
          : {
              links: this.component('ResourceLinks', () => ({
                type: 'object',
                required: ['self'],
                properties: { self: { type: 'string', format: 'uri', description: 'URL of the resource.' } },
              })),
            }),
      },
    }
  }

  /** The relationships of a resource with full linkage, or only those of a create request (`given`). */
  relationships(resource: Resource<never>, given?: 'given'): JsonObject {
    const each = Object.entries(resource.relationships ?? {}).filter(([, { create }]) => create || !given)
    return {
      type: 'object',
      required: each.flatMap(([name, { optional }]) => (optional && given ? [] : [name])),
      properties: Object.fromEntries(
        each.map(([name, { type, optional }]) => {
          const identifier = this.identifier(type)
          const data = optional ? { anyOf: [identifier, { type: 'null' }] } : identifier
          return [name, { type: 'object', required: ['data'], properties: { data } }]
        }),
      ),
    }
  }

  /** A reference to the schema of a resource identifier of this type. */
  identifier(type: string): JsonObject {
    return this.component(`${namesOf(type).one}Identifier`, () => ({
      type: 'object',
      description: `A reference to a resource of type \`${type}\`.`,
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
    return {
      included: {
        type: 'array',
        description: 'Related resources. Present only if the request has the parameter `include`.',
        items: one,
      },
    }
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
   * The schema of a create or update request. `type` is the request document's type if it differs from the resource's.
   */
  request(name: string, resource: Resource<never>, kind: 'create' | 'update', type = resource.type): JsonObject {
    const fields = Object.entries(resource.attributes).filter(([, field]) => field[kind])
    const links = Object.values(resource.relationships ?? {})
    const given = links.some(({ create }) => create)
    const demanded = links.some(({ create, optional }) => create && !optional)
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
            ...(kind === 'create' && demanded ? ['relationships'] : []),
          ],
          properties: {
            type: { type: 'string', const: type },
            ...(kind === 'update' ? { id: { type: 'string', description: 'Id of the resource, as in the URL.' } } : {}),
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
                    ...(kind === 'update' ? { required: [], description: linkedWords(resource) } : {}),
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
  'Attributes to change. Others keep their value. Read-only attributes are accepted if their value is unchanged. A changed read-only attribute or an unknown attribute is an error (422).'
const LINKED =
  'Relationships, unchanged. They are accepted so that you can send back a resource as you read it. A change is an error (403).'

/** The description of the relationships of an update, with those that it can change. */
function linkedWords({ relationships = {} }: Resource<never>): string {
  const names = Object.entries(relationships).flatMap(([name, { update }]) => (update ? [`\`${name}\``] : []))
  return names.length === 0 ? LINKED : `${LINKED} Exception: ${names.join(' and ')} can be changed.`
}

const cursor = (about: string): JsonObject => ({ type: ['string', 'null'], description: about })
const link = (about: string): JsonObject => ({ type: ['string', 'null'], format: 'uri', description: about })

const COLLECTION_LINKS: JsonObject = {
  type: 'object',
  description: 'URLs of other pages, with the same filter, sort, include, fields and page size. Send the same headers.',
  required: ['first', 'last', 'prev', 'next'],
  properties: {
    first: { type: 'string', format: 'uri', description: 'First page.' },
    last: { type: 'null', description: 'Always null.' },
    prev: link('Previous page. Null on the first page.'),
    next: link('Next page. Null on the last page.'),
  },
}
export const COLLECTION_META: JsonObject = {
  type: 'object',
  required: ['has_more', 'next_cursor', 'prev_cursor', 'per_page'],
  properties: {
    has_more: { type: 'boolean', description: 'Whether there is a next page.' },
    next_cursor: cursor('Value of page[cursor] for the next page. Null on the last page.'),
    prev_cursor: cursor('Value of page[cursor] for the previous page. Null on the first page.'),
    per_page: { type: 'integer', description: 'Page size. A page with large bodies can have fewer resources.' },
  },
}
