// A campaign to a loopback sink: five recipient domains, a personalised html of 6 KB, DKIM, unsubscribe headers,
// tracking on. Beside it, where they are installed, Postfix with OpenDKIM relays as many mails that were made
// beforehand.
import { setTimeout as sleep } from 'node:timers/promises'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { figure, installed, mailBody, percentile, post, type Server, startServer, startSink } from './rig.ts'

const BENCH = 'campaign'
const DOMAINS = 5
const BATCH = 1000
/** What our mail has between its header and the final dot, for the peer's. */
const WIRE_BYTES = 9500

/** An html of about 6 KB with tags and links. */
function letter(): string {
  const line =
    '<p>Dear {{name}}, this is a line of text in an html mail, as people write them. <a href="https://shop.example/{{plan}}">Look</a></p>\n'
  const plain = '<p>Nothing in this line is different from one reader to the next; there are many of its kind.</p>\n'
  return `<html><body><h1>Hello {{name}}</h1>\n${line.repeat(5)}${plain.repeat(53)}<p><a href="{{unsubscribe_url}}">Unsubscribe</a></p></body></html>`
}

export async function campaign(count: number): Promise<void> {
  const ours = await run(count)
  if (!installed('postfix') || !installed('opendkim') || process.getuid?.() !== 0)
    return figure(BENCH, 'postfix_opendkim_relayed', 'not installed: run test/interop/setup.sh as root', '')
  const { benchPostfix } = await import('./peer/postfix.ts')
  const theirs = await benchPostfix({ count: Math.min(count, 5000), bytes: WIRE_BYTES, concurrency: 50, probe: 0 })
  figure(BENCH, 'postfix_opendkim_relayed', theirs.deliveredPerSecond, 'mails/s')
  figure(BENCH, 'ratio', ours / theirs.deliveredPerSecond, 'times')
}

// oxlint-disable-next-line typescript/no-explicit-any
async function ask(server: Server, method: string, path: string, data?: unknown): Promise<any> {
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

const sizeOf = (directory: string): number =>
  readdirSync(directory)
    .filter((name) => name.startsWith('postrider.db'))
    .reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)

/** A campaign with its contacts, tracked, not started; `imported` is how long bringing in its contacts took, in ms. */
export async function draft(server: Server, count: number): Promise<{ id: string; imported: number }> {
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

export const begin = (server: Server, id: string): Promise<unknown> =>
  ask(server, 'PATCH', `/campaigns/${id}`, { type: 'campaigns', id, attributes: { status: 'scheduled' } })

export async function ended(server: Server, id: string): Promise<void> {
  while ((await ask(server, 'GET', `/campaigns/${id}`)).attributes.status !== 'sent') await sleep(50)
}

async function run(count: number): Promise<number> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    const { id, imported } = await draft(server, count)
    figure(BENCH, 'imported', (count / imported) * 1000, 'contacts/s')
    await sleep(1500)
    const before = sizeOf(server.dataDir)
    const { cpuMs } = await server.ask('report')
    await server.ask('reset')
    const start = performance.now()
    await begin(server, id)
    const beside = count >= 10_000 ? transactional(server) : undefined
    const limit = performance.now() + 60_000 + count * 2
    while (sink.count() < count) {
      if (performance.now() > limit) throw new Error(`${sink.count()} of ${count} mails at the sink`)
      await sleep(5)
    }
    const perSecond = (count / (performance.now() - start)) * 1000
    const report = await server.ask('report')
    const latencies = await beside
    await ended(server, id)
    await sleep(500)
    figure(BENCH, 'recipients', perSecond, '1/s')
    figure(BENCH, 'cpu_per_recipient', (report.cpuMs - cpuMs) / count, 'ms')
    figure(BENCH, 'peak_rss', report.peakRssMb, 'MB')
    figure(BENCH, 'event_loop_p99', report.loopP99Ms, 'ms')
    figure(BENCH, 'database_growth_per_recipient', (sizeOf(server.dataDir) - before) / count, 'bytes')
    if (latencies) figure(BENCH, 'transactional_201_p99_beside', percentile(latencies, 0.99), 'ms')
    return perSecond
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** Somebody sends mails of another kind meanwhile: how long their 201 takes. */
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
