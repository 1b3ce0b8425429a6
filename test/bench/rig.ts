// The shared parts of the benchmarks: the server in a separate process, a sink that counts, and posters on raw sockets,
// so that the load costs little compared to the measured work.
import { fork, spawn, spawnSync, type ChildProcess, type ForkOptions } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import type { Profile } from './profile.ts'
import type { ConfigInput } from '../../src/base/config.ts'

/** The domain whose receiving server the benchmark's DNS puts on 127.0.0.2. */
export const TARPIT = 'tarpit.example'

export interface Report {
  cpuMs: number
  /** Of the main thread only. */
  mainCpuMs: number
  /** How long the main thread was not idle. */
  mainBusyMs: number
  loopP99Ms: number
  loopMaxMs: number
  rssMb: number
  peakRssMb: number
  /** The cost of each statement since the last reset, by its text. */
  statements: Record<string, Cost>
  /** The reply to 'top'. */
  profile: Profile
}

/** How often a statement ran, and the rows that it returned and changed. */
export interface Cost {
  calls: number
  read: number
  written: number
}

export interface Server {
  pid: number
  port: number
  smtpPort: number
  /** HTTPS, or undefined if not configured. */
  tlsPort?: number
  /** Submission with TLS from the first byte, or undefined if not configured. */
  submissionPort?: number
  token: string
  dataDir: string
  ask(message: 'report' | 'reset' | 'profile' | 'top'): Promise<Report>
  stop(): Promise<void>
}

/** How a child of Node is started that may only run on some cores ("0", "0,1"), from its first thread on. */
const pinned = (cores: string | undefined): ForkOptions =>
  cores === undefined ? {} : { execPath: '/usr/bin/taskset', execArgv: ['-c', cores, process.execPath] }

export async function startServer(sinkPort: number, config: ConfigInput = {}, cores?: string): Promise<Server> {
  const dataDir = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-bench-'))
  const input: ConfigInput = {
    hostname: 'mx.bench.example',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0' },
    smtp: { listen: ['127.0.0.1:0'] },
    delivery: { port: sinkPort },
    network: { allow_private: ['127.0.0.0/8'] },
    api: { rate_limit: 0 },
    ...config,
  }
  const child = fork(new URL('server.ts', import.meta.url), [JSON.stringify(input)], pinned(cores))
  child.setMaxListeners(0)
  const message = (): Promise<never> =>
    new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('the server ended'))
      child.once('exit', ended)
      child.once('message', (value) => {
        child.off('exit', ended)
        resolve(value as never)
      })
    })
  const facts = (await message()) as Pick<Server, 'port' | 'smtpPort' | 'tlsPort' | 'submissionPort' | 'token'>
  return {
    pid: child.pid!,
    ...facts,
    dataDir,
    ask(question) {
      const answer = message()
      child.send(question)
      return answer
    },
    async stop() {
      const gone = new Promise((resolve) => child.once('exit', resolve))
      child.send('stop')
      await gone
      rmSync(dataDir, { recursive: true, force: true })
    },
  }
}

export interface Sink {
  port: number
  count(): number
  /** Of its process, if it has a separate one. */
  pid?: number
  stop(): void
}

/** Until an email that has not arrived will not arrive (ms). */
const PATIENCE = 120_000
const SMTP_SINK = '/usr/sbin/smtp-sink'

/** Waits until so many emails have arrived at a sink. `more` (ms) is patience beyond the usual. */
export async function arrived(sink: Sink, count: number, more = 0): Promise<void> {
  const start = performance.now()
  while (sink.count() < count) {
    if (performance.now() - start > PATIENCE + more) throw new Error(`${sink.count()} of ${count} mails at the sink`)
    await sleep(2)
  }
}

/** Debian's smtp-sink if it is installed (the peer's sink too), otherwise our own that does the same. */
export async function startSink(): Promise<Sink> {
  return existsSync(SMTP_SINK) && process.getuid?.() === 0 ? debianSink() : ownSink()
}

async function freePort(): Promise<number> {
  const probe = createServer()
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve))
  const { port } = probe.address() as AddressInfo
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function debianSink(): Promise<Sink> {
  const port = await freePort()
  const child: ChildProcess = spawn(SMTP_SINK, ['-c', '-u', 'nobody', `127.0.0.1:${port}`, '1000'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let tail = ''
  child.stdout!.on('data', (chunk: Buffer) => (tail = (tail + chunk.toString('latin1')).slice(-200)))
  await sleep(300)
  return {
    port,
    count: () => Number(/.*mesg=(\d+)/s.exec(tail)?.[1] ?? 0),
    pid: child.pid!,
    stop: () => void child.kill('SIGKILL'),
  }
}

/** Our own sink, in this process. `heard` gets each message when it has arrived. */
export async function ownSink(heard: (message: string) => void = () => {}): Promise<Sink> {
  let count = 0
  const server = createServer((socket) => {
    let data = false
    let rest = ''
    socket.on('error', () => {}).write('220 sink\r\n')
    socket.on('data', (chunk: Buffer) => {
      rest += chunk.toString('latin1')
      for (;;) {
        const end = data ? rest.indexOf('\r\n.\r\n') : rest.indexOf('\r\n')
        if (end < 0) return
        const line = rest.slice(0, end)
        rest = rest.slice(end + (data ? 5 : 2))
        if (data) {
          data = false
          count++
          heard(line)
          socket.write('250 ok\r\n')
        } else if (/^EHLO/i.test(line)) socket.write('250-sink\r\n250 PIPELINING\r\n')
        else if (/^DATA/i.test(line)) {
          data = true
          socket.write('354 go\r\n')
        } else socket.write(/^QUIT/i.test(line) ? '221 bye\r\n' : '250 ok\r\n')
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    count: () => count,
    stop: () => void server.close(),
  }
}

/** The body of a posted mail: about 4 KB of html, without a text unless `more` has one. */
export const mailBody = (index: number, more: Record<string, unknown> = {}): string =>
  JSON.stringify({
    data: {
      type: 'outbound-emails',
      attributes: {
        from: 'hello@bench.example',
        to: `reader${index}@receiver.example`,
        subject: `Mail ${index}`,
        html: html(index),
        ...more,
      },
    },
  })

export interface Posted {
  /** Milliseconds of each 201, in order of arrival. */
  latencies: number[]
  wallMs: number
}

export interface Posting {
  port: number
  token: string
  count: number
  /** Connections, each with one request in progress. */
  posters: number
  body: (index: number) => string
  /** The whole request for a body. A post to the API by default. */
  request?: (token: string, body: string) => string
  /** Whether the port speaks TLS. Handshakes are not in the time. */
  tls?: true
  /** Requests per second of all posters together, or absent if as fast as the answers come. */
  rate?: number
}

/** The request that posts an email. */
export const requestOf = (token: string, body: string): string =>
  `POST /api/v1/outbound-emails HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/vnd.api+json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** Posts emails over keep-alive connections. Throws when an answer is not 201, or 200 of a compatibility API. */
export async function post({
  port,
  token,
  count,
  posters,
  body,
  rate,
  request = requestOf,
  tls,
}: Posting): Promise<Posted> {
  const latencies: number[] = []
  let next = 0
  const at = { port, host: '127.0.0.1' }
  const sockets = Array.from({ length: Math.min(posters, count) }, () =>
    tls ? connectTls({ ...at, rejectUnauthorized: false }) : connect({ ...at, noDelay: true }),
  )
  if (tls) await Promise.all(sockets.map((socket) => once(socket.setNoDelay(true), 'secureConnect')))
  const start = performance.now()
  const one = async (socket: Socket): Promise<void> => {
    const answer = answers(socket)
    while (next < count) {
      const index = next++
      if (rate !== undefined) {
        const wait = start + (index / rate) * 1000 - performance.now()
        if (wait > 0) await sleep(wait)
      }
      const text = body(index)
      const at = performance.now()
      socket.write(request(token, text))
      const status = await answer()
      if (status !== '201' && status !== '200') throw new Error(`answer ${status}`)
      latencies.push(performance.now() - at)
    }
  }
  await Promise.all(sockets.map(one))
  const wallMs = performance.now() - start
  for (const socket of sockets) socket.destroy()
  return { latencies, wallMs }
}

/** Reads one HTTP answer after the other off a socket. Only the status is looked at. */
function answers(socket: Socket): () => Promise<string> {
  let buffer = ''
  let waiting: ((status: string) => void) | undefined
  let failed: ((error: Error) => void) | undefined
  socket.on('error', (error) => failed?.(error))
  socket.on('close', () => failed?.(new Error('the server closed the connection')))
  socket.on('data', (chunk: Buffer) => {
    buffer += chunk.toString('latin1')
    const head = buffer.indexOf('\r\n\r\n')
    if (head < 0) return
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(buffer)?.[1] ?? 0)
    if (buffer.length < head + 4 + length) return
    const status = buffer.slice(9, 12)
    buffer = buffer.slice(head + 4 + length)
    waiting?.(status)
  })
  return () =>
    new Promise((resolve, reject) => {
      waiting = resolve
      failed = reject
    })
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}

/** One figure as one line of JSON. */
export function figure(bench: string, name: string, value: number | string, unit: string): void {
  console.log(
    JSON.stringify({ bench, name, value: typeof value === 'number' ? Number(value.toPrecision(4)) : value, unit }),
  )
}

export const installed = (program: string): boolean => spawnSync('which', [program]).status === 0

/** About 4 KB of HTML with a unique word for each email. */
export function html(index: number, bytes = 4096): string {
  const line = '<p>Hello there, this is a line of text in an html mail, as people write them.</p>\n'
  return `<html><body><h1>Mail ${index}</h1>\n${line.repeat(Math.floor(bytes / line.length))}</body></html>`
}
