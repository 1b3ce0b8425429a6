// Whether a long life slows the appliance down: throughput and CPU over a store with a million old emails, and with
// 100,000 received messages that wait, against an empty one. Memory with 100,000 emails in the queue, and how soon it
// is ready.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { defineDigest } from '../../src/store/digests.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { INBOX, makeInbox } from './inbound.ts'
import { smtpSource } from './peer/postfix.ts'
import {
  arrived,
  figure,
  installed,
  mailBody,
  percentile,
  post,
  type Server,
  type Sink,
  startServer,
  startSink,
} from './rig.ts'

const BENCH = 'backlog'
const MILLION = 1_000_000
const QUEUED = 100_000
const ROUNDS = 5

export async function backlog(count: number): Promise<void> {
  await readiness()
  await besideOldMails(count)
  await besideWaitingMessages(count)
  await queueMemory()
}

/** Old emails, delivered long ago, with their rows in other tables, and the given `status` and due time. */
function fill(server: Server, rows: number, status: 'delivered' | 'queued', domains: number): void {
  const database = new Database(join(server.dataDir, 'postrider.db'))
  // The triggers of digests need it.
  defineDigest(database)
  const numbers = `with recursive n(i) as (select 1 union all select i + 1 from n where i < ${rows})`
  const old = Date.now() - 86_400_000
  const { key: domain, user_key: user } = database.prepare('select key, user_key from domains').get() as {
    key: number
    user_key: number
  }
  const first =
    ((database.prepare('select max(key) as top from outbound_emails').get() as { top: number | null }).top ?? 0) + 1
  database.exec(`pragma synchronous = off; begin;
    ${numbers} insert into outbound_emails (key, id, user_key, domain_key, "from", "to", subject, message_id, opens_tracked, clicks_tracked, status, queued_at, created_at, updated_at)
      select ${first} + i, '${status}-' || i, ${user}, ${domain}, 'hello@bench.example', 'r' || i || '@d' || (i % ${domains}) || '.example', 'Old mail ' || i, '<' || i || '@bench.example>', 0, 0, '${status}', ${old} + i, ${old} + i, ${old} + i from n;
    ${numbers} insert into outbound_bodies (email_key, content) select ${first} + i, '{"html":"<p>Old mail</p>","text":null}' from n;
    ${numbers} insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, next_attempt_at, expires_at, updated_at)
      select ${first} + i, ${domain}, 'to', 'r' || i || '@d' || (i % ${domains}) || '.example', 'd' || (i % ${domains}) || '.example', '${status}', 0, ${status === 'queued' ? `${old} + i` : 'null'}, ${Date.now() + 432_000_000}, ${old} from n;
    ${numbers} insert into events (id, user_key, domain_key, email_key, type, data, created_at) select '${status}-' || i, ${user}, ${domain}, ${first} + i, 'email.sent', '{}', ${old} + i from n;
    commit;`)
  database.close()
}

/** The emails per second of a server, and its CPU time for each in ms. */
interface Pace {
  perSecond: number
  cpuMs: number
}

async function paceOf(server: Server, count: number, work: () => Promise<void>): Promise<Pace> {
  const before = (await server.ask('report')).cpuMs
  const start = performance.now()
  await work()
  const perSecond = (count / (performance.now() - start)) * 1000
  // Pending writes are part of the round.
  await sleep(300)
  return { perSecond, cpuMs: ((await server.ask('report')).cpuMs - before) / count }
}

const delivered = (server: Server, sink: Sink, count: number): Promise<Pace> =>
  paceOf(server, count, async () => {
    const before = sink.count()
    const body = (index: number): string => mailBody(index)
    await post({ port: server.port, token: server.token, count, posters: 50, body })
    await arrived(sink, before + count)
  })

/** An empty store next to a full one, in turn, so that other load of the machine affects both. */
async function compare(what: string, full: string, empty: () => Promise<Pace>, other: () => Promise<Pace>) {
  const paces: [Pace[], Pace[]] = [[], []]
  await empty()
  await other()
  for (let round = 0; round < ROUNDS; round++) {
    paces[0].push(await empty())
    paces[1].push(await other())
  }
  for (const [name, unit] of [
    ['perSecond', '1/s'],
    ['cpuMs', 'ms'],
  ] as const) {
    const [without, beside] = paces.map((each) =>
      percentile(
        each.map((pace) => pace[name]),
        0.5,
      ),
    ) as [number, number]
    const title = name === 'cpuMs' ? `${what}_cpu` : what
    figure(BENCH, `${title}_empty_store`, without, unit)
    figure(BENCH, `${title}_${full}`, beside, unit)
    figure(BENCH, `${title}_${full}_ratio`, beside / without, 'times')
  }
}

async function besideOldMails(count: number): Promise<void> {
  const [emptySink, fullSink] = [await startSink(), await startSink()]
  const [empty, full] = [await startServer(emptySink.port), await startServer(fullSink.port)]
  try {
    fill(full, MILLION, 'delivered', 1000)
    await compare(
      'delivered',
      'million_old_rows',
      () => delivered(empty, emptySink, count),
      () => delivered(full, fullSink, count),
    )
  } finally {
    await empty.stop()
    await full.stop()
    emptySink.stop()
    fullSink.stop()
  }
}

/** Received messages of many clients that wait to be read. They are leased, as by a queue in memory. */
function fillInbound(server: Server, rows: number): void {
  const database = new Database(join(server.dataDir, 'postrider.db'))
  defineDigest(database)
  const inbox = (database.prepare('select key from inboxes').get() as { key: number }).key
  const now = Date.now()
  const recipients = JSON.stringify([{ kind: 'inbox', address: INBOX, inboxes: [inbox] }])
  const content = Buffer.from(
    `From: sender@client.example\r\nTo: ${INBOX}\r\nSubject: It waits\r\n\r\n${'It waits for a reader.\r\n'.repeat(40)}`,
  )
  database
    .prepare(
      `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
       insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, content, cut, received_at, attempts)
         select 'waits-' || i, 'sender@client.example', ?, '192.0.2.' || (i % 250), 'client.example', '', ?, ?, 0, ? + i / 100, 0 from n`,
    )
    .run(rows, recipients, content.length, content, now)
  database
    .prepare('insert into inbound_waiting select key, 0, ? + key from inbound_messages where id >= ? and id < ?')
    .run(now + 3_600_000, 'waits-', 'waits.')
  database.close()
}

async function besideWaitingMessages(count: number): Promise<void> {
  if (!installed('smtp-source')) return figure(BENCH, 'beside_waiting_messages', 'not installed: postfix', '')
  const both = await Promise.all(
    [0, 1].map(async () => {
      const sink = await startSink()
      const server = await startServer(sink.port)
      await makeInbox(server)
      return { sink, server, database: new Database(join(server.dataDir, 'postrider.db'), { readonly: true }) }
    }),
  )
  const [empty, full] = both as [(typeof both)[number], (typeof both)[number]]
  const received = ({ database, server }: typeof empty): Promise<Pace> =>
    paceOf(server, count, async () => {
      const rows = database.prepare('select count(*) as count from inbound_emails')
      const arrived = (): number => (rows.get() as { count: number }).count
      const before = arrived()
      await smtpSource({
        port: server.smtpPort,
        count,
        bytes: 4096,
        sessions: 20,
        reconnect: false,
        timeoutMs: 120_000,
        to: INBOX,
      })
      const start = performance.now()
      while (arrived() < before + count) {
        if (performance.now() - start > 120_000) throw new Error(`${arrived() - before} of ${count} messages were read`)
        await sleep(5)
      }
    })
  try {
    fillInbound(full.server, QUEUED)
    const sent = ({ server, sink }: typeof empty): Promise<Pace> => delivered(server, sink, count)
    for (const [what, work] of [
      ['received', received],
      ['sent', sent],
    ] as const)
      await compare(
        what,
        '100000_waiting_messages',
        () => work(empty),
        () => work(full),
      )
  } finally {
    for (const { database, server, sink } of both) {
      database.close()
      await server.stop()
      sink.stop()
    }
  }
}

async function queueMemory(): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port)
  try {
    // Warm: workers hired, code compiled, caches full, as in a server that sends.
    await delivered(server, sink, 3000)
    const before = await server.ask('report')
    sink.stop()
    fill(server, QUEUED, 'queued', 1000)
    let most = 0
    // The server notices the clock change, attempts a thousand unreachable receiving servers, and defers the email.
    for (let second = 0; second < 15; second++) {
      await sleep(1000)
      most = Math.max(most, (await server.ask('report')).rssMb)
    }
    figure(BENCH, 'queued_100000_extra_rss', most - before.rssMb, 'MB')
  } finally {
    await server.stop()
  }
}

async function readiness(): Promise<void> {
  const built = fileURLToPath(new URL('../../dist/postrider', import.meta.url))
  if (!existsSync(built)) return figure(BENCH, 'start_to_ready', 'not built: run npm run build', '')
  const directory = temporaryDirectory('bench')
  const file = join(directory, 'postrider.toml')
  writeFileSync(file, `hostname = "mx.bench.example"\ndata_dir = "${directory}/data"\n[http]\nlisten = "127.0.0.1:0"\n`)
  const times: number[] = []
  for (let round = 0; round < 6; round++) {
    const start = performance.now()
    const child = spawn(built, ['--config', file, 'serve'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: SERVER_ENVIRONMENT,
    })
    await new Promise<void>((resolve) =>
      child.stdout.on('data', (chunk: Buffer) => chunk.includes('"server_ready"') && resolve()),
    )
    // The first start makes the database.
    if (round > 0) times.push(performance.now() - start)
    if (round === 5) {
      await sleep(2000)
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8')
      const kilobytes = (name: string): number => Number(new RegExp(`${name}:\\s+(\\d+)`).exec(status)?.[1])
      figure(BENCH, 'idle_rss', kilobytes('VmRSS') / 1000, 'MB')
      figure(BENCH, 'idle_rss_without_the_program_file', kilobytes('RssAnon') / 1000, 'MB')
    }
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    await gone
  }
  figure(BENCH, 'start_to_ready', percentile(times, 0.5), 'ms')
}
