// The events of Mailgun's clients: GET /email-events of the API, with filter expressions and pages as paths.
import { setImmediate as turn } from 'node:timers/promises'
import type { Keyring } from '../base/keyring.ts'
import { isObject, jsonOf } from '../base/json.ts'
import {
  CompatError,
  invalid,
  type CompatAsked,
  type CompatAnswer,
  type CompatCall,
  type CompatResource,
} from './kit.ts'
import { domainNamed } from './mailgun-domains.ts'
import { holds, parseFilter, wordsOnly, type FilterExpression } from './mailgun-filter.ts'
import { timeIn } from './mailgun-messages.ts'

const USUAL = 100
const MOST = 300
/** The fewest events of a page of the API: most of them may be left out. */
const READ_AT_ONCE = 100
/** The pages of the API that one request reads if a filter leaves out most events, or all of them. */
const MOST_PAGES = 50
const MOST_EMPTY_PAGES = 1000

type Data = Record<string, unknown>

/** The events of the API that are an event of Mailgun. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  delivered: ['email.delivered'],
  failed: ['email.delayed', 'email.bounced', 'email.rejected'],
  opened: ['email.opened'],
  clicked: ['email.clicked'],
  complained: ['email.complained'],
  unsubscribed: ['email.unsubscribed'],
}
const NAMES = new Map(Object.entries(TYPES).flatMap(([name, types]) => types.map((type) => [type, name] as const)))

/** What a client asks for. A page token contains it, because clients change the parameters of later pages. */
interface EventQuery {
  domain: string
  limit: number
  ascending: boolean
  since?: string
  until?: string
  filters: Record<string, string>
}

/** A page: behind the event `after` on the page of the API at a cursor. `last`: the end of the list. */
interface EventPlace {
  cursor?: string
  after?: string
  last?: true
}

const FILTERS = ['event', 'tags', 'recipient', 'message-id', 'from', 'to', 'subject', 'severity'] as const
/** `pretty` is only about white space in the answer. */
const KNOWN: readonly string[] = ['begin', 'end', 'ascending', 'limit', 'pretty', ...FILTERS]

/** Reads the parameters of the first page. Throws a CompatError. */
function queryOf(call: CompatCall, domain: string): EventQuery {
  const given = call.context.req.query()
  for (const name of Object.keys(given))
    if (!KNOWN.includes(name))
      throw invalid(name.slice(0, 100), `"${name.slice(0, 100)}" is not supported. Use ${KNOWN.join(', ')}.`)
  const limit = given['limit'] ?? String(USUAL)
  if (!/^\d{1,9}$/.test(limit) || Number(limit) < 1) throw invalid('limit', `"limit" must be 1 to ${MOST}.`)
  const [begin, end] = (['begin', 'end'] as const).map((name) => {
    const text = given[name]
    return text === undefined ? undefined : timeIn(name, text)
  })
  const direction = given['ascending']
  if (direction !== undefined && !/^(?:yes|no|true|false)$/i.test(direction))
    throw invalid('ascending', '"ascending" must be "yes" or "no".')
  const ascending =
    direction === undefined
      ? begin !== undefined && end !== undefined && begin < end
      : /^(?:yes|true)$/i.test(direction)
  // A list goes from begin to end. Both orders of the two are accepted.
  const isTurned = begin !== undefined && end !== undefined ? end < begin : !ascending
  const [since, until] = isTurned ? [end, begin] : [begin, end]
  return {
    domain,
    limit: Math.min(Number(limit), MOST),
    ascending,
    ...(since !== undefined && { since }),
    ...(until !== undefined && { until }),
    filters: Object.fromEntries(FILTERS.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]]))),
  }
}

/** The filters that the API applies, and those that are left for the translation. */
function filtersOf({ filters }: EventQuery): { api: Record<string, string>; left: [string, FilterExpression][] } {
  const left: [string, FilterExpression][] = []
  const api: Record<string, string> = {}
  let types = [...NAMES.keys()]
  for (const [name, text] of Object.entries(filters)) {
    const expression = parseFilter(name, text)
    const [recipient, ...others] = name === 'recipient' ? (wordsOnly(expression) ?? []) : []
    if (name === 'event') types = types.filter((type) => holds(expression, (word) => word === NAMES.get(type)))
    else if (recipient !== undefined && others.length === 0) api['recipient'] = recipient
    else left.push([name, expression])
  }
  return { api: { ...api, event: types.join(',') }, left }
}

/** A text in the data of an event, or '' without one. */
const plain = (value: unknown): string => (typeof value === 'string' ? value : '')

const dataOf = ({ attributes }: CompatResource): Data => (attributes['data'] ?? {}) as Data

function isShown(event: CompatResource, left: readonly [string, FilterExpression][]): boolean {
  const data = dataOf(event)
  // Opens and clicks of machines are not events of the recipient.
  const by = (data['open'] ?? data['click']) as Data | undefined
  if (event.attributes['data'] === null || by?.['machine'] === true) return false
  return left.every(([name, expression]) => {
    const values = valuesOf(name, data, event)
    return holds(expression, (word) =>
      name === 'subject' ? values.some((value) => value.includes(word)) : values.includes(word),
    )
  })
}

function valuesOf(name: string, data: Data, event: CompatResource): string[] {
  const values = (): unknown[] => {
    switch (name) {
      case 'tags':
        return data['tags'] as string[]
      case 'recipient':
      case 'to':
        return [data['recipient']]
      case 'message-id': {
        const id = messageIdOf(data)
        return [id, `<${id}>`, bare(data['message_id']), data['message_id']]
      }
      case 'from':
        return [data['from'], /<([^<>]+)>$/.exec(String(data['from']))?.[1]]
      case 'severity':
        return [severityOf(event)]
      default:
        return [data['subject']]
    }
  }
  return values().map((value) => plain(value).toLowerCase())
}

const bare = (id: unknown): string => plain(id).replace(/^<|>$/g, '')

/** The id that the answer to the send had, without brackets: for a batch, that of the batch. */
function messageIdOf(data: Data): string {
  const batch = data['batch_id']
  return typeof batch === 'string' ? `${batch}@${bare(data['message_id']).split('@').at(-1)}` : bare(data['message_id'])
}

const severityOf = ({ attributes }: CompatResource): string | undefined =>
  attributes['event'] === 'email.delayed'
    ? 'temporary'
    : NAMES.get(String(attributes['event'])) === 'failed'
      ? 'permanent'
      : undefined

/** Codes of Mailgun for suppressions. Clients give up on an address after 605 and 607, so those must be permanent. */
const SUPPRESSED: Readonly<Record<string, readonly [code: number, reason: string, message: string]>> = {
  hard_bounce: [605, 'suppress-bounce', 'Not delivered: the address has bounced before.'],
  manual: [605, 'suppress-bounce', 'Not delivered: the address is suppressed.'],
  list_import: [605, 'suppress-bounce', 'Not delivered: the address is suppressed.'],
  erasure: [605, 'suppress-bounce', 'Not delivered: the address was erased.'],
  unsubscribe: [606, 'suppress-unsubscribe', 'Not delivered: the address has unsubscribed.'],
  complaint: [607, 'suppress-complaint', 'Not delivered: the address has complained before.'],
  soft_bounce: [554, 'generic', 'Not delivered: the address is suppressed for some time.'],
}
/** The code of a failure without an answer of a server. */
const NO_ANSWER = 499
const REJECTED = 550
const LIFETIME_OVER = '4.4.7'

interface EventOutcome {
  code: number
  message: string
  reason?: string
}

function outcomeOf({ attributes }: CompatResource): EventOutcome | undefined {
  const data = (attributes['data'] ?? {}) as Data
  const reply = (data['delivery'] ?? data['bounce'] ?? data['delay']) as Data | undefined
  const message = plain(reply?.['response']) || 'No reply'
  const code = Number(reply?.['smtp_code'] ?? 0) || NO_ANSWER
  switch (attributes['event']) {
    case 'email.delivered':
      return { code, message }
    case 'email.delayed':
      return { code, message, reason: 'generic' }
    case 'email.bounced': {
      const isBounce = reply?.['kind'] === 'bounced'
      const isOld = reply?.['enhanced_code'] === LIFETIME_OVER
      return { code, message, reason: isBounce ? 'bounce' : isOld ? 'old' : 'generic' }
    }
    case 'email.rejected': {
      const { reason, suppression_reason } = data['rejection'] as Data
      const [own, why, text] = SUPPRESSED[String(suppression_reason)] ?? [REJECTED, 'generic', '']
      return { code: own, reason: why, message: plain(reason) || text || 'Rejected.' }
    }
    default:
      return undefined
  }
}

/** An event as Mailgun's clients read it. */
function itemOf(event: CompatResource): object {
  const { attributes, id } = event
  const data = dataOf(event)
  const name = NAMES.get(String(attributes['event'])) ?? ''
  const outcome = outcomeOf(event)
  const reply = (data['delivery'] ?? data['bounce'] ?? data['delay']) as Data | undefined
  const recipient = plain(data['recipient'])
  return {
    id,
    event: name,
    timestamp: Date.parse(String(attributes['created_at'])) / 1000,
    'log-level': name === 'failed' ? (severityOf(event) === 'temporary' ? 'warn' : 'error') : 'info',
    ...(name === 'failed' && { severity: severityOf(event), reason: outcome?.reason }),
    recipient,
    'recipient-domain': recipient.split('@').at(-1) ?? '',
    tags: data['tags'] ?? [],
    'user-variables': data['metadata'] ?? {},
    campaigns: [],
    message: {
      headers: { 'message-id': messageIdOf(data), to: recipient, from: data['from'], subject: data['subject'] },
      attachments: [],
    },
    ...(outcome && {
      'delivery-status': {
        code: outcome.code,
        message: outcome.message,
        description: '',
        'enhanced-code': reply?.['enhanced_code'] ?? '',
        'mx-host': reply?.['remote_mta'] ?? null,
        ...(attributes['event'] === 'email.delayed' && { 'attempt-no': (data['delay'] as Data)['attempts'] }),
      },
    }),
    ...(/^(?:opened|clicked|unsubscribed)$/.test(name) && { 'client-info': {}, geolocation: {}, ip: '' }),
    ...(name === 'clicked' && { url: (data['click'] as Data)['url'] }),
    envelope: {
      transport: 'smtp',
      sender: /<([^<>]+)>$/.exec(String(data['from']))?.[1] ?? data['from'],
      targets: recipient,
    },
    flags: { 'is-authenticated': true, 'is-routed': false, 'is-system-test': false, 'is-test-mode': false },
    postrider: { email_id: data['email_id'], message_id: data['message_id'], batch_id: data['batch_id'] ?? null },
  }
}

const labelOf = (owner: number, domain: string): string => `mailgun page ${owner} ${domain}`

export interface PageDeps {
  keyring: Keyring
  publicUrl: () => string
}

/** `GET /v3/DOMAIN/events`, and its pages. */
export const listEvents =
  (deps: PageDeps) =>
  async (call: CompatCall): Promise<CompatAnswer> => {
    const name = (call.params['domain'] ?? '').toLowerCase()
    const domain = await domainNamed(call, name)
    const label = labelOf(call.owner, domain.id)
    const { place, query } =
      call.params['page'] === undefined
        ? { query: queryOf(call, domain.id), place: {} }
        : pageIn(deps, label, call.params['page'])
    const { events, next } = await eventsAt(call, query, place)
    const url = (at: EventPlace): string => {
      const token = deps.keyring.seal(label, JSON.stringify({ query, place: at })).toString('base64url')
      return `${deps.publicUrl()}/v3/${encodeURIComponent(name)}/events/${token}`
    }
    const paging = { next: url(next), previous: url({}), first: url({}), last: url({ last: true }) }
    return { body: { items: events.map(itemOf), paging } }
  }

function pageIn({ keyring }: PageDeps, label: string, token: string): { query: EventQuery; place: EventPlace } {
  try {
    const read = jsonOf(keyring.open(label, Buffer.from(token, 'base64url')))
    if (isObject(read)) return read as unknown as { query: EventQuery; place: EventPlace }
  } catch {
    // Another account or domain, or not a token.
  }
  throw new CompatError(400, [
    {
      code: 'invalid_query',
      detail: 'The page does not belong to this list. Start again without a page.',
      field: 'page',
    },
  ])
}

/** The events of a page, and the place of the next one. */
async function eventsAt(
  { ask }: CompatCall,
  query: EventQuery,
  place: EventPlace,
): Promise<{ events: CompatResource[]; next: EventPlace }> {
  const { api, left } = filtersOf(query)
  // No event of the API is one of these.
  if (api['event'] === '') return { events: [], next: place }
  const ascending = place.last ? !query.ascending : query.ascending
  const parameters = new URLSearchParams({
    sort: ascending ? 'created_at' : '-created_at',
    'filter[domain]': query.domain,
  })
  for (const [name, value] of Object.entries(api)) parameters.set(`filter[${name}]`, value)
  if (query.since !== undefined) parameters.set('filter[since]', query.since)
  if (query.until !== undefined) parameters.set('filter[until]', query.until)
  const events: CompatResource[] = []
  let at: EventPlace = place
  for (let pages = 0; events.length < query.limit; pages++) {
    // A page of the API, without the events that the client already has.
    parameters.set('page[size]', String(Math.max(query.limit, READ_AT_ONCE)))
    if (at.cursor !== undefined) parameters.set('page[cursor]', at.cursor)
    const { document }: CompatAsked = await ask('GET', `/email-events?${parameters.toString()}`)
    const all = [document.data].flat()
    const known = all.findIndex(({ id }) => id === at.after)
    let taken = known + 1
    for (; taken < all.length && events.length < query.limit; taken++) {
      const event = all[taken]
      if (event && isShown(event, left)) events.push(event)
    }
    const last = all[taken - 1]
    at = { ...(at.cursor !== undefined && { cursor: at.cursor }), ...(last && { after: last.id }) }
    const cursor = document.meta?.next_cursor
    if (taken < all.length || !cursor) break
    at = { cursor }
    if (pages >= (events.length > 0 ? MOST_PAGES : MOST_EMPTY_PAGES)) break
    // Other work has its turn.
    await turn()
  }
  return { events: place.last ? events.reverse() : events, next: place.last ? { last: true } : at }
}
