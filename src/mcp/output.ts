// Schemas of the MCP tools' answers: the schemas of the OpenAPI document, with only the members that an agent reads.
import { z } from 'zod'
import type { JsonObject } from '../jsonapi/openapi-examples.ts'
import { COLLECTION_META, Schemas, type View } from '../jsonapi/openapi-schemas.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { audiences, contacts } from '../campaigns/api-audiences.ts'
import { consents } from '../campaigns/api-consents.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { forms } from '../forms/api.ts'
import { inboundEmails } from '../inbound/api-emails.ts'
import { segmentCounts, segments } from '../campaigns/api-segments.ts'
import { inboxes } from '../inbound/api.ts'
import { outboundEmails } from '../mail/api.ts'
import { explanations } from '../why/api.ts'
import { must } from '../base/errors.ts'
import { afterLast } from '../base/text.ts'

const RESOURCES = [
  outboundEmails,
  inboundEmails,
  inboxes,
  domains,
  audiences,
  contacts,
  consents,
  forms,
  segments,
  segmentCounts,
  campaigns,
  explanations,
] as Resource<never>[]

/** Whether a tool returns a page of resources or one resource. */
export interface Output {
  type: string
  form: 'list' | 'one'
}

const made = new Map<string, z.ZodObject>()

/** The schema of a tool's structured result, made at the first use. */
export function outputOf({ form, type }: Output): z.ZodObject {
  const name = `${form} ${type}`
  let schema = made.get(name)
  if (!schema) made.set(name, (schema = z.fromJSONSchema(documentOf(type, form) as never) as z.ZodObject))
  return schema
}

function documentOf(type: string, form: Output['form']): JsonObject {
  const schemas = new Schemas(RESOURCES)
  const view: View = form === 'list' ? 'listed' : 'alone'
  const resource = must(
    RESOURCES.find((each) => each.type === type),
    `The resource ${type}`,
  )
  const { properties } = whole(schemas.resource(resource, view), schemas.components)
  const { attributes, id, type: name } = properties as Record<string, JsonObject>
  const data: JsonObject = {
    type: 'object',
    required: ['type', 'id', 'attributes'],
    properties: { type: name, id, attributes },
  }
  if (form === 'one') return { type: 'object', required: ['data'], properties: { data } }
  const meta = COLLECTION_META
  return { type: 'object', required: ['data', 'meta'], properties: { data: { type: 'array', items: data }, meta } }
}

/** A schema with its references replaced, and without examples and timestamp formats, to keep it short. */
function whole(schema: unknown, components: JsonObject): JsonObject {
  const plain = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(plain)
    if (typeof value !== 'object' || value === null) return value
    const { $ref, examples: _, format: __, ...rest } = value as JsonObject
    if (typeof $ref === 'string') return plain(components[afterLast($ref, '/')])
    return Object.fromEntries(Object.entries(rest).map(([name, each]) => [name, plain(each)]))
  }
  return plain(schema) as JsonObject
}
