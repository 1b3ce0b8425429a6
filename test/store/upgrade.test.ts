// An upgrade of the database: its copy as a way back, its progress, and who wrote it.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import Database from 'better-sqlite3'
import { SECOND } from '../../src/base/clock.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { version } from '../../src/base/version.ts'
import { migrations } from '../../src/schema/migrations.ts'
import { openInstance, openUpgraded } from '../../src/store/instance.ts'
import { openStore } from '../../src/store/open.ts'
import type { UpgradeProgress } from '../../src/store/upgrade.ts'
import { writerNumber, writerOf } from '../../src/store/written-by.ts'
import { ManualClock } from '../kit/clock.ts'
import { releasedData } from '../kit/released.ts'
import { until } from '../kit/until.ts'

const folders: string[] = []
const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'postrider-upgrade-'))
  folders.push(made)
  return made
}
afterEach(() => {
  for (const each of folders.splice(0)) rmSync(each, { recursive: true, force: true })
})

const schemaOf = (file: string): number => {
  const database = new Database(file, { readonly: true })
  try {
    return Number(database.pragma('user_version', { simple: true }))
  } finally {
    database.close()
  }
}

test('an upgrade says each second how far it is, and keeps the database as it was (U2)', async () => {
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

test('a copy from before an upgrade that failed is made again: the older version has gone on since (U2)', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const copy = join(dataDir, 'postrider.db.schema-19')
  writeFileSync(copy, 'a stale copy')
  const { store } = await openUpgraded(dataDir, { clock: new ManualClock() })
  store.close()
  assert.equal(schemaOf(copy), 19)
  const again = releasedData('0.2.0', folder())
  writeFileSync(join(again.dataDir, 'postrider.db.schema-19'), 'a stale copy')
  openInstance(again.dataDir).store.close()
  assert.equal(schemaOf(join(again.dataDir, 'postrider.db.schema-19')), 19)
})

test('an upgrade that fails leaves the database as it was, and says so (U2)', async () => {
  const { dataDir } = releasedData('0.2.0', folder())
  const file = join(dataDir, 'postrider.db')
  const database = new Database(file)
  // In the way of a later migration.
  database.exec('create table warmups (x)')
  database.close()
  await assert.rejects(openUpgraded(dataDir, { clock: new ManualClock() }), (thrown) => {
    assert.ok(thrown instanceof OperatorError)
    assert.match(thrown.message, /as it was: .*warmups/)
    return true
  })
  assert.equal(schemaOf(file), 19)
  assert.ok(existsSync(`${file}.schema-19`))
  assert.deepEqual(readFileSync(`${file}.schema-19`).subarray(0, 15).toString(), 'SQLite format 3')
})

test('a database knows the version that gave it its schema, and a newer one is refused with its tag (U5)', () => {
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
      `newer Postrider \\(12\\.34\\.56, schema ${migrations.length + 2}; this is ${version}.*the tag 12\\.34\\.56 of the image`,
    ),
  )
  const older = releasedData('0.2.0', folder())
  const released = new Database(join(older.dataDir, 'postrider.db'), { readonly: true })
  assert.equal(writerOf(released), '0.2.0')
  released.close()
  for (const wrong of ['1.2', '1.2.256', 'a.b.c']) assert.throws(() => writerNumber(wrong), RangeError)
})
