// The write-ahead log of a killed process is checked before SQLite reads it: transactions that SQLite would drop
// without an error are counted.
import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import Database from 'better-sqlite3'
import { scanLog } from '../../src/store/log.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const PAGE = 4096
const FRAME = 24 + PAGE
let dir: string
let rows = 0
before(() => {
  dir = temporaryDirectory('log')
  const database = new Database(join(dir, 'db'))
  database.pragma('journal_mode = WAL')
  database.pragma('wal_autocheckpoint = 0')
  database.exec('create table t (text)')
  for (; rows < 40; rows++) database.prepare('insert into t values (?)').run('x'.repeat(1000))
  // The files as kill -9 leaves them, copied while a process has them open.
  for (const end of ['', '-wal', '-shm']) copyFileSync(join(dir, `db${end}`), join(dir, `dead${end}`))
  database.close()
})

/** The dead process's files once more, under a name of their own. */
function again(name: string, shm = true): string {
  for (const end of ['', '-wal', ...(shm ? ['-shm'] : [])]) copyFileSync(join(dir, `dead${end}`), join(dir, name + end))
  return join(dir, name)
}
const readable = (file: string): number => {
  const database = new Database(file)
  const { n } = database.prepare('select count(*) as n from t').get() as { n: number }
  database.close()
  return n
}
const frames = (file: string): number => (statSync(`${file}-wal`).size - 32) / FRAME

test('finds no damage in a complete log', () => {
  assert.equal(scanLog(again('whole')), undefined)
  assert.equal(readable(join(dir, 'whole')), rows)
  assert.equal(scanLog(join(dir, 'none')), undefined)
})

test('counts the transactions lost by a changed bit, where SQLite stops without an error', () => {
  for (const shm of [true, false]) {
    const file = again(`flipped-${shm}`, shm)
    const bytes = readFileSync(`${file}-wal`)
    const at = 32 + 10 * FRAME + 500
    bytes[at] = bytes[at]! ^ 1
    writeFileSync(`${file}-wal`, bytes)
    const damage = scanLog(file)
    assert.ok(damage && damage.readable <= 10, JSON.stringify(damage))
    assert.equal(damage.readable + damage.lost, frames(file))
    assert.ok(readable(file) < rows)
  }
})

test('detects a truncated log by the index of a killed process', () => {
  const file = again('cut')
  const all = frames(file)
  truncateSync(`${file}-wal`, 32 + 10 * FRAME + 100)
  const damage = scanLog(file)
  assert.ok(damage)
  assert.equal(damage.readable + damage.lost, all)
})

test('ignores a last transaction that a power failure interrupted', () => {
  const file = again('torn', false)
  const bytes = readFileSync(`${file}-wal`)
  bytes[bytes.length - 100] = bytes[bytes.length - 100]! ^ 1
  writeFileSync(`${file}-wal`, bytes)
  assert.equal(scanLog(file), undefined)
})
