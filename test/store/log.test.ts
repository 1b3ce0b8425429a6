// The write-ahead log with other readers: a copy that completes, a checkpoint that never waits, and the holders of the
// log.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { copyDatabase } from '../../src/store/copy.ts'
import { holdersOf, holderText, LogWatch, progressOf, truncated } from '../../src/store/log.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('log')
let files = 0

function open(): { file: string; database: Database.Database; target: string } {
  const file = join(folder, `${++files}.db`)
  const database = new Database(file)
  database.pragma('journal_mode = WAL')
  database.pragma('synchronous = OFF')
  database.pragma('journal_size_limit = 65536')
  database.exec('create table rows (n integer, octets blob)')
  const insert = database.prepare('insert into rows values (?, zeroblob(4000))')
  database.transaction(() => {
    for (let n = 0; n < 8000; n++) insert.run(n)
  })()
  return { file, database, target: `${file}.copy` }
}

function sound(file: string): number {
  const copy = new Database(file)
  assert.equal(copy.pragma('quick_check', { simple: true }), 'ok')
  const count = Number(copy.prepare('select count(*) from rows').pluck().get())
  copy.close()
  return count
}

/** Commits between the steps of a copy until the function that is returned is called. */
function commitOn(database: Database.Database, most: number): () => number {
  const insert = database.prepare('insert into rows values (-1, zeroblob(4000))')
  let commits = 0
  let ends = false
  const go = (): void => {
    if (ends || commits >= most) return
    insert.run()
    commits++
    setImmediate(go)
  }
  go()
  return () => ((ends = true), commits)
}

test('a copy holds one snapshot, and completes in spite of commits between all its steps (D118)', async () => {
  const { database, file, target } = open()
  const end = commitOn(database, 5000)
  await copyDatabase(file, target)
  assert.ok(end() < 5000, 'the copy waited until nobody wrote')
  assert.ok(sound(target) >= 8000)
  database.close()
})

test('a copy that makes the log too long starts again at most twice, and then completes (D118)', async () => {
  const { database, file, target } = open()
  const end = commitOn(database, 100_000)
  await copyDatabase(file, target, 8192)
  assert.ok(end() < 100_000)
  assert.ok(sound(target) >= 8000)
  database.close()
})

test('a checkpoint returns false at once during a read, keeps the timeout, and completes afterwards (D118)', () => {
  const { database, file } = open()
  // A wait would take this long and fail the test by its time limit.
  database.pragma('busy_timeout = 2000000000')
  const reader = new Database(file)
  reader.exec('begin')
  reader.prepare('select count(*) from rows').get()
  database.exec('delete from rows where n < 10')
  assert.equal(truncated(database), false)
  assert.equal(database.pragma('busy_timeout', { simple: true }), 2_000_000_000)
  reader.exec('rollback')
  assert.equal(truncated(database), true)
  assert.equal(statSync(`${file}-wal`).size, 0)
  reader.close()
  database.close()
})

test('the age of the oldest reader starts when the log could not be copied further (D118)', () => {
  const { database, file } = open()
  const reader = new Database(file)
  const watch = new LogWatch()
  assert.equal(watch.look(progressOf(database), 1000), 0)
  reader.exec('begin')
  reader.prepare('select count(*) from rows').get()
  database.exec('delete from rows where n < 10')
  assert.equal(watch.look(progressOf(database), 2000), 0)
  database.exec('delete from rows where n < 20')
  assert.equal(watch.look(progressOf(database), 9000), 7000)
  reader.exec('rollback')
  assert.equal(watch.look(progressOf(database), 10_000), 0)
  reader.close()
  database.close()
})

test('names the processes that hold the log (D118)', async (t) => {
  if (process.platform !== 'linux') return t.skip('there is no /proc')
  const { database, file } = open()
  assert.deepEqual(holdersOf(file), [])
  const program = `const { DatabaseSync } = require('node:sqlite')
    const db = new DatabaseSync(process.argv[1])
    db.exec('begin')
    db.prepare('select count(*) from rows').get()
    console.log('reads')
    process.stdin.resume()`
  const child = spawn(process.execPath, ['-e', program, file], { stdio: ['pipe', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  const [holder, ...more] = holdersOf(file)
  assert.deepEqual([holder?.pid, more], [child.pid, []])
  assert.match(holderText(holder!), new RegExp(`^\\S.* \\(process ${child.pid}, running for \\d+ s\\)$`))
  child.kill()
  await once(child, 'exit')
  assert.deepEqual(holdersOf(file), [])
  database.close()
})
