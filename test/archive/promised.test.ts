// A restore compares a backup with its manifest and with the free disk space, before and while it unpacks the backup.
import assert from 'node:assert/strict'
import {
  cpSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { before, test } from 'node:test'
import { createZstdCompress } from 'node:zlib'
import { ZipFile } from 'yazl'
import { backupsAt } from '../../src/archive/catalog.ts'
import type { Destination } from '../../src/archive/destinations/destination.ts'
import { makeInstallation } from '../kit/installation.ts'
import { makePipe } from '../kit/pipe.ts'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'
import { backupsIn, sharedIn } from './stored.ts'

const { commands, folder, place } = inFolder('postrider-promised-')

const dataDir = join(folder, 'data')
const to = join(folder, 'to')
const env = { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '', POSTRIDER_BACKUP_TO: to }
const run = (argv: readonly string[], more: Record<string, string> = {}) =>
  commands.run(argv, { env: { ...env, ...more }, bare: true })
async function well(...argv: string[]): Promise<string> {
  const { code, stderr, stdout } = await run(argv)
  assert.equal(code, 0, stdout + stderr)
  return stdout
}

let name = ''
let manifest: Record<string, unknown> & { rows: Record<string, number>; files: number; plain: number }
let database: Buffer

before(async () => {
  mkdirSync(to)
  makeInstallation(dataDir)
  await well('backup', 'now')
  name = backupsIn(to)[0] ?? ''
  manifest = JSON.parse(readFileSync(join(to, `${name}.json`), 'utf8')) as typeof manifest
  await well('verify')
  database = readFileSync(join(dataDir, 'postrider.db'))
})

/** Returns the error of a restore. The restore left no files. */
async function refused(...argv: string[]): Promise<string> {
  const dir = place()
  const ran = await run(['restore', '--without-ledger', ...argv], { POSTRIDER_DATA_DIR: dir })
  assert.equal(existsSync(dir), false, argv.join(' '))
  const said = sentenceOf(ran, argv.join(' '))
  // `restore --check` prints the same error.
  assert.equal(
    sentenceOf(await run(['restore', '--check', ...argv], { POSTRIDER_DATA_DIR: dir })).slice(-40),
    said.slice(-40),
  )
  return said
}

for (const [what, change, said] of [
  [
    'more files',
    () => ({ files: manifest.files + 1 }),
    /contains \d+ files instead of the \d+ in its manifest; use another backup\.$/,
  ],
  ['fewer files', () => ({ files: 1 }), /contains \d+ files instead of the 1 in its manifest; use/],
  ['more bytes', () => ({ plain: manifest.plain + 1 }), /contains \d+ bytes instead of the \d+ in its manifest\); use/],
  ['fewer bytes', () => ({ plain: manifest.plain - 1 }), /is larger than its manifest states/],
  [
    'more bytes than any disk has',
    () => ({ plain: 2 ** 52 }),
    / unpacks from \d+ MB to more than \d+ MB, which is unusual/,
  ],
  [
    'more rows',
    () => ({ rows: { ...manifest.rows, users: 7 } }),
    /has 0 rows in users, but its manifest states 7; use/,
  ],
  [
    'no rows of a table',
    () => ({
      rows: Object.fromEntries(Object.entries(manifest.rows).filter(([table]) => table !== 'users')),
    }),
    /rows in \w+, but its manifest states no such table/,
  ],
  [
    'rows of a table that does not exist',
    () => ({ rows: { ...manifest.rows, nobody: 1 } }),
    /has no rows in nobody, but its manifest states 1/,
  ],
  ['another schema', () => ({ schema: 3 }), /has schema \d+, but its manifest states 3/],
  [
    'an older version',
    () => ({ version: '0.1.0' }),
    /was written by version \d+\.\d+\.\d+, but its manifest states 0\.1\.0/,
  ],
  [
    'another time',
    () => ({ made_at: '2020-01-01T00:00:00.000Z' }),
    /is named after .*, but its manifest states 2020-01-01/,
  ],
  ['encryption', () => ({ recipients: [`age1${'q'.repeat(58)}`] }), /it is not encrypted, unlike its manifest/],
] as const)
  test(`rejects a backup whose manifest states ${what}, with one sentence`, async () => {
    const copy = place()
    mkdirSync(copy)
    for (const each of [name, ...sharedIn(to, 'db')]) cpSync(join(to, each), join(copy, each))
    writeFileSync(join(copy, `${name}.json`), JSON.stringify({ ...manifest, ...change() }))
    assert.match(await refused(copy), said)
    // Restoring the file itself, with its manifest next to it, fails with the same error.
    assert.match(await refused(join(copy, name)), said)
  })

for (const [what, renamed, change, said] of [
  [
    'another time',
    () => name.replace(/\d{8}T\d{6}/, '29980101T000000'),
    { made_at: '2998-01-01T00:00:00.000Z' },
    /was made at 20\d\d-.*, but its manifest states 2998-01-01/,
  ],
  [
    'another installation',
    () => name.replace(/[0-9a-f]{32}/, 'ab'.repeat(16)),
    { fingerprint: 'ab'.repeat(16) },
    /is from the installation [0-9a-f]{32}, but its manifest states abab/,
  ],
] as const)
  test(`rejects a backup with the name and the manifest of ${what}`, async () => {
    const copy = place()
    mkdirSync(copy)
    const made = renamed()
    for (const each of sharedIn(to, 'db')) cpSync(join(to, each), join(copy, each))
    cpSync(join(to, name), join(copy, made))
    writeFileSync(join(copy, `${made}.json`), JSON.stringify({ ...manifest, ...change, name: made }))
    assert.match(await refused('--at', '2999-01-01', copy), said)
  })

type Made = Record<string, Buffer | (() => Readable)>

async function zipOf(files: Made): Promise<string> {
  const zip = new ZipFile()
  for (const [each, content] of Object.entries(files))
    if (Buffer.isBuffer(content)) zip.addBuffer(content, each)
    else zip.addReadStream(content(), each)
  zip.end()
  const path = `${place()}.zip`
  await pipeline(zip.outputStream as unknown as Readable, createWriteStream(path))
  return path
}

const zeros =
  (megabytes: number, first: Buffer = Buffer.alloc(0)) =>
  () =>
    Readable.from(
      (function* () {
        yield first
        for (let n = 0; n < megabytes; n++) yield Buffer.alloc(1024 * 1024)
      })(),
    )
const key = (): Buffer => readFileSync(join(dataDir, 'instance.key'))

for (const [what, files, said] of [
  [
    'a database of zeros',
    () => ({ 'postrider.db': zeros(56), 'instance.key': key() }),
    /its postrider\.db is not a database/,
  ],
  [
    'a database with zeros after its end',
    () => ({ 'postrider.db': zeros(56, database), 'instance.key': key() }),
    /has \d+ bytes instead of the \d+/,
  ],
  [
    'a key of 64 MB',
    () => ({ 'postrider.db': database, 'instance.key': zeros(64) }),
    /its instance\.key would have 67108864 bytes/,
  ],
  [
    'a name that no file system accepts',
    () => ({ 'postrider.db': database, 'instance.key': key(), [`spool/${'x'.repeat(300)}`]: Buffer.from('x') }),
    /^\S+ is not a Postrider backup \(it contains "spool\/x+"\); use another file\.$/,
  ],
  [
    'a spool file that is larger than its name states',
    () => ({ 'postrider.db': database, 'instance.key': key(), [`spool/x~5-${'A'.repeat(43)}`]: zeros(64) }),
    /its spool\/x~5-A+ would have 67108864 bytes/,
  ],
] as const)
  test(`rejects a zip with ${what} before it is completely unpacked`, async () => {
    const file = await zipOf(files())
    assert.match(await refused(file), said)
  })

for (const [what, files, said] of [
  ['an erasure log of empty lines', () => ({ 'erasures.ledger': Buffer.alloc(20_000_000, '\n') }), undefined],
  [
    'an erasure log of truncated lines',
    () => ({ 'erasures.ledger': Buffer.alloc(40_000_000, '{"id":"\n') }),
    /erasure log in the backup is corrupt at line 10001/,
  ],
  ['an invalid key', () => ({ 'instance.key': Buffer.from('nonsense') }), /contains a corrupt instance\.key; use/],
  ['a truncated database', () => ({ 'postrider.db': database.subarray(0, 60) }), /is not a database/],
] as const)
  test(`checks ${what} within seconds`, async () => {
    const file = await zipOf({ 'postrider.db': database, 'instance.key': key(), ...files() })
    if (said === undefined)
      assert.match(await well('restore', '--check', file), /was test-restored into .* and verified/)
    else assert.match(await refused(file), said)
  })

test('rejects a manifest that is a pipe, is too large or has no version, and still finds backups next to other files', async () => {
  const copy = place()
  mkdirSync(copy)
  const file = join(copy, name)
  writeFileSync(file, readFileSync(join(to, name)))
  makePipe(`${file}.json`)
  assert.match(
    await refused(file),
    /\.json cannot be read \(it is not a regular file\); use another backup, or move that file away/,
  )
  rmSync(`${file}.json`)
  writeFileSync(`${file}.json`, '')
  truncateSync(`${file}.json`, 3 * 1024 ** 3)
  assert.match(await refused(file), /\.json cannot be read \(it is larger than 1 MB\)/)
  assert.match(await refused(copy), /does not belong to/)
  writeFileSync(`${file}.json`, JSON.stringify({ ...manifest, version: '\u001b[31m' }))
  assert.match(await refused(copy), /does not belong to/)
  const many = {
    title: 'many',
    list: async function* () {
      for (let n = 0; n < 30_000; n++) yield { name: `other-${n}`, size: 1, at: undefined }
      for (const each of [name, `${name}.json`]) yield { name: each, size: 1, at: undefined }
    },
  }
  const found = await backupsAt(many as unknown as Destination)
  assert.deepEqual(
    found.map((each) => [each.name, each.complete]),
    [[name, true]],
  )
})

test('checks compressed data while it unpacks, and uses no more than the free disk space', async () => {
  const packed = async (bytes: () => Readable): Promise<string> => {
    const file = `${place()}.zst`
    await pipeline(bytes(), createZstdCompress(), createWriteStream(file))
    return file
  }
  assert.match(
    await refused(await packed(zeros(64))),
    /is corrupt or not a Postrider backup \(it contains no archive\)/,
  )
  // A running server keeps its reserve.
  const reserve = { POSTRIDER_STORAGE_RESERVE: '900000GB' }
  const endless = await packed(zeros(64, Buffer.from('PK\x03\x04')))
  const zip = await zipOf({ 'postrider.db': database, 'instance.key': key() })
  for (const file of [endless, zip, to]) {
    const said = sentenceOf(await run(['restore', '--check', file], reserve))
    assert.match(
      said,
      / MB free, of which \d+ MB are reserved for the server \("storage\.reserve"\), and .*; free some space there, .*--work-dir .*\.$/,
    )
    assert.deepEqual(
      readdirSync(dataDir).filter((each) => each.startsWith('.postrider-backup-')),
      [],
    )
  }
})
