// A simulated month of agents (D39): pools are promoted, demoted, damaged and recovered, domains warned, each at its bound and told once to
// a real webhook; the pace of a pool is what the exchanger sees. Volume is put in through the function that settles use.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import type { Domain } from '../../src/domains/register.ts'
import { tally } from '../../src/outbound/tally.ts'
import { raw } from '../../src/store/query.ts'
import { Commands } from '../cli/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { HOST, startTestReceiver, type TestReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook, rest, type Hook } from '../webhooks/hooks.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

let exchanger: TestExchanger
let receiver: TestReceiver
let postrider: TestAppliance
let commands: Commands
const folder = mkdtempSync(join(tmpdir(), 'postrider-reputation-'))

before(async () => {
  exchanger = await startTestExchanger({
    answer: (line) => (/^RCPT.*<gone/.test(line) ? '550 5.1.1 No such user' : undefined),
  })
  receiver = await startTestReceiver()
  postrider = await startTestAppliance({
    // The commands have the real time.
    clock: new ManualClock(Date.now()),
    config: { delivery: { port: exchanger.port }, webhooks: { ca_file: receiver.caFile } },
  })
  postrider.dns.set(HOST, 'A', ['127.0.0.1'])
  postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  const config = join(folder, 'here.toml')
  writeFileSync(config, `hostname = "mx.postrider.test"\ndata_dir = ${JSON.stringify(postrider.dataDir)}\n`)
  commands = new Commands(folder, ['--config', config])
})
after(async () => {
  await commands.close()
  await exchanger.close()
  await receiver.close()
  await postrider.stop()
  rmSync(folder, { recursive: true })
})

const store = () => postrider.appliance.desk.store
const pool = (agent: string): string | undefined =>
  store().first<{ status: string }>(raw('select status from agents where agent_id = ?', [agent]))?.status

interface Fates {
  deliveries?: number
  bounces?: number
  complaints?: number
}

/** What became of mail, in one commit. */
async function fates(domain: Domain, agent: string | null, { bounces = 0, complaints = 0, deliveries = 0 }: Fates) {
  await store().write((tx) => {
    const about = { user_key: domain.user_key, domain_key: domain.key, agent_id: agent }
    for (let n = 0; n < deliveries; n++) tally(tx, about, 'delivery', postrider.clock.now())
    for (let n = 0; n < bounces; n++) tally(tx, about, 'bounce', postrider.clock.now())
    for (let n = 0; n < complaints; n++) tally(tx, about, 'complaint', postrider.clock.now())
  })
}

/** Two of the times at which reputation is looked at: what would move twice is seen to. */
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
    .filter(({ data }) => Object.entries(about).every(([name, value]) => data[name] === value))

test('the pools of three agents through a month', async () => {
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

  // Good: 199 outcomes are too few; exactly 5 % is no demotion, exactly 2 % no promotion.
  await fates(good, 'good', { deliveries: 196 })
  await stays('good')
  assert.equal(pool('good'), 'probation')
  await fates(good, 'good', { deliveries: 1 })
  await becomes('good', 'standard')
  postrider.clock.leap(DAY)
  await fates(good, 'good', { deliveries: 196, bounces: 4 })
  await stays('good')
  await fates(good, 'good', { deliveries: 1 })
  await becomes('good', 'trusted')
  postrider.clock.leap(DAY)
  await fates(good, 'good', { deliveries: 190, bounces: 10 })
  await stays('good')
  await fates(good, 'good', { bounces: 1 })
  await becomes('good', 'standard')
  await fates(good, 'good', { deliveries: 200 })
  await becomes('good', 'trusted')
  await fates(good, 'good', { deliveries: 179, bounces: 21 })
  await becomes('good', 'damaged')

  // Sloppy: exactly 10 % demotes and damages nothing; complaints weigh by their own bounds.
  await submit(sloppy, 'sloppy', 'sloppy@there.test')
  await fates(sloppy, 'sloppy', { deliveries: 200 })
  await becomes('sloppy', 'standard')
  await fates(sloppy, 'sloppy', { deliveries: 180, bounces: 20 })
  await becomes('sloppy', 'probation')
  await fates(sloppy, 'sloppy', { deliveries: 1000, complaints: 1 })
  await stays('sloppy')
  await fates(sloppy, 'sloppy', { deliveries: 1 })
  await becomes('sloppy', 'standard')
  await fates(sloppy, 'sloppy', { deliveries: 1000, complaints: 5 })
  await becomes('sloppy', 'probation')
  await fates(sloppy, 'sloppy', { deliveries: 2000 })
  await becomes('sloppy', 'standard')
  await fates(sloppy, 'sloppy', { deliveries: 200, complaints: 10 })
  await becomes('sloppy', 'damaged')

  // Bad: refused by a real exchanger.
  await fates(bad, 'bad', { deliveries: 179 })
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
  postrider.clock.advance(MINUTE - 1)
  await rest(postrider)
  assert.equal(arrived('s1@there.test'), false)
  postrider.clock.advance(1)
  await until(() => arrived('s1@there.test'))

  const shown = await commands.json<{ agent_id: string; pool: string; pace: string }[]>('agent', 'list')
  assert.deepEqual(
    shown.map(({ agent_id, pace, pool: in_ }) => [agent_id, in_, pace]),
    ['good', 'sloppy', 'bad'].map((agent) => [agent, 'damaged', 'one a minute']),
  )
  const domains = async () =>
    Object.fromEntries(
      (await commands.json<{ name: string; reputation: string }[]>('domain', 'list')).map((row) => [
        row.name,
        row.reputation,
      ]),
    )
  assert.equal((await domains())['bad.test'], 'warned')

  // A week later nothing of it counts.
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

test('a domain is warned above 5 % of at least 200, and back at 2 %', async () => {
  const domain = await postrider.activeDomain('plain.test')
  const hook = await makeHook(postrider, receiver, domain, ['domain.reputation_warning', 'domain.reputation_recovered'])
  await fates(domain, null, { deliveries: 189, bounces: 10 })
  await looks()
  await fates(domain, null, { deliveries: 1 })
  await looks()
  assert.equal(hook.requests().length, 0)
  await fates(domain, null, { bounces: 1 })
  await looks()
  await hook.arrived(1)
  await fates(domain, null, { deliveries: 348 })
  await looks()
  assert.equal(hook.requests().length, 1)
  await fates(domain, null, { deliveries: 2 })
  await looks()
  await hook.arrived(2)
  assert.deepEqual(
    told(hook, { name: 'plain.test' }).map(({ data, type }) => [type, data.deliveries, data.bounces]),
    [
      ['domain.reputation_warning', 190, 11],
      ['domain.reputation_recovered', 540, 11],
    ],
  )
})
