// Twenty instances of the built executable on one machine, each in its own control groups, as the template unit starts
// them. First their memory when all are idle. Then one sends a campaign, one receives as many messages as it accepts,
// and the others send single emails: how long until those are accepted and have arrived. As root, after npm run build.
import { cpSync, existsSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startDns } from '../../src/server/sandbox/dns.ts'
import { sandboxZone } from '../../src/server/sandbox/zone.ts'
import { openStore } from '../../src/store/open.ts'
import { deliver } from '../kit/sender.ts'
import { configFor } from '../kit/server-process.ts'
import { begin, draft, ended } from './campaign.ts'
import { INBOX, makeInbox } from './inbound.ts'
import { groupOf, startBuilt, usageOf, type Built, type Group } from './memory.ts'
import { figure, mailBody, ownSink, percentile, post, startServer, startSink } from './rig.ts'
import { controlGroup, sharedMb, V1 } from './usage.ts'
import { BUILT } from './watched.ts'

const BENCH = 'instances'
const COUNT = 20
const MB = 1e6
/** All have released the memory of their start by then, on a busy machine too: they look once a minute (ms). */
const IDLE = 75_000
/** Connections of the flood at a time. */
const FLOOD = 10
/** Between two emails of one instance (ms). */
const PAUSE = 1000
const PATIENCE = 60_000

interface Instance {
  server: Built
  group: Group
  close: () => Promise<void>
}

export async function instances(recipients: number): Promise<void> {
  if (process.getuid?.() !== 0 || !existsSync(BUILT))
    return figure(BENCH, 'idle_group', 'not measured: run npm run build, and this as root', '')
  const place = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-instances-'))
  const arrivals = new Map<string, (at: number) => void>()
  const single = await ownSink((message) => {
    const at = performance.now()
    arrivals.get(/^Subject: (.+?)\r$/m.exec(message)?.[1] ?? '')?.(at)
  })
  const bulk = await startSink()
  const first = join(place, '0')
  const setUp = await startServer(bulk.port, { data_dir: first })
  const { token } = setUp
  await makeInbox(setUp)
  await setUp.stop()
  // A copy would hold its queue.
  rmSync(join(first, 'serving.json'), { force: true })
  for (let index = 1; index < COUNT; index++) cpSync(first, join(place, `${index}`), { recursive: true })
  const store = openStore(first)
  const dns = await startDns(sandboxZone(() => store))
  const all: Instance[] = []
  figure(BENCH, 'load_of_the_machine_before', loadavg()[0]!, '')
  try {
    for (let index = 0; index < COUNT; index++) {
      const dataDir = join(place, `${index}`)
      const delivery = `[delivery]\nport = ${(index === 0 ? bulk : single).port}\n[warmup]\nenabled = false\n`
      all.push(await startInstance(`${index}`, configFor(dataDir, dns, delivery), { token, dataDir }))
    }
    await sleep(IDLE)
    const sum = (of: (each: Instance) => number): number => all.reduce((total, each) => total + of(each), 0)
    figure(BENCH, 'idle_group', sum(({ group }) => group.use()) / MB, 'MB')
    figure(
      BENCH,
      'idle_rss',
      sum(({ server }) => usageOf(server).rss),
      'MB',
    )
    figure(
      BENCH,
      'idle_anonymous',
      sum(({ server }) => usageOf(server).anonymous),
      'MB',
    )
    figure(
      BENCH,
      'idle_pss',
      sum(({ server }) => sharedMb(server.pid)),
      'MB',
    )
    const servers = all.map(({ server }) => server)
    await singles('quiet', servers.slice(2), arrivals, sleep(20_000))
    await busy(servers, arrivals, recipients)
    figure(BENCH, 'busy_group', sum(({ group }) => group.use()) / MB, 'MB')
  } finally {
    for (const each of all) await each.close()
    await dns.close()
    store.close()
    for (const sink of [single, bulk]) sink.stop()
    rmSync(place, { recursive: true, force: true })
  }
}

/** Starts one in groups for memory and CPU time, whose shares are equal, as systemd sets them for CPUWeight=100. */
async function startInstance(name: string, config: string, facts: Parameters<typeof startBuilt>[2]): Promise<Instance> {
  const group = groupOf(0, name)
  const server = await startBuilt(config, group, facts)
  const cpu = V1 ? controlGroup('cpu', `postrider-bench-${process.pid}-${name}`) : undefined
  if (cpu !== undefined) writeFileSync(join(cpu, 'cgroup.procs'), `${server.pid}`)
  return {
    server,
    group,
    async close() {
      await server.stop()
      group.remove()
      if (cpu !== undefined) rmdirSync(cpu)
    },
  }
}

/** A campaign of the first and a flood at the second, next to the single emails of the others. */
async function busy(
  [sending, flooded, ...others]: readonly Built[],
  arrivals: Map<string, (at: number) => void>,
  recipients: number,
): Promise<void> {
  const { id } = await draft(sending!, recipients)
  const start = performance.now()
  await begin(sending!, id)
  const campaign = ended(sending!, id)
  let over = false
  const until = campaign.finally(() => (over = true))
  let received = 0
  const lane = async (): Promise<void> => {
    while (!over) {
      const at = { host: '127.0.0.1', port: flooded!.smtpPort }
      await deliver(at, { from: 'eve@there.test', to: INBOX }).catch(() => sleep(100))
      received++
    }
  }
  await Promise.all([singles('busy', others, arrivals, until), ...Array.from({ length: FLOOD }, lane)])
  const seconds = (performance.now() - start) / 1000
  figure(BENCH, 'campaign', recipients / seconds, 'emails/s')
  figure(BENCH, 'flood', received / seconds, 'messages/s')
}

/** Each server sends one email after the other until `end`. Prints how long they took until the 201 and the arrival. */
async function singles(
  name: string,
  servers: readonly Built[],
  arrivals: Map<string, (at: number) => void>,
  end: Promise<unknown>,
): Promise<void> {
  // The first email of each starts its threads.
  const [first, accepted, arrived]: [number[], number[], number[]] = [[], [], []]
  let over = false
  void end.finally(() => (over = true))
  const one = async (server: Built, lane: number): Promise<void> => {
    for (let index = 0; !over; index++) {
      const subject = `${name} ${lane} ${index}`
      const { promise, resolve } = Promise.withResolvers<number>()
      arrivals.set(subject, resolve)
      const at = performance.now()
      const posted = await post({ ...server, count: 1, posters: 1, body: () => mailBody(index, { subject }) })
      const late = sleep(PATIENCE, at + PATIENCE, { ref: false })
      const took = (await Promise.race([promise, late])) - at
      if (index === 0) first.push(took)
      else {
        accepted.push(...posted.latencies)
        arrived.push(took)
      }
      arrivals.delete(subject)
      await sleep(PAUSE)
    }
  }
  await Promise.all(servers.map(one))
  figure(BENCH, `${name}_emails`, arrived.length, '')
  for (const [what, times] of Object.entries({ first, accepted, arrived }))
    for (const part of [0.5, 0.99, 1]) figure(BENCH, `${name}_${what}_p${part * 100}`, percentile(times, part), 'ms')
}
