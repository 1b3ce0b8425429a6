// The OpenAPI document as pages of the reference: one page per tag with its operations, in groups, and one page for
// events.
import { must } from '../../base/errors.ts'
import { afterLast, capital, upTo } from '../../base/text.ts'

/** A JSON Schema, with the keywords that the document uses. */
export interface JsonSchema {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  anyOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  additionalProperties?: boolean | JsonSchema
  required?: string[]
  description?: string
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  maxProperties?: number
  uniqueItems?: boolean
  default?: unknown
}

interface Media {
  schema: JsonSchema
  example?: unknown
}
export interface DocumentedParameter {
  name: string
  in: 'path' | 'query' | 'header'
  required?: boolean
  description?: string
  schema: JsonSchema
}
interface DocumentedAnswer {
  description: string
  headers?: Record<string, { $ref?: string; description?: string }>
  content?: Record<string, Media>
  'x-error-codes'?: string[]
}
type Referred<T> = T | { $ref: string }

interface RawOperation {
  operationId: string
  summary: string
  description: string
  tags: string[]
  security?: unknown[]
  parameters?: Referred<DocumentedParameter>[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Referred<DocumentedAnswer>>
  'x-scope'?: string
}
type RawPath = Record<string, RawOperation> & { servers?: { url: string }[] }

export interface OpenApi {
  info: { description: string }
  servers: { url: string }[]
  tags: { name: string; description: string }[]
  paths: Record<string, RawPath>
  webhooks: Record<string, { post: RawOperation }>
  components: Record<'schemas' | 'headers' | 'parameters' | 'responses', Record<string, unknown>>
}

export interface Operation {
  id: string
  /** In upper case. */
  method: string
  path: string
  /** The base URL of the path. */
  server: string
  summary: string
  /** The description without the summary. */
  more: string
  scope: string | undefined
  /** Whether it requires a token. */
  signed: boolean
  parameters: DocumentedParameter[]
  body: { type: string; schema: JsonSchema; example: unknown } | undefined
  /** By status. */
  answers: [status: string, answer: DocumentedAnswer][]
}

export interface ReferencePage {
  /** The last part of its path. */
  name: string
  title: string
  about: string
  group: string
  operations: Operation[]
}

const METHODS = ['get', 'post', 'put', 'patch', 'delete']

/** The groups of pages, by the start of the paths of their operations. All other pages are in the last group. */
const GROUPS: readonly (readonly [group: string, ...beginnings: string[]])[] = [
  ['Sending', 'outbound', 'statistic', 'suppression', 'lane', 'warmup', 'source', 'watch', 'explanation'],
  ['Receiving', 'inbox', 'inbound'],
  ['Campaigns', 'campaign', 'audience', 'contact', 'list', 'image'],
  ['Domains', 'domain', 'aggregate-report', 'known-source'],
  ['Webhooks', 'webhook', 'deliver', 'event'],
  ['Accounts and tokens', 'token', 'personal-access-token', 'agent', 'grant', 'oauth', '.well-known'],
  ['Privacy', 'recipient', 'privacy'],
]
const OTHERS = 'Extensions'

const groupOf = (path: string): string =>
  GROUPS.find(([, ...beginnings]) => beginnings.some((each) => path.startsWith(each)))?.[0] ?? OTHERS

/** Returns a title: "outbound-emails" -> "Outbound emails", "tls-figures" -> "TLS figures". */
export const titleOf = (name: string): string =>
  name === 'oauth'
    ? 'OAuth'
    : capital(name.replaceAll('-', ' ').replace(/^(?:dmarc|dns|tls)\b/, (word) => word.toUpperCase()))

export class Reference {
  readonly document: OpenApi
  readonly pages: readonly ReferencePage[]

  constructor(document: object) {
    // This program creates the document, and a test checks that it is valid.
    this.document = document as OpenApi
    const { paths, tags, webhooks } = this.document
    const operations = Map.groupBy(
      Object.entries(paths).flatMap(([path, item]) => this.#operationsOf(path, item)),
      ({ tag }) => tag,
    )
    const events = Object.entries(webhooks).map(([type, { post }]) => this.#operation(type, 'post', post, ''))
    const pages = tags.map(({ description, name }): ReferencePage => {
      const own = name === 'events' ? events : (operations.get(name) ?? []).map(({ operation }) => operation)
      const group = groupOf(name === 'events' ? name : (own[0]?.path.slice(1) ?? ''))
      return { name, title: titleOf(name), about: description, group, operations: own }
    })
    const order = [...GROUPS.map(([group]) => group), OTHERS]
    this.pages = order.flatMap((group) => pages.filter((page) => page.group === group))
  }

  /** The base URL of the API. */
  get server(): string {
    return must(this.document.servers[0], 'The server of the document').url
  }

  get schemas(): Record<string, JsonSchema> {
    return this.document.components.schemas as Record<string, JsonSchema>
  }

  /** Returns an operation by its id. Throws if it does not exist. */
  operation(id: string): Operation {
    const all = this.pages.flatMap(({ operations }) => operations)
    return must(
      all.find((operation) => operation.id === id),
      `The operation ${id}`,
    )
  }

  /** Returns the target of a reference. */
  resolve<T extends object>(given: Referred<T>): T {
    if (!('$ref' in given) || given.$ref === undefined) return given as T
    const [, kind, name] = /^#\/components\/(\w+)\/(.+)$/.exec(given.$ref) ?? []
    const parts = this.document.components[kind as 'schemas']
    return this.resolve(must(parts[name ?? ''], given.$ref) as Referred<T>)
  }

  #operationsOf(path: string, item: RawPath): { tag: string; operation: Operation }[] {
    const server = item.servers?.[0]?.url ?? this.server
    return Object.entries(item as Record<string, RawOperation>)
      .filter(([method]) => METHODS.includes(method))
      .map(([method, raw]) => ({
        tag: must(raw.tags[0], `The tag of ${path}`),
        operation: this.#operation(path, method, raw, server),
      }))
  }

  #operation(path: string, method: string, raw: RawOperation, server: string): Operation {
    const [[type, media] = ['', undefined]] = Object.entries(raw.requestBody?.content ?? {})
    return {
      id: raw.operationId,
      method: method.toUpperCase(),
      path,
      server,
      summary: raw.summary,
      more: moreOf(raw),
      scope: raw['x-scope'],
      signed: raw.security === undefined,
      parameters: (raw.parameters ?? []).map((parameter) => this.resolve(parameter)),
      body: media && { type, schema: media.schema, example: media.example },
      answers: Object.entries(raw.responses).map(([status, answer]) => [status, this.resolve(answer)]),
    }
  }
}

/** Returns the description without its summary and without the scope, which have their own places. */
function moreOf({ description, summary, 'x-scope': scope }: RawOperation): string {
  const text = scope === undefined ? description : upTo(description, ` Requires the scope \`${scope}\`.`)
  return text.startsWith(`${summary}.`) ? text.slice(summary.length + 1).trim() : text
}

/** Returns the name of the component that a schema refers to, '' for other schemas. */
export const refersTo = ({ $ref }: JsonSchema): string => ($ref === undefined ? '' : afterLast($ref, '/'))
