// Reads and checks a request document: its form (400), ids and relationships (403), type and id (409), then all
// attributes (422). Each problem has a pointer to a member that exists in the request (D6).
import { z } from 'zod'
import { issueWords } from '../base/issues.ts'
import { CODES, must, Refusal, refuse, type Code, type Problem } from '../base/errors.ts'
import { MAX_ERRORS } from './errors.ts'
import { relationshipNamed } from './query.ts'
import type { Call, Resource } from './resource.ts'

export interface RequestDocument {
  type: string
  id: unknown
  attributes: Record<string, unknown>
  hasAttributes: boolean
  relationships: Record<string, unknown> | undefined
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const TOP_MEMBERS = new Set(['data', 'jsonapi', 'meta', 'links', 'included'])
const DATA_MEMBERS = new Set(['type', 'id', 'lid', 'attributes', 'relationships', 'links', 'meta'])

const malformed = (detail: string, pointer: string) => refuse('invalid_document', detail, { pointer })

/** Parses the body as a JSON:API request document. Throws 400 with a pointer. */
export function parseDocument(text: string): RequestDocument {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    throw malformed('The request body is not valid JSON. Check its syntax.', '')
  }
  return documentIn(body)
}

/** Checks the form of a request document. Throws 400 with a pointer. */
export function documentIn(body: unknown): RequestDocument {
  if (!isObject(body))
    throw malformed('The request body is not a JSON:API document. Send a JSON object with the member "data".', '')
  for (const member of Object.keys(body))
    if (!TOP_MEMBERS.has(member))
      throw malformed(`"${member}" is not allowed in a request document. Remove it.`, pointerTo(member))
  const { data } = body
  if (data === undefined) throw malformed('The request document has no member "data". Add it.', '')
  if (!isObject(data)) throw malformed('"data" must be an object with "type" and "attributes".', '/data')
  for (const member of Object.keys(data))
    if (!DATA_MEMBERS.has(member))
      throw malformed(`"${member}" is not allowed in a resource object. Remove it.`, pointerTo('data', member))
  if (data['type'] === undefined) throw malformed('"data" has no member "type". Add it.', '/data')
  if (typeof data['type'] !== 'string') throw malformed('"type" must be a string.', '/data/type')
  const { attributes = {}, relationships } = data
  if (!isObject(attributes)) throw malformed('"attributes" must be an object.', '/data/attributes')
  if (relationships !== undefined && !isObject(relationships))
    throw malformed('"relationships" must be an object.', '/data/relationships')
  return {
    type: data['type'],
    id: data['id'],
    attributes,
    hasAttributes: data['attributes'] !== undefined,
    relationships,
  }
}

/** Throws 403 for an id chosen by the client, or for relationships that a create request must not have. */
export function checkForbidden(document: RequestDocument, resource: Resource<never>): void {
  if (document.id !== undefined)
    throw refuse('client_id_forbidden', 'The id is chosen by the server. Remove "id" from the document.', {
      pointer: '/data/id',
    })
  const known = Object.entries(resource.relationships ?? {}).flatMap(([name, { create }]) => (create ? [name] : []))
  for (const name of Object.keys(document.relationships ?? {}))
    if (!known.includes(name))
      throw refuse('relationship_update_forbidden', `The relationship "${name}" cannot be set here. Remove it.`, {
        pointer: pointerTo('data', 'relationships', name),
      })
}

/** Throws 409 if type or id differ from the endpoint's, and 400 if an update has no id. */
export function checkIdentity(document: RequestDocument, type: string, id?: string): void {
  if (document.type !== type)
    throw refuse('type_mismatch', `The type is not allowed here. This endpoint accepts resources of type "${type}".`, {
      pointer: '/data/type',
    })
  if (id === undefined) return
  if (document.id !== id)
    throw refuse('id_mismatch', 'The id in the document does not match the id in the URL. Send the same id in both.', {
      pointer: '/data/id',
    })
}

/** Throws 400 if an update document has no id, or one that is not a string. */
export function checkHasId(document: RequestDocument): void {
  if (document.id === undefined)
    throw refuse('invalid_document', '"data" has no member "id". Add the id of the resource to update.', {
      pointer: '/data',
    })
  if (typeof document.id !== 'string')
    throw refuse('invalid_document', '"id" must be a string.', { pointer: '/data/id' })
}

const validators = new WeakMap<Resource<never>, Record<'create' | 'update', z.ZodType>>()

function validatorsOf(resource: Resource<never>): Record<'create' | 'update', z.ZodType> {
  let pair = validators.get(resource)
  if (!pair) {
    const shapes: Record<'create' | 'update', Record<string, z.ZodType>> = { create: {}, update: {} }
    for (const [name, { schema, create, update }] of Object.entries(resource.attributes)) {
      if (create) shapes.create[name] = create === 'required' ? schema : schema.optional()
      if (update) shapes.update[name] = schema.optional()
    }
    pair = { create: z.strictObject(shapes.create), update: z.strictObject(shapes.update) }
    validators.set(resource, pair)
  }
  return pair
}

/**
 * Returns the attributes in their checked form. Throws 422 with the problems, up to the number that an answer shows.
 */
export function validate(
  resource: Resource<never>,
  kind: 'create' | 'update',
  document: RequestDocument,
): Record<string, unknown> {
  const result = validatorsOf(resource)[kind].safeParse(document.attributes)
  if (result.success) return result.data as Record<string, unknown>
  throw new Refusal(firstProblems(result.error.issues, resource, document))
}

/**
 * Checks a value inside an attribute, whose own schema accepts every value there. Returns its checked form, or its
 * problems.
 */
export function checkWithin<S extends z.ZodType>(
  schema: S,
  path: readonly PropertyKey[],
  resource: Resource<never>,
  attributes: Record<string, unknown>,
): { value: z.output<S> } | { problems: Problem[] } {
  const value = path.reduce<unknown>((tree, key) => (tree as Record<PropertyKey, unknown>)[key], attributes)
  const result = schema.safeParse(value)
  if (result.success) return { value: result.data }
  const issues = result.error.issues.map((issue) => ({ ...issue, path: [...path, ...issue.path] }))
  const document = { type: resource.type, id: undefined, attributes, hasAttributes: true, relationships: undefined }
  return { problems: firstProblems(issues, resource, document) }
}

/** A request can contain as many mistakes as values. Only as many as an answer shows are formatted. */
function firstProblems(
  issues: readonly z.core.$ZodIssue[],
  resource: Resource<never>,
  document: RequestDocument,
): Problem[] {
  const problems: Problem[] = []
  for (const issue of issues) {
    problems.push(...problemsOf(issue, resource, document))
    if (problems.length >= MAX_ERRORS) return problems.slice(0, MAX_ERRORS)
  }
  return problems
}

function problemsOf(issue: z.core.$ZodIssue, resource: Resource<never>, document: RequestDocument): Problem[] {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, MAX_ERRORS).map((key) => {
      const known = issue.path.length === 0 && Object.hasOwn(resource.attributes, key)
      return problem(
        known ? 'immutable' : 'invalid',
        known
          ? `"${key}" cannot be set here. Remove it.`
          : `"${key}" is not an attribute of ${resource.type}. Remove it.`,
        [...issue.path, key],
      )
    })
  if (issue.code === 'invalid_union') {
    // The alternative that matched deeper shows the mistake: one item of a list, not the list.
    const deeper =
      issue.errors.find((errors) => errors.some(({ path }) => path.length > 0)) ??
      issue.errors.find((errors) => errors.some(({ code }) => code === 'too_big')) ??
      []
    const inner = deeper.slice(0, MAX_ERRORS).map((each) => ({ ...each, path: [...issue.path, ...each.path] }))
    const problems = firstProblems(inner, resource, document)
    if (problems.length > 0) return problems
  }
  const value = issue.path.reduce<unknown>(
    (tree, key) => (tree as Record<PropertyKey, unknown> | undefined)?.[key],
    document.attributes,
  )
  const name = issue.path.join('.')
  if (value === undefined) {
    // A missing member has no position in the document: the pointer names its parent.
    const parent = issue.path.slice(0, -1)
    const pointer =
      parent.length === 0 && !document.hasAttributes ? '/data' : pointerTo('data', 'attributes', ...parent)
    return [{ code: 'required', detail: `"${name}" is required.`, source: { pointer } }]
  }
  const params = issue.code === 'custom' ? (issue.params as { code?: string } | undefined) : undefined
  const code =
    params?.code !== undefined && params.code in CODES
      ? (params.code as Code)
      : issue.code === 'too_big'
        ? 'too_long'
        : 'invalid'
  const words = issueWords(issue.message)
  return [problem(code, `"${name}" ${lowerFirst(words)}${/[.!]$/.test(words) ? '' : '.'}`, issue.path)]
}

const lowerFirst = (text: string): string =>
  /^(must|may|is|has|cannot|needs) /.test(text) ? text : `is not valid: ${text.charAt(0).toLowerCase()}${text.slice(1)}`

function problem(code: Code, detail: string, path: readonly PropertyKey[]): Problem {
  return { code, detail, source: { pointer: pointerTo('data', 'attributes', ...path) } }
}

/** A JSON pointer (RFC 6901): `~` and `/` in keys are escaped. */
export function pointerTo(...path: readonly PropertyKey[]): string {
  return path.map((key) => `/${String(key).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/**
 * Shortens the pointers of a refusal to members that the document has (D6): a single value has no "/0". Other errors
 * are returned unchanged.
 */
export function anchored(thrown: unknown, document: RequestDocument): unknown {
  if (!(thrown instanceof Refusal)) return thrown
  const exists = (pointer: string): boolean => {
    let value: unknown = { data: document }
    for (const part of pointer.split('/').slice(1)) {
      const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return false
      value = (value as Record<string, unknown>)[key]
    }
    return true
  }
  return new Refusal(
    thrown.problems.map((problem) => {
      let pointer = problem.source?.pointer
      if (pointer === undefined) return problem
      while (!exists(pointer)) pointer = pointer.slice(0, pointer.lastIndexOf('/'))
      return { ...problem, source: { pointer } }
    }),
    thrown.headers,
  )
}

export const pathParameter = ({ params }: Pick<Call<never>, 'params'>, name: string): string =>
  must(params[name], `The parameter ${name} of the path`)

/** Whether an update can change a relationship. */
export const isUpdatable = ({ relationships = {} }: Resource<never>, name: string): boolean =>
  Object.hasOwn(relationships, name) && relationships[name]?.update === true

/**
 * The ids of to-one relationships that a request sets. Throws 422 for a malformed linkage, 409 for another type. Those
 * that an update cannot change are compared by unchanged.ts.
 */
export function readRelationships(
  document: RequestDocument,
  resource: Resource<never>,
  kind: 'create' | 'update' = 'create',
): Record<string, string | null> {
  const ids: Record<string, string | null> = {}
  for (const [name, value] of Object.entries(document.relationships ?? {})) {
    if (kind === 'update' && !isUpdatable(resource, name)) continue
    const { optional, type } = relationshipNamed(resource, name)
    const pointer = pointerTo('data', 'relationships', name)
    const data = isObject(value) ? value['data'] : undefined
    if (data === null && optional) {
      ids[name] = null
      continue
    }
    if (!isObject(data) || typeof data['id'] !== 'string' || typeof data['type'] !== 'string')
      throw refuse('invalid', `"${name}" must be {"data": {"type": "${type}", "id": "…"}}.`, { pointer })
    if (data['type'] !== type)
      throw refuse('type_mismatch', `"${name}" must be of type "${type}".`, { pointer: `${pointer}/data/type` })
    ids[name] = data['id']
  }
  return ids
}
