// Tests subscriptions (D16): each change sends one event, and a downgrade applies from its date.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { planOf, applyDowngrades, changeSubscription } from '../../src/users/plan.ts'
import { DAY } from '../../src/base/clock.ts'
import { leaveBranded } from '../../src/domains/lifecycle.ts'
import { db, raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'

const EMAIL = 'ann@owner.test'

const postrider = ofFile(() =>
  startTestAppliance({
    config: {
      plans: {
        starter: { included_volume: 10, branded_tracking: false },
        growth: { included_volume: 100, branded_tracking: true },
      },
    },
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))

const change = async (what: Parameters<typeof changeSubscription>[2], email = EMAIL) =>
  changeSubscription(postrider.appliance.deps, email, what)
const eventTypes = (): string[] =>
  postrider.appliance.deps.store
    .all(raw<{ type: string }>(`select type from events where type like 'subscription.%' order by key`))
    .map(({ type }) => type)
const brand = () =>
  postrider.api(
    'PATCH',
    `/domains/${domain.id}`,
    document('domains', { tracking_redirect_mode: 'branded' }, { id: domain.id }),
  )

test('sends one event per state change, and no event for active', async () => {
  for (const state of ['past_due', 'past_due', 'revoked', 'revoked', 'active', 'active'] as const)
    await change({ state })
  assert.deepEqual(eventTypes(), ['subscription.past_due', 'subscription.revoked'])
})

test('rejects an unknown plan, an unknown user and a past date before any change', async () => {
  await assert.rejects(change({ plan: 'gold' }), /no plan "gold"; use one of unlimited, starter, growth/)
  const at = postrider.clock.now() + DAY
  await assert.rejects(change({ downgrade: { to: 'gold', at } }), /no plan "gold"/)
  await assert.rejects(
    change({ downgrade: { to: 'starter', at: postrider.clock.now() } }),
    /is in the past; use a future date/,
  )
  await assert.rejects(change({ plan: 'growth' }, 'no@body.test'), /no@body/)
  const user = await change({})
  assert.deepEqual([user.plan, user.downgrade_to, user.subscription_state], ['unlimited', null, 'active'])
})

test('a downgrade sends one event, applies from its date, and ends branded tracking', async () => {
  const { deps } = postrider.appliance
  await change({ plan: 'growth' })
  assert.equal((await brand()).status, 200)
  const at = postrider.clock.now() + DAY
  await change({ downgrade: { to: 'starter', at } })
  await change({ downgrade: { to: 'starter', at } })
  assert.equal(eventTypes().filter((type) => type === 'subscription.downgrade_scheduled').length, 1)
  const user = await change({})
  assert.equal(planOf(deps.config, user, at - 1).included_volume, 100)
  assert.equal(planOf(deps.config, user, at).included_volume, 10)
  assert.deepEqual(await deps.store.write((tx) => applyDowngrades(tx, at - 1)), [])

  postrider.clock.leap(DAY)
  const refused = await brand()
  assert.equal(refused.status, 422, 'from its date, whoever wrote it down')
  assert.equal(refused.body.errors[0].code, 'plan_required')
  await deps.store.write((tx) => {
    for (const each of applyDowngrades(tx, at)) leaveBranded(tx, deps.config, each, at)
  })
  assert.deepEqual(await deps.store.write((tx) => applyDowngrades(tx, at)), [], 'once')
  const row = deps.store.first(db.selectFrom('domains').select('tracking_redirect_mode').where('id', '=', domain.id))
  assert.equal(row!.tracking_redirect_mode, 'shared')
  const after = await change({})
  assert.deepEqual([after.plan, after.downgrade_to, after.downgrade_at], ['starter', null, null])
})

test('another plan cancels the downgrade, and a plan missing in the configuration allows no email', async () => {
  await change({ downgrade: { to: 'starter', at: postrider.clock.now() + DAY } })
  assert.equal((await change({ plan: 'unlimited' })).downgrade_at, null)
  assert.deepEqual(planOf(postrider.config, { plan: 'lost' }, 0), { included_volume: 0, branded_tracking: false })
})
