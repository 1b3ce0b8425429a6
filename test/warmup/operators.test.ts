// The views and settings of operators: the API, commands next to a running server, its log and its metrics.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { learnReceiver } from '../../src/warmup/gate.ts'
import { closeDays } from '../../src/warmup/judge.ts'
import { DailyLimits } from '../../src/warmup/limits.ts'
import { DAY } from '../../src/base/clock.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const SOURCE = '192.0.2.1'
const METRICS = 'a-token-for-the-metrics'
const logged: string[] = []
const clock = new ManualClock()
const postrider = ofFile(() =>
  startTestAppliance({
    clock,
    config: {
      delivery: { source: [SOURCE] },
      notices: { operator: 'operator@here.test' },
      metrics: { token: METRICS },
    },
    logged: { level: 'info', lines: logged },
  }),
)
let limits: DailyLimits
let commands: Commands

setUp(async () => {
  const { deps } = postrider.appliance
  limits = new DailyLimits({ ...deps, noticed: () => {} })
  commands = Commands.beside(postrider, `[delivery]\nsource = ["${SOURCE}"]\n`)
  for (const [receiver, wanted] of [
    ['Google', 30],
    ['there.test', 16],
    ['elsewhere.test', 5],
  ] as const)
    await take(receiver, wanted)
})

const take = (receiver: string, wanted: number, bulk = true): Promise<number> =>
  postrider.appliance.deps.store.write((tx) =>
    limits.take(tx, { source: SOURCE, receiver }, { bulk, wanted, now: clock.now() }),
  )
type Row = { id: string; attributes: Record<string, unknown> & { step: number } }
const listed = async (query = ''): Promise<Row[]> => (await postrider.api('GET', `/warmups${query}`)).body.data
const one = async (receiver: string): Promise<Row> =>
  (await listed(`?filter[receiver]=${encodeURIComponent(receiver)}`))[0]!

test('lists pairs with daily limit, used and remaining recipients, and filters them', async () => {
  assert.deepEqual(
    (await listed()).map(({ attributes: { receiver, state, step, daily_limit, used, remaining } }) => [
      receiver,
      state,
      step,
      daily_limit,
      used,
      remaining,
    ]),
    [
      ['*', 'warming', 1, 300, 51, 249],
      ['Google', 'warming', 1, 50, 30, 20],
      ['there.test', 'warming', 1, 20, 16, 4],
      ['elsewhere.test', 'warming', 1, 20, 5, 15],
    ],
  )
  assert.equal((await one('google')).attributes['receiver'], 'Google')
  assert.equal((await listed('?filter[state]=warm')).length, 0)
  assert.equal((await listed(`?filter[source]=${SOURCE}`)).length, 4)
  const { id } = await one('there.test')
  const { attributes } = (await postrider.api('GET', `/warmups/${id}`)).body.data
  assert.deepEqual(attributes.history, [
    {
      day: '2026-01-15',
      daily_limit: 20,
      used: 16,
      deferred: 0,
      refused: 0,
      complained: 0,
      bounced: 0,
      verdict: null,
    },
  ])
})

test('only operators can use the API', async () => {
  assert.equal((await postrider.asOther('GET', '/warmups')).status, 404)
  const { id } = await one('there.test')
  for (const [method, path] of [
    ['GET', `/warmups/${id}`],
    ['POST', `/warmups/${id}/skip`],
    ['POST', `/warmups/${id}/restart`],
  ] as const)
    assert.equal((await postrider.asOther(method, path)).status, 404)
})

test('a number sets the limit of a pair, null returns to the schedule, and a stale If-Match or invalid number is rejected', async () => {
  const { id } = await one('there.test')
  const patch = (daily_limit: unknown, headers: Record<string, string> = {}) =>
    postrider.api('PATCH', `/warmups/${id}`, document('warmups', { daily_limit }, { id }), headers)
  const tag = (await postrider.api('GET', `/warmups/${id}`)).headers.get('etag')!
  const fixed = await patch(500, { 'if-match': tag })
  assert.equal(fixed.status, 200)
  assert.deepEqual(
    [fixed.body.data.attributes.state, fixed.body.data.attributes.daily_limit, fixed.body.data.attributes.step],
    ['manual', 500, null],
  )
  // It holds for the next mail, and is kept.
  assert.equal(await take('there.test', 1000), 249 - 60)
  assert.equal((await patch(7, { 'if-match': tag })).status, 412)
  for (const wrong of [-1, 1.5, 'many', 1e12]) {
    const refused = await patch(wrong)
    assert.equal(refused.status, 422)
    assert.equal(refused.body.errors[0].source.pointer, '/data/attributes/daily_limit')
  }
  assert.equal((await patch(null)).body.data.attributes.state, 'warming')
  const skipped = await postrider.api('POST', `/warmups/${id}/skip`)
  assert.deepEqual([skipped.status, skipped.body.data.attributes.state], [202, 'unlimited'])
  assert.equal(skipped.body.data.attributes.daily_limit, null)
  const again = await postrider.api('POST', `/warmups/${id}/restart`)
  assert.deepEqual([again.body.data.attributes.state, again.body.data.attributes.step], ['warming', 1])
})

test('commands work next to the running server, which logs the operator', async () => {
  const rows = await commands.json('warmup', 'set', 'new.test', '--daily-limit', '33')
  assert.deepEqual(
    rows.map(({ source, receiver, state, daily_limit }: Record<string, unknown>) => [
      source,
      receiver,
      state,
      daily_limit,
    ]),
    [[SOURCE, 'new.test', 'manual', 33]],
  )
  clock.advance(1500)
  const said = await until(
    () => logged.find((line) => line.includes('"warmup_settings_changed"') && line.includes('new.test')),
    'log',
  )
  assert.match(said, /"operator":"\S+ \(command line\)"/)
  assert.equal((await one('new.test')).attributes['daily_limit'], 33)
  assert.equal((await commands.json('warmup', 'skip', 'google'))[0].state, 'unlimited')
  // A domain is set at the receiver of its mail.
  await postrider.appliance.deps.store.write((tx) =>
    learnReceiver(tx, 'ours.test', { receiver: 'Google' }, clock.now()),
  )
  assert.equal((await commands.json('warmup', 'set', 'ours.test', '--daily-limit', '60'))[0].receiver, 'Google')
  assert.equal((await commands.json('warmup', 'show', '--receiver', 'ours.test'))[0].daily_limit, 60)
  assert.equal((await commands.json('warmup', 'restart', '--all', '--source', SOURCE)).length, 5)
  assert.equal((await one('Google')).attributes['state'], 'warming')
  assert.equal((await commands.json('warmup', 'show', '--receiver', 'Google')).length, 1)
  const { stdout } = await commands.run(['warmup', 'show'])
  assert.match(stdout, /SENDING IP\s+RECEIVER\s+STATE\s+DAILY LIMIT/)
  assert.match(stdout, /192\.0\.2\.1\s+\* \(all\)\s+warming/)
})

test('commands reject unknown arguments with a sentence', async () => {
  for (const [given, words] of [
    [['set', 'there.test', '--daily-limit', 'many'], /is not a number; use one such as 500/],
    [
      ['set', 'no domain', '--daily-limit', '5'],
      /is not a receiver; use a domain such as example\.net, or one of Google, Microsoft consumer, /,
    ],
    [['skip', 'gmail'], /is not a receiver; use a domain such as example\.net/],
    [['skip', 'there.test', '--source', '203.0.113.9'], /does not send from 203\.0\.113\.9; use one of 192\.0\.2\.1/],
    [['skip'], /Give either a receiver or --all/],
    [['restart', 'there.test', '--all'], /Give either a receiver or --all/],
  ] as const) {
    const { code, stderr } = await commands.run(['warmup', ...given])
    assert.notEqual(code, 0)
    assert.match(stderr, words)
  }
})

test('/metrics has the receivers with the most email by name and the rest as "other"', async () => {
  await postrider.api('POST', `/warmups/${(await one('*')).id}/skip`)
  for (let n = 0; n < 60; n++) await take(`many${n}.test`, 1, false)
  const text = await (await postrider.page('/metrics', { headers: { authorization: `Bearer ${METRICS}` } })).text()
  assert.match(text, /^postrider_warmup_daily_limit\{source="192\.0\.2\.1",receiver="Google"\} 50$/m)
  assert.match(text, /^postrider_warmup_used\{source="192\.0\.2\.1",receiver="elsewhere\.test"\} 5$/m)
  assert.match(text, /^postrider_warmup_used\{source="192\.0\.2\.1",receiver="other"\} 1\d$/m)
  assert.match(text, /^postrider_warmup_waiting\{source="\*",receiver="Google"\} 0$/m)
  assert.equal([...text.matchAll(/^postrider_warmup_used\{/gm)].length, 51)
})

test('counts email queued for warm-up by receiver, as its servers identify it', async () => {
  const { deps } = postrider.appliance
  await postrider.activeDomain('here.test')
  postrider.route('waits.test')
  const mail = { from: 'ann@here.test', to: 'bob@waits.test', subject: 'Hello', html: '<p>Hello</p>' }
  await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
  await deps.store.write((tx) => {
    learnReceiver(tx, 'waits.test', { receiver: 'there.test' }, clock.now())
    tx.run(
      raw(
        `update deliveries set status = 'queued', leased_until = null, next_attempt_at = ?, response = 'warm-up: full'`,
        [clock.now() + DAY],
      ),
    )
  })
  assert.deepEqual([(await one('there.test')).attributes['waiting'], (await one('*')).attributes['waiting']], [1, 1])
})

test('the hourly task evaluates past days', async () => {
  const { deps } = postrider.appliance
  await take('Google', 30)
  const before = (await one('Google')).attributes
  clock.leap(DAY)
  await closeDays({ ...deps, noticed: () => {} })
  const after = (await one('Google')).attributes
  assert.equal(after.step, before.step + 1)
  assert.deepEqual(
    (after['history'] as { verdict: string | null }[]).map(({ verdict }) => verdict),
    ['good'],
  )
})
