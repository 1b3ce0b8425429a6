// Backups from an untrusted source: their SQL does not get into the database, and unpacking them is limited. A failed
// backup names the file that caused the failure.
import assert from 'node:assert/strict'
import { createWriteStream, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { after, test } from 'node:test'
import { zstdCompressSync } from 'node:zlib'
import Database from 'better-sqlite3'
import { ZipFile } from 'yazl'
import { Commands, sentenceOf } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('foreign')
const commands = new Commands(folder)
after(async () => {
  await commands.close()
})
let places = 0
const place = (): string => join(folder, `place-${++places}`)
const run = (dataDir: string, ...argv: string[]) =>
  commands.run(argv, { env: { POSTRIDER_DATA_DIR: dataDir, POSTRIDER_CONFIG: '' } })

/** A backup of a data directory, as anyone with write access to a destination can make one. */
async function zipOf(dataDir: string): Promise<string> {
  const zip = new ZipFile()
  for (const name of ['postrider.db', 'instance.key']) zip.addFile(join(dataDir, name), name)
  zip.end()
  const file = `${place()}.zip`
  await pipeline(zip.outputStream, createWriteStream(file))
  return file
}

for (const [what, sql] of Object.entries({
  'trigger leak': 'create trigger leak after insert on users begin delete from suppressions; end',
  'view leak': 'create view leak as select * from tokens',
  'index leak': 'create index leak on users (lower(name))',
  'table leak': 'create table leak (a, b generated always as (abs(a)) virtual)',
  'view audiences':
    'drop table contacts; drop table audiences; create view audiences as with recursive n(x) as (select 1 union all select x from n) select x from n',
}))
  test(`restore rejects a database with a foreign ${what}, even with --force, and backup and verify name it`, async () => {
    const dataDir = makeInstallation(place())
    const database = new Database(join(dataDir, 'postrider.db'))
    database.pragma('foreign_keys = off')
    database.exec(sql)
    database.pragma('journal_mode = delete')
    database.close()
    const named = new RegExp(`The ${what} of the database was not created by Postrider`)
    const file = await zipOf(dataDir)
    if (what !== 'view audiences') {
      assert.match((await run(dataDir, 'verify')).stdout, named)
      assert.match(sentenceOf(await run(dataDir, 'backup', `${place()}.zip`)), named)
    }
    const target = place()
    for (const force of [[], ['--force']])
      assert.match(sentenceOf(await run(target, 'restore', '--without-ledger', ...force, file)), named)
    assert.equal(existsSync(target), false)
  })

const ZEROS = 200 * 1024 ** 2

test('restore unpacks at most 200 times the size of a backup, as a zip and as a stream', async () => {
  const bomb = join(folder, 'bomb.zip')
  const zip = new ZipFile()
  zip.addBuffer(Buffer.from('x'), 'instance.key')
  zip.addBuffer(Buffer.alloc(ZEROS), 'postrider.db')
  zip.end()
  await pipeline(zip.outputStream, createWriteStream(bomb))
  const stream = join(folder, 'bomb.zst')
  writeFileSync(stream, zstdCompressSync(Buffer.concat([Buffer.from('PK\u0003\u0004'), Buffer.alloc(ZEROS)])))
  for (const file of [bomb, stream]) {
    const target = place()
    const said = sentenceOf(await run(target, 'restore', '--without-ledger', file))
    assert.match(said, /unpacks from \d MB to more than \d+ MB, which is unusual for a backup; use another one/)
    assert.equal(existsSync(target), false)
  }
})

test('backup names the erasure log if it cannot be written', async () => {
  const dataDir = makeInstallation(place())
  mkdirSync(join(dataDir, 'erasures.ledger'))
  const file = `${place()}.zip`
  const said = sentenceOf(await run(dataDir, 'backup', file))
  assert.ok(said.startsWith(`No backup was made: ${join(dataDir, 'erasures.ledger')} cannot be written (EISDIR)`), said)
  assert.ok(!said.includes(file))
})
