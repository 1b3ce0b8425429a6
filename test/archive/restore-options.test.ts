// Each option of `restore` and `backup` is used or rejected, and never accepted and ignored.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { createProgram } from '../../src/cli/main.ts'
import { inFolder } from '../commands/beside.ts'
import { backupsIn, sharedIn } from './stored.ts'
import { sentenceOf } from '../commands/command.ts'
import { makeInstallation } from '../kit/installation.ts'

const { commands, folder, place } = inFolder('postrider-options-')

const dataDir = join(folder, 'data')
const other = join(folder, 'other')
const to = join(folder, 'to')
const zip = join(folder, 'b.zip')
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: to }

const run = (argv: readonly string[], more: Record<string, string> = {}) =>
  commands.run(argv, { env: { ...env, ...more }, bare: true })
async function well(argv: readonly string[], more: Record<string, string> = {}): Promise<string> {
  const { code, stderr, stdout } = await run(argv, more)
  assert.equal(code, 0, stdout + stderr)
  return stdout + stderr
}
const refused = async (...argv: string[]): Promise<string> => sentenceOf(await run(argv), argv.join(' '))

before(async () => {
  mkdirSync(to)
  for (const each of [dataDir, other]) makeInstallation(each)
  await well(['backup', zip])
  await well(['backup', zip.replace('b.zip', 'other.zip')], { POSTRIDER_DATA_DIR: other })
  await well(['backup', 'now'])
})

const file = (name: string, text: string): string => {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const left = (dir: string): string[] => readdirSync(dir).filter((name) => name.startsWith('.postrider-backup-'))

test('restore --check reads the given erasure logs as a restore does', async () => {
  const check = ['restore', '--check', '--ledger']
  assert.match(
    await refused(...check, join(folder, 'none'), zip),
    /The erasure log .*none does not exist; check the path\.$/,
  )
  assert.match(await refused(...check, file('rubbish', 'no entry\n'), zip), /is not an erasure log.*line 1/)
  assert.match(await refused(...check, join(other, 'erasures.ledger'), zip), /belongs to another installation/)
  const own = join(dataDir, 'erasures.ledger')
  const person = { id: 'x', user: 'u', recipient_hash: 'h', at: new Date().toISOString() }
  const later = file('later', '')
  copyFileSync(own, later)
  writeFileSync(later, `${JSON.stringify(person)}\n`, { flag: 'a' })
  assert.match(await well([...check, later, zip]), /1 erasure to repeat/)
  assert.match(await well(['restore', '--check', zip]), / 0 erasures to repeat/)
})

/** A value of each option. */
const VALUES: Record<string, readonly string[]> = {
  '--identity': [file('keys', '# none\n')],
  '--at': ['2020-01-01'],
  '--installation': ['abcd'],
  '--ledger': [file('ledger', 'rubbish\n')],
  '--work-dir': [join(folder, 'nowhere')],
}
/** Options without a value, with which a test restore succeeds if it uses them. */
const ALLOW = ['--without-ledger', '--force', '--replace', '--check', '--list']
/** The options that have no effect with another one. */
const NONE: Record<string, readonly string[]> = {
  '--list': [
    '--identity',
    '--at',
    '--installation',
    '--check',
    '--ledger',
    '--without-ledger',
    '--force',
    '--replace',
    '--work-dir',
  ],
  '--check': ['--replace'],
  '--replace': ['--work-dir'],
}

const restore = createProgram({}).commands.find((each) => each.name() === 'restore')
const longs = (restore?.options ?? []).flatMap(({ long }) => (long === undefined ? [] : [long]))

for (const [way, none] of Object.entries(NONE))
  test(`uses or rejects each option of restore together with ${way}`, async () => {
    for (const long of longs.filter((each) => each !== way)) {
      const words = ['restore', way, long, ...(VALUES[long] ?? []), to]
      if (none.includes(long))
        assert.match(
          await refused(...words),
          new RegExp(`^(?:${long}|${way}) has no effect with(?:out)? --\\w+; remove it\\.$`),
        )
      else if (!ALLOW.includes(long)) assert.doesNotMatch(await refused(...words), /has no effect/)
    }
  })

test('rejects options that select among backups if the source is a file', async () => {
  assert.match(
    await refused('restore', '--check', '--at', '2020-01-01', zip),
    /^--at needs a directory or destination, .* remove the option\.$/,
  )
  assert.match(
    await refused('backup', 'drill', '--installation', 'abcd', zip),
    /^--installation needs a directory or destination/,
  )
})

test('rejects a time without a zone, an invalid installation id, and one that matches two installations', async () => {
  for (const time of ['1', 'Jan 5', '2026-01-15T12:00:00', '2026-13-01', '2026-02-30', '2026-04-31T00:00:00Z', ''])
    assert.match(
      await refused('restore', '--check', '--at', time, to),
      /^--at "[^"]*" is not a time; use one such as 2026-01-15T12:00:00Z\.$/,
    )
  for (const digits of ['', 'zzzz', 'abc', 'a'.repeat(33)])
    assert.match(
      await refused('restore', '--check', '--installation', digits, to),
      /is not an installation id; use 4 to 32 digits/,
    )
  const [name = ''] = backupsIn(to)
  const [, own = ''] = /-([0-9a-f]{32})\./.exec(name) ?? []
  const twin = `${own.slice(0, 31)}${own.endsWith('0') ? '1' : '0'}`
  const twins = place()
  mkdirSync(twins)
  for (const each of sharedIn(to, 'db')) copyFileSync(join(to, each), join(twins, each))
  for (const each of [name, `${name}.json`]) {
    copyFileSync(join(to, each), join(twins, each))
    copyFileSync(join(to, each), join(twins, each.replace(own, twin)))
  }
  assert.match(
    await refused('restore', '--check', '--installation', own.slice(0, 8), twins),
    /2 installations whose id starts with/,
  )
  assert.match(await well(['restore', '--check', '--installation', own.toUpperCase(), twins]), /was test-restored into/)
})

test('rejects an empty path of a file or directory', async () => {
  for (const words of [
    ['restore', '--check', ''],
    ['restore', '--check', '--identity', '', zip],
    ['restore', '--check', '--work-dir', '', zip],
    ['backup', 'drill', '--work-dir', ''],
    ['dev', '--data', ''],
    ['restore', '--check', '--ledger', '', zip],
    ['backup', 'drill', ''],
    ['backup', ''],
    ['--config', '', 'backup', 'list'],
  ])
    assert.match(await refused(...words), /^(?:from|file|--[\w-]+) is empty; set it to a path or remove it\.$/)
})

test('rejects an option of "backup FILE" with another backup command', async () => {
  for (const words of [
    ['backup', '--force', 'now'],
    ['backup', 'now', '--force'],
    ['backup', '--force', 'list'],
  ])
    assert.match(await refused(...words), /^--force has no effect with "backup (?:now|list)"; remove it\.$/)
})

test('a test restore without a data directory prints its directory, and --work-dir selects another', async () => {
  const empty = { POSTRIDER_DATA_DIR: place() }
  const scratch = place()
  mkdirSync(scratch)
  assert.match(await well(['restore', '--check', zip], empty), /was test-restored into \/\S+ and verified in/)
  for (const words of [
    ['restore', '--check'],
    ['backup', 'drill'],
  ]) {
    assert.match(
      await well([...words, '--work-dir', scratch, zip]),
      new RegExp(`was test-restored into ${scratch} and`),
    )
    assert.deepEqual(readdirSync(scratch), [])
  }
  assert.match(
    await refused('restore', '--check', '--work-dir', join(folder, 'nowhere'), zip),
    /nowhere cannot be written \(ENOENT\): the directory does not exist/,
  )
})

test('a test restore deletes the files of a killed one, but not those of one that still runs', async () => {
  const scratch = place()
  mkdirSync(scratch)
  const { makeScratch } = await import('../../src/store/leftovers.ts')
  const alive = makeScratch(scratch)
  // The files of a killed process: with a lock that is not held.
  const dead = join(scratch, '.postrider-backup-Abc123')
  mkdirSync(dead, { mode: 0o700 })
  writeFileSync(join(dead, 'backup.lock'), '')
  writeFileSync(join(dead, 'postrider.db'), 'a part')
  const hourAgo = new Date(Date.now() - 3_600_000)
  for (const each of [dead, alive.folder]) utimesSync(each, hourAgo, hourAgo)
  await well(['restore', '--check', '--work-dir', scratch, zip])
  assert.deepEqual(left(scratch), [alive.folder.slice(scratch.length + 1)])
  alive.remove()
  assert.deepEqual(left(scratch), [])
  // Next to the data, the holder of the backup lock is the only process with a folder.
  const beside = join(dataDir, '.postrider-backup-Abc123')
  mkdirSync(beside, { mode: 0o700 })
  assert.ok(statSync(beside).isDirectory())
  await well(['restore', '--check', zip])
  assert.deepEqual(left(dataDir), [])
})

test('upgrade rejects an option that has no effect, before it reads any data', async () => {
  for (const [long, ...words] of [
    ['--discard-new-data'],
    ['--unsigned'],
    ['--unsigned', '--rollback'],
    ['--rollback', '--check'],
    ['--discard-new-data', '--check'],
  ])
    assert.match(
      await refused('upgrade', long!, ...words),
      new RegExp(`^${long} has no effect with(?:out)? --\\w+(?: or --rollback)?; remove it\\.$`),
    )
})
