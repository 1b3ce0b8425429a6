import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { untilSignal } from '../../src/cli/serve.ts'
import { ManualClock } from '../kit/clock.ts'

afterEach(() => process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT'))

test('a signal that comes twice at once stops the server once, and a second one later ends the process (C6)', async () => {
  const clock = new ManualClock()
  const exits: unknown[] = []
  const stopped = Promise.withResolvers<void>()
  let stops = 0
  const ended = untilSignal({ stop: () => (stops++, stopped.promise) }, clock, (code) => exits.push(code))
  process.emit('SIGTERM')
  process.emit('SIGTERM')
  process.emit('SIGINT')
  clock.advance(999)
  process.emit('SIGTERM')
  assert.deepEqual([stops, exits], [1, []])
  clock.advance(1)
  process.emit('SIGINT')
  assert.deepEqual([stops, exits], [1, [1]])
  stopped.resolve()
  await ended
})

test('a server that does not stop in time is ended, and one that has stopped is not (D72)', async () => {
  const clock = new ManualClock()
  const exits: unknown[] = []
  const stopped = Promise.withResolvers<void>()
  const ended = untilSignal({ stop: () => stopped.promise }, clock, (code) => exits.push(code))
  process.emit('SIGTERM')
  clock.advance(13_999)
  assert.deepEqual(exits, [])
  clock.advance(1)
  assert.deepEqual(exits, [1])
  stopped.resolve()
  await ended
  clock.advance(60_000)
  assert.deepEqual(exits, [1])
})
