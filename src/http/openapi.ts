// The OpenAPI document: the API's resources, the OAuth endpoints, and the events for webhooks.
import { createOpenApi } from '../jsonapi/openapi.ts'
import type { Resource } from '../jsonapi/resource.ts'
import { eventRequests } from './openapi-events.ts'
import { OAUTH_TAG, oauthPaths } from './openapi-oauth.ts'

const ABOUT = `Sending, campaigns and inbound mail over JSON:API 1.1.

Requests with a body are \`application/vnd.api+json\` without parameters. Every request names a token (\`Authorization: Bearer pr_…\`) whose scopes are among those that the operation takes. What is not yours is 404. Times are UTC with milliseconds, ids are opaque. Answers may get more members; requests are strict: what is not known is refused and named. Every refusal is a list of errors, each with a machine-readable \`code\`, a sentence and the place of the fault in the request.`

export function openApiOf(resources: readonly Resource<never>[], publicUrl: string, apiPath: string): object {
  // What no token reaches is for pages of the console alone (D116).
  const reached = resources
    .map((resource) => ({ ...resource, actions: resource.actions.filter(({ operator }) => operator !== 'person') }))
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
    tags: [OAUTH_TAG, { name: 'events', description: 'What webhooks are told, as signed requests to their URL.' }],
  })
}
