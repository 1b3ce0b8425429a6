// The OAuth endpoints for MCP clients (D58): registration (RFC 7591), token (OAuth 2.1), revocation (RFC 7009), and the
// metadata documents (RFC 8414, RFC 9728). Errors have the JSON form of OAuth. Cookies are not used, so pages of any
// origin may call these endpoints.
import { Hono, type Context } from 'hono'
import { cors } from 'hono/cors'
import { HOUR, SECOND, type Clock } from '../../base/clock.ts'
import type { Budget } from '../../base/memory.ts'
import type { Config } from '../../base/config.ts'
import { jsonOf } from '../../base/json.ts'
import { RateLimit } from '../../base/rates.ts'
import { allowedNow } from './allowed.ts'
import { addClient, clientById, readRegistration, type OauthClient } from './clients.ts'
import { exchangeCode, exchangeRefresh, takeBack, type TokenResult } from './grants.ts'
import type { Store } from '../../store/database.ts'
import { rateKey } from '../../net/client-address.ts'
import { readText } from '../../views/html/plain-page.ts'

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

/** The named resource in its stored form, or undefined if it is not a resource of this server. */
export function resourceNamed(config: Pick<Config, 'http'>, given: string | undefined): string | undefined {
  const { mcp, root } = resourcesOf(config)
  if (given === undefined) return mcp
  const plain = given.replace(/\/$/, '')
  return plain === mcp ? mcp : plain === root ? root : undefined
}

/** An error in the JSON form of OAuth (RFC 6749 §5.2, RFC 7591 §3.2.2). */
class OauthError extends Error {
  readonly status: 400 | 401 | 413 | 429 | 503
  readonly error: string
  readonly headers: Record<string, string>

  constructor(error: string, description: string, status: OauthError['status'] = 400, headers = {}) {
    super(description)
    this.error = error
    this.status = status
    this.headers = headers
  }
}

/** Makes the OAuth endpoints for applications, and the metadata documents. */
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
    app.post(path, async (context) => {
      try {
        takeRate(rates, context, config)
        return await answer(context)
      } catch (thrown) {
        if (!(thrown instanceof OauthError)) throw thrown
        const body = JSON.stringify({ error: thrown.error, error_description: thrown.message })
        return context.body(body, thrown.status, { ...JSON_TYPE, ...thrown.headers })
      }
    })
    app.all(path, (context) =>
      context.text('This endpoint does not support the method. Use POST.\n', 405, { Allow: 'POST' }),
    )
  }
  publish(app, '/.well-known/oauth-authorization-server', () => serverMetadata(config))
  publish(app, '/.well-known/oauth-authorization-server/mcp', () => serverMetadata(config))
  publish(app, '/.well-known/oauth-protected-resource', () => resourceMetadata(config, resourcesOf(config).root))
  publish(app, '/.well-known/oauth-protected-resource/mcp', () => resourceMetadata(config, resourcesOf(config).mcp))
  return app
}

/** Throws 429 for a client with too many requests. */
function takeRate(rates: RateLimit, context: Context, config: Pick<Config, 'http'>): void {
  const { allowed, reset } = rates.take(rateKey(context, config.http))
  if (!allowed)
    throw new OauthError('temporarily_unavailable', `Too many requests. Try again in ${reset} s.`, 429, {
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
  app.all(path, (context) =>
    context.text('This endpoint does not support the method. Use GET.\n', 405, { Allow: 'GET, HEAD' }),
  )
}

/** The body of a request of this media type. Throws an OauthError with this code. */
async function readBody(deps: OauthDeps, context: Context, type: string, code: string): Promise<string> {
  if (context.req.header('content-type')?.split(';')[0]?.trim().toLowerCase() !== type)
    throw new OauthError(code, `The Content-Type is not supported. Send ${type}.`)
  const text = await readText(context, deps, MAX_BODY)
  if (text === undefined) throw new OauthError(code, 'The body is too large. Send less.', 413)
  return text
}

async function readForm(deps: OauthDeps, context: Context): Promise<URLSearchParams> {
  const form = new URLSearchParams(
    await readBody(deps, context, 'application/x-www-form-urlencoded', 'invalid_request'),
  )
  const names = [...form.keys()]
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated !== undefined)
    throw new OauthError('invalid_request', `"${repeated.slice(0, 50)}" occurs more than once. Send it once.`)
  return form
}

/** Registers a client (RFC 7591 §3). */
async function register(deps: OauthDeps, context: Context): Promise<Response> {
  const text = await readBody(deps, context, 'application/json', 'invalid_client_metadata')
  const body = jsonOf(text)
  if (body === undefined)
    throw new OauthError('invalid_client_metadata', 'The body is not valid JSON. Check its syntax.')
  const registration = readRegistration(body, allowedNow(deps.store, deps.config))
  if ('error' in registration) throw new OauthError(registration.error, registration.description)
  const client = await addClient(deps, registration)
  if (!client)
    throw new OauthError(
      'temporarily_unavailable',
      'Too many clients are registered. Ask the operator of this server.',
      503,
    )
  const registered = {
    client_id: client.id,
    client_id_issued_at: Math.floor(client.created_at / 1000),
    ...(client.name === '' ? {} : { client_name: client.name }),
    redirect_uris: registration.redirectUris,
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: SCOPE,
  }
  return context.body(JSON.stringify(registered), 201, JSON_TYPE)
}

/** Exchanges a code or a refresh token for tokens (OAuth 2.1 §3.2). */
async function issue(deps: OauthDeps, context: Context): Promise<Response> {
  const exchange = await redeem(deps, await readForm(deps, context))
  if ('error' in exchange) throw new OauthError(exchange.error, exchange.description)
  return context.body(JSON.stringify({ ...exchange, token_type: 'Bearer', scope: SCOPE }), 200, JSON_TYPE)
}

/** Revokes a token (RFC 7009). */
async function revoke(deps: OauthDeps, context: Context): Promise<Response> {
  const form = await readForm(deps, context)
  const client = clientOf(deps, form)
  if (!(await takeBack(deps, client, required(form, 'token'))))
    throw new OauthError('invalid_grant', 'The token was issued to another client. Use the client_id of that client.')
  return context.body(null, 200, { 'Cache-Control': 'no-store' })
}

function clientOf({ store }: OauthDeps, form: URLSearchParams): OauthClient {
  const client = clientById(store, form.get('client_id') ?? '')
  if (client) return client
  const description = 'The client is unknown. Register it, or start with an authorization request.'
  // RFC 9110 §15.5.2: a 401 must name a scheme.
  throw new OauthError('invalid_client', description, 401, { 'WWW-Authenticate': 'Bearer' })
}

/** A field of a form. An empty field is an absent one (OAuth 2.1 §3.2). */
const optional = (form: URLSearchParams, name: string): string | undefined => form.get(name) || undefined

function required(form: URLSearchParams, name: string): string {
  const value = optional(form, name)
  if (value === undefined) throw new OauthError('invalid_request', `"${name}" is missing. Add it.`)
  return value
}

async function redeem(deps: OauthDeps, form: URLSearchParams): Promise<TokenResult> {
  const grant = required(form, 'grant_type')
  if (grant !== 'authorization_code' && grant !== 'refresh_token')
    throw new OauthError('unsupported_grant_type', '"grant_type" must be authorization_code or refresh_token.')
  const client = clientOf(deps, form)
  const given = optional(form, 'resource')
  const resource = given === undefined ? undefined : resourceNamed(deps.config, given)
  if (given !== undefined && resource === undefined)
    throw new OauthError('invalid_target', '"resource" is unknown. Use a resource of this server, such as /mcp.')
  const scopes = (optional(form, 'scope') ?? SCOPE).split(' ').filter(Boolean)
  if (scopes.some((scope) => scope !== SCOPE))
    throw new OauthError('invalid_scope', `"scope" is not supported. Use ${SCOPE}.`)
  if (grant === 'refresh_token')
    return exchangeRefresh(deps, { client, refreshToken: required(form, 'refresh_token'), resource })
  const [code, verifier] = [required(form, 'code'), optional(form, 'code_verifier')]
  // RFC 7636 §4.1: 43 to 128 unreserved characters.
  if (verifier === undefined || !/^[A-Za-z0-9._~-]{43,128}$/.test(verifier))
    throw new OauthError(
      'invalid_grant',
      '"code_verifier" is missing or not valid. It must have 43 to 128 unreserved characters.',
    )
  return exchangeCode(deps, { client, code, verifier, redirectUri: optional(form, 'redirect_uri'), resource })
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
