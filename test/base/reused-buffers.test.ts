// Buffers that are used again: never by two at once, never foreign memory, never more than a bound.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ReusedBuffers } from '../../src/base/reused-buffers.ts'

test('a buffer that was given back is used again, and only once', () => {
  const buffers = new ReusedBuffers()
  const first = buffers.take(10_000)
  assert.ok(first.length >= 10_000)
  assert.ok(buffers.giveBack(new Uint8Array(first.buffer, 100, 50)), 'a part of it stands for it')
  assert.equal(buffers.giveBack(first), false, 'nobody has it now')
  const again = buffers.take(9_000)
  assert.equal(again.buffer, first.buffer)
  assert.equal(again.length, first.length)
  assert.notEqual(buffers.take(9_000).buffer, again.buffer)
})

test('one that is too small is not used, and memory from elsewhere is not taken', () => {
  const buffers = new ReusedBuffers()
  const small = buffers.take(100)
  buffers.giveBack(small)
  assert.ok(buffers.take(small.length + 1).length > small.length)
  assert.equal(buffers.giveBack(Buffer.allocUnsafeSlow(100)), false)
})

test('what is kept is bounded', () => {
  const buffers = new ReusedBuffers()
  const lent = Array.from({ length: 100 }, () => buffers.take(64 * 1024))
  for (const each of lent) assert.ok(buffers.giveBack(each))
  const known = new Set(lent.map(({ buffer }) => buffer))
  const reused = Array.from({ length: 100 }, () => buffers.take(64 * 1024)).filter(({ buffer }) => known.has(buffer))
  assert.equal(reused.length, 32)
})
