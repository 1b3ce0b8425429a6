// Alarms of receivers: opened once, with notices to webhooks, /metrics, the console and once a day to the owner, and
// closed after a quiet day. Results are stored through the functions that settles use, with a manual clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { listNotices } from '../../src/users/notices.ts'
import { countComplaint, countReceiver, settleReceivers } from '../../src/reputation/receivers.ts'
import { emailOf, settle, type Delivery } from '../../src/delivery/results/settle.ts'
import { waitsForUs } from '../../src/smtp/verdict.ts'
import { raw } from '../../src/store/query.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import type { EventType } from '../../src/store/states/events.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook, rest } from '../webhooks/hooks.ts'

const PASSWORD = 'a long enough password'
const TOKEN = 'a-token-of-a-monitoring-system'
const BUSY = '421 4.7.28 Unusual rate of mail, ann@there.test'
const later = new Set<string>()
const exchanger = testExchanger({
  answer: (line) => {
    const [, name = ''] = /^RCPT TO:<(\w+)@/i.exec(line) ?? []
    return later.has(name) ? '451 4.7.1 Later' : name.startsWith('gone') ? '550 5.1.1 No such user' : undefined
  },
})
const receiver = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    config: { metrics: { token: TOKEN } },
    exchanger,
    receiver,
    domains: ['here.test', 'idle.test'],
    otherDomains: ['bobs.test'],
    routes: ['there.test', 'sub.there.test'],
  }),
)
let ann: Guest

setUp(async () => {
  const { user } = postrider
  await givePassword(postrider, user.email, PASSWORD)
  ann = new Guest(postrider)
})

const store = () => postrider.appliance.deps.store
const now = (): number => postrider.clock.now()
type Attributes = Awaited<ReturnType<typeof postrider.api>>['body']

const domainNamed = (name: string) =>
  store().one(raw<{ key: number; user_key: number }>('select key, user_key from domains where name = ?', [name]))

interface Outcomes {
  delivered?: number
  deferred?: number
  refused?: number
  complained?: number
  age?: number
  host?: string
  from?: string
}

/** Stores current outcomes for these numbers of recipients. */
async function outcomes({
  age = SECOND,
  complained = 0,
  from = 'here.test',
  host = 'mx.there.test',
  ...kinds
}: Outcomes) {
  const { key, user_key } = domainNamed(from)
  const email = { user_key, domain_key: key }
  const delivery = { key: -1, lane: 'there.test', attempts: 1 }
  const { deferred = 0, delivered = 0, refused = 0 } = kinds
  const replies = [
    ...Array.from({ length: delivered }, () => ({ kind: 'delivered', code: 250, text: 'Ok' }) as const),
    ...Array.from({ length: deferred }, () => ({ kind: 'deferred', code: 421, text: BUSY.slice(4) }) as const),
    ...Array.from({ length: refused }, () => ({ kind: 'bounced', code: 550, text: 'No' }) as const),
  ]
  await store().write((tx) => {
    for (const reply of replies)
      countReceiver(tx, { email, delivery, age, verdict: { ...reply, enhanced: null, host } }, now())
    for (let n = 0; n < complained; n++) countComplaint(tx, user_key, 'there.test', now())
  })
}

async function alarms(state = ''): Promise<Attributes[]> {
  const path = `/statistics/alarms${state === '' ? '' : `?filter[state]=${state}`}`
  return (await postrider.api('GET', path)).body.data.map(({ attributes }: { attributes: Attributes }) => attributes)
}

/** Advances the clock. Alarms are checked every five minutes. */
async function pass(by: number): Promise<void> {
  postrider.clock.leap(by)
  await rest(postrider)
  postrider.clock.leap(5 * MINUTE)
  await rest(postrider)
}

const notices = () => listNotices(store()).filter(({ subject }) => subject.startsWith('Delivery problem'))

async function metrics(): Promise<string[]> {
  const text = await (await postrider.page('/metrics', { headers: { authorization: `Bearer ${TOKEN}` } })).text()
  return text.split('\n').filter((line) => line.startsWith('postrider_receiver_alarms{'))
}

test('counts a recipient as tried and deferred once a day, by the receiver of the MX host, with its sending domain', async () => {
  const mail = async (to: string) => {
    const given = { from: 'ann@here.test', to, subject: 'Hello', html: '<p>Hello</p>' }
    const { body, status } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', given))
    assert.equal(status, 201, JSON.stringify(body))
  }
  type Sums = Record<'delivered' | 'deferred' | 'refused' | 'tried' | 'put_off', number>
  const sums = (): Sums | undefined =>
    store().first<Sums>(
      raw(
        `select sum(delivered) as delivered, sum(deferred) as deferred, sum(refused) as refused, sum(tried) as tried,
           sum(put_off) as put_off from receiver_tallies where receiver = 'there.test'`,
      ),
    )
  later.add('slow')
  await mail('slow@sub.there.test')
  await mail('quick@there.test')
  await mail('gone@there.test')
  await until(() => (sums()?.tried ?? 0) === 3)
  for (const times of [2, 3]) {
    postrider.clock.leap(30 * MINUTE)
    await until(() => sums()?.deferred === times)
  }
  assert.deepEqual({ ...sums() }, { delivered: 1, deferred: 3, refused: 1, tried: 3, put_off: 1 })
  // A day later it is attempted again, and accepted.
  later.delete('slow')
  postrider.clock.leap(DAY)
  await until(() => sums()?.delivered === 2)
  assert.deepEqual({ ...sums() }, { delivered: 2, deferred: 3, refused: 1, tried: 4, put_off: 1 })
  const domains = store().all(
    raw<{ name: string; tried: number }>(
      'select d.name, sum(r.tried) as tried from receiver_domains r join domains d on d.key = r.domain_key group by 1',
    ),
  )
  assert.deepEqual(
    domains.map((row) => ({ ...row })),
    [{ name: 'here.test', tried: 4 }],
  )
  // The list, the search and the page identify the receiver by the registrable domain of its MX host.
  const found = await postrider.api('GET', '/outbound-emails?filter[search]=receiver:there.test')
  assert.equal(found.body.data.length, 3)
})

test('does not count email at the receiver that waits for this server or for warm-up', async () => {
  const { key, user_key } = domainNamed('here.test')
  const count = () =>
    store().one(raw<{ n: number }>('select coalesce(sum(tried + deferred), 0) as n from receiver_tallies')).n
  const before = count()
  await store().write((tx) =>
    countReceiver(
      tx,
      {
        email: { user_key, domain_key: key },
        delivery: { key: -1, lane: 'there.test', attempts: 1 },
        verdict: { kind: 'waiting', code: null, enhanced: '4.7.0', text: 'warm-up: tomorrow', host: null },
        age: 0,
      },
      now(),
    ),
  )
  assert.equal(count(), before)
  // Nor is it when its lifetime ends while it waits for this server.
  later.add('waits')
  const given = { from: 'ann@here.test', to: 'waits@there.test', subject: 'Hello', html: '<p>Hello</p>' }
  const { body } = await postrider.api('POST', '/outbound-emails', document('outbound-emails', given))
  await until(() => count() === before + 2)
  const { config } = postrider.appliance.deps
  await store().write((tx) => {
    const email = tx.one(raw<{ key: number }>('select key from outbound_emails where id = ?', [body.data.id])).key
    tx.run(
      raw(`update deliveries set status = 'active', attempts = 2, expires_at = ? where email_key = ?`, [now(), email]),
    )
    const delivery = tx.one(raw<Delivery>('select * from deliveries where email_key = ?', [email]))
    const of = tx.one(emailOf({ key: email }))
    settle(tx, { delivery, email: of, now: now(), config, verdict: waitsForUs({ stage: 'connect' }) })
    assert.equal(
      tx.one(raw<{ status: string }>('select status from deliveries where key = ?', [delivery.key])).status,
      'failed',
    )
  })
  assert.equal(count(), before + 2)
})

test('opens an alarm once, and notifies the domains with email there, the owner and /metrics', async () => {
  // A week of usual email: 1 % is deferred. The first emails of this file are older.
  postrider.clock.leap(9 * DAY)
  for (let day = 0; day < 7; day++) {
    await outcomes({ delivered: 99, deferred: 1 })
    await pass(DAY)
  }
  await settleReceivers(store(), now())
  assert.deepEqual(await alarms(), [])
  const hook = await makeHook(postrider, receiver, (await domainOf('here.test'))!)
  const idle = await makeHook(postrider, receiver, (await domainOf('idle.test'))!)
  await pass(HOUR)
  await outcomes({ delivered: 94, deferred: 6 })
  await pass(0)
  const [alarm, ...more] = await alarms('open')
  assert.equal(more.length, 0)
  // 6 of 100 on this day, 1 of 100 before.
  assert.deepEqual(
    [alarm.receiver, alarm.kind, alarm.state, alarm.current, alarm.baseline, alarm.volume, alarm.closed_at],
    ['there.test', 'deferred', 'open', 0.06, 0.01, 100, null],
  )
  assert.equal(alarm.reply, '421 Unusual rate of mail, <address>'.replace('421 ', '421 4.7.28 '))
  assert.equal(alarm.class, 'rate')
  assert.match(alarm.meaning, /limits senders/)
  await hook.arrived(1)
  // Looked at again, worse now: the same alarm.
  await outcomes({ deferred: 20 })
  await pass(10 * MINUTE)
  assert.deepEqual(
    (await alarms()).map(({ volume }) => volume),
    [120],
  )
  const told = hook.requests().map(({ body }) => JSON.parse(body) as { type: EventType; data: Attributes })
  assert.deepEqual(
    told.map(({ data, type }) => [type, data['name'], data['receiver'], data['kind'], data['baseline']]),
    [['domain.receiver_warning', 'here.test', 'there.test', 'deferred', 0.01]],
  )
  for (const { data, type } of told) assert.equal(CATALOGUE[type].data.safeParse(data).error, undefined)
  assert.equal(idle.requests().length, 0, 'a domain without mail there')
  assert.deepEqual(await metrics(), ['postrider_receiver_alarms{receiver="there.test",kind="deferred"} 1'])
  assert.deepEqual(
    notices().map(({ subject }) => subject),
    ['Delivery problem at there.test'],
  )
  assert.match(
    notices()[0]!.text,
    /deferred 6% of recipients[^]*SMTP reply: 421 4\.7\.28 Unusual[^]*\/receivers\/there\.test/,
  )
  assert.equal((await postrider.asOther('GET', '/statistics/alarms')).body.data.length, 0)
})

test('the console shows the alarm in the list, on the receiver’s page and on the overview', async () => {
  await ann.signIn(postrider.user.email, PASSWORD)
  const { body } = await postrider.api('GET', '/statistics/receivers/there.test')
  assert.equal(body.data.attributes.alarm, 'deferred')
  assert.match((await ann.open('/receivers')).text, /badge bad"\s*>alarm</)
  const page = (await ann.open('/receivers/there.test')).text
  assert.match(page, /there\.test deferred [\d.]+% of recipients/)
  assert.match(page, /421 4\.7\.28 Unusual rate of mail, &lt;address&gt;/)
  assert.match(page, /The receiving server limits senders/)
  const overview = (await ann.open('/')).text
  assert.match(overview, /there\.test deferred[^]*href="\/receivers\/there\.test"/)
})

test('notifies the owner at most once a day', async () => {
  await outcomes({ refused: 30, delivered: 10 })
  await pass(0)
  assert.deepEqual(new Set((await alarms('open')).map(({ kind }) => kind)), new Set(['deferred', 'refused']))
  assert.equal(notices().length, 1)
  await outcomes({ refused: 30, deferred: 30, delivered: 40 })
  await pass(20 * HOUR)
  assert.equal(notices().length, 1)
  await outcomes({ refused: 30, deferred: 30, delivered: 40 })
  await pass(4 * HOUR)
  assert.equal(notices().length, 2)
  assert.match(notices()[0]!.text, /rejected/)
  assert.doesNotMatch(notices()[0]!.text, /deferred/, 'of that the owner was told')
})

test('closes an alarm after 24 hours below half of its threshold, not before, and can open it again', async () => {
  const hook = await makeHook(postrider, receiver, (await domainOf('here.test'))!)
  // The bad hours leave the last day.
  await pass(25 * HOUR)
  await outcomes({ delivered: 200 })
  await pass(0)
  assert.equal((await alarms('open')).length, 2)
  await pass(12 * HOUR)
  // 3 % is not below the half of 6 %: the quiet time begins again.
  await outcomes({ delivered: 91, deferred: 9 })
  await pass(0)
  assert.equal((await alarms('open')).filter(({ kind }) => kind === 'deferred')[0].current, 0.03)
  await pass(14 * HOUR)
  assert.deepEqual(
    (await alarms('open')).map(({ kind }) => kind),
    ['deferred'],
  )
  await outcomes({ delivered: 300 })
  await pass(0)
  await pass(12 * HOUR)
  assert.deepEqual(
    (await alarms('open')).map(({ kind }) => kind),
    ['deferred'],
  )
  await pass(12 * HOUR)
  assert.deepEqual(await alarms('open'), [])
  assert.deepEqual(
    (await alarms('closed')).map(({ closed_at }) => typeof closed_at),
    ['string', 'string'],
  )
  await hook.arrived(2)
  const types = hook.requests().map(({ body }) => JSON.parse(body).type as string)
  assert.deepEqual(types, ['domain.receiver_recovered', 'domain.receiver_recovered'])
  assert.deepEqual(await metrics(), [])
  await outcomes({ refused: 200 })
  await pass(0)
  assert.deepEqual(
    (await alarms('open')).map(({ kind }) => kind),
    ['refused'],
  )
  assert.equal((await alarms()).length, 3)
})

test('uses only the rates, per account, without a week of history', async () => {
  await outcomes({ delivered: 91, deferred: 9, from: 'bobs.test' })
  await pass(0)
  const bobs = async () => (await postrider.asOther('GET', '/statistics/alarms')).body.data as Attributes[]
  assert.deepEqual(await bobs(), [])
  await outcomes({ deferred: 2, from: 'bobs.test' })
  await pass(0)
  const [{ attributes }] = await bobs()
  assert.deepEqual([attributes.kind, attributes.baseline, attributes.volume], ['deferred', null, 102])
})

test('an alarm about complaints names its cause without a reply, and replaces the finding about the rate', async () => {
  const { key, user_key } = domainNamed('bobs.test')
  const sent = (deliveries: number, complaints: number): Promise<void> =>
    store().write((tx) => {
      tx.run(raw('delete from tallies where domain_key = ?', [key]))
      tx.run(
        raw(
          'insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints) values (?, ?, ?, ?, ?, 0, ?)',
          [user_key, key, '', Math.floor(now() / HOUR), deliveries, complaints],
        ),
      )
    })
  const findings = async (): Promise<string[]> =>
    (await postrider.asOther('GET', '/findings')).body.data
      .map(({ attributes }: { attributes: Attributes }) => `${attributes.check}: ${attributes.detail}`)
      .filter((each: string) => /spam|complaint/.test(each))
  await sent(100, 5)
  assert.match((await findings()).join(), /^complaint rate: /)
  await outcomes({ delivered: 100, deferred: 1, complained: 5, from: 'bobs.test' })
  await pass(0)
  const [alarm] = (await postrider.asOther('GET', '/statistics/alarms?filter[state]=open')).body.data.filter(
    ({ attributes }: { attributes: Attributes }) => attributes.kind === 'complained',
  )
  assert.match(
    alarm.attributes.message,
    /marked your email as spam \(too little volume in the week before to compare\)/,
  )
  assert.deepEqual([alarm.attributes.reply, alarm.attributes.meaning], [null, null])
  await sent(200, 5)
  const [only = '', ...more] = await findings()
  assert.match(only, /^receiver: .* of recipients at there\.test marked your email as spam/)
  assert.deepEqual(more, [], 'one cause is one finding')
  const bob = new Guest(postrider)
  await givePassword(postrider, postrider.other.email, PASSWORD)
  await bob.signIn(postrider.other.email, PASSWORD)
  await store().write((tx) =>
    tx.run(raw(`update receiver_alarms set status = 'closed', closed_at = 1 where kind <> 'complained'`)),
  )
  assert.match(
    (await bob.open('/receivers/there.test')).text,
    /Too many recipients at the provider mark your email as spam\./,
  )
  // Complaints at a provider without an alarm are another cause.
  await outcomes({ delivered: 40, host: 'mx.elsewhere.test', from: 'bobs.test' })
  await store().write((tx) => countComplaint(tx, user_key, 'elsewhere.test', now()))
  assert.match((await findings()).toSorted().join(), /^complaint rate: .*,receiver: /)
})

test('/metrics has 50 receivers by name and the sum of the rest', async () => {
  await store().write((tx) => {
    tx.run(raw(`update receiver_alarms set status = 'closed', closed_at = ?`, [now()]))
    for (let n = 0; n < 60; n++)
      for (const user of n === 59 ? [postrider.user, postrider.other] : [postrider.user])
        tx.run(
          raw(
            `insert into receiver_alarms (id, user_key, receiver, kind, status, created_at, measured, threshold, volume, told_at, updated_at)
             values (?, ?, ?, 'refused', 'open', ?, 1, 0.1, 50, ?, ?)`,
            [`${user.key}-${n}`, user.key, `r${n}.test`, now(), now(), now()],
          ),
        )
  })
  const lines = await metrics()
  assert.equal(lines.length, 51)
  assert.equal(
    lines[0],
    'postrider_receiver_alarms{receiver="r59.test",kind="refused"} 2',
    'that of most accounts first',
  )
  assert.equal(lines.at(-1), 'postrider_receiver_alarms{receiver="other",kind="refused"} 10')
})

async function domainOf(name: string) {
  return store().first(
    raw<Awaited<ReturnType<typeof postrider.activeDomain>>>('select * from domains where name = ?', [name]),
  )
}
