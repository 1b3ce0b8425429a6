import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageQueue } from '../../src/inbound/queue.ts'
import type { InboundMessage } from '../../src/inbound/queue.ts'

const room = () => 100
const [a, b, c] = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const

function queueOf(...waiting: [client: string, key: number][]): MessageQueue {
  const queue = new MessageQueue()
  for (const [client, key] of waiting) queue.add({ client, key })
  return queue
}
const take = (queue: MessageQueue, limit: number, roomOf: (customer: string) => number = room): number[] =>
  queue.take(limit, roomOf).map(({ key }) => key)

test('customers are served in turn, in the order in which they came', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [c, 5])
  assert.deepEqual(take(queue, 4), [1, 4, 5, 2])
  assert.deepEqual([take(queue, 4), queue.size], [[3], 0])
})

test('a turn goes on where the last one ended', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [b, 5])
  assert.deepEqual([take(queue, 1), take(queue, 1), take(queue, 2)], [[1], [4], [2, 5]])
})

test('no customer gets more than its room, and who has none keeps the place', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [b, 5])
  assert.deepEqual(
    take(queue, 9, (customer) => (customer === a ? 0 : 1)),
    [4],
  )
  assert.deepEqual([take(queue, 9), queue.size], [[1, 5, 2, 3], 0])
})

test('the addresses of one IPv6 network are one customer', () => {
  const queue = queueOf(['2001:db8:1:1::1', 1], ['2001:db8:1:1::2', 2], [b, 3])
  assert.deepEqual(take(queue, 3), [1, 3, 2])
})

test('a message is in the queue once, and only until it is taken', () => {
  const queue = queueOf([a, 1], [a, 1])
  assert.deepEqual([queue.size, queue.has(1), queue.sizeOf(a)], [1, true, 1])
  assert.deepEqual([take(queue, 9), queue.has(1), queue.sizeOf(a), queue.size], [[1], false, 0, 0])
})

test('beyond the bounds only keys are kept, of one customer and of all', () => {
  const queue = new MessageQueue({ all: 8, ofOne: 4 })
  const message = { content: new Uint8Array(3) } as unknown as InboundMessage
  for (const [client, key] of [
    [a, 1],
    [a, 2],
    [b, 3],
    [c, 4],
  ] as const)
    queue.add({ client, key, message })
  const withOctets = queue
    .take(9, room)
    .filter((each) => each.message)
    .map(({ key }) => key)
  assert.deepEqual(withOctets, [1, 3])
  assert.equal(queue.octets, 0, 'what was taken is counted no more')
  queue.add({ client: a, key: 5, message })
  assert.equal(queue.take(1, room)[0]?.message, message)
})
