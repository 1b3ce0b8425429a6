// Large emails in the threads at once stay within a part of the memory (D202).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LetterMemory } from '../../src/delivery/wire/letter-memory.ts'

/** The capacity, and which requests got it, in their order. */
function asking(most: number) {
  const room = new LetterMemory<string>(most)
  const granted: string[] = []
  const take = (holder: string, bytes: number) => void room.take(holder, bytes).then(() => granted.push(holder))
  const settled = async (): Promise<string[]> => {
    await new Promise((resolve) => setImmediate(resolve))
    return granted
  }
  return { room, take, settled }
}

test('queues a large email until others release their capacity, in order', async () => {
  const { room, settled, take } = asking(100)
  take('a', 60)
  take('b', 60)
  take('c', 10)
  assert.deepEqual(await settled(), ['a'])
  room.giveBack('a', 60)
  assert.deepEqual(await settled(), ['a', 'b', 'c'])
})

test('sends an email larger than the whole capacity separately', async () => {
  const { room, settled, take } = asking(100)
  take('a', 500)
  take('b', 1)
  assert.deepEqual(await settled(), ['a'])
  room.giveBack('a', 500)
  assert.deepEqual(await settled(), ['a', 'b'])
})

test('releases the capacity of a thread that has ended, and drops its requests', async () => {
  const { room, settled, take } = asking(100)
  take('a', 60)
  take('a', 60)
  take('b', 100)
  room.end('a')
  assert.deepEqual(await settled(), ['a', 'b'])
  room.end('b')
  take('c', 100)
  assert.deepEqual(await settled(), ['a', 'b', 'c'])
})
