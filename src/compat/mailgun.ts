// The compatibility API for Mailgun's clients: messages, events, suppressions and domains
// (https://documentation.mailgun.com). Clients keep only the origin of the base URL, so its paths begin at the origin.
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import type { CompatApi, CompatEndpoint, CompatError, CompatProblem } from './kit.ts'
import { listDomains, showDomain } from './mailgun-domains.ts'
import { listEvents, type PageDeps } from './mailgun-events.ts'
import { sendMessage, sendMime } from './mailgun-messages.ts'
import {
  KINDS,
  listSuppressions,
  removeSuppression,
  showSuppression,
  type SuppressionKind,
} from './mailgun-suppressions.ts'

const API = 'Use the API under /api/v1:'
/** What offers in Postrider what other paths of Mailgun do. */
const INSTEAD: readonly (readonly [path: RegExp, sentence: string])[] = [
  [/^\/v3\/lists\b/, `${API} /audiences.`],
  [/^\/v3\/routes\b/, `${API} /inboxes, and webhooks for received email.`],
  [/\/(?:stats|analytics)\b/, `${API} GET /statistics.`],
  [/\/templates\b/, 'Send "html" or "text" with each message.'],
  [/\/webhooks\b/, `${API} /webhooks, or poll the events.`],
  [/\/credentials\b/, `${API} POST /tokens, or the console.`],
  [/\/(?:whitelists|allowlists)\b/, 'Remove the suppression of the address.'],
]

/** The status of Mailgun for an error of the API. */
function statusOf({ code, field = '' }: CompatProblem, status: number): number {
  if (status === 401) return 401
  if (['insufficient_scope', 'subscription_inactive', 'volume_exceeded', 'agent_paused'].includes(code)) return 403
  if (code === 'not_found')
    return field.endsWith('from') || field === '' || field === 'domain' || field === 'address' ? 404 : 400
  return status === 405 || status === 409 || status === 413 || status === 429 || status >= 500 ? status : 400
}

/** The fields of Mailgun for attributes of the API. */
const FIELDS: Readonly<Record<string, string>> = {
  reply_to: 'h:Reply-To',
  unsubscribe: 'h:List-Unsubscribe',
  message_id: 'h:Message-Id',
  metadata: 'v:*',
  tags: 'o:tag',
  scheduled_at: 'o:deliverytime',
  track_opens: 'o:tracking-opens',
  track_clicks: 'o:tracking-clicks',
  attachments: 'attachment',
  recipients: 'to',
  raw: 'message',
}

/** The client's name for a field of the API, such as "h:X-Order" for "headers/X-Order". */
function fieldOf(field: string | undefined): string | null {
  const [first = '', second = ''] = (field ?? '').replace(/^email\//, '').split('/')
  if (first === '') return null
  if (/(?:^|\/)recipients\/\d+\/variables\b/.test(field ?? '')) return 'recipient-variables'
  return first === 'headers' && second !== '' ? `h:${second}` : (FIELDS[first] ?? first)
}

/** A sentence of the API with the client's names of fields. */
const inWordsOfClients = (detail: string): string =>
  detail
    .replace(/"recipients\.\d+\.variables[^"]*"/, 'A value in "recipient-variables"')
    .replace(/"(\w+)"/g, (whole, name: string) => (Object.hasOwn(FIELDS, name) ? `"${FIELDS[name]}"` : whole))

function endpointsOf({ keyring, publicUrl }: PageDeps): CompatEndpoint[] {
  const events = listEvents({ keyring, publicUrl })
  const suppressions = (Object.keys(KINDS) as SuppressionKind[]).flatMap((kind): CompatEndpoint[] => {
    const one = { path: `/v3/:domain/${kind}/:address`, about: `one of the ${kind}` }
    return [
      {
        method: 'GET',
        path: `/v3/:domain/${kind}`,
        scope: 'suppressions:read',
        about: `List ${kind}.`,
        run: listSuppressions(kind, publicUrl),
      },
      { ...one, method: 'GET', scope: 'suppressions:read', about: `Get ${one.about}.`, run: showSuppression(kind) },
      {
        ...one,
        method: 'DELETE',
        scope: 'suppressions:read, suppressions:write',
        about: `Delete ${one.about}.`,
        run: removeSuppression(kind),
      },
    ]
  })
  const domains = ['/v3/domains', '/v4/domains'].flatMap((path): CompatEndpoint[] => [
    { method: 'GET', path, scope: 'domains:read', about: 'List domains.', run: listDomains },
    { method: 'GET', path: `${path}/:domain`, scope: 'domains:read', about: 'Get a domain.', run: showDomain },
  ])
  const sends = { method: 'POST', scope: 'emails:send', mail: true } as const
  const reads = { method: 'GET', scope: 'emails:read', run: events } as const
  return [
    ...domains,
    { ...sends, path: '/v3/:domain/messages', about: 'Send an email, or one to each recipient.', run: sendMessage },
    { ...sends, path: '/v3/:domain/messages.mime', about: 'Send a MIME message.', run: sendMime },
    { ...reads, path: '/v3/:domain/events', about: 'List events.' },
    { ...reads, path: '/v3/:domain/events/:page', about: 'Get a page of events.' },
    ...suppressions,
  ]
}

/** The token is the password. The user name does not matter. */
function authorizationOf(header: string | undefined): string | undefined {
  const [, basic = ''] = /^basic +(\S+)$/i.exec(header ?? '') ?? []
  const password = Buffer.from(basic, 'base64')
    .toString('latin1')
    .replace(/^[^:]*:/, '')
  return password === '' ? undefined : `Bearer ${password}`
}

function answerOf({ problems, status: given }: CompatError) {
  const [first] = problems
  const status = first ? statusOf(first, given) : given
  const errors = problems.map(({ code, detail, field }) => ({
    code,
    field: fieldOf(field),
    detail: inWordsOfClients(detail),
  }))
  // Clients look for these words.
  const prefix = first?.code === 'not_found' && first.field === 'from' ? 'Domain not found: ' : ''
  return {
    status,
    // Many recipients of a batch often have the same problem.
    body: { message: prefix + [...new Set(errors.map(({ detail }) => detail))].join(' '), errors },
    ...(status === 401 && { headers: { 'WWW-Authenticate': 'Basic realm="Postrider"' } }),
  }
}

export const mailgun = ({ config, keyring }: { config: Pick<Config, 'http'>; keyring: Keyring }): CompatApi => ({
  name: 'mailgun',
  base: '',
  all: ['/v3/*', '/v4/*'],
  endpoints: endpointsOf({ keyring, publicUrl: () => config.http.public_url }),
  authorization: authorizationOf,
  missingKey:
    'The request has no key. Send it with Basic authentication: the user "api", and an API token of Postrider as the password.',
  answerError: answerOf,
  instead: (path) => INSTEAD.find(([pattern]) => pattern.test(path))?.[1],
})
