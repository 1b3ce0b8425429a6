// Recipient domains with the same receiving servers share their connections and their limits, as most domains are at
// few providers. Domains with other receiving servers, or other requirements for a connection, do not.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Route } from '../../src/delivery/wire/connect.ts'
import { Lane } from '../../src/delivery/pacing/lanes.ts'
import { isRefused } from '../../src/delivery/pacing/feedback.ts'
import type { MailTransaction } from '../../src/delivery/queue/transaction.ts'
import { bulkLane } from '../../src/message/lane-names.ts'
import { retryNow } from '../../src/delivery/queue/operator.ts'
import { ServerGroup, ServerGroups } from '../../src/delivery/pacing/server-group.ts'
import type { Limits } from '../../src/smtp/shaping.ts'
import { ownVerdict, type Stage, type Verdict } from '../../src/smtp/verdict.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { HOUR, MINUTE, mailsOf } from '../mail/mails.ts'

const { attempted, become, post, turnToNext } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { workers: { count: 2 } }, domains: ['here.test'] }),
)

/** Domains that name the same receiving server. */
function customers(provider: string, count: number): string[] {
  postrider.dns.set(`mx.${provider}`, 'A', ['127.0.0.1'])
  return Array.from({ length: count }, (_, n) => {
    postrider.dns.set(`d${n}.${provider}`, 'MX', [`10 mx.${provider}`])
    return `d${n}.${provider}`
  })
}

const claimed = (domain: string): { key: number }[] =>
  postrider.appliance.deps.store.all(
    raw<{ key: number }>("select key from deliveries where lane = ? and status = 'active'", [domain]),
  )

test('uses one connection for all domains with the same MX hosts', async () => {
  const [first, ...others] = customers('one-provider.test', 12)
  const before = exchanger.connections
  // It stays open for more mail after this one.
  await become(await post({ to: `a@${first}` }), 'delivered')
  for (const domain of others) await become(await post({ to: `a@${domain}` }), 'delivered')
  assert.equal(exchanger.connections - before, 1)
})

test('opens no more connections to a server than one domain can have', async () => {
  const domains = customers('crowded.test', 60)
  let most = 0
  exchanger.script.greeting = (open) => {
    most = Math.max(most, open)
    return '220 mx.test ESMTP'
  }
  const answers: (() => void)[] = []
  exchanger.script.final = () => new Promise((resolve) => answers.push(() => resolve('250 2.0.0 OK')))
  const ids = await Promise.all(domains.map((domain) => post({ to: `a@${domain}` })))
  await until(() => answers.length >= 20, 'as many mails as there are connections')
  delete exchanger.script.final
  for (const answer of answers.splice(0)) answer()
  for (const id of ids) await become(id, 'delivered')
  // Of the tests before one may be left that waits for more mail.
  assert.ok(most <= 21, String(most))
  exchanger.script.greeting = '220 mx.test ESMTP'
})

test('shares the limits of a server between domains: an unreachable server gets one connection', async () => {
  const domains = customers('away.test', 8)
  exchanger.script.greeting = '421 4.3.2 Away'
  const before = exchanger.connections
  const ids = [await post({ to: `a@${domains[0]}` })]
  await attempted(ids[0]!, 1)
  for (const domain of domains.slice(1)) ids.push(await post({ to: `a@${domain}` }))
  // Claimed, their group found, and put back: without an attempt and without a connection.
  await until(() => domains.every((domain) => postrider.dns.asked.includes(`MX ${domain}`)), 'every group')
  await until(() => domains.every((domain) => claimed(domain).length === 0), 'all mail is in the queue')
  assert.equal(exchanger.connections - before, 1)
  exchanger.script.greeting = '220 mx.test ESMTP'
  postrider.clock.advance(MINUTE)
  for (const id of ids.slice(1)) assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 1)
  await turnToNext(ids[0]!)
  await become(ids[0]!, 'delivered')
})

test('a domain with a long queue does not delay others with the same MX hosts', async () => {
  const [busy, quiet] = customers('fair.test', 2) as [string, string]
  const before = exchanger.heard.length
  const answers: (() => void)[] = []
  exchanger.script.final = () => new Promise((resolve) => answers.push(() => resolve('250 2.0.0 OK')))
  const many = await Promise.all(Array.from({ length: 60 }, (_, n) => post({ to: `n${n}@${busy}` })))
  await until(() => answers.length === 20, 'all connections')
  const one = await post({ to: `a@${quiet}` })
  // Its mail is claimed before the busy domain's senders are free.
  await until(() => claimed(quiet).length === 1, 'the mail of the quiet domain is claimed')
  await until(() => postrider.dns.asked.includes(`MX ${quiet}`), 'the group of the quiet domain')
  const isHeard = (): boolean => exchanger.heard.some(({ to }) => to[0] === `a@${quiet}`)
  for (let ended = 1; !isHeard(); ended++) {
    // Only after these the busy domain would have no mail left.
    assert.ok(ended <= 40)
    answers.shift()!()
    await until(() => exchanger.heard.length - before === 20 + ended, 'one more mail')
  }
  delete exchanger.script.final
  for (const answer of answers) answer()
  for (const id of [one, ...many]) await become(id, 'delivered')
})

const limits: Limits = { name: 'p', domain_connections: 2, provider_connections: 5, mails_per_connection: 9 }
const route = (hosts: Route['hosts'], enforced = false): Route => ({ hosts, enforced, at: 0 })
const host = (name: string, preference = 10) => ({ name, port: 25, preference })
const mail = { lane: '' } as unknown as MailTransaction

test('identifies a group by its MX hosts, their preference, and the requirements for a connection', () => {
  const groups = new ServerGroups()
  const lanes: Lane[] = []
  const of = (hosts: Route['hosts'], enforced = false, name = 'one.test'): ServerGroup => {
    lanes.push(new Lane(name, limits))
    return groups.take(lanes.at(-1)!, route(hosts, enforced), () => limits)
  }
  const group = of([host('a'), host('b', 20)])
  assert.equal(of([host('a', 1), host('b', 5)]), group)
  assert.notEqual(of([host('a', 20), host('b')]), group)
  assert.notEqual(of([host('a'), host('b')]), group)
  assert.equal(of([host('b'), host('a')]), of([host('a'), host('b')]))
  assert.notEqual(of([host('a')]), group)
  assert.notEqual(of([host('a'), host('b', 20)], true), group)
  assert.notEqual(of([host('a'), host('b', 20)], false, bulkLane('one.test')), group)
  assert.notEqual(of([{ name: 'a', port: 25, address: '127.0.0.1' }]), of([{ name: 'a', port: 25 }]))
  assert.equal(groups.of(lanes[0]!), group)
  for (const lane of lanes) groups.leave(lane)
  groups.sweep()
  assert.deepEqual([...groups.values()], [])
})

test('a pause applies to new lanes, and ends for all when an email is accepted', () => {
  const group = new ServerGroup(limits, false)
  const lanes = ['one.test', 'two.test', 'three.test', 'four.test'].map((name) => new Lane(name, limits))
  const [one, two, three, four] = lanes as [Lane, Lane, Lane, Lane]
  group.join(one)
  group.join(three)
  // Its own pause is the longer one.
  three.pauseUntil(HOUR)
  group.backOff(one, 1000)
  group.join(two)
  assert.deepEqual([two.pausedUntil, two.pauseLearned(2000)], [1000 + MINUTE, 1000 + MINUTE])
  assert.equal(group.succeeded(2000), true)
  assert.deepEqual([one.pausedUntil, two.pausedUntil, three.pausedUntil], [2000, 2000, HOUR])
  group.join(four)
  assert.equal(four.pausedUntil, 0)
  assert.equal(group.succeeded(3000), false)
})

test('421 at RCPT for one domain delays no other domain of the server', async () => {
  const [bad, ...good] = customers('picky.test', 5) as [string, ...string[]]
  const before = exchanger.heard.length
  exchanger.script.answer = (command) =>
    command.startsWith('RCPT') && command.includes(bad) ? '421 4.3.2 no service for this domain' : undefined
  await attempted(await post({ to: `a@${bad}` }), 1)
  // The clock does not move, so no email waits for a pause.
  for (const domain of good) await become(await post({ to: `a@${domain}` }), 'delivered')
  assert.equal(exchanger.heard.length - before, good.length)
  delete exchanger.script.answer
})

test('421 at RCPT limits only its domain, and 421 in the greeting or for too many connections limits all', () => {
  const group = new ServerGroup({ ...limits, domain_connections: 5 }, false)
  const lane = new Lane('one.test', limits)
  group.join(lane)
  group.senders = 4
  lane.inHand = 3
  const said = (stage: Stage, text: string): Verdict[] => [
    { ...ownVerdict('deferred', '4.3.2', text, { stage }), code: 421 },
  ]
  assert.equal(isRefused({ lane, group }, mail, said('rcpt', 'no service'), 0), true)
  assert.deepEqual([lane.width.allowed, group.most], [1, 5])
  lane.inHand = 1
  assert.equal(isRefused({ lane, group }, mail, said('rcpt', 'no service'), 0), false)
  assert.equal(isRefused({ lane, group }, mail, said('rcpt', 'too many connections'), 0), true)
  assert.equal(group.most, 2)
  group.senders = 2
  assert.equal(isRefused({ lane, group }, mail, said('greeting', 'busy'), 5000), true)
  assert.equal(group.most, 1)
})

test('a server that is back receives the email of all domains once it accepts one', async () => {
  const domains = customers('back.test', 6)
  exchanger.cut()
  exchanger.script.greeting = '421 4.3.2 Away'
  const first = await post({ to: `a@${domains[0]}` })
  await attempted(first, 1)
  const ids = await Promise.all(domains.slice(1).map((domain) => post({ to: `a@${domain}` })))
  await until(() => domains.every((domain) => postrider.dns.asked.includes(`MX ${domain}`)), 'every group')
  await until(() => domains.every((domain) => claimed(domain).length === 0), 'all mail is in the queue')
  exchanger.script.greeting = '220 mx.test ESMTP'
  // The operator retries one. The pause would last for a minute.
  postrider.clock.advance(1000)
  await retryNow(postrider.appliance.deps, first)
  postrider.appliance.engine.ring()
  await become(first, 'delivered')
  for (const id of ids) await become(id, 'delivered')
})

test('lanes take turns within their connection limits', () => {
  const group = new ServerGroup(limits, false)
  const [one, two] = ['one.test', 'two.test'].map((name) => new Lane(name, limits)) as [Lane, Lane]
  one.waiting.push(mail, mail, mail)
  two.waiting.push(mail)
  for (const lane of [one, two]) group.join(lane)
  assert.equal(group.most, 5)
  const turns: string[] = []
  for (let work = group.next(); work; work = group.next()) turns.push(work.lane.name)
  // Two of the first are in hand, as many as it may have: the third waits.
  assert.deepEqual(turns, ['one.test', 'two.test', 'one.test'])
  assert.equal(group.hasWork, false)
  one.inHand--
  assert.equal(group.next()?.lane, one)
})

test('a lane adds its learned limits to the group, and keeps those of the group when it leaves', () => {
  const group = new ServerGroup(limits, false)
  const [one, two] = ['one.test', 'two.test'].map((name) => new Lane(name, limits)) as [Lane, Lane]
  group.join(one)
  two.learned.width.restore(3, 1000)
  group.join(two)
  assert.equal(group.most, 3)
  group.width.refused(3, 2000)
  assert.deepEqual([one.learned.width.allowed, two.learned.width.allowed], [1, 1])
  const groups = new ServerGroups()
  assert.equal(groups.take(one, route([host('a')]), () => limits).most, 1)
  const before = groups.of(one)!
  groups.take(one, route([host('b')]), () => limits)
  assert.equal(before.lanes.has(one), false)
})

test('campaign email leaves one learned connection to other email, yields the only one, and its pause permits one attempt (D34)', () => {
  const groups = new ServerGroups()
  const [news, receipt] = [bulkLane('one.test'), 'one.test'].map((name) => new Lane(name, limits)) as [Lane, Lane]
  const bulk = groups.take(news, route([host('a')]), () => limits)
  const single = groups.take(receipt, route([host('a')]), () => limits)
  assert.equal(bulk.most, single.most)
  bulk.senders = 4
  bulk.width.refused(4, 1000)
  assert.deepEqual([bulk.width.allowed, bulk.most, single.most, bulk.yields], [2, 1, 0, true])
  bulk.senders = 1
  assert.deepEqual([bulk.most, single.most, bulk.yields], [1, 1, false])
  bulk.width.refused(2, 5000)
  assert.deepEqual([bulk.most, bulk.yields], [1, false], 'the only connection, and nobody else wants it')
  receipt.waiting.push(mail)
  single.offer(receipt)
  assert.deepEqual([bulk.most, bulk.yields, bulk.isAwaited], [0, true, true])
  bulk.senders = 0
  bulk.backOff(news, 6000)
  assert.deepEqual([single.most, receipt.pausedUntil], [1, 0])
  assert.equal(single.succeeded(7000), true)
  assert.equal(news.pausedUntil, 7000)
})
