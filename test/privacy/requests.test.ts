// Requests to be forgotten beside everything else that goes on: mail that waits, is on its way or held, campaigns, other accounts.
import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { SECOND } from '../../src/base/clock.ts'
import { readLedger } from '../../src/privacy/ledger.ts'
import { filesWith } from '../kit/files-with.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/outbound/suppressions.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

let exchanger: TestExchanger
let postrider: TestAppliance
let domain: { id: string; key: number }
const kit = campaignKit(() => postrider)

before(async () => {
  exchanger = await startTestExchanger()
  postrider = await startTestAppliance({ config: { delivery: { port: exchanger.port } } })
  postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  domain = await postrider.activeDomain('here.test')
})
afterEach(() => {
  exchanger.script = {}
})
after(async () => {
  await exchanger.close()
  await postrider.stop()
})

const send = async (to: string, more: Record<string, unknown> = {}) => {
  const attributes = { from: 'me@here.test', to, subject: `To ${to}`, html: `<p>Dear ${to}</p>`, ...more }
  const sent = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
  return { status: sent.status, body: sent.body, id: sent.body.data?.id as string }
}
const show = async (id: string) => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes
const forget = (address: string) => postrider.api('DELETE', `/recipients/${encodeURIComponent(address)}/forget`)
const pending = (): boolean =>
  postrider.appliance.desk.store.first(raw(`select 1 from privacy_requests where status = 'pending'`)) !== undefined
const erased = async (address: string): Promise<void> => {
  const asked = await forget(address)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  await until(() => !pending(), 'the erasure')
}
const heard = (address: string): number => exchanger.heard.filter(({ to }) => to.includes(address)).length
const eventsOf = (id: string): string[] =>
  postrider.appliance.desk.store
    .all(
      raw<{ type: string }>(
        'select v.type from events v join outbound_emails e on e.key = v.email_key where e.id = ? order by v.key',
        [id],
      ),
    )
    .map(({ type }) => type)

test('mail that waits is not sent to the one who was forgotten, and is to the others, without the address', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const own = await send('wait@there.test')
  const both = await send('bob@there.test', { cc: ['wait@there.test'], text: 'With wait@there.test and me' })
  const named = await send('bob@there.test', { text: 'Ask wait@there.test' })
  const settled = raw(`select 1 from deliveries where attempts = 0 or status = 'active'`)
  await until(() => postrider.appliance.desk.store.first(settled) === undefined, 'the deferrals')
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

test('mail on its way: what its end says is erased as well', async () => {
  const reply = Promise.withResolvers<string>()
  exchanger.script = { final: () => reply.promise }
  const { id } = await send('active@there.test')
  await until(() => heard('active@there.test') === 1, 'the attempt')
  const asked = await forget('active@there.test')
  assert.equal(asked.status, 202)
  await until(
    () =>
      postrider.appliance.desk.store.first(
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

test('mail that is held', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  const { id } = await send('held@there.test')
  await until(async () => (await show(id)).recipients[0].attempts > 0, 'the deferral')
  await postrider.appliance.desk.store.write((tx) =>
    tx.run(raw(`update deliveries set status = 'held' where address = 'held@there.test'`)),
  )
  await erased('held@there.test')
  assert.equal((await show(id)).status, 'suppressed')
  assert.deepEqual(await filesWith(postrider.dataDir, 'held@there.test'), [])
})

test('a key that was used stays used', async () => {
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

test('a campaign that is being sent goes on to its end without the one who was forgotten', async () => {
  const audience = await kit.audience(domain)
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.3.0 later' : undefined) }
  await kit.fill(audience, ['camp@there.test', 'dora@there.test'])
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(
    () =>
      postrider.appliance.desk.store.first(
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

test('suppressions of every reason still hold, and one who had left is not subscribed by an import', async () => {
  const audience = await kit.audience(domain, 'Left')
  const now = postrider.clock.now()
  for (const reason of ['hard_bounce', 'complaint', 'manual', 'unsubscribe'] as const) {
    const address = `${reason.replace('_', '')}@there.test`
    await kit.fill(audience, [address])
    const about = { user_key: 1, domain_key: domain.key, address, reason, source: 'manual' as const }
    await postrider.appliance.desk.store.write((tx) =>
      suppress(tx, { ...about, scope: reason === 'unsubscribe' ? 'marketing' : 'all' }, now),
    )
    await erased(address)
    assert.deepEqual(await filesWith(postrider.dataDir, address), [], reason)
    const sent = await send(address, { subject: 'x', html: 'x' })
    assert.equal(sent.status, reason === 'unsubscribe' ? 201 : 422, reason)
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

test('repeats, at once too, are one request; unknown is 404, malformed 422, another account’s 404', async () => {
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
  assert.equal((await forget('no at')).status, 422)
  assert.equal((await postrider.asOther('DELETE', '/recipients/xrep%40there.test/forget')).status, 404)
  assert.equal((await postrider.asOther('GET', '/recipients/xrep%40there.test/data')).status, 404)
})

test('a message that came to two accounts stays whole for the other', async () => {
  await postrider.activeDomain('other.test', postrider.other)
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Me', address: 'me@here.test' }))
  await postrider.asOther('POST', '/inboxes', document('inboxes', { name: 'Me', address: 'me@other.test' }))
  const mine = await receive(postrider, { from: 'both@there.test', to: ['me@here.test', 'me@other.test'] })
  const [theirs] = (await postrider.asOther('GET', '/inbound-emails')).body.data
  const before = (await postrider.asOther('GET', `/inbound-emails/${theirs.id}`)).body
  const asked = await forget('both@there.test')
  assert.equal(asked.status, 202)
  await until(() => !pending(), 'the erasure')
  assert.deepEqual((await postrider.asOther('GET', `/inbound-emails/${theirs.id}`)).body, before)
  const now = JSON.stringify((await postrider.api('GET', `/inbound-emails/${mine.id}`)).body)
  assert.doesNotMatch(now, /both@there/)
  assert.equal((await postrider.asOther('DELETE', '/recipients/both%40there.test/forget')).status, 202)
  await until(() => !pending(), 'the other erasure')
  assert.deepEqual(await filesWith(postrider.dataDir, 'both@there.test'), [])
})

test('an erasure gives up no lock: commands see what the server writes, and no second server starts', async () => {
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
