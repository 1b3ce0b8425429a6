import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Waiting } from '../../src/inbound/reading.ts'

const room = () => 100

test('customers are served in turn, in the order in which they came', () => {
  const waiting = new Waiting()
  for (const key of [1, 2, 3]) waiting.add('a', key)
  waiting.add('b', 4)
  waiting.add('c', 5)
  assert.deepEqual(waiting.take(4, room), [1, 4, 5, 2])
  assert.deepEqual([waiting.take(4, room), waiting.size], [[3], 0])
})

test('a turn goes on where the last one ended', () => {
  const waiting = new Waiting()
  for (const key of [1, 2, 3]) waiting.add('a', key)
  for (const key of [4, 5]) waiting.add('b', key)
  assert.deepEqual([waiting.take(1, room), waiting.take(1, room), waiting.take(2, room)], [[1], [4], [2, 5]])
})

test('no customer gets more than its room, and who has none keeps the place', () => {
  const waiting = new Waiting()
  for (const key of [1, 2, 3]) waiting.add('a', key)
  for (const key of [4, 5]) waiting.add('b', key)
  assert.deepEqual(
    waiting.take(9, (customer) => (customer === 'a' ? 0 : 1)),
    [4],
  )
  assert.deepEqual([waiting.take(9, room), waiting.size], [[1, 5, 2, 3], 0])
})

test('a key is on the list once', () => {
  const waiting = new Waiting()
  waiting.add('a', 1)
  waiting.add('a', 1)
  assert.deepEqual([waiting.size, waiting.take(9, room)], [1, [1]])
})
