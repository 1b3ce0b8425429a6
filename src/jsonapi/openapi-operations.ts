// Operations of the OpenAPI document: one for each action of a description, with its parameters, headers and refusals.
import { capital, upTo } from '../base/text.ts'
import { CODES, must } from '../base/errors.ts'
import { JSON_API } from './media.ts'
import { hasTag } from './changed.ts'
import { exampleOf } from './openapi-examples.ts'
import { errorDocument, refusalsOf } from './openapi-errors.ts'
import { namesOf, type JsonObject, type Schemas } from './openapi-schemas.ts'
import { paramsOf, sortable, type ActionOf, type Param, type Resource } from './resource.ts'

// Parameters of the OpenAPI document: in the path, in the query, and the header If-Match.

export const query = (name: string, description: string, example?: string): JsonObject => ({
  name,
  in: 'query',
  required: false,
  description,
  schema: { type: 'string', ...(example === undefined ? {} : { examples: [example] }) },
})

/** The mark of extensions to the interface specification. */
export const marked = (extension: true | undefined): JsonObject => (extension ? { 'x-postrider-extension': true } : {})

/** The header If-Match of an update (RFC 9110 §13.1.1). */
export const IF_MATCH: JsonObject = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description: 'ETag of the version that you read. If the resource has been changed since, the response is 412.',
  'x-postrider-extension': true,
  schema: { type: 'string' },
}

/** The parameters in the path of an action: ":id" and the like. */
export const pathParametersOf = ({ path }: ActionOf<never>): JsonObject[] =>
  [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    description: PATH[name] ?? `Id of the ${inWords(name)}.`,
    schema: { type: 'string' },
  }))

/** The parameters filter[…] of a resource. */
export const filtersOf = (resource: Resource<never>): JsonObject[] =>
  Object.entries(resource.filters ?? {}).map(([name, { about, extension, flag, type }]) => ({
    ...query(
      `filter[${name}]`,
      about !== undefined
        ? about
        : type === undefined
          ? `Filter by \`${name}\`${flag ? ': true or false.' : '. Commas mean "or".'}`
          : `Filter by the id of the ${name}. Commas mean "or".`,
    ),
    ...marked(extension),
  }))

/** Path parameters that do not name a resource by its id. */
const PATH: Record<string, string> = {
  recipient: 'Email address of the recipient.',
  agent: 'Name of the agent.',
  lane: 'Recipient domain.',
  receiver: 'Receiver, as in the list.',
  person: 'Id of the user.',
  warmup: 'Id of the warm-up.',
  attachment: 'Id of the attachment.',
  outboundWebhook: 'Id of the webhook delivery.',
}
/** "outboundEmail" -> "outbound email". */
const inWords = (name: string): string => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)

const SUCCESS = {
  list: '200',
  show: '200',
  create: '201',
  update: '200',
  delete: '204',
  act: '202',
  view: '200',
  download: '200',
} as const
const METHODS = {
  list: 'get',
  show: 'get',
  create: 'post',
  update: 'patch',
  delete: 'delete',
  act: 'post',
  view: 'get',
  download: 'get',
} as const

const DONE: Record<string, string> = {
  200: 'Success.',
  201: 'Created.',
  202: 'Accepted.',
  204: 'Deleted. The response has no body.',
}

/** The HTTP method of an action, in lower case. */
export const methodOf = (action: ActionOf<never>): string =>
  (action.kind === 'act' ? action.method?.toLowerCase() : undefined) ?? METHODS[action.kind]

/** The name of the operation in generated clients, such as createInbox, listOutboundEmails or replayDelivery. */
export function operationId({ type }: Resource<never>, action: ActionOf<never>): string {
  if (action.id !== undefined) return action.id
  const { one, many } = namesOf(type)
  return action.kind === 'list' ? `list${many}` : `${action.kind === 'show' ? 'get' : action.kind}${one}`
}

export class Operations {
  readonly headers: JsonObject = {}
  readonly parameters: JsonObject = {}
  readonly responses: JsonObject = {}
  readonly #schemas: Schemas
  /** Names of responses by status and codes. */
  readonly #refusals = new Map<string, string>()

  constructor(schemas: Schemas) {
    this.#schemas = schemas
  }

  /** The operation object of an action. Adds the shared headers, parameters and responses that it refers to. */
  operation(resource: Resource<never>, action: ActionOf<never>): JsonObject {
    const id = operationId(resource, action)
    const writes = action.kind === 'create' || action.kind === 'update'
    const success = action.kind === 'create' && action.status ? String(action.status) : SUCCESS[action.kind]
    const type = action.kind === 'create' ? action.accepts : undefined
    const headers = RATES.concat(
      success === '201' ? ['Location'] : [],
      hasTag(resource) && (action.kind === 'show' || action.kind === 'update') ? ['ETag'] : [],
      action.refuses?.includes('idempotency_conflict') ? ['Idempotent-Replayed'] : [],
    )
    return {
      operationId: id,
      summary: upTo(action.about, /[.;:] /).replace(/\.$/, ''),
      description: `${action.about} Requires the scope \`${action.scope}\`.`,
      tags: [resource.type],
      'x-scope': action.scope,
      ...marked(action.extension ?? resource.extension),
      parameters: this.#parametersOf(this.#schemas.answered(action, resource), action),
      ...(writes
        ? {
            requestBody: {
              required: true,
              content: this.#content(
                this.#schemas.request(`${capital(id)}Request`, resource, action.kind as 'create', type),
              ),
            },
          }
        : {}),
      responses: {
        [success]: {
          description: DONE[success],
          headers: Object.fromEntries(headers.map((name) => [name, this.#header(name)])),
          ...(success === '204' ? {} : { content: this.#answer(this.#schemas.answered(action, resource), action) }),
        },
        ...Object.fromEntries(
          [...refusalsOf(action)].map(([status, codes]) => [status, this.#refusal(status, codes, id)]),
        ),
      },
    }
  }

  #answer(resource: Resource<never>, action: ActionOf<never>): JsonObject {
    const includes = paramsOf(action).includes('include')
    switch (action.kind) {
      case 'download':
        return { '*/*': { schema: { type: 'string', contentEncoding: 'binary' } } }
      case 'list':
        return this.#content(this.#schemas.collection(resource))
      case 'view':
        return this.#content(
          action.one ? this.#schemas.document(resource, 'alone', false) : this.#schemas.collection(resource),
        )
      case 'create':
        return this.#content(this.#schemas.document(resource, 'created', includes))
      case 'update':
        return this.#content(this.#schemas.document(resource, 'changed', includes))
      case 'show':
      case 'act':
        return this.#content(this.#schemas.document(resource, 'alone', includes))
      case 'delete':
        return {}
    }
  }

  #content(schema: JsonObject): JsonObject {
    return { [JSON_API]: { schema, example: exampleOf(schema, this.#schemas.components) } }
  }

  /** The response for a refusal. Operations with the same codes share one. */
  #refusal(status: string, codes: readonly (keyof typeof CODES)[], operation: string): JsonObject {
    const name = this.#refusalName(status, codes.join(), operation)
    const words = codes.map((code) => `\`${code}\` (${lower(CODES[code][1])})`).join(', ')
    const headers = (status === '401' ? [] : RATES).concat(
      status === '401' || status === '403' ? ['WWW-Authenticate'] : [],
      ['429', '503', '507'].includes(status) ? ['Retry-After'] : [],
    )
    const code = must(codes[0], 'Code of a refusal')
    const schema = errorDocument(this.#schemas, status)
    const error = { id: '019bc186-e4d8-7a35-9c55-1f2e3d4c5b6a', status, code, title: CODES[code][1], detail: '…' }
    this.responses[name] ??= {
      description: `${capital(words)}.`,
      'x-error-codes': codes,
      headers: Object.fromEntries(
        // A client IP address that sent wrong tokens also gets 429, but without RateLimit headers.
        headers.map((header) => [header, this.#header(header, status === '429' && header !== 'Retry-After')]),
      ),
      content: { [JSON_API]: { schema, example: { errors: [error] } } },
    }
    return { $ref: `#/components/responses/${name}` }
  }

  /**
   * The first set of error codes of a status gets the plain name. Each other set is named after the first operation
   * with it.
   */
  #refusalName(status: string, codes: string, operation: string): string {
    const known = this.#refusals.get(`${status} ${codes}`)
    if (known !== undefined) return known
    const plain = REFUSALS[status] ?? `Refused${status}`
    const name = Object.hasOwn(this.responses, plain) ? `${plain}Of${capital(operation)}` : plain
    this.#refusals.set(`${status} ${codes}`, name)
    return name
  }

  #header(name: string, sometimes = false): JsonObject {
    const [type, description, always] = must(HEADERS[name], `Header ${name}`)
    if (sometimes) return { description, schema: { type } }
    this.headers[name] ??= { description, ...(always ? { required: true } : {}), schema: { type } }
    return { $ref: `#/components/headers/${name}` }
  }

  #parametersOf(resource: Resource<never>, action: ActionOf<never>): JsonObject[] {
    const related = Object.keys(resource.relationships ?? {})
    const each: Record<Param, () => JsonObject[]> = {
      filter: () => filtersOf(resource),
      sort: () => [
        query(
          'sort',
          `Fields to sort by, separated by commas. A leading "-" means descending order.${action.kind === 'list' ? ' The default is newest first.' : ''}${sortable(resource).length === 0 ? '' : ` Fields: ${sortable(resource).join(', ')}.`}`,
          action.kind === 'list' ? 'created_at' : sortable(resource)[0],
        ),
      ],
      // Without relationships the parameter has no valid value.
      include: () =>
        related.length === 0
          ? []
          : [
              query(
                'include',
                `Related resources to include in the response, separated by commas, at most two levels deep. Each requires the scope that reads it. Relationships: ${related.join(', ')}.`,
                related[0],
              ),
            ],
      fields: () => [
        query(
          `fields[${resource.type}]`,
          `Attributes and relationships to return, separated by commas. All others are left out, including those that the schema lists as \`required\`. Included types have the same parameter.${action.kind === 'list' ? ' Attributes that a list leaves out by default are returned if named here.' : ''}`,
        ),
      ],
      inbox: () => [query('inbox', 'Alias of filter[inbox].')],
      force: () => [
        {
          ...query('force', 'Whether to delete it even if it is in use.'),
          schema: { type: 'boolean', default: false },
        },
      ],
      page: () => [
        this.#shared(
          'PageCursor',
          query(
            'page[cursor]',
            'Opaque cursor of a page, from `links` or `meta` of another page. The default is the first page.',
          ),
        ),
        this.#shared('PageSize', {
          ...query(
            'page[size]',
            'Number of resources per page, at most 100. The default, including for values out of range, is 25.',
          ),
          schema: { type: 'integer', minimum: 1, maximum: 100, default: 25 },
        }),
      ],
    }
    return [
      ...pathParametersOf(action),
      ...(action.kind === 'update' ? [IF_MATCH] : []),
      ...paramsOf(action).flatMap((param) => each[param]()),
    ]
  }

  #shared(name: string, parameter: JsonObject): JsonObject {
    this.parameters[name] ??= parameter
    return { $ref: `#/components/parameters/${name}` }
  }
}

const lower = (text: string): string => (/^[A-Z][a-z]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text)

/** Names of responses by status (RFC 9110 §15). */
const REFUSALS: Record<string, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  406: 'NotAcceptable',
  409: 'Conflict',
  412: 'PreconditionFailed',
  413: 'ContentTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Unprocessable',
  429: 'TooManyRequests',
  500: 'InternalError',
  502: 'BadGateway',
  503: 'ServiceUnavailable',
  507: 'InsufficientStorage',
}

const RATES = ['RateLimit-Limit', 'RateLimit-Remaining', 'RateLimit-Reset']
/** Type, description, and whether the header is always present. */
const HEADERS: Record<string, [type: 'integer' | 'string' | 'boolean', about: string, always: boolean]> = {
  'RateLimit-Limit': [
    'integer',
    'Number of requests that the token can make at once. Absent if there is no limit.',
    false,
  ],
  'RateLimit-Remaining': ['integer', 'Number of requests that remain.', false],
  'RateLimit-Reset': [
    'integer',
    'Number of seconds until the full number of requests is available. In a 429, until the next request is.',
    false,
  ],
  'Retry-After': ['integer', 'Number of seconds to wait before the next request.', true],
  'WWW-Authenticate': ['string', 'Authentication scheme, error and required scope (RFC 6750).', false],
  ETag: ['string', 'Version of the resource, for If-Match.', true],
  Location: ['string', 'URL of the created resource. Absent if it has no URL.', false],
  'Idempotent-Replayed': ['boolean', 'Whether the request was made before. If true, it was not executed again.', false],
}
