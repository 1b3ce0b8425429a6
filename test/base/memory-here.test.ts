import assert from 'node:assert/strict'
import { totalmem } from 'node:os'
import { test } from 'node:test'
import { heapHere, memoryHere, threadsHere, youngHere } from '../../src/base/memory.ts'

const MB = 1024 * 1024

test('the memory is at most that of the machine', () => {
  assert.ok(memoryHere() > 0 && memoryHere() <= totalmem())
})

test('a pool has a thread per core and at least the requested number, or one below 384 MB', () => {
  assert.equal(threadsHere(2, 1, 512 * MB), 2)
  assert.equal(threadsHere(2, 8, 384 * MB), 8)
  assert.equal(threadsHere(2, 8, 384 * MB - 1), 1)
})

test('the heap of a thread is at most an eighth of the memory, and fits one large email', () => {
  assert.equal(heapHere(1024, 24_000 * MB), 1024)
  assert.equal(heapHere(1024, 1024 * MB), 128)
  assert.equal(heapHere(384, 512 * MB), 64)
  assert.equal(heapHere(384, 128 * MB), 64)
  assert.deepEqual([youngHere(512 * MB), youngHere(1024 * MB)], [8, 16])
})
