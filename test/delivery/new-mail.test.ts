// Email that is sent from memory: if its lane has capacity, a new email is stored as claimed, in one transaction with
// its 201, and is sent without another read of the database (D134).
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { holdLane } from '../../src/delivery/queue/waiting.ts'
import { Lane, mayClaimNew } from '../../src/delivery/pacing/lanes.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { HOUR, mailsOf } from '../mail/mails.ts'

const { become, post, receiver, tryPost } = mailsOf(() => postrider)
/** Replies to RCPT by address. "" means no reply. */
const rcpt = new Map<string, string>()

const exchanger = testExchanger({
  keywords: ['8BITMIME', 'ENHANCEDSTATUSCODES'],
  answer: (command) => (command.startsWith('RCPT') ? rcpt.get(/<(.*)>/.exec(command)![1]!) : undefined),
})
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'] }))

const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))
const deliveryTo = (address: string) =>
  postrider.appliance.deps.store.first(
    raw<{ status: string; attempts: number; next_attempt_at: number | null; leased_until: number | null }>(
      'select status, attempts, next_attempt_at, leased_until from deliveries where address = ?',
      [address],
    ),
  )

const CLAIM = `update deliveries set status = 'active'`

/** Runs `work` and returns how many statements claimed waiting mail in the meantime. */
async function claimsDuring(work: () => Promise<unknown>): Promise<number> {
  const { store } = postrider.appliance.deps
  let claims = 0
  store.watch((sql, read) => void (claims += sql.startsWith(CLAIM) && read > 0 ? 1 : 0))
  try {
    await work()
  } finally {
    store.watch(() => undefined)
  }
  return claims
}

test('stores a new email with its first attempt if its domain has no other due email, and does not claim it again', async () => {
  receiver('idle.test')
  rcpt.set('a@idle.test', '')
  const claims = await claimsDuring(async () => {
    const id = await post({ to: 'a@idle.test' })
    const { attempts, leased_until, next_attempt_at, status } = deliveryTo('a@idle.test')!
    assert.deepEqual([status, attempts, next_attempt_at], ['active', 1, null])
    assert.ok(leased_until! > postrider.clock.now())
    await until(() => exchanger.commands.some((line) => line.includes('a@idle.test')))
    exchanger.cut()
    rcpt.clear()
    await until(() => deliveryTo('a@idle.test')!.status === 'queued')
    // The cut is a deferral of the first attempt.
    assert.equal(deliveryTo('a@idle.test')!.attempts, 1)
    postrider.clock.leap(deliveryTo('a@idle.test')!.next_attempt_at! - postrider.clock.now())
    await become(id, 'delivered')
  })
  assert.equal(claims, 1, 'the second attempt is claimed from the queue')
  assert.equal(deliveryTo('a@idle.test')!.attempts, 2)
  const without = await claimsDuring(async () => become(await post({ to: 'b@idle.test' }), 'delivered'))
  assert.equal(without, 0)
  assert.equal(heardBy('b@idle.test').length, 1)
})

test('delivers copies to other domains independently, once per recipient', async () => {
  for (const domain of ['one.test', 'two.test', 'three.test']) receiver(domain)
  await holdLane(postrider.appliance.deps, 'two.test', true)
  postrider.appliance.engine.ring()
  const cc = ['c@two.test', 'c@three.test', 'd@one.test']
  const id = await post({ to: 'c@one.test', cc })
  await become(id, 'delivered')
  await until(() => heardBy('c@three.test').length === 1)
  assert.equal(deliveryTo('c@two.test')!.status, 'queued')
  assert.equal(deliveryTo('c@two.test')!.attempts, 0)
  await holdLane(postrider.appliance.deps, 'two.test', false)
  postrider.appliance.engine.ring()
  await until(() => deliveryTo('c@two.test')!.status === 'delivered')
  for (const address of ['c@one.test', ...cc]) assert.equal(heardBy(address).length, 1, address)
  const { store } = postrider.appliance.deps
  const order = store.all(raw<{ address: string }>('select address from deliveries order by key desc limit 4'))
  assert.deepEqual(order.map(({ address }) => address).toReversed(), ['c@one.test', ...cc])
})

test('claims a limited number of emails for a domain that defers them, and queues the others without an attempt', async () => {
  receiver('full.test')
  const all = Array.from({ length: 120 }, (_, n) => `n${n}@full.test`)
  for (const address of all) rcpt.set(address, '')
  for (const to of all) await post({ to })
  const { store } = postrider.appliance.deps
  const count = (status: string): number =>
    store.one(
      raw<{ n: number }>(`select count(*) as n from deliveries where lane = 'full.test' and status = ?`, [status]),
    ).n
  // 20 connections, and four emails for each.
  assert.equal(count('active'), 80)
  assert.equal(count('queued'), 40)
  for (const address of all) assert.equal(deliveryTo(address)!.attempts, Number(all.indexOf(address) < 80))
  // Another domain does not wait for this one.
  receiver('free.test')
  await become(await post({ to: 'a@free.test' }), 'delivered')
  rcpt.clear()
  exchanger.cut()
  await until(() => count('active') < 80)
})

test('holds and drops a claimed email before it is started, and rejects both for one that is being sent', async () => {
  receiver('turn.test')
  const { store } = postrider.appliance.deps
  // As many as there are connections to the domain, and each without a reply.
  const first = Array.from({ length: 20 }, (_, n) => `first${n}@turn.test`)
  for (const address of first) rcpt.set(address, '')
  const begun = await Promise.all(first.map((to) => post({ to })))
  await until(() => exchanger.commands.filter((line) => /RCPT.*<first\d+@turn/.test(line)).length === 20 || undefined)
  const [held, dropped, kept] = [
    await post({ to: 'held@turn.test', cc: 'copy@turn.test' }),
    await post({ to: 'dropped@turn.test' }),
    await post({ to: 'kept@turn.test' }),
  ]
  const all = ['held@turn.test', 'copy@turn.test', 'dropped@turn.test', 'kept@turn.test']
  for (const address of all) await until(() => deliveryTo(address)!.status === 'active' || undefined, address)
  const act = (id: string, on: string) => postrider.api('POST', `/outbound-emails/${id}/${on}`)
  assert.equal((await act(held, 'hold')).status, 202)
  assert.equal((await act(dropped, 'drop')).status, 202)
  for (const address of ['held@turn.test', 'copy@turn.test']) {
    const { attempts, leased_until, status } = deliveryTo(address)!
    assert.deepEqual([status, attempts, leased_until], ['held', 0, null])
  }
  assert.deepEqual([deliveryTo('dropped@turn.test')!.status, deliveryTo('dropped@turn.test')!.attempts], ['failed', 0])
  await become(dropped, 'failed')
  for (const on of ['hold', 'drop', 'retry']) {
    const refused = await act(begun[0]!, on)
    assert.equal(refused.status, 422)
    assert.match(refused.body.errors[0].detail, /A delivery attempt for this email is in progress\. Try again/)
  }
  // A command cannot change claimed email in the memory of the server, so the error explains when it can.
  const said = await postrider.commands.fails('queue', 'hold', kept)
  assert.match(said, /is being delivered or is next in line; [^"]*"postrider queue hold --lane turn\.test"/)
  await postrider.commands.json('queue', 'hold', '--lane', 'turn.test')
  postrider.appliance.engine.ring()
  await until(() => deliveryTo('kept@turn.test')!.status === 'queued')
  await postrider.commands.json('queue', 'hold', kept)
  await postrider.api('POST', '/lanes/turn.test/release')
  // Single emails that were held are released with their domain.
  assert.equal((await act(held, 'hold')).status, 202)
  rcpt.clear()
  exchanger.cut()
  postrider.appliance.engine.ring()
  postrider.clock.leap(HOUR)
  await become(kept, 'delivered')
  for (const address of ['held@turn.test', 'dropped@turn.test']) assert.equal(heardBy(address).length, 0, address)
  await act(held, 'release')
  await become(held, 'delivered')
  assert.equal(heardBy('copy@turn.test').length, 1)
  // Their capacity is free again.
  assert.equal(
    store.one(raw<{ n: number }>(`select count(*) as n from deliveries where lane = 'turn.test' and status = 'active'`))
      .n,
    0,
  )
  const claims = await claimsDuring(async () => become(await post({ to: 'last@turn.test' }), 'delivered'))
  assert.equal(claims, 0)
})

test('a lane claims no new email while it is held, paused or rate-limited, or while other email is due or its provider is at its limit', () => {
  const limits = { name: 'provider', domain_connections: 2, provider_connections: 2, mails_per_connection: 1 }
  const now = 1_700_000_000_000
  const may = (change: (lane: Lane, other: Lane) => void): boolean => {
    const [lane, other] = [new Lane('one.test', limits), new Lane('other.test', limits)]
    change(lane, other)
    return mayClaimNew(lane, lane, [lane, other], now)
  }
  assert.ok(may(() => undefined))
  assert.ok(may((lane) => (lane.due = now + 1)))
  assert.ok(!may((lane) => (lane.due = now)))
  assert.ok(!may((lane) => (lane.held = true)))
  assert.ok(!may((lane) => lane.pauseUntil(now + 1)))
  assert.ok(!may((lane) => lane.unwritten++))
  assert.ok(
    !may(({ learned }) => {
      learned.pace.restore(1, now)
      learned.pace.went(1, now)
    }),
  )
  assert.ok(may((lane) => (lane.coming = 7)))
  assert.ok(!may((lane) => (lane.coming = 8)), 'four for each connection')
  assert.ok(may((_, other) => (other.coming = 7)))
  assert.ok(!may((_, other) => (other.inHand = 8)), 'four for each connection of the provider')
})

test('emails that cannot be stored release their capacity', async () => {
  receiver('again.test')
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    tx.run(
      raw(
        `create trigger refuses before insert on deliveries when new.address like 'bad%' begin select raise(abort, 'no'); end`,
      ),
    ),
  )
  for (let n = 0; n < 90; n++) assert.equal((await tryPost({ to: `bad${n}@again.test` })).status, 500)
  await store.write((tx) => tx.run(raw('drop trigger refuses')))
  const claims = await claimsDuring(async () => become(await post({ to: 'a@again.test' }), 'delivered'))
  assert.equal(claims, 0)
})

test('sends an email after the next start, as its second attempt, if the process ended before the hand-over', async () => {
  receiver('dead.test')
  rcpt.set('a@dead.test', '')
  await post({ to: 'a@dead.test' })
  assert.equal(deliveryTo('a@dead.test')!.status, 'active')
  await until(() => exchanger.commands.some((line) => line.includes('a@dead.test')))
  // The database as kill -9 leaves it.
  const dataDir = temporaryDirectory('dead')
  const { clock, config, dns } = postrider
  cpSync(postrider.dataDir, dataDir, { recursive: true, filter: (file) => !/(?:-shm|serving\.json)$/.test(file) })
  rcpt.clear()
  const second = await startAppliance({
    config: { ...config, data_dir: dataDir },
    clock,
    log: silentLog,
    resolver: dns.resolver,
  })
  try {
    const status = () =>
      second.deps.store.one(
        raw<{ status: string; attempts: number }>(
          `select status, attempts from deliveries where address = 'a@dead.test'`,
        ),
      )
    await until(() => status().status === 'delivered')
    assert.equal(status().attempts, 2)
    assert.equal(heardBy('a@dead.test').length, 1)
  } finally {
    await second.stop()
  }
})
