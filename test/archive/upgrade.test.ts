// What an upgrade would do, tried on a copy (U1), and the way back from one (U4).
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { SECOND } from '../../src/base/clock.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { changelog, version } from '../../src/base/version.ts'
import { signedVersion } from '../../src/archive/upgrade-check.ts'
import { startTrial } from '../../src/archive/trial-run.ts'
import { isTrial, newerThan, releasesIn } from '../../src/archive/upgrade-trial.ts'
import { findWayBack, goBack, lossOf } from '../../src/archive/upgrade-back.ts'
import { schemaIn } from '../../src/store/copy.ts'
import { takeLock } from '../../src/store/lock.ts'
import { enter, readLedger } from '../../src/privacy/ledger.ts'
import { migrations } from '../../src/schema/migrations.ts'
import { keepRoom } from '../../src/store/room.ts'
import { Commands, start } from '../commands/command.ts'
import { deb, good, otherKey } from './signature-vectors.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { RELEASED, releasedData } from '../kit/released.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { until } from '../kit/until.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'postrider-upgrade-'))
after(() => rmSync(folder, { recursive: true, force: true }))

/** Data of a released version in a folder of its own, with commands for it. */
function installed(name: string, released: (typeof RELEASED)[number] = '0.2.0') {
  const dataDir = join(folder, name)
  mkdirSync(dataDir, { mode: 0o700 })
  return { ...releasedData(released, dataDir), commands: new Commands(folder, ['--config', configured(name, dataDir)]) }
}

function configured(name: string, dataDir: string): string {
  const file = join(folder, `${name}.toml`)
  writeFileSync(file, `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(dataDir)}\n`)
  return file
}

/** A program that is this one, as an executable file. */
function program(name: string, before = ''): string {
  const file = join(folder, name)
  writeFileSync(file, `#!/bin/sh\n${before}\nexec ${process.execPath} ${PROGRAM} "$@"\n`)
  chmodSync(file, 0o700)
  return file
}

/** Every file of a folder with its digest, but what a database in use changes by being read, and the lock of copies. */
const contents = (dataDir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dataDir, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter((entry) => entry.isFile() && !/-(?:wal|shm)$|^backup\.lock$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file) => [file, hash('sha256', readFileSync(file))]),
  )

const schemaOf = (file: string): number => schemaIn(file).schema

/** What copies left in a data directory. */
const foldersIn = (dataDir: string): string[] => readdirSync(dataDir).filter((name) => name.startsWith('.postrider'))

test('a check runs the other version on a copy, says what it found, and changes nothing (U1)', async () => {
  const { commands, dataDir } = installed('check')
  await using _ = commands
  const before = contents(dataDir)
  const ran = await commands.run(['--json', 'upgrade', '--check', program('newer'), '--unsigned'])
  assert.equal(ran.code, 0, ran.stderr + ran.stdout)
  const found = JSON.parse(ran.stdout) as Record<string, unknown>
  assert.partialDeepStrictEqual(found, {
    ready: true,
    reason: null,
    signed: null,
    version,
    from: 19,
    schema: migrations.length,
    changes: [],
  })
  assert.ok((found['room'] as number) > 500_000, 'the copy that an upgrade makes counts')
  assert.ok((found['free'] as number) > 0 && (found['seconds'] as number) >= 0)
  assert.deepEqual(contents(dataDir), before)
  const { code, stdout } = await commands.run(['upgrade', '--check', program('newer'), '--unsigned'])
  assert.equal(code, 0)
  assert.match(
    stdout,
    /^Ready: Postrider [\d.]+ \(unsigned\) opens a copy of this installation\.\nThe database goes from schema 19 to \d+, which took \d+ s; it needs \d+ MB for a while, and .* are free\./,
  )
})

for (const released of RELEASED)
  test(`without a file a version tries itself, and tells all that changes since ${released} (U1)`, async () => {
    const name = `itself-${released}`
    const { dataDir } = installed(name, released)
    const before = contents(dataDir)
    const check = async (...first: string[]): Promise<string> => {
      const ran = start(['--config', configured(name, dataDir), ...first, 'upgrade', '--check'], folder)
      assert.equal(await ran.ended, 0, ran.stderr() + ran.stdout())
      return ran.stdout()
    }
    const found = JSON.parse(await check('--json')) as { changes: string[] }
    assert.partialDeepStrictEqual(found, { ready: true, file: null, signed: null, version, schema: migrations.length })
    assert.deepEqual(contents(dataDir), before)
    // Every item of the list of changes above that version, in full, and nothing of that version or of older ones.
    const list = changelog()
    const newer = list.slice(0, list.indexOf(`\n## ${released} `))
    assert.equal(found.changes.length, newer.match(/^- /gm)?.length)
    const words = (text: string): string =>
      text
        .replace(/^#.*$/gm, '')
        .replace(/(?:^|\n)- /g, ' ')
        .replace(/\s+/g, ' ')
        .trim()
    assert.equal(words(found.changes.map((each) => each.replace(/^[\d.]+: /, '')).join(' ')), words(newer))
    assert.match(await check(), new RegExp(`^Ready: Postrider ${version} opens a copy`))
  })

test('what cannot be upgraded is not ready: exit code 1, with the reason of the other version (U1)', async () => {
  const { commands, dataDir } = installed('not-ready')
  await using _ = commands
  const check = async (file: string): Promise<{ ready: boolean; reason: string }> => {
    const ran = await commands.run(['--json', 'upgrade', '--check', file, '--unsigned'])
    assert.equal(ran.code, 1, ran.stdout)
    return JSON.parse(ran.stdout)
  }
  const older = join(folder, 'older')
  writeFileSync(older, `#!/bin/sh\necho "error: unknown option '--trial'" >&2\nexit 2\n`)
  assert.match((await check(older)).reason, /older than 0\.3\.0/)
  const strange = join(folder, 'strange')
  writeFileSync(strange, '#!/bin/sh\necho "[1, 2]"\n')
  assert.equal((await check(strange)).ready, false)
  const database = new Database(join(dataDir, 'postrider.db'))
  database.exec('create table warmups (x)')
  assert.match((await check(program('stuck'))).reason, /as it was: .*warmups/)
  database.exec('drop table warmups')
  database.close()
  rmSync(join(dataDir, 'instance.key'))
  // It names what is missing where it is missing, not in the copy.
  assert.ok((await check(program('keyless'))).reason.startsWith(`${join(dataDir, 'instance.key')} is missing`))
  assert.deepEqual(foldersIn(dataDir), [])
})

test('a file without a signature is refused, and so is one that is not a program (U1)', async () => {
  const { commands } = installed('unsigned')
  await using _ = commands
  assert.match(
    await commands.fails('upgrade', '--check', program('unsigned-program')),
    /SHA256SUMS cannot be read \(ENOENT\).*--unsigned/,
  )
  assert.match(await commands.fails('upgrade', '--check', folder), /is not a file; name the executable/)
  for (const more of [[], ['--unsigned']])
    assert.match(
      await commands.fails('upgrade', '--check', join(folder, 'none'), ...more),
      /none is not there; name the/,
    )
  const text = join(folder, 'text')
  writeFileSync(text, 'nothing')
  // As one types it who was told to add the option.
  assert.match(await commands.fails('upgrade', '--check', '--unsigned', text), /text is not an executable, a Debian/)
  assert.match(await commands.fails('upgrade', text), /text is only tried, by "upgrade --check FILE"/)
  assert.match(await commands.fails('upgrade', '--check', text, '--unsigned'), /text is not an executable, a Debian/)
  assert.match(await commands.fails('upgrade', '--trial'), /is not a copy/)
})

test('the signature beside a file names its version; another file, and another signature, are refused (U1, S2)', async () => {
  const beside = join(folder, 'release')
  mkdirSync(beside)
  const file = join(beside, deb)
  writeFileSync(file, 'deb')
  await assert.rejects(signedVersion(file, file, good.publicKey), /SHA256SUMS cannot be read/)
  writeFileSync(join(beside, 'SHA256SUMS'), good.sums)
  await assert.rejects(signedVersion(file, file, good.publicKey), /SHA256SUMS\.minisig cannot be read/)
  writeFileSync(join(beside, 'SHA256SUMS.minisig'), good.signature)
  assert.equal(await signedVersion(file, file, good.publicKey), '1.2.3')
  await assert.rejects(signedVersion(file, file, otherKey), /signed with the key/)
  // What was copied is judged, not what lies there.
  const copy = join(folder, 'changed')
  writeFileSync(copy, 'changed')
  await assert.rejects(signedVersion(file, copy, good.publicKey), /is not what was signed/)
  writeFileSync(join(beside, 'SHA256SUMS'), 'x'.repeat(100_000))
  await assert.rejects(signedVersion(file, file, good.publicKey), /is not what was signed/)
})

test('no check is made while a copy is under way, whose folder the server must not take for a leaving (U1, B2)', async () => {
  const { commands, dataDir } = installed('copied')
  await using _ = commands
  const release = takeLock(dataDir, 'backup.lock')
  assert.ok(release)
  try {
    const { code, stderr } = await commands.run(['upgrade', '--check', program('newer'), '--unsigned'])
    assert.equal(code, 1)
    assert.match(stderr, /A backup, .* is under way; wait for its end\./)
  } finally {
    release()
  }
})

test('a trial that stands still is ended with all that it started, and what it says is bounded (U1)', async () => {
  const data = join(folder, 'stands-still')
  mkdirSync(data)
  const run = (name: string, before: string) =>
    startTrial(
      { program: program(name, before), first: [] },
      {
        now: { configFile: undefined, environment: process.env },
        data,
        named: data,
        tell: () => {},
        still: 300,
      },
    ).ended
  const still = await run('still', 'sleep 1000\nexit 0')
  assert.deepEqual([still.code, still.last], [null, 'It stood still for 0 s, and was ended.'])
  const flood = await run('flood', 'head -c 100000000 /dev/zero >&2\nhead -c 100000000 /dev/zero\nsleep 1000')
  assert.ok(flood.output.length <= 4 * 1024 ** 2 && flood.last.length <= 2000)
})

test('a check that a signal ends leaves nothing (U1)', async () => {
  const { dataDir } = installed('killed')
  const slow = program('slow', 'echo begun >&2; exec sleep 600')
  const config = configured('killed', dataDir)
  const check = start(['--config', config, 'upgrade', '--check', slow, '--unsigned'], folder)
  await check.said(/begun/, 'stderr')
  check.child.kill('SIGTERM')
  assert.equal(await check.ended, 'SIGTERM')
  assert.deepEqual(foldersIn(dataDir), [])
})

test('killed by SIGKILL, a check leaves no trial that goes on, and the next command removes its folder (U1)', async () => {
  const { commands, dataDir } = installed('orphan')
  await using _ = commands
  const left = (): string[] => foldersIn(dataDir)
  const pid = join(folder, 'orphan.pid')
  const slow = program('orphan-program', `echo $$ >${pid}; echo begun >&2; exec sleep 600`)
  const check = start(['--config', configured('orphan', dataDir), 'upgrade', '--check', slow, '--unsigned'], folder)
  await check.said(/begun/, 'stderr')
  check.child.kill('SIGKILL')
  assert.equal(await check.ended, 'SIGKILL')
  process.kill(-Number(readFileSync(pid, 'utf8')), 'SIGKILL')
  const [copy] = left()
  assert.ok(copy)
  // One of ours ends at once with its caller, and answers while it has one.
  const trial = (): ReturnType<typeof start> =>
    start(['--json', 'upgrade', '--trial'], folder, {
      POSTRIDER_DATA_DIR: join(dataDir, copy, 'data'),
      POSTRIDER_CONFIG: '',
    })
  const alone = trial()
  alone.child.stdin?.end()
  assert.deepEqual([await alone.ended, alone.stdout()], [1, ''])
  const held = trial()
  assert.equal(await held.ended, 0, held.stderr())
  assert.ok(isTrial(JSON.parse(held.stdout())))
  assert.equal((await commands.run(['upgrade', '--check', program('after'), '--unsigned'])).code, 0)
  assert.deepEqual(left(), [])
})

test('the changes of newer versions are told, and nothing else is taken for an answer (U1)', () => {
  const releases = releasesIn(
    '# Changes\n\n## 1.10.0 (2027-01-01)\n\n- Two\n  lines.\n- Another.\n\n## 1.9.0 (2026-12-01)\n\n- Old.\n',
  )
  assert.deepEqual(newerThan('1.9.0', releases), ['1.10.0: Two lines.', '1.10.0: Another.'])
  assert.deepEqual(newerThan('1.10.0', releases), [])
  const trial = { version: '1.0.0', from: 1, schema: 2, seconds: 0, faults: [], failed: [], releases }
  assert.ok(isTrial(trial))
  for (const wrong of [{ ...trial, from: '1' }, { ...trial, faults: [1] }, { ...trial, releases: [{}] }, [], null])
    assert.ok(!isTrial(wrong))
})

test('killed while it copies or migrates, an upgrade begins again and ends (U2)', async () => {
  const { commands, dataDir } = installed('killed-upgrade')
  await using _ = commands
  const file = join(dataDir, 'postrider.db')
  const large = new Database(file)
  large.exec('create table ballast (octets blob)')
  const insert = large.prepare('insert into ballast values (zeroblob(4000))')
  large.transaction(() => {
    for (let n = 0; n < 30_000; n++) insert.run()
  })()
  large.close()
  for (const begun of ['postrider.db.schema-19.part', 'postrider.db.schema-19']) {
    rmSync(join(dataDir, 'postrider.db.schema-19'), { force: true })
    const upgrade = start(['--config', configured('killed-upgrade', dataDir), 'upgrade'], folder)
    await until(() => existsSync(join(dataDir, begun)), begun)
    upgrade.child.kill('SIGKILL')
    assert.equal(await upgrade.ended, 'SIGKILL')
    // The older or the newer, whichever the kill came before.
    assert.ok([19, migrations.length].includes(schemaOf(file)), begun)
  }
  assert.equal((await commands.json('upgrade')).schema, migrations.length)
  assert.equal(schemaOf(file), migrations.length)
  assert.equal(schemaOf(join(dataDir, 'postrider.db.schema-19')), 19)
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.includes('.part')),
    [],
  )
})

test('the way back is free while nothing was promised since, and the older version opens what is there (U4)', async () => {
  const { commands, dataDir } = installed('back')
  await using _ = commands
  assert.equal((await commands.json('upgrade')).from, 19)
  assert.match(await commands.fails('upgrade', '--check', program('late')), /SHA256SUMS/)
  const ledger = readFileSync(join(dataDir, 'erasures.ledger'), 'utf8')
  const done = await commands.json('upgrade', '--back')
  assert.partialDeepStrictEqual(done, {
    from: migrations.length,
    schema: 19,
    version: '0.2.0',
    lost: { mails: 0, events: 0 },
  })
  // Before anybody opens the databases here.
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.startsWith('postrider.db')),
    ['postrider.db', `postrider.db.schema-${migrations.length}`],
  )
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), 19)
  assert.equal(schemaOf(join(dataDir, `postrider.db.schema-${migrations.length}`)), migrations.length)
  assert.equal(readFileSync(join(dataDir, 'erasures.ledger'), 'utf8'), ledger)
  assert.match(await commands.fails('upgrade', '--back'), /has schema 19, as 0\.2\.0 wrote it: it was not upgraded/)
  // And forward again.
  assert.equal((await commands.json('upgrade')).from, 19)
})

test('the way back is open on a disk without a free octet (U4)', async (t) => {
  using disk = smallDisk(join(folder, 'full-back'), 'size=24m')
  if (!disk) return t.skip('a small disk cannot be mounted here')
  releasedData('0.2.0', disk.dir)
  await using commands = new Commands(folder, ['--config', configured('full-back', disk.dir)])
  await commands.json('upgrade')
  keepRoom(disk.dir, 0, Infinity)
  disk.fill(0)
  assert.equal((await commands.json('upgrade', '--back')).schema, 19)
  assert.equal(schemaOf(join(disk.dir, 'postrider.db')), 19)
})

test('what came since the upgrade is counted, and lost only where that is asked for (U4)', async () => {
  const { commands, dataDir, token } = installed('promised')
  await using _ = commands
  const exchanger = testExchanger()
  {
    await using postrider = await startTestAppliance({ dataDir, exchanger, routes: ['there.test'] })
    const posted = await postrider.raw('/api/v1/outbound-emails', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify(
        document('outbound-emails', { from: 'a@here.test', to: 'new@there.test', subject: 'New', html: '<p>x</p>' }),
      ),
    })
    assert.equal(posted.status, 201)
    postrider.publish(domainByKey(postrider.appliance.deps.store, 1)!)
    await until(() => {
      postrider.clock.advance(5 * SECOND)
      return exchanger.heard.some(({ to }) => to.includes('late-one@there.test'))
    }, 'mail that waited before the upgrade')
  }
  // An erasure that was asked for and not made yet: once it is made, the copy is gone.
  const [known] = readLedger(dataDir)
  assert.equal(known, undefined)
  enter(dataDir, { id: 'e', user: 'u', recipient_hash: 'h', at: '2026-01-15T12:00:00.000Z' })
  const ledger = readFileSync(join(dataDir, 'erasures.ledger'), 'utf8')
  const said = await commands.fails('upgrade', '--back')
  assert.match(
    said,
    /Nothing was changed.*1 mail that was accepted.*events.*1 request to erase.*\d+ recipients? would get mail a second time.*--lose/,
  )
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), migrations.length)
  const done = await commands.json('upgrade', '--back', '--lose')
  assert.equal(done.lost.mails, 1)
  assert.equal(done.lost.erasures, 1)
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), 19)
  assert.equal(readFileSync(join(dataDir, 'erasures.ledger'), 'utf8'), ledger, 'the ledger stays')
})

test('killed at each step of the way back, one whole database is in place (U4)', async () => {
  const { commands, dataDir } = installed('steps')
  await using _ = commands
  await commands.json('upgrade')
  const way = findWayBack(dataDir)
  assert.partialDeepStrictEqual(await lossOf(dataDir, way), { mails: 0, again: 0 })
  // What a kill after the link leaves: both names, and the copy.
  const half = join(folder, 'half')
  cpSync(dataDir, half, { recursive: true })
  cpSync(join(half, 'postrider.db'), join(half, `postrider.db.schema-${migrations.length}`))
  goBack(half, findWayBack(half))
  assert.equal(schemaOf(join(half, 'postrider.db')), 19)
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), migrations.length)
})

test('an erasure takes the copy away: it holds the address (U4)', async () => {
  const { commands, dataDir, token } = installed('erased')
  await using _ = commands
  {
    await using postrider = await startTestAppliance({ dataDir })
    assert.ok(existsSync(join(dataDir, 'postrider.db.schema-19')))
    const asked = await postrider.raw('/api/v1/recipients/done@there.test/forget', {
      method: 'DELETE',
      headers: { authorization: `Bearer ${token}` },
    })
    assert.equal(asked.status, 202, JSON.stringify(asked.body))
    await until(() => !existsSync(join(dataDir, 'postrider.db.schema-19')), 'the erasure')
  }
  assert.match(await commands.fails('upgrade', '--back'), /no copy.*until the next erasure/)
})
