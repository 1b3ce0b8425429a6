// The events in the OpenAPI document, as requests to a client: one webhook for each type, with its headers and data.
import type { JsonObject } from '../jsonapi/openapi-examples.ts'
import { schemaOf, type Schemas } from '../jsonapi/openapi-schemas.ts'
import { EVENT_TYPES } from '../states/events.ts'
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
  header('webhook-id', 'The same over retries: process each once.', '019bc186-de00-738a-a9ec-e0b19577265d'),
  header('webhook-timestamp', 'Unix time in seconds; refuse what is older than five minutes.', '1768478400'),
  header(
    'webhook-signature',
    'One or more of `v1,` and a base64 HMAC-SHA256, separated by spaces: one that verifies is enough.',
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
          timestamp: { type: 'string', format: 'date-time', description: 'When it happened.' },
          data: schemaOf(data, 'output'),
        },
      }))
      const example = { type, timestamp: '2026-01-15T12:00:00.000Z', data: SAMPLES[type] }
      return [
        type,
        {
          post: {
            operationId: `on${nameOf(type)}`,
            summary: about.replace(/\.$/, ''),
            description: `${about} ${to === 'domain' ? 'It goes to webhooks of that domain.' : 'It goes to all of your webhooks.'} Signed after Standard Webhooks.`,
            tags: ['events'],
            security: [],
            parameters: HEADERS,
            requestBody: { required: true, content: { 'application/json': { schema, example } } },
            responses: {
              '2XX': { description: 'Taken. Answer within 15 seconds.' },
              '410': { description: 'The endpoint is gone: the webhook is disabled at once.' },
              '429': { description: 'Not now: `Retry-After` is heeded.' },
              default: { description: 'Tried again, ten times in all.' },
            },
          },
        },
      ]
    }),
  )
}
