// Delivery within the daily limits of warm-up: attempts never exceed them. Waiting mail shows the reason and delays no
// other mail, and overflow goes by the relay.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { Ways } from '../../src/delivery/queue/ways.ts'
import { sendersIn } from '../../src/domains/records.ts'
import { setPair } from '../../src/warmup/settings.ts'
import { findPair } from '../../src/warmup/pairs.ts'
import { raw } from '../../src/store/query.ts'
import { settleComplaint } from '../../src/delivery/results/returned.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'
import { DAY, HOUR } from '../../src/base/clock.ts'

/** From the shipped file: the first step for unknown receivers, and its part for bulk mail. */
const FIRST = 20
const FIRST_BULK = 16

interface Scene extends AsyncDisposable {
  postrider: TestAppliance
  exchanger: TestExchanger
  mails: ReturnType<typeof mailsOf>
  /** Posts so many emails to a domain. Returns their ids. */
  many(count: number, domain: string): Promise<string[]>
  /** How many recipients of a domain the receiving server accepted. */
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

test('requires a name for an overflow route, and adds its SPF to the printed records', () => {
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
    /"warmup.route" is ".*", which is not in "delivery.routes"/,
  )
  assert.match(
    refusal({ delivery: { routes: [{ host: 'smtp.relay.test' }] } }),
    /the route has neither "domains" nor a "name"/,
  )
  assert.match(refusal({ delivery: { routes: [spare, spare] } }), /two routes have the name "spare"/)
  const config = parseConfig({
    hostname: 'mx.here.test',
    warmup: { route: 'spare' },
    delivery: { source: ['192.0.2.1', '2001:db8::1'], routes: [spare] },
  })
  assert.deepEqual(sendersIn(config), ['a:mx.here.test', 'ip4:192.0.2.1', 'ip6:2001:db8::1', 'include:relay.test'])
})

test('never exceeds a daily limit, and queues the rest for the next day without an attempt or a problem', async () => {
  await using at = await scene({ warmup: { transactional_overflow: 'wait' } })
  const { mails, postrider } = at
  const ids = await at.many(FIRST + 10, 'there.test')
  await until(() => at.waiting('there.test').length === 10, 'those that wait')
  await until(() => at.taken('there.test') === FIRST, 'those that have a place')
  await at.settled()
  assert.equal(at.tried('there.test'), FIRST)
  // Another receiver is not delayed.
  for (const id of await at.many(3, 'other.test')) await mails.become(id, 'delivered')
  const today = Math.floor(postrider.clock.now() / DAY)
  for (const { attempts, next, response } of at.waiting('there.test')) {
    assert.equal(attempts, 0)
    assert.ok(next >= (today + 1) * DAY && next < (today + 1) * DAY + HOUR, new Date(next).toISOString())
    assert.match(response, /^warm-up: the limit for there\.test /)
  }
  const waiting = ids.filter((id) => !mails.eventTypes(id).includes('email.delivered'))
  assert.equal(waiting.length, 10)
  for (const id of waiting) {
    const [told, ...more] = mails.events(id)
    assert.deepEqual([told?.type, more], ['email.delayed', []])
    assert.match(String(told!.data['response']), /^warm-up: the limit for there\.test /)
    assert.equal(told!.data['next_attempt_at'], at.waiting('there.test')[0]!.next)
  }
  assert.deepEqual(postrider.appliance.deps.troubles.list(), [])
  const { body } = await postrider.api('GET', '/lanes?filter[domain]=there.test')
  assert.match(body.data[0].attributes.response, /^warm-up:/)
  const { recipients } = await mails.show(waiting[0]!)
  assert.equal(recipients[0]!.waiting_reason, 'Warm-up: the limit for there.test is reached for today')
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

test('campaign email leaves part of the limit to other email, and the campaign stays "sending" while it is queued', async () => {
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

test('counts a recipient once per day for all its attempts, and not without an attempt', async () => {
  await using at = await scene({ warmup: { transactional_overflow: 'wait' } })
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
  // A receiving server that cannot be reached got no recipient.
  postrider.dns.set('mx.other.test', 'A', ['127.0.0.222'])
  const away = await mails.post({ to: 'a@other.test' })
  await mails.attempted(away, 1)
  assert.equal(at.tried('other.test'), 0)
  assert.equal(at.tried('*'), FIRST)
})

test('sends overflow email via the relay, also on retries, without counting it for a pair; attempts name the relay', async () => {
  const relay = await startTestExchanger()
  await using at = await scene({
    warmup: { transactional_overflow: 'relay', route: 'spare' },
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

test('chooses the route again for email whose attempts all ended with their process', async () => {
  const relay = await startTestExchanger()
  await using at = await scene({
    warmup: { transactional_overflow: 'relay', route: 'spare' },
    delivery: { routes: [{ name: 'spare', host: '127.0.0.1', port: relay.port }] },
  })
  const { mails, postrider } = at
  await at.many(FIRST, 'there.test')
  await until(() => at.taken('there.test') === FIRST, 'those that have a place')
  const [hold, release] = ['hold', 'release'].map((label) => () => postrider.api('POST', `/lanes/there.test/${label}`))
  assert.equal((await hold!()).status, 202)
  const killed = await mails.post({ to: 'killed@there.test' })
  const tried = await mails.post({ to: 'tried@there.test' })
  // The state at a start after two attempts that ended with their process, and one that had a result.
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

test('uses another sending IP address with remaining limit before it queues email', async () => {
  const [one, two] = ['127.0.0.31', '127.0.0.32']
  await using at = await scene({ warmup: { transactional_overflow: 'wait' }, delivery: { source: [one, two] } })
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

test('applies a change by an operator within a second, even next to the running server', async () => {
  await using at = await scene({ warmup: { transactional_overflow: 'wait' } })
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
})

test('PATCH and a configuration reload release queued email within a second', async () => {
  await using at = await scene({ warmup: { transactional_overflow: 'wait' } })
  const { config, clock } = at.postrider
  await at.many(FIRST + 5, 'there.test')
  await at.many(FIRST + 5, 'other.test')
  await until(() => at.waiting('there.test').length === 5 && at.waiting('other.test').length === 5, 'those that wait')
  const { body } = await at.postrider.api('GET', '/warmups?filter[receiver]=there.test')
  const [{ id }] = body.data
  const patch = { data: { type: 'warmups', id, attributes: { daily_limit: FIRST + 3 } } }
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

test('applies no warm-up to servers at private addresses', async () => {
  await using at = await scene({ warmup: { private: false, transactional_overflow: 'wait' } })
  await at.many(FIRST + 5, 'there.test')
  await until(() => at.taken('there.test') === FIRST + 5, 'all')
  assert.equal(at.tried('there.test'), 0)
})

test('a block stops campaign email of the pair for the day, and other email continues', async () => {
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

test('queues campaign email that was claimed ahead if the receiver blocks an earlier recipient', async () => {
  await using at = await scene({ delivery: { max_connections: 4 } })
  const { exchanger, postrider } = at
  const asked = (): number => exchanger.commands.filter((line) => line.startsWith('RCPT')).length
  exchanger.script.answer = (command) =>
    command.startsWith('RCPT') ? '550 5.7.1 Your IP address is on our blocklist' : undefined
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(postrider.appliance.deps.store.one(raw<{ id: string }>('select id from domains')))
  await kit.fill(
    audience,
    Array.from({ length: FIRST_BULK }, (_, n) => `r${n}@there.test`),
  )
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(() => asked() + at.waiting('there.test').length === FIRST_BULK, 'what was not tried waits')
  // An open session may have sent its RCPT before the first answer.
  assert.ok(asked() <= exchanger.connections, `${asked()} recipients on ${exchanger.connections} connections`)
  assert.equal(at.tried('there.test'), asked())
  for (const { attempts } of at.waiting('there.test')) assert.equal(attempts, 0)
  assert.equal((await kit.show(campaign))['status'], 'sending')
})

test('later reports, such as complaints, count for the day of the email', async () => {
  await using at = await scene()
  const { mails, postrider } = at
  const { store } = postrider.appliance.deps
  await mails.become(await mails.post({ to: 'a@there.test' }), 'delivered')
  const day = Math.floor(postrider.clock.now() / DAY)
  postrider.clock.leap(2 * DAY)
  const { key } = store.one(raw<{ key: number }>('select key from deliveries'))
  const { gate } = postrider.appliance.deps
  await store.write((tx) => settleComplaint(tx, key, 'a@there.test', 'abuse', { now: postrider.clock.now(), gate }))
  const days = store.all(
    raw<{ day: number; receiver: string; complained: number }>(
      `select d.day, w.receiver, d.complained from warmup_days d join warmups w on w.key = d.warmup_key
       where d.complained > 0 order by w.receiver`,
    ),
  )
  assert.deepEqual(
    days.map((each) => [each.receiver, each.day, each.complained]),
    [['there.test', day, 1]],
  )
})
