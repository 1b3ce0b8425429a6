// The memory budget (D131) of an idle server, and that it runs in small control groups without losing an email. Only
// for the executable, because running from sources uses more memory.
import assert from 'node:assert/strict'
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { besideServer } from '../../src/server/beside.ts'
import { fillUp } from '../bench/bulk.ts'
import { begin, draft } from '../bench/campaign.ts'
import { controlGroup, costOf, heapMb, ownMb, V1 } from '../bench/usage.ts'
import { codeOf } from '../../src/base/errors.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { until } from '../kit/until.ts'
import { becomes, Machine, type Serving } from './rig/machine.ts'
import { passBy } from './rig/need.ts'

const BUILT = join(import.meta.dirname, '../../dist/postrider')
const MB = 1024 * 1024
/** What an idle server gives back three seconds after its start is gone by then (ms). */
const IDLE = 9000
/** Octets of a database that a stream's buffers would show with. */
const LARGE = 300e6

interface Group {
  start(machine: Machine): Promise<Serving>
  /** Its own use, and the most of it so far, its part of the page cache included, in bytes. */
  use(): number
  peak(): number
  killed(): number
}

/** A control group with a limit in MB; undefined where none can be made. */
function groupOf(limitMb: number): (Group & { folder: string }) | undefined {
  try {
    const folder = controlGroup('memory', `postrider-test-${process.pid}-${limitMb}`)
    const [limit, use, peak, events] = V1
      ? ['memory.limit_in_bytes', 'memory.usage_in_bytes', 'memory.max_usage_in_bytes', 'memory.oom_control']
      : ['memory.max', 'memory.current', 'memory.peak', 'memory.events']
    writeFileSync(join(folder, limit!), `${limitMb * MB}`)
    const read = (name: string): string => readFileSync(join(folder, name), 'utf8')
    return {
      folder,
      async start(machine) {
        const server = machine.begin(['sh', '-c', `echo $$ > ${join(folder, 'cgroup.procs')}; exec "$0" "$@"`])
        assert.ok(await server.ready(60_000), server.said)
        return server
      },
      use: () => Number(read(use!)),
      peak: () => Number(read(peak!)),
      killed: () => Number(/oom_kill (\d+)/.exec(read(events!))?.[1] ?? 0),
    }
  } catch {
    return undefined
  }
}

/** Removes a control group. Returns false while a process in it is still ending. */
function isRemoved(folder: string): boolean {
  try {
    rmdirSync(folder)
    return true
  } catch (thrown) {
    if (codeOf(thrown) !== 'EBUSY') throw thrown
    return false
  }
}

async function within(t: TestContext, limitMb: number, work: (machine: Machine, group: Group) => Promise<void>) {
  if (!existsSync(BUILT)) return passBy(t, 'not built: npm run build')
  const group = groupOf(limitMb)
  if (!group) return passBy(t, 'no control group can be made here')
  const machine = await Machine.make()
  try {
    await work(machine, group)
    assert.equal(group.killed(), 0, 'processes that the kernel ended')
  } finally {
    await machine.close()
    await until(() => isRemoved(group.folder), 'the end of all processes in the group')
  }
}

test('an idle server stays within its memory budget', (t) =>
  within(t, 1024, async (machine, group) => {
    const server = await group.start(machine)
    await pause(IDLE)
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
    const anonymous = ownMb(server.pid)
    const arena = heapMb(server.pid)
    const use = group.use() / 1e6
    t.diagnostic(
      `${anonymous} MB of its own, ${arena} of malloc, ${use} MB of the group, ${/VmRSS:.*/.exec(status)![0]}`,
    )
    assert.ok(anonymous <= 62, `${anonymous} MB of its own`)
    assert.ok(arena <= 12, `${arena} MB of malloc's main arena`)
    assert.ok(use <= 75, `${use} MB of the group`)
  }))

test('a command stays within its memory budget', (t) => {
  if (!existsSync(BUILT)) return passBy(t, 'not built: npm run build')
  const folder = mkdtempSync(join(tmpdir(), 'postrider-command-'))
  try {
    // As an installed file: of one that was just linked the system maps 30 MB more at once.
    const program = join(folder, 'postrider')
    copyFileSync(BUILT, program)
    const { peakRssMb } = costOf(program, ['help'], SERVER_ENVIRONMENT)
    t.diagnostic(`${peakRssMb} MB`)
    assert.ok(peakRssMb <= 120, `${peakRssMb} MB`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a backup and a restore of a large database each add less than 125 MB of memory', async (t) => {
  if (!existsSync(BUILT)) return passBy(t, 'not built: npm run build')
  const machine = await Machine.make()
  try {
    const server = await machine.start()
    const { body } = await machine.post(server)
    await becomes(async () => (await machine.show(server, body.data.id)).status === 'delivered', 'the delivery')
    fillUp(machine.dataDir, LARGE)
    const disk = join(machine.folder, 'disk')
    mkdirSync(disk)
    appendFileSync(machine.config, `[backup]\nto = [${JSON.stringify(disk)}]\n`)
    const key = join(machine.folder, 'backup.key')
    writeFileSync(key, (await machine.run('backup', 'key')).stdout.split('\n')[0]!, { mode: 0o600 })
    const backup = besideServer(machine.config, { program: BUILT, first: [] })(['backup', 'now'])
    const made = await anonymousOf(backup)
    assert.deepEqual(await backup.ended, { how: 0, said: '' })
    await server.kill()
    const back = machine.beginOf('restore', '--replace', '--without-ledger', '--identity', key, disk)
    const restored = await anonymousOf({ pid: back.child.pid, ended: back.ended })
    assert.equal(await back.ended, 0, back.said)
    t.diagnostic(`${made} MB for a backup, ${restored} MB for putting it back`)
    assert.ok(made <= 125, `${made} MB for a backup`)
    assert.ok(restored <= 125, `${restored} MB for putting it back`)
  } finally {
    await machine.close()
  }
})

/** The most memory of its own (MB) that a process is seen with. */
async function anonymousOf({ ended, pid }: { pid: number | undefined; ended: Promise<unknown> }): Promise<number> {
  let over = false
  const end = ended.finally(() => (over = true))
  let most = 0
  while (!over) {
    most = Math.max(most, pid === undefined ? 0 : ownMb(pid))
    await Promise.race([pause(10), end])
  }
  return most
}

test('starts, idles and sends an email in 128 MB', (t) =>
  within(t, 128, async (machine, group) => {
    const server = await group.start(machine)
    await pause(IDLE)
    t.diagnostic(`${group.use() / 1e6} MB of the group`)
    const { body, status } = await machine.post(server)
    assert.equal(status, 201)
    await becomes(async () => (await machine.show(server, body.data.id)).status === 'delivered', 'the delivery')
  }))

test('accepts and sends 200 emails once each in 256 MB', (t) =>
  within(t, 256, async (machine, group) => {
    const server = await group.start(machine)
    const ids: string[] = []
    for (let n = 0; n < 200; n += 20)
      for (const { body, status } of await Promise.all(
        Array.from({ length: 20 }, (_, at) => machine.post(server, { to: `n${n + at}@there.test` })),
      )) {
        assert.equal(status, 201)
        ids.push(body.data.id)
      }
    await becomes(() => machine.exchanger.heard.length >= ids.length, 'all mails', 60_000)
    for (const id of ids)
      await becomes(async () => (await machine.show(server, id)).status === 'delivered', `the fate of ${id}`)
    const heard = machine.exchanger.heard.map(({ to }) => to[0]!).sort()
    assert.deepEqual(heard, ids.map((_, n) => `n${n}@there.test`).sort())
    t.diagnostic(`${group.use() / 1e6} MB of the group`)
  }))

test('sends a campaign of 5,000 emails once each in 512 MB', (t) =>
  within(t, 512, async (machine, group) => {
    for (let n = 0; n < 5; n++) machine.dns.set(`d${n}.example`, 'MX', ['10 mx.there.test'])
    const server = await group.start(machine)
    const facts = { port: Number(new URL(server.url).port), token: machine.token }
    const { id } = await draft(facts, 5000)
    await begin(facts, id)
    const sent = async (): Promise<boolean> =>
      (await machine.api(server, 'GET', `/campaigns/${id}`)).body.data.attributes.status === 'sent'
    await becomes(sent, 'the end of the campaign', 120_000)
    const heard = machine.exchanger.heard.map(({ to }) => to[0]!)
    assert.deepEqual([heard.length, new Set(heard).size], [5000, 5000])
    const peak = group.peak() / 1e6
    t.diagnostic(`${peak} MB of the group at most`)
    // What the kernel keeps of files until somebody wants the memory counts too.
    assert.ok(peak <= 240, `${peak} MB of the group`)
  }))
