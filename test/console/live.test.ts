// Streams of pages that follow what happens: told in turn, and less often the more the pages cost.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { Hono } from 'hono'
import { SECOND } from '../../src/base/clock.ts'
import type { Session } from '../../src/identity/sessions.ts'
import type { User } from '../../src/identity/users.ts'
import { Live } from '../../src/console/live.ts'
import type { Store } from '../../src/store/database.ts'
import { ManualClock } from '../kit/clock.ts'

interface Streams {
  clock: ManualClock
  live: Live
  happens(): void
  /** How often each stream was told that something has changed. */
  told(): number[]
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
    const user = { key: ++person, operator: 1, reads_for: null } as User
    return live.stream(context, () => ({ user, session: { open_as: null } as Session }))
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
    told: () => times('event: changed'),
    silences: () => times('still here'),
  }
}

/** Time passes while something happens at every tenth of a second. */
async function pass(streams: Streams, seconds: number): Promise<void> {
  for (let at = 0; at < seconds * 10; at++) {
    streams.happens()
    streams.clock.advance(SECOND / 10)
  }
  await setImmediate()
}

test('each stream is told at most once a second, of many events once', async () => {
  const streams = await open(3)
  await pass(streams, 5)
  for (const times of streams.told()) assert.ok(times >= 4 && times <= 6, String(times))
})

test('nothing is told when nothing has happened, and silence is broken for proxies', async () => {
  const streams = await open(2)
  await pass(streams, 1)
  const before = streams.told()
  for (let at = 0; at < 60; at++) streams.clock.advance(SECOND)
  await setImmediate()
  assert.deepEqual(streams.told(), before)
  for (const times of streams.silences()) assert.ok(times >= 2, String(times))
})

test('what pages cost is a small share of the time, and every stream has its turn', async () => {
  const streams = await open(20)
  const cost = 20
  for (let at = 0; at < 50; at++) streams.live.took(cost)
  const sum = (): number => streams.told().reduce((one, other) => one + other, 0)
  const before = sum()
  await pass(streams, 60)
  const drawn = sum() - before
  assert.ok(drawn * cost < 60 * SECOND * 0.04, `${drawn} pages`)
  const times = streams.told()
  assert.ok(Math.min(...times) >= 3 && Math.max(...times) - Math.min(...times) <= 1, times.join(' '))
})
