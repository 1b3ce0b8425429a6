// The retention of events and webhook deliveries (retention.events). Their statistics are kept.
import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { appendEvent } from '../../src/store/events.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook } from './hooks.ts'
import { mailsOf } from '../mail/mails.ts'

const { become, post } = mailsOf(() => postrider)

const exchanger = testExchanger()
const hooks = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    receiver: hooks,
    config: { retention: { events: '90d' } },
    routes: ['there.test'],
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => {
  const tracked = { open_tracking_enabled: true, click_tracking_enabled: true }
  await postrider.api('PATCH', `/domains/${domain.id}`, document('domains', tracked, { id: domain.id }))
})

const ask = <T>(sql: string, ...parameters: unknown[]): T =>
  postrider.appliance.deps.store.first(raw<T>(sql, parameters))!
const count = (table: string): number => ask<{ count: number }>(`select count(*) as count from ${table}`).count
const keyOf = (id: string): number => ask<{ key: number }>('select key from outbound_emails where id = ?', id).key
const statsOf = async (id: string): Promise<Record<string, unknown>> =>
  (await postrider.api('GET', `/outbound-emails/${id}/stats`)).body.data.attributes
const tell = (email: string, type: 'email.opened' | 'email.clicked', data: Record<string, unknown>): Promise<void> =>
  postrider.appliance.deps.store.write((tx) =>
    appendEvent(tx, {
      type,
      user_key: domain.user_key,
      domain_key: domain.key,
      email_key: keyOf(email),
      data,
      at: postrider.clock.now(),
    }),
  )

test('statistics stay the same after their events are deleted, and continue to count', async () => {
  const read = await post({ to: 'a@there.test', cc: 'b@there.test' })
  await become(read, 'delivered')
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '550 5.1.1 No such user here' : undefined) }
  const bounced = await post({ to: 'gone@there.test' })
  await become(bounced, 'bounced')
  exchanger.script = {}
  for (const delivery of [1, 1, 2]) await tell(read, 'email.opened', { delivery, machine: false })
  await tell(read, 'email.opened', { delivery: 1, machine: true })
  await tell(read, 'email.clicked', { delivery: 2, machine: false, url: 'https://there.test/' })
  const figures = [await statsOf(read), await statsOf(bounced)]
  const { clicks, deliveries, machine_opens, opens, unique_opens } = figures[0]!
  assert.deepEqual([deliveries, opens, unique_opens, machine_opens, clicks], [2, 3, 2, 1, 1])
  assert.equal(figures[1]!['bounces'], 1)
  const events = count('events')
  postrider.clock.leap(90 * DAY - 2 * HOUR)
  const young = await post({ to: 'c@there.test' })
  await become(young, 'delivered')
  assert.ok(count('events') > events, 'nothing is too old yet')
  postrider.clock.leap(3 * HOUR)
  await until(() => count('events') < events, 'old events to go')
  assert.deepEqual([await statsOf(read), await statsOf(bounced)], figures)
  assert.equal((await statsOf(young))['deliveries'], 1)
  assert.ok(count('events') > 0, 'what is younger stays')
  // Later events of the same email increase its sums.
  await tell(read, 'email.opened', { delivery: 1, machine: false })
  assert.deepEqual([(await statsOf(read))['opens'], (await statsOf(read))['unique_opens']], [4, 2])
  postrider.clock.leap(91 * DAY)
  await until(() => count('events') === 0, 'all events to go')
  assert.deepEqual([(await statsOf(read))['opens'], (await statsOf(read))['unique_opens']], [4, 2])
})

test('deletes finished deliveries with their attempts, and keeps pending ones', async () => {
  const first = await makeHook(postrider, hooks, domain, ['email.opened'])
  const second = await makeHook(postrider, hooks, domain, ['email.opened'])
  hooks.answer = ({ path }, response) => void response.writeHead(path === second.path ? 503 : 200).end()
  const id = await post({ to: 'd@there.test' })
  await become(id, 'delivered')
  await tell(id, 'email.opened', { delivery: 1, machine: false })
  await first.arrived(1)
  const open = `select count(*) as count from outbound_webhooks where status in ('pending', 'active')`
  await until(() => count('webhook_attempts') >= 2 && count('outbound_webhooks') === 2, 'both to be tried')
  const pending = ask<{ count: number }>(open).count
  assert.equal(pending, 1, 'the second has no answer')
  // Only the time of the rows is turned back: the schedule of the endpoint that waits goes on.
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw('update outbound_webhooks set created_at = created_at - ?', [91 * DAY])),
  )
  postrider.clock.leap(HOUR)
  await until(() => count('outbound_webhooks') === 1, 'the one that ended to go')
  assert.equal((await second.deliveries()).length, 1)
  assert.equal((await first.deliveries()).length, 0)
  assert.equal(
    ask<{ count: number }>(
      'select count(*) as count from webhook_attempts where delivery_key not in (select key from outbound_webhooks)',
    ).count,
    0,
  )
})

test('returns free database pages to the disk', async () => {
  const file = join(postrider.dataDir, 'postrider.db')
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    tx.run(
      raw(
        `with recursive n(i) as (select 1 union all select i + 1 from n where i < 200)
         insert into event_sums (email_key, type, delivery, machine, times)
         select 1000000 + i, hex(zeroblob(20000)), 0, 0, 1 from n`,
      ),
    ),
  )
  store.checkpoint()
  const large = statSync(file).size
  await store.write((tx) => tx.run(raw('delete from event_sums where email_key > 1000000')))
  store.checkpoint()
  // The sweep of an earlier hour may still give back a few pages.
  assert.ok(statSync(file).size > large / 2, 'free inside the file')
  postrider.clock.leap(HOUR)
  await until(() => {
    store.checkpoint()
    return statSync(file).size < large / 2
  }, 'the file to shrink')
})
