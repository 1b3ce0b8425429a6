// The periods of statistics: days in the time zone of the reader, the period before, and days that an older version
// stored.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { settleReceivers } from '../../src/reputation/receivers.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { raw } from '../../src/store/query.ts'
import { version03 } from '../../src/store/schema/migrations/0020-version-0-3.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'

// 2026-01-15 12:00 UTC is 04:00 in Los Angeles.
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))
const store = () => postrider.appliance.deps.store
let ann: Guest

type Attributes = Awaited<ReturnType<typeof postrider.api>>['body']
const attributes = async (path: string): Promise<Attributes> => (await postrider.api('GET', path)).body.data.attributes
const zoned = (period: string, zone = 'America/Los_Angeles'): string =>
  `filter[period]=${period}&filter[zone]=${encodeURIComponent(zone)}`

/** Emails of an hour, as accepted for two receivers and one sending domain. */
const outcomes = (hoursAgo: number, delivered: number): Promise<void> =>
  store().write((tx) => {
    const hour = Math.floor(postrider.clock.now() / HOUR) - hoursAgo
    for (const receiver of ['there.test', 'other.test'])
      tx.run(
        raw(
          `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h)
           values (?, ?, ?, ?, 1, 0, ?, 0, 0, 0)`,
          [postrider.user.key, receiver, hour, delivered, delivered],
        ),
      )
    tx.run(
      raw(
        `insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints)
         select ?, key, '', ?, ?, ?, 0 from domains where name = 'here.test'`,
        [postrider.user.key, hour, 2 * delivered, delivered],
      ),
    )
  })

setUp(async () => {
  ann = await signedIn(postrider)
  // Today in Los Angeles began four hours ago, and 12 hours ago was the evening of yesterday.
  await outcomes(1, 10)
  await outcomes(12, 20)
  // The last hour of a day in Los Angeles, which UTC counts to the next day. The second is in the period before.
  await outcomes(3 * 24 + 5, 30)
  await outcomes(10 * 24 + 5, 40)
})

const delivered = ({ series }: Attributes): [string, number][] =>
  series
    .filter((each: Attributes) => each.delivered + (each.deliveries ?? 0) > 0)
    .map((each: Attributes) => [each.at.slice(0, 16), each.delivered])

test('the period before is as long as the period, and null without email', async () => {
  const { previous, series } = await attributes(`/statistics?${zoned('7d')}`)
  assert.deepEqual(delivered(previous), [['2026-01-04T08:00', 80]])
  assert.deepEqual([previous.series.length, series.length], [7, 7])
  assert.deepEqual([previous.sent, previous.delivered, previous.bounce_rate], [120, 80, 0.33333])
  // Today is four hours old. So is its counterpart a week ago: later email of that day is not counted.
  await outcomes(7 * 24 - 2, 500)
  assert.deepEqual((await attributes(`/statistics?${zoned('7d')}`)).previous, previous)
  await outcomes(7 * 24 + 2, 5)
  assert.equal((await attributes(`/statistics?${zoned('7d')}`)).previous.delivered, 90)
  assert.equal((await attributes(`/statistics?${zoned('24h')}`)).previous, null)
  assert.equal((await postrider.asOther('GET', '/statistics')).body.data.attributes.previous, null)
})

test('days are those of the zone, before and after past days are summarised', async () => {
  const expected = [
    ['2026-01-11T08:00', 60],
    ['2026-01-14T08:00', 40],
    ['2026-01-15T08:00', 20],
  ]
  for (const summarised of [false, true]) {
    if (summarised) await settleReceivers(store(), postrider.clock.now())
    assert.deepEqual(delivered(await attributes(`/statistics?${zoned('7d')}`)), expected)
    const one = await attributes(`/statistics/receivers/there.test?${zoned('7d')}`)
    assert.deepEqual(
      delivered(one),
      expected.map(([at, count]) => [at, Number(count) / 2]),
    )
    assert.deepEqual([one.delivered, one.median_seconds], [60, 3])
    const utc = await attributes('/statistics?filter[period]=7d')
    assert.deepEqual(delivered(utc), [
      ['2026-01-12T00:00', 60],
      ['2026-01-15T00:00', 60],
    ])
  }
  const n = store().one(raw<{ n: number }>('select count(*) as n from receiver_tallies where hour % 24 <> 0')).n
  assert.equal(n, 2, 'the days that are over are one row per receiver')
})

test('a domain has days of the zone, including those without email', async () => {
  const { id } = store().one(raw<{ id: string }>(`select id from domains where name = 'here.test'`))
  const { series } = await attributes(`/domains/${id}/reputation?filter[zone]=America/Los_Angeles`)
  assert.equal(series.length, 30)
  assert.deepEqual(
    series
      .filter(({ deliveries }: Attributes) => deliveries > 0)
      .map(({ at, deliveries }: Attributes) => [at.slice(0, 13), deliveries]),
    [
      ['2026-01-04T08', 80],
      ['2026-01-08T08', 1010],
      ['2026-01-11T08', 60],
      ['2026-01-14T08', 40],
      ['2026-01-15T08', 20],
    ],
  )
})

test('rejects unknown zones and several values', async () => {
  for (const query of [
    'filter[zone]=Nowhere',
    'filter[zone]=%22%3E',
    'filter[zone]=UTC,Asia/Tokyo',
    'filter[period]=1y',
  ])
    for (const path of ['/statistics', '/statistics/receivers']) {
      const { body, status } = await postrider.api('GET', `${path}?${query}`)
      assert.deepEqual([status, body.errors[0].code], [400, 'unsupported_filter'], query)
    }
})

test('the overview compares tiles and chart with the period before', async () => {
  ann.cookies.set('tz', 'America/Los_Angeles')
  const { text } = await ann.open('/?period=7d')
  assert.match(
    text,
    /<span aria-hidden="true">\+33%<\/span\s*><span class="hidden">, up 33% from the previous 7 days<\/span>/,
  )
  assert.match(text, /<span class="hidden">, unchanged from the previous 7 days<\/span>/)
  assert.match(text, /class="s-before"><\/i>Previous 7 days <b>94<\/b>/)
  assert.match(text, /<path class="before" d="M71\.43 /)
  assert.match(text, /data-tip="11 Jan\nDelivered 60\nDeferred 2\nRejected 0\nPrevious 7 days 82"/)
  assert.match(text, /after%3A2026-01-09T08%3A00Z/)
  assert.doesNotMatch(text, /in UTC/)
  const hours = (await ann.open('/?period=24h')).text
  assert.doesNotMatch(hours, /class="change"|class="before"/, 'no email the day before')
  ann.cookies.delete('tz')
  assert.match((await ann.open('/?period=7d')).text, /Emails per day \(UTC\)/)
})

test('writes dates in the language of the browser', async () => {
  ann.cookies.set('tz', 'America/Los_Angeles')
  const of = async (language: string): Promise<string> =>
    (await ann.open('/?period=7d', { headers: { 'accept-language': language } })).text
  assert.match(await of('de-DE,de;q=0.9'), /<span[^>]*>11\. Jan\.<\/span>/)
  assert.match(await of('en-US'), /<span[^>]*>Jan 11<\/span>/)
  for (const unusual of ['*', 'xx-"><', '-', 'x'.repeat(500)])
    assert.match(await of(unusual), /<span[^>]*>11 Jan<\/span>/)
})

test('the reputation of a domain has a chart, dates and a column per rate', async () => {
  const { text } = await ann.open('/domains/here.test')
  assert.match(text, /<figure class="chart">/)
  assert.match(text, />Bounce rate<[^]*>Complaint rate</)
  assert.match(text, />15 Jan<[^]*?>20<[^]*?>10<[^]*?>33\.3%</)
  assert.doesNotMatch(text, /2026-01-\d\d</)
})

test('days that version 0.2.0 stored stay days of UTC, and the pages say so', async () => {
  const before = Math.floor((postrider.clock.now() - 2 * DAY) / DAY) * DAY
  await store().write((tx) => tx.run(raw('update users set utc_days_before = ?', [before])))
  ann.cookies.set('tz', 'America/Los_Angeles')
  for (const path of ['/?period=7d', '/receivers/there.test?period=7d'])
    assert.match(
      (await ann.open(path)).text,
      /Days before 12 Jan are in UTC, because they are stored without hours\./,
      path,
    )
  assert.doesNotMatch((await ann.open('/?period=24h')).text, /in UTC/)
  const { utc_days_before: none } = await attributes('/statistics?filter[period]=7d')
  assert.equal(none, null, 'all days are in UTC')
})

test('an upgrade notes the first day whose hours are known', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  for (const sql of migrations.slice(0, migrations.indexOf(version03))) database.exec(sql)
  database.exec(`pragma foreign_keys = off;
    insert into users (key, id, email, name, plan, subscription_state, summary, created_at, updated_at)
      values (1, 'a', 'a@x.test', 'A', 'free', 'active', 'none', 1, 1), (2, 'b', 'b@x.test', 'B', 'free', 'active', 'none', 1, 1),
        (3, 'c', 'c@x.test', 'C', 'free', 'active', 'none', 1, 1);
    insert into receiver_tallies values (1, 'x.test', 240, 1, 1, 1, 1, 1, 1, 1), (1, 'x.test', 293, 1, 1, 1, 1, 1, 1, 1),
      (2, 'x.test', 240, 1, 1, 1, 1, 1, 1, 1)`)
  database.exec(version03)
  assert.deepEqual(database.prepare('select utc_days_before from users order by key').pluck().all(), [
    12 * DAY,
    11 * DAY,
    null,
  ])
  database.close()
})
