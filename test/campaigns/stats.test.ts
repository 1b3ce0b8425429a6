// The event counts of a campaign are cached in memory and stay correct after any insert or delete.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { campaignCounts } from '../../src/campaigns/api.ts'
import { appendEvent } from '../../src/store/events.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { mailsOf } from '../mail/mails.ts'

/** Each test has a campaign of its own. */
let campaign = 0
let owner: number
let mails: number[]

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  owner = (await postrider.activeDomain('here.test')).user_key
  const { become, post } = mailsOf(() => postrider)
  const ids = [await post({ to: 'a@there.test' }), await post({ to: 'b@there.test' })]
  // Their own events come before those of the tests.
  for (const id of ids) await become(id, 'failed')
  mails = ids.map(
    (id) =>
      postrider.appliance.deps.store.first(raw<{ key: number }>('select key from outbound_emails where id = ?', [id]))!
        .key,
  )
})

const tell = (type: 'email.opened' | 'email.clicked' | 'email.unsubscribed', email: number, data = {}): Promise<void> =>
  postrider.appliance.deps.store.write((tx) =>
    appendEvent(tx, {
      type,
      user_key: owner,
      email_key: mails[email]!,
      campaign_key: campaign,
      data,
      at: postrider.clock.now(),
    }),
  )
const counts = (): number[] => {
  const { clicks, machine_opens, opens, unique_opens, unsubscribes } = campaignCounts(
    postrider.appliance.deps.store,
    campaign,
  )
  return [opens, unique_opens, machine_opens, clicks, unsubscribes]
}

beforeEach(() => void campaign++)

test('counts each event of a recipient at the next read, of any kind', async () => {
  assert.deepEqual(counts(), [0, 0, 0, 0, 0])
  await tell('email.opened', 0)
  assert.deepEqual(counts(), [1, 1, 0, 0, 0])
  await tell('email.opened', 0)
  await tell('email.opened', 1, { machine: true })
  assert.deepEqual(counts(), [2, 1, 1, 0, 0])
  await tell('email.clicked', 1)
  assert.deepEqual(counts(), [2, 1, 1, 1, 0])
  await tell('email.unsubscribed', 1)
  assert.deepEqual(counts(), [2, 1, 1, 1, 1])
})

test('notices that the newest event was deleted and its key reused', async () => {
  const { store } = postrider.appliance.deps
  await tell('email.opened', 0)
  await tell('email.unsubscribed', 1)
  assert.deepEqual(counts(), [1, 1, 0, 0, 1])
  await store.write((tx) => tx.run(raw('delete from events where key = (select max(key) from events)')))
  await tell('email.opened', 1)
  assert.deepEqual(counts(), [2, 2, 0, 0, 0])
})

test('a transaction counts its own writes, which a rollback discards', async () => {
  const { store } = postrider.appliance.deps
  await tell('email.opened', 1)
  const seen = counts()
  await assert.rejects(
    store.write((tx) => {
      appendEvent(tx, {
        type: 'email.opened',
        user_key: owner,
        email_key: mails[0]!,
        campaign_key: campaign,
        data: {},
        at: 0,
      })
      assert.equal(campaignCounts(tx, campaign).opens, seen[0]! + 1)
      throw new Error('undone')
    }),
    /undone/,
  )
  assert.deepEqual(counts(), seen)
})
