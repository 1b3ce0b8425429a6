// Events pushed to endpoints on loopback TLS. Server and receiver are separate processes. This file is their program
// too. A delivery's time is from the commit of its event (the payload's timestamp, in ms) to its complete arrival.
import { fork, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { addUser } from '../../src/users/users.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { systemClock } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import { createLog } from '../../src/base/log.ts'
import { createResolver } from '../../src/net/resolver.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { startDns } from '../../src/server/sandbox/dns.ts'
import { appendEvent } from '../../src/store/events.ts'
import { createWebhook } from '../../src/webhooks/endpoints.ts'
import { figure, percentile } from './rig.ts'

const BENCH = 'webhooks'
const HOST = 'hooks.bench.example'
const PROGRAM = fileURLToPath(import.meta.url)

type Ask =
  | { ask: 'hooks'; count: number; url: string; domain?: number }
  | { ask: 'append'; domain: number; events: number }
  | { ask: 'report' }
  | { ask: 'stop' }

/** A child that answers every message with one. */
class Child {
  readonly #process: ChildProcess

  constructor(...argv: string[]) {
    this.#process = fork(PROGRAM, argv)
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  next(): Promise<any> {
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error('a process of the bench ended'))
      this.#process.once('exit', ended)
      this.#process.once('message', (value) => {
        this.#process.off('exit', ended)
        resolve(value)
      })
    })
  }

  // oxlint-disable-next-line typescript/no-explicit-any
  ask(message: Ask): Promise<any> {
    const answer = this.next()
    this.#process.send(message)
    return answer
  }

  async stop(): Promise<void> {
    const gone = new Promise((resolve) => this.#process.once('exit', resolve))
    this.#process.send({ ask: 'stop' })
    await gone
  }
}

interface Arrivals {
  /** Milliseconds from commit to arrival, by path. */
  times: [path: string, milliseconds: number][]
}

/** Answers 200 to everything, and does not answer at /hang. Reports the arrivals since the last query. */
function receiver(certificate: { cert: string; key: string }): void {
  let times: Arrivals['times'] = []
  const server = createServer(certificate, (incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const { timestamp } = JSON.parse(Buffer.concat(chunks).toString()) as { timestamp: string }
      times.push([incoming.url!, Date.now() - Date.parse(timestamp)])
      if (incoming.url !== '/hang') response.writeHead(200).end()
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1', () => process.send!({ port: (server.address() as AddressInfo).port }))
  process.on('message', ({ ask }: Ask) => {
    if (ask === 'stop') process.exit(0)
    process.send!({ times })
    times = []
  })
}

async function server(dataDir: string, caFile: string): Promise<void> {
  const dns = await startDns({ lookUp: (name, type) => (name === HOST && type === 'A' ? ['127.0.0.1'] : undefined) })
  const config = parseConfig({
    hostname: 'mx.bench.example',
    data_dir: dataDir,
    http: { listen: '127.0.0.1:0' },
    network: { allow_private: ['127.0.0.0/8'] },
    dns: { servers: [`127.0.0.1:${dns.port}`] },
    webhooks: { ca_file: caFile },
  })
  // A server writes its log, so this one does too, but discards it.
  const log = createLog({ clock: systemClock, level: 'info', form: 'json', write: () => {} })
  const appliance = await startAppliance({
    config,
    clock: systemClock,
    log,
    resolver: createResolver({ servers: config.dns.servers }),
  })
  const { deps } = appliance
  const user = await addUser(deps, { email: 'bench@bench.example' })
  let domains = 0
  const answer = async (message: Ask): Promise<unknown> => {
    switch (message.ask) {
      case 'hooks': {
        // Events of a domain go to its webhooks: one domain for each group.
        const quiet = { ...deps, ring: () => {} }
        const key =
          message.domain ??
          (await registerDomain(quiet, user.key, { name: `d${++domains}.bench.example`, purpose: 'both' })).key
        const hooks = { ...deps, allowed: deps.fetching.allowed, ring: deps.bells.webhooks }
        for (let n = 0; n < message.count; n++)
          await createWebhook(hooks, user.key, key, {
            name: `hook ${n}`,
            url: message.url.replace('*', String(n)),
            events: ['email.opened'],
          })
        return { domain: key }
      }
      case 'append':
        await deps.store.write((tx) => {
          for (let n = 0; n < message.events; n++)
            appendEvent(tx, {
              type: 'email.opened',
              user_key: user.key,
              domain_key: message.domain,
              data: { n },
              at: systemClock.now(),
            })
        })
        return {}
      case 'report': {
        const { user: us, system } = process.cpuUsage()
        return { cpuMs: (us + system) / 1000, rssMb: process.memoryUsage.rss() / 1e6 }
      }
      case 'stop':
        process.exit(0)
    }
  }
  process.on('message', (message: Ask) => void answer(message).then((value) => process.send!(value)))
  process.send!({ ready: true })
}

interface Rig {
  post: Child
  sink: Child
  url: string
}

async function arrivals({ sink }: Rig, count: number, skip = ''): Promise<number[]> {
  const times: number[] = []
  const end = performance.now() + 120_000
  while (times.length < count) {
    if (performance.now() > end) throw new Error(`${times.length} of ${count} deliveries arrived`)
    await sleep(5)
    const { times: more } = (await sink.ask({ ask: 'report' })) as Arrivals
    for (const [path, milliseconds] of more) if (path !== skip) times.push(milliseconds)
  }
  return times
}

const hooks = async ({ post, url }: Rig, count: number, path = '/in/*'): Promise<number> =>
  ((await post.ask({ ask: 'hooks', count, url: url + path })) as { domain: number }).domain

/** 10,000 deliveries as fast as they go, the events committed by the hundred. */
async function burst(rig: Rig, endpoints: number, deliveries: number): Promise<void> {
  const domain = await hooks(rig, endpoints)
  await rig.post.ask({ ask: 'append', domain, events: 10 })
  await arrivals(rig, 10 * endpoints)
  const before = (await rig.post.ask({ ask: 'report' })) as { cpuMs: number }
  const start = performance.now()
  const events = deliveries / endpoints
  const batch = Math.min(events, 100)
  const appended = (async () => {
    for (let n = 0; n < events; n += batch) await rig.post.ask({ ask: 'append', domain, events: batch })
  })()
  const times = await arrivals(rig, deliveries)
  const wallMs = performance.now() - start
  await appended
  const after = (await rig.post.ask({ ask: 'report' })) as { cpuMs: number; rssMb: number }
  const name = endpoints === 1 ? 'one_endpoint' : `${endpoints}_endpoints`
  figure(BENCH, `${name}_delivered`, (deliveries / wallMs) * 1000, 'deliveries/s')
  figure(BENCH, `${name}_cpu_each`, (after.cpuMs - before.cpuMs) / deliveries, 'ms')
  figure(BENCH, `${name}_burst_p50`, percentile(times, 0.5), 'ms')
  figure(BENCH, `${name}_burst_p99`, percentile(times, 0.99), 'ms')
  figure(BENCH, `${name}_rss`, after.rssMb, 'MB')
}

/** `rate` deliveries per second for a while. Returns their durations. */
async function paced(rig: Rig, domain: number, events: number, rate: number, skip = '', each = 1): Promise<number[]> {
  const start = performance.now()
  const waiting = arrivals(rig, events * each, skip)
  for (let n = 0; n < events; n++) {
    const wait = start + (n / rate) * 1000 - performance.now()
    if (wait > 0) await sleep(wait)
    await rig.post.ask({ ask: 'append', domain, events: 1 })
  }
  return waiting
}

export async function webhooks(): Promise<void> {
  const directory = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-bench-hooks-'))
  const certificate = makeCertificate(HOST, Date.now())
  const caFile = join(directory, 'ca.pem')
  writeFileSync(caFile, certificate.cert)
  const sink = new Child('receiver', JSON.stringify(certificate))
  const { port } = (await sink.next()) as { port: number }
  const post = new Child('server', join(directory, 'data'), caFile)
  try {
    await post.next()
    const rig: Rig = { post, sink, url: `https://${HOST}:${port}` }

    const alone = await hooks(rig, 1)
    await paced(rig, alone, 20, 20)
    const idle = await paced(rig, alone, 60, 20)
    figure(BENCH, 'idle_p50', percentile(idle, 0.5), 'ms')
    figure(BENCH, 'idle_p99', percentile(idle, 0.99), 'ms')

    await burst(rig, 1, 10_000)
    await burst(rig, 100, 10_000)

    // 99 that answer and one that hangs, five events per second for each.
    const mixed = await hooks(rig, 100, '/mixed/*')
    await paced(rig, mixed, 5, 5, '', 100)
    const well = await paced(rig, mixed, 25, 5, '', 100)
    figure(BENCH, '100_endpoints_500_per_s_p50', percentile(well, 0.5), 'ms')
    figure(BENCH, '100_endpoints_500_per_s_p99', percentile(well, 0.99), 'ms')
    const hanging = await hooks(rig, 99, '/beside/*')
    await rig.post.ask({ ask: 'append', domain: hanging, events: 5 })
    await arrivals(rig, 5 * 99)
    await post.ask({ ask: 'hooks', count: 1, url: `${rig.url}/hang`, domain: hanging })
    const others = await paced(rig, hanging, 25, 5, '/hang', 99)
    figure(BENCH, 'one_of_100_hanging_others_p50', percentile(others, 0.5), 'ms')
    figure(BENCH, 'one_of_100_hanging_others_p99', percentile(others, 0.99), 'ms')
  } finally {
    await Promise.all([sink.stop(), post.stop()])
    rmSync(directory, { recursive: true, force: true })
  }
}

if (process.argv[1] === PROGRAM && process.argv[2] === 'receiver')
  receiver(JSON.parse(process.argv[3]!) as { cert: string; key: string })
if (process.argv[1] === PROGRAM && process.argv[2] === 'server') await server(process.argv[3]!, process.argv[4]!)
