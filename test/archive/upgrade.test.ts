// Checks of an upgrade on a copy, upgrades that are killed, and rollbacks.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { SECOND } from '../../src/base/clock.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { version } from '../../src/base/version.ts'
import { signedVersion } from '../../src/archive/upgrade-check.ts'
import { findRollback, lossOf } from '../../src/archive/rollback.ts'
import { schemaIn } from '../../src/store/copy.ts'
import { takeLock } from '../../src/store/lock.ts'
import { putBack } from '../../src/store/way-back.ts'
import { enter, readLedger } from '../../src/privacy/ledger.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { keepReserve } from '../../src/store/reserve.ts'
import { Commands, start } from '../commands/command.ts'
import { deb, good, otherKey } from './signature-vectors.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { RELEASED, releasedData } from '../kit/released.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { isOver, until } from '../kit/until.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const folder = temporaryDirectory('upgrade')

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

/** Every file of a folder with its digest, except files that change when a database is read, and the lock of copies. */
const contents = (dataDir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dataDir, { recursive: true, encoding: 'utf8', withFileTypes: true })
      .filter((entry) => entry.isFile() && !/-(?:wal|shm)$|^backup\.lock$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .map((file) => [file, hash('sha256', readFileSync(file))]),
  )

const schemaOf = (file: string): number => schemaIn(file).schema

/** Leftover folders of copies in a data directory. */
const foldersIn = (dataDir: string): string[] => readdirSync(dataDir).filter((name) => name.startsWith('.postrider'))

test('upgrade --check runs the other version on a copy, reports the result, and leaves the data unchanged', async () => {
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
  })
  assert.ok((found['seconds'] as number) >= 0)
  assert.deepEqual(contents(dataDir), before)
  const { code, stdout } = await commands.run(['upgrade', '--check', program('newer'), '--unsigned'])
  assert.equal(code, 0)
  assert.match(
    stdout,
    /^Ready: Postrider [\d.]+ \(unsigned\) works with a copy of this installation\.\nThe upgrade from schema 19 to \d+ took \d+ s on the copy\.\nThe installation is unchanged/,
  )
})

for (const released of RELEASED)
  test(`upgrade --check without a file checks this version on data of ${released}`, async () => {
    const name = `itself-${released}`
    const { dataDir } = installed(name, released)
    const before = contents(dataDir)
    const check = async (...first: string[]): Promise<string> => {
      const ran = start(['--config', configured(name, dataDir), ...first, 'upgrade', '--check'], folder)
      assert.equal(await ran.ended, 0, ran.stderr() + ran.stdout())
      return ran.stdout()
    }
    const found = JSON.parse(await check('--json'))
    assert.partialDeepStrictEqual(found, { ready: true, file: null, signed: null, version, schema: migrations.length })
    assert.deepEqual(contents(dataDir), before)
    assert.match(await check(), new RegExp(`^Ready: Postrider ${version} works with a copy`))
  })

test('upgrade --check exits 1 with the reason of the other version if it cannot upgrade', async () => {
  const { commands, dataDir } = installed('not-ready')
  await using _ = commands
  const check = async (file: string): Promise<{ ready: boolean; reason: string }> => {
    const ran = await commands.run(['--json', 'upgrade', '--check', file, '--unsigned'])
    assert.equal(ran.code, 1, ran.stdout)
    return JSON.parse(ran.stdout)
  }
  const older = join(folder, 'older')
  writeFileSync(older, `#!/bin/sh\necho "error: unknown option '--trial'" >&2\nexit 2\n`)
  assert.match((await check(older)).reason, /Only version 0\.3\.0 and newer/)
  const strange = join(folder, 'strange')
  writeFileSync(strange, '#!/bin/sh\necho "[1, 2]"\n')
  assert.equal((await check(strange)).ready, false)
  const database = new Database(join(dataDir, 'postrider.db'))
  database.exec('create table warmups (x)')
  assert.match((await check(program('stuck'))).reason, /cannot be upgraded and is unchanged: .*warmups/)
  database.exec('drop table warmups')
  database.close()
  rmSync(join(dataDir, 'instance.key'))
  // The reason names the path in the installation, not in the copy.
  assert.ok((await check(program('keyless'))).reason.startsWith(`${join(dataDir, 'instance.key')} is missing`))
  assert.deepEqual(foldersIn(dataDir), [])
})

test('upgrade --check rejects a file without a signature, and one that is not an executable', async () => {
  const { commands } = installed('unsigned')
  await using _ = commands
  assert.match(
    await commands.fails('upgrade', '--check', program('unsigned-program')),
    /SHA256SUMS cannot be read \(ENOENT\).*--unsigned/,
  )
  assert.match(
    await commands.fails('upgrade', '--check', folder),
    /is not a regular file; use the path of an executable/,
  )
  for (const more of [[], ['--unsigned']])
    assert.match(
      await commands.fails('upgrade', '--check', join(folder, 'none'), ...more),
      /none cannot be read \(ENOENT\); use the path of an executable/,
    )
  const text = join(folder, 'text')
  writeFileSync(text, 'nothing')
  assert.match(
    await commands.fails('upgrade', '--check', '--unsigned', text),
    /text is not an executable; unpack the release/,
  )
  assert.match(await commands.fails('upgrade', text), /A file is only used with --check; .*text/)
  assert.match(
    await commands.fails('upgrade', '--check', text, '--unsigned'),
    /text is not an executable; unpack the release/,
  )
  assert.match(await commands.fails('upgrade', '--trial'), /is not a copy/)
})

test('reads the version from the signature, and rejects another file and another signature', async () => {
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
  // The copy is verified, not the file.
  const copy = join(folder, 'changed')
  writeFileSync(copy, 'changed')
  await assert.rejects(signedVersion(file, copy, good.publicKey), /does not (?:match its signature|have the SHA-256)/)
  writeFileSync(join(beside, 'SHA256SUMS'), 'x'.repeat(100_000))
  await assert.rejects(signedVersion(file, file, good.publicKey), /does not (?:match its signature|have the SHA-256)/)
})

test('rejects a check during a backup', async () => {
  const { commands, dataDir } = installed('copied')
  await using _ = commands
  const release = takeLock(dataDir, 'backup.lock')
  assert.ok(release)
  try {
    const { code, stderr } = await commands.run(['upgrade', '--check', program('newer'), '--unsigned'])
    assert.equal(code, 1)
    assert.match(stderr, /A backup, .* is in progress; wait until it is complete\./)
  } finally {
    release()
  }
})

test('reports in one sentence that an executable cannot be started', async () => {
  const { commands, dataDir } = installed('not-started')
  await using _ = commands
  const file = join(folder, 'no-interpreter')
  writeFileSync(file, '#!/no/such/interpreter\n')
  assert.match(
    await commands.fails('upgrade', '--check', file, '--unsigned'),
    /cannot be executed \(ENOENT\); check that/,
  )
  assert.deepEqual(foldersIn(dataDir), [])
})

test('a check that is killed ends the other version', async () => {
  const { dataDir } = installed('killed-check')
  const pidFile = join(folder, 'pid')
  const waiting = program('waiting', `echo $$ >${JSON.stringify(pidFile)}; cat; exit`)
  const check = start(
    ['--config', configured('killed-check', dataDir), 'upgrade', '--check', waiting, '--unsigned'],
    folder,
  )
  await until(() => existsSync(pidFile) && readFileSync(pidFile, 'utf8').endsWith('\n'), 'the other version')
  check.child.kill('SIGKILL')
  await check.ended
  await until(() => isOver(Number(readFileSync(pidFile, 'utf8'))), 'its end')
})

test('an upgrade that is killed while it copies or migrates is completed by the next one', async () => {
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

test('a rollback loses no data if no data was stored since the upgrade', async () => {
  const { commands, dataDir } = installed('back')
  await using _ = commands
  assert.equal((await commands.json('upgrade')).from, 19)
  assert.match(await commands.fails('upgrade', '--check', program('late')), /SHA256SUMS/)
  const ledger = readFileSync(join(dataDir, 'erasures.ledger'), 'utf8')
  const done = await commands.json('upgrade', '--rollback')
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
  assert.match(await commands.fails('upgrade', '--rollback'), /still has schema 19 of 0\.2\.0/)
  // And forward again.
  assert.equal((await commands.json('upgrade')).from, 19)
})

test('rolls back on a full disk', async (t) => {
  using disk = smallDisk(join(folder, 'full-back'), 'size=24m')
  if (!disk) return t.skip('a small disk cannot be mounted here')
  releasedData('0.2.0', disk.dir)
  await using commands = new Commands(folder, ['--config', configured('full-back', disk.dir)])
  await commands.json('upgrade')
  keepReserve(disk.dir, 0, Infinity)
  disk.fill(0)
  assert.equal((await commands.json('upgrade', '--rollback')).schema, 19)
  assert.equal(schemaOf(join(disk.dir, 'postrider.db')), 19)
})

test('a rollback counts data stored since the upgrade, and discards it only with --discard-new-data', async () => {
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
  // A requested erasure that is not done yet. It deletes the copy.
  const [known] = readLedger(dataDir)
  assert.equal(known, undefined)
  enter(dataDir, { id: 'e', user: 'u', recipient_hash: 'h', at: '2026-01-15T12:00:00.000Z' })
  const ledger = readFileSync(join(dataDir, 'erasures.ledger'), 'utf8')
  const said = await commands.fails('upgrade', '--rollback')
  assert.match(
    said,
    /Nothing was changed.*1 accepted email.*events.*1 erasure request.*\d+ recipients? would receive an email a second time.*--discard-new-data/,
  )
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), migrations.length)
  const done = await commands.json('upgrade', '--rollback', '--discard-new-data')
  assert.equal(done.lost.mails, 1)
  assert.equal(done.lost.erasures, 1)
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), 19)
  assert.equal(readFileSync(join(dataDir, 'erasures.ledger'), 'utf8'), ledger, 'the ledger stays')
})

test('a rollback after a killed one succeeds', async () => {
  const { commands, dataDir } = installed('steps')
  await using _ = commands
  await commands.json('upgrade')
  assert.partialDeepStrictEqual(await lossOf(dataDir, findRollback(dataDir)), { mails: 0, again: 0 })
  // A kill after the link leaves both names and the copy.
  const half = join(folder, 'half')
  cpSync(dataDir, half, { recursive: true })
  cpSync(join(half, 'postrider.db'), join(half, `postrider.db.schema-${migrations.length}`))
  const { copy, from } = findRollback(half)
  putBack(half, copy, from)
  assert.equal(schemaOf(join(half, 'postrider.db')), 19)
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), migrations.length)
})

test('an erasure deletes the copy, which contains the address', async () => {
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
  assert.match(await commands.fails('upgrade', '--rollback'), /no copy.*until the next erasure/)
})
