// Tests texts that a page shows once (D76): for one session, once, within five minutes, independent of other sessions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import { Once } from '../../src/views/html/once.ts'

test('a kept text is returned once, to its session, within five minutes', () => {
  let now = 0
  const once = new Once({ now: () => now })
  const [first, second] = [once.keep('ann', 'a secret'), once.keep('ann', 'another')]
  assert.equal(once.take('bob', first), undefined)
  assert.equal(once.take('ann', first), 'a secret')
  assert.equal(once.take('ann', first), undefined)
  now = 5 * MINUTE
  assert.equal(once.take('ann', second), undefined)
})

test('a session with a thousand texts evicts only its own', () => {
  const once = new Once({ now: () => 0 })
  const kept = once.keep('ann', 'a new token')
  const names = Array.from({ length: 2000 }, (_, at) => once.keep('bob', String(at)))
  assert.equal(once.take('ann', kept), 'a new token')
  assert.equal(once.take('bob', names.at(-1)!), '1999')
  assert.equal(once.take('bob', names[0]!), undefined)
})

test('keeps a thousand texts in total and evicts the oldest', () => {
  const once = new Once({ now: () => 0 })
  const names = Array.from({ length: 1001 }, (_, at) => once.keep(`session ${at}`, String(at)))
  assert.equal(once.take('session 0', names[0]!), undefined)
  assert.equal(once.take('session 1', names[1]!), '1')
  assert.equal(once.take('session 1000', names[1000]!), '1000')
})
