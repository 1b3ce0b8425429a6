// A failover pair: when a standby starts the server, what it takes over, when a server stops, and the commands for it
// (docs/high-availability.md).
import assert from 'node:assert/strict'
import { mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseConfig } from '../../src/base/config.ts'
import { OperatorError, TryAgain } from '../../src/base/errors.ts'
import { digestsOf } from '../../src/base/pair-settings.ts'
import { sourcesHere, sourcesOf } from '../../src/base/sources.ts'
import { ServingMark } from '../../src/server/serving.ts'
import { Standby } from '../../src/server/standby.ts'
import { lockHolder, takeLock } from '../../src/store/lock.ts'
import { raw } from '../../src/store/query.ts'
import { adopt, beginServing, readServing, servingHere, type ServingNote } from '../../src/store/serving.ts'
import { deviceOf } from '../../src/store/volume.ts'
import { Commands, start } from '../commands/command.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { makeInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { signedIn } from '../kit/signed-in.ts'
import { startTestDns } from '../kit/zone.ts'
import { mail } from '../mail/mails.ts'

const SECOND = 1000
const folder = temporaryDirectory('standby')

/** A data directory that another machine served last. */
function servedElsewhere(name: string, change: Partial<ServingNote> = {}): string {
  const dataDir = makeInstallation(join(folder, name))
  beginServing(dataDir, { ...servingHere(dataDir, 0), machine: 'machine:other', name: 'mx2', ...change })
  return dataDir
}

const at = (clock: ManualClock, offset = 0): string => new Date(clock.now() + offset).toISOString()

describe('when a standby starts the server', () => {
  test('while the data directory is not mounted, it waits and is ready', () => {
    const standby = new Standby({ clock: new ManualClock(), dataDir: join(folder, 'none'), fenced: false })
    assert.deepEqual(standby.look(), { ready: true, reason: `${join(folder, 'none')} is not mounted.` })
  })

  test('a volume of this machine, a new one, and one whose server stopped cleanly start at once', () => {
    const own = makeInstallation(join(folder, 'own'))
    const look = (dataDir: string): unknown => new Standby({ clock: new ManualClock(), dataDir, fenced: false }).look()
    assert.equal(look(own), undefined)
    beginServing(own, servingHere(own, 0))
    assert.equal(look(own), undefined)
    assert.equal(look(servedElsewhere('clean', { stopped: true })), undefined)
  })

  test('after a crash of the other machine, it waits until 20 s after the last write', () => {
    const clock = new ManualClock()
    const standby = new Standby({ clock, dataDir: servedElsewhere('crash', { time: at(clock) }), fenced: false })
    for (let second = 0; second < 20; second++) {
      assert.equal(standby.look()?.ready, false, `${second} s`)
      clock.advance(SECOND)
    }
    assert.equal(standby.look(), undefined)
  })

  test('with --fenced, it does not wait', () => {
    const clock = new ManualClock()
    const dataDir = servedElsewhere('fenced', { time: at(clock) })
    assert.equal(new Standby({ clock, dataDir, fenced: true }).look(), undefined)
  })

  for (const minutes of [-2, 2])
    test(`with a clock of the other machine that is ${minutes} minutes off, it does not start while that one writes`, () => {
      const clock = new ManualClock()
      const dataDir = servedElsewhere(`off${minutes}`, { time: at(clock, minutes * 60_000) })
      const standby = new Standby({ clock, dataDir, fenced: false })
      assert.equal(standby.look()?.ready, false)
      clock.advance(5 * SECOND)
      assert.equal(standby.look()?.ready, false, 'the next write may still come')
      const written = readServing(dataDir)!
      beginServing(dataDir, { ...written, time: at(clock, minutes * 60_000) })
      assert.throws(() => standby.look(), TryAgain)

      // The other machine is gone: 6 s without a write are enough.
      const again = new Standby({ clock, dataDir, fenced: false })
      assert.equal(again.look()?.ready, false)
      clock.advance(6 * SECOND)
      assert.equal(again.look(), undefined)
    })

  test('after a handover, the same machine waits until the volume was elsewhere, or until adopt', () => {
    const dataDir = makeInstallation(join(folder, 'handed'))
    beginServing(dataDir, { ...servingHere(dataDir, 0), stopped: true, handed_over: true })
    const clock = new ManualClock()
    const standby = new Standby({ clock, dataDir, fenced: false })
    assert.match(standby.look()!.reason, /handed .* over.*postrider adopt/)
    const other = new Standby({ clock, dataDir, fenced: false })
    renameSync(dataDir, `${dataDir}-away`)
    assert.match(standby.look()!.reason, /is not mounted/)
    renameSync(`${dataDir}-away`, dataDir)
    assert.equal(standby.look(), undefined)
    assert.equal(other.look()?.ready, true)
    assert.equal(adopt(dataDir, 0)?.term, 2)
    assert.equal(other.look(), undefined)
    assert.equal(adopt(dataDir, 0), undefined)
    beginServing(dataDir, { ...servingHere(dataDir, 0), stopped: true, handed_over: true, boot: 'an earlier boot' })
    assert.equal(new Standby({ clock, dataDir, fenced: false }).look(), undefined)
  })
})

test('a server that takes over has the next term, sends the queue, and reports it in log, metrics, API and a notice', async () => {
  const exchanger = await startTestExchanger()
  const dataDir = join(folder, 'takeover')
  mkdirSync(dataDir, { mode: 0o700 })
  const clock = new ManualClock()
  const config = { delivery: { port: exchanger.port } }
  const dns = await startTestDns()
  dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
  const first = await startTestAppliance({
    dataDir,
    dns,
    clock,
    domains: ['here.test'],
    routes: ['there.test'],
    config,
  })
  await first.appliance.engine.stop()
  assert.equal((await first.api('POST', '/outbound-emails', mail({ to: 'p@there.test' }))).status, 201)
  await first.stop()
  beginServing(dataDir, { ...readServing(dataDir)!, machine: 'machine:other', name: 'mx2', stopped: false })

  const logged = { level: 'info' as const, lines: [] as string[] }
  await using second = await startTestAppliance({ dataDir, dns, clock, config, logged, pair: true })
  await until(() => (clock.advance(SECOND), exchanger.heard.length > 0), 'the queued email')
  const { held, name, term } = readServing(dataDir)!
  assert.deepEqual([held, name, term], [undefined, hostname(), 2])
  assert.match(logged.lines.join('\n'), /"event":"took_over"[^\n]*"from":"mx2"[^\n]*"term":2/)
  const metrics = await (await fetch(`http://127.0.0.1:${second.appliance.http.port}/metrics`)).text()
  assert.match(
    metrics,
    new RegExp(`postrider_serving_since_timestamp_seconds\\{machine="${hostname()}",term="2"\\} \\d+`),
  )
  const { store } = second.appliance.deps
  const [notice] = store.all(raw<{ subject: string; text: string }>('select subject, text from notices'))
  assert.equal(notice?.subject, `mx.postrider.test now runs on ${hostname()}`)
  assert.match(notice.text, /took over from mx2, which had failed \(last sign of life: .*Z\)\.$/)
  const page = await signedIn(second)
  const { text } = await page.open('/server')
  assert.match(text, new RegExp(`Machine</dt>\\s*<dd>${hostname()}, since`))
  await exchanger.close()
  await dns.close()
})

test('a standby with another hostname or other routes than the former server does not start before adopt', async () => {
  const dataDir = join(folder, 'other-settings')
  mkdirSync(dataDir, { mode: 0o700 })
  const first = await startTestAppliance({ dataDir })
  first.clock.advance(6 * SECOND)
  await until(() => readServing(dataDir)?.settings, 'the digests')
  await first.stop()
  beginServing(dataDir, { ...readServing(dataDir)!, machine: 'machine:other', name: 'mx2' })
  const config = {
    hostname: 'other.postrider.test',
    delivery: { routes: [{ host: 'relay.test', domains: ['a.test'] }] },
  }
  await assert.rejects(
    startTestAppliance({ dataDir, pair: true, config }),
    (thrown: Error) =>
      thrown instanceof OperatorError && /than mx2, .*: hostname, delivery\.routes\. Compare/.test(thrown.message),
  )
  assert.equal(readServing(dataDir)?.machine, 'machine:other')
  adopt(dataDir, first.clock.now())
  await using second = await startTestAppliance({ dataDir, pair: true, config })
  assert.equal(readServing(dataDir)?.term, 2)
  assert.equal((await second.raw('/health')).body.status, 'ok')
})

test('a server of a pair stops when it cannot write serving.json for 15 s, another server only reports it', async () => {
  const clock = new ManualClock()
  const dataDir = makeInstallation(join(folder, 'unwritable'))
  const config = parseConfig({ hostname: 'mx.postrider.test', data_dir: dataDir })
  const reported: string[] = []
  const troubles = { report: (name: string) => void reported.push(name), clear: () => void (reported.length = 0) }
  const note = servingHere(dataDir, clock.now())
  beginServing(dataDir, note)
  const [pair, single] = [true, false].map(
    (each) => new ServingMark({ clock, config, troubles, pair: each }, { ...note }),
  )
  pair!.look()
  await pair!.stop()
  assert.deepEqual(readServing(dataDir)?.settings, digestsOf(config))
  rmSync(join(dataDir, 'serving.json'))
  mkdirSync(join(dataDir, 'serving.json'))
  for (let second = 0; second < 14; second++) {
    clock.advance(SECOND)
    pair!.look()
    await pair!.stop()
  }
  assert.ok(reported.includes('serving'))
  clock.advance(SECOND)
  assert.throws(() => pair!.look(), /could not be written for 15 s, so this server stops/)
  single!.look()
  await single!.stop()
})

test('handover stops the server, and the standby of the same machine waits until the volume has moved', async () => {
  const dataDir = makeInstallation(join(folder, 'handover'))
  const file = join(folder, 'handover.toml')
  const text = `hostname = "mx.postrider.test"\ndata_dir = "${dataDir}"\nhttp.listen = "127.0.0.1:0"\nsmtp.listen = ["127.0.0.1:0"]\n`
  writeFileSync(file, text)
  const commands = new Commands(folder, ['--config', file])
  const serving = () => commands.run(['--json', 'health', '--serving'])
  const stateOf = ({ code, stdout }: { code: number; stdout: string }) => [code, JSON.parse(stdout).state]
  const begin = () => start(['--config', file, 'standby'], folder)
  assert.deepEqual(stateOf(await serving()), [1, 'down'])
  assert.match(await commands.fails('handover'), /^No server runs on this machine/)

  const first = begin()
  await first.said(/"event":"server_ready"/)
  assert.equal(lockHolder(dataDir), first.pid)
  assert.deepEqual(stateOf(await serving()), [0, 'serving'])
  assert.equal((await commands.json('handover')).data_dir, dataDir)
  assert.equal(await first.ended, 0)
  assert.equal(readServing(dataDir)?.handed_over, true)

  const second = begin()
  await second.said(/"event":"standing_by"[^\n]*handed/)
  assert.deepEqual(stateOf(await serving()), [2, 'standby'])
  assert.match((await commands.run(['health', '--serving'])).stdout, /^standby: This machine handed/)
  writeFileSync(file, `${text}colour = "red"\n`)
  assert.match((await commands.run(['health', '--serving'])).stderr, /down: .*"colour" is not a setting/)
  writeFileSync(file, text)
  assert.match(
    (await new Commands(folder, ['--config', `${file}.absent`]).run(['health', '--serving'])).stderr,
    /down: .*\.absent does not exist; check --config/,
  )
  assert.match((await commands.run(['adopt'])).stdout, /^The handover of .* is withdrawn/)
  assert.equal(readServing(dataDir)?.term, 2)
  await second.said(/"event":"server_ready"/)
  second.child.kill('SIGTERM')
  assert.equal(await second.ended, 0)
  assert.deepEqual([readServing(dataDir)?.stopped, readServing(dataDir)?.handed_over], [true, undefined])

  // A signal ends a standby that waits.
  renameSync(dataDir, `${dataDir}-away`)
  const third = begin()
  await third.said(/"event":"standing_by"[^\n]*not mounted/)
  third.child.kill('SIGTERM')
  assert.equal(await third.ended, 0)
})

test('config compare lists every difference and fails for those that both machines must share', async () => {
  const here = join(folder, 'here.toml')
  const there = join(folder, 'there.toml')
  writeFileSync(here, 'hostname = "mx.example.org"\n[log]\nlevel = "info"\n')
  writeFileSync(there, 'hostname = "mx2.example.org"\n[log]\nlevel = "warn"\n[smtp]\nlisten = ["192.0.2.1:25"]\n')
  const commands = new Commands(folder, ['--config', here])
  const ran = await commands.run(['config', 'compare', there])
  assert.equal(ran.code, 1)
  assert.match(ran.stdout, /^FAIL {2}hostname: "mx.example.org" here, "mx2.example.org" there \(must be the same\)$/m)
  assert.match(ran.stdout, /^FAIL {2}smtp\.listen: /m)
  assert.match(ran.stdout, /^ok {4}log\.level: "info" here, "warn" there$/m)
  assert.equal((await commands.run(['config', 'compare', here])).stdout, 'There are no differences.\n')
})

test('a sending IP address of one machine is used only there, and is in SPF on both', () => {
  const config = parseConfig({
    hostname: 'mx.example.org',
    delivery: {
      source: ['192.0.2.1'],
      sources: [
        { address: '192.0.2.11', machine: 'mx1' },
        { address: '192.0.2.12', machine: 'mx2.example.org' },
      ],
    },
  })
  const addresses = (list: { address: string }[]) => list.map(({ address }) => address)
  assert.deepEqual(addresses(sourcesHere(config, 'mx1.example.org')), ['192.0.2.1', '192.0.2.11'])
  assert.deepEqual(addresses(sourcesHere(config, 'MX2')), ['192.0.2.1', '192.0.2.12'])
  assert.equal(sourcesOf(config).length, 3)
})

test('the holder of the lock is found, and an unlocked directory has none', () => {
  const dataDir = makeInstallation(join(folder, 'lock'))
  const release = takeLock(dataDir)!
  assert.equal(lockHolder(dataDir), process.pid)
  release()
  assert.equal(lockHolder(dataDir), undefined)
})

test('doctor names the device of the data directory, with DRBD below LVM and the state of its copies', () => {
  const root = join(folder, 'root')
  const { dev } = statSync(folder)
  const number = `${(dev >>> 8) & 0xfff}:${(dev & 0xff) | ((dev >>> 12) & 0xfff00)}`
  mkdirSync(join(root, 'proc/self'), { recursive: true })
  for (const path of ['dev/block', 'devices/virtual/block/dm-0/slaves', 'devices/virtual/block/drbd1'])
    mkdirSync(join(root, 'sys', path), { recursive: true })
  symlinkSync('../../devices/virtual/block/dm-0', join(root, 'sys/dev/block', number))
  writeFileSync(
    join(root, 'proc/self/mountinfo'),
    `1 1 0:1 / / rw - tmpfs none rw\n36 35 ${number} / /data rw,noatime shared:1 - ext4 /dev/mapper/vg-data rw\n`,
  )
  const device = { name: '/dev/mapper/vg-data', fileSystem: 'ext4' }
  assert.deepEqual(deviceOf(folder, root), { ...device, kind: undefined, copies: undefined })
  symlinkSync('../../drbd1', join(root, 'sys/devices/virtual/block/dm-0/slaves/drbd1'))
  writeFileSync(
    join(root, 'proc/drbd'),
    ' 0: cs:Connected ds:A/B r\n 1: cs:Connected ro:Primary/Secondary ds:UpToDate/Outdated C r\n',
  )
  assert.deepEqual(deviceOf(folder, root), { ...device, kind: 'DRBD', copies: 'UpToDate/Outdated' })
  assert.equal(deviceOf(join(folder, 'none'), root), undefined)
})
