// Mails handed in by SMTP (TLS, AUTH, connections kept) and delivered to a loopback sink: DKIM signed, durable, one
// recipient each. In the same run, in turn: the same mails posted over the API with TLS and without, and Postfix with
// OpenDKIM, which smtp-source feeds in clear text and without AUTH, for it knows neither.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  figure,
  installed,
  mailBody,
  percentile,
  post,
  startServer,
  startSink,
  type Posted,
  type Server,
  type Sink,
} from './rig.ts'
import { Client, mailText, submit } from './submit.ts'

const BENCH = 'submission'
const POSTERS = 50
const ROUNDS = 3
const IDLE = 1000
const STORM = 200
/** More connections of one address than the default, for all of them come from one. */
const CONFIG = {
  http: { listen: '127.0.0.1:0', tls_listen: ['127.0.0.1:0'] },
  submission: { tls_listen: ['127.0.0.1:0'], max_connections: 2 * IDLE, max_connections_per_address: 2 * IDLE },
}

const POSTING = { posters: POSTERS, body: (index: number) => mailBody(index, { text: `Mail ${index}` }) }

/** The ways in which a mail comes to the server. */
const WAYS = {
  smtp: (server, count) => submit({ ...at(server), count, posters: POSTERS, pipelined: true }),
  smtp_without_pipelining: (server, count) => submit({ ...at(server), count, posters: POSTERS, pipelined: false }),
  post_with_tls: ({ tlsPort, token }, count) => post({ ...POSTING, port: tlsPort!, token, count, tls: true }),
  post: ({ port, token }, count) => post({ ...POSTING, port, token, count }),
} as const satisfies Record<string, (server: Server, count: number) => Promise<Posted>>
type Way = keyof typeof WAYS

const at = ({ submissionPort, token }: Server): { port: number; token: string } => ({ port: submissionPort!, token })

interface Round {
  deliveredPerSecond: number
  acceptedPerSecond: number
  acceptedP50: number
  acceptedP99: number
  cpuMsPerMail: number
  mainCpuMsPerMail: number
}

export async function submission(count: number): Promise<void> {
  const ways = Object.keys(WAYS) as Way[]
  const rounds = Object.fromEntries(ways.map((way) => [way, [] as Round[]])) as Record<Way, Round[]>
  const theirs: { deliveredPerSecond: number; cpuMsPerMail: number }[] = []
  const peer = installed('postfix') && installed('opendkim') && process.getuid?.() === 0
  const sink = await startSink()
  const server = await startServer(sink.port, CONFIG)
  try {
    // Warm, as a server is that has been running.
    for (const way of ways) await round(server, sink, way, 500)
    // In turn, so that what else the machine does falls on all.
    for (let turn = 0; turn < ROUNDS; turn++) {
      for (const way of ways) rounds[way].push(await round(server, sink, way, count))
      if (!peer) continue
      const { benchPostfix } = await import('./peer/postfix.ts')
      const bytes = mailText(0).split('\r\n\r\n').slice(1).join('\r\n\r\n').length
      theirs.push(await benchPostfix({ count, bytes, concurrency: POSTERS, probe: turn === 0 ? 20 : 0 }))
    }
    figure(BENCH, 'peak_rss', (await server.ask('report')).peakRssMb, 'MB')
  } finally {
    await server.stop()
    sink.stop()
  }
  const median = (way: Way, name: keyof Round): number =>
    percentile(
      rounds[way].map((each) => each[name]),
      0.5,
    )
  for (const way of ways)
    for (const [name, title, unit] of [
      ['deliveredPerSecond', 'delivered', 'mails/s'],
      ['acceptedPerSecond', 'accepted', 'mails/s'],
      ['acceptedP50', 'accepted_p50', 'ms'],
      ['acceptedP99', 'accepted_p99', 'ms'],
      ['cpuMsPerMail', 'cpu_per_mail', 'ms'],
      ['mainCpuMsPerMail', 'main_thread_cpu_per_mail', 'ms'],
    ] as const)
      figure(BENCH, `${way}_${title}`, median(way, name), unit)
  for (const other of ['post_with_tls', 'post'] as const)
    figure(
      BENCH,
      `ratio_to_${other}`,
      median('smtp', 'deliveredPerSecond') / median(other, 'deliveredPerSecond'),
      'times',
    )
  if (peer) {
    const peerMedian = (name: 'deliveredPerSecond' | 'cpuMsPerMail'): number =>
      percentile(
        theirs.map((each) => each[name]),
        0.5,
      )
    figure(BENCH, 'postfix_opendkim_delivered', peerMedian('deliveredPerSecond'), 'mails/s')
    figure(BENCH, 'postfix_opendkim_cpu_per_mail', peerMedian('cpuMsPerMail'), 'ms')
    const ratio = median('smtp', 'deliveredPerSecond') / peerMedian('deliveredPerSecond')
    figure(BENCH, 'ratio_to_postfix_opendkim', ratio, 'times')
  } else figure(BENCH, 'postfix_opendkim_delivered', 'not installed: run test/interop/setup.sh as root', '')
  await connections()
}

/** One way once, until the last mail is at the sink. */
async function round(server: Server, sink: Sink, way: Way, count: number): Promise<Round> {
  const before = sink.count()
  const { cpuMs, mainCpuMs } = await server.ask('report')
  const start = performance.now()
  const posted = await WAYS[way](server, count)
  while (sink.count() < before + count) {
    if (performance.now() - start > 120_000) throw new Error(`${sink.count() - before} of ${count} mails at the sink`)
    await sleep(2)
  }
  const wallMs = performance.now() - start
  // What is left to be written belongs to them.
  await sleep(300)
  const report = await server.ask('report')
  return {
    deliveredPerSecond: (count / wallMs) * 1000,
    acceptedPerSecond: (count / posted.wallMs) * 1000,
    acceptedP50: percentile(posted.latencies, 0.5),
    acceptedP99: percentile(posted.latencies, 0.99),
    cpuMsPerMail: (report.cpuMs - cpuMs) / count,
    mainCpuMsPerMail: (report.mainCpuMs - mainCpuMs) / count,
  }
}

/** What connections cost that carry no mail: those that are kept, and those that come again and again. */
async function connections(): Promise<void> {
  const sink = await startSink()
  const server = await startServer(sink.port, CONFIG)
  try {
    await round(server, sink, 'smtp', 500)
    await round(server, sink, 'post', 500)
    await idle(server)
    await storm(server)
  } finally {
    await server.stop()
    sink.stop()
  }
}

/** Memory of 1,000 clients that have signed in and wait. */
async function idle(server: Server): Promise<void> {
  const { rssMb } = await server.ask('report')
  const clients: Client[] = []
  while (clients.length < IDLE)
    clients.push(
      ...(await Promise.all(Array.from({ length: 20 }, () => Client.signedIn(server.submissionPort!, server.token)))),
    )
  await sleep(2000)
  figure(BENCH, `${IDLE}_idle_connections`, (await server.ask('report')).rssMb - rssMb, 'MB')
  for (const client of clients) client.destroy()
  await sleep(500)
}

/** Opens 200 connections a second in a process of its own until it is ended; `greeted` were. */
async function storming(server: Server): Promise<{ greeted: () => number; end: () => Promise<unknown> }> {
  let greeted = 0
  const child = fork(new URL('submit.ts', import.meta.url), [String(server.submissionPort), String(STORM)])
  child.on('message', (message: { greeted: number }) => void (greeted = message.greeted))
  while (greeted === 0) await once(child, 'message')
  return {
    greeted: () => greeted,
    end() {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      return gone
    },
  }
}

/** What a new connection costs, and posts at a fixed rate, alone and beside 200 new connections a second, in turn. */
async function storm(server: Server): Promise<void> {
  const alone = await storming(server)
  const [first, { mainCpuMs }] = [alone.greeted(), await server.ask('report')]
  await sleep(5000)
  const spent = (await server.ask('report')).mainCpuMs - mainCpuMs
  figure(BENCH, 'main_thread_cpu_per_handshake', spent / (alone.greeted() - first), 'ms')
  await alone.end()
  const paced = async (): Promise<number> => {
    const body = (index: number): string => mailBody(index, { text: `Mail ${index}` })
    const { latencies } = await post({ ...server, count: 2000, posters: POSTERS, body, rate: STORM })
    return percentile(latencies, 0.99)
  }
  const rounds: [number[], number[]] = [[], []]
  const rates: number[] = []
  for (let turn = 0; turn < ROUNDS; turn++) {
    rounds[0].push(await paced())
    const { end, greeted } = await storming(server)
    const [before, start] = [greeted(), performance.now()]
    rounds[1].push(await paced())
    rates.push(((greeted() - before) / (performance.now() - start)) * 1000)
    await end()
  }
  figure(BENCH, `paced_${STORM}_per_s_201_p99`, percentile(rounds[0], 0.5), 'ms')
  figure(BENCH, `paced_${STORM}_per_s_201_p99_beside_handshakes`, percentile(rounds[1], 0.5), 'ms')
  figure(BENCH, 'handshakes', percentile(rates, 0.5), 'per s')
}
