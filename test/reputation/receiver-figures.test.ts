// Figures by receiver: past days are summarised, and the figures of every period stay the same.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { settleReceivers } from '../../src/reputation/receivers.ts'
import { receiverAlarms } from '../../src/store/schema/migrations/0031-receiver-alarms.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  const now = postrider.clock.now()
  // Every fifth hour of forty days at two receivers, which use different rejection texts each day.
  await postrider.appliance.deps.store.write((tx) => {
    const user = postrider.user.key
    for (let hour = Math.floor((now - 40 * DAY) / HOUR); hour <= now / HOUR; hour += 5)
      for (const receiver of ['there.test', 'other.test'])
        tx.run(
          raw(
            `insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m,
               within_10m, within_1h, complained) values (?, ?, ?, ?, 1, 2, 3, 0, 0, 0, 1)`,
            [user, receiver, hour, hour % 7],
          ),
        )
    for (let day = Math.floor(now / DAY) - 40; day <= now / DAY; day++)
      tx.run(raw('insert into refusals values (?, ?, ?, ?, ?)', [user, 'there.test', day, `words ${day % 3}`, day % 5]))
  })
})

async function shown(): Promise<unknown[]> {
  const periods = ['24h', '7d', '30d'].map((period) => `filter[period]=${period}`)
  const paths = periods.flatMap((period) => [`/statistics?${period}`, `/statistics/receivers?${period}`])
  return Promise.all(paths.map(async (path) => (await postrider.api('GET', path)).body.data))
}

const rows = (): number => {
  const { store } = postrider.appliance.deps
  return store.first(raw<{ n: number }>('select count(*) as n from receiver_tallies'))!.n
}

test('summarises past days in one row per receiver without changing the statistics of any period', async () => {
  const { store } = postrider.appliance.deps
  const as = await shown()
  assert.ok(rows() > 40 * 4 * 2)
  await settleReceivers(store, postrider.clock.now())
  assert.deepEqual(await shown(), as)
  assert.ok(rows() <= (33 + 11) * 2, String(rows()))
  const before = rows()
  await settleReceivers(store, postrider.clock.now())
  assert.equal(rows(), before)
})

test('deletes replies that are older than every period', async () => {
  const { store } = postrider.appliance.deps
  await settleReceivers(store, postrider.clock.now())
  const { n } = store.first(raw<{ n: number }>('select count(*) as n from refusals'))!
  assert.equal(n, 33, 'thirty-two days and today')
})

test('keeps figures from before the upgrade under their old names, and raises no alarm from them', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  const at = migrations.indexOf(receiverAlarms)
  for (const sql of migrations.slice(0, at)) database.exec(sql)
  database.exec(`pragma foreign_keys = off;
    insert into receiver_tallies values (1, 'sub.there.test', 100, 5, 4, 3, 2, 1, 1, 0, null)`)
  database.exec(receiverAlarms)
  assert.deepEqual(database.prepare('select * from receiver_tallies').all(), [
    {
      user_key: 1,
      receiver: 'sub.there.test',
      hour: 100,
      delivered: 5,
      deferred: 4,
      refused: 3,
      within_5s: 2,
      within_15s: 0,
      within_1m: 1,
      within_3m: 0,
      within_10m: 1,
      within_30m: 0,
      within_1h: 0,
      within_3h: 0,
      tried: 0,
      put_off: 0,
      complained: 0,
      unmatched_complaints: 0,
      hours: null,
    },
  ])
  database.close()
})
