// The operator receives an alert email for a lasting problem once, a reminder each day, and one when it is resolved
//: each test causes the real failure, and each alert contains the fix.
import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import type { ConfigInput } from '../../src/base/config.ts'
import { KEY_FILE } from '../../src/base/keyring.ts'
import { listNotices } from '../../src/users/notices.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

const folder = temporaryDirectory('grave')

/** The certificate of the kit is good for ten years. */
const LIFETIME = 3650 * DAY

/** A failure, made and ended. */
interface Row {
  thing: string
  config?: (dataDir: string) => ConfigInput
  begin: (postrider: TestAppliance) => Promise<unknown> | void
  /** Reports a problem again, which lasts while it is reported. */
  stand?: (postrider: TestAppliance) => void
  end: (postrider: TestAppliance) => Promise<unknown> | void
  says: RegExp
  fix: RegExp
}

const certificateOf = (dataDir: string): string => `${dataDir}-certificate.pem`
const backupTo = (dataDir: string): string => `${dataDir}-backups`
const keyOf = ({ dataDir }: TestAppliance): string => join(dataDir, KEY_FILE)

/** Rows as the process of a backup writes them. */
const backup = (postrider: TestAppliance, kind: string, fault: string | null) =>
  postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(
        `insert into backup_runs (id, kind, target, name, started_at, ended_at, octets, files, fault)
         values (hex(randomblob(8)), ?, ?, 'a backup', ?, ?, 1, 1, ?)`,
        [kind, backupTo(postrider.dataDir), postrider.clock.now(), postrider.clock.now(), fault],
      ),
    ),
  )

const TABLE: readonly Row[] = [
  {
    thing: 'disk',
    config: () => ({ storage: { reserve: 2 ** 52 } }),
    begin: () => {},
    end: ({ config }) => void (config.storage.reserve = 1),
    says: /^Disk space: The disk is nearly full: nothing new is accepted/m,
    fix: /^Fix: Free space, move data_dir/m,
  },
  {
    thing: 'database',
    begin: () => {},
    stand: ({ appliance }) =>
      appliance.deps.troubles.report('damage', 'An email is corrupt on disk. It stays in the queue.'),
    end: () => {},
    says: /^Corrupt email: An email is corrupt on disk/m,
    fix: /^Fix: Run "postrider verify" to see what is corrupt/m,
  },
  {
    thing: 'backup',
    config: (dataDir) => ({ backup: { to: [backupTo(dataDir)], drill: 'never', late_after: '36h' } }),
    begin: async (postrider) => {
      await backup(postrider, 'backup', null)
      await backup(
        postrider,
        'drill',
        `${backupTo(postrider.dataDir)}: the key does not open it; see "backup.recipients".`,
      )
    },
    stand: ({ clock, appliance }) =>
      void appliance.deps.store.write((tx) =>
        tx.run(
          raw(`update backup_runs set started_at = ?, ended_at = ? where fault is null`, Array(2).fill(clock.now())),
        ),
      ),
    end: (postrider) => backup(postrider, 'drill', null),
    says: /^Restore tests \(\S+\): the last restore test of \S+ failed: the key does not open it\./m,
    fix: /^Fix: See "backup\.recipients"\./m,
  },
  {
    thing: 'certificate',
    config: (dataDir) => ({ tls: { cert: certificateOf(dataDir), key: certificateOf(dataDir) } }),
    begin: ({ clock, dataDir, config }) =>
      writeCertificate(dataDir, config.hostname, clock.now() - LIFETIME + 10 * DAY),
    end: ({ clock, dataDir, config }) => writeCertificate(dataDir, config.hostname, clock.now()),
    says: /^Certificate: \S+ expires in \d days\./m,
    fix: /^Fix: Renew it, then "systemctl reload postrider"/m,
  },
  {
    thing: 'key',
    begin: (postrider) => renameSync(keyOf(postrider), `${keyOf(postrider)}.away`),
    end: (postrider) => renameSync(`${keyOf(postrider)}.away`, keyOf(postrider)),
    says: /^Installation key: The installation key file is missing or has changed: backups fail/m,
    fix: /^Fix: Restore instance\.key from a backup before you stop the server/m,
  },
]

function writeCertificate(dataDir: string, host: string, now: number): void {
  const { cert, key } = makeCertificate(host, now)
  writeFileSync(certificateOf(dataDir), cert + key)
}

/** Advances the clock in steps, and waits until the writes of each step are done. */
async function pass(postrider: TestAppliance, time: number, stand: Row['stand']): Promise<void> {
  const { clock } = postrider
  for (let left = time; left > 0; left -= 10 * MINUTE) {
    stand?.(postrider)
    clock.leap(Math.min(left, 10 * MINUTE))
    stand?.(postrider)
    clock.leap(SECOND)
    await postrider.appliance.deps.store.write(() => {})
  }
}

const told = ({ appliance }: TestAppliance) =>
  listNotices(appliance.deps.store)
    .map(({ subject, text }) => ({ subject, text }))
    .toReversed()

for (const { begin, config, end, fix, says, stand, thing } of TABLE)
  test(`${thing}: sends one alert, a reminder after a day, and one when it is resolved`, async () => {
    const dataDir = mkdtempSync(join(folder, 'data-'))
    const clock = new ManualClock()
    writeCertificate(dataDir, 'mx.postrider.test', clock.now())
    await using postrider = await startTestAppliance({ clock, dataDir, config: config?.(dataDir) ?? {} })
    const [trouble, over] = [`Problem on mx.postrider.test: ${thing}`, `Resolved on mx.postrider.test: ${thing}`]
    const subjects = (): string[] => told(postrider).map(({ subject }) => subject)
    await begin(postrider)
    await pass(postrider, 2 * HOUR, stand)
    await until(() => subjects().length > 0, 'the notice')
    await pass(postrider, 20 * HOUR, stand)
    assert.deepEqual(subjects(), [trouble])
    const [first] = told(postrider)
    assert.match(first!.text, says)
    assert.match(first!.text, fix)
    await pass(postrider, 5 * HOUR, stand)
    assert.deepEqual(subjects(), [trouble, trouble])
    await end(postrider)
    await pass(postrider, 3 * HOUR, undefined)
    assert.deepEqual(subjects(), [trouble, trouble, over])
    assert.match(told(postrider)[2]!.text, /\nResolved\. The problem lasted from \S+ to \S+\.\n$/)
    await pass(postrider, 30 * HOUR, undefined)
    assert.equal(subjects().length, 3)
  })

test('after a restart, sends the resolution of an earlier alert, and no second alert for a lasting problem that day', async () => {
  const dataDir = mkdtempSync(join(folder, 'data-'))
  let clock = new ManualClock()
  const key = join(dataDir, KEY_FILE)
  {
    await using postrider = await startTestAppliance({ clock, dataDir })
    renameSync(key, `${key}.away`)
    await pass(postrider, HOUR, undefined)
    await until(() => told(postrider).length === 1, 'the notice')
  }
  renameSync(`${key}.away`, key)
  clock = new ManualClock(clock.now())
  {
    await using postrider = await startTestAppliance({ clock, dataDir })
    renameSync(key, `${key}.away`)
    await pass(postrider, 2 * HOUR, undefined)
    assert.equal(told(postrider).length, 1)
    renameSync(`${key}.away`, key)
  }
  clock = new ManualClock(clock.now())
  await using postrider = await startTestAppliance({ clock, dataDir })
  await pass(postrider, 2 * HOUR, undefined)
  assert.deepEqual(
    told(postrider).map(({ subject }) => subject),
    ['Problem on mx.postrider.test: key', 'Resolved on mx.postrider.test: key'],
  )
})

test('/health is degraded while the key file is missing', async () => {
  await using postrider = await startTestAppliance()
  const health = async (): Promise<{ status: string; reasons?: string[] }> =>
    (await (await fetch(`${postrider.url}/health`)).json()) as { status: string }
  assert.deepEqual(await health(), { status: 'ok' })
  renameSync(keyOf(postrider), `${keyOf(postrider)}.away`)
  postrider.clock.leap(MINUTE)
  const { reasons, status } = await health()
  assert.equal(status, 'degraded')
  assert.match(reasons?.join() ?? '', /^The installation key file is missing/)
  renameSync(`${keyOf(postrider)}.away`, keyOf(postrider))
  postrider.clock.leap(MINUTE)
  assert.deepEqual(await health(), { status: 'ok' })
})

test('sends an alert at once for a second failure of the same thing, and no other that day', async () => {
  await using postrider = await startTestAppliance()
  const { troubles } = postrider.appliance.deps
  const both = new Set(['store'])
  const stand = (): void => both.forEach((name) => troubles.report(name, `${name} fails.`))
  await pass(postrider, HOUR, stand)
  assert.equal(told(postrider).length, 1)
  both.add('damage')
  await pass(postrider, 5 * HOUR, stand)
  const [, second, ...more] = told(postrider)
  assert.match(second?.text ?? '', /^The database: store fails\..*\n.*\n\nCorrupt email: damage fails\./m)
  assert.deepEqual(more, [])
})

const exchanger = testExchanger()

test('sends the alert for an unwritable database without a row, retries until it is accepted, and stores the resolution', async () => {
  await using postrider = await startTestAppliance({
    exchanger,
    routes: ['elsewhere.test'],
    config: { notices: { operator: 'root@elsewhere.test' } },
  })
  const { store } = postrider.appliance.deps
  const { clock } = postrider
  // The writes fail as those of a full disk do.
  const write = store.write.bind(store)
  store.write = (() => Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }))) as never
  const stand = (): void => postrider.appliance.deps.troubles.report('store', 'The database is not writable.')
  const minutes = async (count: number): Promise<void> => {
    for (let minute = 0; minute < count; minute++) {
      stand()
      clock.leap(MINUTE)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  await minutes(2)
  await until(() => exchanger.commands.some((line) => line.startsWith('RCPT')), 'the first try')
  exchanger.script = {}
  await until(async () => {
    await minutes(6)
    return exchanger.heard.length > 0
  }, 'the mail')
  const [heard] = exchanger.heard
  assert.deepEqual(heard!.to, ['root@elsewhere.test'])
  assert.match(heard!.message, /^Subject: Problem on mx\.postrider\.test: database\r$/m)
  assert.match(heard!.message, /postrider verify/)
  for (let left = 0; left < 10; left++) await minutes(6)
  assert.equal(exchanger.heard.length, 1)
  assert.deepEqual(told(postrider), [])
  store.write = write
  await pass(postrider, 2 * HOUR, undefined)
  await until(() => told(postrider).length === 1, 'the end')
  assert.equal(told(postrider)[0]?.subject, 'Resolved on mx.postrider.test: database')
})

test('reports an unwritable database with its resolution if no alert could be sent before', async () => {
  await using postrider = await startTestAppliance()
  const { store, troubles } = postrider.appliance.deps
  const write = store.write.bind(store)
  store.write = (() => Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }))) as never
  for (let minute = 0; minute < 4; minute++) {
    troubles.report('store', 'The database is not writable.')
    postrider.clock.leap(MINUTE)
    await new Promise((resolve) => setImmediate(resolve))
  }
  store.write = write
  await until(() => {
    postrider.clock.leap(20 * MINUTE)
    return told(postrider).length > 0
  }, 'the notice')
  const [{ subject, text } = { subject: '', text: '' }] = told(postrider)
  assert.equal(subject, 'Resolved on mx.postrider.test: database')
  assert.match(text, /^The database: The database is not writable\./m)
  assert.match(text, /lasted from \S+ to \S+\. This notification could not be sent earlier\.\n$/)
})
