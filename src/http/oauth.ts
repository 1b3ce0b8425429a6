// OAuth for MCP clients, the endpoints for programs (D58): registration (RFC 7591), token (OAuth 2.1), revocation (RFC
// 7009), and the metadata documents (RFC 8414, RFC 9728). Errors have the JSON form of OAuth. Cookies are not used, so
// pages of any origin may call these endpoints.
import { Hono, type Context } from 'hono'
import { cors } from 'hono/cors'
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import type { Budget } from '../base/memory.ts'
import type { Config } from '../base/config.ts'
import { RateLimit } from '../identity/rates.ts'
import { allowedNow } from '../identity/oauth-allowed.ts'
import { addClient, clientById, readRegistration, type OauthClient } from '../identity/oauth-clients.ts'
import { exchangeCode, exchangeRefresh, takeBack, type TokenResult } from '../identity/oauth-grants.ts'
import type { Store } from '../store/database.ts'
import { rateKey } from '../net/client-address.ts'
import { readText } from '../webui/plain-page.ts'

export interface OauthDeps {
  store: Store
  clock: Clock
  config: Pick<Config, 'http' | 'oauth'>
  bodies: Budget
}

export const SCOPE = 'mcp:use'
const REGISTRATIONS = 10
const TOKEN_REQUESTS = 60
const MAX_BODY = 16 * 1024
const JSON_TYPE = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', Pragma: 'no-cache' }

/** The resources that a token can be for: the MCP endpoint, or this server as a whole. */
export const resourcesOf = ({ http }: Pick<Config, 'http'>): { mcp: string; root: string } => ({
  mcp: `${http.public_url}/mcp`,
  root: http.public_url,
})

/** The named resource in its stored form; undefined when it is not a resource of this server. */
export function resourceNamed(config: Pick<Config, 'http'>, given: string | undefined): string | undefined {
  const { mcp, root } = resourcesOf(config)
  if (given === undefined) return mcp
  const plain = given.replace(/\/$/, '')
  return plain === mcp ? mcp : plain === root ? root : undefined
}

const oauthError = (
  context: Context,
  status: 400 | 401 | 413 | 415 | 429 | 503,
  error: string,
  description: string,
  headers: Record<string, string> = {},
): Response =>
  context.body(JSON.stringify({ error, error_description: description }), status, { ...JSON_TYPE, ...headers })

/** Makes the endpoints of OAuth for programs, and the metadata documents. */
export function createOauth(deps: OauthDeps): Hono {
  const app = new Hono()
  const { clock, config } = deps
  const open = cors({
    origin: '*',
    allowMethods: ['GET', 'POST', 'OPTIONS'],
    allowHeaders: ['Content-Type', 'Authorization', 'MCP-Protocol-Version'],
  })
  const tokenRequests = new RateLimit(clock, TOKEN_REQUESTS / 60, TOKEN_REQUESTS)
  const endpoints: Record<string, { rates: RateLimit; answer: (context: Context) => Promise<Response> }> = {
    '/oauth/register': {
      rates: new RateLimit(clock, REGISTRATIONS / (HOUR / SECOND), REGISTRATIONS),
      answer: (context) => register(deps, context),
    },
    '/oauth/token': { rates: tokenRequests, answer: (context) => issue(deps, context) },
    '/oauth/revoke': { rates: tokenRequests, answer: (context) => revoke(deps, context) },
  }
  app.use('/.well-known/*', open)
  for (const [path, { answer, rates }] of Object.entries(endpoints)) {
    app.use(path, open)
    app.post(path, (context) => limited(rates, context, config) ?? answer(context))
    app.all(path, (context) => context.text('This endpoint knows POST alone.\n', 405, { Allow: 'POST' }))
  }
  publish(app, '/.well-known/oauth-authorization-server', () => serverMetadata(config))
  publish(app, '/.well-known/oauth-authorization-server/mcp', () => serverMetadata(config))
  publish(app, '/.well-known/oauth-protected-resource', () => resourceMetadata(config, resourcesOf(config).root))
  publish(app, '/.well-known/oauth-protected-resource/mcp', () => resourceMetadata(config, resourcesOf(config).mcp))
  return app
}

/** The answer to a client with too many requests; undefined below the limit. */
function limited(rates: RateLimit, context: Context, config: Pick<Config, 'http'>): Response | undefined {
  const { allowed, reset } = rates.take(rateKey(context, config.http))
  if (allowed) return undefined
  return oauthError(context, 429, 'temporarily_unavailable', `Too many requests; try again in ${reset} s.`, {
    'Retry-After': String(reset),
  })
}

/** Publishes a metadata document. It is made at each request, because the public URL may be set after the start. */
function publish(app: Hono, path: string, document: () => object): void {
  app.get(path, (context) =>
    context.body(JSON.stringify(document()), 200, {
      'Content-Type': 'application/json',
      'Cache-Control': 'public, max-age=300',
    }),
  )
  app.all(path, (context) => context.text('This is read with GET.\n', 405, { Allow: 'GET, HEAD' }))
}

/** The form of a request, or the answer to a malformed one. */
async function readForm(deps: OauthDeps, context: Context): Promise<URLSearchParams | Response> {
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(context.req.header('content-type') ?? ''))
    return oauthError(context, 400, 'invalid_request', 'The body must be application/x-www-form-urlencoded.')
  const text = await readText(context, deps, MAX_BODY)
  if (text === undefined) return oauthError(context, 413, 'invalid_request', 'The body is too large.')
  const form = new URLSearchParams(text)
  const names = [...form.keys()]
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  return repeated === undefined
    ? form
    : oauthError(context, 400, 'invalid_request', `"${repeated.slice(0, 50)}" is given more than once.`)
}

/** Registers a client (RFC 7591 §3). */
async function register(deps: OauthDeps, context: Context): Promise<Response> {
  if (!/^application\/json\s*(?:;|$)/i.test(context.req.header('content-type') ?? ''))
    return oauthError(context, 400, 'invalid_client_metadata', 'The body must be application/json.')
  const text = await readText(context, deps, MAX_BODY)
  if (text === undefined) return oauthError(context, 413, 'invalid_client_metadata', 'The body is too large.')
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    return oauthError(context, 400, 'invalid_client_metadata', 'The body is not JSON.')
  }
  const registration = readRegistration(body, allowedNow(deps.store, deps.config))
  if ('error' in registration) return oauthError(context, 400, registration.error, registration.description)
  const client = await addClient(deps, registration)
  if (!client)
    return oauthError(context, 503, 'temporarily_unavailable', 'There are too many clients; ask the operator.')
  return context.body(
    JSON.stringify({
      client_id: client.id,
      client_id_issued_at: Math.floor(client.created_at / 1000),
      ...(client.name === '' ? {} : { client_name: client.name }),
      redirect_uris: registration.redirectUris,
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      scope: SCOPE,
    }),
    201,
    JSON_TYPE,
  )
}

/** Exchanges a code or a refresh token for tokens (OAuth 2.1 §3.2). */
async function issue(deps: OauthDeps, context: Context): Promise<Response> {
  const form = await readForm(deps, context)
  if (form instanceof Response) return form
  const exchange = await redeem(deps, form)
  if ('status' in exchange) return refusal(context, exchange)
  if ('error' in exchange) return oauthError(context, 400, exchange.error, exchange.description)
  return context.body(JSON.stringify({ ...exchange, token_type: 'Bearer', scope: SCOPE }), 200, JSON_TYPE)
}

/** Revokes a token (RFC 7009). */
async function revoke(deps: OauthDeps, context: Context): Promise<Response> {
  const form = await readForm(deps, context)
  if (form instanceof Response) return form
  const client = clientOf(deps, form)
  if (!client) return refusal(context, UNKNOWN_CLIENT)
  const token = form.get('token')
  if (!token) return oauthError(context, 400, 'invalid_request', '"token" is missing.')
  if (!(await takeBack(deps, client, token)))
    return oauthError(context, 400, 'invalid_grant', 'The token was issued to another client.')
  return context.body(null, 200, { 'Cache-Control': 'no-store' })
}

interface Refused {
  status: 400 | 401
  error: string
  description: string
}

const UNKNOWN_CLIENT: Refused = {
  status: 401,
  error: 'invalid_client',
  description: 'The client is not known; register it, or begin with an authorization request.',
}

function refusal(context: Context, { description, error, status }: Refused): Response {
  // RFC 9110 §15.5.2: a 401 must name a scheme.
  return oauthError(context, status, error, description, status === 401 ? { 'WWW-Authenticate': 'Bearer' } : {})
}

function clientOf({ store }: OauthDeps, form: URLSearchParams): OauthClient | undefined {
  const id = form.get('client_id') || undefined
  return id === undefined ? undefined : clientById(store, id)
}

/** Answers a token request: tokens, or an error of RFC 6749 §5.2. */
async function redeem(deps: OauthDeps, form: URLSearchParams): Promise<TokenResult | Refused> {
  const refused = (error: string, description: string, status: 400 | 401 = 400): Refused => ({
    status,
    error,
    description,
  })
  const value = (name: string): string | undefined => form.get(name) || undefined
  const grant = value('grant_type')
  if (grant === undefined) return refused('invalid_request', '"grant_type" is missing.')
  if (grant !== 'authorization_code' && grant !== 'refresh_token')
    return refused('unsupported_grant_type', '"grant_type" must be authorization_code or refresh_token.')
  const client = clientOf(deps, form)
  if (!client) return UNKNOWN_CLIENT
  const given = value('resource')
  const resource = given === undefined ? undefined : resourceNamed(deps.config, given)
  if (given !== undefined && resource === undefined)
    return refused('invalid_target', 'This server has no such resource.')
  const scopes = (value('scope') ?? SCOPE).split(' ').filter(Boolean)
  if (scopes.some((scope) => scope !== SCOPE)) return refused('invalid_scope', `The only scope is ${SCOPE}.`)
  if (grant === 'refresh_token') {
    const refreshToken = value('refresh_token')
    if (refreshToken === undefined) return refused('invalid_request', '"refresh_token" is missing.')
    return exchangeRefresh(deps, { client, refreshToken, resource })
  }
  const [code, verifier] = [value('code'), value('code_verifier')]
  if (code === undefined) return refused('invalid_request', '"code" is missing.')
  // RFC 7636 §4.1: 43 to 128 unreserved characters.
  if (verifier === undefined || !/^[A-Za-z0-9._~-]{43,128}$/.test(verifier))
    return refused('invalid_grant', '"code_verifier" is missing, or not 43 to 128 unreserved characters.')
  return exchangeCode(deps, { client, code, verifier, redirectUri: value('redirect_uri'), resource })
}

/** RFC 8414 §2. The issuer is exactly the text of http.public_url. */
function serverMetadata({ http }: Pick<Config, 'http'>): object {
  const issuer = http.public_url
  return {
    issuer,
    authorization_endpoint: `${issuer}/oauth/authorize`,
    token_endpoint: `${issuer}/oauth/token`,
    registration_endpoint: `${issuer}/oauth/register`,
    revocation_endpoint: `${issuer}/oauth/revoke`,
    revocation_endpoint_auth_methods_supported: ['none'],
    scopes_supported: [SCOPE],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    token_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
  }
}

/** RFC 9728 §2. */
function resourceMetadata({ http }: Pick<Config, 'http'>, resource: string): object {
  return {
    resource,
    authorization_servers: [http.public_url],
    scopes_supported: [SCOPE],
    bearer_methods_supported: ['header'],
    resource_name: 'Postrider',
  }
}
