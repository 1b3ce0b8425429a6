// How a sending IP address starts: in a new installation, at the upgrade of an established sender, and later.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { storeSources, SYSTEM_SOURCE } from '../../src/warmup/sources.ts'
import { scheduleOf, TOTAL } from '../../src/warmup/schedule.ts'
import { shapingRules } from '../../src/smtp/shaping.ts'
import { desk } from './desk.ts'

const SOURCE = '192.0.2.1'
let at: ReturnType<typeof desk>
beforeEach(() => {
  at = desk({ delivery: { source: [SOURCE] } })
})
afterEach(() => at.end())

/** Email from before warm-up: recipients per day, by receiver, this number of days ago. */
const mail = (receiver: string, recipients: number, ago: number): Promise<unknown> =>
  at.store.write((tx) => {
    tx.run(
      raw(
        `insert or ignore into users (key, id, email, name, plan, subscription_state, created_at, updated_at)
         values (1, 'u', 'u@u.test', 'u', 'unlimited', 'active', 1, 1)`,
      ),
    )
    tx.run(
      raw(
        `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h)
         values (1, ?, ?, ?, 99, 1, 0, 0, 0, 0)`,
        [receiver, Math.floor((at.clock.now() - ago * DAY) / HOUR), recipients - 1],
      ),
    )
  })

const pairOf = (receiver: string, source = SOURCE) => {
  const row = at.row({ source, receiver })
  return row && [row.status, row.step]
}
const bulk = (receiver: string, source = SOURCE): number => at.room(true, { source, receiver })

describe('a new installation', () => {
  test('starts warm-up at the first start, with a configured sending IP address or the one that the system chooses', async () => {
    await storeSources(at)
    assert.equal(bulk('there.test'), 16)
    assert.equal(bulk('Google'), 40)
    at.config.delivery.source = []
    await storeSources(at)
    assert.equal(bulk('there.test', SYSTEM_SOURCE), 16)
  })
})

describe('the upgrade', () => {
  test('does not limit an established sender, which has sent on 4 of the last 28 days', async () => {
    for (let week = 0; week < 4; week++) await mail('there.test', 300, 7 * week)
    await storeSources(at)
    for (const receiver of ['there.test', 'new.test', TOTAL]) {
      assert.equal(bulk(receiver), Infinity)
      await at.take(1, true, { source: SOURCE, receiver })
      assert.equal(pairOf(receiver)?.[0], 'warm')
    }
  })

  test('starts a sender with fewer days of email at the first step', async () => {
    for (let ago = 0; ago < 3; ago++) await mail('there.test', 100, ago)
    await mail('old.test', 5000, 30)
    await storeSources(at)
    assert.equal(bulk('there.test'), 16)
  })
})

describe('later', () => {
  test('a new IP address, such as that of a restored server, starts at the first step', async () => {
    for (let ago = 0; ago < 20; ago++) await mail('there.test', 1000, ago)
    await storeSources(at)
    at.config.delivery.source = ['192.0.2.9']
    await storeSources(at)
    const { steps } = scheduleOf(shapingRules(), 'there.test')
    assert.equal(bulk('there.test', '192.0.2.9'), steps[0]! * 0.8)
    assert.equal(bulk('there.test'), Infinity)
  })

  test('an IP address that was removed from the configuration keeps its history for 60 days', async () => {
    await storeSources(at)
    await at.take(10, true, { source: SOURCE, receiver: 'there.test' })
    at.config.delivery.source = []
    at.clock.leap(59 * DAY)
    await storeSources(at)
    assert.ok(pairOf('there.test'))
    at.clock.leap(2 * DAY)
    await storeSources(at)
    assert.equal(pairOf('there.test'), undefined)
    at.config.delivery.source = [SOURCE]
    await storeSources(at)
    assert.equal(bulk('there.test'), 16)
  })
})
