import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { Ending } from '../../src/cli/serve.ts'
import { ManualClock } from '../kit/clock.ts'

afterEach(() => process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT'))

/** What waits for the signal goes on. */
const ticks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('a signal that comes twice at once stops the server once, and a second one later ends the process (C6)', async () => {
  const clock = new ManualClock()
  const exits: unknown[] = []
  const stopped = Promise.withResolvers<void>()
  let stops = 0
  const ending = new Ending(clock, (code) => exits.push(code))
  const ended = ending.stops({ stop: () => (stops++, stopped.promise) })
  process.emit('SIGTERM')
  process.emit('SIGTERM')
  process.emit('SIGINT')
  await ticks()
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
  const ended = new Ending(clock, (code) => exits.push(code)).stops({ stop: () => stopped.promise })
  process.emit('SIGTERM')
  await ticks()
  clock.advance(13_999)
  assert.deepEqual(exits, [])
  clock.advance(1)
  assert.deepEqual(exits, [1])
  stopped.resolve()
  await ended
  clock.advance(60_000)
  assert.deepEqual(exits, [1])
})

test('a signal during the start stops what has started, and ends a start that takes long (C6)', async () => {
  const clock = new ManualClock()
  const exits: unknown[] = []
  const ending = new Ending(clock, (code) => exits.push(code))
  const starting = Promise.withResolvers<{ stop: () => Promise<void> }>()
  let stopped = 0
  const ended = ending.orStarted(starting.promise).then((server) => ending.stops(server))
  process.emit('SIGTERM')
  await ticks()
  clock.advance(4_999)
  assert.deepEqual(exits, [])
  starting.resolve({ stop: async () => void stopped++ })
  await ended
  clock.advance(60_000)
  assert.deepEqual([stopped, exits], [1, []])
  ending.over()

  const slowExits: unknown[] = []
  const slow = new Ending(clock, (code) => slowExits.push(code))
  void slow.orStarted(new Promise(() => {}))
  process.emit('SIGTERM')
  await ticks()
  clock.advance(5_000)
  assert.deepEqual(slowExits, [0])
})

test('where there was nothing to stop, no signal is heard any more', () => {
  const before = process.listeners('SIGTERM').length
  const clock = new ManualClock()
  const exits: unknown[] = []
  const ending = new Ending(clock, (code) => exits.push(code))
  process.emit('SIGTERM')
  ending.over()
  clock.advance(60_000)
  assert.deepEqual([process.listeners('SIGTERM').length, exits], [before, []])
})
