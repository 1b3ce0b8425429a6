// The OAuth endpoints in the OpenAPI document (RFC 7591, RFC 6749 as amended by OAuth 2.1, RFC 7009, RFC 8414,
// RFC 9728). They are outside the API's path, need no bearer token, and use OAuth's own JSON.
import type { JsonObject } from '../jsonapi/openapi-examples.ts'

export const OAUTH_TAG = { name: 'oauth', description: 'How programs are let in by a person, for the MCP server.' }

const text = (description: string, more: JsonObject = {}): JsonObject => ({ type: 'string', description, ...more })
const texts = (description: string): JsonObject => ({ type: 'array', items: { type: 'string' }, description })
const object = (required: string[], properties: Record<string, JsonObject>): JsonObject => ({
  type: 'object',
  required,
  properties,
})
const json = (schema: JsonObject, example?: JsonObject): JsonObject => ({
  'application/json': { schema, ...(example ? { example } : {}) },
})
const form = (schema: JsonObject, example: JsonObject): JsonObject => ({
  'application/x-www-form-urlencoded': { schema, example },
})
const CLIENT_ID = '019bc186-de00-738a-a9ec-e0b19577265d'
const REDIRECT = 'http://127.0.0.1:3000/callback'

const REFUSED = json(
  object(['error', 'error_description'], {
    error: text('The code of OAuth.', { examples: ['invalid_grant'] }),
    error_description: text('How to correct it.'),
  }),
)
const refused = (description: string): JsonObject => ({ description, content: REFUSED })
const TOO_MANY: JsonObject = {
  ...refused('`temporarily_unavailable`: too many requests of this address.'),
  headers: { 'Retry-After': { description: 'Seconds to wait.', required: true, schema: { type: 'integer' } } },
}

const CLIENT = object(
  [
    'client_id',
    'client_id_issued_at',
    'redirect_uris',
    'grant_types',
    'response_types',
    'token_endpoint_auth_method',
    'scope',
  ],
  {
    client_id: text('What the client calls itself from now on.'),
    client_id_issued_at: { type: 'integer', description: 'Unix time in seconds.' },
    client_name: text('As it was given.'),
    redirect_uris: texts('Where people may be led back to.'),
    grant_types: texts('Always authorization_code and refresh_token.'),
    response_types: texts('Always code.'),
    token_endpoint_auth_method: text('Always none: the client is public.', { const: 'none' }),
    scope: text('Always mcp:use.', { const: 'mcp:use' }),
  },
)

const TOKEN = object(['access_token', 'token_type', 'expires_in', 'refresh_token', 'scope'], {
  access_token: text('For `Authorization: Bearer` at /mcp.'),
  token_type: text('Always Bearer.', { const: 'Bearer' }),
  expires_in: { type: 'integer', description: 'Seconds that it lives.' },
  refresh_token: text('Good once, for the next pair.'),
  scope: text('Always mcp:use.', { const: 'mcp:use' }),
})

const operation = (operationId: string, summary: string, more: JsonObject): JsonObject => ({
  operationId,
  summary,
  description: `${summary}. No bearer token is needed.`,
  tags: [OAUTH_TAG.name],
  security: [],
  ...more,
})

const metadata = (operationId: string, summary: string, schema: JsonObject): JsonObject => ({
  get: operation(operationId, summary, {
    responses: {
      '200': { description: 'The metadata.', content: json(schema) },
      '400': { description: 'The request itself cannot be read.' },
      '431': { description: 'The headers are beyond 16 KB.' },
    },
  }),
})

const RESOURCE = object(['resource', 'authorization_servers', 'scopes_supported', 'bearer_methods_supported'], {
  resource: text('What a token is for.', { format: 'uri' }),
  authorization_servers: texts('Who gives tokens for it: this server.'),
  scopes_supported: texts('Always mcp:use.'),
  bearer_methods_supported: texts('Always header.'),
  resource_name: text('Its name for people.'),
})

const SERVER = object(
  [
    'issuer',
    'authorization_endpoint',
    'token_endpoint',
    'registration_endpoint',
    'revocation_endpoint',
    'response_types_supported',
  ],
  {
    issuer: text('This server.', { format: 'uri' }),
    authorization_endpoint: text('Where people are led.', { format: 'uri' }),
    token_endpoint: text('Where codes become tokens.', { format: 'uri' }),
    registration_endpoint: text('Where clients register.', { format: 'uri' }),
    revocation_endpoint: text('Where tokens are given back.', { format: 'uri' }),
    revocation_endpoint_auth_methods_supported: texts('Always none.'),
    scopes_supported: texts('Always mcp:use.'),
    response_types_supported: texts('Always code.'),
    response_modes_supported: texts('Always query.'),
    grant_types_supported: texts('authorization_code and refresh_token.'),
    token_endpoint_auth_methods_supported: texts('Always none.'),
    code_challenge_methods_supported: texts('Always S256.'),
    authorization_response_iss_parameter_supported: { type: 'boolean', description: 'RFC 9207.' },
    client_id_metadata_document_supported: {
      type: 'boolean',
      description: 'Always true: a client_id may be the https URL of the client’s metadata document.',
    },
  },
)

const query = (name: string, description: string, required: boolean, schema: JsonObject = {}): JsonObject => ({
  name,
  in: 'query',
  required,
  description,
  schema: { type: 'string', ...schema },
})

const page = (description: string): JsonObject => ({
  description,
  content: { 'text/html': { schema: { type: 'string' } } },
})

const AUTHORIZE: JsonObject = {
  get: operation('authorizeOauthClient', 'Ask a person to let a program in (OAuth 2.1 §4.1.1), in a browser', {
    parameters: [
      query('response_type', 'What the program wants.', true, { enum: ['code'] }),
      query('client_id', 'The id that was registered, or the URL of the client’s metadata document.', true),
      query('redirect_uri', 'Where the person is led back to: one of the client’s own.', false, { format: 'uri' }),
      query('code_challenge', 'The S256 challenge of the verifier (RFC 7636).', true),
      query('code_challenge_method', 'How the challenge was made.', true, { enum: ['S256'] }),
      query('scope', 'mcp:use when absent.', false),
      query('state', 'Comes back unchanged.', false),
      query('resource', 'What the token is for (RFC 8707); /mcp when absent.', false, { format: 'uri' }),
    ],
    responses: {
      '200': page('The page on which the person signs in, and allows or refuses.'),
      '303': {
        description:
          'Back to the program with `code`, or with `error` and `error_description`; `state` and `iss` with both.',
        headers: {
          Location: { description: 'The redirect URI with the answer.', required: true, schema: { type: 'string' } },
        },
      },
      '400': page('The client or its redirect URI is not known here: nobody is led anywhere.'),
      '429': page('Too many requests of this address.'),
      '503': page('The client’s metadata document cannot be fetched at present.'),
    },
  }),
}

const REGISTER: JsonObject = {
  post: operation('registerOauthClient', 'Register an MCP client (RFC 7591)', {
    requestBody: {
      required: true,
      content: json(
        object(['redirect_uris'], {
          redirect_uris: { ...texts('Each on an allowed origin.'), minItems: 1 },
          client_name: text('What people are shown.'),
          grant_types: texts('authorization_code, refresh_token.'),
          response_types: texts('code.'),
          token_endpoint_auth_method: text('none.'),
          scope: text('mcp:use.'),
        }),
        { redirect_uris: [REDIRECT], client_name: 'My assistant' },
      ),
    },
    responses: {
      '201': { description: 'Registered.', content: json(CLIENT) },
      '400': refused('`invalid_client_metadata` or `invalid_redirect_uri`.'),
      '413': refused('`invalid_client_metadata`: the body is too large.'),
      '429': TOO_MANY,
      '503': refused('`temporarily_unavailable`: there are too many clients.'),
    },
  }),
}

const TOKENS: JsonObject = {
  post: operation('issueOauthToken', 'Exchange a code or a refresh token for tokens', {
    requestBody: {
      required: true,
      content: form(
        object(['grant_type', 'client_id'], {
          grant_type: text('What is exchanged.', { enum: ['authorization_code', 'refresh_token'] }),
          client_id: text('Who asks: the id that was registered, or the URL of the client’s metadata document.'),
          code: text('With authorization_code: what came back with the person.'),
          code_verifier: text('With authorization_code: what the S256 challenge was made of.'),
          redirect_uri: text('With authorization_code: the same as in the request for the code.'),
          refresh_token: text('With refresh_token.'),
          resource: text('What the token is for (RFC 8707); /mcp when absent.'),
        }),
        {
          grant_type: 'authorization_code',
          client_id: CLIENT_ID,
          code: 'CODE',
          code_verifier: 'VERIFIER',
          redirect_uri: REDIRECT,
        },
      ),
    },
    responses: {
      '200': { description: 'Issued.', content: json(TOKEN) },
      '400': refused('`invalid_request`, `invalid_grant`, `invalid_target` or `unsupported_grant_type`.'),
      '401': {
        ...refused('`invalid_client`: the client is not known.'),
        headers: { 'WWW-Authenticate': { description: 'Bearer.', schema: { type: 'string' } } },
      },
      '413': refused('`invalid_request`: the body is too large.'),
      '429': TOO_MANY,
    },
  }),
}

const REVOKE: JsonObject = {
  post: operation('revokeOauthToken', 'Give a token back (RFC 7009)', {
    requestBody: {
      required: true,
      content: form(
        object(['token', 'client_id'], {
          token: text('An access token, which ends, or a refresh token, with which all that was allowed ends.'),
          token_type_hint: text('Not needed.'),
          client_id: text('Whose token it is.'),
        }),
        { token: 'TOKEN', client_id: CLIENT_ID },
      ),
    },
    responses: {
      '200': { description: 'The token is not valid, whether or not it was.' },
      '400': refused('`invalid_request`, or `invalid_grant`: the token is another client’s.'),
      '401': refused('`invalid_client`: the client is not known.'),
      '413': refused('`invalid_request`: the body is too large.'),
      '429': TOO_MANY,
    },
  }),
}

/** Path items outside the API, by path. */
export function oauthPaths(publicUrl: string): Record<string, JsonObject> {
  const servers = [{ url: publicUrl, description: 'This server, beside the API.' }]
  const paths: Record<string, JsonObject> = {
    '/oauth/authorize': AUTHORIZE,
    '/oauth/register': REGISTER,
    '/oauth/token': TOKENS,
    '/oauth/revoke': REVOKE,
    '/.well-known/oauth-authorization-server': metadata(
      'getOauthServerMetadata',
      'Metadata of the authorization server (RFC 8414)',
      SERVER,
    ),
    '/.well-known/oauth-protected-resource': metadata(
      'getOauthResourceMetadata',
      'Metadata of this server as a protected resource (RFC 9728)',
      RESOURCE,
    ),
    '/.well-known/oauth-protected-resource/mcp': metadata(
      'getMcpResourceMetadata',
      'Metadata of the MCP endpoint as a protected resource (RFC 9728)',
      RESOURCE,
    ),
  }
  return Object.fromEntries(Object.entries(paths).map(([path, item]) => [path, { servers, ...item }]))
}
