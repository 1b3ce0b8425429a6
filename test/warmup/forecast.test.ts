// The duration of a campaign by the rules alone, compared with the real course.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { forecast } from '../../src/warmup/forecast.ts'
import { TOTAL } from '../../src/warmup/schedule.ts'
import { storeSources } from '../../src/warmup/sources.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { desk, PAIR } from './desk.ts'

let at: ReturnType<typeof desk>
beforeEach(async () => {
  at = desk({ delivery: { source: [PAIR.source] } })
  await storeSources(at)
})
afterEach(() => at.end())

const told = (domains: Record<string, number>) => forecast(at, new Map(Object.entries(domains)), at.clock.now())

test('returns the recipients of today, the number of days and the end', async () => {
  await at.learn('gmail.test', 'Google')
  await at.learn('corp.test', 'Google')
  const { days, ends_at, exact, reason, receivers, recipients } = told({ 'gmail.test': 200, 'corp.test': 20 })
  // 40, 80 and then 100 of 160.
  assert.deepEqual(receivers, [{ receiver: 'Google', recipients: 220, today: 40, days: 3 }])
  assert.deepEqual([recipients, days, exact, reason], [220, 3, true, null])
  assert.equal(ends_at, (Math.floor(at.clock.now() / DAY) + 2) * DAY + HOUR)
})

test('matches the real course if all days are good and no other email is sent', async () => {
  await at.learn('there.test', 'there.test')
  const { days, receivers } = told({ 'there.test': 1000 })
  let left = 1000
  let passed = 0
  at.config.warmup.transactional_overflow = 'wait'
  for (; left > 0; passed++) {
    const taken = await at.take(left)
    if (passed === 0) assert.equal(receivers[0]?.today, taken)
    left -= taken
    await at.nextDay()
  }
  assert.equal(days, passed)
})

test('considers the use of today, a reduced pair and the total of the sending IP address', async () => {
  await at.learn('there.test', 'there.test')
  await at.take(10)
  assert.equal(told({ 'there.test': 100 }).receivers[0]?.today, 6)
  await at.note('block')
  assert.deepEqual([told({ 'there.test': 16 }).receivers[0]?.today, told({ 'there.test': 16 }).days], [0, 2])
  await at.set({ fix: 10 }, { source: PAIR.source, receiver: TOTAL })
  const many = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`r${n}.test`, 4]))
  // The total allows 8 a day, and 10 are used today.
  assert.deepEqual([told(many).days, told(many).receivers.every(({ today }) => today === 0)], [6, true])
})

test('is not exact while a receiver is unknown, and counts it as a small one', async () => {
  await at.learn('there.test', 'Google')
  const { exact, reason, receivers } = told({ 'there.test': 40, 'unknown.test': 40 })
  assert.equal(exact, false)
  assert.match(reason ?? '', /Until then, each counts as a small provider/)
  assert.deepEqual(
    receivers.map(({ days, receiver, today }) => [receiver, today, days]),
    [
      ['Google', 40, 1],
      ['unknown.test', 16, 2],
    ],
  )
})

test('considers an overflow relay, a relay for all email, and warm-up that is off', async () => {
  await at.learn('there.test', 'there.test')
  at.config.warmup.bulk_overflow = 'relay'
  at.config.warmup.route = 'spare'
  assert.deepEqual([told({ 'there.test': 100 }).relayed, told({ 'there.test': 100 }).days], [84, 1])
  at.config.warmup.bulk_overflow = 'wait'
  at.config.warmup.enabled = false
  assert.deepEqual([told({ 'there.test': 5000 }).days, told({ 'there.test': 5000 }).reason], [1, 'Warm-up is off.'])
  at.config.warmup.enabled = true
  const shared = { port: 25, tls: 'none', username: '', password_file: '', name: '', spf: '' } as const
  const route = { ...shared, host: 'r', hosts: [] }
  at.config.delivery.routes = [{ ...route, domains: ['there.test'] }]
  assert.deepEqual([told({ 'there.test': 5000 }).days, told({ 'other.test': 16 }).receivers[0]?.today], [1, 16])
  at.config.delivery.routes = [{ ...route, domains: ['*'] }]
  assert.equal(told({ 'other.test': 5000 }).reason, 'All email is sent via a relay.')
})

test('sends email without warm-up immediately, by the receiver that delivery learned for the domain', async () => {
  await at.learn('private.test', null)
  const { days, exact, receivers } = told({ 'private.test': 5000 })
  assert.deepEqual([days, exact], [1, true])
  assert.deepEqual(receivers, [{ receiver: 'private.test', recipients: 5000, today: 5000, days: 1 }])
})

test('never ends for a pair with the limit 0, and takes no day without recipients', async () => {
  await at.learn('there.test', 'there.test')
  await at.take(1)
  await at.set({ fix: 0 })
  const { days, ends_at } = told({ 'there.test': 5 })
  assert.deepEqual([days, ends_at], [null, null])
  assert.equal(told({}).days, 0)
})

test('computes 100,000 domains within the time limit of a page', () => {
  const domains = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`r${n}.test`, 1]))
  costingAtOnce(1500, () => assert.ok((told(domains).days ?? 0) > 5))
})
