// The room that a server keeps for a start on a full disk (D121).
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { demandRoomForNew, giveUpRoom, keepRoom, ROOM, ROOM_FILE } from '../../src/store/room.ts'

const dir = mkdtempSync(join(tmpdir(), 'postrider-room-'))
const file = join(dir, ROOM_FILE)
after(() => rmSync(dir, { recursive: true }))

test('room is made of octets, not of holes, and only while the disk has more than its reserve', () => {
  keepRoom(dir, 1000, 1000 + 4 * ROOM - 1)
  assert.ok(!existsSync(file))
  keepRoom(dir, 1000, 1000 + 4 * ROOM)
  const { blocks, mode, size } = statSync(file)
  assert.equal(size, ROOM)
  assert.ok(blocks * 512 >= ROOM / 2)
  assert.equal(mode & 0o777, 0o600)
})

test('room is given up at a start on a full disk alone', () => {
  keepRoom(dir, 1000, 1000 + 4 * ROOM)
  giveUpRoom(dir, ROOM)
  assert.ok(existsSync(file))
  giveUpRoom(dir, 0)
  assert.ok(!existsSync(file))
  giveUpRoom(dir, 0)
})

test('a new installation is refused where it would fill the disk, and nothing is made (C4)', () => {
  const empty = mkdtempSync(join(dir, 'new-'))
  assert.throws(() => demandRoomForNew(empty, 4 * ROOM - 1), /has 31 MB free, and a new installation needs 32: /)
  assert.deepEqual(readdirSync(empty), [])
  demandRoomForNew(empty, 4 * ROOM)
  // An installation is started on a full disk.
  writeFileSync(join(empty, 'postrider.db'), '')
  demandRoomForNew(empty, 0)
})
