// How long a campaign takes, by the rules alone; what then happens is the same.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { beginSources } from '../../src/warmup/begin.ts'
import { forecast } from '../../src/warmup/forecast.ts'
import { TOTAL } from '../../src/warmup/ladder.ts'
import { turn } from '../../src/warmup/settings.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { desk, PAIR } from './desk.ts'

let at: ReturnType<typeof desk>
beforeEach(async () => {
  at = desk({ delivery: { source: [PAIR.source] } })
  await beginSources(at)
})
afterEach(() => at.end())

const told = (domains: Record<string, number>) => forecast(at, new Map(Object.entries(domains)), at.clock.now())
const learn = (domain: string, receiver: string) =>
  at.store.write((tx) => at.warmup.learn(tx, domain, receiver, at.clock.now()))

test('says how many today, on how many days, and when it ends (DV12)', async () => {
  await learn('gmail.test', 'Google')
  await learn('corp.test', 'Google')
  const { days, ends_at, exact, reason, receivers, recipients } = told({ 'gmail.test': 200, 'corp.test': 20 })
  // 40, 80 and then 100 of 160.
  assert.deepEqual(receivers, [{ receiver: 'Google', recipients: 220, today: 40, days: 3 }])
  assert.deepEqual([recipients, days, exact, reason], [220, 3, true, null])
  assert.equal(ends_at, (Math.floor(at.clock.now() / DAY) + 2) * DAY + HOUR)
})

test('is what happens when all days are good and nothing else is sent (DV12)', async () => {
  await learn('there.test', 'there.test')
  const { days, receivers } = told({ 'there.test': 1000 })
  let left = 1000
  let passed = 0
  at.config.warmup.transactional_over = 'wait'
  for (; left > 0; passed++) {
    const taken = await at.take(left)
    if (passed === 0) assert.equal(receivers[0]?.today, taken)
    left -= taken
    await at.nextDay()
  }
  assert.equal(days, passed)
})

test('minds what is used today, a pair that went back, and the total of the source (DV12)', async () => {
  await learn('there.test', 'there.test')
  await at.take(10)
  assert.equal(told({ 'there.test': 100 }).receivers[0]?.today, 6)
  await at.note('block')
  assert.deepEqual([told({ 'there.test': 16 }).receivers[0]?.today, told({ 'there.test': 16 }).days], [0, 2])
  await at.set({ fix: 10 }, { source: PAIR.source, receiver: TOTAL })
  const many = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`r${n}.test`, 4]))
  // The total allows 8 a day, and 10 are used today.
  assert.deepEqual([told(many).days, told(many).receivers.every(({ today }) => today === 0)], [6, true])
})

test('is not exact while a receiver is not known, and takes such as small ones (DV12)', async () => {
  await learn('there.test', 'Google')
  const { exact, reason, receivers } = told({ 'there.test': 40, 'unknown.test': 40 })
  assert.equal(exact, false)
  assert.match(reason ?? '', /until then each counts as a small receiver/)
  assert.deepEqual(
    receivers.map(({ days, receiver, today }) => [receiver, today, days]),
    [
      ['Google', 40, 1],
      ['unknown.test', 16, 2],
    ],
  )
})

test('knows a relay for what is over, a relay for all, and that warm-up is off (DV12)', async () => {
  await learn('there.test', 'there.test')
  at.config.warmup.bulk_over = 'relay'
  at.config.warmup.route = 'spare'
  assert.deepEqual([told({ 'there.test': 100 }).relayed, told({ 'there.test': 100 }).days], [84, 1])
  at.config.warmup.bulk_over = 'wait'
  await at.store.write((tx) => turn(tx, false, 'ann', at.clock.now()))
  assert.deepEqual([told({ 'there.test': 5000 }).days, told({ 'there.test': 5000 }).reason], [1, 'Warm-up is off.'])
  await at.store.write((tx) => turn(tx, true, 'ann', at.clock.now()))
  const route = { host: 'r', port: 25, tls: 'none', username: '', password_file: '', name: '', spf: '' } as const
  at.config.delivery.routes = [{ ...route, domains: ['there.test'] }]
  assert.deepEqual([told({ 'there.test': 5000 }).days, told({ 'other.test': 16 }).receivers[0]?.today], [1, 16])
  at.config.delivery.routes = [{ ...route, domains: ['*'] }]
  assert.equal(told({ 'other.test': 5000 }).reason, 'All mail goes by a relay.')
})

test('mail without a warm-up goes out at once, as delivery has learned of its domain (DV12, DV17)', async () => {
  await at.store.write((tx) => at.warmup.learn(tx, 'private.test', null, at.clock.now()))
  const { days, exact, receivers } = told({ 'private.test': 5000 })
  assert.deepEqual([days, exact], [1, true])
  assert.deepEqual(receivers, [{ receiver: 'private.test', recipients: 5000, today: 5000, days: 1 }])
})

test('a pair that is fixed at 0 ends never; nobody takes no day (DV12)', async () => {
  await learn('there.test', 'there.test')
  await at.take(1)
  await at.set({ fix: 0 })
  const { days, ends_at } = told({ 'there.test': 5 })
  assert.deepEqual([days, ends_at], [null, null])
  assert.equal(told({}).days, 0)
})

test('of 100,000 domains takes no longer than a page may (DV12)', () => {
  const domains = Object.fromEntries(Array.from({ length: 100_000 }, (_, n) => [`r${n}.test`, 1]))
  costingAtOnce(1500, () => assert.ok((told(domains).days ?? 0) > 5))
})
