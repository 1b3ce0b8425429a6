// The pages in which two copies of a database differ, as a write-ahead log that SQLite applies.
import assert from 'node:assert/strict'
import { copyFileSync, createWriteStream, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { changedPages, digestsOf, logOf, pagesIn, rootOf } from '../../src/archive/pages.ts'
import { copyDatabase, standAlone } from '../../src/store/copy.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('pages')
let files = 0
const newFile = (): string => join(folder, `${++files}.db`)

/** A database with rows, and the function that copies it as a backup does. */
function filled(page: number): { database: Database.Database; copy: () => Promise<string> } {
  const file = newFile()
  const database = new Database(file)
  database.pragma(`page_size = ${page}`)
  database.pragma('auto_vacuum = incremental')
  database.pragma('journal_mode = wal')
  database.exec('create table t (a integer primary key, b text)')
  const insert = database.prepare('insert into t (b) values (?)')
  database.transaction(() => {
    for (let n = 0; n < 5000; n++) insert.run(`${'x'.repeat(300)}${n}`)
  })()
  const copy = async (): Promise<string> => {
    const to = newFile()
    await copyDatabase(file, to)
    return to
  }
  return { database, copy }
}

/** Applies the difference to a copy of `earlier`. */
async function applied(earlier: string, later: string): Promise<{ file: string; changed: number }> {
  const changed = changedPages(await digestsOf(later), await digestsOf(earlier))
  const file = newFile()
  copyFileSync(earlier, file)
  await pipeline(Readable.from(logOf(later, changed)), createWriteStream(`${file}-wal`))
  return { file, changed: changed.length }
}

for (const page of [512, 4096, 65_536])
  for (const [what, change] of [
    ['changed rows', 'update t set b = null where a % 1000 = 0'],
    ['a larger database', "insert into t (b) select b || 'y' from t"],
    ['a smaller database', 'delete from t where a > 1000; pragma incremental_vacuum'],
  ] as const)
    test(`a log with ${what} turns the earlier copy into the later one, with pages of ${page} bytes`, async () => {
      const { copy, database } = filled(page)
      const earlier = await copy()
      database.exec(change)
      const later = await copy()
      database.close()
      const { changed, file } = await applied(earlier, later)
      assert.ok(changed > 0 && changed <= pagesIn(await digestsOf(later)))
      if (what === 'changed rows' && page < 65_536) assert.ok(changed < pagesIn(await digestsOf(later)) / 10)
      standAlone(file)
      assert.equal(existsSync(`${file}-wal`), false)
      assert.ok(readFileSync(file).equals(readFileSync(later)))
      assert.equal(rootOf(await digestsOf(file)), rootOf(await digestsOf(later)))
      assert.notEqual(rootOf(await digestsOf(file)), rootOf(await digestsOf(earlier)))
    })

test('any program with SQLite reads the earlier copy with the log next to it', async () => {
  const { copy, database } = filled(4096)
  const earlier = await copy()
  database.exec("delete from t; insert into t (b) values ('only')")
  const { file } = await applied(earlier, await copy())
  database.close()
  const opened = new Database(file)
  assert.deepEqual(opened.prepare('select b from t').all(), [{ b: 'only' }])
  assert.equal(opened.pragma('integrity_check', { simple: true }), 'ok')
  opened.close()
})

test('an unchanged copy has no changed pages, and no copy has all', async () => {
  const { copy, database } = filled(4096)
  const digests = await digestsOf(await copy())
  assert.deepEqual(changedPages(digests, await digestsOf(await copy())), [])
  assert.equal(changedPages(digests, Buffer.alloc(0)).length, pagesIn(digests))
  database.close()
})
