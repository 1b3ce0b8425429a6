// The queue's page: mail that a paused campaign holds.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

test('mail that a paused campaign holds says so, and is not released but by its campaign', async (t) => {
  const postrider = await startTestAppliance()
  t.after(() => postrider.stop())
  const domain = await postrider.activeDomain('here.test')
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['reader@held.test'])
  const campaign = await kit.draft(audience)
  const { store } = postrider.appliance.deps
  const count = (status: string): number =>
    store.first(
      raw<{ n: number }>(`select count(*) as n from deliveries where lane = '~held.test' and status = ?`, [status]),
    )!.n
  // Nothing is tried until the operator releases the lane, so that the mail waits.
  assert.equal((await postrider.api('POST', '/lanes/held.test/hold')).status, 202)
  assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
  await until(() => count('queued') + count('held') === 1, 'the mail')
  assert.equal((await kit.patch(campaign, { status: 'paused' })).status, 200)
  await until(() => count('held') === 1, 'the mail that is held')
  await store.write((tx) => tx.run(raw(`delete from lane_holds`, [])))
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  const { text } = await ann.open('/queue')
  assert.match(text, new RegExp(`held by the campaign\\s+<a href="/campaigns/${campaign}">Spring</a>\\s+\\(paused\\)`))
  assert.doesNotMatch(text, />Release</)
})
