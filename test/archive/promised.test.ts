// What a backup says of itself is held against what it holds, and against the room on the disk: before it is unpacked
// and while it is.
import assert from 'node:assert/strict'
import {
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
import type { BackupPlace } from '../../src/archive/places/place.ts'
import { makePipe } from '../kit/pipe.ts'
import { inFolder } from '../commands/beside.ts'
import { sentenceOf } from '../commands/command.ts'

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
  await well('user', 'list')
  await well('backup', 'now')
  name = readdirSync(to).find((each) => each.endsWith('.zst')) ?? ''
  manifest = JSON.parse(readFileSync(join(to, `${name}.json`), 'utf8')) as typeof manifest
  await well('verify')
  database = readFileSync(join(dataDir, 'postrider.db'))
})

/** The sentence of a restore; nothing is left of it, and nothing was made. */
async function refused(...argv: string[]): Promise<string> {
  const dir = place()
  const ran = await run(['restore', '--without-ledger', ...argv], { POSTRIDER_DATA_DIR: dir })
  assert.equal(existsSync(dir), false, argv.join(' '))
  const said = sentenceOf(ran, argv.join(' '))
  // A trial says the same.
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
    /holds \d+ files, and its manifest says \d+; use another backup\.$/,
  ],
  ['fewer files', () => ({ files: 1 }), /holds \d+ files, and its manifest says 1; use/],
  ['more octets', () => ({ plain: manifest.plain + 1 }), /holds \d+ octets and its manifest says \d+\); use/],
  ['fewer octets', () => ({ plain: manifest.plain - 1 }), /holds more than its manifest says/],
  [
    'more octets than any disk has',
    () => ({ plain: 2 ** 52 }),
    / MB free, and postrider-.* needs \d+ MB for a while; free space/,
  ],
  ['more rows', () => ({ rows: { ...manifest.rows, users: 7 } }), /has 0 rows in users, and its manifest says 7; use/],
  [
    'no rows of a table',
    () => ({
      rows: Object.fromEntries(Object.entries(manifest.rows).filter(([table]) => table !== 'users')),
    }),
    /rows in \w+, and its manifest says nothing of that table/,
  ],
  [
    'rows of a table that is not there',
    () => ({ rows: { ...manifest.rows, nobody: 1 } }),
    /has no rows in nobody, and its manifest says 1/,
  ],
  ['another schema', () => ({ schema: 3 }), /has schema \d+, and its manifest says 3/],
  [
    'an older version',
    () => ({ version: '0.1.0' }),
    /was written by version \d+\.\d+\.\d+, and its manifest says 0\.1\.0/,
  ],
  [
    'another time',
    () => ({ made_at: '2020-01-01T00:00:00.000Z' }),
    /is named after .*, and its manifest says 2020-01-01/,
  ],
  ['a seal', () => ({ recipients: [`age1${'q'.repeat(58)}`] }), /it is not sealed, and its manifest says otherwise/],
] as const)
  test(`a manifest that promises ${what} is refused with one sentence (B10, B14)`, async () => {
    const copy = place()
    mkdirSync(copy)
    writeFileSync(join(copy, name), readFileSync(join(to, name)))
    writeFileSync(join(copy, `${name}.json`), JSON.stringify({ ...manifest, ...change() }))
    assert.match(await refused(copy), said)
    // A file beside its manifest is the same.
    assert.match(await refused(join(copy, name)), said)
  })

for (const [what, renamed, change, said] of [
  [
    'another time',
    () => name.replace(/\d{8}T\d{6}/, '29980101T000000'),
    { made_at: '2998-01-01T00:00:00.000Z' },
    /was made at 20\d\d-.*, and its manifest says 2998-01-01/,
  ],
  [
    'another installation',
    () => name.replace(/[0-9a-f]{32}/, 'ab'.repeat(16)),
    { fingerprint: 'ab'.repeat(16) },
    /is of the installation [0-9a-f]{32}, and its manifest says abab/,
  ],
] as const)
  test(`a backup that got the name and the manifest of ${what} is refused (B14)`, async () => {
    const copy = place()
    mkdirSync(copy)
    const made = renamed()
    writeFileSync(join(copy, made), readFileSync(join(to, name)))
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
    () => ({ 'postrider.db': zeros(64), 'instance.key': key() }),
    /its postrider\.db is not a database/,
  ],
  [
    'a database with zeros after its end',
    () => ({ 'postrider.db': zeros(64, database), 'instance.key': key() }),
    /has \d+ octets, and its own header says \d+/,
  ],
  [
    'a key of 64 MB',
    () => ({ 'postrider.db': database, 'instance.key': zeros(64) }),
    /its instance\.key would have 67108864 octets/,
  ],
  [
    'a name that no file system takes',
    () => ({ 'postrider.db': database, 'instance.key': key(), [`spool/${'x'.repeat(300)}`]: Buffer.from('x') }),
    /^\S+ is not a backup of Postrider: it holds "spool\/x+"\.$/,
  ],
  [
    'a file of the spool that is larger than its name says',
    () => ({ 'postrider.db': database, 'instance.key': key(), [`spool/x~5-${'A'.repeat(43)}`]: zeros(64) }),
    /its spool\/x~5-A+ would have 67108864 octets/,
  ],
] as const)
  test(`${what}: a zip is judged before it is unpacked whole`, async () => {
    const file = await zipOf(files())
    assert.match(await refused(file), said)
  })

for (const [what, files, said] of [
  ['a ledger of ends of lines', () => ({ 'erasures.ledger': Buffer.alloc(20_000_000, '\n') }), undefined],
  [
    'a ledger of cut lines',
    () => ({ 'erasures.ledger': Buffer.alloc(40_000_000, '{"id":"\n') }),
    /ledger of erasures in the backup is damaged: line 10001 is not an entry/,
  ],
  ['a key that is none', () => ({ 'instance.key': Buffer.from('nonsense') }), /holds a damaged instance\.key; take/],
  ['the beginning of a database', () => ({ 'postrider.db': database.subarray(0, 60) }), /is not a database/],
] as const)
  test(`${what} is judged at once`, async () => {
    const file = await zipOf({ 'postrider.db': database, 'instance.key': key(), ...files() })
    if (said === undefined) assert.match(await well('restore', '--check', file), /was put back/)
    else assert.match(await refused(file), said)
  })

test('a manifest that is a pipe, has no end, or names no version is refused, and others’ files hide no backup (B14)', async () => {
  const copy = place()
  mkdirSync(copy)
  const file = join(copy, name)
  writeFileSync(file, readFileSync(join(to, name)))
  makePipe(`${file}.json`)
  assert.match(
    await refused(file),
    /\.json cannot be read \(it is not a regular file\); use another backup, or move it away/,
  )
  rmSync(`${file}.json`)
  writeFileSync(`${file}.json`, '')
  truncateSync(`${file}.json`, 3 * 1024 ** 3)
  assert.match(await refused(file), /\.json cannot be read \(it is larger than 64 KB\)/)
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
  const found = await backupsAt(many as unknown as BackupPlace)
  assert.deepEqual(
    found.map((each) => [each.name, each.complete]),
    [[name, true]],
  )
})

test('what is packed is judged as it comes, and takes no more than the disk has', async () => {
  const packed = async (octets: () => Readable): Promise<string> => {
    const file = `${place()}.zst`
    await pipeline(octets(), createZstdCompress(), createWriteStream(file))
    return file
  }
  assert.match(
    await refused(await packed(zeros(64))),
    /is damaged or no backup of Postrider \(there is no archive in it\)/,
  )
  // A running server keeps its reserve.
  const reserve = { POSTRIDER_STORAGE_RESERVE: '900000GB' }
  const endless = await packed(zeros(64, Buffer.from('PK\x03\x04')))
  const zip = await zipOf({ 'postrider.db': database, 'instance.key': key() })
  for (const file of [endless, zip, to]) {
    const said = sentenceOf(await run(['restore', '--check', file], reserve))
    assert.match(
      said,
      / MB free, of which \d+ MB stay for the server \("storage\.reserve"\), and .*; free space there \(.*--scratch\)\.$/,
    )
    assert.deepEqual(
      readdirSync(dataDir).filter((each) => each.startsWith('.postrider-backup-')),
      [],
    )
  }
})
