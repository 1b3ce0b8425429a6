// The room that a server keeps for a start on a full disk (D121).
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { demandSpaceForNew, freeReserve, keepReserve, RESERVE, RESERVE_FILE } from '../../src/store/reserve.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const dir = temporaryDirectory('room')
const file = join(dir, RESERVE_FILE)

test('reserves space in written bytes, only while the disk has more than its reserve', () => {
  keepReserve(dir, 1000, 1000 + 4 * RESERVE - 1)
  assert.ok(!existsSync(file))
  keepReserve(dir, 1000, 1000 + 4 * RESERVE)
  const { blocks, mode, size } = statSync(file)
  assert.equal(size, RESERVE)
  assert.ok(blocks * 512 >= RESERVE / 2)
  assert.equal(mode & 0o777, 0o600)
})

test('frees the reserved space only at a start on a full disk', () => {
  keepReserve(dir, 1000, 1000 + 4 * RESERVE)
  freeReserve(dir, RESERVE)
  assert.ok(existsSync(file))
  freeReserve(dir, 0)
  assert.ok(!existsSync(file))
  freeReserve(dir, 0)
})

test('rejects a new installation that would fill the disk, and creates no file', () => {
  const empty = mkdtempSync(join(dir, 'new-'))
  assert.throws(() => demandSpaceForNew(empty, 4 * RESERVE - 1), /has 31 MB free, but a new installation needs 32 MB; /)
  assert.deepEqual(readdirSync(empty), [])
  demandSpaceForNew(empty, 4 * RESERVE)
  // An installation is started on a full disk.
  writeFileSync(join(empty, 'postrider.db'), '')
  demandSpaceForNew(empty, 0)
})
