// Erasure requests during other work: emails that are queued, active or held, campaigns, other accounts.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, test } from 'node:test'
import { SECOND } from '../../src/base/clock.ts'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { forgetInMails } from '../../src/mail/forget.ts'
import { recordsAbout } from '../../src/privacy/bundle.ts'
import { readLedger } from '../../src/privacy/ledger.ts'
import { erasingOf } from '../../src/privacy/run.ts'
import { filesWith } from '../kit/files-with.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { deliver, receive } from '../kit/sender.ts'
import { block, homeOf, report } from '../inbound/home.ts'
import { until } from '../kit/until.ts'
import type { EventType } from '../../src/store/states/events.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import { makeHook } from '../webhooks/hooks.ts'

const kit = campaignKit(() => postrider)
const home = homeOf(
  () => postrider,
  () => exchanger,
)

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
setUp(async () => {
  const inbox = document('inboxes', { name: 'Me', address: 'desk@here.test' })
  assert.equal((await postrider.api('POST', '/inboxes', inbox)).status, 201)
})
afterEach(() => {
  exchanger.script = {}
})

const send = async (to: string, more: Record<string, unknown> = {}) => {
  const attributes = { from: 'me@here.test', to, subject: `To ${to}`, html: `<p>Dear ${to}</p>`, ...more }
  const sent = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  return { status: sent.status, body: sent.body, id: sent.body.data?.id as string }
}
const show = async (id: string) => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes
const forget = (address: string) => postrider.api('DELETE', `/recipients/${encodeURIComponent(address)}/forget`)
const pending = (): boolean =>
  postrider.appliance.deps.store.first(raw(`select 1 from privacy_requests where status = 'pending'`)) !== undefined
const erased = async (address: string): Promise<void> => {
  const asked = await forget(address)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  await until(() => !pending(), 'the erasure')
}
const heard = (address: string): number => exchanger.heard.filter(({ to }) => to.includes(address)).length
const eventsOf = (id: string): string[] =>
  postrider.appliance.deps.store
    .all(
      raw<{ type: string }>(
        'select v.type from events v join outbound_emails e on e.key = v.email_key where e.id = ? order by v.key',
        [id],
      ),
    )
    .map(({ type }) => type)

test('a queued email is sent to the other recipients without the erased address', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const own = await send('wait@there.test')
  const both = await send('bob@there.test', { cc: ['wait@there.test'], text: 'With wait@there.test and me' })
  const named = await send('bob@there.test', { text: 'Ask wait@there.test' })
  const settled = raw(`select 1 from deliveries where attempts = 0 or status = 'active'`)
  await until(() => postrider.appliance.deps.store.first(settled) === undefined, 'the deferrals')
  assert.equal((await show(named.id)).status, 'queued')
  exchanger.script = {}
  await erased('wait@there.test')
  const mine = await show(own.id)
  assert.equal(mine.status, 'suppressed')
  assert.notEqual(mine.suppressed_at, null)
  assert.deepEqual(eventsOf(own.id), ['email.delayed', 'email.rejected'])
  assert.deepEqual(
    (await show(both.id)).recipients.map((each: { status: string }) => each.status),
    ['queued', 'suppressed'],
  )
  postrider.clock.leap(60 * 60 * SECOND)
  await until(() => heard('bob@there.test') === 2, 'the mails to others')
  assert.equal(heard('wait@there.test'), 0)
  assert.ok(exchanger.heard.every(({ message }) => !message.includes('wait@there.test')))
  assert.deepEqual(await filesWith(postrider.dataDir, 'wait@there.test'), [])
})

test('erases the result of a delivery in progress', async () => {
  const reply = Promise.withResolvers<string>()
  exchanger.script = { final: () => reply.promise }
  const { id } = await send('active@there.test')
  await until(() => heard('active@there.test') === 1, 'the attempt')
  const asked = await forget('active@there.test')
  assert.equal(asked.status, 202)
  await until(
    () =>
      postrider.appliance.deps.store.first(
        raw('select 1 from privacy_requests where next_attempt_at > requested_at and id = ?', [asked.body.data.id]),
      ),
    'the request to wait',
  )
  reply.resolve('550 5.1.1 <active@there.test> unknown user')
  await until(async () => (await show(id)).status === 'bounced', 'the bounce')
  postrider.clock.leap(10 * SECOND)
  await until(() => !pending(), 'the erasure')
  assert.deepEqual(await filesWith(postrider.dataDir, 'active@there.test'), [])
  const again = await send('active@there.test')
  assert.equal(again.status, 422)
  assert.equal(again.body.errors[0].code, 'recipient_suppressed')
})

test('erases a held email', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const { id } = await send('held@there.test')
  await until(async () => (await show(id)).recipients[0].attempts > 0, 'the deferral')
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw(`update deliveries set status = 'held' where address = 'held@there.test'`)),
  )
  await erased('held@there.test')
  assert.equal((await show(id)).status, 'suppressed')
  assert.deepEqual(await filesWith(postrider.dataDir, 'held@there.test'), [])
})

test('an idempotency key stays used after an erasure', async () => {
  const given = { idempotency_key: 'once', cc: ['key@there.test'] }
  assert.equal((await send('carl@there.test', given)).status, 201)
  await until(() => heard('carl@there.test') === 1 && heard('key@there.test') === 1, 'the mail')
  await until(
    async () =>
      eventsOf((await postrider.api('GET', '/outbound-emails?sort=-created_at')).body.data[0].id).filter(
        (type) => type === 'email.delivered',
      ).length === 2,
    'the settling',
  )
  await erased('key@there.test')
  assert.equal((await send('carl@there.test', given)).status, 409)
  assert.equal(heard('carl@there.test'), 1)
})

test('a running campaign continues without the erased recipient', async () => {
  const audience = await kit.audience(domain)
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  await kit.fill(audience, ['camp@there.test', 'dora@there.test'])
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(
    () =>
      postrider.appliance.deps.store.first(
        raw(`select 1 from deliveries where address = 'camp@there.test' and status = 'queued' and attempts > 0`),
      ),
    'the deferral',
  )
  exchanger.script = {}
  await erased('camp@there.test')
  postrider.clock.leap(60 * 60 * SECOND)
  await until(async () => (await kit.show(campaign))['status'] === 'sent', 'the end')
  assert.equal(heard('camp@there.test'), 0)
  assert.equal(heard('dora@there.test'), 1)
  assert.equal((await kit.stats(campaign))['deliveries'], 1)
})

test('suppressions of every reason survive, and an import does not resubscribe an unsubscribed contact', async () => {
  const audience = await kit.audience(domain, 'Left')
  const now = postrider.clock.now()
  for (const reason of ['hard_bounce', 'complaint', 'manual', 'unsubscribe'] as const) {
    const address = `${reason.replace('_', '')}@there.test`
    await kit.fill(audience, [address])
    const about = { user_key: 1, domain_key: domain.key, address, reason, source: 'manual' as const }
    await postrider.appliance.deps.store.write((tx) =>
      suppress(tx, { ...about, scope: reason === 'unsubscribe' ? 'marketing' : 'all' }, now),
    )
    await erased(address)
    assert.deepEqual(await filesWith(postrider.dataDir, address), [], reason)
    const sent = await send(address, { subject: 'x', html: 'x' })
    assert.equal(sent.status, 422, reason)
    await kit.fill(audience, [address])
    if (reason === 'manual') continue
    const { data } = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body
    const contact = data.find((each: { attributes: { email: string } }) => each.attributes.email === address)
    assert.notEqual(contact.attributes.status, 'subscribed', reason)
  }
  const before = exchanger.heard.length
  await kit.send(await kit.draft(audience))
  for (const address of ['hardbounce', 'complaint', 'manual', 'unsubscribe'])
    assert.ok(
      !exchanger.heard.slice(before).some(({ to, message }) => to[0]!.startsWith(address) && /List-Id/.test(message)),
    )
})

test('concurrent repeats are one request, and unknown or invalid addresses return 404 or 422', async () => {
  const audience = await kit.audience(domain, 'Repeats')
  await kit.fill(audience, ['xrep@there.test', 'rep@there.test'])
  const lines = readLedger(postrider.dataDir).length
  const answers = await Promise.all(Array.from({ length: 5 }, () => forget('rep@there.test')))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]))
  assert.equal(new Set(answers.map(({ body }) => body.data.id)).size, 1)
  await until(() => !pending(), 'the erasure')
  const later = await forget('REP@there.test')
  assert.equal(later.body.data.id, answers[0]!.body.data.id)
  assert.equal(later.body.data.attributes.status, 'done')
  assert.equal(readLedger(postrider.dataDir).length, lines + 1)
  assert.equal((await forget('ep@there.test')).status, 404, 'a part of another address')
  for (const wrong of ['no%20at', 'nobody', 'a@b@c', '%00', 'a%20b@there.test'])
    assert.equal((await postrider.api('DELETE', `/recipients/${wrong}/forget`)).status, 422, wrong)
  assert.equal((await postrider.asOther('DELETE', '/recipients/xrep%40there.test/forget')).status, 404)
  assert.equal((await postrider.asOther('GET', '/recipients/xrep%40there.test/data')).status, 404)
})

test('an erasure keeps the lock of the data directory', async () => {
  const audience = await kit.audience(domain, 'Locks')
  await kit.fill(audience, ['lock@there.test'])
  await erased('lock@there.test')
  const { execFileSync } = await import('node:child_process')
  const taken = execFileSync(process.execPath, [
    '--input-type=module',
    '-e',
    `import { takeLock } from ${JSON.stringify(new URL('../../src/store/lock.ts', import.meta.url).href)}
     process.stdout.write(String(takeLock(${JSON.stringify(postrider.dataDir)}) !== undefined))`,
  ])
  assert.equal(taken.toString(), 'false')
})

test('blocks emails to an erased recipient until they subscribe again', async () => {
  const audience = await kit.audience(domain, 'Again')
  await kit.fill(audience, ['again@there.test'])
  await erased('again@there.test')
  const refused = await send('again@there.test', { subject: 'x', html: 'x' })
  assert.equal(refused.status, 422)
  assert.match(refused.body.errors[0].detail, /erased on request/)
  // An import stores the address again, but does not resubscribe it.
  await kit.fill(audience, ['again@there.test'])
  const before = exchanger.heard.length
  const campaign = await kit.draft(audience)
  await kit.send(campaign)
  assert.equal(exchanger.heard.length, before)
  await erased('again@there.test')
  assert.deepEqual(await filesWith(postrider.dataDir, 'again@there.test'), [])

  const { data } = (await postrider.api('GET', '/suppressions?filter[email]=Again@there.test')).body
  assert.deepEqual(
    data.map(({ attributes: { email, reason, scope } }: { attributes: Record<string, string> }) => [
      email!.length,
      reason,
      scope,
    ]),
    [[65, 'manual', 'all']],
  )
  assert.equal((await postrider.api('DELETE', `/suppressions/${data[0].id}`)).status, 204)
  assert.equal((await send('again@there.test')).status, 201)
})

test('an old unsubscribe link works without storing the address again', async () => {
  const { config, keyring, store } = postrider.appliance.deps
  const audience = await kit.audience(domain, 'Links')
  await kit.fill(audience, ['link@there.test'])
  await erased('link@there.test')
  const leaving = { delivery: 1, domain: domain.key, audience: 1, email: 'link@there.test' }
  const path = new URL(unsubscribeUrl(keyring, config.http.public_url, leaving)).pathname
  const post = (body: string) =>
    postrider.raw(path, { method: 'POST', headers: { 'content-type': 'application/x-www-form-urlencoded' }, body })
  const left = () =>
    store.all(
      raw<{ email: string }>(`select email from suppressions where reason = 'unsubscribe' and email like '#%' and
      email = (select '#' || recipient_hash from privacy_requests order by key desc limit 1)`),
    )
  assert.equal((await post('List-Unsubscribe=One-Click')).status, 200)
  assert.equal(left().length, 1)
  assert.match((await postrider.raw(path)).body, /value="subscribe"/)
  assert.equal((await post('action=subscribe')).status, 200)
  assert.equal(left().length, 0)
  await post('List-Unsubscribe=One-Click')
  store.checkpoint()
  assert.deepEqual(await filesWith(postrider.dataDir, 'link@there.test'), [])
})

test('deletes bundles of other recipients that contain the erased address', async () => {
  const message = (cc: string) => `From: fritz@there.test\nTo: desk@here.test${cc}\nSubject: Both\n\nHello.\n`
  await receive(postrider, {
    from: 'fritz@there.test',
    to: 'desk@here.test',
    message: message('\nCc: gerda@there.test'),
  })
  await receive(postrider, {
    from: 'hanna@there.test',
    to: 'desk@here.test',
    message: message('').replace('fritz', 'hanna'),
  })
  const bundles = () => readdirSync(join(postrider.dataDir, 'exports')).length
  for (const address of ['fritz@there.test', 'hanna@there.test'])
    assert.equal((await postrider.api('GET', `/recipients/${address}/data`)).status, 202)
  await until(() => !pending(), 'the exports')
  assert.equal(bundles(), 2)
  await erased('gerda@there.test')
  assert.equal(bundles(), 1)
  assert.deepEqual(await filesWith(postrider.dataDir, 'gerda@there.test'), [])
})

test('an endpoint response with the address during the erasure is stored without it', async () => {
  const answer = Promise.withResolvers<void>()
  receiver.answer = (_, response) =>
    void answer.promise.then(() => response.writeHead(200).end('thanks, echo@there.test'))
  const hook = await makeHook(postrider, receiver, domain, ['email.delivered'])
  await send('echo@there.test', { subject: 'x', html: 'x' })
  await hook.arrived(1)
  await erased('echo@there.test')
  answer.resolve()
  const store = postrider.appliance.deps.store
  const settled = raw<{ body: string | null }>(`select a.response_body as body from webhook_attempts a`)
  const [attempt] = await until(() => {
    const rows = store.all(settled)
    return rows.length > 0 ? rows : undefined
  }, 'the attempt on record')
  assert.equal(attempt!.body, null)
  store.checkpoint()
  assert.deepEqual(await filesWith(postrider.dataDir, 'echo@there.test'), [])
})

test('erases and exports an internationalised domain in both spellings', async () => {
  postrider.dns.set('xn--bcher-kva.test', 'MX', ['10 mx.there.test'])
  await send('idn@bücher.test')
  await until(() => exchanger.heard.some(({ to }) => to[0] === 'idn@xn--bcher-kva.test'), 'the mail')
  await send('bob@there.test', { text: 'Ask idn@bücher.test or IDN@xn--bcher-kva.test' })
  const records = recordsAbout(postrider.appliance.deps, postrider.user.key, 'idn@xn--bcher-kva.test')
  assert.equal(records['outbound_emails']!.length, 1)
  assert.equal(records['deliveries']!.length, 1)
  await erased('idn@bücher.test')
  for (const spelling of ['idn@bücher.test', 'idn@xn--bcher-kva.test'])
    assert.deepEqual(await filesWith(postrider.dataDir, spelling), [], spelling)
  assert.equal((await send('IDN@bücher.test')).status, 422)
})

test('erases an address that is only in events of a deleted email, a notification, a field or Reply-To', async () => {
  const { id } = await send('deleted@there.test', { subject: 'x', html: 'x' })
  await until(async () => (await show(id)).status === 'delivered', 'the delivery')
  await makeHook(postrider, receiver, domain, ['email.opened'])
  const audience = await kit.audience(domain, 'Said')
  await kit.fill(audience, [{ email: 'somebody@there.test', custom_fields: { parent: 'field@there.test' } }])
  await receive(postrider, {
    from: 'fritz@there.test',
    to: 'desk@here.test',
    message: 'From: f@there.test\nTo: desk@here.test\nReply-To: replyto@there.test\nSubject: x\n\nHello.\n',
  })
  await receive(postrider, {
    from: 'fritz@there.test',
    to: 'desk@here.test',
    message: 'From: f@there.test\nTo: desk@here.test\nSubject: x\n\nTo textual@there.test.\n',
  })
  await deliver(postrider.appliance.smtp[0]!, { from: 'notice@there.test', to: 'postmaster@here.test' })
  const store = postrider.appliance.deps.store
  await until(() => store.first(raw(`select 1 from notices where text like '%notice@there.test%'`)), 'the notice')
  await store.write((tx) =>
    tx.run(
      raw(
        `update events set data = json_set(data, '$.response', 'ok deleted@there.test') where key in (
        select v.key from events v join outbound_emails e on e.key = v.email_key where e.id = ?)`,
        [id],
      ),
    ),
  )
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  for (const name of ['field', 'replyto', 'textual', 'notice']) {
    await erased(`${name}@there.test`)
    assert.deepEqual(await filesWith(postrider.dataDir, `${name}@there.test`), [], name)
  }
  assert.equal((await forget('nobody@there.test')).status, 404)
})

test('drafts and queued emails from an erased sender use an address of the domain', async () => {
  await send('news@here.test', { subject: 'x', html: 'x' })
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const given = { from: 'news@here.test', reply_to: ['news@here.test'], subject: 'Waiting', html: 'x' }
  const waiting = await send('ingo@there.test', given)
  await until(async () => (await show(waiting.id)).recipients[0].smtp_code === 451, 'the deferral')
  const audience = await kit.audience(domain, 'From')
  const draft = await kit.draft(audience, { from_address: 'news@here.test', reply_to: 'news@here.test' })
  await erased('news@here.test')
  const { from_address, reply_to } = await kit.show(draft)
  assert.deepEqual({ from_address, reply_to }, { from_address: null, reply_to: null })
  exchanger.script = {}
  postrider.clock.leap(60 * 60 * SECOND)
  const mail = await until(
    () => exchanger.heard.find(({ message }) => message.includes('Subject: Waiting')),
    'the mail',
  )
  assert.match(mail.message, /^From: noreply@here\.test\r$/m)
  assert.doesNotMatch(mail.message, /^Reply-To:|erased/m)
})

test('a late report about an erased recipient stores no data about them', async () => {
  const { id, returnPath } = await home.send({ to: 'late@there.test' })
  await erased('late@there.test')
  const said = '550 5.1.1 <late@there.test> unknown'
  await home.comeHome({
    from: '',
    to: returnPath,
    message: report(returnPath, [block({ recipient: 'late@there.test', said })]),
  })
  const { recipients, status } = await show(id)
  assert.deepEqual([status, recipients[0].status, recipients[0].response], ['bounced', 'bounced', ''])
  const marks = raw(`select 1 from suppressions where email like '%erased.invalid'`)
  assert.equal(postrider.appliance.deps.store.first(marks), undefined)
})

test('keeps an email during its delivery, and reports it as left', async () => {
  const reply = Promise.withResolvers<string>()
  exchanger.script = { final: () => reply.promise }
  const { id } = await send('left@there.test')
  await until(() => heard('left@there.test') === 1, 'the attempt')
  const { keyring, store } = postrider.appliance.deps
  const erasing = erasingOf(keyring, postrider.user.key, 'left@there.test', postrider.clock.now())
  const walk = async (): Promise<boolean> => {
    let left = false
    for (let at: number | null = 0; at !== null;) {
      const from: number = at
      const done = await store.write((tx) => forgetInMails(tx, erasing, from, () => new Uint8Array()))
      left ||= done.left === true
      at = done.next
    }
    return left
  }
  assert.equal(await walk(), true)
  reply.resolve('250 2.0.0 ok')
  await until(async () => (await show(id)).status === 'delivered', 'the end')
  assert.equal(await walk(), false)
  assert.match((await show(id)).to, /erased/)
})

test('erases the address from payloads, subjects, texts and display names', async () => {
  const hook = await makeHook(postrider, receiver, domain)
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Z', address: 'z@here.test' }))
  const { id } = await send('"Zelda Quux" <zelda@there.test>', {
    subject: 'Zelda Quux, your results',
    cc: ['"Dora Dee" <dora@there.test>'],
  })
  await until(async () => (await show(id)).status === 'delivered', 'the delivery')
  const got = await receive(postrider, {
    from: 'zelda@there.test',
    to: 'z@here.test',
    message: 'From: Zelda Quux <zelda@there.test>\nTo: z@here.test\nSubject: Quux asks\n\nI am Zelda Quux.\n',
  })
  const payloads = (): string[] =>
    postrider.appliance.deps.store
      .all(raw<{ payload: string }>('select payload from outbound_webhooks'))
      .map(({ payload }) => payload)
      .filter((payload) => payload.includes(id) || payload.includes(got.id))
  const told = await until(() => {
    const all = payloads()
    return /results.*recipient":"dora@.*I am Zelda Quux/s.test(all.join()) ? all : undefined
  }, 'the payloads')
  await erased('zelda@there.test')

  assert.doesNotMatch(payloads().join(), /quux|zelda/i)
  assert.equal(payloads().length, told.length, 'what happened stays')
  for (const text of payloads()) {
    const { data, type } = JSON.parse(text) as { data: unknown; type: EventType }
    assert.doesNotThrow(() => CATALOGUE[type].data.parse(data), text)
  }
  const mail = await show(id)
  assert.match(mail.to, /^erased-\w+@erased\.invalid$/)
  assert.deepEqual(mail.cc, ['"Dora Dee" <dora@there.test>'])
  assert.deepEqual(await filesWith(postrider.dataDir, 'Quux'), [])
  await postrider.api('DELETE', `/webhooks/${hook.id}`)
})
