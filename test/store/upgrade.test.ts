// An upgrade of the database: its copy for a rollback, its progress, and the version of the schema.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY, SECOND } from '../../src/base/clock.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { version } from '../../src/base/version.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { schemaIn, withCopy } from '../../src/store/copy.ts'
import { openUpgraded } from '../../src/store/instance.ts'
import { openStore } from '../../src/store/open.ts'
import type { UpgradeProgress } from '../../src/store/upgrade.ts'
import { removeCopies } from '../../src/store/way-back.ts'
import { writerNumber, writerOf } from '../../src/store/written-by.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { releasedData } from '../kit/released.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { until } from '../kit/until.ts'

const folders: string[] = []
const folder = (): string => {
  const made = temporaryDirectory('upgrade')
  folders.push(made)
  return made
}
afterEach(() => {
  for (const each of folders.splice(0)) rmSync(each, { recursive: true, force: true })
})

const schemaOf = (file: string): number => schemaIn(file).schema

test('an upgrade reports its progress each second, and keeps a copy of the old database', async () => {
  const { dataDir } = releasedData('0.1.0', folder())
  const clock = new ManualClock()
  const heard: UpgradeProgress[] = []
  const migrating: number[][] = []
  let ended = false
  const opening = openUpgraded(dataDir, {
    clock,
    migrating: (from, to) => void migrating.push([from, to]),
    progress: (progress) => void heard.push({ ...progress }),
  }).finally(() => (ended = true))
  // The loop turns all the while: each turn is a second here.
  await until(() => (clock.advance(SECOND), ended), 'the end of the upgrade')
  const { store } = await opening
  assert.deepEqual(store.verify(), [])
  store.close()
  assert.deepEqual(migrating, [[5, migrations.length]])
  assert.ok(heard.length > 2, `${heard.length}`)
  assert.deepEqual(
    heard.map(({ seconds }) => seconds),
    heard.map((_, index) => index + 1),
    'one each second',
  )
  const doing = heard.map((each) => each.doing)
  assert.deepEqual([...new Set(doing)], [...new Set(doing)].toSorted(), 'copy, migration, rewriting, in this order')
  for (const { doing: what, done, of } of heard)
    if (what === 'migration') assert.ok(of === migrations.length - 5 && done <= of)
  const file = join(dataDir, 'postrider.db')
  assert.equal(schemaOf(file), migrations.length)
  assert.equal(schemaOf(`${file}.schema-5`), 5)
  const told = heard.length
  clock.advance(10 * SECOND)
  assert.equal(heard.length, told, 'nothing is told after the end')
})

test('repeats the copy of a failed upgrade, because the older version may have run since', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const copy = join(dataDir, 'postrider.db.schema-19')
  writeFileSync(copy, 'a stale copy')
  const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
  store.close()
  assert.equal(schemaOf(copy), 19)
})

test('a failed upgrade leaves the database unchanged, with a sentence that confirms this', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const file = join(dataDir, 'postrider.db')
  const database = new Database(file)
  // In the way of a later migration.
  database.exec('create table warmups (x)')
  database.close()
  await assert.rejects(openUpgraded(dataDir, { clock: new ManualClock() }), (thrown) => {
    assert.ok(thrown instanceof OperatorError)
    assert.match(thrown.message, /is unchanged: .*warmups/)
    return true
  })
  assert.equal(schemaOf(file), 19)
  assert.ok(existsSync(`${file}.schema-19`))
  assert.deepEqual(readFileSync(`${file}.schema-19`).subarray(0, 15).toString(), 'SQLite format 3')
})

test('an upgrade on a disk that fills up at any step changes no file, and succeeds with enough space', async (t) => {
  using disk = smallDisk(folder(), 'size=8m')
  if (!disk) return t.skip('a small disk cannot be mounted here')
  const { dir: dataDir } = disk
  const file = join(dataDir, 'postrider.db')
  const ended: string[] = []
  for (let left = 0; left <= 4_000_000; left += 200_000) {
    disk.clear()
    releasedData('0.2.0', dataDir)
    const before = disk.names()
    const octets = readFileSync(file)
    disk.fill(left)
    try {
      const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
      assert.deepEqual(store.verify(), [])
      store.close()
      ended.push('made')
      assert.equal(schemaOf(`${file}.schema-19`), 19)
    } catch (thrown) {
      assert.ok(thrown instanceof OperatorError, String(thrown))
      const why: string = /full or failing|cannot be copied|disk that holds/.exec(thrown.message)?.[0] ?? thrown.message
      ended.push(why)
      assert.deepEqual(readFileSync(file), octets, `${left}`)
      const more: string[] = disk
        .names()
        .filter((name) => !before.includes(name) && !/^postrider\.db-(?:wal|shm)$/.test(name))
      // A copy that was whole is the way back of the next try, and gives its room to it.
      assert.deepEqual(more, why === 'disk that holds' ? ['postrider.db.schema-19'] : [], `${left}: ${thrown.message}`)
    }
  }
  assert.deepEqual([...new Set(ended)], ['full or failing', 'cannot be copied', 'disk that holds', 'made'])
})

test('an upgrade reuses the space of the copy from a failed one', async (t) => {
  using disk = smallDisk(folder(), 'size=8m')
  if (!disk) return t.skip('a small disk cannot be mounted here')
  const { dataDir } = releasedData('0.2.0', disk.dir)
  writeFileSync(join(dataDir, 'postrider.db.schema-19'), Buffer.alloc(5_000_000))
  disk.fill(100_000)
  const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
  store.close()
  assert.equal(schemaOf(join(dataDir, 'postrider.db.schema-19')), 19)
})

test('reports a directory in the place of the copy, without asking for space', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  mkdirSync(join(dataDir, 'postrider.db.schema-19'))
  await assert.rejects(openUpgraded(dataDir, { clock: new ManualClock() }), {
    message:
      /schema-19 before the upgrade \(ERR_FS_EISDIR\); move away the existing file of that name, .*\. Nothing was changed\.$/,
  })
  assert.equal(schemaOf(join(dataDir, 'postrider.db')), 19)
})

test('removes only copies and files that SQLite and killed upgrades left next to them', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const before = readdirSync(dataDir)
  const ends = ['', '-wal', '-shm', '-journal']
  const copies = ends.map((end) => `postrider.db.schema-7${end}`)
  const drafts = ['postrider.db.schema-7.part', 'postrider.db.schema-19.part'].flatMap((name) =>
    ends.map((end) => name + end),
  )
  const others = ['postrider.db.schema-x', 'postrider.db.schema-7.zip', 'my-postrider.db.schema-7']
  for (const name of [...copies, ...drafts, ...others]) writeFileSync(join(dataDir, name), 'x')
  mkdirSync(join(dataDir, 'postrider.db.schema-8'))
  const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
  store.close()
  const there = (): string[] => readdirSync(dataDir).filter((name) => name.includes('schema-'))
  const kept = [...others, 'postrider.db.schema-8']
  assert.deepEqual(there().sort(), [...copies, ...kept, 'postrider.db.schema-19'].sort())
  removeCopies(dataDir, Date.now() - DAY)
  assert.equal(there().length, copies.length + kept.length + 1, 'none is old')
  removeCopies(dataDir)
  assert.deepEqual(there().sort(), kept.sort())
  assert.deepEqual(
    before.filter((name) => !existsSync(join(dataDir, name)) && !/-(?:wal|shm)$/.test(name)),
    [],
  )
})

test('reading a copy creates no other files', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
  store.close()
  const copy = join(dataDir, 'postrider.db.schema-19')
  await withCopy(copy, async (before) => assert.deepEqual(before.verify(), []))
  assert.deepEqual(schemaIn(copy), { schema: 19, version: '0.2.0' })
  assert.deepEqual(
    readdirSync(dataDir).filter((name) => name.includes('schema-')),
    ['postrider.db.schema-19'],
  )
})

test('a database contains the version that wrote its schema, and the error about a newer one names its image tag', () => {
  const dataDir = folder()
  openStore(dataDir).close()
  const file = join(dataDir, 'postrider.db')
  const database = new Database(file)
  assert.equal(writerOf(database), version)
  database.pragma(`user_version = ${migrations.length + 2}`)
  database.pragma(`application_id = ${writerNumber('12.34.56')}`)
  database.close()
  assert.throws(
    () => openStore(dataDir),
    new RegExp(
      `newer Postrider \\(12\\.34\\.56, schema ${migrations.length + 2}; this version is ${version}.*start version 12\\.34\\.56 \\(image tag 12\\.34\\.56\\)`,
    ),
  )
  const older = releasedData('0.2.0', folder())
  const released = new Database(join(older.dataDir, 'postrider.db'), { readonly: true })
  assert.equal(writerOf(released), '0.2.0')
  released.close()
  for (const wrong of ['1.2', '1.2.256', 'a.b.c']) assert.throws(() => writerNumber(wrong), RangeError)
})
