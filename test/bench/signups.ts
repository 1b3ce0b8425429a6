// Sign-ups at a public form (AU14, AU42, AU112): their time alongside email that is sent, the time of other requests
// alongside 200 sign-ups per second, the answers to each kind of address, and an attack of 500 clients on 2,000
// addresses.
import { loadavg } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import type { ConfigInput } from '../../src/base/config.ts'
import { DATABASE } from '../../src/store/open.ts'
import { linkTo } from '../kit/signups.ts'
import { until } from '../kit/until.ts'
import { ask } from './campaign.ts'
import {
  figure,
  mailBody,
  percentile,
  post,
  requestOf,
  startServer,
  startSink,
  type Posted,
  type Server,
  type Sink,
} from './rig.ts'
import { flooding } from './signup-flood.ts'

const BENCH = 'signups'
const SITE = 'https://www.bench.example'
const FORM = {
  name: 'Website',
  title: 'Old Trees News',
  consent_text: 'I would like to receive Old Trees News once a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: `${SITE}/privacy`,
  origins: [SITE],
}
/** Emails per second that are posted and sent alongside sign-ups, and sign-ups per second. */
const EMAILS = 200
const SIGNUPS = 200
/** Sign-ups without other work. */
const ALONE = 1000
/** Requests per second whose time is measured alongside. */
const LOOKS = 40
/** Few connections: a server accepts one in each turn of its event loop, and the requests on new ones wait for that. */
const POSTERS = 8
/** More than any number of sign-ups here. */
const MANY = 1_000_000
const OPEN = { per_client: MANY, per_client_day: MANY, per_form: MANY }
const KINDS = ['new', 'pending', 'subscribed', 'left', 'suppressed', 'erased'] as const
const KNOWN = 'known@d1.example'
/** Addresses of each kind. */
const OF_EACH = 100

/** The parts: one server each. `only`: the names of some parts. */
export async function signups(seconds: number, only: readonly string[]): Promise<void> {
  const parts: Record<string, () => Promise<void>> = {
    alongside: () => withForm(OPEN, (stage) => alongside(stage, seconds)),
    kinds: () => withForm(OPEN, kinds),
    attack: () => withForm({}, attack),
  }
  for (const [name, part] of Object.entries(parts)) if (only.length === 0 || only.includes(name)) await part()
}

interface Stage {
  server: Server
  sink: Sink
  slug: string
  form: string
  audience: string
}

async function withForm(signup: ConfigInput['signup'], measure: (stage: Stage) => Promise<void>): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port, {
    http: { listen: '127.0.0.1:0', trusted_proxies: ['127.0.0.1'] },
    signup,
  })
  try {
    const [domain] = await ask(server, 'GET', '/domains')
    const to = (name: string, type: string, id: string) => ({ [name]: { data: { type, id } } })
    const { id: audience } = await ask(server, 'POST', '/audiences', {
      type: 'audiences',
      attributes: { name: 'Readers' },
      relationships: to('domain', 'domains', domain.id),
    })
    const relationships = to('audience', 'audiences', audience)
    const { id } = await ask(server, 'POST', '/forms', { type: 'forms', attributes: FORM, relationships })
    const attributes = { status: 'open' }
    const { slug } = (await ask(server, 'PATCH', `/forms/${id}`, { type: 'forms', id, attributes })).attributes
    figure(BENCH, 'load_average', loadavg()[0] ?? 0, '')
    await measure({ server, sink, slug, form: id, audience })
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** The request of a visitor of the website, each with another client address. */
function signupRequest(slug: string, email: string, client: number): string {
  const body = new URLSearchParams({ email, version: '1', lang: 'en' }).toString()
  const address = `10.${(client >> 16) & 255}.${(client >> 8) & 255}.${client & 255}`
  return `POST /f/${slug} HTTP/1.1\r\nHost: bench\r\nOrigin: ${SITE}\r\nX-Forwarded-For: ${address}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

interface Requests {
  count: number
  rate?: number
  posters?: number
}

/** Sends whole requests, one for each index. */
const send = ({ port, token }: Server, requests: Requests, request: (index: number) => string): Promise<Posted> =>
  post({ port, token, posters: POSTERS, ...requests, body: request, request: (_, text) => text })

const get = (path: string) => (): string => `GET ${path} HTTP/1.1\r\nHost: bench\r\n\r\n`

function times(name: string, latencies: readonly number[]): void {
  figure(BENCH, `${name}_p50`, percentile(latencies, 0.5), 'ms')
  figure(BENCH, `${name}_p99`, percentile(latencies, 0.99), 'ms')
}

const emailRequest = ({ token }: Server, index: number): string => requestOf(token, mailBody(index))

async function alongside({ audience, server, sink, slug }: Stage, seconds: number): Promise<void> {
  let visitor = 0
  const signUp = (): string => signupRequest(slug, `reader${++visitor}@d${visitor % 20}.example`, visitor)
  const looks = { count: LOOKS * seconds, rate: LOOKS }
  await addContacts(server, audience, [KNOWN])
  await send(server, { count: 1 }, () => signupRequest(slug, KNOWN, MANY))
  await send(server, { count: 200 }, signUp)
  const idle = await server.ask('report')
  await send(server, { count: ALONE }, signUp)
  const { mainCpuMs } = await server.ask('report')
  // With the confirmation email: holds on a busy machine too.
  figure(BENCH, 'main_thread_cpu_per_signup', (mainCpuMs - idle.mainCpuMs) / ALONE, 'ms')
  times('email_alone', (await send(server, looks, (index) => emailRequest(server, index))).latencies)
  const before = sink.count()
  const [some, emails] = await Promise.all([
    send(server, looks, signUp),
    send(server, { count: EMAILS * seconds, rate: EMAILS, posters: 20 }, (index) => emailRequest(server, index)),
  ])
  times('signup_beside_emails', some.latencies)
  figure(BENCH, 'emails_beside', (emails.latencies.length / emails.wallMs) * 1000, 'emails/s')
  figure(BENCH, 'sent_beside', ((sink.count() - before) / emails.wallMs) * 1000, 'emails/s')
  const confirmation = linkTo(server.dataDir, 'reader1@d1.example')
  const subscriber = linkTo(server.dataDir, KNOWN, /\/u\/[\w-]+/)
  await server.ask('reset')
  const [many, health, posts, confirmPage, subscriberPage] = await Promise.all([
    send(server, { count: SIGNUPS * seconds, rate: SIGNUPS, posters: 40 }, signUp),
    send(server, looks, get('/health')),
    send(server, looks, (index) => emailRequest(server, index)),
    send(server, looks, get(confirmation)),
    send(server, looks, get(subscriber)),
  ])
  figure(BENCH, 'signups', (many.latencies.length / many.wallMs) * 1000, 'sign-ups/s')
  times('signup', many.latencies)
  times('health_beside_signups', health.latencies)
  times('email_beside_signups', posts.latencies)
  times('confirm_page_beside_signups', confirmPage.latencies)
  times('subscriber_page_beside_signups', subscriberPage.latencies)
  figure(BENCH, 'event_loop_p99', (await server.ask('report')).loopP99Ms, 'ms')
  times('subscriber_page', (await send(server, { count: 300, posters: 1 }, get(subscriber))).latencies)
  times('form_page', (await send(server, { count: 300, posters: 1 }, get(`/f/${slug}`))).latencies)
}

const addContacts = (server: Server, audience: string, emails: readonly string[]): Promise<unknown> =>
  ask(server, 'POST', `/audiences/${audience}/contacts/import`, {
    type: 'contacts',
    attributes: { contacts: emails.map((email) => ({ email })) },
  })

/** The time of the answer to each kind of address, which must not show the kind (AU14). */
async function kinds({ audience, server, slug }: Stage): Promise<void> {
  const address = (kind: string, n: number): string => `${kind}${n}@d${n % 20}.example`
  const all = (kind: string): string[] => Array.from({ length: OF_EACH }, (_, n) => address(kind, n))
  const signUp = (email: string) => (): string => signupRequest(slug, email, 1)
  for (const email of all('pending')) await send(server, { count: 1 }, signUp(email))
  for (const kind of ['subscribed', 'left', 'erased']) await addContacts(server, audience, all(kind))
  const [domain] = await ask(server, 'GET', '/domains')
  for (const email of all('left')) {
    const [{ id }] = await ask(server, 'GET', `/audiences/${audience}/contacts?filter[email]=${email}`)
    await ask(server, 'PATCH', `/contacts/${id}`, { type: 'contacts', id, attributes: { status: 'unsubscribed' } })
  }
  await ask(server, 'POST', '/suppression-imports', {
    type: 'suppression-imports',
    attributes: { suppressions: all('suppressed').map((email) => ({ email, reason: 'manual' })) },
    relationships: { domain: { data: { type: 'domains', id: domain.id } } },
  })
  for (const email of all('erased')) await ask(server, 'DELETE', `/recipients/${email}/forget`)
  await until(async () => {
    const [left] = await ask(
      server,
      'GET',
      `/audiences/${audience}/contacts?filter[email]=${address('erased', OF_EACH - 1)}`,
    )
    return left === undefined
  }, 'the erasures')
  const medians: number[] = []
  const latencies = new Map<string, number[]>(KINDS.map((kind) => [kind, []]))
  // In turn, so that other load of the machine affects all.
  for (let n = 0; n < OF_EACH; n++)
    for (const kind of KINDS)
      latencies.get(kind)!.push(...(await send(server, { count: 1 }, signUp(address(kind, n)))).latencies)
  for (const kind of KINDS) {
    medians.push(percentile(latencies.get(kind)!, 0.5))
    times(`answer_${kind}`, latencies.get(kind)!)
  }
  figure(BENCH, 'answer_medians_differ_by', Math.max(...medians) - Math.min(...medians), 'ms')
}

/** Many clients that sign up addresses of others. The limits are those of the default configuration. */
async function attack({ form, server, slug }: Stage): Promise<void> {
  times('email_before_attack', (await others(server)).latencies)
  const flood = flooding({ port: server.port, slug, site: SITE })
  const [health, emails]: [number[], number[]] = [[], []]
  while (!flood.ended())
    await Promise.all([
      send(server, { count: LOOKS, rate: LOOKS }, get('/health')).then(({ latencies }) => health.push(...latencies)),
      others(server).then(({ latencies }) => emails.push(...latencies)),
    ])
  const { seconds, statuses } = await flood.result
  for (const [status, count] of Object.entries(statuses)) figure(BENCH, `attack_answers_${status}`, count, '')
  figure(BENCH, 'attack', seconds, 's')
  times('health_during_attack', health)
  times('email_during_attack', emails)
  const { attributes } = await ask(server, 'GET', `/forms/${form}`)
  figure(BENCH, 'attacked_form', `${attributes.status}: ${attributes.paused_reason}`, '')
  for (const [name, sum] of Object.entries(sums(server.dataDir))) figure(BENCH, `attack_${name}`, sum, '')
}

const others = (server: Server): Promise<Posted> =>
  send(server, { count: LOOKS, rate: LOOKS }, (index) => emailRequest(server, index))

/** What the attack has led to, from the database. */
function sums(dataDir: string): Record<string, number> {
  const database = new Database(join(dataDir, DATABASE), { readonly: true })
  try {
    return database
      .prepare<[], Record<string, number>>(
        `select (select count(*) from outbound_emails where tags like '%confirmation%') as emails,
           (select ifnull(max(n), 0) from (select count(*) as n from outbound_emails where tags like '%confirmation%'
              group by "to")) as most_emails_of_an_address,
           (select count(*) from notices where subject like 'The form%') as notices,
           (select count(*) from contacts where status <> 'pending') as subscribed`,
      )
      .get()!
  } finally {
    database.close()
  }
}
