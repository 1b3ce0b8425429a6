// Backups and drills by the schedule: what is begun when, what becomes of it, and who is told.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Beside, BesideProcess } from '../../src/archive/schedule.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import type { Finding } from '../../src/checks/doctor-machine.ts'
import { judgeBackups as judgeAll } from '../../src/checks/doctor-backups.ts'
import { besideServer } from '../../src/server/beside.ts'
import { takeLock } from '../../src/store/lock.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { asPerson, givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-schedule-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))

interface Begun extends BesideProcess {
  words: string
  close(how: number | NodeJS.Signals, said?: string): void
  ending: boolean
}

/** Processes beside the server that end when the test says so. */
function processes(): { beside: Beside; begun: Begun[] } {
  const begun: Begun[] = []
  const beside: Beside = (words) => {
    const { promise, resolve } = Promise.withResolvers<{ how: number | NodeJS.Signals; said: string }>()
    const one: Begun = {
      words: words.join(' '),
      pid: undefined,
      ended: promise,
      ending: false,
      close: (how, said = '') => resolve({ how, said }),
      end() {
        one.ending = true
        one.close('SIGTERM')
      },
    }
    begun.push(one)
    return one
  }
  return { beside, begun }
}

const target = (): string => mkdtempSync(join(folder, 'to-'))

/** A row as a process writes it. */
const row = (
  postrider: TestAppliance,
  to: string,
  kind: 'backup' | 'drill',
  fault: string | null,
  name: string | null = fault === null ? 'a backup' : null,
) =>
  postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(
        `insert into backup_runs (id, kind, target, name, started_at, ended_at, octets, files, fault)
         values (hex(randomblob(8)), ?, ?, ?, ?, ?, 5000000, 3, ?)`,
        [kind, to, name, postrider.clock.now() - 4 * SECOND, postrider.clock.now(), fault],
      ),
    ),
  )

const metricsOf = async (postrider: TestAppliance): Promise<string> =>
  fetch(`${postrider.url}/metrics`).then((answer) => answer.text())

/** The finding where there is one. */
function judgeBackups(...asked: Parameters<typeof judgeAll>): Finding {
  const [one, ...more] = judgeAll(...asked)
  assert.equal(more.length, 0)
  return one!
}

test('a backup at its time, the first drill after it, then one a week; what the server missed is made at its start (B5, B11)', async () => {
  const to = target()
  const { beside, begun } = processes()
  const dataDir = mkdtempSync(join(folder, 'data-'))
  const config = { backup: { to: [to] } }
  const postrider = await startTestAppliance({ dataDir, beside, config })
  const { clock } = postrider
  try {
    // The clock begins at noon; the schedule is 02:00.
    clock.leap(13 * HOUR)
    await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
    assert.equal(begun.length, 0)
    clock.leap(HOUR)
    await until(() => begun.length === 1, 'the backup')
    assert.equal(begun[0]?.words, 'backup now')
    clock.leap(MINUTE)
    await row(postrider, to, 'backup', null)
    begun[0].close(0)
    await until(() => begun.length === 2, 'the drill')
    assert.equal(begun[1]?.words, 'backup drill')
    await row(postrider, to, 'drill', null)
    begun[1].close(0)
    for (let day = 0; day < 8; day++)
      for (let n = 0; n < 3; n++) {
        clock.leap(8 * HOUR)
        await Promise.resolve()
        for (const one of begun.slice(2)) {
          await row(postrider, to, one.words === 'backup now' ? 'backup' : 'drill', null)
          one.close(0)
          await one.ended
        }
        await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
      }
    const words = begun.map((one) => one.words)
    assert.ok(words.filter((each) => each === 'backup now').length >= 8, words.join())
    assert.equal(words.filter((each) => each === 'backup drill').length, 2, words.join())
  } finally {
    await postrider.stop()
  }
  // Down at the time of the next one.
  const later = processes()
  clock.leap(30 * HOUR)
  const again = await startTestAppliance({ dataDir, clock, beside: later.beside, config })
  await until(() => later.begun.length === 1, 'the backup that was missed')
  // A server that stops ends it, and no failure is noted.
  const count = (): number =>
    again.appliance.deps.store.one(raw<{ n: number }>('select count(*) as n from backup_runs where fault is not null'))
      .n
  assert.equal(count(), 0)
  await again.stop()
  assert.equal(later.begun[0]?.ending, true)
})

test('each target is logged as it ends, and what was killed is a failure of the others alone (B13)', async () => {
  const [one, two] = [target(), target()]
  const { beside, begun } = processes()
  const logged: string[] = []
  await using postrider = await startTestAppliance({
    beside,
    logged: { level: 'info', lines: logged },
    config: { backup: { to: [one, two], drill: 'never' } },
  })
  const { clock } = postrider
  const of = (event: string): string[] => logged.filter((line) => line.includes(`"${event}"`))
  clock.leap(15 * HOUR)
  await until(() => begun.length === 1, 'the backup')
  await row(postrider, one, 'backup', null)
  // The process still runs.
  for (let n = 0; n < 3; n++) {
    clock.leap(10 * SECOND)
    await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
  }
  await until(() => of('backup ended').length === 1, 'the line of the first target')
  assert.match(of('backup ended')[0] ?? '', new RegExp(one))
  begun[0]?.close('SIGKILL')
  await until(() => of('backup failed').length === 1, 'the line of the second target')
  assert.match(of('backup failed')[0] ?? '', new RegExp(two))
  assert.equal(of('backup ended').length, 1)
})

test('runs of a time to come, from when the clock was ahead, end no schedule and count for nothing (B5, B13)', async () => {
  const to = target()
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [to], drill: 'never' } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  await row(postrider, to, 'backup', null)
  await store.write((tx) =>
    tx.run(raw(`update backup_runs set started_at = ?, ended_at = ?`, Array(2).fill(clock.now() + 400 * DAY))),
  )
  assert.match(judgeBackups(store, appliance.deps.config, clock.now()).detail, /never|the first is made/)
  for (let hour = 0; hour < 15; hour += 5) {
    clock.leap(5 * HOUR)
    await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
  }
  await until(() => begun.length === 1, 'the backup')
  const standing = async () =>
    (await appliance.deps.operations.state()).backups.map(({ drill, status }) => [status, drill])
  assert.deepEqual(await standing(), [['running', 'pending']])
  begun[0]?.close(0)
})

/** Turns the clock by hours, and lets the server have each. */
async function turn(postrider: TestAppliance, hours: number): Promise<void> {
  for (let left = hours; left > 0; left -= 5) {
    postrider.clock.leap(Math.min(left, 5) * HOUR)
    await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
  }
}

test('a clock that was ahead when a backup was begun, and is set back, ends no schedule (B5)', async () => {
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [target()], drill: 'never' } } })
  const { clock } = postrider
  const right = clock.now()
  clock.set(right + 400 * DAY)
  await turn(postrider, 15)
  await until(() => begun.length === 1, 'the backup of a time to come')
  begun[0]?.close(0)
  clock.set(right)
  await turn(postrider, 15)
  await until(() => begun.length === 2, 'the backup after the clock was set')
  begun[1]?.close(0)
})

test('a server that ended when one of two targets had its backup makes it again at its start (B5)', async () => {
  const to = [target(), target()]
  const dataDir = mkdtempSync(join(folder, 'data-'))
  const config = { backup: { to, drill: 'never' as const } }
  const first = await startTestAppliance({ dataDir, config })
  const { clock } = first
  for (const each of to) await row(first, each, 'backup', null)
  clock.leap(DAY)
  await row(first, to[0]!, 'backup', null)
  await first.stop()
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ dataDir, clock, beside, config })
  await until(() => begun.length === 1, 'the backup again')
  for (const each of to) await row(postrider, each, 'backup', null)
  begun[0]?.close(0)
})

test('a process that is killed after the first target is a failure at the others; one that hangs is ended when it is late (B13)', async () => {
  const to = [target(), target()]
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to, drill: 'never' } } })
  const { store } = postrider.appliance.deps
  const faults = () =>
    store.all(raw<{ target: string; fault: string }>('select target, fault from backup_runs where fault is not null'))
  await turn(postrider, 15)
  await until(() => begun.length === 1, 'the backup')
  await row(postrider, to[0]!, 'backup', null)
  begun[0]?.close('SIGKILL')
  await until(() => faults().length === 1, 'the failure')
  assert.equal(faults()[0]?.target, to[1])
  await turn(postrider, 24)
  await until(() => begun.length === 2, 'the next backup')
  await turn(postrider, 40)
  await until(() => begun[1]?.ending && faults().length === 3, 'its end')
  assert.match(faults().at(-1)?.fault ?? '', /stood still or took too long; see what holds its targets up\.$/)
  await until(() => begun.length === 3, 'the one after it')
  begun[2]?.close(0)
})

test('a backup by hand, or of a server that was killed, is waited for, and counts as no failure (B5)', async () => {
  const to = target()
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [to], drill: 'never' } } })
  const { dataDir } = postrider
  mkdirSync(join(dataDir, '.postrider-backup-Abc123'))
  const release = takeLock(dataDir, 'backup.lock')
  await turn(postrider, 15)
  assert.equal(begun.length, 0)
  release?.()
  postrider.clock.leap(MINUTE)
  await until(() => begun.length === 1, 'the backup after it')
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('.postrider-backup-')),
    [],
  )
  await row(postrider, to, 'backup', null)
  begun[0]?.close(0)
})

test('a program that cannot be started is a failure with a sentence (B13)', async () => {
  const beside = besideServer(undefined, { program: join(folder, 'not-here'), first: [] })
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [target()], drill: 'never' } } })
  const { store } = postrider.appliance.deps
  await turn(postrider, 15)
  const fault = await until(() => store.first(raw<{ fault: string }>('select fault from backup_runs')), 'the row')
  assert.match(fault.fault, /not-here cannot be started \(ENOENT\); see that it is there\.$/)
})

test('a command that only stores is not drilled, and hurries no drill of others (B11)', async () => {
  const to = [target(), 'exec:/usr/bin/tee /dev/null']
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to } } })
  const { appliance, clock } = postrider
  await turn(postrider, 15)
  for (let day = 0; day < 5; day++) {
    for (let n = 0; n < 5; n++) {
      for (const one of begun) {
        if (one.ending) continue
        one.ending = true
        if (one.words === 'backup now')
          for (const each of [to[0]!, 'exec:/usr/bin/tee']) await row(postrider, each, 'backup', null)
        else await row(postrider, to[0]!, 'drill', null)
        one.close(0)
        await one.ended
      }
      await turn(postrider, 5)
    }
  }
  assert.equal(begun.filter(({ words }) => words === 'backup drill').length, 1, begun.map(({ words }) => words).join())
  assert.doesNotMatch(judgeBackups(appliance.deps.store, appliance.deps.config, clock.now()).detail, /no drill yet/)
})

test('a place that lets nothing be removed has its backups: the complaint is a warning, and nobody is told that there are none (B13)', async () => {
  const to = target()
  await using postrider = await startTestAppliance({ config: { backup: { to: [to] } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  await row(postrider, to, 'backup', `${to}: the server says 403; let them delete there.`, 'a backup')
  const { detail, mend, status } = judgeBackups(store, postrider.config, clock.now())
  assert.equal(status, 'warn')
  assert.match(detail, /is there, but what is not kept any more could not be removed: .* 403$/)
  assert.equal(mend, 'Let them delete there.')
  assert.match(await metricsOf(postrider), new RegExp(`last_success_seconds{target="${to}"} ${clock.now() / 1000}\n`))
})

test('a process that was killed is a failure with a sentence; after 36 hours the operator is told, once a day (B13)', async () => {
  const to = target()
  const { beside, begun } = processes()
  const lines: string[] = []
  await using postrider = await startTestAppliance({
    beside,
    config: { backup: { to: [to], drill: 'never' } },
    logged: { level: 'info', lines },
  })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  const notices = () =>
    store.all(raw<{ subject: string; text: string }>(`select * from notices where subject like 'Trouble on %: backup'`))
  const hours = async (count: number, how: number | NodeJS.Signals, said?: string): Promise<void> => {
    for (let left = count; left > 0; left -= 5) {
      clock.leap(Math.min(left, 5) * HOUR)
      await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
      for (const one of begun) one.close(how, said)
    }
  }
  await hours(15, 'SIGKILL')
  await until(() => lines.some((line) => line.includes('"backup failed"')), 'the line of the log')
  const fault = store.first(raw<{ fault: string }>('select fault from backup_runs'))?.fault ?? ''
  assert.match(fault, /was ended \(SIGKILL\); see that the machine has memory\.$/)
  assert.equal(judgeBackups(store, appliance.deps.config, clock.now()).status, 'warn')
  await hours(24, 1, 'postrider: /to: the disk is full; make room there.\n')
  await until(() => store.all(raw('select 1 from backup_runs')).length === 2, 'the second failure')
  assert.deepEqual(notices(), [])
  await hours(14, 1)
  await until(() => notices().length === 1, 'the notice')
  assert.match(
    notices()[0]?.text ?? '',
    /never a backup at .*: \/to: the disk is full\..*\nWhat to do: Make room there\./,
  )
  const finding = judgeBackups(store, appliance.deps.config, clock.now())
  assert.deepEqual([finding.status, finding.mend], ['fail', 'Make room there.'])
  assert.match(finding.detail, /never a backup at .*: \/to: the disk is full$/)
  await hours(25, 1)
  await until(() => notices().length === 2, 'the notice of the next day')
  // A backup ends it.
  await row(postrider, to, 'backup', null)
  await hours(26, 1)
  assert.equal(notices().length, 2)
  const over = () => store.all(raw<{ text: string }>(`select text from notices where subject like 'Over on %: backup'`))
  await until(() => over().length === 1, 'the end')
  assert.match(over()[0]?.text ?? '', /It is over: it lasted from \S+ to \S+\.\n$/)
})

test('last success, drill, size, seconds and failures by target: /metrics, the API, doctor, the page of the server (B13)', async () => {
  const [one, two] = [target(), target()]
  await using postrider = await startTestAppliance({ config: { backup: { to: [one, two] } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  assert.equal(
    judgeBackups(store, { ...postrider.config, backup: { ...postrider.config.backup, to: [] } }, clock.now()).status,
    'warn',
  )
  await row(postrider, one, 'backup', null)
  await row(postrider, one, 'drill', null)
  await row(postrider, two, 'backup', `${two}: the disk is full; make room there.`)
  const seconds = clock.now() / 1000
  const metrics = await metricsOf(postrider)
  for (const line of [
    `postrider_backup_last_success_seconds{target="${one}"} ${seconds}`,
    `postrider_backup_last_success_seconds{target="${two}"} 0`,
    `postrider_backup_last_drill_seconds{target="${one}"} ${seconds}`,
    `postrider_backup_octets{target="${one}"} 5000000`,
    `postrider_backup_duration_seconds{target="${one}"} 4`,
    `postrider_backup_failures_total{target="${one}"} 0`,
    `postrider_backup_failures_total{target="${two}"} 1`,
  ])
    assert.ok(metrics.split('\n').includes(line), line)
  const { body } = await asPerson(postrider, postrider.user, '/server/backups')
  assert.deepEqual(
    body.data.map(({ attributes }: { attributes: Record<string, unknown> }) => [
      attributes['kind'],
      attributes['target'],
      attributes['octets'],
      attributes['fault'] === null,
    ]),
    [
      ['backup', two, 5_000_000, false],
      ['drill', one, 5_000_000, true],
      ['backup', one, 5_000_000, true],
    ],
  )
  // A token reads nothing of the server.
  assert.equal((await postrider.api('GET', '/server/backups')).status, 404)
  const operator = new Guest(postrider)
  await givePassword(postrider, postrider.user.email, 'long enough to be one')
  await operator.signIn(postrider.user.email, 'long enough to be one')
  const { text } = await operator.open('/server')
  assert.match(text, /<h2>Backups<\/h2>/)
  for (const words of [`Backup to ${one}`, `Drill of ${one}`, 'The disk is full; make room there.'])
    assert.ok(text.includes(words), words)
  for (const words of ['Places of backups', 'Last runs', 'Never']) assert.ok(text.includes(words), words)
  const { backups, last_backup_at } = await appliance.deps.operations.state()
  assert.equal(last_backup_at, clock.now())
  const at = new Date(clock.now()).toISOString()
  const none = { last_success_at: null, octets: null, seconds: null, drill: 'pending', last_drill_at: null }
  assert.deepEqual(
    backups.map(({ seconds, ...rest }) => ({ ...rest, seconds: seconds === null ? null : 0 })),
    [
      {
        target: one,
        status: 'ok',
        last_success_at: at,
        octets: 5000000,
        seconds: 0,
        drill: 'ok',
        last_drill_at: at,
        failures: 0,
      },
      { target: two, status: 'failed', ...none, failures: 1 },
    ],
  )
  const finding = judgeBackups(store, postrider.config, clock.now())
  assert.equal(finding.status, 'warn')
  assert.match(finding.detail, /the last backup to .* failed: .*the disk is full$/)
  assert.equal(finding.mend, 'Make room there.')
  clock.leap(2 * DAY)
  assert.deepEqual(
    judgeAll(store, postrider.config, clock.now()).map(({ status }) => status),
    ['fail', 'fail'],
  )
})

test('the real process: nice 10, no variable of the service manager, a row and a backup, and nothing of it when it is ended (B5)', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /proc')
  const to = target()
  const dataDir = join(folder, 'real')
  mkdirSync(dataDir, { mode: 0o700 })
  const file = join(folder, 'real.toml')
  writeFileSync(file, `data_dir = ${JSON.stringify(dataDir)}\n[backup]\nto = [${JSON.stringify(to)}]\n`)
  const beside = besideServer(file, { program: process.execPath, first: [PROGRAM] })
  const first = beside(['user', 'list'])
  assert.equal((await first.ended).how, 0)
  const backup = beside(['backup', 'now'])
  const fields = readFileSync(`/proc/${backup.pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  assert.equal(fields[16], '10')
  assert.doesNotMatch(readFileSync(`/proc/${backup.pid}/environ`, 'utf8'), /NOTIFY_SOCKET|LISTEN_FDS/)
  assert.deepEqual(await backup.ended, { how: 0, said: '' })
  assert.equal(readdirSync(to).length, 2)
  const ended = beside(['backup', 'now'])
  await until(
    () => readdirSync(dataDir).some((name) => name.startsWith('.postrider-backup-')) || readdirSync(to).length > 2,
    'the copy',
  )
  ended.end()
  await ended.ended
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('.')),
    [],
  )
})
