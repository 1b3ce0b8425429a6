// The OAuth endpoints for applications in the OpenAPI document. They are outside the API's path, need no bearer token,
// and use OAuth's own JSON (RFC 7591, OAuth 2.1, RFC 7009, RFC 9728).
import { z } from 'zod'
import type { JsonObject } from '../../jsonapi/openapi-examples.ts'

export const OAUTH_TAG = { name: 'oauth', description: 'OAuth 2.1 for MCP clients. A user grants them access.' }

const text = (about: string) => z.string().describe(about)
const texts = (about: string) => z.array(z.string()).describe(about)
const scope = z.literal('mcp:use').describe('Always mcp:use.')

const CLIENT = z.object({
  client_id: text('Id of the client.'),
  client_id_issued_at: z.number().int().describe('Time of registration, in Unix seconds.'),
  client_name: text('Name, as registered.').optional(),
  redirect_uris: texts('Redirect URIs.'),
  grant_types: texts('Always authorization_code and refresh_token.'),
  response_types: texts('Always code.'),
  token_endpoint_auth_method: z.literal('none').describe('Always `none`: the client is public.'),
  scope,
})
const REGISTRATION = z.object({
  redirect_uris: texts('Redirect URIs. Each must have an allowed origin.').min(1),
  client_name: text('Name that users see.').optional(),
  grant_types: texts('Grant types: authorization_code, refresh_token.').optional(),
  response_types: texts('Response types: code.').optional(),
  token_endpoint_auth_method: text('Authentication method: none.').optional(),
  scope: text('Scope: mcp:use.').optional(),
})
const TOKENS = z.object({
  access_token: text('Access token, for `Authorization: Bearer` at /mcp.'),
  token_type: z.literal('Bearer').describe('Always Bearer.'),
  expires_in: z.number().int().describe('Lifetime of the access token in seconds.'),
  refresh_token: text('Refresh token. It can be used once, to get the next pair of tokens.'),
  scope,
})
const EXCHANGE = z.object({
  grant_type: z.enum(['authorization_code', 'refresh_token']).describe('Grant type.'),
  client_id: text('Registered client id, or the URL of the client’s metadata document.'),
  code: text('With authorization_code: the code from the redirect.').optional(),
  code_verifier: text('With authorization_code: the code verifier of the S256 challenge.').optional(),
  redirect_uri: text('With authorization_code: the redirect URI of the authorization request.').optional(),
  refresh_token: text('With refresh_token: the refresh token.').optional(),
  resource: text('Resource that the token is for (RFC 8707). The default is /mcp.').optional(),
})
const REVOCATION = z.object({
  token: text('An access token, or a refresh token, which also revokes the whole grant.'),
  token_type_hint: text('Optional. Ignored.').optional(),
  client_id: text('Client that the token was issued to.'),
})
const RESOURCE = z.object({
  resource: z.url().describe('URL of the protected resource.'),
  authorization_servers: texts('Authorization servers: this server. Their metadata describe the other endpoints.'),
  scopes_supported: texts('Always mcp:use.'),
  bearer_methods_supported: texts('Always header.'),
  resource_name: text('Name of the resource, for display.').optional(),
})
const REFUSED = z.object({
  error: text('OAuth error code.').meta({ examples: ['invalid_grant'] }),
  error_description: text('Problem and how to fix it.'),
})

const JSON_TYPE = 'application/json'
const FORM = 'application/x-www-form-urlencoded'

/** The content of a request or a response. Other members may be added later. */
function content(schema: z.ZodType, type = JSON_TYPE, more: JsonObject = {}): JsonObject {
  const { $schema: _, ...plain } = z.toJSONSchema(schema, { io: 'input' })
  return { [type]: { schema: plain, ...more } }
}

const CLIENT_ID = '019bc186-de00-738a-a9ec-e0b19577265d'
const REDIRECT = 'http://127.0.0.1:3000/callback'

const refused = (description: string): JsonObject => ({ description, content: content(REFUSED) })

interface OauthOperation {
  id: string
  summary: string
  body?: { schema: z.ZodType; type: string; example: JsonObject }
  done: [status: number, description: string, schema?: z.ZodType]
  /** The other responses by their status. */
  refused: Record<string, string>
}

function operation({ body, done, id, refused: others, summary }: OauthOperation): JsonObject {
  const [status, description, schema] = done
  return {
    operationId: id,
    summary,
    description: `${summary}. No bearer token is required.`,
    tags: [OAUTH_TAG.name],
    security: [],
    ...(body && {
      requestBody: {
        required: true,
        content: content(body.schema, body.type, { example: body.example }),
      },
    }),
    responses: {
      [status]: { description, ...(schema && { content: content(schema) }) },
      ...Object.fromEntries(Object.entries(others).map(([code, about]) => [code, refused(about)])),
      431: { description: 'The headers are larger than 16 KB.' },
    },
  }
}

const TOO_LARGE = 'The body is too large.'
const TOO_MANY =
  '`temporarily_unavailable`: too many requests from this IP address. `Retry-After` has the seconds to wait.'

const REGISTER: OauthOperation = {
  id: 'registerOauthClient',
  summary: 'Register an MCP client (RFC 7591)',
  body: {
    schema: REGISTRATION,
    type: JSON_TYPE,
    example: { redirect_uris: [REDIRECT], client_name: 'My assistant' },
  },
  done: [201, 'The client was registered.', CLIENT],
  refused: {
    400: '`invalid_client_metadata` or `invalid_redirect_uri`.',
    413: TOO_LARGE,
    429: TOO_MANY,
    503: '`temporarily_unavailable`: too many clients are registered.',
  },
}

const ISSUE: OauthOperation = {
  id: 'issueOauthToken',
  summary: 'Exchange a code or a refresh token for tokens',
  body: {
    schema: EXCHANGE,
    type: FORM,
    example: {
      grant_type: 'authorization_code',
      client_id: CLIENT_ID,
      code: 'CODE',
      code_verifier: 'VERIFIER',
      redirect_uri: REDIRECT,
    },
  },
  done: [200, 'The tokens were issued.', TOKENS],
  refused: {
    400: '`invalid_request`, `invalid_grant`, `invalid_target` or `unsupported_grant_type`.',
    401: '`invalid_client`: the client is unknown.',
    413: TOO_LARGE,
    429: TOO_MANY,
  },
}

const REVOKE: OauthOperation = {
  id: 'revokeOauthToken',
  summary: 'Revoke a token (RFC 7009)',
  body: { schema: REVOCATION, type: FORM, example: { token: 'TOKEN', client_id: CLIENT_ID } },
  done: [200, 'The token is no longer valid. This is also the response if it never was.'],
  refused: {
    400: '`invalid_request`, or `invalid_grant`: the token belongs to another client.',
    401: '`invalid_client`: the client is unknown.',
    413: TOO_LARGE,
    429: TOO_MANY,
  },
}

const METADATA: OauthOperation = {
  id: 'getOauthResourceMetadata',
  summary: 'Get the metadata of this server as a protected resource (RFC 9728)',
  done: [200, 'Metadata.', RESOURCE],
  refused: {},
}

/** Path items outside the API, by path. */
export function oauthPaths(publicUrl: string): Record<string, JsonObject> {
  const servers = [{ url: publicUrl, description: 'This server, outside the API' }]
  return {
    '/oauth/register': { servers, post: operation(REGISTER) },
    '/oauth/token': { servers, post: operation(ISSUE) },
    '/oauth/revoke': { servers, post: operation(REVOKE) },
    '/.well-known/oauth-protected-resource': { servers, get: operation(METADATA) },
  }
}
