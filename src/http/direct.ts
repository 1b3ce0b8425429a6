// Requests of the API that need nothing of the application but their route, on Node's own messages: POST to an address
// without parameters, of usual form. Hono's layers and the objects Request, Response and Headers cost as much as the
// checks. The checks, the handlers and their order are those of every route (jsonapi/routes.ts); whatever is unusual
// is left to the application.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Config } from '../base/config.ts'
import { codeOf } from '../base/errors.ts'
import { answerError, type ErrorDeps } from '../jsonapi/errors.ts'
import type { ApiAnswer, ApiCall } from '../jsonapi/exchange.ts'
import type { ApiRoute } from '../jsonapi/routes.ts'
import { waitsForContinue } from './connection.ts'
import { countRequest } from './metrics.ts'
import type { WrongTokens } from './wrong-tokens.ts'

/** Takes a request, and answers it later; false: it is not of the usual form, and nothing was read of it. */
export type Direct = (incoming: IncomingMessage, outgoing: ServerResponse) => boolean

export interface DirectDeps extends ErrorDeps {
  config: Pick<Config, 'http'>
}

export interface DirectParts {
  /** The path below which the routes are. */
  path: string
  routes: readonly ApiRoute[]
  wrongTokens: WrongTokens
}

/** Headers of every answer of the API. */
export const API_HEADERS = { 'api-version': '1', Vary: 'Accept' }
/** HTTPS only, for a year (RFC 6797). */
export const STRICT = ['Strict-Transport-Security', 'max-age=31536000'] as const

/** The most octets of a body that is taken here: what a refused request has not read yet is read and dropped. */
const MOST = 1024 * 1024
/** Of several fields, Node gives the first and the application all: then it is asked. */
const ONCE = ['host', 'authorization', 'content-type']
/** A Host header that names a host and nothing else. */
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

/** Whether a request has what every request has, once, and a body whose small size it tells. */
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
  const told: Record<string, string> = { ...API_HEADERS }
  const asked: ApiCall = { path, params: {}, query: [], header, env, incoming }
  let made: Pick<ApiAnswer, 'status' | 'headers' | 'body'>
  try {
    made = await route.answer(asked, told)
  } catch (thrown) {
    // The client disconnected during the request: not an error of this program.
    made = codeOf(thrown) === 'ECONNRESET' ? { status: 400, headers: {}, body: null } : answerError(thrown, deps)
  }
  if (made.status === 401) {
    const slowly = wrongTokens.judge({ env, req: { header } }, path)
    if (slowly) made = { status: 429, ...slowly }
  }
  if (isStrict(incoming, deps.config)) told[STRICT[0]] = STRICT[1]
  // A client that was not asked for the body does not send it: what it sends next is a request, and not read as one.
  if (waitsForContinue(incoming)) told['Connection'] = 'close'
  const body = made.body as string | null
  outgoing.writeHead(made.status, { ...told, ...made.headers, 'Content-Length': Buffer.byteLength(body ?? '') })
  outgoing.end(body ?? '')
  if (!incoming.readableEnded) incoming.resume()
  countRequest('POST', path, made.status, deps.clock.now() - began)
}

/** How often a header was sent. */
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
 * Whether the answer says that this name is reached by HTTPS only: over TLS, and for the public name. Other names of
 * this machine may be in use by another program that speaks plain HTTP.
 */
export function isStrict({ headers, socket }: IncomingMessage, { http }: Pick<Config, 'http'>): boolean {
  if (!('encrypted' in socket) || socket.encrypted !== true) return false
  if (known.url !== http.public_url) {
    const { host, protocol } = new URL(http.public_url)
    known = { url: http.public_url, host, isHttps: protocol === 'https:' }
  }
  return known.isHttps && headers.host === known.host
}
