// What a page shows once (D76): for its session, once, for five minutes, and whatever others do meanwhile.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import { Once } from '../../src/webui/once.ts'

test('words are for their session, once, and for five minutes', () => {
  let now = 0
  const once = new Once({ now: () => now })
  const [first, second] = [once.keep('ann', 'a secret'), once.keep('ann', 'another')]
  assert.equal(once.take('bob', first), undefined)
  assert.equal(once.take('ann', first), 'a secret')
  assert.equal(once.take('ann', first), undefined)
  now = 5 * MINUTE
  assert.equal(once.take('ann', second), undefined)
})

test('a session that acts a thousand times pushes out its own words alone', () => {
  const once = new Once({ now: () => 0 })
  const kept = once.keep('ann', 'a new token')
  const names = Array.from({ length: 2000 }, (_, at) => once.keep('bob', String(at)))
  assert.equal(once.take('ann', kept), 'a new token')
  assert.equal(once.take('bob', names.at(-1)!), '1999')
  assert.equal(once.take('bob', names[0]!), undefined)
})

test('a thousand are kept in all; the oldest goes first', () => {
  const once = new Once({ now: () => 0 })
  const names = Array.from({ length: 1001 }, (_, at) => once.keep(`session ${at}`, String(at)))
  assert.equal(once.take('session 0', names[0]!), undefined)
  assert.equal(once.take('session 1', names[1]!), '1')
  assert.equal(once.take('session 1000', names[1000]!), '1000')
})
