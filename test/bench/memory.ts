// The built executable in a control group with little memory: a campaign, posts of 20 attachments of 1 MB, hostile
// mail, then an idle minute. Only the server is in the group. Load, sink and DNS are outside. Needs root, cgroup v1 or
// v2. POSTRIDER_LIMITS: the limits in MB, 0 for unlimited, one run for each. POSTRIDER_BUILT: the executable.
// POSTRIDER_HOSTILE: the number of hostile messages.
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { startDns } from '../../src/server/sandbox/dns.ts'
import { sandboxZone } from '../../src/server/sandbox/zone.ts'
import { openStore } from '../../src/store/open.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { deliver } from '../kit/sender.ts'
import { configFor } from '../kit/server-process.ts'
import { begin, draft, ended } from './campaign.ts'
import { INBOX, makeInbox } from './inbound.ts'
import { letter } from './large.ts'
import { figure, post, startServer, startSink, type Server, type Sink } from './rig.ts'
import { controlGroup, heapMb, processCpuMs, V1 } from './usage.ts'
import { BUILT } from './watched.ts'

const MB = 1e6
const LIMITS = (process.env['POSTRIDER_LIMITS'] ?? '0,1024,768,512').split(',').map(Number)
const LANES = 4
const POSTS = 20
/** Until the threads have ended and memory was given back (ms). */
const AFTERWARDS = 130_000
/** With this patience (ms) for all of one kind. */
const PATIENCE = 900_000

/** A control group for memory. */
export interface Group {
  /** The file that takes the number of a process. */
  procs: string
  /** All memory of the group now, in bytes. */
  use(): number
  /** Peak of all memory of the group, its part of the page cache included, in bytes. Since the last look. */
  peak(): number
  /** How many processes the kernel ended for lack of memory. */
  killed(): number
  remove(): void
}

export function groupOf(limitMb: number, name = `${limitMb}`): Group {
  const folder = controlGroup('memory', `postrider-bench-${process.pid}-${name}`)
  const file = (name: string): string => join(folder, name)
  const read = (name: string): string => readFileSync(file(name), 'utf8')
  const [limit, use, peak, events] = V1
    ? ['memory.limit_in_bytes', 'memory.usage_in_bytes', 'memory.max_usage_in_bytes', 'memory.oom_control']
    : ['memory.max', 'memory.current', 'memory.peak', 'memory.events']
  if (limitMb > 0) writeFileSync(file(limit!), `${limitMb * 1024 * 1024}`)
  return {
    procs: file('cgroup.procs'),
    use: () => Number(read(use!)),
    peak() {
      const octets = Number(read(peak!))
      if (V1) writeFileSync(file(peak!), '0')
      return octets
    },
    killed: () => Number(/oom_kill (\d+)/.exec(read(events!))?.[1] ?? 0),
    remove: () => rmdirSync(folder),
  }
}

export interface Built extends Server {
  child: ChildProcess
  /** All that it wrote. */
  output: () => string
}

/** Starts the executable inside the group, and waits until it is ready. */
export async function startBuilt(
  config: string,
  group: Group,
  { program = BUILT, ...facts }: Pick<Server, 'token' | 'dataDir'> & { program?: string },
): Promise<Built> {
  const command = `echo $$ > ${group.procs}; exec ${program} --config ${config} serve`
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'inherit'], env: SERVER_ENVIRONMENT })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  let line: string | undefined
  while (line === undefined) {
    if (child.exitCode !== null) throw new Error(`the server ended: ${output}`)
    await sleep(5)
    line = output.split('\n').find((text) => text.includes('"event":"server_ready"'))
  }
  const { http, smtp } = JSON.parse(line) as { http: string; smtp: string[] }
  const portOf = (address: string): number => Number(/:(\d+)\/?$/.exec(address)![1])
  const gone = new Promise((resolve) => child.once('exit', resolve))
  return {
    ...facts,
    child,
    output: () => output,
    pid: child.pid!,
    port: portOf(http),
    smtpPort: portOf(smtp[0]!),
    ask: () => Promise.reject(new Error('The executable answers no questions.')),
    async stop() {
      child.kill('SIGTERM')
      await gone
    },
  }
}

interface Usage {
  rss: number
  anonymous: number
  /** Of the main area of malloc. */
  heap: number
  peakRss: number
  cpuMs: number
}

export function usageOf({ pid }: Pick<Built, 'pid'>): Usage {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const of = (name: string): number => (Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(status)?.[1]) * 1024) / MB
  return {
    rss: of('VmRSS'),
    anonymous: of('RssAnon'),
    heap: heapMb(pid),
    peakRss: of('VmHWM'),
    cpuMs: processCpuMs(pid),
  }
}

/** Runs `work`, which is `count` emails, and prints its cost. */
async function measured(
  bench: string,
  name: string,
  count: number,
  server: Built,
  group: Group,
  work: () => Promise<unknown>,
) {
  group.peak()
  // The peak of RSS is counted from here on (proc(5), clear_refs).
  writeFileSync(`/proc/${server.pid}/clear_refs`, '5')
  const { cpuMs } = usageOf(server)
  const start = performance.now()
  const ended = new Promise<never>((_, reject) =>
    server.child.once('exit', (code, signal) => reject(new Error(`the server ended with ${signal ?? code}`))),
  )
  await Promise.race([work(), ended])
  const seconds = (performance.now() - start) / 1000
  const usage = usageOf(server)
  figure(bench, `${name}_mails`, count / seconds, '1/s')
  figure(bench, `${name}_cpu`, (usage.cpuMs - cpuMs) / count, 'ms')
  figure(bench, `${name}_peak_rss`, usage.peakRss, 'MB')
  figure(bench, `${name}_group_peak`, group.peak() / MB, 'MB')
}

async function until(what: string, done: () => boolean): Promise<void> {
  const limit = performance.now() + PATIENCE
  while (!done()) {
    if (performance.now() > limit) throw new Error(`not in time: ${what}`)
    await sleep(20)
  }
}

async function hostileMail(server: Built): Promise<void> {
  const { hostile } = await import('../hostile/mails.ts')
  const mails = hostile()[Symbol.iterator]()
  const lane = async (): Promise<void> => {
    for (let next = mails.next(); !next.done; next = mails.next())
      await deliver(
        { host: '127.0.0.1', port: server.smtpPort },
        { from: 'eve@there.test', to: INBOX, message: next.value },
      )
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  const database = new Database(join(server.dataDir, 'postrider.db'), { readonly: true })
  try {
    const waiting = database.prepare('select message_key from inbound_waiting limit 1')
    await until('all hostile mail read', () => waiting.get() === undefined)
    const counts = database
      .prepare('select coalesce(reason, status) as what, count(*) as count from inbound_emails group by 1')
      .all() as { what: string; count: number }[]
    figure('memory', 'hostile_ended', counts.map(({ what, count }) => `${what} ${count}`).join(', '), '')
  } finally {
    database.close()
  }
}

async function run(limitMb: number, count: number, hostile: number, sink: Sink): Promise<void> {
  const bench = limitMb > 0 ? `memory_${limitMb}_mb` : 'memory_no_limit'
  const dataDir = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-memory-'))
  const setUp = await startServer(sink.port, { data_dir: dataDir })
  const { token } = setUp
  await makeInbox(setUp)
  const { id } = await draft(setUp, count)
  await setUp.stop()
  const store = openStore(dataDir)
  const dns = await startDns(sandboxZone(() => store))
  const group = groupOf(limitMb)
  const config = configFor(dataDir, dns, `[delivery]\nport = ${sink.port}\n`)
  const server = await startBuilt(config, group, { token, dataDir })
  try {
    await sleep(6000)
    const idle = usageOf(server)
    figure(bench, 'idle_rss', idle.rss, 'MB')
    figure(bench, 'idle_anonymous', idle.anonymous, 'MB')
    const before = sink.count()
    await measured(bench, 'campaign', count, server, group, async () => {
      await begin(server, id)
      await until('campaign at the sink', () => sink.count() >= before + count)
      await ended(server, id)
    })
    const twenty = letter(1, POSTS, 1024 * 1024)
    await measured(bench, 'attachments', POSTS, server, group, async () => {
      await post({ ...server, count: POSTS, posters: 2, body: () => twenty })
      await until('attachments at the sink', () => sink.count() >= before + count + POSTS)
    })
    await measured(bench, 'hostile', hostile, server, group, () => hostileMail(server))
    await sleep(AFTERWARDS)
    const after = usageOf(server)
    figure(bench, 'idle_after_rss', after.rss, 'MB')
    figure(bench, 'idle_after_anonymous', after.anonymous, 'MB')
  } finally {
    figure(bench, 'killed', group.killed(), '')
    const warned = [...server.output().matchAll(/"event":"([^"]+)".*"level":"(?:warn|error)"/g)].map(
      ([, event]) => event,
    )
    const events = Object.entries(Object.groupBy(warned, (event) => event ?? ''))
    figure(bench, 'warnings', events.map(([event, all]) => `${event} ${all?.length}`).join(', '), '')
    await server.stop()
    await dns.close()
    store.close()
    group.remove()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

export async function memory(count: number): Promise<void> {
  if (process.getuid?.() !== 0 || !existsSync(BUILT))
    return figure('memory', 'campaign', 'not measured: run npm run build, and this as root', '')
  process.env['POSTRIDER_HOSTILE'] ??= '2000'
  const hostile = Number(process.env['POSTRIDER_HOSTILE'])
  for (const limit of LIMITS) {
    const sink = await startSink()
    try {
      await run(limit, count, hostile, sink)
    } catch (thrown) {
      figure('memory', `failed_at_${limit}_mb`, String(thrown), '')
    } finally {
      sink.stop()
    }
  }
}
