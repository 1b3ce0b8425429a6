import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { untilSignal } from '../../src/cli/serve.ts'
import { ManualClock } from '../kit/clock.ts'

after(() => process.removeAllListeners('SIGTERM').removeAllListeners('SIGINT'))

test('a signal that comes twice at once stops the server once, and a second one later ends the process', async (t) => {
  const clock = new ManualClock()
  const exits: unknown[] = []
  t.mock.method(process, 'exit', (code: unknown) => exits.push(code))
  const stopped = Promise.withResolvers<void>()
  let stops = 0
  const ended = untilSignal({ stop: () => (stops++, stopped.promise) }, clock)
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
