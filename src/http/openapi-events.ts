// The events in the OpenAPI document, as requests to a client: one webhook for each type, with its headers and data.
import type { JsonObject } from '../jsonapi/openapi-examples.ts'
import { upTo } from '../base/text.ts'
import { schemaOf, type Schemas } from '../jsonapi/openapi-schemas.ts'
import { EVENT_TYPES } from '../store/states/events.ts'
import { CATALOGUE } from '../webhooks/catalogue.ts'
import { SAMPLES } from '../webhooks/samples.ts'

const header = (name: string, description: string, example: string): JsonObject => ({
  name,
  in: 'header',
  required: true,
  description,
  schema: { type: 'string', examples: [example] },
})

const HEADERS = [
  header(
    'webhook-id',
    'Id of the event. It is the same in retries, so that you can process each event once.',
    '019bc186-de00-738a-a9ec-e0b19577265d',
  ),
  header(
    'webhook-timestamp',
    'Time of the attempt, in Unix seconds. Reject requests that are older than five minutes.',
    '1768478400',
  ),
  header(
    'webhook-signature',
    'One or more signatures, separated by spaces: `v1,` and an HMAC-SHA256 in base64. One valid signature is enough.',
    'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
  ),
]

/** "agent.pool.promoted" -> "AgentPoolPromoted". */
const nameOf = (type: string): string => type.replace(/(?:^|[._])(\w)/g, (_, letter: string) => letter.toUpperCase())

export function eventRequests(schemas: Schemas): Record<string, JsonObject> {
  return Object.fromEntries(
    EVENT_TYPES.map((type) => {
      const { about, data, to } = CATALOGUE[type]
      const schema = schemas.component(`${nameOf(type)}Event`, () => ({
        type: 'object',
        description: about,
        required: ['type', 'timestamp', 'data'],
        properties: {
          type: { type: 'string', const: type },
          timestamp: { type: 'string', format: 'date-time', description: 'Time when the event happened.' },
          data: schemaOf(data, 'output'),
        },
      }))
      const example = { type, timestamp: '2026-01-15T12:00:00.000Z', data: SAMPLES[type] }
      return [
        type,
        {
          post: {
            operationId: `on${nameOf(type)}`,
            summary: upTo(about, /[.;:] /).replace(/\.$/, ''),
            description: `${about} Sent to ${to === 'domain' ? 'the webhooks of the domain' : 'all webhooks'}, signed according to Standard Webhooks.`,
            tags: ['events'],
            security: [],
            parameters: HEADERS,
            requestBody: { required: true, content: { 'application/json': { schema, example } } },
            responses: {
              '2XX': { description: 'The event was accepted. Respond within 15 seconds.' },
              '410': { description: 'The endpoint no longer exists. The webhook is disabled immediately.' },
              '429': { description: 'The endpoint is not available now. `Retry-After` is respected.' },
              default: { description: 'The event is retried, up to ten attempts in total.' },
            },
          },
        },
      ]
    }),
  )
}
