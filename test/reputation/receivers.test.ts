// Receivers: figures with rates, times and a verdict, the meaning of their replies, their queued email, and their
// pages.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { judged } from '../../src/reputation/api-receivers.ts'
import { NO_FIGURES } from '../../src/reputation/receivers.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const COLUMNS = 'user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h'
const OTHER = 'bob@other.test'
const BUSY = '451 4.7.500 Server busy. Please try again later from [192.0.2.1]. (S77719)'
/** A name that an attacker's DNS could give, if names were not checked. */
const HOSTILE = '"><script>alert(1)</script>/..%2f'
const exchanger = testExchanger({ answer: (command) => (/^RCPT TO:<later/i.test(command) ? BUSY : undefined) })
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test', 'waits.test'] }),
)
let ann: Guest
let bob: Guest

type Attributes = Awaited<ReturnType<typeof postrider.api>>['body']
const attributes = async (path: string): Promise<Attributes> => (await postrider.api('GET', path)).body.data.attributes
const listed = async (): Promise<Attributes[]> =>
  (await postrider.api('GET', '/statistics/receivers?filter[period]=24h')).body.data.map(
    (each: { attributes: Attributes }) => each.attributes,
  )
const mailTo = async (to: string): Promise<string> => {
  const mail = { from: 'ann@here.test', to, subject: 'Hello', html: '<p>Hello</p>' }
  return (await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).body.data.id
}

setUp(async () => {
  const { clock, user } = postrider
  ann = await signedIn(postrider)
  bob = await signedIn(postrider, OTHER)
  const hour = Math.floor(clock.now() / HOUR)
  const day = Math.floor(hour / 24)
  const rows: [string, number, ...number[]][] = [
    // delivered, deferred, refused, then within 5 s, 1 min, 10 min, 1 h
    ['Google', hour, 60, 2, 1, 60, 0, 0, 0],
    ['Google', hour - 2, 40, 0, 0, 30, 4, 4, 2],
    ['slow.test', hour, 10, 10, 0, 0, 0, 10, 0],
    ['refuses.test', hour, 9, 0, 1, 9, 0, 0, 0],
    ['late.test', hour, 20, 0, 0, 10, 0, 0, 5],
    [HOSTILE, hour, 12, 0, 0, 12, 0, 0, 0],
    ...Array.from({ length: 12 }, (_, at): [string, number, ...number[]] => [
      `small${at}.test`,
      hour,
      1,
      0,
      0,
      1,
      0,
      0,
      0,
    ]),
  ]
  await postrider.appliance.deps.store.write((tx) => {
    for (const [receiver, at, ...figures] of rows)
      tx.run(
        raw(`insert into receiver_tallies (${COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, [
          user.key,
          receiver,
          at,
          ...figures,
        ]),
      )
    for (const [receiver, words, times] of [
      ['Google', '421 4.7.28 Gmail has detected an unusual rate of mail', 2],
      ['Google', '550 5.9.9 Nobody has heard of this', 1],
      [HOSTILE, '550 <img src=x onerror=alert(1)>', 1],
    ] as const)
      tx.run(raw('insert into refusals values (?, ?, ?, ?, ?)', [user.key, receiver, day, words, times]))
  })
})

test('a receiver has rates, a verdict, the times of 50 % and 95 % of its email, and a series', async () => {
  const google = await attributes('/statistics/receivers/Google?filter[period]=24h')
  assert.deepEqual(
    [google['volume'], google['delivered'], google['deferred'], google['refused'], google['verdict']],
    [101, 100, 2, 1, 'good'],
  )
  assert.deepEqual([google['deferred_rate'], google['refused_rate']], [0.01942, 0.0099])
  // 90 within 5 s, 94 within a minute, 98 within ten.
  assert.deepEqual([google['median'], google['p95'], google['provider']], ['5s', '10m', true])
  assert.deepEqual([google['median_seconds'], google['p95_seconds']], [3, 285])
  assert.equal(google['series'].length, 25)
  assert.deepEqual(
    google['series'].map(({ deferred, delivered, refused }: Attributes) => [delivered, deferred, refused]).slice(-3),
    [
      [40, 0, 0],
      [0, 0, 0],
      [60, 2, 1],
    ],
  )
  const byDay = await attributes('/statistics/receivers/Google?filter[period]=7d')
  assert.equal(
    byDay['series'].reduce((sum: number, { delivered }: Attributes) => sum + delivered, 0),
    100,
  )
  assert.equal(byDay['series'].length, 7)
  const of = Object.fromEntries((await listed()).map((each) => [each['name'], each]))
  assert.deepEqual(
    ['Google', 'slow.test', 'refuses.test', 'late.test', 'small3.test'].map((name) => of[name]!['verdict']),
    ['good', 'slow', 'refusing', 'slow', 'quiet'],
  )
  assert.deepEqual([of['late.test']!['median'], of['late.test']!['p95']], ['5s', 'longer'])
  assert.deepEqual(of['Google']!['series'], google['series'])
})

test('includes complaints and medians in sums and series, by hour and by day', async () => {
  const { store } = postrider.appliance.deps
  const hour = Math.floor(postrider.clock.now() / HOUR)
  await store.write((tx) => {
    const set = 'complained = 2, unmatched_complaints = 1'
    tx.run(raw(`update receiver_tallies set ${set} where receiver = 'Google' and hour = ?`, [hour]))
    tx.run(raw(`update receiver_tallies set complained = 1 where receiver = 'Google' and hour = ?`, [hour - 2]))
  })
  const google = await attributes('/statistics/receivers/Google?filter[period]=24h')
  assert.deepEqual([google['complained'], google['unmatched_complaints'], google['alarm']], [3, 1, null])
  assert.deepEqual(
    google['series'].slice(-3).map((each: Attributes) => [each['complained'], each['median_seconds']]),
    [
      [1, 3],
      [0, null],
      [2, 3],
    ],
  )
  const { series } = await attributes('/statistics/receivers/Google?filter[period]=7d')
  assert.deepEqual([series.at(-1).complained, series.at(-1).median_seconds], [3, 3])
  const slow = await attributes('/statistics/receivers/slow.test?filter[period]=24h')
  // All ten within 3 to 10 minutes, the half of them by the middle.
  assert.equal(slow['series'].at(-1).median_seconds, 390)
  assert.match((await ann.open('/receivers')).text, />Google<\/a>\s*<span class="soft">Gmail<\/span>/)
  const { text } = await ann.open('/receivers/Google?period=24h')
  assert.match(text, /Complaints<[^]*?>3<[^]*?3\.0% of delivered, 1 more without a matching email/)
})

test('explains a reply if its meaning is known', async () => {
  const { refusals } = await attributes('/statistics/receivers/Google?filter[period]=24h')
  assert.deepEqual(
    refusals.map(({ reason, times, words }: Attributes) => [words.slice(0, 11), times, reason?.slice(0, 23) ?? null]),
    [
      ['421 4.7.28 ', 2, 'Gmail limits this sende'],
      ['550 5.9.9 N', 1, null],
    ],
  )
})

test('the thresholds of the verdicts', () => {
  const of = (delivered: number, deferred: number, refused: number, within_5s = delivered) =>
    judged({ ...NO_FIGURES, delivered, deferred, refused, within_5s }).verdict
  assert.deepEqual(
    [of(0, 0, 0), of(0, 9, 0), of(9, 0, 0), of(10, 0, 0), of(0, 0, 10), of(0, 10, 0)],
    ['quiet', 'quiet', 'quiet', 'good', 'refusing', 'slow'],
  )
  assert.deepEqual([of(90, 0, 10), of(91, 0, 9), of(90, 100, 10)], ['refusing', 'good', 'refusing'])
  assert.deepEqual([of(75, 25, 0), of(76, 24, 0)], ['slow', 'good'])
  assert.deepEqual([of(100, 0, 0, 95), of(100, 0, 0, 94)], ['good', 'slow'])
})

test('returns 404 for a receiver without email, and validates the period', async () => {
  assert.equal((await postrider.api('GET', '/statistics/receivers/nobody.test')).status, 404)
  assert.equal((await postrider.api('GET', '/statistics/receivers/Google?filter[period]=1y')).status, 400)
  assert.equal((await ann.open('/receivers/nobody.test')).status, 404)
  // Another account does not see it.
  assert.equal((await bob.open('/receivers/Google')).status, 404)
})

test('counts queued email by receiver, finds it by name, and shows the pace to operators', async () => {
  const ids = [await mailTo('later1@waits.test'), await mailTo('later2@there.test')]
  await until(async () => (await listed()).find(({ name }) => name === 'waits.test')?.['deferred'] === 1)
  await until(async () => (await listed()).find(({ name }) => name === 'there.test')?.['deferred'] === 1)
  const { store } = postrider.appliance.deps
  // waits.test is now a domain of a provider, by the MX host that replied.
  await store.write((tx) => {
    tx.run(raw(`update deliveries set remote_mta = 'alt1.aspmx.l.google.com' where lane = 'waits.test'`, []))
    tx.run(raw(`delete from learned_lanes where lane = 'waits.test'`, []))
    tx.run(
      raw(`insert into learned_lanes values ('waits.test', 3, 1.5, ?, ?)`, [
        postrider.clock.now() + 5 * MINUTE,
        postrider.clock.now() - MINUTE,
      ]),
    )
  })
  const google = await attributes('/statistics/receivers/Google')
  assert.deepEqual([google['waiting'], google['domains']], [1, ['waits.test']])
  const there = await attributes('/statistics/receivers/there.test')
  assert.deepEqual([there['waiting'], there['domains']], [1, ['there.test']])

  const found = async (words: string): Promise<string[]> =>
    (await postrider.api('GET', `/outbound-emails?filter[search]=${encodeURIComponent(words)}`)).body.data.map(
      ({ id }: { id: string }) => id,
    )
  assert.deepEqual(await found('receiver:"google" status:queued'), [ids[0]])
  assert.deepEqual(await found('receiver:there.test status:queued'), [ids[1]])
  assert.deepEqual(await found('receiver:Yahoo'), [])

  const { text } = await ann.open('/receivers/Google')
  assert.match(text, /href="\/mail\?q=receiver%3A%22Google%22%20status%3Aqueued"/)
  assert.match(text, /Current limits/)
  assert.match(text, /waits\.test[^]*?>3<[^]*?>1\.5<[^]*?<time/)
  // The same lanes as the API gives for these domains.
  const lanes = (await postrider.api('GET', '/lanes?filter[domain]=waits.test')).body.data
  assert.deepEqual(
    lanes.map(({ id }: { id: string }) => id),
    ['waits.test'],
  )
  assert.ok(lanes[0].attributes.learned_at)

  // On the page of the email, the meaning is above the reply.
  const page = (await ann.open(`/mail/${ids[1]}`)).text
  assert.match(
    page,
    /The receiving server limits senders that it does not know well yet[^]*<blockquote>451 4\.7\.500 Server busy/,
  )
})

test('hides the pace of the server from other users', async () => {
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into receiver_tallies (${COLUMNS}) select (select key from users where email = ?), receiver, hour, delivered, deferred, refused,
           within_5s, within_1m, within_10m, within_1h from receiver_tallies where receiver = 'slow.test'`,
        [OTHER],
      ),
    ),
  )
  const { status, text } = await bob.open('/receivers/slow.test')
  assert.equal(status, 200)
  assert.match(text, /This provider is slow/)
  assert.doesNotMatch(text, /Current limits/)
})

test('lists providers first with verdicts, times and reasons, and folds small domains', async () => {
  const { text } = await ann.open('/receivers?period=24h')
  const [before = '', folded = ''] = text.split('<details>')
  const [, rows = ''] = before.split('<tbody>')
  assert.match(rows, /^\s*<tr>\s*<td[^>]*><a href="\/receivers\/Google\?period=24h">/)
  assert.match(rows, /<span class="badge good"\s*>good<[^]*~3 s[^]*~5 min[^]*<svg\s+class="spark"/)
  assert.match(rows, /<span class="why" title="421 4\.7\.28 Gmail[^"]*"\s*><span>Gmail limits this sende/)
  assert.match(rows, /badge bad"\s*>refusing</)
  assert.match(rows, /badge waits"\s*>slow</)
  assert.match(text, /\d+ more domains/)
  assert.match(folded, /small9\.test/)
  assert.doesNotMatch(text, /Put off/i)
  assert.ok(text.length < 100_000, String(text.length))
})

test('escapes hostile names and replies, and opens the page of such a name', async () => {
  const list = (await ann.open('/receivers?period=24h')).text
  assert.doesNotMatch(list, /<script>alert|<img src=x/)
  const [, to = ''] = /href="(\/receivers\/%22[^"]*)"/.exec(list) ?? []
  const { status, text } = await ann.open(to)
  assert.equal(status, 200)
  assert.doesNotMatch(text, /<script>alert|<img src=x/)
  assert.match(text, /&lt;img src=x onerror=alert\(1\)&gt;/)
})
