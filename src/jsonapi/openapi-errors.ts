// The error codes of an action, from its kind, its parameters and its own list, grouped by status, and the schemas of
// refusals.
import { CODES, type Code } from '../base/errors.ts'
import { namesIn } from '../base/one-of.ts'
import type { JsonObject, Schemas } from './openapi-schemas.ts'
import { paramsOf, type ActionOf, type Param } from './resource.ts'

const ALWAYS: readonly Code[] = [
  'unauthenticated',
  'token_expired',
  'insufficient_scope',
  'not_acceptable',
  'rate_limited',
  'invalid_query',
  'internal',
]
const OF_PARAMS: Record<Param, readonly Code[]> = {
  filter: ['unsupported_filter'],
  inbox: ['unsupported_filter'],
  force: [],
  sort: ['unsupported_sort', 'cursor_sort_mismatch'],
  include: ['unsupported_include'],
  fields: ['unsupported_fields'],
  page: ['unknown_page_parameter'],
}
const OF_WRITES: readonly Code[] = [
  'invalid_document',
  'relationship_update_forbidden',
  'type_mismatch',
  'payload_too_large',
  'unsupported_media_type',
  'overloaded',
  'invalid',
  'immutable',
]

/** Every error code that an action may return, by HTTP status. */
export function refusalsOf(action: ActionOf<never>): Map<string, Code[]> {
  const codes = new Set<Code>([...ALWAYS, ...paramsOf(action).flatMap((param) => OF_PARAMS[param])])
  const add = (...more: readonly Code[]): void => more.forEach((code) => codes.add(code))
  if (action.path.includes(':')) add('not_found')
  if (action.kind === 'create' || action.kind === 'update') add(...OF_WRITES)
  if (action.kind === 'create') add('client_id_forbidden', 'required', 'too_long', 'insufficient_storage')
  if (action.kind === 'update') add('id_mismatch', 'too_long', 'changed_meanwhile')
  if (action.operator) add('not_found')
  add(...(action.refuses ?? []))
  const inOrder = namesIn(CODES).filter((code) => codes.has(code))
  const byStatus = Map.groupBy(inOrder, (code) => String(CODES[code][0]))
  return new Map([...byStatus].toSorted(([a], [b]) => Number(a) - Number(b)))
}

const SOURCE: JsonObject = {
  type: 'object',
  description: 'Part of the request that caused the error. It has one of these members.',
  properties: {
    pointer: { type: 'string', description: 'JSON pointer (RFC 6901) to the value in the request document.' },
    parameter: { type: 'string', description: 'Name of the query parameter.' },
    header: { type: 'string', description: 'Name of the header.' },
  },
}

const isValidation = (code: Code): boolean => CODES[code][0] === 422

function errorSchema(codes: readonly Code[], code: Code, detail: string, source: JsonObject): JsonObject {
  return {
    type: 'object',
    required: ['id', 'status', 'code', 'title', 'detail'],
    properties: {
      id: { type: 'string', description: 'Id of this error. For a 500, the server log has details under this id.' },
      status: { type: 'string', description: 'HTTP status code.', examples: [String(CODES[code][0])] },
      code: {
        type: 'string',
        enum: codes,
        description: 'Error code. It never changes, so use it in your application.',
        examples: [code],
      },
      title: { type: 'string', description: 'Meaning of the code.', examples: [CODES[code][1]] },
      detail: { type: 'string', description: 'Problem and how to fix it.', examples: [detail] },
      source: { ...SOURCE, examples: [source] },
      meta: { type: 'object', description: 'Additional information about the error.' },
    },
  }
}

/** The schema of refusals with this status. */
export function errorDocument(schemas: Schemas, status: string): JsonObject {
  const all = namesIn(CODES)
  const document = (name: string, about: string, error: () => JsonObject): JsonObject =>
    schemas.component(`${name}Document`, () => ({
      type: 'object',
      description: about,
      required: ['errors'],
      properties: { errors: { type: 'array', minItems: 1, items: schemas.component(`${name}Object`, error) } },
    }))
  return status === '422'
    ? document('ValidationError', 'All problems of the request, each with its location.', () =>
        errorSchema(all.filter(isValidation), 'invalid', '"name" must be a string.', {
          pointer: '/data/attributes/name',
        }),
      )
    : document('Error', 'Reason why the request failed.', () =>
        errorSchema(
          all.filter((code) => !isValidation(code)),
          'not_found',
          'No such resource exists. Check the id in the URL.',
          {},
        ),
      )
}
