// A fast path for POST requests to API routes without parameters, on Node's own messages. Hono's layers and the objects
// Request, Response and Headers cost as much as the checks. The checks, the handlers and their order are those of every
// route (jsonapi/routes.ts). The application handles all other requests.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Config } from '../base/config.ts'
import { codeOf } from '../base/errors.ts'
import { answerError, type ErrorDeps } from '../jsonapi/errors.ts'
import type { ApiAnswer, ApiCall } from '../jsonapi/exchange.ts'
import type { ApiRoute } from '../jsonapi/routes.ts'
import { waitsForContinue } from './connection.ts'
import { countRequest } from './metrics.ts'
import type { WrongTokens } from '../users/wrong-tokens.ts'

/** Accepts a request and answers it later. Returns false, and has read no body, if the application has to handle it. */
export type Direct = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean

export interface DirectDeps extends ErrorDeps {
  config: Pick<Config, 'http'>
}

export interface DirectParts {
  /** The path prefix of the routes. */
  path: string
  routes: readonly ApiRoute[]
  wrongTokens: WrongTokens
}

/** Headers of every answer of the API. */
export const API_HEADERS = { 'api-version': '1', Vary: 'Accept' }
/** HTTPS only, for a year (RFC 6797). */
export const STRICT = ['Strict-Transport-Security', 'max-age=31536000'] as const

/** The maximum size of a body here, in bytes. After a refusal, the rest of the body is read and discarded. */
const MOST = 1024 * 1024
/**
 * If one of these is sent several times, Node returns the first and the application all, so the application handles it.
 */
const ONCE = ['host', 'authorization', 'content-type']
/** A Host header with a host name and an optional port. */
const HOST = /^[a-z0-9._-]+(?::\d{1,5})?$/

export function createDirect(deps: DirectDeps, { path, routes, wrongTokens }: DirectParts): Direct {
  const taken = new Map(
    routes.flatMap((route) =>
      route.method === 'POST' && !route.path.includes(':') ? [[path + route.path, route] as const] : [],
    ),
  )
  return (incoming, outgoing) => {
    const route = incoming.method === 'POST' ? taken.get(incoming.url ?? '') : undefined
    if (!route || !isUsual(incoming)) return false
    void answer(deps, { incoming, outgoing, route, wrongTokens })
    return true
  }
}

/** Whether a request has each of the required headers once, and announces a small body. */
function isUsual(incoming: IncomingMessage): boolean {
  const { headers } = incoming
  if (!HOST.test(headers.host ?? '') || !(Number(headers['content-length']) <= MOST)) return false
  return ONCE.every((name) => timesSent(incoming, name) === 1)
}

interface Answering {
  incoming: IncomingMessage
  outgoing: ServerResponse
  route: ApiRoute
  wrongTokens: WrongTokens
}

async function answer(deps: DirectDeps, { incoming, outgoing, route, wrongTokens }: Answering): Promise<void> {
  const began = deps.clock.now()
  const path = incoming.url ?? ''
  const header = (name: string): string | undefined => incoming.headers[name] as string | undefined
  const env = { incoming }
  const commonHeaders: Record<string, string> = { ...API_HEADERS }
  const asked: ApiCall = { path, params: {}, query: [], header, env, incoming }
  let made: Pick<ApiAnswer, 'status' | 'headers' | 'body'>
  try {
    made = await route.answer(asked, commonHeaders)
  } catch (thrown) {
    // The client disconnected during the request, which is not an internal error.
    made = codeOf(thrown) === 'ECONNRESET' ? { status: 400, headers: {}, body: null } : answerError(thrown, deps)
  }
  if (made.status === 401) {
    const slowly = wrongTokens.judge({ env, req: { header } }, path)
    if (slowly) made = { status: 429, ...slowly }
  }
  if (isStrict(incoming, deps.config)) commonHeaders[STRICT[0]] = STRICT[1]
  // A client that waits for 100 Continue does not send the body. Its next bytes are a request, but Node would read them
  // as the body.
  if (waitsForContinue(incoming)) commonHeaders['Connection'] = 'close'
  const body = made.body as string | null
  outgoing.writeHead(made.status, {
    ...commonHeaders,
    ...made.headers,
    'Content-Length': Buffer.byteLength(body ?? ''),
  })
  outgoing.end(body ?? '')
  if (!incoming.readableEnded) incoming.resume()
  countRequest('POST', path, made.status, deps.clock.now() - began)
}

export function timesSent({ rawHeaders }: IncomingMessage, name: string): number {
  let times = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const each = rawHeaders[at]
    if (each?.length === name.length && each.toLowerCase() === name) times++
  }
  return times
}

let known = { url: '', host: '', isHttps: false }

/**
 * Whether the answer contains Strict-Transport-Security: over TLS, and for the public name. Other names of this machine
 * may be in use by another application that speaks plain HTTP.
 */
export function isStrict({ headers, socket }: IncomingMessage, { http }: Pick<Config, 'http'>): boolean {
  if (!('encrypted' in socket) || socket.encrypted !== true) return false
  if (known.url !== http.public_url) {
    const { host, protocol } = new URL(http.public_url)
    known = { url: http.public_url, host, isHttps: protocol === 'https:' }
  }
  return known.isHttps && headers.host === known.host
}
