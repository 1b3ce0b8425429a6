// What `restore` and `backup` are told is used or refused, and never accepted and ignored.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { createProgram } from '../../src/cli/main.ts'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'

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
  await well(['user', 'list'])
  await well(['user', 'list'], { POSTRIDER_DATA_DIR: other })
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

test('a trial reads the ledgers that it is given as a restore does (B14)', async () => {
  const check = ['restore', '--check', '--ledger']
  assert.match(await refused(...check, join(folder, 'none'), zip), /The ledger .*none is not there\.$/)
  assert.match(await refused(...check, file('rubbish', 'no entry\n'), zip), /not a ledger of erasures.*line 1/)
  assert.match(await refused(...check, join(other, 'erasures.ledger'), zip), /belongs to another installation/)
  const own = join(dataDir, 'erasures.ledger')
  const person = { id: 'x', user: 'u', recipient_hash: 'h', at: new Date().toISOString() }
  const later = file('later', '')
  copyFileSync(own, later)
  writeFileSync(later, `${JSON.stringify(person)}\n`, { flag: 'a' })
  assert.match(await well([...check, later, zip]), /1 known erasures to repeat/)
  assert.match(await well(['restore', '--check', zip]), / 0 known erasures to repeat/)
})

/** What stands for a value of each option. */
const VALUES: Record<string, readonly string[]> = {
  '--identity': [file('keys', '# none\n')],
  '--at': ['2020-01-01'],
  '--installation': ['abcd'],
  '--ledger': [file('ledger', 'rubbish\n')],
  '--scratch': [join(folder, 'nowhere')],
}
/** Options without a value, which let a trial go well where they have a meaning. */
const ALLOW = ['--without-ledger', '--force', '--replace', '--check', '--list']
/** What has no meaning in each way. */
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
    '--scratch',
  ],
  '--check': ['--replace'],
  '--replace': ['--scratch'],
}

const restore = createProgram({}).commands.find((each) => each.name() === 'restore')
const longs = (restore?.options ?? []).flatMap(({ long }) => (long === undefined ? [] : [long]))

for (const [way, none] of Object.entries(NONE))
  test(`each option of restore is used or refused beside ${way} (B14)`, async () => {
    for (const long of longs.filter((each) => each !== way)) {
      const words = ['restore', way, long, ...(VALUES[long] ?? []), to]
      if (none.includes(long))
        assert.match(
          await refused(...words),
          new RegExp(`^(?:${long}|${way}) has no meaning with(?:out)? --\\w+; leave it out\\.$`),
        )
      else if (!ALLOW.includes(long)) assert.doesNotMatch(await refused(...words), /has no meaning/)
    }
  })

test('what chooses among the backups of a target is refused beside a file', async () => {
  assert.match(await refused('restore', '--check', '--at', '2020-01-01', zip), /^--at chooses among .* leave it out\.$/)
  assert.match(await refused('backup', 'drill', '--installation', 'abcd', zip), /^--installation chooses among/)
})

test('a time has its zone, an installation its digits, and digits of two installations are not enough', async () => {
  for (const time of ['1', 'Jan 5', '2026-01-15T12:00:00', '2026-13-01', '2026-02-30', '2026-04-31T00:00:00Z', ''])
    assert.match(await refused('restore', '--check', '--at', time, to), /cannot be read as a time/)
  for (const digits of ['', 'zzzz', 'abc', 'a'.repeat(33)])
    assert.match(await refused('restore', '--check', '--installation', digits, to), /is not an installation/)
  const [name = ''] = readdirSync(to).filter((each) => each.endsWith('.zst'))
  const [, own = ''] = /-([0-9a-f]{32})\./.exec(name) ?? []
  const twin = `${own.slice(0, 31)}${own.endsWith('0') ? '1' : '0'}`
  const twins = place()
  mkdirSync(twins)
  for (const each of [name, `${name}.json`]) {
    copyFileSync(join(to, each), join(twins, each))
    copyFileSync(join(to, each), join(twins, each.replace(own, twin)))
  }
  assert.match(
    await refused('restore', '--check', '--installation', own.slice(0, 8), twins),
    /2 installations that begin with/,
  )
  assert.match(
    await well(['restore', '--check', '--installation', own.toUpperCase(), twins]),
    /was put back in a temporary folder in/,
  )
})

test('a file or a folder that is named by an empty text is refused: it would be another one, or none', async () => {
  for (const words of [
    ['restore', '--check', ''],
    ['restore', '--check', '--identity', '', zip],
    ['restore', '--check', '--scratch', '', zip],
    ['restore', '--check', '--ledger', '', zip],
    ['backup', 'drill', ''],
    ['backup', ''],
    ['--config', '', 'backup', 'list'],
  ])
    assert.match(await refused(...words), /^(?:from|file|--\w+) is empty; name one, or leave it out\.$/)
})

test('an option of "backup FILE" is refused beside another command of backup', async () => {
  for (const words of [
    ['backup', '--force', 'now'],
    ['backup', 'now', '--force'],
    ['backup', '--force', 'list'],
  ])
    assert.match(await refused(...words), /^--force has no meaning with "backup (?:now|list)"; leave it out\.$/)
})

test('a trial beside no data directory says where it is made, and takes another folder (B11)', async () => {
  const empty = { POSTRIDER_DATA_DIR: place() }
  const scratch = place()
  mkdirSync(scratch)
  assert.match(
    await well(['restore', '--check', zip], empty),
    /was put back in a temporary folder in \/\S+ and verified in/,
  )
  for (const words of [
    ['restore', '--check'],
    ['backup', 'drill'],
  ]) {
    assert.match(
      await well([...words, '--scratch', scratch, zip]),
      new RegExp(`was put back in a temporary folder in ${scratch} and`),
    )
    assert.deepEqual(readdirSync(scratch), [])
  }
  assert.match(
    await refused('restore', '--check', '--scratch', join(folder, 'nowhere'), zip),
    /nowhere cannot be written \(ENOENT\): there is no such directory/,
  )
})

test('what a killed trial left is removed by the next one, and another’s that still runs is not (B11)', async () => {
  const scratch = place()
  mkdirSync(scratch)
  const { makeScratch } = await import('../../src/store/leavings.ts')
  const alive = makeScratch(scratch)
  // As a process that ended leaves it: with a lock that nobody holds.
  const dead = join(scratch, '.postrider-backup-Abc123')
  mkdirSync(dead, { mode: 0o700 })
  writeFileSync(join(dead, 'backup.lock'), '')
  writeFileSync(join(dead, 'postrider.db'), 'a part')
  const hourAgo = new Date(Date.now() - 3_600_000)
  for (const each of [dead, alive.folder]) utimesSync(each, hourAgo, hourAgo)
  await well(['restore', '--check', '--scratch', scratch, zip])
  assert.deepEqual(left(scratch), [alive.folder.slice(scratch.length + 1)])
  alive.remove()
  assert.deepEqual(left(scratch), [])
  // Beside the data, whoever has the lock of backups knows that nobody else has a folder.
  const beside = join(dataDir, '.postrider-backup-Abc123')
  mkdirSync(beside, { mode: 0o700 })
  assert.ok(statSync(beside).isDirectory())
  await well(['restore', '--check', zip])
  assert.deepEqual(left(dataDir), [])
})
