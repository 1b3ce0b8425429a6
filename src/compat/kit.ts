// What the compatibility APIs share. Each translates a request into one or a few requests to the API inside the
// process, with the rights of the token's owner. Whether an email may be sent, to whom and how much is decided there. A
// compatibility API itself only refuses what it cannot put into a request of the API.
import { setImmediate as turn } from 'node:timers/promises'
import { Hono, type Context } from 'hono'
import { DAY, SECOND, startOfDay } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, Refusal, type Code } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import { ownerOf, type Budget } from '../base/memory.ts'
import type { RateLimit } from '../base/rates.ts'
import { MAIL_BODY, USUAL_BODY, type BodyLimits } from '../jsonapi/body.ts'
import { answerError, errorOf, type ErrorDeps } from '../jsonapi/errors.ts'
import type { Inside } from '../jsonapi/in-process-api.ts'
import { JSON_API } from '../jsonapi/media.ts'
import type { Caller } from '../jsonapi/resource.ts'
import type { Gate } from '../jsonapi/routes.ts'
import { endRepeats } from '../mail/batches.ts'
import type { Store } from '../store/database.ts'
import { createGate } from '../users/gate.ts'
import type { TokenRequests } from '../users/requests.ts'
import { inTime, requestArrived, whenRead } from './answer-time.ts'
import { WRONG_TOKEN, type WrongToken } from '../users/wrong-tokens.ts'

export interface CompatDeps extends ErrorDeps {
  store: Store
  config: Pick<Config, 'http' | 'compatibility'>
  rates: RateLimit
  bodies: Budget
  requests: Pick<TokenRequests, 'note'>
}

/** One error of the API. `field`: the attribute or parameter that it is about, such as "attachments/0/content". */
export interface CompatProblem {
  code: Code
  detail: string
  field: string | undefined
}

/** An error of the API, or of the translation. */
export class CompatError extends Error {
  readonly status: number
  readonly problems: readonly CompatProblem[]
  readonly headers: Record<string, string>

  constructor(status: number, problems: readonly CompatProblem[], headers: Record<string, string> = {}) {
    super(problems.map(({ detail }) => detail).join(' '))
    this.status = status
    this.problems = problems
    this.headers = headers
  }

  get code(): Code {
    return this.problems[0]?.code ?? 'internal'
  }
}

/** An error about a field that the translation cannot put into a request of the API. Not thrown. */
export const invalid = (field: string, detail: string, code: 'invalid' | 'required' = 'invalid'): CompatError =>
  new CompatError(422, [{ code, detail, field }])

/** The parts of a JSON:API document that translations read. */
export interface CompatDocument {
  data: CompatResource | CompatResource[]
  meta?: { next_cursor?: string | null }
}
export interface CompatResource {
  type: string
  id: string
  attributes: Record<string, unknown>
}

/** The answer of the API to a request inside the process. */
export interface CompatAsked {
  document: CompatDocument
  headers: Headers
}

/** Makes a request to the API inside the process. Throws a CompatError if the answer is an error. */
export type CompatAsk = (method: string, path: string, data?: Partial<CompatResource>) => Promise<CompatAsked>

/** Creates a resource by the API inside the process. Throws a Refusal. */
export type CompatCreate = (
  type: string,
  attributes: CompatAttributes,
) => Promise<{ created: CompatResource; headers: Record<string, string> }>

/** A request of an authenticated client. */
export interface CompatCall {
  context: Context
  ask: CompatAsk
  create: CompatCreate
  /**
   * The sending domains of the account with these names, for paths that name one. Clients of these APIs have no scope
   * for domains.
   */
  askForDomains: (names: readonly string[]) => Promise<CompatResource[]>
  /** The key of the account. */
  owner: number
  params: Record<string, string>
  limits: BodyLimits
  header: (name: string) => string | undefined
}

export interface CompatAnswer {
  status?: number
  body: unknown
  /** The batch that it reports. An equal request is a repeat of the batch until the client has read this answer. */
  batch?: string
  headers?: Record<string, string>
}

export interface CompatEndpoint {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** A path of Hono below the base of this compatibility API. */
  path: string
  about: string
  scope: string
  /** It accepts emails, and so large bodies. */
  mail?: true
  run: (call: CompatCall) => Promise<CompatAnswer>
}

export interface CompatApi {
  name: keyof Config['compatibility']
  base: string
  /** All paths that belong to it, as patterns of Hono. */
  all: readonly string[]
  endpoints: readonly CompatEndpoint[]
  /** Returns the Authorization header of the API for that of the client, or undefined if it has no key. */
  authorization: (header: string | undefined) => string | undefined
  /** The sentence for a request without a key. */
  missingKey: string
  answerError: (error: CompatError) => { status: number; body: unknown; headers?: Record<string, string> }
  /** Returns what offers in Postrider what a path of the original API does, or undefined. */
  instead: (path: string) => string | undefined
}

/** Makes the routes of a compatibility API. */
export function createCompat(deps: CompatDeps, inside: Inside, api: CompatApi): Hono {
  const app = new Hono()
  const gate = createGate(deps, [])
  const isOn = (): boolean => deps.config.compatibility[api.name]
  const whole = (context: Context, next: () => Promise<void>, endpoint?: CompatEndpoint, allow?: string) =>
    isOn() ? perform({ deps, inside, api, gate }, context, endpoint, allow) : next()
  // Some clients need a base URL with a slash at its end, and some without.
  const paths = (path: string): string[] => (api.base === '' ? [path] : [`${api.base}${path}`, `${api.base}/${path}`])
  for (const endpoint of api.endpoints)
    app.on(endpoint.method, paths(endpoint.path), (context, next) => whole(context, next, endpoint))
  for (const [path, all] of Map.groupBy(api.endpoints, (endpoint) => endpoint.path)) {
    const allow = all.map(({ method }) => method).join(', ')
    app.on(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'], paths(path), (context, next) =>
      whole(context, next, undefined, allow),
    )
  }
  for (const path of api.all) app.all(path, (context, next) => whole(context, next))
  return app
}

interface CompatServing {
  deps: CompatDeps
  inside: Inside
  api: CompatApi
  gate: Gate
}

async function perform(
  serving: CompatServing,
  context: Context,
  endpoint: CompatEndpoint | undefined,
  allow: string | undefined,
): Promise<Response> {
  const { api, deps, gate } = serving
  const header = (name: string): string | undefined => context.req.header(name)
  const headers: Record<string, string> = {}
  let caller: Caller | undefined
  context.set(WRONG_TOKEN, false satisfies WrongToken)
  requestArrived(context)
  const answered = (status: number, error?: Code): void => {
    const { method, path } = context.req
    if (caller) gate.note?.(caller, { method, path, query: [], status, ...(error && { error }) })
  }
  try {
    if (header('origin') !== undefined)
      throw new CompatError(403, [{ code: 'insufficient_scope', detail: BROWSER, field: 'Origin' }])
    caller = authenticated(serving, context)
    const rate = gate.admit(caller)
    Object.assign(headers, rate.headers)
    if (rate.refusal) throw rate.refusal
    if (!endpoint) throw unknown(api, context.req.path, allow)
    const call = callOf(serving, { context, caller, endpoint, header })
    const { batch, body, status = 200, headers: own } = await endpoint.run(call)
    answered(status)
    if (batch !== undefined) {
      // The server sees now if the client left while the request was processed.
      await turn()
      whenRead(
        deps.clock,
        context,
        () =>
          void deps.store
            .write((tx) => endRepeats(tx, batch))
            .catch((thrown: unknown) => deps.log.fault('compat', thrown)),
      )
    }
    return Response.json(body, { status, headers: { ...headers, ...own } })
  } catch (thrown) {
    // The client disconnected.
    if (codeOf(thrown) === 'ECONNRESET') throw thrown
    const error = thrown instanceof CompatError ? thrown : errorOfRefusal(deps, thrown)
    answered(error.status, error.code)
    const { body, status, headers: own } = api.answerError(error)
    return Response.json(body, {
      status,
      headers: { ...headers, ...untilReset(deps, error), ...error.headers, ...own },
    })
  }
}

/** Daily and monthly limits can only reset at the end of a UTC day. */
function untilReset({ clock }: ErrorDeps, { code }: CompatError): Record<string, string> {
  if (code !== 'volume_exceeded') return {}
  const now = clock.now()
  return { 'Retry-After': String(Math.ceil((startOfDay(now) + DAY - now) / SECOND)) }
}

const BROWSER =
  'Requests from web pages are not accepted, because the page would contain the key. Send the request from your server.'

const problem = (code: Code, detail: string): CompatProblem => ({ code, detail, field: undefined })

/** Finds the caller. A wrong key has the field "Authorization", and is counted even if the answer is not 401. */
function authenticated({ api, deps, gate }: CompatServing, context: Context): Caller {
  const authorization = api.authorization(context.req.header('authorization'))
  if (authorization === undefined) throw new CompatError(401, [problem('unauthenticated', api.missingKey)])
  const header = (name: string): string | undefined =>
    name === 'authorization' ? authorization : context.req.header(name)
  try {
    return { ...gate.authenticate({ header, env: context.env }), compat: true }
  } catch (thrown) {
    const { code, message, status } = errorOfRefusal(deps, thrown)
    const wrong: WrongToken = (detail) => api.answerError(new CompatError(429, [problem('rate_limited', detail)])).body
    context.set(WRONG_TOKEN, wrong)
    throw new CompatError(status, [{ code, detail: message, field: 'Authorization' }])
  }
}

/** The error for a path that is not offered, or for another method of one that is. */
function unknown(api: CompatApi, path: string, allow: string | undefined): CompatError {
  if (allow !== undefined)
    return new CompatError(
      405,
      [problem('method_not_allowed', `This endpoint does not support the method. Use ${allow}.`)],
      { Allow: allow },
    )
  const instead = api.instead(path.slice(api.base.length).replace(/^\/+/, '/'))
  return new CompatError(404, [
    problem('not_found', instead ? `Postrider does not offer this endpoint. ${instead}` : 'No such endpoint exists.'),
  ])
}

function callOf(
  { deps, inside }: CompatServing,
  {
    caller,
    context,
    endpoint,
    header,
  }: { context: Context; caller: Caller; endpoint: CompatEndpoint; header: CompatCall['header'] },
): CompatCall {
  const { incoming } = (context.env ?? {}) as Pick<BodyLimits, 'incoming'>
  return {
    context,
    ask: askAs(inside, caller),
    create: async (type, attributes) => {
      const { body, headers } = await inTime(deps.clock, (begin) =>
        inside.create({ ...caller, begin }, `/${type}`, { type, attributes }),
      )
      return { created: oneOf(JSON.parse(body as string) as CompatDocument), headers: repeatedIn(headers) }
    },
    askForDomains: (names) =>
      allOf(
        askAs(inside, { ...caller, scopes: new Set<string>(['domains:read']) }),
        `/domains?filter[name]=${encodeURIComponent(names.join(','))}`,
      ),
    owner: caller.userKey,
    params: context.req.param() as Record<string, string>,
    header,
    limits: {
      most: endpoint.mail ? MAIL_BODY : USUAL_BODY,
      budget: deps.bodies,
      owner: ownerOf(caller.userKey),
      incoming,
    },
  }
}

const askAs =
  (inside: Inside, caller: Caller): CompatAsk =>
  async (method, path, data) => {
    const response = await inside(
      caller,
      new Request(`http://inside${path}`, {
        method,
        ...(data && { headers: { 'Content-Type': JSON_API }, body: JSON.stringify({ data }) }),
      }),
    )
    // A deletion has an empty answer.
    const text = await response.text()
    const document = (text === '' ? { data: [] } : JSON.parse(text)) as CompatDocument & { errors?: CompatApiError[] }
    if (response.status < 400) return { document, headers: response.headers }
    throw new CompatError(response.status, problemsIn(document.errors), passedOn(response.headers))
  }

/** The header of the answer to a repeated request. */
const repeatedIn = (headers: Record<string, string>): Record<string, string> =>
  headers['Idempotent-Replayed'] === undefined ? {} : { 'Idempotent-Replayed': 'true' }

interface CompatApiError {
  code: Code
  detail: string
  source?: { pointer?: string; parameter?: string }
}

const problemsIn = (errors: readonly CompatApiError[] = []): CompatProblem[] =>
  errors.map(({ code, detail, source }) => ({
    code,
    detail,
    field: source?.pointer?.replace(/^\/data\/attributes\/?/, '') || source?.parameter,
  }))

const passedOn = (headers: Headers): Record<string, string> => {
  const after = headers.get('retry-after')
  return after === null ? {} : { 'Retry-After': after }
}

function errorOfRefusal(deps: ErrorDeps, thrown: unknown): CompatError {
  const { body, headers } = answerError(thrown, deps)
  const { status } = errorOf(thrown)
  const { errors } = JSON.parse(body) as { errors: CompatApiError[] }
  const { 'Content-Type': _type, ...others } = headers
  return new CompatError(status, problemsIn(errors), thrown instanceof Refusal ? others : {})
}

/** The only resource of a document. */
export function oneOf({ data }: CompatDocument): CompatResource {
  if (Array.isArray(data)) throw new TypeError('The document has several resources.')
  return data
}

/** Follows the pages of a list of the API up to `most` resources. */
export async function allOf(ask: CompatAsk, path: string, most = 1000): Promise<CompatResource[]> {
  const found: CompatResource[] = []
  let cursor: string | null | undefined
  do {
    const at = cursor ? `${path}${path.includes('?') ? '&' : '?'}page[cursor]=${encodeURIComponent(cursor)}` : path
    const { document }: CompatAsked = await ask('GET', at)
    found.push(...[document.data].flat())
    cursor = document.meta?.next_cursor
  } while (cursor && found.length < most)
  return found
}

// Fields. A table for each endpoint names every field with its fate, and documentation follows from it.

/** The attributes of a request of the API, as a translation writes them. */
export type CompatAttributes = Record<string, unknown>

export interface CompatField {
  /** Its meaning, for the documentation. */
  about: string
  required?: true
  /** Writes the value into the request. Throws a CompatError if that is impossible. Absent if the field is ignored. */
  take?: (value: unknown, to: CompatAttributes, whole: Readonly<Record<string, unknown>>) => void
}

export type CompatFields = Readonly<Record<string, CompatField>>

/** A field whose value the API accepts as it is, as this attribute. */
export const passes = (attribute: string, about: string): CompatField => ({
  about,
  take: (value, to) => void (to[attribute] = value),
})

/** A field that is refused unless it is absent, because ignoring it would change who receives the email, or how. */
export const refused = (field: string, why: string): CompatField => ({
  about: `Refused: ${why}`,
  take: () => {
    throw invalid(field, `"${field}" is not supported: ${why}`)
  },
})

const MOST_IGNORED = 1000

/**
 * Translates fields into the attributes of a request of the API. Null means absent. Adds the names of ignored fields to
 * `ignored`. Throws a CompatError.
 */
export function translated(
  fields: CompatFields,
  given: Readonly<Record<string, unknown>>,
  ignored: Set<string>,
): CompatAttributes {
  const to: CompatAttributes = {}
  for (const [name, { required }] of Object.entries(fields))
    if (required && (given[name] ?? null) === null) throw invalid(name, `"${name}" is required.`, 'required')
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined) continue
    const take = Object.hasOwn(fields, name) ? fields[name]?.take : undefined
    if (take) take(value, to, given)
    else ignored.add(name)
  }
  return to
}

/** The header that names ignored fields: no field is ignored in silence. */
export function ignoredHeader(ignored: ReadonlySet<string>): Record<string, string> {
  const names = [...ignored].map((name) => name.replace(/[^\w:.-]/g, '_')).join(', ')
  return names === '' ? {} : { 'Postrider-Ignored': names.slice(0, MOST_IGNORED) }
}

/** Reads JSON that must be an object. Throws a CompatError. */
export function objectIn(value: unknown, what: string): Record<string, unknown> {
  if (!isObject(value)) throw new CompatError(400, [problem('invalid_document', `${what} must be a JSON object.`)])
  return value
}
