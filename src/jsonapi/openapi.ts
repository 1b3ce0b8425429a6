// The OpenAPI 3.1 document, derived from the descriptions that the routes are made of.
import { z } from 'zod'
import { JSON_API } from './media.ts'
import { paramsOf, sortable, type Action, type Field, type Resource } from './resource.ts'

type Json = Record<string, unknown>
const SUCCESS = {
  list: '200',
  show: '200',
  create: '201',
  update: '200',
  delete: '204',
  act: '202',
  download: '200',
} as const
type AnyAction = Action<never, Record<string, Field>>
const METHODS = {
  list: 'get',
  show: 'get',
  create: 'post',
  update: 'patch',
  delete: 'delete',
  act: 'post',
  download: 'get',
} as const
const ref = (name: string): Json => ({ $ref: `#/components/schemas/${name}` })
const schemaOf = (schema: z.ZodType, io: 'input' | 'output'): Json => {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json
  return rest
}

/** "outbound-emails" -> "OutboundEmail". */
const nameOf = (type: string): string =>
  type
    .replace(/ies$/, 'y')
    .replace(/s$/, '')
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')

export function createOpenApi(resources: readonly Resource<never>[], server: string): object {
  const paths: Record<string, Json> = {}
  const schemas: Json = { Error: errorSchema }
  for (const resource of resources) {
    schemas[nameOf(resource.type)] = resourceSchema(resource)
    for (const action of resource.actions) {
      const path = action.path.replace(/:(\w+)/g, '{$1}')
      paths[path] = {
        ...paths[path],
        [(action.kind === 'act' ? action.method?.toLowerCase() : undefined) ?? METHODS[action.kind]]: operation(
          resource,
          action,
        ),
      }
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Postrider', version: '1', description: 'Sending, campaigns and inbound mail over JSON:API 1.1.' },
    servers: [{ url: server }],
    security: [{ bearer: [] }],
    paths,
    components: { schemas, securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
  }
}

const errorSchema: Json = {
  type: 'object',
  required: ['errors'],
  properties: {
    errors: {
      type: 'array',
      items: {
        type: 'object',
        required: ['id', 'status', 'code', 'title', 'detail'],
        properties: {
          id: { type: 'string' },
          status: { type: 'string' },
          code: { type: 'string' },
          title: { type: 'string' },
          detail: { type: 'string' },
          source: {
            type: 'object',
            properties: { pointer: { type: 'string' }, parameter: { type: 'string' }, header: { type: 'string' } },
          },
          meta: { type: 'object' },
        },
      },
    },
  },
}

function resourceSchema(resource: Resource<never>): Json {
  const attributes = Object.entries(resource.attributes).filter(([, { read }]) => read !== 'never')
  const linkage = (type: string): Json => ({
    type: 'object',
    properties: { data: { type: ['object', 'null'], properties: { type: { const: type }, id: { type: 'string' } } } },
  })
  return {
    type: 'object',
    description: resource.about,
    required: ['type', 'id'],
    properties: {
      type: { const: resource.type },
      id: { type: 'string', format: 'uuid' },
      attributes: {
        type: 'object',
        properties: Object.fromEntries(
          attributes.map(([name, { schema, about }]) => [name, { ...schemaOf(schema, 'output'), description: about }]),
        ),
      },
      relationships: {
        type: 'object',
        properties: Object.fromEntries(
          Object.entries(resource.relationships ?? {}).map(([name, { type }]) => [name, linkage(type)]),
        ),
      },
    },
  }
}

function operation(resource: Resource<never>, action: AnyAction): Json {
  const name = nameOf(resource.type)
  const writes = action.kind === 'create' || action.kind === 'update'
  const errors = [
    '401',
    '403',
    '406',
    '429',
    '400',
    ...(writes ? ['409', '413', '415', '422'] : []),
    ...(action.path.includes(':') ? ['404'] : []),
    ...(action.refusals ?? []),
  ]
  const success = action.kind === 'create' && action.status ? String(action.status) : SUCCESS[action.kind]
  const data = action.kind === 'list' ? { type: 'array', items: ref(name) } : ref(name)
  const content = (schema: Json): Json => ({ [JSON_API]: { schema } })
  return {
    operationId: operationId(name, action),
    summary: action.about,
    tags: [resource.type],
    'x-scope': action.scope,
    parameters: parameters(resource, action),
    ...(writes
      ? {
          requestBody: {
            required: true,
            content: content(
              requestSchema(resource, action.kind, action.kind === 'create' ? action.accepts : undefined),
            ),
          },
        }
      : {}),
    responses: {
      [success]:
        success === '204'
          ? { description: 'Done; no body.' }
          : {
              description: 'Done.',
              content:
                action.kind === 'download'
                  ? { '*/*': { schema: { type: 'string', format: 'binary' } } }
                  : content({
                      type: 'object',
                      required: ['data'],
                      properties: { data, included: { type: 'array' } },
                    }),
            },
      ...Object.fromEntries(
        errors.sort().map((status) => [status, { description: 'Refused.', content: content(ref('Error')) }]),
      ),
    },
  }
}

/** One for each action; what hangs below a resource has its last word in it. */
function operationId(name: string, action: AnyAction): string {
  if (action.kind === 'download')
    return `${action.kind}${name}${nameOf(action.path.split('/').findLast((part) => !part.startsWith(':'))!)}`
  return `${action.kind}${name}${action.kind === 'list' && action.within ? 'Within' : ''}`
}

function parameters(resource: Resource<never>, action: AnyAction): Json[] {
  const inPath = [...action.path.matchAll(/:(\w+)/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const query = (name: string, description: string): Json => ({
    name,
    in: 'query',
    required: false,
    description,
    schema: { type: 'string' },
  })
  const known = paramsOf(action)
  const each: Record<string, () => Json[]> = {
    filter: () =>
      Object.keys(resource.filters ?? {}).map((name) => query(`filter[${name}]`, 'Exact match; commas mean any of.')),
    sort: () => [query('sort', `Comma-separated, "-" for descending: ${sortable(resource).join(', ')}.`)],
    include: () => [
      query(
        'include',
        `Related resources, each with the scope that reads it: ${Object.keys(resource.relationships ?? {}).join(', ') || 'none'}.`,
      ),
    ],
    fields: () => [query(`fields[${resource.type}]`, 'Sparse fieldset.')],
    inbox: () => [query('inbox', 'The same as filter[inbox].')],
    page: () => [
      query('page[cursor]', 'Opaque cursor from links or meta.'),
      query('page[size]', '1 to 100, 25 when absent.'),
    ],
  }
  return [...inPath, ...known.flatMap((param) => each[param]!())]
}

function requestSchema(resource: Resource<never>, kind: 'create' | 'update', type = resource.type): Json {
  const fields = Object.entries(resource.attributes).filter(([, field]) => field[kind])
  const related = kind === 'create' ? Object.values(resource.relationships ?? {}).filter(({ create }) => create) : []
  return {
    type: 'object',
    required: ['data'],
    properties: {
      data: {
        type: 'object',
        required: kind === 'update' ? ['type', 'id', 'attributes'] : ['type', 'attributes'],
        properties: {
          type: { const: type },
          ...(kind === 'update' ? { id: { type: 'string' } } : {}),
          attributes: {
            type: 'object',
            additionalProperties: false,
            required:
              kind === 'create' ? fields.filter(([, { create }]) => create === 'required').map(([name]) => name) : [],
            properties: Object.fromEntries(
              fields.map(([name, { schema, about }]) => [name, { ...schemaOf(schema, 'input'), description: about }]),
            ),
          },
          ...(related.length > 0 ? { relationships: { type: 'object' } } : {}),
        },
      },
    },
  }
}
