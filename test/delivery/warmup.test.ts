// Delivery within the allowances of warm-up: what is tried never passes them; what waits says so, and delays nothing
// else; what may go by the relay goes there.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { Ways } from '../../src/delivery/queue/ways.ts'
import { sendersIn } from '../../src/domains/records.ts'
import { setPair, turn } from '../../src/warmup/settings.ts'
import { findPair } from '../../src/warmup/pairs.ts'
import { raw } from '../../src/store/query.ts'
import { settleComplaint } from '../../src/delivery/results/returned.ts'
import { Warmup } from '../../src/warmup/places.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'
import { DAY, HOUR } from '../../src/base/clock.ts'

/** Of the shipped file: the first step for receivers that it does not name, and what that leaves to bulk mail. */
const FIRST = 20
const FIRST_BULK = 16

interface Scene extends AsyncDisposable {
  postrider: TestAppliance
  exchanger: TestExchanger
  mails: ReturnType<typeof mailsOf>
  /** Posts so many mails to a domain; returns their ids. */
  many(count: number, domain: string): Promise<string[]>
  /** The domains of what the exchanger took, and how often. */
  taken(domain: string): number
  /** Recipients that wait for the warm-up of a domain. */
  waiting(domain: string): { next: number; attempts: number; response: string }[]
  tried(receiver: string, source?: string): number
  settled(): Promise<void>
}

async function scene(config: ConfigInput = {}, domains = ['there.test', 'other.test']): Promise<Scene> {
  const exchanger = await startTestExchanger()
  const postrider = await startTestAppliance({
    config: {
      ...config,
      warmup: { private: true, ...config.warmup },
      delivery: { port: exchanger.port, ...config.delivery },
    },
    domains: ['here.test'],
    routes: domains,
  })
  const mails = mailsOf(() => postrider)
  const { store } = postrider.appliance.deps
  return {
    postrider,
    exchanger,
    mails,
    many: (count, domain) =>
      Promise.all(Array.from({ length: count }, (_, n) => mails.post({ to: `a${n}@${domain}`, subject: `${n}` }))),
    taken: (domain) => exchanger.heard.filter(({ to }) => to[0]!.endsWith(`@${domain}`)).length,
    waiting: (domain) =>
      store.all(
        raw<{ next: number; attempts: number; response: string }>(
          `select next_attempt_at as next, attempts, response from deliveries
           where status = 'queued' and address like '%@' || ? and response like 'warm-up:%'`,
          [domain],
        ),
      ),
    tried: (receiver, source = 'default') =>
      store.first(
        raw<{ tried: number }>(
          `select tried from warmup_days d join warmups w on w.key = d.warmup_key
           where w.receiver = ? and w.source = ? and d.day = ?`,
          [receiver, source, Math.floor(postrider.clock.now() / DAY)],
        ),
      )?.tried ?? 0,
    settled: async () => {
      await until(
        () => store.all(raw(`select 1 from deliveries where status = 'active'`)).length === 0,
        'nothing is under way',
      )
    },
    async [Symbol.asyncDispose]() {
      await postrider.stop()
      await exchanger.close()
    },
  }
}

test('a route for overflow has a name, and its SPF joins the records that are printed (DV10, DV11)', () => {
  const refusal = (input: ConfigInput): string => {
    try {
      parseConfig(input)
    } catch (thrown) {
      return (thrown as Error).message
    }
    throw new Error('taken')
  }
  const spare = { name: 'spare', host: 'smtp.relay.test', spf: 'include:relay.test' }
  assert.throws(
    () => new Ways(parseConfig({ warmup: { route: 'spare' } })).check(),
    /"warmup.route" must be the name of one of "delivery.routes"/,
  )
  assert.match(refusal({ delivery: { routes: [{ host: 'smtp.relay.test' }] } }), /a route needs "domains", or a "name"/)
  assert.match(refusal({ delivery: { routes: [spare, spare] } }), /two routes have the name "spare"/)
  const config = parseConfig({
    hostname: 'mx.here.test',
    warmup: { route: 'spare' },
    delivery: { source: ['192.0.2.1', '2001:db8::1'], routes: [spare] },
  })
  assert.deepEqual(sendersIn(config), ['a:mx.here.test', 'ip4:192.0.2.1', 'ip6:2001:db8::1', 'include:relay.test'])
})

test('an allowance is never passed; the rest waits for the next day, without an attempt and without trouble (DV1, DV7, DV8)', async () => {
  await using at = await scene({ warmup: { transactional_over: 'wait' } })
  const { mails, postrider } = at
  const ids = await at.many(FIRST + 10, 'there.test')
  await until(() => at.waiting('there.test').length === 10, 'those that wait')
  await until(() => at.taken('there.test') === FIRST, 'those that have a place')
  await at.settled()
  assert.equal(at.tried('there.test'), FIRST)
  // Another receiver is not delayed (DV9).
  for (const id of await at.many(3, 'other.test')) await mails.become(id, 'delivered')
  const today = Math.floor(postrider.clock.now() / DAY)
  for (const { attempts, next, response } of at.waiting('there.test')) {
    assert.equal(attempts, 0)
    assert.ok(next >= (today + 1) * DAY && next < (today + 1) * DAY + HOUR, new Date(next).toISOString())
    assert.match(response, /^warm-up: there\.test /)
  }
  const waiting = ids.filter((id) => !mails.eventTypes(id).includes('email.delivered'))
  assert.equal(waiting.length, 10)
  for (const id of waiting) {
    const [told, ...more] = mails.events(id)
    assert.deepEqual([told?.type, more], ['email.delayed', []])
    assert.match(String(told!.data['response']), /^warm-up: there\.test /)
    assert.equal(told!.data['next_attempt_at'], at.waiting('there.test')[0]!.next)
  }
  assert.deepEqual(postrider.appliance.deps.troubles.list(), [])
  const { body } = await postrider.api('GET', '/lanes?filter[domain]=there.test')
  assert.match(body.data[0].attributes.response, /^warm-up:/)
  assert.equal(at.taken('there.test'), FIRST)
  // Its lifetime begins with its first attempt.
  const row = postrider.appliance.deps.store.one(
    raw<{ expires: number; next: number }>(
      `select expires_at as expires, next_attempt_at as next from deliveries where response like 'warm-up:%' limit 1`,
    ),
  )
  assert.equal(row.expires - row.next, postrider.config.delivery.lifetime)
  postrider.clock.leap((today + 1) * DAY + HOUR - postrider.clock.now())
  for (const id of waiting) await mails.become(id, 'delivered')
})

test('campaign mail leaves places to other mail, which goes on when it waits; the campaign stays "sending" (DV6, DV9, DV13)', async () => {
  await using at = await scene()
  const { mails, postrider } = at
  const kit = campaignKit(() => postrider)
  const { store } = postrider.appliance.deps
  const domain = store.one(raw<{ id: string }>('select id from domains'))
  const audience = await kit.audience(domain)
  await kit.fill(
    audience,
    Array.from({ length: FIRST }, (_, n) => `r${n}@there.test`),
  )
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(() => at.taken('there.test') === FIRST_BULK, 'those that have a place')
  await until(() => at.waiting('there.test').length === FIRST - FIRST_BULK, 'those that wait')
  assert.equal((await kit.show(campaign))['status'], 'sending')
  for (const id of await at.many(10, 'there.test')) await mails.become(id, 'delivered')
  assert.equal(at.taken('there.test'), FIRST_BULK + 10)
  const delayed = store.all(raw(`select 1 from events where type = 'email.delayed'`))
  assert.deepEqual(delayed, [])
  postrider.clock.leap(DAY + HOUR)
  await until(async () => (await kit.show(campaign))['status'] === 'sent', 'the end of the campaign')
  assert.equal(at.taken('there.test'), FIRST + 10)
})

test('a recipient counts once a day, however often it is tried; what was not tried gives its place back (DV1, DV7)', async () => {
  await using at = await scene({ warmup: { transactional_over: 'wait' } })
  const { exchanger, mails, postrider } = at
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '450 4.2.0 Greylisted, try later' : undefined)
  const ids = await at.many(FIRST, 'there.test')
  for (const id of ids) await mails.attempted(id, 1)
  assert.equal(at.tried('there.test'), FIRST)
  const late = await mails.post({ to: 'late@there.test' })
  await until(() => at.waiting('there.test').length === 1, 'one that has no place')
  delete exchanger.script.answer
  postrider.clock.leap(6 * MINUTE)
  for (const id of ids) await mails.become(id, 'delivered')
  assert.equal(at.tried('there.test'), FIRST)
  assert.equal((await mails.show(late)).status, 'queued')
  // An exchanger that cannot be reached was not asked for any recipient.
  postrider.dns.set('mx.other.test', 'A', ['127.0.0.222'])
  const away = await mails.post({ to: 'a@other.test' })
  await mails.attempted(away, 1)
  assert.equal(at.tried('other.test'), 0)
  assert.equal(at.tried('*'), FIRST)
})

test('a place stays used when the open connection ends at RCPT and no other can be opened (DV7)', async () => {
  await using at = await scene()
  const { exchanger, mails } = at
  await mails.become((await at.many(1, 'there.test'))[0]!, 'delivered')
  assert.equal(at.tried('there.test'), 1)
  // The next mail goes over the connection of the first one.
  exchanger.script = {
    answer: (command) => (command.startsWith('RCPT') ? 'close' : undefined),
    greeting: () => '421 4.3.2 closing',
  }
  const id = await mails.post({ to: 'b@there.test' })
  await mails.attempted(id, 1)
  await at.settled()
  assert.ok(exchanger.connections > 1)
  assert.equal(at.tried('there.test'), 2)
})

test('what may overflow goes by the relay, keeps to it, and counts for no pair; attempts name it (DV10)', async () => {
  const relay = await startTestExchanger()
  await using at = await scene({
    warmup: { transactional_over: 'relay', route: 'spare' },
    delivery: { routes: [{ name: 'spare', host: '127.0.0.1', port: relay.port, spf: 'include:relay.test' }] },
  })
  const { mails, postrider } = at
  const { store } = postrider.appliance.deps
  let down = true
  relay.script.greeting = () => (down ? '421 4.3.2 Later' : '220 relay.test ESMTP')
  const ids = await at.many(FIRST + 3, 'there.test')
  await until(() => at.taken('there.test') === FIRST, 'those that have a place')
  await at.settled()
  assert.equal(at.taken('there.test'), FIRST)
  // The relay is down: its mail is not sent from the cold address, on the next day neither.
  postrider.clock.leap(DAY + HOUR)
  await until(() => relay.connections > 1, 'the relay is tried again')
  await at.settled()
  assert.equal(at.taken('there.test'), FIRST)
  down = false
  postrider.clock.leap(HOUR)
  for (const id of ids) await mails.become(id, 'delivered')
  assert.equal(relay.heard.length, 3)
  assert.equal(at.taken('there.test'), FIRST)
  assert.equal(store.one(raw<{ n: number }>('select sum(relayed) as n from warmup_relayed')).n, 3)
  const row = store.all(
    raw<{ id: string }>(
      `select e.id from outbound_emails e join deliveries d on d.email_key = e.key where d.lane like '%|>spare'`,
    ),
  )
  assert.equal(row.length, 3)
  const { body } = await postrider.api('GET', `/outbound-emails/${row[0]!.id}/attempts`)
  assert.deepEqual(
    [...new Set(body.data.map((each: { attributes: { route: string } }) => each.attributes.route))],
    ['spare'],
  )
  await relay.close()
})

test('mail whose attempts all ended with their process chooses its way again (DV10)', async () => {
  const relay = await startTestExchanger()
  await using at = await scene({
    warmup: { transactional_over: 'relay', route: 'spare' },
    delivery: { routes: [{ name: 'spare', host: '127.0.0.1', port: relay.port }] },
  })
  const { mails, postrider } = at
  await at.many(FIRST, 'there.test')
  await until(() => at.taken('there.test') === FIRST, 'those that have a place')
  const [hold, release] = ['hold', 'release'].map((what) => () => postrider.api('POST', `/lanes/there.test/${what}`))
  assert.equal((await hold!()).status, 202)
  const killed = await mails.post({ to: 'killed@there.test' })
  const tried = await mails.post({ to: 'tried@there.test' })
  // What a start finds of two attempts that ended with their process, the mail having waited before, and of one that
  // had a result.
  const mark = (id: string, attempts: number) =>
    raw(
      `update deliveries set attempts = ?, response = 'warm-up: wait' where email_key = (select key from outbound_emails where id = ?)`,
      [attempts, id],
    )
  await postrider.appliance.deps.store.write((tx) => {
    tx.run(mark(killed, 2))
    tx.run(mark(tried, 1))
    tx.run(
      raw(
        `insert into attempts (delivery_key, number, at, outcome) select v.key, 1, v.updated_at, 'deferred'
         from deliveries v join outbound_emails e on e.key = v.email_key where e.id = ?`,
        [tried],
      ),
    )
  })
  assert.equal((await release!()).status, 202)
  await mails.become(killed, 'delivered')
  await until(() => at.waiting('there.test').length === 1, 'the other waits')
  assert.deepEqual(
    relay.heard.map(({ to }) => to),
    [['killed@there.test']],
  )
  await relay.close()
})

test('mail goes by another source that has room before it waits (DV9)', async () => {
  const [one, two] = ['127.0.0.31', '127.0.0.32']
  await using at = await scene({ warmup: { transactional_over: 'wait' }, delivery: { source: [one, two] } })
  await at.many(2 * FIRST + 5, 'there.test')
  await until(() => at.waiting('there.test').length === 5, 'those that wait')
  await until(() => at.taken('there.test') === 2 * FIRST, 'those that have a place')
  await at.settled()
  assert.deepEqual([at.tried('there.test', one), at.tried('there.test', two)], [FIRST, FIRST])
  const { body } = await at.postrider.api('GET', '/sources')
  assert.deepEqual(
    body.data.map((each: { attributes: { state: string; used_today: number } }) => [
      each.attributes.state,
      each.attributes.used_today,
    ]),
    [
      ['warming', FIRST],
      ['warming', FIRST],
    ],
  )
})

test('what an operator sets acts within a second, beside the running server too (DV15)', async () => {
  await using at = await scene({ warmup: { transactional_over: 'wait' } }, ['there.test', 'other.test', 'third.test'])
  const { postrider } = at
  const { clock } = postrider
  const { config, log, store } = postrider.appliance.deps
  await at.many(FIRST + 5, 'there.test')
  await at.many(FIRST + 5, 'other.test')
  await until(() => at.waiting('there.test').length === 5 && at.waiting('other.test').length === 5, 'those that wait')
  const pair = { source: 'default', receiver: 'there.test' }
  await store.write((tx) =>
    setPair({ tx, config, log, now: clock.now(), noticed: () => {} }, findPair(tx, pair)!, 'skip', 'ann'),
  )
  clock.advance(1000)
  await until(() => at.taken('there.test') === FIRST + 5, 'all of that receiver')
  assert.equal(at.taken('other.test'), FIRST)
  clock.advance(1000)
  await store.write((tx) => turn(tx, false, 'ann', clock.now()))
  clock.advance(1000)
  await until(() => at.taken('other.test') === FIRST + 5, 'all')
  await at.many(FIRST + 5, 'third.test')
  await until(() => at.taken('third.test') === FIRST + 5, 'no allowance counts')
})

test('PATCH, and a configuration that was read again, free what waits within a second (DV15)', async () => {
  await using at = await scene({ warmup: { transactional_over: 'wait' } })
  const { config, clock } = at.postrider
  await at.many(FIRST + 5, 'there.test')
  await at.many(FIRST + 5, 'other.test')
  await until(() => at.waiting('there.test').length === 5 && at.waiting('other.test').length === 5, 'those that wait')
  const { body } = await at.postrider.api('GET', '/warmups?filter[receiver]=there.test')
  const [{ id }] = body.data
  const patch = { data: { type: 'warmups', id, attributes: { allowance: FIRST + 3 } } }
  assert.equal((await at.postrider.api('PATCH', `/warmups/${id}`, patch)).status, 200)
  clock.advance(1000)
  await until(() => at.taken('there.test') === FIRST + 3, 'what fits now')
  await until(() => at.waiting('there.test').length === 2, 'the rest')
  assert.equal(at.taken('other.test'), FIRST)
  // As SIGHUP does (src/cli/serve.ts).
  Object.assign(config, { warmup: { ...config.warmup, enabled: false } })
  clock.advance(1000)
  await until(() => at.taken('there.test') === FIRST + 5 && at.taken('other.test') === FIRST + 5, 'all')
})

test('exchangers at addresses that are not public have no warm-up (DV17)', async () => {
  await using at = await scene({ warmup: { private: false, transactional_over: 'wait' } })
  await at.many(FIRST + 5, 'there.test')
  await until(() => at.taken('there.test') === FIRST + 5, 'all')
  assert.equal(at.tried('there.test'), 0)
})

test('a block ends campaign mail of the pair for the day; other mail goes on (DV5)', async () => {
  await using at = await scene()
  const { exchanger, mails, postrider } = at
  exchanger.script.answer = (command) =>
    command.startsWith('RCPT TO:<first@') ? '550 5.7.1 Your IP address is on our blocklist' : undefined
  await mails.become(await mails.post({ to: 'first@there.test' }), 'bounced')
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(postrider.appliance.deps.store.one(raw<{ id: string }>('select id from domains')))
  await kit.fill(audience, ['r1@there.test', 'r2@there.test'])
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(() => at.waiting('there.test').length === 2, 'the campaign waits')
  await mails.become(await mails.post({ to: 'second@there.test' }), 'delivered')
})

test('what comes later, such as a complaint, counts for the day of the mail (DV3)', async () => {
  await using at = await scene()
  const { mails, postrider } = at
  const { store } = postrider.appliance.deps
  await mails.become(await mails.post({ to: 'a@there.test' }), 'delivered')
  const day = Math.floor(postrider.clock.now() / DAY)
  postrider.clock.leap(2 * DAY)
  const { key } = store.one(raw<{ key: number }>('select key from deliveries'))
  const { config, log } = postrider.appliance.deps
  const warmup = new Warmup({ config, log, noticed: () => {} })
  await store.write((tx) => settleComplaint(tx, key, 'a@there.test', 'abuse', { now: postrider.clock.now(), warmup }))
  const days = store.all(
    raw<{ day: number; receiver: string; complained: number }>(
      `select d.day, w.receiver, d.complained from warmup_days d join warmups w on w.key = d.warmup_key
       where d.complained > 0 order by w.receiver`,
    ),
  )
  assert.deepEqual(
    days.map((each) => [each.receiver, each.day, each.complained]),
    [
      ['*', day, 1],
      ['there.test', day, 1],
    ],
  )
})
