import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MINUTE, SECOND } from '../../src/base/clock.ts'
import { trimmer } from '../../src/base/native.ts'
import { giveBackWhenIdle } from '../../src/server/idle-memory.ts'
import { ManualClock } from '../kit/clock.ts'

describe('memory is returned to the system', () => {
  /** A server whose main thread has this load, from minute to minute. */
  const server = () => {
    const clock = new ManualClock()
    const state = { load: 0, trims: 0, collections: 0 }
    const end = giveBackWhenIdle({
      clock,
      load: () => state.load,
      trim: () => state.trims++,
      collect: () => state.collections++,
    })
    return { clock, state, end }
  }

  test('three seconds after the start, with a garbage collection', () => {
    const { clock, state } = server()
    clock.advance(3 * SECOND - 1)
    assert.equal(state.trims, 0)
    clock.advance(1)
    assert.deepEqual([state.trims, state.collections], [1, 1])
  })

  test('as soon as a longer start has ended', () => {
    const { clock, state } = server()
    state.load = 0.5
    clock.advance(20 * SECOND)
    assert.equal(state.trims, 0)
    state.load = 0.01
    clock.advance(SECOND)
    assert.deepEqual([state.trims, state.collections], [1, 1])
  })

  test('after the first minute without work', () => {
    const { clock, state } = server()
    clock.advance(3 * SECOND)
    state.load = 0.5
    clock.advance(30 * MINUTE)
    assert.equal(state.trims, 1)
    state.load = 0.01
    clock.advance(MINUTE)
    assert.deepEqual([state.trims, state.collections], [2, 2])
  })

  test('every ten minutes while idle, without a garbage collection', () => {
    const { clock, state, end } = server()
    clock.advance(3 * SECOND + 30 * MINUTE)
    assert.deepEqual([state.trims, state.collections], [4, 1])
    end()
    clock.advance(30 * MINUTE)
    assert.equal(state.trims, 4)
  })

  test('by a function of the C library, if it has one', (t) => {
    const trim = trimmer()
    if (!trim) return t.skip('there is none')
    assert.doesNotThrow(trim)
  })
})
