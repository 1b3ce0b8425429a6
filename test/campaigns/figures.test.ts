// The statistics of an audience (D143): its contacts by status, which triggers keep up to date, and its subscribers by
// day. No page counts contacts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY } from '../../src/base/clock.ts'
import { countsOf, growthOf } from '../../src/campaigns/audiences.ts'
import { version03 } from '../../src/store/schema/migrations/0020-version-0-3.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const kit = campaignKit(() => postrider)

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))

const keyOf = (id: string): number =>
  postrider.appliance.deps.store.one<{ key: number }>(raw('select key from audiences where id = ?', [id])).key

/** The stored statistics, and a count of the contacts. */
function both(id: string): [told: object, counted: object] {
  const { store } = postrider.appliance.deps
  const key = keyOf(id)
  const counted = store.one<Record<string, number>>(
    raw(
      `select coalesce(sum(status = 'subscribed'), 0) as subscribed_count,
         coalesce(sum(status = 'unsubscribed'), 0) as unsubscribed_count,
         coalesce(sum(status = 'pending'), 0) as pending_count,
         coalesce(sum(status = 'bounced'), 0) as bounced_count,
         coalesce(sum(status = 'complained'), 0) as complained_count from contacts where audience_key = ?`,
      [key],
    ),
  )
  return [{ ...countsOf(store, key) }, { ...counted }]
}

const figures = async (id: string) =>
  (await postrider.api('GET', `/audience-statistics/${id}`)).body.data.attributes as Record<string, number> & {
    growth: { at: string; subscribed: number }[]
  }

test('the numbers equal a count of the contacts after any change', async () => {
  const id = await kit.audience(domain)
  const same = (what: string): void => {
    const [told, counted] = both(id)
    assert.deepEqual(told, counted, what)
  }
  await kit.fill(
    id,
    Array.from({ length: 50 }, (_, n) => `p${n}@there.test`),
  )
  same('an import')
  const { data } = (await postrider.api('GET', `/audiences/${id}/contacts?page%5Bsize%5D=100`)).body
  const contact = (n: number): string =>
    data.find(({ attributes }: { attributes: { email: string } }) => attributes.email === `p${n}@there.test`).id
  const patch = (n: number, attributes: object) =>
    postrider.api('PATCH', `/contacts/${contact(n)}`, { data: { type: 'contacts', id: contact(n), attributes } })
  await patch(1, { status: 'unsubscribed' })
  await patch(2, { status: 'unsubscribed' })
  await patch(2, { status: 'subscribed' })
  same('a choice')
  const contacts = [
    { email: 'p3@there.test', status: 'bounced' },
    { email: 'p4@there.test', status: 'complained' },
    { email: 'new@there.test', status: 'bounced' },
    { email: 'p5@there.test', status: 'blocked' },
  ]
  await postrider.api('POST', `/audiences/${id}/list-imports`, document('contacts', { contacts }))
  same('a list with people who left')
  await patch(6, { email: 'p1b@there.test' })
  await patch(7, { email: 'new2@there.test', name: 'New' })
  same('an address that is changed')
  await postrider.api('DELETE', `/contacts/${contact(8)}`)
  await postrider.api('DELETE', `/contacts/${contact(3)}`)
  same('a removal')
  assert.equal((await postrider.api('DELETE', '/recipients/p9@there.test/forget')).status, 202)
  await until(async () => (await figures(id))['contacts_count'] === 48)
  same('an erasure')
  const told = await figures(id)
  const { contacts_count: all, subscribed_count: subscribed } = told as Record<string, number>
  assert.deepEqual(
    [all, subscribed, told['unsubscribed_count'], told['bounced_count'], told['complained_count']],
    [48, 45, 1, 1, 1],
  )
  const listed = (await postrider.api('GET', '/audience-statistics')).body.data
  assert.equal(listed.find((each: { id: string }) => each.id === id).attributes.subscribed_count, 45)
  assert.equal((await postrider.asOther('GET', `/audience-statistics/${id}`)).status, 404)
})

test('growth has the number at the end of each of 90 days, and ends with the current one', async () => {
  const { clock, store } = postrider.appliance.deps
  const id = await kit.audience(domain)
  assert.deepEqual(
    (await figures(id)).growth.map(({ subscribed }) => subscribed),
    [0],
  )
  await kit.fill(id, ['a1@grow.test', 'a2@grow.test', 'a3@grow.test'])
  const first = Math.floor(clock.now() / DAY)
  const at = (days: number) =>
    growthOf(
      store,
      { key: keyOf(id), subscribed_count: countsOf(store, keyOf(id)).subscribed_count },
      {
        days: 90,
        last: first + days,
      },
    ).map(({ subscribed }) => subscribed)
  assert.deepEqual(at(0), [3])
  assert.deepEqual(at(3), [3, 3, 3, 3])
  await store.write((tx) =>
    tx.run(raw('insert into audience_days (audience_key, day, subscribed) values (?, ?, 2)', [keyOf(id), first + 2])),
  )
  assert.deepEqual(at(3), [3, 3, 2, 3])
  assert.equal(at(200).length, 90)
  assert.deepEqual(new Set(at(200).slice(0, -1)), new Set([2]))
})

test('an upgrade counts the existing contacts', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  database.pragma('foreign_keys = off')
  const before = migrations.indexOf(version03)
  for (const sql of migrations.slice(0, before)) database.exec(sql)
  database.exec(
    `insert into users (key, id, email, name, plan, subscription_state, created_at, updated_at) values (1, 'u', 'a@b.test', '', 'p', 'active', 0, 0);
     insert into audiences (key, id, user_key, domain_key, name, contacts_count, created_at, updated_at) values (1, 'a', 1, 1, 'A', 0, 0, 0), (2, 'b', 1, 1, 'B', 0, 0, 0);`,
  )
  const add = database.prepare(
    `insert into contacts (id, user_key, audience_key, email, status, status_at, created_at, updated_at) values (?, 1, 1, ?, ?, 0, 0, 0)`,
  )
  for (const [n, status] of [
    'subscribed',
    'subscribed',
    'unsubscribed',
    'bounced',
    'complained',
    'subscribed',
  ].entries())
    add.run(`c${n}`, `c${n}@b.test`, status)
  for (const sql of migrations.slice(before)) database.exec(sql)
  assert.deepEqual(
    database
      .prepare(
        'select contacts_count, subscribed_count, unsubscribed_count, bounced_count, complained_count from audiences order by key',
      )
      .raw()
      .all(),
    [
      [6, 3, 1, 1, 1],
      [0, 0, 0, 0, 0],
    ],
  )
})

test('the pages of an audience and of its contacts by status use indexes', () => {
  const { store } = postrider.appliance.deps
  const plan = (sql: string): string =>
    store
      .all<{ detail: string }>(raw(`explain query plan ${sql}`, []))
      .map(({ detail }) => detail)
      .join('\n')
  const counts = plan(`select subscribed_count from audiences where key = 1`)
  assert.match(counts, /USING INTEGER PRIMARY KEY/)
  const days = plan(`select day, subscribed from audience_days where audience_key = 1 and day > 2 order by day`)
  assert.doesNotMatch(days, /SCAN|TEMP B-TREE/)
  const rare = plan(
    `select * from contacts where user_key = 1 and audience_key in (1) and status in ('complained') order by created_at desc, key desc limit 51`,
  )
  assert.match(rare, /contacts_by_status/)
  assert.doesNotMatch(rare, /SCAN|TEMP B-TREE/)
})
