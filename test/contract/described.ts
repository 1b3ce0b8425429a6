// Compares requests and answers with the OpenAPI document: the status, the codes of a refusal and the headers are
// declared, and the document matches the schema. The schema is strict, so an undocumented member is an error.
import assert from 'node:assert/strict'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import { openApi, resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { JSON_API, type Answer } from '../kit/appliance.ts'

const resources = resourcesOf(await loadParts())

type Json = Record<string, unknown>

export interface Response {
  $ref?: string
  'x-error-codes'?: string[]
  headers?: Record<string, { $ref?: string }>
  content?: Record<string, { schema: object; example?: unknown }>
}
export interface Operation {
  operationId: string
  description: string
  'x-scope': string
  parameters: { $ref?: string; name: string; in: string }[]
  requestBody?: { content: Record<string, { schema: { $ref: string }; example?: unknown }> }
  responses: Record<string, Response>
}
export interface OpenApi {
  openapi: string
  servers: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  webhooks: Record<string, { post: Operation }>
  components: {
    schemas: Record<string, Json>
    headers: Record<string, { required?: boolean }>
    parameters: Record<string, { name: string; in: string }>
    responses: Record<string, Response>
  }
}

const last = (ref: string): string => ref.split('/').at(-1)!
const METHODS = new Set(['get', 'post', 'patch', 'delete'])

/** Every object accepts only the members of its schema. In sparse documents all of them are optional. */
function strict(schema: unknown, sparse: boolean): unknown {
  if (Array.isArray(schema)) return schema.map((each) => strict(each, sparse))
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([name, value]) => [name, strict(value, sparse)])) as Json
  const properties = copy['properties'] as Record<string, Json> | undefined
  if (properties && !('additionalProperties' in copy)) copy['additionalProperties'] = false
  if (sparse && properties?.['type'] && properties['attributes']) {
    copy['required'] = ['type', 'id']
    for (const name of ['attributes', 'relationships']) delete properties[name]?.['required']
  }
  return copy
}

export class Described {
  readonly document: OpenApi
  readonly #validators = new Map<string, ValidateFunction>()
  readonly #ajv: Record<'plain' | 'strict' | 'sparse', Ajv2020>
  readonly #templates: [template: string, pattern: RegExp][]

  constructor(document: object = openApi(resources, 'http://127.0.0.1')) {
    this.document = document as OpenApi
    const { schemas } = this.document.components
    const of = (components: unknown): Ajv2020 => {
      const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true })
      ajvFormats.default(ajv)
      return ajv.addSchema({ $id: 'api', components: { schemas: components } })
    }
    this.#ajv = { plain: of(schemas), strict: of(strict(schemas, false)), sparse: of(strict(schemas, true)) }
    this.#templates = Object.keys(this.document.paths).map((template) => [
      template,
      new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`),
    ])
  }

  /** The operations of the API itself. Those of OAuth have other paths. */
  operations(): { method: string; path: string; operation: Operation }[] {
    return Object.entries(this.document.paths).flatMap(([path, item]) =>
      'servers' in item
        ? []
        : Object.entries(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
    )
  }

  find(method: string, path: string): Operation | undefined {
    const [template] = this.#templates.find(([, pattern]) => pattern.test(path.split('?')[0]!)) ?? []
    const name = method === 'HEAD' ? 'get' : method.toLowerCase()
    return template !== undefined && METHODS.has(name) ? this.document.paths[template]![name] : undefined
  }

  response(operation: Operation, status: number): Response | undefined {
    const given = operation.responses[status]
    return given?.$ref === undefined ? given : this.document.components.responses[last(given.$ref)]
  }

  parametersOf(operation: Operation): { name: string; in: string }[] {
    return operation.parameters.map((each) =>
      each.$ref === undefined ? each : this.document.components.parameters[last(each.$ref)]!,
    )
  }

  /** Returns undefined if the value matches, else the errors. */
  faults(schema: object, value: unknown, how: 'plain' | 'strict' | 'sparse' = 'strict'): string | undefined {
    const text = JSON.stringify(schema).replaceAll('"#/', '"api#/')
    const key = `${how} ${text}`
    let check = this.#validators.get(key)
    if (!check) this.#validators.set(key, (check = this.#ajv[how].compile(JSON.parse(text) as object)))
    return check(value) ? undefined : JSON.stringify(check.errors)
  }

  /** Throws if the answer, or a request that was accepted, does not match the document. */
  judge(sent: { method: string; path: string; body?: unknown }, { status, headers, body }: Answer): void {
    const operation = this.find(sent.method, sent.path)
    // HEAD on an endpoint that acts on GET is not an operation.
    if (!operation || status === 405) return
    const at = `${sent.method} ${sent.path.slice(0, 200)} -> ${status} ${JSON.stringify(body)?.slice(0, 600)}`
    const response = this.response(operation, status)
    assert.ok(response, `${operation.operationId} does not declare ${status}: ${at}`)
    for (const [name, { $ref }] of Object.entries(response.headers ?? {}))
      if ($ref !== undefined && this.document.components.headers[last($ref)]!.required)
        assert.ok(headers.has(name), `${name}: ${at}`)
    for (const { code } of (body?.errors ?? []) as { code: string }[])
      assert.ok(response['x-error-codes']!.includes(code), `${operation.operationId} does not declare ${code}: ${at}`)
    if (sent.method === 'HEAD') return
    const query = new URL(`http://x${sent.path}`).searchParams
    const sparse = [...query.keys()].some((name) => name.startsWith('fields['))
    const schema = response.content?.[JSON_API]?.schema
    // Without relationships, `include` is not a documented parameter, but an empty one returns an empty list.
    const bare = query.get('include') === '' && !this.parametersOf(operation).some(({ name }) => name === 'include')
    if (schema) {
      const { included: _, ...rest } = (body ?? {}) as Json
      const faults = this.faults(schema, bare ? rest : body, sparse ? 'sparse' : 'strict')
      assert.equal(faults, undefined, `not as ${operation.operationId} says: ${faults}\n${at}`)
    } else assert.ok(response.content || body === undefined, `no body is described: ${at}`)
    if (status < 300) this.#judgeRequest(operation, sent, query, at)
  }

  #judgeRequest(operation: Operation, sent: { body?: unknown }, query: URLSearchParams, at: string): void {
    const names = this.parametersOf(operation).map(({ name }) => name)
    for (const [name, value] of query)
      assert.ok(names.includes(name) || value === '' || name.startsWith('fields['), `${name} is described: ${at}`)
    const content = operation.requestBody?.content[JSON_API]
    if (!content || sent.body === undefined || sent.body instanceof ReadableStream) return
    const given: unknown =
      typeof sent.body === 'string' || sent.body instanceof Uint8Array
        ? JSON.parse(Buffer.from(sent.body as string).toString())
        : JSON.parse(JSON.stringify(sent.body))
    const faults = this.faults(content.schema, given, 'plain')
    assert.equal(faults, undefined, `taken, but not what ${operation.operationId} says it takes: ${faults}\n${at}`)
  }
}
