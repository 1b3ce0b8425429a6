// Notifications are sent by the server itself (D66): they arrive regardless of the owner’s plan, quota and
// suppressions, are not part of the owner’s email, and have their own retry schedule.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, test } from 'node:test'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { MINUTE, SECOND } from '../../src/base/clock.ts'
import { belongTo } from '../../src/base/named-instance.ts'
import type { ConfigInput } from '../../src/base/config.ts'
import { addNotice, listNotices } from '../../src/users/notices.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { raw } from '../../src/store/query.ts'
import { Commands } from '../commands/command.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { rest } from '../webhooks/hooks.ts'

const DAY = 24 * 60 * MINUTE

let exchanger: TestExchanger
let postrider: TestAppliance

async function begin(config: ConfigInput = {}): Promise<void> {
  postrider = await startTestAppliance({ config: { delivery: { port: exchanger.port }, ...config } })
  for (const owner of ['owner.test', 'elsewhere.test']) {
    postrider.dns.set(owner, 'MX', [`10 mx.${owner}`])
    postrider.dns.set(`mx.${owner}`, 'A', ['127.0.0.1'])
  }
}
beforeEach(async () => {
  exchanger = await startTestExchanger()
})
afterEach(async () => {
  await postrider.stop()
  await exchanger.close()
})

const deps = () => postrider.appliance.deps
const count = (table: string): number => deps().store.first<{ n: number }>(raw(`select count(*) as n from ${table}`))!.n

/** Writes a notice for the first user, as a command next to the server would. */
async function tell(subject: string): Promise<void> {
  await deps().store.write((tx) => {
    const about = { user_key: postrider.user.key, domain_key: null, subject, text: 'Look here.\n.\n<b>& there' }
    addNotice(tx, about, deps().clock.now())
  })
  postrider.appliance.notices.ring()
}
const stateOf = (subject: string) => listNotices(deps().store).find((notice) => notice.subject === subject)!
const attempts = (subject: string, wanted: number) =>
  until(() => {
    const { attempts: made, response } = stateOf(subject)
    return made === wanted && response !== null && postrider.appliance.notices.idle
  }, `${wanted} attempts`)

test('a notification arrives even if the plan is revoked, the quota is used up and the address is suppressed', async () => {
  await begin({ plans: { none: { included_volume: 0 } } })
  const domain = await postrider.activeDomain('here.test')
  const { clock, store } = deps()
  await store.write((tx) => {
    tx.run(raw(`update users set plan = 'none', subscription_state = 'past_due'`))
    const about = { user_key: postrider.user.key, domain_key: domain.key, address: 'ann@owner.test' }
    suppress(tx, { ...about, reason: 'manual', source: 'manual', scope: 'all' }, clock.now())
  })
  await tell('An export is ready')
  await until(() => stateOf('An export is ready').mailed === 1, 'mailed')
  const [heard, ...more] = exchanger.heard
  assert.equal(more.length, 0)
  assert.deepEqual([heard!.from, heard!.to], ['', ['ann@owner.test']])
  for (const field of [
    /^From: Postrider <postrider@mx\.postrider\.test>\r$/m,
    /^To: ann@owner\.test\r$/m,
    /^Subject: An export is ready\r$/m,
    /^Auto-Submitted: auto-generated\r$/m,
  ])
    assert.match(heard!.message, field)
  assert.match(heard!.message, /\r\nLook here\.\r\n(?:\.|=2E)\r\n<b>& there\r\n/)
  assert.doesNotMatch(heard!.message, /^DKIM-Signature:/m)
  for (const table of ['outbound_emails', 'deliveries', 'usage', "events where type like 'email.%'"])
    assert.equal(count(table), 0, table)
})

test('signs a notification if a hosted domain matches its sender', async () => {
  await begin()
  await postrider.activeDomain('postrider.test')
  await tell('Signed')
  const { message } = await until(() => exchanger.heard[0], 'the notice')
  assert.match(message, /^From: Postrider <postrider@postrider\.test>\r$/m)
  const ask = async (name: string): Promise<string[][]> => {
    const found = await postrider.dns.resolver.txt(name)
    return found.kind === 'found' ? found.records.map((text) => [text]) : []
  }
  const { results } = await dkimVerify(message, { resolver: ask })
  assert.deepEqual(
    results.map(({ signingDomain, status }) => [signingDomain, status.result]),
    [['postrider.test', 'pass']],
  )
})

test('a notification of an instance names its commands', async () => {
  await begin()
  belongTo('shop')
  try {
    await deps().store.write((tx) => {
      const about = {
        user_key: postrider.user.key,
        domain_key: null,
        subject: 'Limits',
        text: 'Run "postrider doctor".',
      }
      addNotice(tx, about, deps().clock.now())
    })
  } finally {
    belongTo(undefined)
  }
  assert.equal(stateOf('Limits').text, 'Run "postrider --instance shop doctor".')
})

test('sends notifications from "notices.from"', async () => {
  await begin({ notices: { from: 'robot@news.here.test' } })
  await postrider.activeDomain('here.test')
  await tell('From elsewhere')
  const { message } = await until(() => exchanger.heard[0], 'the notice')
  assert.match(message, /^From: Postrider <robot@news\.here\.test>\r$/m)
  assert.match(message, /^DKIM-Signature:[^]*? d=here\.test;/m)
})

test('"notices.from" may have a display name', async () => {
  await begin({ notices: { from: 'The Example Choir <robot@news.here.test>' } })
  await postrider.activeDomain('here.test')
  await tell('From people')
  const { message } = await until(() => exchanger.heard[0], 'the notice')
  assert.match(message, /^From: The Example Choir <robot@news\.here\.test>\r$/m)
})

test('retries a notification on its own schedule and gives up after seven days', async () => {
  await begin()
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  await tell('Later')
  await attempts('Later', 1)
  assert.match(stateOf('Later').response!, /^451 4\.3\.0 later/)
  postrider.clock.leap(MINUTE - 1)
  assert.equal(stateOf('Later').attempts, 1)
  postrider.clock.leap(1)
  await attempts('Later', 2)
  exchanger.script = {}
  postrider.clock.leap(5 * MINUTE)
  await until(() => stateOf('Later').mailed === 1, 'mailed')

  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '550 5.1.1 no such user' : undefined) }
  await tell('Never')
  for (let day = 1; day <= 8; day++) {
    await attempts('Never', day)
    assert.equal(stateOf('Never').mailed, day === 8 ? 2 : 0, `day ${day}`)
    postrider.clock.leap(DAY)
  }
  assert.equal(stateOf('Never').next_attempt_at, null)
  assert.equal(count('suppressions') + count('soft_bounces'), 0)
})

test('stores the time of the next attempt before an attempt starts, in case the server crashes', async () => {
  await begin()
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '' : undefined) }
  await tell('Cut')
  await until(() => exchanger.commands.some((line) => line.startsWith('RCPT')), 'RCPT')
  const { attempts: made, mailed, next_attempt_at } = stateOf('Cut')
  assert.deepEqual([made, mailed, next_attempt_at], [1, 0, postrider.clock.now() + MINUTE])
  exchanger.cut()
})

test('notifies the operator of a lasting problem once a day, and lists it', async () => {
  await begin({ notices: { operator: 'root@elsewhere.test' } })
  const { troubles } = deps()
  /** Problems last as long as they are reported. */
  const pass = (time: number): void => {
    for (let left = time; left > 0; left -= 10 * MINUTE) {
      postrider.clock.leap(Math.min(left, 10 * MINUTE))
      troubles.report('spool', 'Files of mails cannot be written.')
    }
    postrider.clock.leap(SECOND)
  }
  troubles.report('spool', 'Files of mails cannot be written.')
  pass(50 * SECOND)
  assert.equal(count('notices'), 0)
  pass(10 * SECOND)
  const { message, to } = await until(() => exchanger.heard[0], 'the notice')
  assert.deepEqual(to, ['root@elsewhere.test'])
  assert.match(message, /^Subject: Problem on mx\.postrider\.test: spool\r$/m)
  assert.match(message, /Files of mails cannot be written\./)
  pass(DAY - 10 * MINUTE)
  await rest(postrider)
  assert.equal(count('notices'), 1)
  pass(10 * MINUTE)
  await until(() => exchanger.heard.length === 2, 'the second day')
  const commands = Commands.beside(postrider)
  try {
    const listed = await commands.json<{ user: string; mailed: boolean }[]>('notices')
    assert.deepEqual(
      listed.map(({ user }) => user),
      ['root@elsewhere.test', 'root@elsewhere.test'],
    )
  } finally {
    await commands.close()
  }
})

test('without a setting, the first user is the operator', async () => {
  await begin()
  deps().troubles.report('keys', 'The keys cannot be read.')
  postrider.clock.leap(MINUTE)
  const { to } = await until(() => exchanger.heard[0], 'the notice')
  assert.deepEqual(to, ['ann@owner.test'])
})

test('retries a failed write after a pause, not at once', async () => {
  await begin()
  const { store } = deps()
  const write = store.write.bind(store)
  let asked = 0
  await tell('Full disk')
  await until(() => stateOf('Full disk').mailed === 1 && postrider.appliance.notices.idle, 'mailed')
  await store.write((tx) => tx.run(raw('update notices set mailed = 0, next_attempt_at = 0')))
  store.write = (() => {
    // Endless queries would block all other work, so they get no answer.
    if (++asked > 100) return new Promise(() => {})
    return Promise.reject(Object.assign(new Error('full'), { code: 'SQLITE_FULL' }))
  }) as never
  postrider.appliance.notices.ring()
  await until(() => asked > 0)
  for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve))
  store.write = write
  assert.ok(asked < 5, `${asked} writes`)
})
