// The budget of an idle executable: its start, its memory at rest, a command, and a campaign in a small control group.
// `--before FILE`: another executable, such as the one of an earlier release, in turn with ours. Both start with the
// data of 0.2.0. As root.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SIGN_FILE } from '../../src/base/doubt.ts'
import { startDns, type DnsServer } from '../../src/server/sandbox/dns.ts'
import { sandboxZone } from '../../src/server/sandbox/zone.ts'
import { openStore } from '../../src/store/open.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { releasedData } from '../kit/released.ts'
import { configFor } from '../kit/server-process.ts'
import { begin, draft, ended } from './campaign.ts'
import { groupOf, startBuilt, usageOf, type Built } from './memory.ts'
import { figure, percentile, startSink, type Sink } from './rig.ts'
import { costOf } from './usage.ts'
import { BUILT } from './watched.ts'

const MB = 1e6
/** The server has released the memory of its start by then (ms). */
const IDLE = 6000
const RECIPIENTS = 5000
const LIMIT = 512

type Figures = Record<string, [value: number, unit: string]>

export async function idle(before: string | undefined, rounds: number): Promise<void> {
  if (process.getuid?.() !== 0 || !existsSync(BUILT))
    return figure('idle', 'rss', 'not measured: run npm run build, and this as root', '')
  // As installed files: how much of a file the system maps at once depends on how it was written, by 30 MB.
  const place = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-idle-'))
  const programs = Object.entries({ ...(before === undefined ? {} : { before }), now: BUILT }).map(([side, file]) => {
    const program = join(place, side)
    copyFileSync(file, program)
    return { side, program }
  })
  const all: Record<string, Figures[]> = {}
  const sink = await startSink()
  const known = releasedData('0.2.0').dataDir
  const store = openStore(known)
  const dns = await startDns(sandboxZone(() => store))
  figure('idle', 'load_of_the_machine_before', loadavg()[0]!, '')
  try {
    for (let round = 0; round < rounds; round++)
      for (const { program, side } of programs) (all[side] ??= []).push(await oneRound(program, sink, dns))
  } finally {
    sink.stop()
    await dns.close()
    store.close()
    for (const each of [known, place]) rmSync(each, { recursive: true, force: true })
  }
  for (const [side, each] of Object.entries(all))
    for (const [name, [, unit]] of Object.entries(each[0]!)) {
      const values = each.map((figures) => figures[name]![0])
      figure('idle', `${side}_${name}`, percentile(values, 0.5), unit)
    }
}

async function oneRound(program: string, sink: Sink, dns: DnsServer): Promise<Figures> {
  const dataDir = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-idle-'))
  try {
    releasedData('0.2.0', dataDir)
    // Without a sign of life of today the date is doubted, and no campaign begins (D120).
    writeFileSync(join(dataDir, SIGN_FILE), JSON.stringify({ seen_at: new Date().toISOString() }))
    const config = configFor(
      dataDir,
      dns,
      `[delivery]\nport = ${sink.port}\n${program.endsWith('/before') ? '' : '[warmup]\nenabled = false\n'}`,
    )
    const words = ['--config', config, '--json']
    const run = (...args: string[]): string =>
      execFileSync(program, [...words, ...args], { env: SERVER_ENVIRONMENT, encoding: 'utf8', stdio: 'pipe' })
    run('upgrade')
    const { token } = JSON.parse(
      run('token', 'create', '--user', 'ann@owner.test', '--name', 'bench', '--scopes', 'all', '--duration', '1_month'),
    ) as { token: string }
    const version = costOf(program, ['--version'], SERVER_ENVIRONMENT)
    const command = costOf(program, [...words, 'domain', 'list'], SERVER_ENVIRONMENT)
    const facts = { program, token, dataDir }
    return {
      version_cpu: [version.cpuMs, 'ms'],
      version_peak_rss: [version.peakRssMb, 'MB'],
      command_cpu: [command.cpuMs, 'ms'],
      command_peak_rss: [command.peakRssMb, 'MB'],
      // First the queued email in the data, and the campaign, so that a start has no email to send.
      ...(await within(LIMIT, config, facts, (server, group) => campaign(server, group, sink))),
      ...(await within(0, config, facts, atRest)),
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

type Group = ReturnType<typeof groupOf>

/** Work with a server in a separate group. Also returns how long its start took. */
async function within(
  limitMb: number,
  config: string,
  facts: Parameters<typeof startBuilt>[2],
  work: (server: Built, group: Group) => Promise<Figures>,
): Promise<Figures> {
  const group = groupOf(limitMb)
  const began = performance.now()
  const server = await startBuilt(config, group, facts)
  const ready = performance.now() - began
  try {
    return { ...(limitMb === 0 ? { ready: [ready, 'ms'] } : {}), ...(await work(server, group)) }
  } finally {
    await server.stop()
    group.remove()
  }
}

async function atRest(server: Built, group: Group): Promise<Figures> {
  const { cpuMs } = usageOf(server)
  await sleep(IDLE)
  const { anonymous, heap, rss } = usageOf(server)
  return {
    cpu_until_ready: [cpuMs, 'ms'],
    rss: [rss, 'MB'],
    anonymous: [anonymous, 'MB'],
    heap: [heap, 'MB'],
    group: [group.use() / MB, 'MB'],
  }
}

async function campaign(server: Built, group: Group, sink: Sink): Promise<Figures> {
  const { id } = await draft(server, RECIPIENTS)
  const before = sink.count()
  group.peak()
  await begin(server, id)
  await ended(server, id)
  return {
    campaign_arrived: [sink.count() - before, ''],
    campaign_peak_rss: [usageOf(server).peakRss, 'MB'],
    campaign_group_peak: [group.peak() / MB, 'MB'],
    campaign_killed: [group.killed(), ''],
  }
}
