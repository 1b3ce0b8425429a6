// A campaign to a loopback sink: five recipient domains, a personalised HTML of 6 KB, DKIM, unsubscribe headers,
// tracking on. If they are installed, Postfix with OpenDKIM relays as many prepared emails.
import { setTimeout as sleep } from 'node:timers/promises'
import { missing } from './peer/postfix.ts'
import { relayed } from './outbound.ts'
import { driven } from './posts.ts'
import { arrived, figure, mailBody, percentile, post, type Server, startServer, startSink } from './rig.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'

const BENCH = 'campaign'
const DOMAINS = 5
const BATCH = 1000
/** Recipients of the campaign before the measured one. */
const WARM = 1000
/** The bytes of our email between its header and the final dot, for the peer's. */
export const WIRE_BYTES = 13_700

/** An html of about 6 KB with tags and links. */
function letter(): string {
  const line =
    '<p>Dear {{name}}, this is a line of text in an html mail, as people write them. <a href="https://shop.example/{{plan}}">Look</a></p>\n'
  const plain = '<p>Nothing in this line is different from one reader to the next; there are many of its kind.</p>\n'
  return `<html><body><h1>Hello {{name}}</h1>\n${line.repeat(5)}${plain.repeat(53)}<p><a href="{{unsubscribe_url}}">Unsubscribe</a></p></body></html>`
}

export async function campaign(count: number): Promise<void> {
  const absent = missing()
  const { ours, postfix_opendkim: peer } = await inTurn(1, {
    ours: () => campaigned(count, count >= 10_000),
    ...(absent.length > 0 ? {} : { postfix_opendkim: () => relayed(Math.min(count, 5000), { wireBytes: WIRE_BYTES }) }),
  })
  tell(BENCH, 'ours', ours)
  if (!peer) return figure(BENCH, 'postfix_opendkim', `not installed: ${absent.join(', ')}`, '')
  tell(BENCH, 'postfix_opendkim', peer)
  figure(BENCH, 'ratio', ours.perSecond / peer.perSecond, 'times')
}

/** The address and the credentials for requests. */
type Facts = Pick<Server, 'port' | 'token'>

/** A request to the API. Returns the data of the answer, and throws if it fails. */
// oxlint-disable-next-line typescript/no-explicit-any
export async function ask(server: Facts, method: string, path: string, data?: unknown): Promise<any> {
  const answer = await fetch(`http://127.0.0.1:${server.port}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${server.token}`,
      ...(data ? { 'content-type': 'application/vnd.api+json' } : {}),
    },
    ...(data ? { body: JSON.stringify({ data }) } : {}),
  })
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`)
  return answer.status === 204 ? undefined : ((await answer.json()) as { data: unknown }).data
}

/** A campaign with its contacts, tracked, not started. `imported` is how long bringing in its contacts took, in ms. */
export async function draft(server: Facts, count: number): Promise<{ id: string; imported: number }> {
  const [domain] = await ask(server, 'GET', '/domains')
  const attributes = { open_tracking_enabled: true, click_tracking_enabled: true }
  await ask(server, 'PATCH', `/domains/${domain.id}`, { type: 'domains', id: domain.id, attributes })
  const audience = await ask(server, 'POST', '/audiences', {
    type: 'audiences',
    attributes: { name: `Readers ${count}` },
    relationships: { domain: { data: { type: 'domains', id: domain.id } } },
  })
  const start = performance.now()
  for (let from = 0; from < count; from += BATCH)
    await ask(server, 'POST', `/audiences/${audience.id}/contacts/import`, {
      type: 'contacts',
      attributes: {
        contacts: Array.from({ length: Math.min(BATCH, count - from) }, (_, index) => ({
          email: `reader${from + index}@d${index % DOMAINS}.example`,
          name: `Reader ${from + index}`,
          custom_fields: { plan: `plan-${index % 7}` },
        })),
      },
    })
  const imported = performance.now() - start
  const { id } = await ask(server, 'POST', '/campaigns', {
    type: 'campaigns',
    attributes: { name: 'Bench', subject: 'Hello {{name}}', body_html: letter() },
    relationships: { audience: { data: { type: 'audiences', id: audience.id } } },
  })
  return { id, imported }
}

export const begin = (server: Facts, id: string): Promise<unknown> =>
  ask(server, 'PATCH', `/campaigns/${id}`, { type: 'campaigns', id, attributes: { status: 'scheduled' } })

export async function ended(server: Server, id: string): Promise<void> {
  while ((await ask(server, 'GET', `/campaigns/${id}`)).attributes.status !== 'sent') await sleep(50)
}

/** One round of ours. With `told`, its metrics are printed, and other emails are posted at the same time. */
export async function campaigned(count: number, told: boolean): Promise<Round> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    // Warm, as a server is that has been running: code compiled, workers hired.
    const warm = await draft(server, WARM)
    await begin(server, warm.id)
    await ended(server, warm.id)
    const { id, imported } = await draft(server, count)
    await sleep(1500)
    let beside: Promise<number[]> | undefined
    const round = await measured(server, count, {
      drive: () =>
        driven('none', async () => {
          const startedAt = performance.now()
          await begin(server, id)
          beside = told ? transactional(server) : undefined
          return { latencies: [], startedAt, wallMs: 0 }
        }),
      settle: () => arrived(sink, WARM + count, count * 2),
      sink,
    })
    await ended(server, id)
    if (told) figure(BENCH, 'imported', (count / imported) * 1000, 'contacts/s')
    if (beside) figure(BENCH, 'transactional_201_p99_beside', percentile(await beside, 0.99), 'ms')
    return round
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** Posts emails of another kind in the meantime, and measures how long their 201 takes. */
async function transactional(server: Server): Promise<number[]> {
  const body = (index: number): string =>
    mailBody(index, {
      to: `one${index}@other.example`,
      subject: 'A receipt',
      html: '<p>Paid.</p>',
      text: 'Paid.',
    })
  return (await post({ ...server, count: 100, posters: 4, body, rate: 50 })).latencies
}
