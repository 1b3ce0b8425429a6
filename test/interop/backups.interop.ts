// Scheduled backups to every kind of destination, while about 200 emails per second are submitted and sent. Each is
// restored under another host name, verified, compared with the 201 responses, and sends. A restore test finds a
// flipped bit and a truncated object at each destination, and Debian's tools open an encrypted backup.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import Database from 'better-sqlite3'
import type { Beside } from '../../src/archive/schedule.ts'
import { backupFindings } from '../../src/checks/backup-findings.ts'
import { newIdentity, recipientOf } from '../../src/archive/encryption.ts'
import { HOUR, SECOND } from '../../src/base/clock.ts'
import { listDomains } from '../../src/domains/find.ts'
import { besideServer } from '../../src/server/beside.ts'
import { raw } from '../../src/store/query.ts'
import { documentedScript } from '../archive/destination-suite.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { parseToml } from '../../src/base/toml.ts'
import { until } from '../kit/until.ts'
import type { TestDns } from '../kit/zone.ts'
import { COMMAND_PROGRAMS, startAllDestinations, type AllDestinations } from './rig/all-destinations.ts'
import { missing } from './rig/kept.ts'
import { absentOf, missingSwift, SSHD } from './rig/keepers.ts'
import { withPrograms } from './rig/need.ts'
import { executable } from './rig/postrider.ts'
import { Sandbox } from './rig/sandbox.ts'

/** The number of scheduled backups, each restored from the next destination. POSTRIDER_RESTORES=20 takes minutes. */
const RESTORES = Number(process.env['POSTRIDER_RESTORES'] ?? 5)
/** Mails a second, handed in by this process, which is also the server and the receiver. */
const RATE = 200
const TICK = 50
/** The memory limit of a backup in the executable. From sources, Node alone uses more. */
const MOST_MEMORY = 150 * 1024
const OPENERS = ['/usr/bin/age', '/usr/bin/zstd', '/usr/bin/unzip', '/usr/bin/sqlite3']

/** A mail that was answered with 201, and when. */
interface Answered {
  id: string
  to: string
  at: number
}

interface Load {
  answered: Answered[]
  /** Everything that was posted, answered or not. */
  posted: Set<string>
  /** Between two backups: the database stays small enough for many. */
  pause: (on: boolean) => void
  /** How long it was under way. */
  seconds: () => number
  end: () => Promise<void>
}

/** Turns a clock by what has passed: in a faster time a slow machine would look like a receiver that hangs. */
function keptWith(clock: ManualClock): () => number {
  let last = performance.now()
  return () => {
    const passed = Math.floor(performance.now() - last)
    clock.advance(passed)
    last += passed
    return passed
  }
}

/** Hands in mail at the rate, between its pauses, until it is ended; the clock of the server goes with the real one. */
function load(postrider: TestAppliance): Load {
  const answered: Answered[] = []
  const posted = new Set<string>()
  const underWay = new Set<Promise<void>>()
  let ended = false
  let paused = true
  let worked = 0
  const post = async (to: string): Promise<void> => {
    posted.add(to)
    const mail = { from: 'me@here.test', to, subject: 'Hello', html: `<p>Dear ${to}</p>${'x'.repeat(2000)}` }
    const { body, status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
    assert.equal(status, 201)
    answered.push({ id: body.data.id, to, at: Date.now() })
  }
  const running = (async () => {
    const keep = keptWith(postrider.clock)
    while (!ended) {
      const passed = keep()
      if (!paused) worked += passed
      for (let n = 0; !paused && n < (RATE * TICK) / SECOND && underWay.size < RATE; n++) {
        const one = post(`n${posted.size}@there.test`)
        underWay.add(one)
        void one.finally(() => underWay.delete(one))
      }
      await pause(TICK)
    }
    await Promise.all(underWay)
  })()
  return {
    answered,
    posted,
    seconds: () => worked / SECOND,
    pause: (on) => void (paused = on),
    end: () => {
      ended = true
      return running
    },
  }
}

withPrograms('backups under load', [...missingSwift(), ...absentOf([SSHD, ...COMMAND_PROGRAMS, ...OPENERS])], () => {
  const box = new Sandbox('backups')
  const commands = new Commands(box.dir)
  let key: string
  let recipient: string
  const config = box.path('postrider.toml')
  const dataDir = box.path('data')
  let all: AllDestinations
  after(async () => {
    await commands.close()
    await box.close()
  })

  before(async () => {
    const identity = await newIdentity()
    recipient = await recipientOf(identity)
    key = box.write('backup.key', `${identity}\n`, 0o600)
    mkdirSync(dataDir, { mode: 0o700 })
    all = await startAllDestinations(box)
    configure(all.destinations.map(({ target }) => target))
  })

  /** Says where backups go. */
  const configure = (to: readonly string[]): void =>
    writeFileSync(
      config,
      `data_dir = ${JSON.stringify(dataDir)}
[backup]
to = ${JSON.stringify(to)}
recipients = ["${recipient}"]
identity_file = "${key}"
${all.toml}
`,
    )

  const run = async <T>(words: readonly string[], env: Record<string, string> = {}, code = 0): Promise<T> => {
    const ran = await commands.run(['--config', config, '--json', ...words], { env, bare: true })
    assert.equal(ran.code, code, `${words.join(' ')}: ${ran.stdout}${ran.stderr}`)
    return JSON.parse(ran.stdout) as T
  }

  /** The server whose schedule makes the backups, and what became of its processes. */
  async function scheduled(wishes: { schedule: string; drill: 'never' | 'daily' }): Promise<Scheduled> {
    const start = besideServer(config, executable())
    const exchanger = testExchanger()
    const ended: string[] = []
    let peak = 0
    const beside: Beside = (words) => {
      const child = start(words)
      const look = setInterval(() => (peak = Math.max(peak, peakOf(child.pid))), 5)
      void child.ended.then(({ how, said }) => {
        clearInterval(look)
        // Not the check of the database.
        if (words[0] === 'backup') ended.push(`${words.join(' ')}: ${how} ${said}`)
      })
      return child
    }
    const postrider = await startTestAppliance({
      dataDir,
      beside,
      exchanger,
      clock: new ManualClock(Date.now()),
      routes: ['there.test'],
      config: {
        backup: {
          ...parseToml(all.toml, 'the destinations'),
          to: all.destinations.map(({ target }) => target),
          ...wishes,
        },
      },
    })
    if (listDomains(postrider.appliance.deps.store).length === 0) await postrider.activeDomain('here.test')
    return { postrider, ended, peak: () => peak, sent: () => exchanger.heard.length }
  }

  test(`${RESTORES} scheduled backups under load are each restored elsewhere, verify and send`, async (t) => {
    const began = Date.now()
    const { ended, peak, postrider, sent } = await scheduled({ schedule: '0 * * * *', drill: 'never' })
    const mail = load(postrider)
    const sending: Promise<void>[] = []
    try {
      for (let n = 0; n < RESTORES; n++) {
        const { target } = all.destinations[n % all.destinations.length]!
        configure([target])
        postrider.config.backup.to = [target]
        const before = mail.answered.slice()
        mail.pause(false)
        postrider.clock.leap(HOUR)
        await until(() => ended.length > n, `backup ${n}`)
        assert.equal(ended.at(-1), 'backup now: 0 ')
        mail.pause(true)
        const back = box.path(`back-${n}`)
        const env = { POSTRIDER_DATA_DIR: back }
        await run(['restore', '--identity', key, '--without-ledger', target], env)
        assert.equal((await run<{ sound: boolean }>(['verify'], env)).sound, true)
        const settled = settledIn(back, before, mail.posted)
        // Two restored servers at a time.
        if (sending.length > 1) await sending.shift()
        sending.push(sends({ target, back, settled, dns: postrider.dns }))
      }
      await Promise.all(sending)
    } finally {
      await mail.end()
      await postrider.stop()
    }
    configure(all.destinations.map((place) => place.target))
    const seconds = (Date.now() - began) / SECOND
    const rate = (mails: number): string => `${(mails / mail.seconds()).toFixed(0)} a second`
    t.diagnostic(
      `${RESTORES} in ${seconds.toFixed(0)} s; mails taken: ${rate(mail.answered.length)}, sent: ${rate(sent())}; memory of a backup: ${Math.round(peak() / 1024)} MB`,
    )
    if (process.env['POSTRIDER_BIN']) assert.ok(peak() < MOST_MEMORY, `${peak()} kB`)
    const listed = await run<{ target: string; complete: boolean }[]>(['backup', 'list'])
    assert.deepEqual(new Set(listed.map(({ target }) => target)), new Set(all.destinations.map(({ title }) => title)))
    assert.ok(listed.every(({ complete }) => complete))
    assert.deepEqual(
      readdirSync(dataDir).filter((name) => name.startsWith('.')),
      [],
    )
  })

  /** The newest backup at each place, changed. */
  const changed = async (to: (bytes: Buffer) => Buffer): Promise<void> => {
    const listed = await run<{ name: string; target: string }[]>(['backup', 'list'])
    for (const { change, title } of all.destinations) {
      const newest = listed.find(({ target }) => target === title)
      assert.ok(newest, title)
      await change(newest.name, to)
    }
  }

  test('a scheduled restore test finds a flipped bit at each destination, and a manual one finds a truncated object', async () => {
    const { ended, postrider } = await scheduled({ schedule: '0 0 1 1 *', drill: 'daily' })
    const drilled = (): { target: string; fault: string | null; way: string | null }[] =>
      postrider.appliance.deps.store.all(raw(`select target, fault, way from backup_runs where kind = 'drill'`))
    try {
      await until(() => ended.length === 1, 'the first drill')
      assert.deepEqual(
        drilled().map(({ fault, way }) => [fault, way]),
        all.destinations.map(() => [null, 'restored']),
      )
      await changed((bytes) => {
        bytes[Math.floor(bytes.length / 2)]! ^= 1
        return bytes
      })
      postrider.clock.leap(25 * HOUR)
      await until(() => ended.length === 2, 'the drill of the next day')
      const found = drilled().slice(all.destinations.length)
      assert.deepEqual(
        found.map(({ target }) => target),
        all.destinations.map(({ title }) => title),
      )
      for (const { fault, target } of found)
        assert.match(fault ?? '', /modified after it was written; use another backup\.$/, target)
      const { config: shown } = postrider.appliance.deps
      const judged = backupFindings(postrider.appliance.deps.store, shown, postrider.clock.now())
      assert.equal(judged.length, all.destinations.length)
      for (const { summary: detail, severity: status } of judged) {
        assert.equal(status, 'warn')
        assert.match(detail, /^the last restore test of .* failed: .* modified after it was written$/)
      }
    } finally {
      await postrider.stop()
    }
    await changed((bytes) => bytes.subarray(0, bytes.length - 1000))
    const { drills, faults } = await run<{ drills: unknown[]; faults: string[] }>(['backup', 'drill'], {}, 1)
    assert.deepEqual(drills, [])
    assert.equal(faults.length, all.destinations.length)
    for (const fault of faults)
      assert.match(
        fault,
        /is incomplete or was modified|was modified after it was written|bytes instead of the \d+ in its manifest; use another backup\.$/,
      )
    // The one before it is as good as it was.
    const listed = await run<{ name: string; at: string; target: string }[]>(['backup', 'list'])
    const before = listed.filter(({ target }) => target === all.destinations[0]?.title)[1]
    if (before) await run(['restore', '--check', '--identity', key, '--at', before.at, all.destinations[0]!.target])
  })

  test('age, zstd, unzip and sqlite3 of Debian open a backup without Postrider', async () => {
    await run(['backup', 'now'])
    const [newest] = await run<{ name: string; target: string }[]>(['backup', 'list'])
    const { objects } = JSON.parse(box.read(`disk/${newest?.name}.json`)) as { objects: { name: string }[] }
    const files = [newest?.name ?? '', ...objects.map(({ name }) => name)].map((name) => box.path('disk', name))
    mkdirSync(box.path('opened'))
    const script = box.write('open-backup', documentedScript('open-backup'), 0o755)
    execFileSync(script, [key, box.path('opened'), ...files], { stdio: 'pipe' })
    assert.ok(readdirSync(box.path('opened')).includes('postrider.db-wal'))
    const asked =
      'pragma integrity_check; select count(*) > 0 from outbound_emails; select email from users order by key'
    const said = execFileSync('/usr/bin/sqlite3', [box.path('opened', 'postrider.db'), asked], { encoding: 'utf8' })
    assert.equal(said, 'ok\n1\nann@owner.test\nbob@other.test\n')
    const own = readFileSync(`${dataDir}/instance.key`)
    assert.deepEqual(readFileSync(box.path('opened', 'instance.key')), own)
    assert.match(box.read('opened/erasures.ledger'), /^\{"ledger":/)
  })

  /** A server on restored data sends under another name of the host, and nothing that had been sent before. */
  async function sends({ back, dns, settled, target }: Sender): Promise<void> {
    const exchanger = testExchanger()
    await using other = await startTestAppliance({
      dataDir: back,
      clock: new ManualClock(Date.now()),
      exchanger,
      config: { hostname: 'other.postrider.test' },
      dns,
    })
    const mail = { from: 'me@here.test', to: 'again@there.test', subject: 'Again', html: '<p>Again</p>' }
    assert.equal((await other.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
    const heard = (): string[] => exchanger.heard.flatMap(({ to }) => to)
    const keep = keptWith(other.clock)
    await until(
      () => {
        keep()
        return heard().includes('again@there.test')
      },
      `mail from ${target}`,
      () => other.appliance.deps.store.all(raw(`select * from deliveries where address = 'again@there.test'`)),
    )
    assert.equal((await other.raw('/health')).status, 200)
    assert.equal(new Set(heard()).size, heard().length, 'a recipient gets no mail twice')
    assert.deepEqual(
      heard().filter((to) => settled.has(to)),
      [],
    )
  }
})

interface Sender {
  /** Where its backup was. */
  target: string
  back: string
  dns: TestDns
  /** Who had their mail when the backup was made. */
  settled: ReadonlySet<string>
}

interface Scheduled {
  postrider: TestAppliance
  /** How each process ended. */
  ended: string[]
  /** The most memory of one, in kB. */
  peak: () => number
  /** Mails that the receiver has. */
  sent: () => number
}

/**
 * Holds restored data against the mails that were answered before the backup, and those that were posted at all; whose
 * mail had its end by then.
 */
function settledIn(back: string, before: readonly Answered[], posted: ReadonlySet<string>): Set<string> {
  const lost = missing(
    back,
    before.map(({ id }) => ({ kind: 'mail', name: id, answered: 0 })),
  )
  assert.equal(lost.length, 0, `${lost.length} of ${before.length} in ${back}: ${lost.slice(0, 3).join('; ')}`)
  const database = new Database(`${back}/postrider.db`, { readonly: true })
  try {
    const rows = database
      .prepare<[], { address: string; status: string }>('select address, status from deliveries')
      .all()
    const addresses = new Set(rows.map(({ address }) => address))
    assert.equal(addresses.size, rows.length, 'no mail is there twice')
    assert.deepEqual(
      [...addresses].filter((each) => !posted.has(each)),
      [],
    )
    for (const { to } of before) assert.ok(addresses.has(to), to)
    return new Set(rows.flatMap(({ address, status }) => (/queued|held|active/.test(status) ? [] : [address])))
  } finally {
    database.close()
  }
}

/** The most memory that a process had, in kB. */
function peakOf(pid: number | undefined): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
