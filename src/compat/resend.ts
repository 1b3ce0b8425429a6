// The compatibility API for Resend's clients: sends emails, changes and cancels scheduled ones, and shows emails and
// domains (https://resend.com/docs/api-reference). Its SDKs put these paths behind their base URL.
import { inOwnTurn } from '../base/semaphore.ts'
import { JsonGuard } from '../jsonapi/json-guard.ts'
import { withBody } from '../jsonapi/body.ts'
import {
  allOf,
  CompatError,
  ignoredHeader,
  invalid,
  objectIn,
  oneOf,
  passes,
  refused,
  translated,
  type CompatAttributes,
  type CompatAnswer,
  type CompatApi,
  type CompatCall,
  type CompatField,
  type CompatFields,
  type CompatProblem,
  type CompatEndpoint,
} from './kit.ts'
import { domainOf, emailOf } from './resend-answers.ts'

const MOST_IN_BATCH = 100
const MOST_OF_A_LIST = 100
const USUAL_LIST = 20

/** One address, or a list of one. */
function takeTo(value: unknown, to: CompatAttributes): void {
  const list = [value].flat()
  if (list.length > 1)
    throw invalid(
      'to',
      '"to" can have one address here, because every recipient would see the others. Send one email for each recipient with POST /emails/batch, or use "cc".',
    )
  ;[to['to']] = list
}

/** Tags of Resend are names with values. */
function takeTags(value: unknown, to: CompatAttributes): void {
  const tags = new Map<unknown, unknown>()
  for (const tag of Array.isArray(value) ? value : [value]) {
    const { name, value: text } = objectIn(tag, 'Each of "tags"')
    if (![name, text].every((each) => typeof each === 'string' && /^[\w-]{1,256}$/.test(each)))
      throw invalid('tags', 'Names and values of "tags" must be 1 to 256 ASCII letters, digits, "_" or "-".')
    if (tags.has(name)) throw invalid('tags', `"tags" has the name "${String(name)}" twice.`)
    tags.set(name, text)
  }
  to['metadata'] = Object.fromEntries(tags)
}

/** Header fields. Those that the API has attributes for become these attributes. */
function takeHeaders(value: unknown, to: CompatAttributes): void {
  const headers: [string, unknown][] = []
  const list: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(objectIn(value, '"headers"'))) {
    const lower = name.toLowerCase()
    if (lower === 'message-id') to['message_id'] = text
    else if (lower.startsWith('list-unsubscribe')) list[lower] = text
    else headers.push([name, text])
  }
  if (Object.keys(list).length > 0) to['unsubscribe'] = unsubscribeOf(list)
  to['headers'] = Object.fromEntries(headers)
}

function unsubscribeOf(list: Record<string, unknown>): CompatAttributes {
  const text = list['list-unsubscribe']
  const uris = typeof text === 'string' ? [...text.matchAll(/<([^<>]+)>/g)].map(([, uri]) => uri) : []
  if (uris.length === 0)
    throw invalid(
      'headers',
      'The header "List-Unsubscribe" must contain URIs in angle brackets, such as <https://example.org/u/1>.',
    )
  return { uris, one_click: list['list-unsubscribe-post'] !== undefined }
}

const OLD_BUFFER = '"content" of an attachment must be base64 or a Buffer.'

function takeAttachments(value: unknown, to: CompatAttributes): void {
  if (!Array.isArray(value)) throw invalid('attachments', '"attachments" must be a list.')
  to['attachments'] = value.map((given: unknown, index) => {
    const { content, content_id, content_type, filename, path } = objectIn(given, 'Each of "attachments"')
    const last = typeof path === 'string' && URL.canParse(path) ? new URL(path).pathname.split('/').at(-1) : ''
    return {
      ...(content !== undefined && content !== null && { content: base64Of(content) }),
      ...(path !== undefined && path !== null && { path }),
      filename: filename ?? (last || `attachment-${index + 1}`),
      ...(content_type !== undefined && content_type !== null && { content_type }),
      ...(content_id !== undefined && content_id !== null && { content_id, disposition: 'inline' }),
    }
  })
}

/** Base64 with its padding and without line breaks. Earlier SDKs send the JSON of a Buffer. */
function base64Of(content: unknown): string {
  if (typeof content === 'string') {
    const text = content.replace(/\s+/g, '').replace(/=+$/, '')
    return text + '='.repeat((4 - (text.length % 4)) % 4)
  }
  const { data, type } = objectIn(content, '"content" of an attachment')
  const isBytes =
    type === 'Buffer' && Array.isArray(data) && data.every((each) => Number.isInteger(each) && each >= 0 && each < 256)
  if (!isBytes) throw invalid('attachments', OLD_BUFFER)
  return Buffer.from(data as number[]).toString('base64')
}

const UNITS: Readonly<Record<string, string>> = { m: 'M', h: 'H', d: 'D' }

/** A timestamp, or a time from now such as "in 5 min". Other words depend on somebody's time zone. */
function takeScheduled(value: unknown, to: CompatAttributes): void {
  const [, count, unit = ''] =
    (typeof value === 'string' && /^in (\d{1,6}) ?(min|mins|minutes?|hours?|h|days?)$/i.exec(value)) || []
  const letter = UNITS[unit.charAt(0).toLowerCase()]
  if (letter) to['scheduled_at'] = letter === 'D' ? `P${count}D` : `PT${count}${letter}`
  else if (typeof value === 'string' && /^\d{4}-\d\d-\d\d[T ]/.test(value)) to['scheduled_at'] = value.replace(' ', 'T')
  else
    throw invalid(
      'scheduled_at',
      '"scheduled_at" must be a timestamp with a time zone such as "2026-01-31T09:00:00Z", or a time from now such as "in 5 min".',
    )
}

const NO_TEMPLATES = 'Postrider has no templates. Send "html" or "text".'

const SCHEDULED: CompatField = { about: 'Timestamp, or a time from now such as "in 5 min".', take: takeScheduled }

export const EMAIL_FIELDS: CompatFields = {
  from: { ...passes('from', 'Sender.'), required: true },
  to: { about: 'Recipient: one address, or a list of one.', required: true, take: takeTo },
  cc: passes('cc', 'Visible additional recipients, at most 10.'),
  bcc: passes('bcc', 'Hidden additional recipients, at most 10.'),
  reply_to: passes('reply_to', 'Addresses for replies.'),
  subject: { ...passes('subject', 'Subject.'), required: true },
  html: passes('html', 'HTML body. The SDK renders `react` to it.'),
  text: passes('text', 'Plain text body.'),
  headers: {
    about:
      'Header fields. `List-Unsubscribe` and `List-Unsubscribe-Post` set `unsubscribe`, and `Message-ID` sets `message_id`.',
    take: takeHeaders,
  },
  attachments: { about: 'Files: `content` (base64 or a Buffer) or `path` (HTTPS URL).', take: takeAttachments },
  tags: { about: 'Names and values. They become `metadata`.', take: takeTags },
  scheduled_at: SCHEDULED,
  template: refused('template', NO_TEMPLATES),
  topic_id: refused('topic_id', 'Postrider has no topics, so everybody would get the email.'),
}

/** The attributes of an email. Throws a CompatError. */
function emailFrom(given: unknown, ignored: Set<string>): CompatAttributes {
  const attributes = translated(EMAIL_FIELDS, objectIn(given, 'The email'), ignored)
  const { html, text } = attributes
  if (html === undefined && text === undefined)
    throw invalid('html', 'The email has neither "html" nor "text".', 'required')
  return { html: '', ...attributes }
}

const readBody = <T>(call: CompatCall, use: (value: unknown) => Promise<T>): Promise<T> =>
  // Earlier SDKs send files as lists of numbers.
  withBody(call.context.req.raw, { ...call.limits, guard: new JsonGuard({ numbers: true }) }, async (text) =>
    use(await inOwnTurn(text.length, () => jsonIn(text))),
  )

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new CompatError(400, [
      { code: 'invalid_document', detail: 'The request body is not valid JSON.', field: undefined },
    ])
  }
}

/** The attribute for the header Idempotency-Key. Throws a CompatError. */
function idempotencyOf({ header }: CompatCall): CompatAttributes {
  const key = header('idempotency-key')
  if (key === undefined) return {}
  if (key.length < 1 || key.length > 256)
    throw new CompatError(400, [
      { code: 'invalid', detail: 'The Idempotency-Key must have 1 to 256 characters.', field: 'idempotency_key' },
    ])
  return { idempotency_key: key }
}

const sendEmail = (call: CompatCall): Promise<CompatAnswer> =>
  readBody(call, async (body) => {
    const ignored = new Set<string>()
    const attributes = { ...emailFrom(body, ignored), on_suppressed: 'record', ...idempotencyOf(call) }
    const { created, headers } = await call.create('outbound-emails', attributes)
    return { body: { id: created.id }, headers: { ...ignoredHeader(ignored), ...headers } }
  })

interface ResendBatchResult {
  index: number
  id?: string
  errors?: { detail: string }[]
}

const sendBatch = (call: CompatCall): Promise<CompatAnswer> =>
  readBody(call, async (body) => {
    if (!Array.isArray(body) || body.length === 0 || body.length > MOST_IN_BATCH)
      throw invalid('emails', `The body must be a list of 1 to ${MOST_IN_BATCH} emails.`)
    const isPermissive = call.header('x-batch-validation') === 'permissive'
    const ignored = new Set<string>()
    const errors: { index: number; message: string }[] = []
    const emails: { index: number; attributes: CompatAttributes }[] = []
    for (const [index, given] of (body as unknown[]).entries())
      try {
        emails.push({ index, attributes: emailFrom(given, ignored) })
      } catch (thrown) {
        if (!(thrown instanceof CompatError)) throw thrown
        if (!isPermissive) throw atIndex(index, thrown)
        errors.push({ index, message: thrown.message })
      }
    const data: { id: string | undefined }[] = []
    let [repeat, batch]: [Record<string, string>, string | undefined] = [{}, undefined]
    if (emails.length > 0) {
      const attributes = {
        emails: emails.map((each) => each.attributes),
        validation: isPermissive ? 'permissive' : 'strict',
        on_suppressed: 'record',
        ...idempotencyOf(call),
      }
      const { created, headers } = await call.create('outbound-email-batches', attributes)
      ;[repeat, batch] = [headers, created.id]
      for (const { errors: faults, id, index } of created.attributes['results'] as ResendBatchResult[])
        if (faults)
          errors.push({ index: emails[index]?.index ?? index, message: faults.map(({ detail }) => detail).join(' ') })
        else data.push({ id })
    }
    errors.sort((one, other) => one.index - other.index)
    return {
      body: isPermissive ? { data, errors } : { data },
      headers: { ...ignoredHeader(ignored), ...repeat },
      ...(batch !== undefined && { batch }),
    }
  })

const atIndex = (index: number, { headers, problems, status }: CompatError): CompatError =>
  new CompatError(
    status,
    problems.map((problem) => ({ ...problem, field: `emails/${index}/${problem.field ?? ''}` })),
    headers,
  )

const pathOf = ({ params }: CompatCall, rest = ''): string =>
  `/outbound-emails/${encodeURIComponent(params['id'] ?? '')}${rest}`

const showEmail = async (call: CompatCall): Promise<CompatAnswer> => ({
  body: emailOf(oneOf((await call.ask('GET', pathOf(call))).document)),
})

const changeEmail = (call: CompatCall): Promise<CompatAnswer> =>
  readBody(call, async (body) => {
    const ignored = new Set<string>()
    const fields = { scheduled_at: { ...SCHEDULED, required: true as const } }
    const attributes = translated(fields, objectIn(body, 'The body'), ignored)
    const id = call.params['id'] ?? ''
    await call.ask('PATCH', pathOf(call), { type: 'outbound-emails', id, attributes })
    return { body: { object: 'email', id }, headers: ignoredHeader(ignored) }
  })

const cancelEmail = async (call: CompatCall): Promise<CompatAnswer> => ({
  body: { object: 'email', id: oneOf((await call.ask('POST', pathOf(call, '/cancel'))).document).id },
})

async function listDomains({ ask, context }: CompatCall): Promise<CompatAnswer> {
  const { after, before, limit = String(USUAL_LIST) } = context.req.query()
  const count = /^\d{1,3}$/.test(limit) ? Number(limit) : 0
  if (count < 1 || count > MOST_OF_A_LIST) throw invalid('limit', `"limit" must be 1 to ${MOST_OF_A_LIST}.`)
  if (after !== undefined && before !== undefined) throw invalid('after', 'Use either "after" or "before".')
  const domains = (await allOf(ask, '/domains?sort=-created_at&page[size]=100')).map((domain) => domainOf(domain))
  const place = (id: string | undefined, name: string): number => {
    const at = domains.findIndex((domain) => domain.id === id)
    if (at < 0) throw invalid(name, `"${name}" must be the id of a domain in the list.`)
    return at
  }
  const end = before === undefined ? domains.length : place(before, 'before')
  const from = after === undefined ? (before === undefined ? 0 : Math.max(0, end - count)) : place(after, 'after') + 1
  const data = domains.slice(from, Math.min(end, from + count))
  return { body: { object: 'list', has_more: before === undefined ? from + count < end : from > 0, data } }
}

async function showDomain({ ask, params }: CompatCall): Promise<CompatAnswer> {
  const path = `/domains/${encodeURIComponent(params['id'] ?? '')}`
  const domain = oneOf((await ask('GET', path)).document)
  return { body: domainOf(domain, await allOf(ask, `${path}/records`)) }
}

const ENDPOINTS: readonly CompatEndpoint[] = [
  { method: 'POST', path: '/emails', scope: 'emails:send', mail: true, about: 'Send an email.', run: sendEmail },
  {
    method: 'POST',
    path: '/emails/batch',
    scope: 'emails:send',
    mail: true,
    about: `Send up to ${MOST_IN_BATCH} emails.`,
    run: sendBatch,
  },
  { method: 'GET', path: '/emails/:id', scope: 'emails:read', about: 'Get an email.', run: showEmail },
  {
    method: 'PATCH',
    path: '/emails/:id',
    scope: 'emails:send',
    about: 'Change the time of a scheduled email.',
    run: changeEmail,
  },
  {
    method: 'POST',
    path: '/emails/:id/cancel',
    scope: 'emails:send',
    about: 'Cancel a scheduled email.',
    run: cancelEmail,
  },
  { method: 'GET', path: '/domains', scope: 'domains:read', about: 'List domains.', run: listDomains },
  { method: 'GET', path: '/domains/:id', scope: 'domains:read', about: 'Get a domain.', run: showDomain },
]

const API = 'Use the API under /api/v1:'
/** What offers in Postrider what other paths of Resend do. */
const INSTEAD: readonly (readonly [path: RegExp, sentence: string])[] = [
  [/^\/emails\/receiving\b/, `${API} GET /inbound-emails.`],
  [/^\/emails(?:\/[^/]+)?\/attachments\b/, `${API} GET /outbound-emails/ID/raw.`],
  [/^\/emails\b/, `${API} GET /outbound-emails.`],
  [/^\/domains\b/, `${API} POST /domains, or the console.`],
  [/^\/api-keys\b/, `${API} POST /tokens, or the console.`],
  [/^\/(?:audiences|segments)\b/, `${API} /audiences.`],
  [/^\/(?:contacts|topics|contact-properties)\b/, `${API} /audiences/ID/contacts.`],
  [/^\/broadcasts\b/, `${API} /campaigns.`],
  [/^\/webhooks\b/, `${API} /webhooks.`],
  [/^\/suppressions\b/, `${API} /suppressions.`],
  [/^\/events\b/, `${API} GET /email-events.`],
  [/^\/templates\b/, NO_TEMPLATES],
]

/** Names of errors by the code of the API (https://resend.com/docs/api-reference/errors). */
function nameOf({ code, field = '' }: CompatProblem, status: number): [status: number, name: string] {
  if (code === 'unauthenticated' && field === '') return [401, 'missing_api_key']
  if (code === 'unauthenticated' || code === 'token_expired') return [403, 'invalid_api_key']
  if (code === 'insufficient_scope') return field === 'Origin' ? [403, 'validation_error'] : [401, 'restricted_api_key']
  if (code === 'subscription_inactive' || code === 'agent_paused' || code === 'domain_not_active')
    return [403, 'validation_error']
  if (code === 'not_found') return field.endsWith('from') ? [403, 'validation_error'] : [404, 'not_found']
  if (code === 'method_not_allowed') return [405, 'method_not_allowed']
  if (code === 'idempotency_conflict') return [409, 'invalid_idempotent_request']
  if (code === 'volume_exceeded') return [429, 'monthly_quota_exceeded']
  if (code === 'rate_limited') return [429, 'rate_limit_exceeded']
  if (status === 400) return [400, field === 'idempotency_key' ? 'invalid_idempotency_key' : 'validation_error']
  if (status === 413 || status === 415) return [status, 'validation_error']
  if (status === 500) return [500, 'internal_server_error']
  if (status > 500) return [status, 'application_error']
  const [own = ''] = field.split('/').filter((part) => !/^(?:emails|\d+)$/.test(part))
  if (own === 'attachments') return [422, 'invalid_attachment']
  if (own === 'from' && code === 'invalid') return [422, 'invalid_from_address']
  return [422, code === 'required' ? 'missing_required_field' : 'validation_error']
}

export const resend: CompatApi = {
  name: 'resend',
  base: '/resend',
  all: ['/resend/*'],
  endpoints: ENDPOINTS,
  authorization: (header) => (header !== undefined && /^bearer +\S/i.test(header) ? header : undefined),
  missingKey: 'The request has no key. Send the header "Authorization: Bearer <token>" with an API token of Postrider.',
  answerError: ({ problems, status: given }) => {
    const [first] = problems
    const [status, name] = first ? nameOf(first, given) : [given, 'application_error']
    const [, index] = /^emails\/(\d+)\//.exec(first?.field ?? '') ?? []
    const text = problems.map(({ detail }) => detail).join(' ')
    return {
      status,
      body: { statusCode: status, name, message: index === undefined ? text : `Email ${index}: ${text}` },
    }
  },
  instead: (path) => INSTEAD.find(([pattern]) => pattern.test(path))?.[1],
}
