// The appliance behind a request function that checks the requirements of the wire section in every answer: headers,
// media type, error form, pointers that exist in the request, links and meta of collections, and full linkage. It also
// validates against the public JSON:API schema, if the corpus is installed, and the OpenAPI document. A test that uses
// `ask` cannot forget these checks.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import ajvFormats from 'ajv-formats'
import { document, JSON_API, startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import type { TestOptions } from '../kit/appliance.ts'
import { Described } from './described.ts'

export const API = '/api/v1'
/** A well-formed id that does not exist. */
export const MISSING = '01900000-0000-7000-8000-000000000000'
export const CLEAN = JSON_API

export interface Ask {
  /** null: no Authorization header. Absent: the first user's token of all scopes. */
  token?: string | null
  headers?: Record<string, string>
  /** An object is sent as JSON, text and bytes unchanged. */
  body?: unknown
}

export interface Wire extends AsyncDisposable {
  postrider: TestAppliance
  /** Makes one request below /api/v1, and checks its answer. */
  ask(method: string, path: string, ask?: Ask): Promise<Answer>
  /** Adds emails of the first user (or `token`'s), all at one time. Resolves with their ids in order of creation. */
  mails(count: number, more?: (index: number) => Record<string, unknown>, token?: string): Promise<string[]>
}

export const mailDocument = (more: Record<string, unknown> = {}) =>
  document('outbound-emails', {
    from: 'ann@here.test',
    to: 'bob@nowhere.test',
    subject: 'Hello',
    html: '<p>Hello</p>',
    ...more,
  })

export async function startWire(options: TestOptions = {}): Promise<Wire> {
  const postrider = await startTestAppliance(options)
  const base = postrider.config.http.public_url + API
  const ask: Wire['ask'] = async (method, path, { token = postrider.token, headers = {}, body } = {}) => {
    const asIs = (value: unknown): value is string | Uint8Array<ArrayBuffer> | ReadableStream =>
      typeof value === 'string' || value instanceof Uint8Array || value instanceof ReadableStream
    const answer = await postrider.raw(API + path, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': JSON_API }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: asIs(body) ? body : JSON.stringify(body) }),
      ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
    })
    judge(answer, { method, path, body, base })
    return answer
  }
  return {
    postrider,
    ask,
    async mails(count, more = () => ({}), token = postrider.token) {
      const answers = await Promise.all(
        Array.from({ length: count }, (_, index) =>
          ask('POST', '/outbound-emails', { token, body: mailDocument(more(index)) }),
        ),
      )
      return answers.map(({ status, body }) => {
        assert.equal(status, 201, JSON.stringify(body))
        return body.data.id as string
      })
    },
    [Symbol.asyncDispose]: () => postrider.stop(),
  }
}

// ---- The public schema of JSON:API documents

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? join(import.meta.dirname, '../../../shared/corpora')
export const SCHEMAS = join(CORPORA, 'jsonapi-schema/_schemas/1.0')
/** False, or the line that a skipped test shows. */
export const withoutCorpus = existsSync(SCHEMAS) ? false : `no JSON:API schema at ${SCHEMAS}; set POSTRIDER_CORPORA`

export const newAjv = (): Ajv2020 => {
  const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: true })
  ajvFormats.default(ajv)
  return ajv
}

export const jsonApiSchema: ValidateFunction | undefined = withoutCorpus
  ? undefined
  : newAjv().compile(JSON.parse(readFileSync(join(SCHEMAS, 'schema.json'), 'utf8')))

// ---- Checks of every answer

/** All codes of D7. A code that is not among them is a new one without a decision. */
const CODES = new Set(
  `invalid_document invalid_query unsupported_include unsupported_fields unsupported_filter unsupported_sort
  cursor_sort_mismatch unknown_page_parameter unauthenticated token_expired insufficient_scope subscription_inactive
  client_id_forbidden relationship_update_forbidden not_found not_acceptable method_not_allowed type_mismatch id_mismatch
  idempotency_conflict payload_too_large unsupported_media_type required invalid too_long immutable already_exists
  recipient_suppressed domain_not_active tracking_disabled address_outside_domain reserved_header forbidden_attachment
  attachment_unavailable message_too_large transition_not_allowed not_editable permanent_suppression ambiguous_address
  plan_required volume_exceeded rate_limited teardown_failed internal`.split(/\s+/),
)
/** A stack, SQL or a path of the machine. */
const LEAK = /node_modules|node:internal|\n\s+at |SQLITE_|SqliteError|\bselect .* from |\/src\/|\.[jt]s:\d|TypeError/i

export interface Sent {
  method: string
  path: string
  body?: unknown
  base: string
}

export const described = new Described()

const DOWNLOADS =
  /^\/(?:(?:outbound-emails|aggregate-reports)\/[^/]+\/raw|inbound-emails\/[^/]+\/(?:raw|attachments\/[^/]+)|list-imports\/[^/]+\/rejected)$/

export function judge(answer: Answer, sent: Sent): void {
  const { body, headers, status } = answer
  const at = `${sent.method} ${sent.path.slice(0, 300)} -> ${status} ${JSON.stringify(body)?.slice(0, 500)}`
  assert.equal(headers.get('api-version'), '1', `api-version: ${at}`)
  described.judge(sent, answer)
  assert.match(headers.get('vary') ?? '', /(^|,\s*)accept(,|$)/i, `Vary: ${at}`)
  if (status === 204) {
    assert.equal(body, undefined, `204 has no body: ${at}`)
    assert.equal(headers.get('content-type'), null, `204 has no Content-Type: ${at}`)
    return
  }
  // Downloads return bytes. Their errors are documents, as everywhere.
  if (status === 200 && DOWNLOADS.test(sent.path))
    return assert.equal(headers.get('x-content-type-options'), 'nosniff', `never run: ${at}`)
  assert.equal(headers.get('content-type'), JSON_API, `media type: ${at}`)
  if (sent.method === 'HEAD') return assert.equal(body, undefined, `HEAD has no body: ${at}`)
  if (jsonApiSchema && !jsonApiSchema(body))
    assert.fail(`not a JSON:API document: ${JSON.stringify(jsonApiSchema.errors)}\n${at}`)
  const query = new URL(`http://x${sent.path}`).searchParams
  if (status >= 400) return judgeErrors(status, headers, body, sent, query, at)
  assert.ok('data' in body && !('errors' in body), at)
  const primary = Array.isArray(body.data) ? body.data : [body.data]
  for (const resource of [...primary, ...(body.included ?? [])]) {
    assert.equal(typeof resource.id, 'string', at)
    for (const [name, value] of Object.entries(resource.attributes ?? {})) {
      assert.match(name, /^[a-zA-Z0-9](?:[-\w]*[a-zA-Z0-9])?$/, at)
      if (name.endsWith('_at') && value !== null)
        assert.match(value as string, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, `${name} (D10): ${at}`)
    }
  }
  assert.equal('included' in body, query.has('include'), `included if and only if include was sent: ${at}`)
  if (body.included) judgeLinkage(primary, body.included, query, at)
  if (Array.isArray(body.data)) judgeCollection(body, sent, query, at)
  if (status === 201) assert.equal(headers.get('location'), body.data.links.self, `Location (D10): ${at}`)
}

function judgeErrors(
  status: number,
  headers: Headers,
  body: Answer['body'],
  sent: Sent,
  query: URLSearchParams,
  at: string,
): void {
  assert.deepEqual(Object.keys(body), ['errors'], at)
  assert.ok(body.errors.length > 0, at)
  assert.equal(new Set(body.errors.map(({ id }: { id: string }) => id)).size, body.errors.length, `ids differ: ${at}`)
  for (const error of body.errors) {
    for (const member of ['id', 'status', 'code', 'title', 'detail'])
      assert.ok(typeof error[member] === 'string' && error[member] !== '', `${member}: ${at}`)
    assert.equal(error.status, String(status), at)
    assert.ok(CODES.has(error.code), `${error.code} is not a code of D7: ${at}`)
    assert.doesNotMatch(`${error.title} ${error.detail}`, LEAK, at)
    if (error.source === undefined) continue
    assert.equal(Object.keys(error.source).length, 1, `one kind of source: ${at}`)
    const { pointer, parameter } = error.source
    if (parameter !== undefined) assert.ok(query.has(parameter), `the parameter was sent (D6): ${at}`)
    if (pointer !== undefined) assert.ok(exists(sent.body, pointer), `${pointer} exists in the request (D6): ${at}`)
  }
  if (status === 401) assert.match(headers.get('www-authenticate') ?? '', /^Bearer( |$)/, at)
  if (status === 405) assert.ok(headers.get('allow'), at)
  if (status === 429) assert.match(headers.get('retry-after') ?? '', /^[1-9]\d*$/, at)
}

/** Whether a JSON pointer leads to a value in the body that was sent. A body that is not JSON has only its root. */
function exists(body: unknown, pointer: string): boolean {
  if (pointer === '') return true
  let value: unknown = body
  if (typeof body === 'string' || body instanceof Uint8Array)
    try {
      value = JSON.parse(Buffer.from(body as string).toString())
    } catch {
      return false
    }
  for (const part of pointer.slice(1).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return false
    value = (value as Record<string, unknown>)[key]
  }
  return true
}

interface Linked {
  type: string
  id: string
  relationships?: Record<string, { data?: Linked | null }>
}

/** Each included resource appears once, is not primary data, and is reached by linkage. */
function judgeLinkage(primary: Linked[], included: Linked[], query: URLSearchParams, at: string): void {
  const name = ({ type, id }: Linked): string => `${type} ${id}`
  const all = [...primary, ...included].map(name)
  assert.equal(new Set(all).size, all.length, `each resource once: ${at}`)
  if ([...query.keys()].some((key) => key.startsWith('fields'))) return
  const byName = new Map(included.map((each) => [name(each), each]))
  const reached = new Set<string>()
  const walk = (resource: Linked): void => {
    for (const { data } of Object.values(resource.relationships ?? {}))
      if (data && !reached.has(name(data))) {
        reached.add(name(data))
        const next = byName.get(name(data))
        if (next) walk(next)
      }
  }
  primary.forEach(walk)
  for (const each of byName.keys()) assert.ok(reached.has(each), `${each} is reached by linkage: ${at}`)
}

/** "Cursor pagination" rules 4 and 5. */
function judgeCollection(body: Answer['body'], sent: Sent, query: URLSearchParams, at: string): void {
  const { links, meta } = body
  for (const member of ['first', 'last', 'prev', 'next']) assert.ok(member in links, `links.${member}: ${at}`)
  assert.equal(links.last, null, at)
  assert.equal(typeof meta.has_more, 'boolean', at)
  assert.ok(Number.isInteger(meta.per_page) && body.data.length <= meta.per_page, at)
  assert.equal(meta.has_more, links.next !== null, `has_more is whether there is a next: ${at}`)
  const kept = (parameters: URLSearchParams): string[] =>
    [...parameters]
      .filter(([key]) => !key.startsWith('page['))
      .map(([key, value]) => `${key}=${value}`)
      .toSorted()
  for (const [link, cursor] of [
    [links.first, undefined],
    [links.prev, meta.prev_cursor],
    [links.next, meta.next_cursor],
  ] as [string | null, string | null | undefined][]) {
    assert.equal(link === null, cursor === null, `link and cursor agree: ${at}`)
    if (link === null) continue
    const url = new URL(link)
    assert.equal(url.origin + url.pathname, sent.base + sent.path.split('?')[0], at)
    assert.deepEqual(kept(url.searchParams), kept(query), `links keep the query: ${at}`)
    assert.deepEqual(url.searchParams.getAll('page[size]'), [String(meta.per_page)], at)
    assert.deepEqual(url.searchParams.getAll('page[cursor]'), cursor === undefined ? [] : [cursor], at)
    assert.ok(link.includes('page%5Bsize%5D=') && !/[[\]]/.test(link), `URL-encoded: ${at}`)
  }
}

/** The path below /api/v1 of a link. */
export const below = (link: string): string => {
  const { pathname, search } = new URL(link)
  return pathname.slice(API.length) + search
}

/** The results of a table of cases, to be compared with the expected ones at once. */
export async function outcomes<Case>(
  cases: readonly Case[],
  name: (each: Case) => string,
  run: (each: Case) => Promise<unknown>,
): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {}
  for (const each of cases) found[name(each)] = await run(each)
  return found
}

/** Compares a table's outcomes, and shows only the cases that differ. */
export function sameOutcomes(
  found: Record<string, unknown>,
  expected: Record<string, unknown>,
  what = 'outcomes',
): void {
  assert.deepEqual(Object.keys(found).toSorted(), Object.keys(expected).toSorted(), what)
  const differ = Object.keys(expected).filter((name) => !isDeepStrictEqual(found[name], expected[name]))
  const only = (table: Record<string, unknown>) => Object.fromEntries(differ.map((name) => [name, table[name]]))
  assert.deepEqual(only(found), only(expected), what)
}

export const codes = ({ body }: Answer): string[] => (body.errors as { code: string }[]).map(({ code }) => code)
export const pointers = ({ body }: Answer): string[] =>
  (body.errors as { source: { pointer: string } }[]).map(({ source }) => source.pointer)
