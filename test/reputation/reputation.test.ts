// Agents by the results of their email (D39): pools are promoted, demoted, damaged and recovered, domains warned, each
// at its threshold and notified once to a real webhook. The MX host sees the pace of a pool. Volume is stored through
// the function that settles use.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Domain } from '../../src/domains/find.ts'
import type { EventType } from '../../src/store/states/events.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import { tally } from '../../src/reputation/tally.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook, rest, type Hook } from '../webhooks/hooks.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

const exchanger = testExchanger({
  answer: (line) => (/^RCPT.*<gone/.test(line) ? '550 5.1.1 No such user' : undefined),
})
const receiver = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    receiver,
    // The commands have the real time.
    clock: new ManualClock(Date.now()),
    routes: ['there.test'],
  }),
)

const store = () => postrider.appliance.deps.store
const pool = (agent: string): string | undefined =>
  store().first<{ status: string }>(raw('select status from agents where agent_id = ?', [agent]))?.status

interface Outcomes {
  deliveries?: number
  bounces?: number
  complaints?: number
}

/** Stores results of email, in one commit. */
async function outcomes(
  domain: Domain,
  agent: string | null,
  { bounces = 0, complaints = 0, deliveries = 0 }: Outcomes,
) {
  await store().write((tx) => {
    const about = { user_key: domain.user_key, domain_key: domain.key, agent_id: agent, campaign_key: null }
    for (let n = 0; n < deliveries; n++) tally(tx, about, 'delivery', postrider.clock.now())
    for (let n = 0; n < bounces; n++) tally(tx, about, 'bounce', postrider.clock.now())
    for (let n = 0; n < complaints; n++) tally(tx, about, 'complaint', postrider.clock.now())
  })
}

/** Checks reputation twice, which shows moves that would be repeated. */
async function looks(): Promise<void> {
  for (let n = 0; n < 2; n++) {
    postrider.clock.leap(5 * MINUTE)
    await rest(postrider)
  }
}

async function becomes(agent: string, wanted: string): Promise<void> {
  for (let n = 0; n < 12 && pool(agent) !== wanted; n++) await looks()
  assert.equal(pool(agent), wanted)
  await looks()
  assert.equal(pool(agent), wanted, 'once, not twice')
}

async function stays(agent: string): Promise<void> {
  const before = pool(agent)
  await looks()
  assert.equal(pool(agent), before)
}

async function submit(domain: Domain, agent: string, to: string): Promise<string> {
  const { body, status } = await postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: `a@${domain.name}`,
      to,
      subject: 'Hello',
      html: '<p>Hello.</p>',
      agent_id: agent,
    }),
  )
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

const dueOf = (id: string): number =>
  store().first<{ at: number }>(
    raw(
      'select v.next_attempt_at as at from deliveries v join outbound_emails e on e.key = v.email_key where e.id = ?',
      [id],
    ),
  )!.at

// oxlint-disable-next-line typescript/no-explicit-any
const told = (hook: Hook, about: Record<string, unknown>): any[] =>
  hook
    .requests()
    .map(({ body }) => JSON.parse(body))
    .filter(({ data, type }) => {
      assert.equal(CATALOGUE[type as EventType].data.safeParse(data).error, undefined, type)
      return Object.entries(about).every(([name, value]) => data[name] === value)
    })

test('each threshold of the pools, and the pace of each pool', async () => {
  const [good, sloppy, bad] = [
    await postrider.activeDomain('good.test'),
    await postrider.activeDomain('sloppy.test'),
    await postrider.activeDomain('bad.test'),
  ]
  const events = ['agent.pool.promoted', 'agent.pool.demoted', 'agent.pool.recovered', 'agent.reputation.damaged']
  const hook = await makeHook(postrider, receiver, good, events)
  const warnings = await makeHook(postrider, receiver, bad, [
    'domain.reputation_warning',
    'domain.reputation_recovered',
  ])

  // Real mail, at two a second.
  const begun = exchanger.heard.length
  const first = [0, 1, 2].map((n) => `n${n}@there.test`)
  const ids: string[] = []
  for (const to of first) ids.push(await submit(good, 'good', to))
  const now = postrider.clock.now()
  assert.deepEqual(
    ids.slice(1).map((id) => dueOf(id) - now),
    [500, 1000],
  )
  await until(() => exchanger.heard.length === begun + 1)
  for (const count of [2, 3]) {
    postrider.clock.advance(499)
    await rest(postrider)
    assert.equal(exchanger.heard.length, begun + count - 1)
    postrider.clock.advance(1)
    await until(() => exchanger.heard.length === begun + count, `mail ${count}`)
  }
  await until(
    () =>
      store().first<{ n: number }>(raw(`select sum(deliveries) as n from tallies where agent_id = 'good'`))?.n === 3,
  )

  // A week passes between the steps. Good: 199 outcomes are too few, exactly 5 % does not demote, and exactly 2 % does
  // not promote.
  await outcomes(good, 'good', { deliveries: 196 })
  await stays('good')
  assert.equal(pool('good'), 'probation')
  await outcomes(good, 'good', { deliveries: 1 })
  await becomes('good', 'standard')
  postrider.clock.leap(8 * DAY)
  await outcomes(good, 'good', { deliveries: 196, bounces: 4 })
  await stays('good')
  await outcomes(good, 'good', { deliveries: 1 })
  await becomes('good', 'trusted')
  postrider.clock.leap(8 * DAY)
  await outcomes(good, 'good', { deliveries: 190, bounces: 10 })
  await stays('good')
  await outcomes(good, 'good', { bounces: 1 })
  await becomes('good', 'standard')
  postrider.clock.leap(8 * DAY)
  await outcomes(good, 'good', { deliveries: 200 })
  await becomes('good', 'trusted')

  // Sloppy: exactly 10 % demotes without damage. Complaints have their own thresholds.
  await submit(sloppy, 'sloppy', 'sloppy@there.test')
  await outcomes(sloppy, 'sloppy', { deliveries: 200 })
  await becomes('sloppy', 'standard')
  postrider.clock.leap(8 * DAY)
  await outcomes(sloppy, 'sloppy', { deliveries: 180, bounces: 20 })
  await becomes('sloppy', 'probation')
  postrider.clock.leap(8 * DAY)
  await outcomes(sloppy, 'sloppy', { deliveries: 1000, complaints: 1 })
  await stays('sloppy')
  await outcomes(sloppy, 'sloppy', { deliveries: 1 })
  await becomes('sloppy', 'standard')
  postrider.clock.leap(8 * DAY)
  await outcomes(sloppy, 'sloppy', { deliveries: 1000, complaints: 5 })
  await becomes('sloppy', 'probation')
  postrider.clock.leap(8 * DAY)
  await outcomes(sloppy, 'sloppy', { deliveries: 2000 })
  await becomes('sloppy', 'standard')
  postrider.clock.leap(8 * DAY)
  await outcomes(good, 'good', { deliveries: 179, bounces: 21 })
  await becomes('good', 'damaged')
  await outcomes(sloppy, 'sloppy', { deliveries: 200, complaints: 10 })
  await becomes('sloppy', 'damaged')

  // Bad: rejected by a real MX host.
  await outcomes(bad, 'bad', { deliveries: 179 })
  for (let n = 0; n < 21; n++) {
    const id = await submit(bad, 'bad', `gone${n}@there.test`)
    postrider.clock.advance(500)
    await until(
      async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'bounced',
      `refusal ${n}`,
    )
  }
  await becomes('bad', 'damaged')

  // One a minute.
  const slow = [await submit(bad, 'bad', 's0@there.test'), await submit(bad, 'bad', 's1@there.test')]
  assert.equal(dueOf(slow[1]!) - postrider.clock.now(), MINUTE)
  const arrived = (to: string): boolean => exchanger.heard.some((heard) => heard.to[0] === to)
  await until(() => arrived('s0@there.test'))
  postrider.clock.leap(MINUTE - 1)
  await rest(postrider)
  assert.equal(arrived('s1@there.test'), false)
  postrider.clock.advance(1)
  await until(() => arrived('s1@there.test'))

  const shown = await postrider.commands.json<{ agent_id: string; pool: string; pace: string }[]>('agent', 'list')
  assert.deepEqual(
    shown.map(({ agent_id, pace, pool: in_ }) => [agent_id, in_, pace]),
    ['good', 'sloppy', 'bad'].map((agent) => [agent, 'damaged', '1 per minute']),
  )
  const domains = async () =>
    Object.fromEntries(
      (await postrider.commands.json<{ name: string; reputation: string }[]>('domain', 'list')).map((row) => [
        row.name,
        row.reputation,
      ]),
    )
  assert.equal((await domains())['bad.test'], 'warned')

  // A week later its results do not count.
  postrider.clock.leap(8 * DAY)
  for (const agent of ['good', 'sloppy', 'bad']) await becomes(agent, 'probation')
  await warnings.arrived(2)
  await hook.arrived(15)
  await rest(postrider)
  assert.equal((await domains())['bad.test'], 'good')

  const course = (agent: string): string[] =>
    told(hook, { agent_id: agent })
      .toSorted((one, other) => (one.timestamp < other.timestamp ? -1 : 1))
      .map(({ data, type }) => `${type} ${data.previous_pool} ${data.pool}`)
  assert.deepEqual(course('good'), [
    'agent.pool.promoted probation standard',
    'agent.pool.promoted standard trusted',
    'agent.pool.demoted trusted standard',
    'agent.pool.promoted standard trusted',
    'agent.reputation.damaged trusted damaged',
    'agent.pool.recovered damaged probation',
  ])
  assert.deepEqual(course('sloppy'), [
    'agent.pool.promoted probation standard',
    'agent.pool.demoted standard probation',
    'agent.pool.promoted probation standard',
    'agent.pool.demoted standard probation',
    'agent.pool.promoted probation standard',
    'agent.reputation.damaged standard damaged',
    'agent.pool.recovered damaged probation',
  ])
  assert.deepEqual(course('bad'), [
    'agent.reputation.damaged probation damaged',
    'agent.pool.recovered damaged probation',
  ])
  const [damaged] = told(hook, { agent_id: 'bad', pool: 'damaged' })
  assert.partialDeepStrictEqual(damaged.data, { deliveries: 179, bounces: 21, complaints: 0 })
  const [warned, recovered] = told(warnings, { name: 'bad.test' })
  assert.partialDeepStrictEqual(
    [warned, recovered],
    [
      { type: 'domain.reputation_warning', data: { domain_id: bad.id, status: 'active' } },
      { type: 'domain.reputation_recovered', data: { domain_id: bad.id, status: 'active' } },
    ],
  )
})

test('a retry takes a turn of its agent’s pace, and queued email is spread when the pool falls', async () => {
  const domain = await postrider.activeDomain('retry.test')
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const ids = []
  for (let n = 0; n < 4; n++) ids.push(await submit(domain, 'retrier', `r${n}@there.test`))
  const deferred = raw<{ n: number }>(
    `select count(*) as n from deliveries where address like 'r_@there.test' and attempts = 1 and status = 'queued'`,
  )
  await until(() => {
    postrider.clock.advance(500)
    return store().first(deferred)!.n === 4
  }, 'four deferrals')
  await outcomes(domain, 'retrier', { bounces: 200 })
  await becomes('retrier', 'damaged')
  const due = ids.map(dueOf).toSorted((a, b) => a - b)
  assert.ok(
    due.every((at) => at > postrider.clock.now()),
    'all wait',
  )
  for (const [index, at] of due.entries()) if (index > 0) assert.ok(at - due[index - 1]! >= MINUTE, String(due))
  exchanger.script = {}
})

/** The results of an agent's email on the days of a month: the number of days, and the results of each. */
type Course = [days: number, each: Outcomes][]

test('a month of three agents: one good, one sloppy, one bad', async () => {
  const names = ['steady', 'careless', 'reckless'] as const
  // One accident, with a list of long ago.
  const good: Course = [
    [19, { deliveries: 99, bounces: 1 }],
    [1, { deliveries: 20, bounces: 180 }],
    [10, { deliveries: 99, bounces: 1 }],
  ]
  // Lists of its own, then a bought one, then its own again, then a mailing that annoys.
  const sloppy: Course = [
    [8, { deliveries: 98, bounces: 1 }],
    [8, { deliveries: 93, bounces: 7 }],
    [7, { deliveries: 99, bounces: 1 }],
    [2, { deliveries: 300, complaints: 3 }],
    [5, { deliveries: 100 }],
  ]
  // A list that is mostly gone, silence, one that complains, silence.
  const bad: Course = [
    [3, { deliveries: 80, bounces: 20 }],
    [12, {}],
    [2, { deliveries: 200, complaints: 2 }],
    [13, {}],
  ]
  const days = [good, sloppy, bad].map((course) => course.flatMap(([count, each]) => Array<Outcomes>(count).fill(each)))
  assert.deepEqual(
    days.map(({ length }) => length),
    [30, 30, 30],
  )
  const domains: Domain[] = []
  for (const name of names) domains.push(await postrider.activeDomain(`${name}.test`))
  const hook = await makeHook(postrider, receiver, domains[0]!, [
    'agent.pool.promoted',
    'agent.pool.demoted',
    'agent.pool.recovered',
    'agent.reputation.damaged',
    'domain.reputation_warning',
    'domain.reputation_recovered',
  ])
  for (const [index, name] of names.entries()) await submit(domains[index]!, name, `${name}@there.test`)
  await until(
    () => names.every((name) => exchanger.heard.some(({ to }) => to[0] === `${name}@there.test`)),
    'first mails',
  )
  const begun = postrider.clock.now()
  for (let day = 0; day < 30; day++) {
    postrider.clock.leap(begun + day * DAY - postrider.clock.now() + 12 * 60 * MINUTE)
    for (const [index, name] of names.entries()) await outcomes(domains[index]!, name, days[index]![day]!)
    await looks()
  }
  await hook.arrived(18)
  await rest(postrider)
  const dayOf = (at: string): number => Math.floor((Date.parse(at) - begun) / DAY) + 1
  const walk = (agent: string): string[] =>
    told(hook, { agent_id: agent })
      .toSorted((one, other) => (one.timestamp < other.timestamp ? -1 : 1))
      .map(({ data, timestamp, type }) => {
        const { bounces, complaints, deliveries, pool: now, previous_pool } = data
        return `${dayOf(timestamp)} ${type} ${previous_pool} ${now} ${deliveries}/${bounces}/${complaints}`
      })
  assert.deepEqual(walk('steady'), [
    '2 agent.pool.promoted probation standard 199/2/0',
    '4 agent.pool.promoted standard trusted 397/4/0',
    '20 agent.reputation.damaged trusted damaged 614/186/0',
    '27 agent.pool.recovered damaged probation 594/6/0',
    '29 agent.pool.promoted probation standard 693/7/0',
  ])
  assert.deepEqual(walk('careless'), [
    '3 agent.pool.promoted probation standard 295/3/0',
    '6 agent.pool.promoted standard trusted 589/6/0',
    '13 agent.pool.demoted trusted standard 568/30/0',
    '13 agent.pool.demoted standard probation 661/37/0',
    '22 agent.pool.promoted probation standard 687/13/0',
    '24 agent.pool.demoted standard probation 894/6/3',
    '25 agent.reputation.damaged probation damaged 1095/5/6',
  ])
  assert.deepEqual(walk('reckless'), [
    '2 agent.reputation.damaged probation damaged 161/40/0',
    '10 agent.pool.recovered damaged probation 0/0/0',
    '16 agent.reputation.damaged probation damaged 200/0/2',
    '24 agent.pool.recovered damaged probation 0/0/0',
  ])
  assert.deepEqual(
    told(hook, { name: 'steady.test' }).map(({ timestamp, type }) => `${dayOf(timestamp)} ${type}`),
    ['20 domain.reputation_warning', '27 domain.reputation_recovered'],
  )
})

test('keeps the figures of the week after a pool change, so that bounces over seven days count in any distribution', async () => {
  const domain = await postrider.activeDomain('week.test')
  await submit(domain, 'spread', 'spread@there.test')
  await outcomes(domain, 'spread', { deliveries: 199 })
  await becomes('spread', 'standard')
  postrider.clock.leap(DAY)
  // 14 of 220 are more than 5 %: a step down. With 10 more it is above 10 %: outcomes before the step still count.
  await outcomes(domain, 'spread', { deliveries: 6, bounces: 14 })
  await becomes('spread', 'probation')
  postrider.clock.leap(DAY)
  await outcomes(domain, 'spread', { bounces: 10 })
  await becomes('spread', 'damaged')
})

test('warns a domain above 5 % of at least 200 emails, and ends the warning below 2 %', async () => {
  const domain = await postrider.activeDomain('plain.test')
  const hook = await makeHook(postrider, receiver, domain, ['domain.reputation_warning', 'domain.reputation_recovered'])
  await outcomes(domain, null, { deliveries: 189, bounces: 10 })
  await looks()
  await outcomes(domain, null, { deliveries: 1 })
  await looks()
  assert.equal(hook.requests().length, 0)
  await outcomes(domain, null, { bounces: 2 })
  await looks()
  await hook.arrived(1)
  // Exactly 2 % is not below it.
  await outcomes(domain, null, { deliveries: 398 })
  await looks()
  assert.equal(hook.requests().length, 1)
  await outcomes(domain, null, { deliveries: 1 })
  await looks()
  await hook.arrived(2)
  assert.deepEqual(
    told(hook, { name: 'plain.test' }).map(({ data, type }) => [type, data.deliveries, data.bounces]),
    [
      ['domain.reputation_warning', 190, 12],
      ['domain.reputation_recovered', 589, 12],
    ],
  )
})
