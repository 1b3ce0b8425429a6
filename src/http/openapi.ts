// The OpenAPI document: the API's resources, the OAuth endpoints, and the events for webhooks.
import { createOpenApi } from '../jsonapi/openapi.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { eventRequests } from './openapi-events.ts'
import { OAUTH_TAG, oauthPaths } from '../users/oauth/openapi.ts'

const ABOUT = `Postrider sends, receives and tracks email over a JSON:API 1.1 interface.

Every request needs a token (\`Authorization: Bearer pr_…\`) with the scope that the operation requires. Requests with a body need \`Content-Type: application/vnd.api+json\` without parameters other than \`profile\`. Times are in UTC with milliseconds, and ids are opaque strings. Resources of other accounts return 404. Later versions can add members to responses, so ignore those that you do not know. Requests are strict: an unknown member is an error. Error responses list all problems, each with a machine-readable \`code\`, an explanation in \`detail\`, and its location in the request.`

export function openApiOf(resources: readonly Resource<never>[], publicUrl: string, apiPath: string): object {
  // Actions for signed-in operators only are used by the console, and no token can call them (D116).
  const reached = resources
    .map((resource) => ({ ...resource, actions: resource.actions.filter(({ person }) => !person) }))
    .filter(({ actions }) => actions.length > 0)
  return createOpenApi({
    resources: reached,
    server: publicUrl + apiPath,
    info: {
      title: 'Postrider',
      version: '1',
      description: ABOUT,
      license: { name: 'MIT', identifier: 'MIT' },
      contact: { name: 'The operator of this server', url: publicUrl },
    },
    paths: oauthPaths(publicUrl),
    webhooks: eventRequests,
    tags: [OAUTH_TAG, { name: 'events', description: 'Events, as signed requests to the URL of a webhook.' }],
  })
}
