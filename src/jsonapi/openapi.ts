// The OpenAPI 3.1 document, derived from the same descriptions as the routes. Parts that are not resources (OAuth,
// events) are described in their own files and added here.
import { methodOf, Operations } from './openapi-operations.ts'
import { Schemas, type JsonObject } from './openapi-schemas.ts'
import type { Resource } from './resource.ts'

export interface OpenApiParts {
  resources: readonly Resource<never>[]
  /** The API's absolute base URL. */
  server: string
  info: JsonObject
  /** Path items in addition to those of resources. */
  paths: Record<string, JsonObject>
  /** Requests that this server sends to others. */
  webhooks: (schemas: Schemas) => Record<string, JsonObject>
  /** Names and descriptions of groups in addition to the resource types. */
  tags: readonly { name: string; description: string }[]
}

/** Builds the OpenAPI document as a JSON value. */
export function createOpenApi({ info, paths: more, resources, server, tags, webhooks }: OpenApiParts): object {
  const schemas = new Schemas(resources)
  const operations = new Operations(schemas)
  const paths: Record<string, JsonObject> = {}
  for (const resource of resources)
    for (const action of resource.actions) {
      const path = action.path.replace(/:(\w+)/g, '{$1}')
      paths[path] = { ...paths[path], [methodOf(action)]: operations.operation(resource, action) }
    }
  const events = webhooks(schemas)
  const { headers, parameters, responses } = operations
  return {
    openapi: '3.1.0',
    info,
    servers: [{ url: server, description: 'This server' }],
    security: [{ bearer: [] }],
    tags: [...resources.map(({ about, type }) => ({ name: type, description: about })), ...tags],
    paths: { ...paths, ...more },
    webhooks: events,
    components: {
      schemas: schemas.components,
      headers,
      parameters,
      responses,
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A personal access token (`pr_…`) with scopes.' },
      },
    },
  }
}
