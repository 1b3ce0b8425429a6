// Scheduled backups and drills: when they start, their results, and the alerts.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Beside, BesideProcess } from '../../src/archive/schedule.ts'
import { DAY, HOUR, iso, MINUTE, SECOND } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import type { Finding } from '../../src/parts/findings/finding.ts'
import { backupFindings } from '../../src/checks/backup-findings.ts'
import { lateAfter } from '../../src/checks/backups.ts'
import { besideServer } from '../../src/server/beside.ts'
import { takeLock } from '../../src/store/lock.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { Guest } from '../kit/guest.ts'
import { makeInstallation } from '../kit/installation.ts'
import { asPerson, givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'
import { backupsIn, sharedIn } from './stored.ts'

const folder = temporaryDirectory('schedule')

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))

interface Begun extends BesideProcess {
  words: string
  close(how: number | NodeJS.Signals, said?: string): void
  ending: boolean
}

/** Processes next to the server that exit when the test closes them. */
function processes(): { beside: Beside; begun: Begun[] } {
  const begun: Begun[] = []
  const beside: Beside = (words) => {
    // The check of the database is not the schedule's.
    if (words[0] === 'verify') return { pid: undefined, ended: Promise.resolve({ how: 0, said: '' }), end() {} }
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

/** The first finding. */
function backupFinding(...asked: Parameters<typeof backupFindings>): Finding {
  const [one, ...more] = backupFindings(...asked)
  assert.equal(more.length, 0)
  return one!
}

test('backs up on schedule, makes the first drill after it and one a week, and makes up for missed runs at the start', async () => {
  const to = target()
  const { beside, begun } = processes()
  const dataDir = mkdtempSync(join(folder, 'data-'))
  const config = { backup: { to: [to] } }
  const postrider = await startTestAppliance({ dataDir, beside, config })
  const { clock } = postrider
  try {
    // The clock starts at noon, and the schedule is 02:00.
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

test('logs the result of each target when it finishes, and a killed process as a failure of the other targets', async () => {
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
  await until(() => of('backup_finished').length === 1, 'the line of the first target')
  assert.match(of('backup_finished')[0] ?? '', new RegExp(one))
  begun[0]?.close('SIGKILL')
  await until(() => of('backup_failed').length === 1, 'the line of the second target')
  assert.match(of('backup_failed')[0] ?? '', new RegExp(two))
  assert.equal(of('backup_finished').length, 1)
})

test('ignores runs in the future, from when the clock was ahead', async () => {
  const to = target()
  const { beside, begun } = processes()
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [to], drill: 'never' } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  await row(postrider, to, 'backup', null)
  await store.write((tx) =>
    tx.run(raw(`update backup_runs set started_at = ?, ended_at = ?`, Array(2).fill(clock.now() + 400 * DAY))),
  )
  assert.match(backupFinding(store, appliance.deps.config, clock.now()).summary, /never|no backup yet/)
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

test('keeps the schedule if the clock was ahead when a backup started, and is set back', async () => {
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

test('pauses for a minute between backups that take longer than their interval, so that erasures can run', async () => {
  const { beside, begun } = processes()
  const config = { backup: { to: [target()], drill: 'never' as const, schedule: '*/5 * * * *' } }
  await using postrider = await startTestAppliance({ beside, config })
  const { clock } = postrider
  clock.leap(5 * MINUTE)
  await until(() => begun.length === 1, 'the backup')
  clock.leap(12 * MINUTE)
  begun[0]?.close(0)
  await begun[0]?.ended
  for (let n = 0; n < 2; n++) {
    clock.leap(25 * SECOND)
    await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
  }
  assert.equal(begun.length, 1)
  clock.leap(MINUTE)
  await until(() => begun.length === 2, 'the next backup')
  begun[1]?.close(0)
})

test('repeats a backup at the start if the server stopped after one of two targets', async () => {
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

test('records a process killed after the first target as a failure of the others, and kills one that hangs', async () => {
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
  assert.match(faults().at(-1)?.fault ?? '', /made no progress or took too long; check its destinations\.$/)
  postrider.clock.leap(MINUTE)
  await until(() => begun.length === 3, 'the one after it')
  begun[2]?.close(0)
})

test('waits for a manual backup, or for one of a killed server, and does not record it as a failure', async () => {
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

test('records a failure with a sentence if the executable cannot be started', async () => {
  const beside = besideServer(undefined, { program: join(folder, 'not-here'), first: [] })
  await using postrider = await startTestAppliance({ beside, config: { backup: { to: [target()], drill: 'never' } } })
  const { store } = postrider.appliance.deps
  await turn(postrider, 15)
  const fault = await until(() => store.first(raw<{ fault: string }>('select fault from backup_runs')), 'the row')
  assert.match(fault.fault, /not-here cannot be started \(ENOENT\); check that it exists\.$/)
})

test('warns, but does not alert, if a backup succeeded and expired backups could not be deleted', async () => {
  const to = target()
  await using postrider = await startTestAppliance({ config: { backup: { to: [to] } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  await row(postrider, to, 'backup', `${to}: the server says 403; let them delete there.`, 'a backup')
  const { summary: detail, fix, severity: status } = backupFinding(store, postrider.config, clock.now())
  assert.equal(status, 'warn')
  assert.match(detail, /succeeded, but expired backups could not be deleted: .* 403$/)
  assert.equal(fix, 'Let them delete there.')
  assert.match(
    await metricsOf(postrider),
    new RegExp(`last_success_timestamp_seconds{target="${to}"} ${clock.now() / 1000 - 4}\n`),
  )
})

for (const [schedule, last, age] of [
  ['0 2 * * *', '2026-01-15T02:00', 36 * HOUR],
  // A manual backup does not postpone the next one.
  ['0 2 * * *', '2026-01-15T14:00', 24 * HOUR],
  ['0 2 * * sun', '2026-01-18T02:00', 10.5 * DAY],
  ['*/5 * * * *', '2026-01-15T02:00', 35 * MINUTE],
  ['0 8-18 * * *', '2026-01-15T18:00', 14 * HOUR + HOUR / 2],
  ['0 8-18 * * *', '2026-01-15T10:00', HOUR + HOUR / 2],
] as const)
  test(`a backup of ${last} is late after ${age / HOUR} hours with "${schedule}"`, () => {
    const { backup } = parseConfig({ backup: { schedule } })
    assert.equal(lateAfter(backup, Date.parse(`${last}Z`)), age)
    assert.equal(lateAfter({ ...backup, late_after: HOUR }, Date.parse(`${last}Z`)), HOUR)
  })

test('doctor and /metrics report a backup whose data is older than "late_after"', async () => {
  const to = target()
  await using postrider = await startTestAppliance({ config: { backup: { to: [to], late_after: '10m' } } })
  const { appliance, clock } = postrider
  const { config, store } = appliance.deps
  await row(postrider, to, 'backup', null)
  const since = iso(clock.now() - 4 * SECOND)
  assert.match(await metricsOf(postrider), new RegExp(`postrider_backup_late_after_seconds{target="${to}"} 600\n`))
  clock.leap(9 * MINUTE)
  const { severity, summary } = backupFinding(store, config, clock.now())
  assert.equal(severity, 'ok')
  assert.match(summary, new RegExp(`^${to} 9 min ago, 5000 kB in 4 s`))
  clock.leap(MINUTE)
  const late = backupFinding(store, config, clock.now())
  assert.equal(late.severity, 'fail')
  assert.match(late.summary, new RegExp(`^no backup at ${to} since ${since}: `))
})

test('records a killed process as a failure, and alerts the operator once a day after 36 hours', async () => {
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
    store.all(raw<{ subject: string; text: string }>(`select * from notices where subject like 'Problem on %: backup'`))
  const hours = async (count: number, how: number | NodeJS.Signals, said?: string): Promise<void> => {
    for (let left = count; left > 0; left -= 5) {
      clock.leap(Math.min(left, 5) * HOUR)
      await until(() => postrider.raw('/health').then(({ status }) => status === 200), 'the server')
      for (const one of begun) one.close(how, said)
    }
  }
  await hours(15, 'SIGKILL')
  await until(() => lines.some((line) => line.includes('"backup_failed"')), 'the line of the log')
  const fault = store.first(raw<{ fault: string }>('select fault from backup_runs'))?.fault ?? ''
  assert.match(fault, /was killed \(SIGKILL\); check that the machine has enough memory\.$/)
  assert.equal(backupFinding(store, appliance.deps.config, clock.now()).severity, 'warn')
  await hours(24, 1, 'postrider: /to: the disk is full; free some space.\n')
  await until(() => store.all(raw('select 1 from backup_runs')).length === 2, 'the second failure')
  assert.deepEqual(notices(), [])
  await hours(14, 1)
  await until(() => notices().length === 1, 'the notice')
  assert.match(notices()[0]?.text ?? '', /no backup at .* yet: \/to: the disk is full\..*\nFix: Free some space\./)
  const finding = backupFinding(store, appliance.deps.config, clock.now())
  assert.deepEqual([finding.severity, finding.fix], ['fail', 'Free some space.'])
  assert.match(finding.summary, /no backup at .* yet: \/to: the disk is full$/)
  await hours(25, 1)
  await until(() => notices().length === 2, 'the notice of the next day')
  // A backup ends it.
  await row(postrider, to, 'backup', null)
  await hours(26, 1)
  assert.equal(notices().length, 2)
  const over = () =>
    store.all(raw<{ text: string }>(`select text from notices where subject like 'Resolved on %: backup'`))
  await until(() => over().length === 1, 'the end')
  assert.match(over()[0]?.text ?? '', /Resolved\. The problem lasted from \S+ to \S+\.\n$/)
})

test('shows the status of each target in /metrics, the API, doctor and on the server page', async () => {
  const [one, two] = [target(), target()]
  await using postrider = await startTestAppliance({ config: { backup: { to: [one, two] } } })
  const { appliance, clock } = postrider
  const { store } = appliance.deps
  assert.equal(
    backupFinding(store, { ...postrider.config, backup: { ...postrider.config.backup, to: [] } }, clock.now()).severity,
    'warn',
  )
  await row(postrider, one, 'backup', null)
  await row(postrider, one, 'drill', null)
  await row(postrider, two, 'backup', `${two}: the disk is full; free some space.`)
  const seconds = clock.now() / 1000
  const metrics = await metricsOf(postrider)
  for (const line of [
    `postrider_backup_last_success_timestamp_seconds{target="${one}"} ${seconds - 4}`,
    `postrider_backup_last_success_timestamp_seconds{target="${two}"} 0`,
    `postrider_backup_last_drill_timestamp_seconds{target="${one}"} ${seconds}`,
    `postrider_backup_size_bytes{target="${one}"} 5000000`,
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
  // A token has no access to the server's resources.
  assert.equal((await postrider.api('GET', '/server/backups')).status, 404)
  const operator = new Guest(postrider)
  await givePassword(postrider, postrider.user.email, 'long enough to be one')
  await operator.signIn(postrider.user.email, 'long enough to be one')
  const { text } = await operator.open('/server')
  assert.match(text, /<h2>Backups<\/h2>/)
  for (const words of [`Backup to ${one}`, `Restore test of ${one}`, 'The disk is full; free some space.'])
    assert.ok(text.includes(words), words)
  for (const words of ['Backup destinations', 'Recent runs', 'Never']) assert.ok(text.includes(words), words)
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
  const finding = backupFinding(store, postrider.config, clock.now())
  assert.equal(finding.severity, 'warn')
  assert.match(finding.summary, /the last backup to .* failed: .*the disk is full$/)
  assert.equal(finding.fix, 'Free some space.')
  clock.leap(2 * DAY)
  assert.deepEqual(
    backupFindings(store, postrider.config, clock.now()).map(({ severity }) => severity),
    ['fail', 'fail'],
  )
})

test('the real process has nice 10 and no service manager variables, makes a backup, and leaves no files when stopped', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /proc')
  const to = target()
  const dataDir = join(folder, 'real')
  mkdirSync(dataDir, { mode: 0o700 })
  const file = join(folder, 'real.toml')
  writeFileSync(file, `data_dir = ${JSON.stringify(dataDir)}\n[backup]\nto = [${JSON.stringify(to)}]\n`)
  const beside = besideServer(file, { program: process.execPath, first: [PROGRAM] })
  makeInstallation(dataDir)
  const backup = beside(['backup', 'now'])
  const fields = readFileSync(`/proc/${backup.pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
  assert.equal(fields[16], '10')
  assert.doesNotMatch(readFileSync(`/proc/${backup.pid}/environ`, 'utf8'), /NOTIFY_SOCKET|LISTEN_FDS/)
  assert.deepEqual(await backup.ended, { how: 0, said: '' })
  assert.deepEqual([backupsIn(to).length, sharedIn(to, 'db').length], [1, 1])
  const ended = beside(['backup', 'now'])
  await until(
    () => readdirSync(dataDir).some((name) => name.startsWith('.postrider-backup-')) || backupsIn(to).length > 1,
    'the copy',
  )
  ended.end()
  await ended.ended
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('.')),
    [],
  )
})
