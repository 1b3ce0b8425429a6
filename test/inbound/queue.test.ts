import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MessageQueue } from '../../src/inbound/queue.ts'
import type { InboundMessage } from '../../src/inbound/queue.ts'

const capacity = () => 100
const [a, b, c] = ['192.0.2.1', '192.0.2.2', '192.0.2.3'] as const

function queueOf(...waiting: [client: string, key: number][]): MessageQueue {
  const queue = new MessageQueue()
  for (const [client, key] of waiting) queue.add({ client, key })
  return queue
}
const take = (queue: MessageQueue, limit: number, capacityOf: (customer: string) => number = capacity): number[] =>
  queue.take(limit, capacityOf).map(({ key }) => key)

test('clients are served in turn, in the order of their arrival', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [c, 5])
  assert.deepEqual(take(queue, 4), [1, 4, 5, 2])
  assert.deepEqual([take(queue, 4), queue.size], [[3], 0])
})

test('a turn continues where the last one ended', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [b, 5])
  assert.deepEqual([take(queue, 1), take(queue, 1), take(queue, 2)], [[1], [4], [2, 5]])
})

test('a client gets at most its capacity, and without capacity keeps its position', () => {
  const queue = queueOf([a, 1], [a, 2], [a, 3], [b, 4], [b, 5])
  assert.deepEqual(
    take(queue, 9, (customer) => (customer === a ? 0 : 1)),
    [4],
  )
  assert.deepEqual([take(queue, 9), queue.size], [[1, 5, 2, 3], 0])
})

test('the addresses of one IPv6 network are one client', () => {
  const queue = queueOf(['2001:db8:1:1::1', 1], ['2001:db8:1:1::2', 2], [b, 3])
  assert.deepEqual(take(queue, 3), [1, 3, 2])
})

test('a message is in the queue once, until it is taken', () => {
  const queue = queueOf([a, 1], [a, 1])
  assert.deepEqual([queue.size, queue.has(1), queue.sizeOf(a)], [1, true, 1])
  assert.deepEqual([take(queue, 9), queue.has(1), queue.sizeOf(a), queue.size], [[1], false, 0, 0])
})

test('beyond the limits only keys are kept, per client and in all', () => {
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
    .take(9, capacity)
    .filter((each) => each.message)
    .map(({ key }) => key)
  assert.deepEqual(withOctets, [1, 3])
  assert.equal(queue.bytes, 0, 'what was taken is counted no more')
  queue.add({ client: a, key: 5, message })
  assert.equal(queue.take(1, capacity)[0]?.message, message)
})
