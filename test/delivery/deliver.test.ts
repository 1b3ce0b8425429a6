// Delivery results: statuses and times of D25, retries of D26, each event once, lanes that do not block one another,
// and actions of owners and operators in the meantime. Decisions D18, D20, D23 to D26, D34.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { WorkerSession } from '../../src/delivery/wire/workers.ts'
import { listNotices } from '../../src/users/notices.ts'
import { checkDomain } from '../../src/domains/check.ts'
import { signingKeyOf } from '../../src/domains/keys.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR, mailsOf, MINUTE, type Shown } from '../mail/mails.ts'

const { attempted, become, events, eventTypes, post, receiver, show, turnToNext } = mailsOf(() => postrider)

/** The replies to RCPT, and after the final dot, by recipient, and to MAIL while it is set. */
const rcpt = new Map<string, string>()
const final = new Map<string, string | Promise<string>>()
let toMail: string | undefined

const exchanger = testExchanger({
  // Without PIPELINING, so that a command left without an answer holds up its connection.
  keywords: ['8BITMIME', 'ENHANCEDSTATUSCODES'],
  answer: (command) => {
    if (command.startsWith('MAIL')) return toMail
    return command.startsWith('RCPT') ? rcpt.get(/<(.*)>/.exec(command)![1]!) : undefined
  },
  final: ({ to }) => final.get(to[0]!),
})
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { workers: { count: 2 } }, domains: ['here.test', 'second.test'] }),
)

/** The times in an email's attributes, without those that every row has. */
const times = (shown: Shown): string[] =>
  Object.keys(shown)
    .filter((name) => name.endsWith('_at') && !/^(queued|created|updated)_at$/.test(name) && shown[name] !== null)
    .toSorted()
const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))
const iso = (time: number): string => new Date(time).toISOString()

/** Turns the clock until the email is sent, while the receiving server does not reply to the final dot. */
const sentBeforeAnAnswer = (id: string): Promise<Shown> =>
  until(async () => {
    postrider.clock.advance(250)
    const shown = await show(id)
    return shown.status === 'sent' ? shown : undefined
  }, `sent of ${id}`)

/** `actual` is `wanted` give or take a tenth (D26). */
function about(actual: number, wanted: number, label: string): void {
  assert.ok(
    actual >= wanted * 0.9 - 1 && actual <= wanted * 1.1 + 1,
    `${label}: ${actual / MINUTE} of ${wanted / MINUTE} min`,
  )
}

// ---- one attempt, each outcome ----

test('an email is sent, then delivered after 250 to the final dot', async () => {
  receiver('plain.test')
  const begun = iso(postrider.clock.now())
  const id = await post({ to: 'a@plain.test' })
  const shown = await become(id, 'delivered')
  assert.deepEqual(times(shown), ['delivered_at', 'sent_at'])
  for (const name of ['created_at', 'queued_at', 'sent_at', 'delivered_at']) assert.equal(shown[name], begun, name)
  assert.deepEqual(shown.recipients, [
    {
      address: 'a@plain.test',
      role: 'to',
      status: 'delivered',
      smtp_code: 250,
      enhanced_code: '2.0.0',
      response: shown.recipients[0]!.response,
      remote_mta: 'mx.plain.test',
      attempts: 1,
      next_attempt_at: null,
      waiting_reason: null,
    },
  ])
  assert.deepEqual(eventTypes(id), ['email.sent', 'email.delivered'])
})

test('bounces an email that is rejected at RCPT, without the status sent', async () => {
  receiver('refusing.test')
  rcpt.set('a@refusing.test', '550 5.1.1 No such user here')
  const id = await post({ to: 'a@refusing.test' })
  const shown = await become(id, 'bounced')
  assert.deepEqual(times(shown), ['bounced_at'])
  const [recipient] = shown.recipients
  assert.deepEqual(
    [recipient?.status, recipient?.smtp_code, recipient?.enhanced_code, recipient?.next_attempt_at],
    ['bounced', 550, '5.1.1', null],
  )
  assert.match(recipient?.response ?? '', /No such user here/)
  assert.deepEqual(eventTypes(id), ['email.bounced'])
  assert.equal(heardBy('a@refusing.test').length, 0)
})

test('an email stays sent while the server does not reply to the final dot, and a copy does not change its status', async () => {
  receiver('slow.test')
  const said = Promise.withResolvers<string>()
  for (const name of ['a', 'b', 'c']) final.set(`${name}@slow.test`, said.promise)
  rcpt.set('gone@slow.test', '550 5.1.1 No such user here')
  const id = await post({ to: 'a@slow.test' })
  await until(() => heardBy('a@slow.test').length === 1, 'the mail')
  assert.equal((await show(id)).status, 'queued', 'an exchanger may think for a moment')
  const other = await post({ to: 'gone@slow.test', cc: ['b@slow.test'] })
  try {
    const begun = postrider.clock.now()
    const waiting = await sentBeforeAnAnswer(id)
    assert.deepEqual(times(waiting), ['sent_at'])
    assert.ok(Date.parse(waiting['sent_at']!) - begun >= 2000, 'seconds later by the clock')
    assert.deepEqual(eventTypes(id), ['email.sent'])
    assert.equal(waiting.recipients[0]?.smtp_code, null)
    await until(() => heardBy('b@slow.test').length === 1, 'the copy')
    // By when this one is, the copy has waited longer.
    await sentBeforeAnAnswer(await post({ to: 'c@slow.test' }))
    assert.equal((await show(other)).status, 'queued')
  } finally {
    said.resolve('250 2.0.0 At last')
  }
  assert.deepEqual(times(await become(id, 'delivered')), ['delivered_at', 'sent_at'])
  assert.deepEqual(eventTypes(id), ['email.sent', 'email.delivered'])
  assert.deepEqual(times(await become(other, 'bounced')), ['bounced_at'])
  // The last test of this file is about emails with one recipient.
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${other}`)).status, 204)
})

test('an email that is rejected after the final dot is sent, then bounced', async () => {
  receiver('afterwards.test')
  final.set('a@afterwards.test', '554 5.7.1 We do not like this')
  const id = await post({ to: 'a@afterwards.test' })
  const shown = await become(id, 'bounced')
  assert.deepEqual(times(shown), ['bounced_at', 'sent_at'])
  assert.equal(shown.recipients[0]?.enhanced_code, '5.7.1')
  assert.deepEqual(eventTypes(id), ['email.sent', 'email.bounced'])
})

test('fails immediately, without a connection, for a null MX or a missing domain', async () => {
  postrider.dns.set('null.test', 'MX', ['0 .'])
  postrider.dns.set('null.test', 'A', ['127.0.0.1'])
  const { connections } = exchanger
  for (const [to, enhanced] of [
    ['a@null.test', '5.1.10'],
    ['a@no-such-domain.test', '5.1.2'],
  ] as const) {
    const id = await post({ to })
    const shown = await become(id, 'failed')
    assert.deepEqual(times(shown), ['failed_at'])
    const [recipient] = shown.recipients
    assert.deepEqual(
      [
        recipient?.status,
        recipient?.smtp_code,
        recipient?.enhanced_code,
        recipient?.attempts,
        recipient?.next_attempt_at,
      ],
      ['failed', null, enhanced, 1, null],
    )
    // The specification does not have a separate event for failed.
    assert.deepEqual(eventTypes(id), ['email.bounced'])
    assert.equal(events(id)[0]?.data['kind'], 'failed')
  }
  assert.equal(exchanger.connections, connections)
})

test('bounces with 5.6.7 if a sender or reply address needs SMTPUTF8 and the server does not offer it', async () => {
  receiver('ascii.test')
  for (const attributes of [{ from: 'jürgen@here.test' }, { reply_to: ['jürgen@here.test'] }]) {
    const to = `${Object.keys(attributes)[0]}@ascii.test`
    const id = await post({ ...attributes, to })
    await attempted(id, 1)
    assert.deepEqual(
      heardBy(to).filter(({ message }) => /[\u0080-\uffff]/.test(message)),
      [],
      'no 8-bit mail',
    )
    const shown = await show(id)
    assert.equal(shown.status, 'bounced')
    assert.equal(shown.recipients[0]?.enhanced_code, '5.6.7')
  }
})

// ---- retries ----

test('retries a greylisted email five minutes after 451 (D26)', async () => {
  receiver('grey.test')
  rcpt.set('a@grey.test', '451 4.7.1 Greylisted, come back later')
  const id = await post({ to: 'a@grey.test' })
  const put = await attempted(id, 1)
  assert.equal(put.status, 'queued')
  assert.deepEqual(times(put), [])
  assert.deepEqual(
    [put.recipients[0]?.status, put.recipients[0]?.smtp_code, put.recipients[0]?.enhanced_code],
    ['queued', 451, '4.7.1'],
  )
  assert.deepEqual(eventTypes(id), ['email.delayed'])
  const due = Date.parse(put.recipients[0]!.next_attempt_at!)
  about(due - postrider.clock.now(), 5 * MINUTE, 'first delay')
  rcpt.delete('a@grey.test')
  // A moment before, the email stays queued even if the engine is woken.
  postrider.clock.leap(due - postrider.clock.now() - 1)
  postrider.appliance.engine.ring()
  receiver('bystander.test')
  await become(await post({ to: 'b@bystander.test' }), 'delivered')
  assert.equal((await show(id)).recipients[0]?.attempts, 1)
  postrider.clock.leap(1)
  const shown = await become(id, 'delivered')
  assert.equal(shown['sent_at'], iso(due))
  assert.equal(shown.recipients[0]?.attempts, 2)
  assert.deepEqual(eventTypes(id), ['email.delayed', 'email.sent', 'email.delivered'])
  assert.equal(heardBy('a@grey.test').length, 1)
})

test('retries a deferred email on the schedule of D26 with jitter, sends delayed events 4 hours apart, then fails it', async () => {
  receiver('never.test')
  rcpt.set('a@never.test', '450 4.2.1 Mailbox busy')
  const begun = postrider.clock.now()
  const id = await post({ to: 'a@never.test' })
  const schedule = [5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR]
  const deviations: number[] = []
  let last: Shown | undefined
  for (let attempt = 1; attempt < 60; attempt++) {
    last = await attempted(id, attempt)
    if (last.status !== 'queued') break
    const wanted = schedule[attempt - 1] ?? 6 * HOUR
    const wait = await turnToNext(id)
    about(wait, wanted, `delay ${attempt}`)
    deviations.push(wait / wanted)
    assert.ok(postrider.clock.now() < begun + 5 * DAY, 'nothing is tried after the lifetime')
  }
  assert.equal(last?.status, 'failed')
  assert.deepEqual(times(last), ['failed_at'])
  // It was not given up early: one more delay would have gone past five days.
  assert.ok(postrider.clock.now() + 6.6 * HOUR >= begun + 5 * DAY)
  assert.equal(last.recipients[0]?.next_attempt_at, null)
  assert.equal(last.recipients[0]?.smtp_code, 450)
  // Jitter: the delays differ, in both directions.
  assert.ok(new Set(deviations.map((deviation) => deviation.toFixed(3))).size > 5)
  assert.ok(deviations.some((deviation) => deviation < 1) && deviations.some((deviation) => deviation > 1))

  const told = events(id)
  assert.equal(told.at(-1)?.type, 'email.bounced')
  assert.equal(told.at(-1)?.data['kind'], 'failed')
  const delays = told.slice(0, -1)
  assert.ok(delays.every(({ type }) => type === 'email.delayed'))
  assert.equal(delays[0]?.at, begun, 'on the first deferral')
  for (const [index, { at }] of delays.entries())
    if (index > 0) assert.ok(at - delays[index - 1]!.at >= 4 * HOUR, 'at most every four hours')
  // Every attempt of the six-hour schedule causes an event, the early ones do not.
  assert.ok(delays.length >= 17 && delays.length <= 22, `${delays.length} delayed events`)
})

test('defers with 4.4.3 while DNS does not answer, then delivers', async () => {
  receiver('dark.test')
  postrider.dns.fail(true)
  const id = await post({ to: 'a@dark.test' })
  const put = await attempted(id, 1)
  postrider.dns.fail(false)
  assert.equal(put.status, 'queued')
  assert.equal(put.recipients[0]?.enhanced_code, '4.4.3')
  await turnToNext(id)
  await become(id, 'delivered')
})

test('retries with the same Message-ID and the status sent if the connection ends after the final dot', async () => {
  receiver('cut.test')
  final.set('a@cut.test', 'close')
  const id = await post({ to: 'a@cut.test' })
  const put = await attempted(id, 1)
  assert.equal(put.status, 'sent')
  assert.deepEqual(times(put), ['sent_at'])
  assert.deepEqual([put.recipients[0]?.status, put.recipients[0]?.smtp_code], ['queued', null])
  assert.ok(put.recipients[0]?.next_attempt_at)
  const { sent_at } = put
  final.delete('a@cut.test')
  await turnToNext(id)
  const shown = await become(id, 'delivered')
  assert.equal(shown['sent_at'], sent_at)
  assert.notEqual(shown['delivered_at'], sent_at)
  assert.deepEqual(eventTypes(id).toSorted(), ['email.delayed', 'email.delivered', 'email.sent'])
  const copies = heardBy('a@cut.test')
  assert.equal(copies.length, 2)
  assert.equal(new Set(copies.map(({ message }) => /^Message-ID: (.*)\r$/m.exec(message)?.[1])).size, 1)
  assert.ok(copies[0]?.message.includes(shown['message_id']!))
})

test('retries after a temporary rejection of the final dot, and bounces after a permanent one', async () => {
  receiver('later.test')
  final.set('a@later.test', '451 4.3.0 Out of resources')
  const id = await post({ to: 'a@later.test' })
  assert.equal((await attempted(id, 1)).status, 'sent')
  final.set('a@later.test', '550 5.7.1 No')
  await turnToNext(id)
  assert.deepEqual(times(await become(id, 'bounced')), ['bounced_at', 'sent_at'])
  assert.deepEqual(eventTypes(id).toSorted(), ['email.bounced', 'email.delayed', 'email.sent'])
})

// ---- TLS ----

// It sends only over TLS, which the receiving server does not offer.
setUp(async () => {
  const strict = await postrider.activeDomain('strict.test')
  const { body, status } = await postrider.api('PATCH', `/domains/${strict.id}`, {
    data: { type: 'domains', id: strict.id, attributes: { tls_policy: 'Require' } },
  })
  assert.equal(status, 200, JSON.stringify(body))
})

test('tls_policy Require defers and finally fails for a server without TLS, never in clear text (D18)', async () => {
  receiver('clear.test')
  const id = await post({ from: 'ann@strict.test', to: 'a@clear.test' })
  let shown = await attempted(id, 1)
  assert.equal(shown.status, 'queued')
  assert.match(shown.recipients[0]?.enhanced_code ?? '', /^4\.7\./)
  for (let attempt = 2; shown.status === 'queued'; attempt++) {
    assert.ok(attempt < 60)
    await turnToNext(id)
    shown = await attempted(id, attempt)
  }
  assert.equal(shown.status, 'failed')
  assert.deepEqual(times(shown), ['failed_at'])
  assert.equal(heardBy('a@clear.test').length, 0)
})

test('tls_policy of one sending domain does not delay email of another to the same recipient domain', async () => {
  receiver('shared.test')
  const strict = await post({ from: 'ann@strict.test', to: 'a@shared.test' })
  const put = await attempted(strict, 1)
  assert.equal(put.status, 'queued')
  // The receiving server is up, and takes mail in clear text: the clock is not turned.
  await become(await post({ from: 'ann@second.test', to: 'b@shared.test' }), 'delivered')
})

test('defers only the emails of the sending domain that requires TLS', async () => {
  receiver('crowd.test')
  const all = await Promise.all(
    Array.from({ length: 60 }, (_, n) =>
      post({ from: n % 2 === 0 ? 'ann@strict.test' : 'ann@second.test', to: `n${n}@crowd.test` }),
    ),
  )
  await Promise.all(all.filter((_, n) => n % 2 === 1).map((id) => attempted(id, 1)))
  const shown = await Promise.all(all.filter((_, n) => n % 2 === 1).map(show))
  for (const { recipients } of shown) assert.doesNotMatch(recipients[0]?.response ?? '', /TLS/)
  await Promise.all(all.filter((_, n) => n % 2 === 0).map((id) => attempted(id, 1)))
  assert.equal(exchanger.heard.filter(({ from, to }) => /@crowd/.test(to[0]!) && /strict/.test(from)).length, 0)
})

// ---- lanes ----

test('unreachable or silent domains do not delay others', async () => {
  receiver('dead.test', '127.0.0.2')
  receiver('silent.test')
  for (let n = 0; n < 30; n++) rcpt.set(`n${n}@silent.test`, '')
  await Promise.all(
    Array.from({ length: 30 }, (_, n) => [post({ to: `n${n}@silent.test` }), post({ to: `n${n}@dead.test` })]).flat(),
  )
  receiver('alive.test')
  const alive = await Promise.all(Array.from({ length: 20 }, (_, n) => post({ to: `n${n}@alive.test` })))
  const shown = await Promise.all(alive.map((id) => become(id, 'delivered')))
  // By the clock no time has passed, so no email waited for a timeout.
  for (const { created_at, delivered_at } of shown) assert.equal(delivered_at, created_at)
  rcpt.clear()
  exchanger.cut()
})

test('reuses a connection for the next email to the same domain', async () => {
  receiver('again.test')
  await become(await post({ to: 'a@again.test' }), 'delivered')
  const { connections } = exchanger
  for (let n = 0; n < 5; n++) await become(await post({ to: `n${n}@again.test` }), 'delivered')
  assert.equal(exchanger.connections, connections)
  // An email that is refused does not cost the connection either.
  rcpt.set('x@again.test', '550 5.1.1 who')
  await become(await post({ to: 'x@again.test' }), 'bounced')
  await become(await post({ to: 'b@again.test' }), 'delivered')
  assert.equal(exchanger.connections, connections)
})

test('a connection that the server closed while idle costs no attempt', async () => {
  receiver('idle.test')
  await become(await post({ to: 'a@idle.test' }), 'delivered')
  exchanger.cut()
  const id = await post({ to: 'b@idle.test' })
  const shown = await become(id, 'delivered')
  assert.equal(shown.recipients[0]?.attempts, 1)
  assert.deepEqual(eventTypes(id), ['email.sent', 'email.delivered'])
})

test('421 pauses the whole domain, but no other (D34)', async () => {
  receiver('busy.test')
  toMail = '421 4.3.2 Shutting down'
  const first = await post({ to: 'a@busy.test' })
  const put = await attempted(first, 1)
  toMail = undefined
  assert.equal(put.status, 'queued')
  assert.equal(put.recipients[0]?.smtp_code, 421)
  const commands = exchanger.commands.length
  const second = await post({ to: 'b@busy.test' })
  receiver('calm.test')
  await become(await post({ to: 'c@calm.test' }), 'delivered')
  assert.equal((await show(second)).status, 'queued')
  assert.ok(!exchanger.commands.slice(commands).some((line) => line.includes('@busy.test')))
  // In the end both are delivered, the second without its own rejection.
  await turnToNext(first)
  await Promise.all([become(first, 'delivered'), become(second, 'delivered')])
  assert.deepEqual(eventTypes(second), ['email.sent', 'email.delivered'])
})

test('retries all queued emails five minutes after a short outage of their domain (D26)', async () => {
  receiver('blink.test', '127.0.0.2')
  const ids = await Promise.all(Array.from({ length: 60 }, (_, n) => post({ to: `n${n}@blink.test` })))
  const put = await Promise.all(ids.map((id) => attempted(id, 1)))
  for (const { recipients } of put)
    about(Date.parse(recipients[0]!.next_attempt_at!) - postrider.clock.now(), 5 * MINUTE, 'first delay')
  receiver('blink.test')
  // The addresses of a receiving server are looked up for every connection. Six minutes are more than 5.5.
  postrider.clock.leap(6 * MINUTE)
  receiver('tick.test')
  await become(await post({ to: 'a@tick.test' }), 'delivered')
  const { store } = postrider.appliance.deps
  const waiting = raw<{ n: number }>(
    `select count(*) as n from deliveries where lane = 'blink.test' and status <> 'delivered'`,
  )
  await until(() => store.first(waiting)!.n === 0, 'all of them')
})

test('after 421 to one final dot, the emails behind it are not sent and not reported as sent', async () => {
  receiver('shutting.test')
  const held = Array.from({ length: 20 }, (_, n) => `n${n}@shutting.test`)
  const answers = held.map((address) => {
    const { promise, resolve } = Promise.withResolvers<string>()
    final.set(address, promise)
    return resolve
  })
  await Promise.all(held.map((to) => post({ to })))
  await until(() => exchanger.heard.filter(({ to }) => to[0]!.endsWith('@shutting.test')).length === 20)
  const behind = await Promise.all(Array.from({ length: 5 }, (_, n) => post({ to: `behind${n}@shutting.test` })))
  const { store } = postrider.appliance.deps
  const claimed = raw<{ n: number }>(
    `select count(*) as n from deliveries where address like 'behind%@shutting.test' and attempts > 0`,
  )
  await until(() => store.first(claimed)!.n === 5)
  exchanger.script.greeting = '421 4.3.2 Shutting down'
  for (const answer of answers) answer('421 4.3.2 Shutting down')
  await until(() => store.first(claimed)!.n <= 1, 'only one of them was tried on a new connection')
  const shown = await Promise.all(
    behind.map((id) =>
      until(async () => {
        const mail = await show(id)
        return mail.status === 'queued' ? mail : undefined
      }),
    ),
  )
  for (const { sent_at } of shown) assert.equal(sent_at, null)
  assert.equal(exchanger.heard.filter(({ to }) => to[0]!.startsWith('behind')).length, 0)
  exchanger.script.greeting = '220 mx.test ESMTP'
})

// ---- actions of the owner in the meantime ----

test('does not send an email that is deleted while it is queued', async () => {
  receiver('gone.test')
  rcpt.set('a@gone.test', '451 4.7.1 later')
  const id = await post({ to: 'a@gone.test' })
  await attempted(id, 1)
  rcpt.delete('a@gone.test')
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 404)
  postrider.clock.leap(7 * HOUR)
  await become(await post({ to: 'b@gone.test' }), 'delivered')
  assert.equal(heardBy('a@gone.test').length, 0)
  const { store } = postrider.appliance.deps
  assert.equal(
    store.first(raw<{ n: number }>(`select count(*) as n from deliveries where address = 'a@gone.test'`))?.n,
    0,
  )
})

test('does not send an email that is deleted while it waits for a connection', async () => {
  receiver('full.test')
  const held = Array.from({ length: 20 }, (_, n) => `n${n}@full.test`)
  for (const address of held) rcpt.set(address, '')
  await Promise.all(held.map((to) => post({ to })))
  // All connections of the lane are used by sessions without a reply.
  await until(() => held.every((address) => exchanger.commands.includes(`RCPT TO:<${address}>`)))
  const id = await post({ to: 'deleted@full.test' })
  const kept = await post({ to: 'kept@full.test' })
  const { store } = postrider.appliance.deps
  const claimed = raw<{ n: number }>(
    `select count(*) as n from deliveries where address like '%ed@full.test' or address like 'kept@%'`,
  )
  await until(() => store.first(claimed)?.n === 2)
  await until(
    () =>
      store.first(raw<{ status: string }>(`select status from deliveries where address = 'deleted@full.test'`))
        ?.status === 'active',
  )
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  rcpt.clear()
  exchanger.cut()
  await become(kept, 'delivered')
  assert.equal(heardBy('deleted@full.test').length, 0)
})

test('an email deleted while it is composed is not reported as a problem, and its lane continues', async (t) => {
  receiver('composed.test')
  const { value: send } = Object.getOwnPropertyDescriptor(WorkerSession.prototype, 'send') as {
    value: WorkerSession['send']
  }
  let id = ''
  t.mock.method(WorkerSession.prototype, 'send', function (this: WorkerSession, ...given: Parameters<typeof send>) {
    const [letter] = given
    if (!('content' in letter && 'file' in letter.content)) return send.apply(this, given)
    // The content is a file, which is deleted with the email before the worker reads it.
    const sending = (async () => {
      await until(() => id)
      assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
      return send.apply(this, given)
    })()
    const verdicts = sending.then((each) => each.verdicts)
    return { verdicts, handed: async () => (await sending).handed() }
  })
  id = await post({ to: 'a@composed.test', html: `<p>${'large '.repeat(60_000)}</p>` })
  await until(async () => (await postrider.api('GET', `/outbound-emails/${id}`)).status === 404)
  // The clock is not turned: a lane that waits for this server would keep this one.
  await become(await post({ to: 'b@composed.test' }), 'delivered')
  assert.equal(heardBy('a@composed.test').length, 0)
  assert.deepEqual(
    postrider.appliance.deps.troubles.list().filter(({ name }) => name === 'delivery'),
    [],
  )
})

test('the result of a deleted email does not apply to the next one', async () => {
  receiver('old.test')
  receiver('new.test')
  const [old, fresh] = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  final.set('a@old.test', old.promise).set('b@new.test', fresh.promise)
  const gone = await post({ to: 'a@old.test' })
  await until(() => heardBy('a@old.test').length === 1)
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${gone}`)).status, 204)
  const id = await post({ to: 'b@new.test' })
  await until(() => heardBy('b@new.test').length === 1)
  old.resolve('550 5.7.1 No')
  // The next mail on that connection shows that the answer was dealt with.
  const other = await post({ to: 'c@old.test' })
  await become(other, 'delivered')
  const meanwhile = await show(id)
  assert.equal(meanwhile.status, 'queued')
  assert.equal(meanwhile.recipients[0]?.smtp_code, null)
  assert.deepEqual(eventTypes(id), [])
  fresh.resolve('250 2.0.0 ok')
  assert.equal((await become(id, 'delivered')).recipients[0]?.smtp_code, 250)
  assert.deepEqual(eventTypes(id), ['email.sent', 'email.delivered'])
})

test('never reuses the return path of a deleted email (D31)', async () => {
  receiver('paths.test')
  const first = await post({ to: 'a@paths.test' })
  await become(first, 'delivered')
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${first}`)).status, 204)
  await become(await post({ to: 'b@paths.test' }), 'delivered')
  assert.notEqual(heardBy('a@paths.test')[0]?.from, heardBy('b@paths.test')[0]?.from)
})

test('deletes a delivered email', async () => {
  receiver('after.test')
  const id = await post({ to: 'a@after.test' })
  await become(id, 'delivered')
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 404)
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 404)
  assert.equal(heardBy('a@after.test').length, 1)
})

test('rejects queued email of a removed sending domain without sending it (D23, D25)', async () => {
  const doomed = await postrider.activeDomain('doomed.test')
  receiver('waiting.test')
  rcpt.set('a@waiting.test', '451 4.7.1 later')
  const id = await post({ from: 'ann@doomed.test', to: 'a@waiting.test' })
  await attempted(id, 1)
  rcpt.delete('a@waiting.test')
  assert.equal((await postrider.api('DELETE', `/domains/${doomed.id}`)).status, 204)
  const next = (await show(id)).recipients[0]?.next_attempt_at
  if (next) await turnToNext(id)
  const shown = await become(id, 'rejected')
  assert.deepEqual(times(shown), ['rejected_at'])
  assert.equal(shown.recipients[0]?.status, 'rejected')
  assert.deepEqual(eventTypes(id), ['email.delayed', 'email.rejected'])
  assert.equal(heardBy('a@waiting.test').length, 0)
})

test('continues with the published key when a domain returns to verifying (D21)', async () => {
  const turning = await postrider.activeDomain('turning.test')
  receiver('patient.test')
  rcpt.set('a@patient.test', '451 4.7.1 later')
  const id = await post({ from: 'ann@turning.test', to: 'a@patient.test' })
  await attempted(id, 1)
  rcpt.delete('a@patient.test')
  const { status } = await postrider.api('PATCH', `/domains/${turning.id}`, {
    data: { type: 'domains', id: turning.id, attributes: { mail_from_prefix: 'elsewhere' } },
  })
  assert.equal(status, 200)
  await turnToNext(id)
  await become(id, 'delivered')
})

test('queues email without an attempt and with the reason while the DKIM record of its domain is missing (D68)', async () => {
  const bare = await postrider.activeDomain('bare.test')
  receiver('careful.test')
  rcpt.set('a@careful.test', '451 4.3.0 later')
  const id = await post({ from: 'ann@bare.test', to: 'a@careful.test' })
  await attempted(id, 1)
  rcpt.delete('a@careful.test')
  const { deps } = postrider.appliance
  // A failed lookup does not change the result.
  postrider.dns.fail(true)
  await checkDomain(deps, bare.key)
  postrider.dns.fail(false)
  assert.ok('key' in signingKeyOf(deps.store, bare.key)!)
  postrider.publish(bare, ({ record_type }) => record_type !== 'DKIM')
  // One answer without the record does not change the result: it is looked up again within a minute (D217).
  const checked = await checkDomain(deps, bare.key)
  assert.ok('key' in signingKeyOf(deps.store, bare.key)!)
  assert.ok(checked!.next_check_at! - postrider.clock.now() <= MINUTE)
  const notices = () =>
    listNotices(deps.store).filter(({ subject }) => subject.startsWith('Email from bare.test is held'))
  assert.equal(notices().length, 0)
  postrider.clock.leap(MINUTE)
  await until(() => 'unseen' in signingKeyOf(deps.store, bare.key)!, 'the second check')
  await until(() => notices().length === 1, 'the notice')
  await turnToNext(id)
  const [waits] = (
    await until(async () => {
      const shown = await show(id)
      return shown.recipients[0]!.response?.includes('DKIM') ? shown : undefined
    })
  ).recipients
  assert.equal(waits!.attempts, 1)
  assert.match(waits!.response!, /record pr\w+\._domainkey\.bare\.test is missing in DNS/)
  assert.equal(heardBy('a@careful.test').length, 0)
  // Neither the lane nor the server has a problem.
  await become(await post({ to: 'b@careful.test' }), 'delivered')
  assert.equal((await postrider.raw('/health')).body.status, 'ok')
  postrider.publish(bare)
  await checkDomain(deps, bare.key)
  await turnToNext(id)
  assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 2)
})

// ---- over all of the above, or four emails if the test runs separately ----

test('each email has one final status, no duplicate event, and the status of its events', async () => {
  const { store } = postrider.appliance.deps
  receiver('every.test')
  rcpt.set('b@every.test', '550 5.1.1 No such user here').set('c@every.test', '451 4.7.1 Later')
  final.set('d@every.test', '451 4.3.0 Out of resources')
  const [first, second, ...later] = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) => post({ to: `${name}@every.test` })),
  )
  await become(first!, 'delivered')
  await become(second!, 'bounced')
  for (const id of later) await attempted(id, 1)
  const twice = store.all(
    raw(`select email_key, type, count(*) as n from events where type in ('email.sent', 'email.delivered', 'email.bounced', 'email.rejected')
         group by email_key, type having n > 1`),
  )
  assert.deepEqual(twice, [])
  const EVENT: Record<string, string> = {
    sent: 'email.sent',
    delivered: 'email.delivered',
    bounced: 'email.bounced',
    failed: 'email.bounced',
    rejected: 'email.rejected',
  }
  const rows = store.all(
    raw<{ key: number; status: string; types: string | null }>(
      `select e.key, e.status, (select group_concat(type) from events where email_key = e.key) as types from outbound_emails e`,
    ),
  )
  assert.ok(rows.length >= 4)
  for (const { status, types } of rows) {
    const list = types?.split(',') ?? []
    if (status === 'queued') assert.ok(list.every((type) => type === 'email.delayed'))
    else assert.ok(list.includes(EVENT[status]!), `${status}: ${types}`)
    assert.ok(list.filter((type) => /delivered|bounced|rejected/.test(type)).length <= 1, `${status}: ${types}`)
  }
})

test('keeps email that arrives during a route lookup that fails', async () => {
  const ids = await Promise.all(Array.from({ length: 30 }, (_, n) => post({ to: `first${n}@no-such.test` })))
  // Posted in small steps, so that some arrive while the first are being settled.
  for (let n = 0; n < 60; n++) ids.push(await post({ to: `later${n}@no-such.test` }))
  for (const id of ids) await become(id, 'failed')
})
