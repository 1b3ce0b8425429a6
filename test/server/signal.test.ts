import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { Ending } from '../../src/cli/serve.ts'
import { start } from '../commands/command.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'

afterEach(() => {
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.removeAllListeners(signal)
})

/** Lets pending callbacks of a signal run. */
const ticks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('stops the server once for repeated signals within a second, and exits at a later one', async () => {
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

test('kills a server that does not stop in time, and not one that has stopped (D72)', async () => {
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

test('stops a partial start at a signal, and exits during a slow one', async () => {
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

test('ignores signals after the end if no server was started', () => {
  const listening = (): number[] => ['SIGTERM', 'SIGINT', 'SIGHUP'].map((signal) => process.listenerCount(signal))
  const before = listening()
  const clock = new ManualClock()
  const exits: unknown[] = []
  const ending = new Ending(clock, (code) => exits.push(code))
  process.emit('SIGTERM')
  ending.over()
  clock.advance(60_000)
  assert.deepEqual([listening(), exits], [before, []])
})

test('runs a reload after the start for a SIGHUP during it, even during a long upgrade', () => {
  const ending = new Ending(new ManualClock(), () => {})
  process.emit('SIGHUP')
  process.emit('SIGHUP')
  let read = 0
  ending.onHangUp(() => read++)
  assert.equal(read, 1)
  process.emit('SIGHUP')
  assert.equal(read, 2)
  ending.over()
})

test('survives a SIGHUP while its modules are being loaded', async () => {
  const folder = temporaryDirectory('hang-up')
  const sender = join(folder, 'sender.mjs')
  // As soon as the process handles signals, before another module is evaluated.
  writeFileSync(
    sender,
    `const send = (name) => {
  if (name !== 'SIGTERM') return
  process.off('newListener', send)
  queueMicrotask(() => process.kill(process.pid, 'SIGHUP'))
}
process.on('newListener', send)
`,
  )
  const server = start(['serve'], folder, {
    ...SERVER_ENVIRONMENT,
    NODE_OPTIONS: `--import=${sender}`,
    POSTRIDER_DATA_DIR: join(folder, 'data'),
    POSTRIDER_HOSTNAME: 'mx.here.test',
    POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_SMTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_DNS_SERVERS: '127.0.0.1:9',
  })
  try {
    await server.said(/"event":"server_ready"[^]*"event":"configuration_reloaded"/)
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    server.child.kill('SIGKILL')
  }
})
