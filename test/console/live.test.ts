// Tests the event streams of open pages: they take turns, and updates are less frequent if the pages are expensive.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Hono } from 'hono'
import { SECOND } from '../../src/base/clock.ts'
import type { Session } from '../../src/users/sessions.ts'
import type { User } from '../../src/users/users.ts'
import { Live } from '../../src/console/live.ts'
import type { Store } from '../../src/store/database.ts'
import { ManualClock } from '../kit/clock.ts'

interface Streams {
  clock: ManualClock
  live: Live
  happens(): void
  /** How often each stream was notified of a change. */
  notifications(): number[]
  silences(): number[]
}

async function open(count: number): Promise<Streams> {
  const clock = new ManualClock()
  const hears: ((about: ReadonlySet<number>) => void)[] = []
  const live = new Live({
    clock,
    store: { on: (_: string, hear: (about: ReadonlySet<number>) => void) => hears.push(hear) } as unknown as Store,
  })
  let person = 0
  const app = new Hono().get('/live', (context) => {
    const user = { key: ++person, operator: 1 } as User
    return live.stream(context, () => ({ user, account: user, role: 'owner', session: { open_as: null } as Session }))
  })
  const texts = await Promise.all(
    Array.from({ length: count }, async () => {
      const read = { text: '' }
      const reader = (await app.request('/live')).body!.getReader()
      void (async () => {
        for (let part = await reader.read(); !part.done; part = await reader.read())
          read.text += Buffer.from(part.value).toString()
      })()
      return read
    }),
  )
  const times = (word: string): number[] => texts.map(({ text }) => text.split(word).length - 1)
  return {
    clock,
    live,
    happens: () => hears.slice(0, 2).forEach((hear) => hear(new Set())),
    notifications: () => times('event: changed'),
    silences: () => times('still here'),
  }
}

/** Advances the clock with an event at every tenth of a second. */
async function pass(streams: Streams, seconds: number): Promise<void> {
  for (let at = 0; at < seconds * 10; at++) {
    streams.happens()
    streams.clock.advance(SECOND / 10)
  }
  await setImmediate()
}

test('notifies each stream at most once per second, and merges events', async () => {
  const streams = await open(3)
  await pass(streams, 5)
  for (const times of streams.notifications()) assert.ok(times >= 4 && times <= 6, String(times))
})

test('sends only keep-alives for proxies without events', async () => {
  const streams = await open(2)
  await pass(streams, 1)
  const before = streams.notifications()
  for (let at = 0; at < 60; at++) streams.clock.advance(SECOND)
  await setImmediate()
  assert.deepEqual(streams.notifications(), before)
  for (const times of streams.silences()) assert.ok(times >= 2, String(times))
})

test('limits the time spent on page updates, and serves streams in turn', async () => {
  const streams = await open(20)
  const cost = 20
  for (let at = 0; at < 50; at++) streams.live.took(cost)
  const sum = (): number => streams.notifications().reduce((one, other) => one + other, 0)
  const before = sum()
  await pass(streams, 60)
  const drawn = sum() - before
  assert.ok(drawn * cost < 60 * SECOND * 0.04, `${drawn} pages`)
  const times = streams.notifications()
  assert.ok(Math.min(...times) >= 3 && Math.max(...times) - Math.min(...times) <= 1, times.join(' '))
})
