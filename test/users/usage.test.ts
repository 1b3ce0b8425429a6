// Tests plans (D16): recipients per month with events at 80% and 100%, rejection without an active subscription, a
// downgrade at its date, and campaigns that fall due without either.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { changeSubscription, type SubscriptionChange, monthOf, usageOf } from '../../src/users/plan.ts'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/find.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { HOST, startTestReceiver, type TestReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook, rest, type Hook } from '../webhooks/hooks.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR

const PLANS = {
  growth: { included_volume: 1000, branded_tracking: true },
  starter: { included_volume: 10, branded_tracking: false },
}

interface Office {
  postrider: TestAppliance
  exchanger: TestExchanger
  receiver: TestReceiver
  domain: Domain
  hook: Hook
  change: (change: SubscriptionChange) => Promise<unknown>
  close: () => Promise<void>
}

/** An appliance of its own, so that tests do not share a volume. */
async function office(now = Date.UTC(2026, 0, 15, 12)): Promise<Office> {
  const exchanger = await startTestExchanger()
  const receiver = await startTestReceiver()
  const postrider = await startTestAppliance({
    clock: new ManualClock(now),
    config: { delivery: { port: exchanger.port }, webhooks: { ca_file: receiver.caFile }, plans: PLANS },
  })
  postrider.dns.set(HOST, 'A', ['127.0.0.1'])
  postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  const domain = await postrider.activeDomain('here.test')
  const types = ['usage.limit_approaching', 'usage.limit_reached', 'campaign.failed']
  const states = ['subscription.past_due', 'subscription.revoked', 'subscription.downgrade_scheduled']
  return {
    postrider,
    exchanger,
    receiver,
    domain,
    hook: await makeHook(postrider, receiver, domain, [...types, ...states]),
    change: (change) => changeSubscription(postrider.appliance.deps, 'ann@owner.test', change),
    async close() {
      await postrider.stop()
      await exchanger.close()
      await receiver.close()
    },
  }
}

const people = (count: number, name = 'n'): string[] =>
  Array.from({ length: count }, (_, n) => `${name}${n}@there.test`)
const send = ({ postrider }: Office, attributes: Record<string, unknown> = {}): Promise<Answer> =>
  postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: 'a@here.test',
      to: 'n@there.test',
      subject: 'S',
      html: '<p>H</p>',
      ...attributes,
    }),
  )
const used = ({ postrider }: Office): number =>
  usageOf(postrider.appliance.deps.store, postrider.user.key, monthOf(postrider.clock.now()))?.used ?? 0
// oxlint-disable-next-line typescript/no-explicit-any
const eventsOf = ({ hook }: Office): any[] => hook.requests().map(({ body }) => JSON.parse(body))
const refused = ({ body, status }: Answer): [number, string] => [status, body.errors[0].code]

test('counts recipients per month, sends one event at 80% and at 100%, and then rejects email', async (t) => {
  // Two minutes before the new month.
  const here = await office(Date.UTC(2026, 0, 31, 23, 58))
  t.after(here.close)
  await here.change({ plan: 'starter' })
  const [one, two, three] = [people(1), people(2, 'c'), people(4, 'b')]
  assert.equal((await send(here, { to: one![0], cc: two, bcc: three })).status, 201)
  assert.equal(used(here), 7)
  await rest(here.postrider)
  assert.deepEqual(eventsOf(here), [])
  assert.equal((await send(here, { idempotency_key: 'k' })).status, 201)
  assert.ok((await send(here, { idempotency_key: 'k' })).status < 300)
  assert.equal(used(here), 8)
  await here.hook.arrived(1)
  assert.deepEqual(refused(await send(here, { cc: people(2) })), [422, 'volume_exceeded'])
  assert.equal(used(here), 8)
  for (let n = 0; n < 2; n++) assert.equal((await send(here)).status, 201)
  await here.hook.arrived(2)
  for (let n = 0; n < 2; n++) assert.deepEqual(refused(await send(here)), [422, 'volume_exceeded'])
  await rest(here.postrider)
  const data = { plan: 'starter', included_volume: 10, month: '2026-01' }
  assert.deepEqual(
    eventsOf(here).map((event) => [event.type, event.data]),
    [
      ['usage.limit_approaching', { ...data, used: 8 }],
      ['usage.limit_reached', { ...data, used: 10 }],
    ],
  )
  here.postrider.clock.leap(2 * 60_000)
  assert.equal(used(here), 0)
  assert.equal((await send(here, { cc: people(9, 'd') })).status, 201)
  await here.hook.arrived(4)
  assert.deepEqual(
    eventsOf(here)
      .slice(2)
      .map((event) => `${event.type} ${event.data.month}`)
      .toSorted(),
    ['usage.limit_approaching 2026-02', 'usage.limit_reached 2026-02'],
  )
})

test('rejects email without an active subscription, and sends one event per change', async (t) => {
  const here = await office()
  t.after(here.close)
  for (const state of ['past_due', 'past_due', 'revoked', 'revoked'] as const) {
    await here.change({ state })
    assert.deepEqual(refused(await send(here)), [403, 'subscription_inactive'])
  }
  assert.equal(used(here), 0)
  await here.change({ state: 'active' })
  assert.equal((await send(here)).status, 201)
  await here.hook.arrived(2)
  await rest(here.postrider)
  assert.deepEqual(
    eventsOf(here).map((event) => [event.type, event.data]),
    [
      ['subscription.past_due', { plan: 'unlimited', state: 'past_due', previous_state: 'active' }],
      ['subscription.revoked', { plan: 'unlimited', state: 'revoked', previous_state: 'past_due' }],
    ],
  )
})

test('a downgrade applies from its date, and branded tracking requires the plan', async (t) => {
  const here = await office()
  t.after(here.close)
  const { clock } = here.postrider
  const at = clock.now() + DAY
  await here.change({ plan: 'growth' })
  for (let n = 0; n < 2; n++) await here.change({ downgrade: { to: 'starter', at } })
  await assert.rejects(here.change({ downgrade: { to: 'starter', at: clock.now() } }), /future/)
  const brand = (mode: string): Promise<Answer> =>
    here.postrider.api(
      'PATCH',
      `/domains/${here.domain.id}`,
      document('domains', { tracking_redirect_mode: mode }, { id: here.domain.id }),
    )
  assert.equal((await brand('branded')).status, 200)
  assert.equal((await brand('shared')).status, 200)
  clock.leap(DAY - 1)
  assert.equal((await send(here, { cc: people(10) })).status, 201)
  clock.leap(1)
  assert.deepEqual(refused(await send(here)), [422, 'volume_exceeded'])
  assert.deepEqual(refused(await brand('branded')), [422, 'plan_required'])
  await here.hook.arrived(1)
  await rest(here.postrider)
  assert.deepEqual(
    eventsOf(here).map(({ data, type }) => [type, data]),
    [['subscription.downgrade_scheduled', { plan: 'growth', downgrade_to: 'starter', at: new Date(at).toISOString() }]],
  )
})

for (const [why, change, reason] of [
  ['the subscription is revoked', { state: 'revoked' }, /active subscription/],
  ['the subscription is past due', { state: 'past_due' }, /active subscription/],
  ['the volume has no room', { plan: 'starter' }, /includes 10 recipients per month\. 0 are used.*11 more/],
] as [string, SubscriptionChange, RegExp][])
  test(`a scheduled campaign fails and sends no email if ${why}`, async (t) => {
    const here = await office()
    t.after(here.close)
    const kit = campaignKit(() => here.postrider)
    const audience = await kit.audience(here.domain)
    await kit.fill(audience, people(11))
    const campaign = await kit.draft(audience)
    const at = new Date(here.postrider.clock.now() + HOUR).toISOString()
    assert.equal((await kit.patch(campaign, { scheduled_at: at, status: 'scheduled' })).status, 200)
    await here.change(change)
    here.postrider.clock.leap(HOUR)
    await until(async () => (await kit.show(campaign))['status'] === 'failed', 'failed')
    assert.match((await kit.show(campaign))['failure'], reason)
    assert.equal(used(here), 0)
    await until(() => eventsOf(here).some(({ type }) => type === 'campaign.failed'))
    await rest(here.postrider)
    assert.deepEqual(here.exchanger.heard, [])
    const [failed] = eventsOf(here).filter(({ type }) => type === 'campaign.failed')
    assert.match(failed.data.failure, reason)
  })

test('a campaign counts its recipients, a test email counts as one', async (t) => {
  const here = await office()
  t.after(here.close)
  const kit = campaignKit(() => here.postrider)
  await here.change({ plan: 'starter' })
  const audience = await kit.audience(here.domain)
  await kit.fill(audience, people(5))
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  assert.equal(used(here), 5)
  const attributes = { test_mode: true, test_recipient_email: 'tester@there.test' }
  assert.equal(await kit.send(await kit.draft(audience, attributes)), 'sent')
  assert.equal(used(here), 6)
  assert.equal(await kit.send(await kit.draft(audience)), 'failed')
  assert.equal(used(here), 6)
})

test('a second downgrade starts from the plan of the first', async (t) => {
  // The date is after the server's clock, and before that of the command, which is the machine's.
  const here = await office(Date.now() - DAY)
  const commands = Commands.beside(
    here.postrider,
    '[plans.growth]\nincluded_volume = 1000\n[plans.starter]\nincluded_volume = 10\n',
  )
  t.after(async () => {
    await commands.close()
    await here.close()
  })
  await here.change({ plan: 'growth', downgrade: { to: 'starter', at: Date.now() - HOUR } })
  const set = await commands.json(
    'subscription',
    'set',
    'ann@owner.test',
    '--downgrade-to',
    'growth',
    '--at',
    '2099-01-01',
  )
  assert.deepEqual([set.plan, set.downgrade_to], ['starter', 'growth'])
})

test('`postrider subscription set` applies to the running server', async (t) => {
  const here = await office(Date.now())
  const commands = Commands.beside(here.postrider, '[plans.starter]\nincluded_volume = 10\n')
  t.after(async () => {
    await commands.close()
    await here.close()
  })
  const set = ['subscription', 'set', 'ann@owner.test']
  assert.partialDeepStrictEqual(await commands.json(...set, '--state', 'past_due'), { state: 'past_due' })
  assert.deepEqual(refused(await send(here)), [403, 'subscription_inactive'])
  assert.partialDeepStrictEqual(await commands.json(...set, '--state', 'active', '--plan', 'starter'), {
    state: 'active',
    plan: 'starter',
  })
  assert.equal((await send(here, { cc: people(3) })).status, 201)
  assert.deepEqual(refused(await send(here, { cc: people(6) })), [422, 'volume_exceeded'])
  const shown = await commands.json(...set, '--downgrade-to', 'unlimited', '--at', '2099-02-01')
  assert.partialDeepStrictEqual(shown, { downgrade_to: 'unlimited', downgrade_at: '2099-02-01T00:00:00.000Z' })
  assert.equal(shown.used_this_month, 4)
  assert.match(await commands.fails(...set, '--plan', 'golden'), /golden/)
  assert.match(await commands.fails(...set, '--downgrade-to', 'starter'), /--at/)
  assert.match(await commands.fails(...set, '--downgrade-to', 'starter', '--at', '2020-01-01'), /past/)
  assert.match(await commands.misused(...set, '--state', 'gone'), /gone/)
})

test('a sending campaign pauses without a subscription and resumes with one', async (t) => {
  const here = await office()
  t.after(here.close)
  const kit = campaignKit(() => here.postrider)
  const audience = await kit.audience(here.domain)
  await kit.fill(audience, people(5))
  here.exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  const { bells, store } = here.postrider.appliance.deps
  const deferred = raw<{ n: number }>(`select count(*) as n from deliveries where attempts = 1 and status = 'queued'`)
  await until(() => store.first(deferred)?.n === 5, 'five deferrals')
  await here.change({ state: 'past_due' })
  // The server is notified in this way after a command has written.
  bells.campaigns()
  await until(async () => (await kit.show(campaign))['status'] === 'paused', 'the pause')
  assert.match((await kit.show(campaign))['failure'], /requires an active subscription/)
  here.exchanger.script = {}
  here.postrider.clock.leap(HOUR)
  await rest(here.postrider)
  assert.equal(here.exchanger.heard.length, 0)
  assert.deepEqual(refused(await kit.patch(campaign, { status: 'sending' })), [403, 'subscription_inactive'])
  await here.change({ state: 'active' })
  assert.equal((await kit.patch(campaign, { status: 'sending' })).status, 200)
  await until(async () => (await kit.show(campaign))['status'] === 'sent', 'the end')
  assert.equal(here.exchanger.heard.length, 5)
  assert.equal((await kit.show(campaign))['failure'], null)
})
