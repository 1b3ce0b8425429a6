// A failover pair (docs/high-availability.md) in namespaces, with a volume that keeps only what was synced: crashes,
// a volume that fails, a volume that is attached twice, and handovers, under load. POSTRIDER_PAIR sets the number of
// crashes, failures and handovers, such as "20,10,50".
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, test, type TestContext } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { seeded } from '../kit/seeded.ts'
import { inOwnNetwork } from './guide/network.ts'
import { becomes, program } from './rig/machine.ts'
import { withPrograms } from './rig/need.ts'
import { ADDRESS, PairWorld } from './rig/pair-world.ts'
import { PairMachine } from './rig/pair.ts'
import { Sandbox } from './rig/sandbox.ts'

const [CRASHES = 2, FAILURES = 1, HANDOVERS = 4] = (process.env['POSTRIDER_PAIR'] ?? '')
  .split(',')
  .filter(Boolean)
  .map(Number)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** A round lasts until so many promises were given, drawn again each time. */
const MOST = 200
const SECOND = 1000

const PROGRAMS = ['ip', 'losetup', 'mkfs.ext4', 'nsenter', 'unshare', 'python3', 'strace']
const absent = [
  ...PROGRAMS.filter((name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0),
  ...(process.getuid?.() === 0 ? [] : ['the right to mount (root)']),
]
const within = absent.length > 0 || (await inOwnNetwork(import.meta.filename, async () => {}))

const PLACES = {
  one: { address: '192.31.196.11', id: '1'.repeat(32) },
  two: { address: '192.31.196.12', id: '2'.repeat(32) },
} as const

if (within)
  withPrograms('a failover pair', absent, () => {
    let box: Sandbox
    let world: PairWorld
    let round = 0
    const random = seeded(SEED)
    const machines = new Set<PairMachine>()
    /** The machine that serves, and the other one. */
    let active: PairMachine
    let passive: PairMachine

    async function boot(name: keyof typeof PLACES): Promise<PairMachine> {
      const { first, program: file } = program()
      const own = [file, ...first, '--config', world.config]
      const machine = await PairMachine.boot({ box, name, ...PLACES[name], program: own })
      machines.add(machine)
      return machine
    }

    /** Gives the volume and the address to the passive machine, whose standby serves. Returns the time of the mount. */
    function takeOver(): number {
      world.volume.attach(passive)
      const mounted = performance.now()
      passive.addAddress(ADDRESS)
      ;[active, passive] = [passive, active]
      return mounted
    }

    /** Loads the server until a random number of emails is accepted. */
    async function underLoad(): Promise<void> {
      world.work(++round)
      await world.promised(round, 1 + Math.floor(random() * MOST))
      // Between two commits, or in the middle of one.
      await pause(random() * 30)
    }

    /** The number of duplicates at most: of emails without an outcome when a machine was lost. */
    const settled = new Map<string, number>()
    function noteSettled(): void {
      for (const to of world.settled()) if (!settled.has(to)) settled.set(to, world.copies.get(to)?.length ?? 0)
    }

    /** Checks that no promise is lost, and that only emails without an outcome were sent twice. Returns a summary. */
    async function checked(): Promise<string> {
      await world.rest(round)
      const twice = await world.delivered()
      const messages = await world.received()
      for (const [to, count] of settled) assert.equal(world.copies.get(to)?.length ?? 0, count, `${to} had an outcome`)
      for (const [to, copies] of world.copies)
        assert.equal(new Set(copies.map(({ id }) => id)).size, 1, `${to}: one Message-ID`)
      const posts = world.promises().filter(({ kind }) => kind === 'post').length
      return `${posts} emails and ${messages} messages accepted, 0 lost, ${twice} sent twice`
    }

    const seconds = (ms: number): string => (ms / SECOND).toFixed(1)
    const table = (t: TestContext, name: string, times: number[]): void => {
      const sorted = times.toSorted((a, b) => a - b)
      const at = (part: number): string => seconds(sorted[Math.floor(part * (sorted.length - 1))]!)
      t.diagnostic(`${name}: median ${at(0.5)} s, longest ${at(1)} s (${times.length})`)
    }

    before(async () => {
      box = new Sandbox('pair')
      world = await PairWorld.make(box)
      active = await boot('one')
      passive = await boot('two')
      world.volume.attach(active)
      active.addAddress(ADDRESS)
      active.standBy()
      passive.standBy()
      await world.serves(active)
    })
    after(async () => {
      for (const machine of machines) await machine.stop()
      await world?.close()
      await box?.close()
    })

    test(`after ${CRASHES} crashes under load, the other machine serves and every accepted email exists`, async (t) => {
      const sinceCrash: number[] = []
      const sinceMount: number[] = []
      const waited: number[] = []
      for (let n = 0; n < CRASHES; n++) {
        // The first takeover waits until the other machine is certainly gone. In the others it is known to be off.
        const fenced = n > 0
        await passive.end()
        passive.standBy(...(fenced ? ['--fenced'] : []))
        await becomes(() => passive.runs.at(-1)!.said.includes('standing_by'), 'the standby')
        await underLoad()
        const fail = await world.volume.armed(active)
        const crashed = performance.now()
        const gone = active.crash()
        await fail()
        await gone
        machines.delete(active)
        world.volume.renew()
        noteSettled()
        const { name } = active
        const mounted = takeOver()
        world.work(++round)
        const first = await world.promised(round)
        assert.ok(first - crashed < 60 * SECOND, `${first - crashed} ms`)
        if (fenced) assert.ok(first - mounted < 10 * SECOND, `${first - mounted} ms`)
        ;(fenced ? sinceMount : waited).push(first - mounted)
        sinceCrash.push(first - crashed)
        passive = await boot(name as keyof typeof PLACES)
        passive.standBy()
      }
      t.diagnostic(await checked())
      table(t, 'first 201 after the crash', sinceCrash)
      table(t, 'first 201 after the mount without --fenced', waited)
      if (sinceMount.length > 0) table(t, 'first 201 after the mount with --fenced', sinceMount)
    })

    test(`a server whose volume fails ends within 20 s and sends nothing more, ${FAILURES} times`, async (t) => {
      const ends: number[] = []
      for (let n = 0; n < FAILURES; n++) {
        await passive.end()
        passive.standBy('--fenced')
        await underLoad()
        const fail = await world.volume.armed(active)
        // Half of the time with the link: a network volume was detached, and the machine still reaches everything.
        const cut = n % 2 === 0
        const server = active.runs.at(-1)!
        if (cut) active.link('down')
        const failed = performance.now()
        await fail()
        const { at } = await becomes(
          () => server.ended,
          () => `the end of ${active.name}: ${server.said}`,
          20 * SECOND,
        )
        ends.push(at - failed)
        // Its standby starts again, and must not serve from what it still has.
        const sent = (): number => [...world.copies.values()].flat().filter((each) => each.at > at + 100).length
        const before = sent()
        await pause(3 * SECOND)
        assert.equal(sent(), before, 'sent after the end')
        assert.ok(!active.runs.slice(active.runs.indexOf(server) + 1).some(({ said }) => said.includes('server_ready')))
        // The hook of keepalived does this.
        active.do('umount', '--lazy', world.volume.directory)
        active.removeAddress(ADDRESS)
        active.link('up')
        world.volume.renew()
        noteSettled()
        const mounted = takeOver()
        world.work(++round)
        assert.ok((await world.promised(round)) - mounted < 10 * SECOND)
      }
      t.diagnostic(await checked())
      table(t, 'end of the server after the failure', ends)
    })

    test('a standby with the volume of a server that runs exits with 75, and writes nothing to it', async () => {
      await passive.end()
      world.volume.share(passive)
      const trace = box.path('trace')
      const calls = '-e',
        writes = 'trace=openat,open,creat,pwrite64,write,pwritev,rename,unlink,mkdir,ftruncate'
      const { run } = passive.begin('strace', '-f', '-y', calls, writes, '-o', trace, ...passive.program, 'standby')
      const { code } = await becomes(() => run.ended, 'the end of the standby', 30 * SECOND)
      assert.equal(code, 75, run.said)
      assert.match(run.said, /Another server \(\w+\) used .* stop that server/)
      const touched = readFileSync(trace, 'utf8')
        .split('\n')
        .filter((line) => line.includes(world.volume.directory))
        .filter((line) => !/openat\(.*O_RDONLY/.test(line) || line.includes('O_CREAT'))
      assert.deepEqual(touched, [])
      const serve = await passive.postrider('serve')
      assert.equal(serve.code, 75, serve.said)
      world.volume.detach(passive)
      passive.standBy()
      world.work(++round)
      await world.promised(round)
      await checked()
    })

    test(`${HANDOVERS} handovers under load lose no email, send none twice, and pause for less than 15 s`, async (t) => {
      const duplicates = [...world.copies.values()].filter(({ length }) => length > 1).length
      const pauses: number[] = []
      world.work(++round)
      for (let n = 0; n < HANDOVERS; n++) {
        const promised = world.given.get(round)?.count ?? 0
        await world.promised(round, promised + 1 + Math.floor(random() * MOST))
        world.forgetPauses()
        await becomes(() => passive.runs.at(-1)!.said.includes('standing_by'), 'the standby')
        const ran = await active.postrider('handover')
        assert.equal(ran.code, 0, ran.said)
        world.volume.detach(active)
        active.removeAddress(ADDRESS)
        takeOver()
        await world.serves(active)
        const count = world.given.get(round)!.count
        await world.promised(round, count + 1)
        pauses.push(world.longest)
        assert.ok(world.longest < 15 * SECOND, `${world.longest} ms`)
      }
      t.diagnostic(await checked())
      assert.equal([...world.copies.values()].filter(({ length }) => length > 1).length, duplicates, 'sent twice')
      table(t, 'pause of a handover', pauses)
    })
  })
