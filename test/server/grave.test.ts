// Grave things are told to the operator once, once more after each day that they last, and once when they are over
// (M3): each failure is made for real, and each notice says what to do.
import assert from 'node:assert/strict'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import type { ConfigInput } from '../../src/base/config.ts'
import { KEY_FILE } from '../../src/base/keyring.ts'
import { listNotices } from '../../src/accounts/notices.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-grave-'))
after(() => rmSync(folder, { recursive: true, force: true }))

/** The certificate of the kit is good for ten years. */
const LIFETIME = 3650 * DAY

/** A failure, made and ended. */
interface Row {
  thing: string
  config?: (dataDir: string) => ConfigInput
  begin: (postrider: TestAppliance) => Promise<unknown> | void
  /** Trouble stands as long as it is reported. */
  stand?: (postrider: TestAppliance) => void
  end: (postrider: TestAppliance) => Promise<unknown> | void
  says: RegExp
  mend: RegExp
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
    says: /^Room: The disk is nearly full: nothing new is accepted/m,
    mend: /^What to do: Free space, or move data_dir/m,
  },
  {
    thing: 'database',
    begin: () => {},
    stand: ({ appliance }) => appliance.deps.troubles.report('damage', 'A mail is damaged on the disk; it waits.'),
    end: () => {},
    says: /^Damaged mail: A mail is damaged on the disk/m,
    mend: /^What to do: "postrider verify" names what is damaged/m,
  },
  {
    thing: 'backup',
    config: (dataDir) => ({ backup: { to: [backupTo(dataDir)], drill: 'never' } }),
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
        tx.run(raw(`update backup_runs set ended_at = ? where fault is null`, [clock.now()])),
      ),
    end: (postrider) => backup(postrider, 'drill', null),
    says: /^Drills of \S+: the last drill of \S+ failed: the key does not open it\./m,
    mend: /^What to do: See "backup\.recipients"\./m,
  },
  {
    thing: 'certificate',
    config: (dataDir) => ({ tls: { cert: certificateOf(dataDir), key: certificateOf(dataDir) } }),
    begin: ({ clock, dataDir, config }) =>
      writeCertificate(dataDir, config.hostname, clock.now() - LIFETIME + 10 * DAY),
    end: ({ clock, dataDir, config }) => writeCertificate(dataDir, config.hostname, clock.now()),
    says: /^Certificate: \S+ expires in \d days\./m,
    mend: /^What to do: Renew it, then "systemctl reload postrider"/m,
  },
  {
    thing: 'key',
    begin: (postrider) => renameSync(keyOf(postrider), `${keyOf(postrider)}.away`),
    end: (postrider) => renameSync(`${keyOf(postrider)}.away`, keyOf(postrider)),
    says: /^Installation key: The file of the key of this installation is gone or not as it was: backups fail/m,
    mend: /^What to do: Put instance\.key back from a backup before the server is stopped/m,
  },
]

function writeCertificate(dataDir: string, host: string, now: number): void {
  const { cert, key } = makeCertificate(host, now)
  writeFileSync(certificateOf(dataDir), cert + key)
}

/** Turns the clock in steps, and waits until what each step began is written. */
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

for (const { begin, config, end, mend, says, stand, thing } of TABLE)
  test(`${thing}: told once, once more after a day, and once when it is over (M3)`, async () => {
    const dataDir = mkdtempSync(join(folder, 'data-'))
    const clock = new ManualClock()
    writeCertificate(dataDir, 'mx.postrider.test', clock.now())
    await using postrider = await startTestAppliance({ clock, dataDir, config: config?.(dataDir) ?? {} })
    const [trouble, over] = [`Trouble on mx.postrider.test: ${thing}`, `Over on mx.postrider.test: ${thing}`]
    const subjects = (): string[] => told(postrider).map(({ subject }) => subject)
    await begin(postrider)
    await pass(postrider, 2 * HOUR, stand)
    await until(() => subjects().length > 0, 'the notice')
    await pass(postrider, 20 * HOUR, stand)
    assert.deepEqual(subjects(), [trouble])
    const [first] = told(postrider)
    assert.match(first!.text, says)
    assert.match(first!.text, mend)
    await pass(postrider, 5 * HOUR, stand)
    assert.deepEqual(subjects(), [trouble, trouble])
    await end(postrider)
    await pass(postrider, 3 * HOUR, undefined)
    assert.deepEqual(subjects(), [trouble, trouble, over])
    assert.match(told(postrider)[2]!.text, /\nIt is over: it lasted from \S+ to \S+\.\n$/)
    await pass(postrider, 30 * HOUR, undefined)
    assert.equal(subjects().length, 3)
  })

test('what was told and is over after a restart is told as over; what lasts is not told again that day (M3)', async () => {
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
    ['Trouble on mx.postrider.test: key', 'Over on mx.postrider.test: key'],
  )
})

test('a key whose file is gone is a trouble of /health and of the metrics until it is back (M3)', async () => {
  await using postrider = await startTestAppliance()
  const health = async (): Promise<{ status: string; reasons?: string[] }> =>
    (await (await fetch(`${postrider.url}/health`)).json()) as { status: string }
  assert.deepEqual(await health(), { status: 'ok' })
  renameSync(keyOf(postrider), `${keyOf(postrider)}.away`)
  postrider.clock.leap(MINUTE)
  const { reasons, status } = await health()
  assert.equal(status, 'degraded')
  assert.match(reasons?.join() ?? '', /^The file of the key of this installation is gone/)
  renameSync(`${keyOf(postrider)}.away`, keyOf(postrider))
  postrider.clock.leap(MINUTE)
  assert.deepEqual(await health(), { status: 'ok' })
})

test('a second failure of the same thing is told at once, and not again that day (M3)', async () => {
  await using postrider = await startTestAppliance()
  const { troubles } = postrider.appliance.deps
  const both = new Set(['store'])
  const stand = (): void => both.forEach((name) => troubles.report(name, `${name} fails.`))
  await pass(postrider, HOUR, stand)
  assert.equal(told(postrider).length, 1)
  both.add('damage')
  await pass(postrider, 5 * HOUR, stand)
  const [, second, ...more] = told(postrider)
  assert.match(second?.text ?? '', /^The database: store fails\..*\n.*\n\nDamaged mail: damage fails\./m)
  assert.deepEqual(more, [])
})

const exchanger = testExchanger()

test('a database that takes no more is told by a mail without a row, tried again until it is taken, and as over with a row (M3)', async () => {
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
  const stand = (): void => postrider.appliance.deps.troubles.report('store', 'The database cannot be written.')
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
  assert.match(heard!.message, /^Subject: Trouble on mx\.postrider\.test: database\r$/m)
  assert.match(heard!.message, /postrider verify/)
  for (let left = 0; left < 10; left++) await minutes(6)
  assert.equal(exchanger.heard.length, 1)
  assert.deepEqual(told(postrider), [])
  store.write = write
  await pass(postrider, 2 * HOUR, undefined)
  await until(() => told(postrider).length === 1, 'the end')
  assert.equal(told(postrider)[0]?.subject, 'Over on mx.postrider.test: database')
})

test('a database that took no more, of which no mail could be sent, is told when it is over (M3)', async () => {
  await using postrider = await startTestAppliance()
  const { store, troubles } = postrider.appliance.deps
  const write = store.write.bind(store)
  store.write = (() => Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }))) as never
  for (let minute = 0; minute < 4; minute++) {
    troubles.report('store', 'The database cannot be written.')
    postrider.clock.leap(MINUTE)
    await new Promise((resolve) => setImmediate(resolve))
  }
  store.write = write
  await until(() => {
    postrider.clock.leap(20 * MINUTE)
    return told(postrider).length > 0
  }, 'the notice')
  const [{ subject, text } = { subject: '', text: '' }] = told(postrider)
  assert.equal(subject, 'Over on mx.postrider.test: database')
  assert.match(text, /^The database: The database cannot be written\./m)
  assert.match(text, /it lasted from \S+ to \S+\. It could not be told before\.\n$/)
})
