// The whole queue: actions of the operator, stops and restarts, and many emails at once within the window. Decisions
// D25, D26. The commands `queue hold|release|retry|drop`, and `serve` on SIGTERM.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import { listQueue, moveQueued, retryNow, showQueued } from '../../src/delivery/queue/operator.ts'
import { raw } from '../../src/store/query.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { HOUR, mailsOf } from '../mail/mails.ts'

const CONNECTIONS = 10
/** Emails in memory for each connection that may be open. */
const WINDOW = 4

const { attempted, become, eventTypes, post, receiver, show, turnToNext } = mailsOf(() => postrider)
const rcpt = new Map<string, string>()
const final = new Map<string, Promise<string>>()
let everyMail: () => void = () => {}

const exchanger = testExchanger({
  // Without PIPELINING, so that a command left without an answer holds up its connection.
  keywords: ['8BITMIME', 'ENHANCEDSTATUSCODES'],
  answer: (command) => (command.startsWith('RCPT') ? rcpt.get(/<(.*)>/.exec(command)![1]!) : undefined),
  final: ({ to }) => {
    everyMail()
    return final.get(to[0]!)
  },
})
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { delivery: { max_connections: CONNECTIONS } }, domains: ['here.test'] }),
)

const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))
const statuses = (appliance: Appliance): Record<string, number> =>
  Object.fromEntries(
    appliance.deps.store
      .all(raw<{ status: string; n: number }>('select status, count(*) as n from deliveries group by status'))
      .map(({ status, n }) => [status, n]),
  )

/** An email that was deferred once. */
async function putOff(to: string): Promise<string> {
  rcpt.set(to, '451 4.7.1 later')
  const id = await post({ to })
  await attempted(id, 1)
  rcpt.delete(to)
  return id
}

test('retry makes one email or all due now, regardless of the schedule', async () => {
  receiver('retry.test')
  const { deps, engine } = postrider.appliance
  const [one, two, three] = [await putOff('1@retry.test'), await putOff('2@retry.test'), await putOff('3@retry.test')]
  assert.equal(await retryNow(deps, one), 1)
  engine.ring()
  await become(one, 'delivered')
  assert.equal((await show(two)).status, 'queued')
  assert.equal(await retryNow(deps, undefined), 2)
  engine.ring()
  await Promise.all([become(two, 'delivered'), become(three, 'delivered')])
  assert.equal(await retryNow(deps, one), 0)
  assert.equal(await retryNow(deps, 'no such id'), 0)
})

test('hold keeps an email until it is released, and release sends it immediately', async () => {
  receiver('hold.test')
  const { deps, engine } = postrider.appliance
  const id = await putOff('a@hold.test')
  assert.equal(await moveQueued(deps, id, 'hold'), 1)
  assert.equal(await moveQueued(deps, id, 'hold'), 0)
  // To its owner a held mail is queued still.
  const held = await show(id)
  assert.equal(held.status, 'queued')
  assert.equal(held.recipients[0]?.status, 'queued')
  assert.equal(held.recipients[0]?.next_attempt_at, null)
  postrider.clock.leap(7 * HOUR)
  assert.equal(await retryNow(deps, id), 0)
  engine.ring()
  await become(await post({ to: 'b@hold.test' }), 'delivered')
  assert.equal(heardBy('a@hold.test').length, 0)
  assert.equal(await moveQueued(deps, id, 'release'), 1)
  engine.ring()
  await become(id, 'delivered')
  assert.equal(await moveQueued(deps, id, 'release'), 0)
})

test('drop fails a queued or held email permanently, with its event', async () => {
  receiver('drop.test')
  const { deps, engine } = postrider.appliance
  for (const hold of [false, true]) {
    const id = await putOff(`${hold}@drop.test`)
    if (hold) await moveQueued(deps, id, 'hold')
    assert.equal(await moveQueued(deps, id, 'drop'), 1)
    const shown = await show(id)
    assert.equal(shown.status, 'failed')
    assert.ok(shown['failed_at'])
    assert.equal(shown.recipients[0]?.status, 'failed')
    assert.equal(shown.recipients[0]?.next_attempt_at, null)
    // This is not the reply of a server.
    const { enhanced_code, remote_mta, response, smtp_code } = shown.recipients[0]!
    assert.deepEqual([smtp_code, enhanced_code, remote_mta, response], [null, null, null, 'Dropped by the operator.'])
    assert.deepEqual(eventTypes(id), ['email.delayed', 'email.bounced'])
    for (const on of ['drop', 'hold', 'release'] as const) assert.equal(await moveQueued(deps, id, on), 0)
    assert.equal(await retryNow(deps, id), 0)
  }
  postrider.clock.leap(7 * HOUR)
  engine.ring()
  await become(await post({ to: 'b@drop.test' }), 'delivered')
  assert.equal(heardBy('true@drop.test').length + heardBy('false@drop.test').length, 0)
})

test('hold, release and drop change every unfinished recipient, including copies, and no others (D24)', async () => {
  receiver('copies.test')
  const { deps, engine } = postrider.appliance
  const { store } = deps
  const late = ['to', 'cc', 'bcc'].map((role) => `${role}-late@copies.test`)
  const of = (id: string) =>
    showQueued(store, id)!.deliveries.map(({ address, status }) => `${address.split('@')[0]} ${status}`)
  const partly = async (to: string, cc: string[], bcc: string[]): Promise<string> => {
    for (const address of late) rcpt.set(address, '451 4.7.1 later')
    const id = await post({ to, cc, bcc })
    await until(() =>
      showQueued(store, id)!.deliveries.every(({ status, attempts }) => status !== 'active' && attempts === 1),
    )
    for (const address of late) rcpt.delete(address)
    return id
  }
  const [to, cc, bcc] = late as [string, string, string]
  const held = await partly(to, [cc, 'cc-done@copies.test'], [bcc])
  assert.equal(await moveQueued(deps, held, 'hold'), 3)
  assert.deepEqual(of(held), ['to-late held', 'cc-late held', 'cc-done delivered', 'bcc-late held'])
  postrider.clock.leap(7 * HOUR)
  engine.ring()
  await become(await post({ to: 'tick@copies.test' }), 'delivered')
  assert.equal(heardBy(cc).length + heardBy(bcc).length, 0)
  assert.equal(await moveQueued(deps, held, 'release'), 3)
  engine.ring()
  await become(held, 'delivered')
  await until(() => of(held).every((line) => line.endsWith(' delivered')))
  assert.equal(heardBy('cc-done@copies.test').length, 1)

  // Dropped while only copies wait: the status of the email is the result of its primary recipient.
  const copies = await partly('to-done@copies.test', [cc], [bcc])
  assert.equal(await moveQueued(deps, copies, 'drop'), 2)
  assert.deepEqual(of(copies), ['to-done delivered', 'cc-late failed', 'bcc-late failed'])
  assert.equal((await show(copies)).status, 'delivered')
  assert.equal(eventTypes(copies).filter((type) => type === 'email.bounced').length, 2, 'one for each')
  const whole = await partly(to, [cc], ['bcc-done@copies.test'])
  assert.equal(await moveQueued(deps, whole, 'drop'), 2)
  assert.equal((await show(whole)).status, 'failed')
  assert.deepEqual(of(whole), ['to-late failed', 'cc-late failed', 'bcc-done delivered'])
  assert.equal(eventTypes(whole).filter((type) => type === 'email.bounced').length, 2)
  // Actions of the operator do not suppress.
  assert.deepEqual(store.all(raw(`select email from suppressions where email like '%@copies.test'`)), [])
})

test('closes idle connections for domains that need one', async () => {
  for (const n of Array(CONNECTIONS - 1).keys()) {
    receiver(`kept${n}.test`)
    await become(await post({ to: `a@kept${n}.test` }), 'delivered')
  }
  // By the clock no time passes: those nine are open still.
  const gates = Array.from({ length: 6 }, (_, n) => {
    receiver(`needs${n}.test`)
    const { promise, resolve } = Promise.withResolvers<string>()
    final.set(`a@needs${n}.test`, promise)
    return resolve
  })
  const ids = await Promise.all(gates.map((_, n) => post({ to: `a@needs${n}.test` })))
  const arrived = () => exchanger.heard.filter(({ to }) => /@needs\d\.test$/.test(to[0]!)).length
  try {
    await until(() => arrived() === gates.length, 'all six at once')
  } finally {
    for (const resolve of gates) resolve('250 ok')
    final.clear()
  }
  await Promise.all(ids.map((id) => become(id, 'delivered')))
})

test('a provider at its limit does not block the window for others (D34)', async () => {
  // Orange: 2 connections, however many domains have their mail there. More emails of it wait than fit into the window.
  const domains = Array.from({ length: 60 }, (_, n) => `orange${n}.test`)
  const { promise, resolve } = Promise.withResolvers<string>()
  postrider.dns.set('mx.orange.fr', 'A', ['127.0.0.1'])
  for (const domain of domains) {
    postrider.dns.set(domain, 'MX', ['10 mx.orange.fr'])
    final.set(`a@${domain}`, promise)
  }
  const ids = await Promise.all(domains.map((domain) => post({ to: `a@${domain}` })))
  const arrived = () => exchanger.heard.filter(({ to }) => /@orange\d+\.test$/.test(to[0]!)).length
  await until(() => arrived() === 2)
  receiver('beside.test')
  try {
    const beside = await post({ to: 'b@beside.test' })
    await until(async () => (await show(beside)).status === 'delivered', 'mail to anybody else')
    assert.equal(arrived(), 2)
  } finally {
    resolve('250 ok')
    final.clear()
  }
  await until(() => arrived() === domains.length, 'all of the provider')
  await Promise.all(ids.map((id) => become(id, 'delivered')))
  for (const domain of domains) assert.equal(heardBy(`a@${domain}`).length, 1)
  const tries = raw<{ n: number }>(
    `select count(*) as n from deliveries where lane like 'orange%.test' and attempts <> 1`,
  )
  assert.equal(postrider.appliance.deps.store.first(tries)!.n, 0, 'waiting is not an attempt')
})

test('the list shows queued emails of all domains or one, oldest first, and can show finished ones', async () => {
  await postrider.activeDomain('second.test')
  receiver('list.test')
  const { store } = postrider.appliance.deps
  assert.deepEqual(listQueue(store), [])
  const first = await putOff('1@list.test')
  rcpt.set('2@list.test', '451 later')
  const second = await post({ from: 'ann@second.test', to: '2@list.test' })
  await attempted(second, 1)
  rcpt.clear()
  assert.deepEqual(
    listQueue(store).map(({ id }) => id),
    [first, second],
  )
  assert.deepEqual(
    listQueue(store, 'second.test').map(({ id }) => id),
    [second],
  )
  assert.deepEqual(listQueue(store, 'unknown.test'), [])
  const [mail] = listQueue(store, 'here.test')
  assert.equal(mail?.to, '1@list.test')
  assert.equal(mail.deliveries[0]?.status, 'queued')
  await turnToNext(second)
  postrider.clock.leap(HOUR)
  await Promise.all([become(first, 'delivered'), become(second, 'delivered')])
  assert.deepEqual(listQueue(store), [])
  assert.equal(showQueued(store, first)?.deliveries[0]?.status, 'delivered')
  assert.equal(showQueued(store, 'no such id'), undefined)
})

test('delivers 200 emails to 50 domains once each, and never holds more than the window in memory', async () => {
  for (let n = 0; n < 50; n++) receiver(`d${n}.test`)
  const { store } = postrider.appliance.deps
  const active = raw<{ n: number }>(`select count(*) as n from deliveries where status = 'active'`)
  let most = 0
  everyMail = () => (most = Math.max(most, store.first(active)!.n))
  const ids: string[] = []
  for (let batch = 0; batch < 2; batch++)
    ids.push(
      ...(await Promise.all(Array.from({ length: 100 }, (_, n) => post({ to: `b${batch}n${n}@d${n % 50}.test` })))),
    )
  await until(() =>
    Object.keys(statuses(postrider.appliance)).every((status) => status === 'delivered' || status === 'failed'),
  )
  everyMail = () => {}
  assert.equal(new Set(ids).size, 200)
  for (let batch = 0; batch < 2; batch++)
    for (let n = 0; n < 100; n++) assert.equal(heardBy(`b${batch}n${n}@d${n % 50}.test`).length, 1)
  assert.ok(most > 1, 'several at once')
  assert.ok(most <= CONNECTIONS * WINDOW, `${most} in memory`)
  const wrong = store.all(
    raw(
      `select to_address from (select "to" as to_address, status from outbound_emails where "to" like 'b%n%@d%.test') where status <> 'delivered'`,
    ),
  )
  assert.deepEqual(wrong, [])
})

// ---- stopping and starting again ----

/** A server with a separate directory that is stopped and started again. */
async function withRestarts(
  work: (first: TestAppliance, restart: () => Promise<Appliance>, mails: ReturnType<typeof mailsOf>) => Promise<void>,
): Promise<void> {
  const dataDir = temporaryDirectory('restart')
  const first = await startTestAppliance({
    dataDir,
    config: { delivery: { port: exchanger.port, max_connections: 5 } },
  })
  const again: Appliance[] = []
  try {
    await first.activeDomain('here.test')
    await work(
      first,
      async () => {
        const { clock, config, dns } = first
        again.push(await startAppliance({ config, clock, log: silentLog, resolver: dns.resolver }))
        return again.at(-1)!
      },
      mailsOf(() => first),
    )
  } finally {
    exchanger.cut()
    await again.at(-1)?.stop()
    await first.dns.close()
  }
}

test('stop releases queued emails and unanswered attempts, and the next start delivers each exactly once', () =>
  withRestarts(async (first, restart, mails) => {
    mails.receiver('stuck.test')
    mails.receiver('flowing.test')
    const stuck = Array.from({ length: 30 }, (_, n) => `n${n}@stuck.test`)
    for (const address of stuck) rcpt.set(address, '')
    const large = `<p>${'large '.repeat(60_000)}</p>`
    const ids = await Promise.all(stuck.map((to, n) => mails.post({ to, ...(n % 10 === 0 ? { html: large } : {}) })))
    await until(() => exchanger.commands.filter((line) => line.endsWith('@stuck.test>')).length === 5)
    const stopping = first.appliance.stop()
    // The server does not reply. The connections end while it stops.
    exchanger.cut()
    await stopping
    rcpt.clear()
    assert.equal(exchanger.heard.filter(({ to }) => to[0]!.endsWith('@stuck.test')).length, 0)

    const second = await restart()
    await until(() => statuses(second)['delivered'] === ids.length)
    assert.deepEqual(statuses(second), { delivered: ids.length })
    for (const address of stuck) assert.equal(heardBy(address).length, 1, address)
    // A stop does not cause email.delayed events.
    const delayed = second.deps.store.all(raw(`select * from events where type = 'email.delayed'`))
    assert.deepEqual(delayed, [])
  }))

test('stop waits for the reply to an email that is being sent', () =>
  withRestarts(async (first, restart, mails) => {
    mails.receiver('answering.test')
    const { promise, resolve } = Promise.withResolvers<string>()
    final.set('a@answering.test', promise)
    const id = await mails.post({ to: 'a@answering.test' })
    await until(() => heardBy('a@answering.test').length === 1)
    const stopping = first.appliance.stop()
    resolve('250 2.0.0 ok')
    await stopping
    const second = await restart()
    assert.equal(showQueued(second.deps.store, id)?.status, 'delivered')
    await until(() => statuses(second)['delivered'] === 1)
    assert.equal(heardBy('a@answering.test').length, 1)
  }))

test('emails that a crashed process had claimed are due again at the next start', () =>
  withRestarts(async (first, restart, mails) => {
    mails.receiver('orphan.test')
    rcpt.set('a@orphan.test', '451 later')
    const id = await mails.post({ to: 'a@orphan.test' })
    await mails.attempted(id, 1)
    rcpt.clear()
    const { store, clock } = first.appliance.deps
    // As kill -9 leaves it: claimed, with a lease far in the future.
    await store.write((tx) =>
      tx.run(
        raw(`update deliveries set status = 'active', next_attempt_at = null, leased_until = ?`, [clock.now() + HOUR]),
      ),
    )
    await first.appliance.stop()
    const second = await restart()
    await until(() => statuses(second)['delivered'] === 1)
    assert.equal(heardBy('a@orphan.test').length, 1)
  }))

test('delivers email to an inbox of this server after a restart, when the listener is open', () =>
  withRestarts(async (first, restart, mails) => {
    const { deps } = first.appliance
    const made = document('inboxes', { name: 'Box', address: 'box@here.test' })
    assert.equal((await first.api('POST', '/inboxes', made)).status, 201)
    // Its receiving server is not known yet, so the email is queued.
    first.dns.fail(true)
    await mails.attempted(await mails.post({ to: 'box@here.test' }), 1)
    first.dns.fail(false)
    first.dns.set('here.test', 'MX', [`10 ${first.config.hostname}`])
    await deps.store.write((tx) => tx.run(raw('update deliveries set next_attempt_at = ?', [deps.clock.now()])))
    await first.appliance.stop()
    const second = await restart()
    await until(() => statuses(second)['delivered'] === 1 || statuses(second)['failed'] === 1)
    assert.deepEqual(statuses(second), { delivered: 1 })
  }))

test('moves unreferenced spool files into quarantine at the next start, and keeps or restores the others', () =>
  withRestarts(async (first, restart, mails) => {
    mails.receiver('spooled.test')
    rcpt.set('a@spooled.test', '451 later')
    const html = `<p>${'kept '.repeat(60_000)}</p>`
    const id = await mails.post({ to: 'a@spooled.test', html })
    await mails.attempted(id, 1)
    rcpt.clear()
    const spool = join(first.dataDir, 'spool')
    const kept = readdirSync(spool)
    assert.equal(kept.length, 1)
    writeFileSync(join(spool, 'orphan'), 'left by a crash')
    writeFileSync(join(spool, 'half.part'), 'left by a crash')
    await first.appliance.stop()
    // As a start with the database of another installation leaves it.
    mkdirSync(join(spool, 'quarantine'))
    renameSync(join(spool, kept[0]!), join(spool, 'quarantine', kept[0]!))
    const beside = Commands.beside(first)
    try {
      const { faults } = JSON.parse((await beside.run(['--json', 'verify'])).stdout) as { faults: string[] }
      assert.match(faults.join(), /is in quarantine; the next start restores it/)
    } finally {
      await beside.close()
    }
    const second = await restart()
    assert.deepEqual(readdirSync(spool).toSorted(), [...kept, 'quarantine'].toSorted())
    assert.deepEqual(readdirSync(join(spool, 'quarantine')).toSorted(), ['half.part', 'orphan'])
    await retryNow(second.deps, id)
    second.engine.ring()
    await until(() => statuses(second)['delivered'] === 1)
    assert.ok(heardBy('a@spooled.test')[0]?.message.includes('kept kept'))
  }))
