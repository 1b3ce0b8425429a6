// Synchronous work of large requests: one step in each turn of the event loop.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { inOwnTurn } from '../../src/base/semaphore.ts'

const LARGE = 1024 * 1024

test('other work has its turn between two steps on many bytes, and one failed step does not hold the next', async () => {
  const order: string[] = []
  const step = (name: string, bytes = LARGE) => inOwnTurn(bytes, () => void order.push(name))
  const failed = inOwnTurn(LARGE, () => {
    throw new Error('broken')
  })
  const steps = [step('a'), step('b'), step('c')]
  const small = step('small', LARGE - 1)
  const others = (async () => {
    while (!order.includes('c')) {
      await turn()
      order.push('other')
    }
  })()
  await assert.rejects(failed, /broken/)
  await Promise.all([...steps, small, others])
  assert.match(order.join(' '), /^small .*a (?:other )+b (?:other )+c/)
})
