// The recipients of a campaign: the number before the start equals the number sent, for every reason to exclude
// contacts (D144).
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { nextContacts } from '../../src/campaigns/walk.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const MINUTE = 60_000
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const store = () => postrider.appliance.deps.store

beforeEach(() => void (exchanger.heard.length = 0))

// oxlint-disable-next-line typescript/no-explicit-any
const attributes = async (path: string): Promise<any> => (await postrider.api('GET', path)).body.data.attributes
const stop = (name: string, rest: Pick<Parameters<typeof suppress>[1], 'reason' | 'scope' | 'expires_at'>) =>
  store().write((tx) =>
    suppress(
      tx,
      {
        user_key: domain.user_key,
        domain_key: domain.key,
        address: `${name}@there.test`,
        source: 'manual',
        strikes: 0,
        ...rest,
      },
      postrider.clock.now(),
    ),
  )

test('the number before the start equals the emails sent, despite suppressions, unsubscribes, duplicates and erased addresses', async () => {
  const list = await kit.audience(domain)
  const names = ['ann', 'ben', 'left', 'hard', 'angry', 'manual', 'quiet', 'listed', 'soft', 'over', 'erased']
  // An erased contact that was added again: the suppression contains a hash.
  await stop('erased', { reason: 'manual', scope: 'all' })
  assert.equal((await postrider.api('DELETE', '/recipients/erased%40there.test/forget')).status, 202)
  const hashed = `select 1 from suppressions where email like '#%'`
  await until(() => store().first(raw(hashed)) !== undefined, 'the hash')
  const { created, skipped } = await kit.fill(list, [
    ...names.map((name) => `${name}@there.test`),
    'Ann@There.test ',
    'ann@there.test',
    'no address',
    'two@@there.test',
  ])
  assert.deepEqual([created, skipped], [names.length, 4])
  const [left] = (await postrider.api('GET', `/audiences/${list}/contacts?filter[email]=left@there.test`)).body.data
  const change = { data: { type: 'contacts', id: left.id, attributes: { status: 'unsubscribed' } } }
  assert.equal((await postrider.api('PATCH', `/contacts/${left.id}`, change)).status, 200)
  await stop('hard', { reason: 'hard_bounce', scope: 'all' })
  await stop('angry', { reason: 'complaint', scope: 'all' })
  await stop('manual', { reason: 'manual', scope: 'all' })
  await stop('quiet', { reason: 'manual', scope: 'marketing' })
  await stop('listed', { reason: 'list_import', scope: 'marketing' })
  const now = postrider.clock.now()
  await stop('soft', { reason: 'soft_bounce', scope: 'all', expires_at: now + 60 * MINUTE })
  await stop('over', { reason: 'soft_bounce', scope: 'all', expires_at: now + MINUTE })
  postrider.clock.leap(2 * MINUTE)

  const campaign = await kit.draft(list)
  const expected = {
    contacts: 11,
    recipients: 3,
    unsubscribed: 1,
    bounced: 1,
    complained: 1,
    pending: 0,
    suppressed: 5,
  }
  assert.deepEqual(await attributes(`/campaigns/${campaign}/reach`), { ...expected, oversize: null })
  assert.deepEqual(await attributes(`/audiences/${list}/reach`), expected)
  const suppressed = (await postrider.api('GET', `/audiences/${list}/suppressed-contacts`)).body.data
  assert.deepEqual(
    suppressed.map((each: { attributes: { email: string } }) => each.attributes.email.split('@')[0]),
    ['manual', 'quiet', 'listed', 'soft', 'erased'],
  )
  assert.equal(await kit.send(campaign), 'sent')
  assert.equal(exchanger.heard.length, 3)
  assert.deepEqual(
    new Set(exchanger.heard.map(({ to }) => to[0])),
    new Set(['ann', 'ben', 'over'].map((name) => `${name}@there.test`)),
  )
  assert.equal((await kit.show(campaign))['recipients'], 3)
  assert.equal((await kit.stats(campaign))['recipients'], 3)
})

test('the next number includes changes of contacts and suppressions', async () => {
  const list = await kit.audience(domain)
  await kit.fill(list, ['c1@there.test', 'c2@there.test', 'c3@there.test'])
  const campaign = await kit.draft(list)
  const gets = async () => (await attributes(`/campaigns/${campaign}/reach`)).recipients
  assert.equal(await gets(), 3)
  await kit.fill(list, ['c4@there.test'])
  assert.equal(await gets(), 4)
  await stop('c1', { reason: 'manual', scope: 'all', expires_at: postrider.clock.now() + 10 * MINUTE })
  assert.equal(await gets(), 3)
  postrider.clock.leap(11 * MINUTE)
  assert.equal(await gets(), 4)
  const [one] = (await postrider.api('GET', `/audiences/${list}/contacts?filter[email]=c2@there.test`)).body.data
  assert.equal((await postrider.api('DELETE', `/contacts/${one.id}`)).status, 204)
  assert.equal(await gets(), 3)
  const test = await kit.draft(list, { test_mode: true, test_recipient_email: 'me@there.test' })
  assert.equal((await attributes(`/campaigns/${test}/reach`)).recipients, 1)
})

test('counts a large audience in parts, and parallel requests share the result', async () => {
  const list = await kit.audience(domain)
  const key = store().first<{ key: number }>(raw('select key from audiences where id = ?', [list]))!.key
  const many = 25_001
  await store().write((tx) =>
    tx.run(
      raw(
        `with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
         insert into contacts (id, user_key, audience_key, email, status, status_at, created_at, updated_at)
         select 'large' || i, ?, ?, 'reader' || i || '@there.test', iif(i % 10 = 0, 'bounced', 'subscribed'), 1, 1, 1 from n`,
        [many, domain.user_key, key],
      ),
    ),
  )
  const campaign = await kit.draft(list)
  let read = 0
  store().watch((sql, rows) => {
    if (sql.includes('left_out')) read = Math.max(read, rows)
  })
  const answers = await Promise.all(Array.from({ length: 5 }, () => attributes(`/campaigns/${campaign}/reach`)))
  for (const answer of answers)
    assert.partialDeepStrictEqual(answer, { contacts: many, recipients: 22_501, bounced: 2500 })
  assert.ok(read > 0 && read <= 5000, `${read} rows at once`)
  // The whole of it once more, by the function that the runner uses for its pages.
  const walk = { audience_key: key, domain_key: domain.key, started_at: postrider.clock.now(), last_contact: 1e9 }
  const rows = nextContacts(store(), postrider.appliance.deps.keyring, walk, { from: 0, limit: many + 1 })
  assert.equal(rows.filter(({ left_out }) => left_out === null).length, 22_501)
})

test('hides the number from other accounts', async () => {
  const list = await kit.audience(domain)
  const campaign = await kit.draft(list)
  for (const path of [
    `/campaigns/${campaign}/reach`,
    `/audiences/${list}/reach`,
    `/audiences/${list}/suppressed-contacts`,
  ])
    assert.equal((await postrider.asOther('GET', path)).status, 404, path)
  const totals = await attributes('/campaign-totals')
  assert.ok(totals.draft >= 1 && totals.sent >= 1, JSON.stringify(totals))
  const others = (await postrider.asOther('GET', '/campaign-totals')).body.data.attributes
  assert.deepEqual([...new Set(Object.values(others))], [0])
})
