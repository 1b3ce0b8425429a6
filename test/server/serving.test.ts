// The machine that serves a data directory (serving.json, D209): a copy that starts elsewhere holds its queue until
// "postrider adopt", but receives email. Restores, other hostnames and new containers on the same volume do not.
import assert from 'node:assert/strict'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { TryAgain } from '../../src/base/errors.ts'
import {
  beginServing,
  heldSince,
  machineOf,
  readServing,
  servingHere,
  type ServingNote,
} from '../../src/store/serving.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { Commands, start } from '../commands/command.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { makeInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { HOUR, mail, mailsOf } from '../mail/mails.ts'

const SECOND = 1000
const folder = temporaryDirectory('serving')

const HELD =
  'The queue is held, because this data was last served elsewhere: when that server is off, run "postrider adopt".'
const health = async (postrider: TestAppliance) => (await postrider.raw('/health')).body
const note = (dataDir: string, change: Partial<ServingNote>): void =>
  writeFileSync(join(dataDir, 'serving.json'), JSON.stringify({ ...readServing(dataDir), ...change }))

test('a copied data directory sends no email and reports it, still receives, and sends each email once after adopt', async () => {
  const exchanger = await startTestExchanger()
  const delivery = { port: exchanger.port }
  await using first = await startTestAppliance({ domains: ['here.test'], config: { delivery } })
  const { dns } = first
  await first.appliance.engine.stop()
  for (let n = 0; n < 5; n++)
    assert.equal((await first.api('POST', '/outbound-emails', mail({ to: `p${n}@there.test` }))).status, 201)
  const dataDir = join(folder, 'copy')
  cpSync(first.dataDir, dataDir, { recursive: true, filter: (file) => !file.endsWith('-shm') })
  dns.set('there.test', 'MX', ['10 mx.there.test'])
  dns.set('mx.there.test', 'A', ['127.0.0.1'])

  const logged = { level: 'info' as const, lines: [] as string[] }
  const { clock } = first
  // A copy of a server that runs elsewhere is refused at first.
  clock.advance(21 * SECOND)
  {
    await using second = await startTestAppliance({ dns, clock, dataDir, config: { delivery }, logged })
    const { post } = mailsOf(() => second)
    assert.deepEqual(await health(second), { status: 'degraded', reasons: [HELD] })
    assert.match(logged.lines.join('\n'), /"event":"problem_reported"[^\n]*Held: this data was last served elsewhere/)
    assert.equal(
      (await second.appliance.deps.operations.state()).findings.find(({ status }) => status === 'fail')?.check,
      'queue',
    )
    assert.match((await second.commands.run(['doctor'])).stdout, /FAIL {2}queue +the queue is held/)
    assert.ok(
      (
        await second.commands.fails('send', '--from', 'a@here.test', '--to', 'b@there.test', '--subject', 's')
      ).startsWith('The queue is held'),
    )
    const id = await post({ to: 'new@there.test' })
    assert.equal((await second.commands.json('why', id)).causes[0].cause, 'queue_held')
    assert.equal(
      (await second.api('GET', `/explanations?filter[subject]=${id}`)).body.data.attributes.causes[0].cause,
      'queue_held',
    )
    clock.leap(6 * HOUR)
  }
  // A restart does not let it go either.
  await using again = await startTestAppliance({ dns, clock, dataDir, config: { delivery } })
  clock.leap(6 * HOUR)
  assert.deepEqual(await health(again), { status: 'degraded', reasons: [HELD] })
  assert.equal(exchanger.heard.length, 0)
  const adopted = await again.commands.json('adopt')
  assert.deepEqual([adopted.from.directory, adopted.term], [first.dataDir, 2])
  clock.advance(2 * SECOND)
  await until(() => exchanger.heard.length >= 6)
  assert.deepEqual(await health(again), { status: 'ok' })
  assert.match(await again.commands.fails('adopt'), /is not held/)
  assert.equal(new Set(exchanger.heard.flatMap(({ to }) => to)).size, 6)
  assert.deepEqual([readServing(dataDir)?.term, readServing(dataDir)?.held], [2, undefined])
  await exchanger.close()
})

test('rejects a start while another machine served seconds ago, and holds the queue later', async () => {
  const dataDir = join(folder, 'fresh')
  mkdirSync(dataDir, { mode: 0o700 })
  await (await startTestAppliance({ dataDir })).stop()
  const clock = new ManualClock()
  note(dataDir, { machine: 'machine:other', stopped: false, time: new Date(clock.now()).toISOString() })
  const before = readFileSync(join(dataDir, 'serving.json'))
  await assert.rejects(startTestAppliance({ dataDir, clock }), (thrown) => thrown instanceof TryAgain)
  assert.deepEqual(readFileSync(join(dataDir, 'serving.json')), before)
  clock.advance(21 * SECOND)
  await using postrider = await startTestAppliance({ dataDir, clock })
  assert.deepEqual(await health(postrider), { status: 'degraded', reasons: [HELD] })
})

test('starts on a copy at once after the other server stopped cleanly, with the queue held', async () => {
  const dataDir = join(folder, 'stopped')
  mkdirSync(dataDir, { mode: 0o700 })
  const clock = new ManualClock()
  await (await startTestAppliance({ dataDir, clock })).stop()
  note(dataDir, { machine: 'machine:other' })
  await using postrider = await startTestAppliance({ dataDir, clock })
  assert.deepEqual(await health(postrider), { status: 'degraded', reasons: [HELD] })
})

test('"serve" exits with 75 while another machine serves', async () => {
  const dataDir = makeInstallation(join(folder, 'seventy-five'))
  // A busy machine may need more than 20 s until "serve" reads the file, so its time is as late as it may be.
  const time = new Date(Date.now() + 19 * SECOND).toISOString()
  beginServing(dataDir, { ...servingHere(dataDir, 0), machine: 'machine:other', time })
  const ran = start(['serve'], folder, { POSTRIDER_DATA_DIR: dataDir })
  assert.equal(await ran.ended, 75)
  assert.match(ran.stderr(), /^postrider: Another server \(.+\) used .*; stop that server/)
})

test('does not hold the queue after a restart, a new hostname, a moved directory or a full restore', async () => {
  const place = join(folder, 'moved')
  mkdirSync(place, { mode: 0o700 })
  await (await startTestAppliance({ dataDir: place })).stop()
  await (await startTestAppliance({ dataDir: place, config: { hostname: 'other.postrider.test' } })).stop()
  const moved = join(folder, 'moved-elsewhere')
  renameSync(place, moved)
  {
    await using postrider = await startTestAppliance({ dataDir: moved })
    assert.deepEqual(await health(postrider), { status: 'ok' })
    await postrider.commands.json('backup', join(folder, 'whole.zip'))
  }
  const target = join(folder, 'restored')
  await using commands = new Commands(folder)
  const restore = ['restore', '--without-ledger', join(folder, 'whole.zip')]
  assert.equal((await commands.run(restore, { env: { POSTRIDER_DATA_DIR: target } })).code, 0)
  await using restored = await startTestAppliance({ dataDir: target })
  assert.deepEqual(await health(restored), { status: 'ok' })
})

test('outside a container, identifies directories by the machine, and a copy by its origin that still exists', () => {
  const [origin, copy] = [makeInstallation(join(folder, 'origin')), makeInstallation(join(folder, 'beside'))]
  if (existsSync('/etc/machine-id')) {
    assert.equal(machineOf(origin, false), machineOf(copy, false))
    assert.ok(!machineOf(origin, false).includes(readFileSync('/etc/machine-id', 'utf8').trim()))
  }
  assert.notEqual(machineOf(origin, true), machineOf(copy, true))
  note(copy, { ...servingHere(copy, 0), directory: origin })
  assert.equal(heldSince(copy)?.directory, origin)
  rmSync(origin, { recursive: true })
  assert.equal(heldSince(copy), undefined)
})

const CORRUPT =
  'The queue is held, because serving.json is corrupt: if no other server has this data, run "postrider adopt".'
for (const [name, damage] of Object.entries<(text: string) => string>({
  empty: () => '',
  truncated: (text) => text.slice(0, 40),
  'full of zeros': (text) => '\0'.repeat(text.length),
  'in the form of a later version': (text) => JSON.stringify({ version: 2, node: JSON.parse(text).machine }),
  'without a valid time': (text) => JSON.stringify({ ...JSON.parse(text), time: 'now' }),
}))
  test(`a server whose serving.json is ${name} holds the queue until adopt, even after a restart`, async () => {
    const dataDir = mkdtempSync(join(folder, 'corrupt-'))
    await (await startTestAppliance({ dataDir })).stop()
    const file = join(dataDir, 'serving.json')
    writeFileSync(file, damage(readFileSync(file, 'utf8')))
    for (let n = 0; n < 2; n++) {
      await using postrider = await startTestAppliance({ dataDir })
      assert.deepEqual(await health(postrider), { status: 'degraded', reasons: [CORRUPT] })
      assert.match((await postrider.commands.run(['doctor'])).stdout, /FAIL {2}queue +the queue is held: serving\.json/)
    }
    await using postrider = await startTestAppliance({ dataDir })
    assert.match(
      (await postrider.commands.run(['adopt'])).stdout,
      /Never start the former server, if there is one, with its copy again/,
    )
    postrider.clock.advance(2 * SECOND)
    assert.deepEqual(await health(postrider), { status: 'ok' })
  })

test('a running server repairs its corrupt serving.json', async () => {
  const dataDir = mkdtempSync(join(folder, 'repaired-'))
  await using postrider = await startTestAppliance({ dataDir })
  writeFileSync(join(dataDir, 'serving.json'), 'x'.repeat(5000))
  await until(() => (postrider.clock.advance(6 * SECOND), heldSince(dataDir) === undefined))
  assert.equal(readServing(dataDir)?.term, 1)
})

test('a server stops when another machine takes over its data directory', async () => {
  const dataDir = join(folder, 'taken')
  mkdirSync(dataDir, { mode: 0o700 })
  const ended: string[] = []
  const postrider = await startTestAppliance({ dataDir, fatal: ({ message }) => void ended.push(message) })
  note(dataDir, { machine: 'machine:other', term: 2 })
  postrider.clock.advance(6 * SECOND)
  assert.match(ended.join(), /^Another server took over .* at .*, so this server stops/)
  await postrider.stop()
  assert.deepEqual([readServing(dataDir)?.machine, readServing(dataDir)?.stopped], ['machine:other', undefined])
})

test('in a container, does not hold the queue of the same volume in a new container, but that of a copy', async () => {
  const [data, copy] = [makeInstallation(join(folder, 'volume')), join(folder, 'volume-copy')]
  const serve = async (dataDir: string): Promise<string[]> => {
    const env = { container: 'podman', POSTRIDER_DATA_DIR: dataDir, POSTRIDER_HTTP_LISTEN: '127.0.0.1:0' }
    const server = start(['serve'], folder, { ...env, POSTRIDER_SMTP_LISTEN: '127.0.0.1:0' })
    try {
      const [, http] = await server.said(/"event":"server_ready".*"http":"([^"]+)"/)
      return ((await (await fetch(`http://${http}/health`)).json()) as { reasons?: string[] }).reasons ?? []
    } finally {
      server.child.kill('SIGTERM')
      await server.ended
    }
  }
  for (let n = 0; n < 2; n++) assert.ok(!(await serve(data)).includes(HELD))
  assert.match(readServing(data)!.machine, /^volume:\d+-\d+$/)
  cpSync(data, copy, { recursive: true })
  rmSync(data, { recursive: true })
  note(copy, { time: new Date(0).toISOString() })
  assert.ok((await serve(copy)).includes(HELD))
})
