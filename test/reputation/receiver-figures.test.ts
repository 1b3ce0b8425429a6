// Figures by receiver: days that are over are kept whole, and every period says the same before and after.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { settleReceivers } from '../../src/reputation/receivers.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  const now = postrider.clock.now()
  // Every fifth hour of forty days at two receivers, which refuse in words of the day.
  await postrider.appliance.deps.store.write((tx) => {
    const user = postrider.user.key
    for (let hour = Math.floor((now - 40 * DAY) / HOUR); hour <= now / HOUR; hour += 5)
      for (const receiver of ['there.test', 'other.test'])
        tx.run(
          raw('insert into receiver_tallies values (?, ?, ?, ?, 1, 2, 3, 0, 0, 0)', [user, receiver, hour, hour % 7]),
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

test('days that are over become one row for each receiver, and every period says the same', async () => {
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

test('words that no period looks at any more are forgotten', async () => {
  const { store } = postrider.appliance.deps
  await settleReceivers(store, postrider.clock.now())
  const { n } = store.first(raw<{ n: number }>('select count(*) as n from refusals'))!
  assert.equal(n, 33, 'thirty-two days and today')
})
