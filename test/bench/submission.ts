// Emails submitted over SMTP (TLS, AUTH, connections kept) and delivered to a loopback sink: DKIM signed, durable, one
// recipient each. In the same run, in turn: the same emails posted over the API with TLS and without, and Postfix with
// OpenDKIM, which smtp-source feeds in clear text and without AUTH, because it supports neither.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { missing } from './peer/postfix.ts'
import { relayed, SMALL } from './outbound.ts'
import { driven, posts, type Driven } from './posts.ts'
import { arrived, figure, percentile, post, startServer, startSink, type Server } from './rig.ts'
import { Client, mailText, submit } from './submit.ts'
import { inTurn, measured, tell, type Round } from './turns.ts'

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

const POSTING = { posters: POSTERS, body: SMALL.body }

/** The ways to submit an email to the server. */
const WAYS = {
  smtp: (server, count) => submitted(server, count, true),
  smtp_without_pipelining: (server, count) => submitted(server, count, false),
  post_with_tls: ({ tlsPort, token }, count) => posts({ ...POSTING, port: tlsPort!, token, count, tls: true }),
  post: ({ port, token }, count) => posts({ ...POSTING, port, token, count }),
} as const satisfies Record<string, (server: Server, count: number) => Promise<Driven>>
export type Way = keyof typeof WAYS

const submitted = ({ submissionPort, token }: Server, count: number, pipelined: boolean): Promise<Driven> =>
  driven('node', () => submit({ port: submissionPort!, token, count, posters: POSTERS, pipelined }))

/** The server with all its ways, warmed up like one that has been running. */
export async function withWays<Result>(
  ways: readonly Way[],
  use: (round: (way: Way, count: number) => Promise<Round>, server: Server) => Promise<Result>,
): Promise<Result> {
  const sink = await startSink()
  const server = await startServer(sink.port, CONFIG)
  const round = (way: Way, count: number): Promise<Round> => {
    const before = sink.count()
    return measured(server, count, {
      drive: () => WAYS[way](server, count),
      settle: () => arrived(sink, before + count),
      sink,
    })
  }
  try {
    for (const way of ways) await round(way, 500)
    return await use(round, server)
  } finally {
    await server.stop()
    sink.stop()
  }
}

export async function submission(count: number): Promise<void> {
  const ways = Object.keys(WAYS) as Way[]
  const absent = missing()
  const wireBytes = mailText(0).split('\r\n\r\n').slice(1).join('\r\n\r\n').length
  const medians = await withWays(ways, (round) =>
    inTurn<Record<string, () => Promise<Round>>>(ROUNDS, {
      ...Object.fromEntries(ways.map((way) => [way, () => round(way, count)])),
      ...(absent.length > 0 ? {} : { postfix_opendkim: () => relayed(count, { wireBytes }) }),
    }),
  )
  for (const [way, round] of Object.entries(medians)) {
    tell(BENCH, way, round)
    if (way !== 'smtp') figure(BENCH, `ratio_to_${way}`, medians['smtp']!.perSecond / round.perSecond, 'times')
  }
  if (absent.length > 0) figure(BENCH, 'postfix_opendkim', `not installed: ${absent.join(', ')}`, '')
  await withWays(['smtp', 'post'], async (_, server) => {
    await idle(server)
    await storm(server)
  })
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

/** Opens 200 connections per second in a separate process until it is ended. `greeted` is how many got a greeting. */
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

/**
 * The cost of a new connection, and posts at a fixed rate, separately and next to 200 new connections per second, in
 * turn.
 */
async function storm(server: Server): Promise<void> {
  const alone = await storming(server)
  const [first, { mainCpuMs }] = [alone.greeted(), await server.ask('report')]
  await sleep(5000)
  const spent = (await server.ask('report')).mainCpuMs - mainCpuMs
  figure(BENCH, 'main_thread_cpu_per_handshake', spent / (alone.greeted() - first), 'ms')
  await alone.end()
  const paced = async (): Promise<number> => {
    const { latencies } = await post({ ...server, ...POSTING, count: 2000, rate: STORM })
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
