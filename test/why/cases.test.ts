// The answers to "why" for the cases that owners ask about, as printed. Each is made by a real appliance from a real
// reply, and kept in expected/; a date is written as DATE, an id as ID.
import assert from 'node:assert/strict'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Explanation } from '../../src/why/explain.ts'
import { told } from '../../src/why/told.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { sceneOfFile } from './scene.ts'

const { domain, explained, mails, postrider, replies, route } = sceneOfFile({
  config: {
    warmup: { private: true, transactional_over: 'wait' },
    delivery: { sources: [{ address: '127.0.0.1' }] },
  },
  routes: ['there.test'],
})
const { attempted, become, post, show, turnToNext } = mails
const kit = campaignKit(() => postrider)

/** Compares an answer with the kept text, and with a second answer. */
async function isAs(name: string, subject: string): Promise<Explanation> {
  const explanation = await explained(subject)
  assert.deepEqual(await explained(subject), explanation, 'the same answer when nothing changed')
  const text = told(explanation, { verbose: true })
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'DATE')
    .replaceAll(/\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?/g, 'DATE')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/pr[\w-]*(?=\._domainkey)/g, 'SELECTOR')
  if (process.env['WRITE_EXPECTED']) writeFileSync(new URL(`expected/${name}.txt`, import.meta.url), `${text}\n`)
  assert.equal(`${text}\n`, readFileSync(new URL(`expected/${name}.txt`, import.meta.url), 'utf8'))
  return explanation
}

/** Posts a mail that gets a reply, and waits until it was tried. */
async function said(to: string, reply: string, host?: string): Promise<string> {
  route(to.slice(to.indexOf('@') + 1), host)
  replies.set(to, reply)
  const id = await post({ to })
  await (reply.startsWith('5') ? become(id, 'bounced') : attempted(id, 1))
  return id
}

test('a block at Microsoft (DV82, DV83, DV85, DV86)', async () => {
  const id = await said(
    'bob@hotmail.test',
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
    'hotmail-com.olc.protection.outlook.com',
  )
  const { causes } = await isAs('block', id)
  assert.deepEqual([causes[0]?.cause, causes[0]?.strength, causes[0]?.rank], ['block', 'shown', 1])
  assert.equal(causes[0]?.evidence[0]?.href, `/mail/${id}`)
})

test('greylisting (DV82, DV98)', async () => {
  await isAs('greylisting', await said('bob@grey.test', '451 4.7.1 Greylisting in action, please come back later'))
})

test('a full mailbox (DV82)', async () => {
  await isAs('full', await said('bob@full.test', '552 5.2.2 The mailbox is over quota'))
})

test('an unknown user after an import (DV82, DV84)', async () => {
  const readers = Array.from({ length: 10 }, (_, at) => `reader${at}@old.test`)
  route('old.test')
  for (const reader of readers.slice(0, 6))
    replies.set(reader, '550 5.1.1 The email account that you tried to reach does not exist')
  const audience = await kit.audience(domain)
  await kit.fill(audience, readers)
  const campaign = await kit.draft(audience)
  await kit.send(campaign)
  const bounced = await until(async () => {
    const { body } = await postrider.api('GET', `/outbound-emails?filter[campaign]=${campaign}&filter[status]=bounced`)
    return body.data.length === 6 ? (body.data as { id: string; attributes: { to: string } }[]) : undefined
  }, 'six bounces')
  const mail = bounced.find(({ attributes }) => attributes.to.includes('reader0@'))
  const { causes } = await isAs('import', mail?.id ?? '')
  assert.equal(causes[0]?.cause, 'user')
  assert.ok(causes.some(({ cause, evidence }) => cause === 'bad_list' && evidence.length === 2))
  // The campaign itself is asked about too: it is a mail to many.
  const whole = await explained(campaign)
  assert.deepEqual([whole.kind, whole.causes[0]?.cause, whole.causes[0]?.evidence.length], ['mail', 'user', 5])
})

test('a record of DNS is gone (DV82, DV84, DV98)', async () => {
  const gone = await postrider.activeDomain('gone.test')
  postrider.publish(gone, ({ record_type }) => record_type !== 'DKIM')
  await postrider.api('POST', `/domains/${gone.id}/check`)
  await until(
    () => domainByKey(postrider.appliance.deps.store, gone.key)?.missing_since ?? undefined,
    'a missing record',
  )
  const id = await post({ from: 'ann@gone.test' })
  await until(async () => (await show(id)).recipients[0]?.response?.includes('DKIM'), 'a wait for the record')
  await isAs('record', id)
  const { causes, kind } = await explained('gone.test')
  assert.equal(kind, 'domain')
  assert.deepEqual([causes[0]?.cause, causes[0]?.strength], ['missing_records', 'shown'])
})

test('a suppression (DV82, DV84)', async () => {
  const { clock, appliance, user } = postrider
  const id = await said('bob@no.test', '451 4.3.0 Temporary system problem, try again later')
  const entry = { user_key: user.key, domain_key: domain.key, address: 'bob@no.test' } as const
  await appliance.deps.store.write((tx) =>
    suppress(tx, { ...entry, reason: 'manual', source: 'manual', scope: 'all' }, clock.now()),
  )
  await turnToNext(id)
  await become(id, 'suppressed')
  await isAs('suppression', id)
})

test('a DMARC refusal by Gmail (DV82, DV86)', async () => {
  const reply =
    "550 5.7.26 Unauthenticated email from here.test is not accepted due to domain's DMARC policy. https://support.google.com/mail/?p=DmarcRejection - gsmtp"
  await isAs('dmarc', await said('ann@gmail.test', reply, 'gmail-smtp-in.l.google.com'))
})

test('reverse DNS (DV82, DV86)', async () => {
  const reply = '450 4.7.25 Client host rejected: cannot find your reverse hostname, [192.0.2.1]'
  await isAs('reverse', await said('bob@ptr.test', reply))
})

test('this server cannot read its disk (DV82, DV84, DV98)', async () => {
  assert.ok(domain.id)
  route('large.test')
  replies.set('bob@large.test', '451 4.7.1 Greylisted, come back later')
  const id = await post({ to: 'bob@large.test', html: `<p>${'x'.repeat(300_000)}</p>` })
  await attempted(id, 1)
  replies.delete('bob@large.test')
  const spool = join(postrider.dataDir, 'spool')
  renameSync(spool, `${spool}.away`)
  try {
    await turnToNext(id)
    await until(async () => (await show(id)).recipients[0]?.response?.includes('waits for this server'))
    const { causes } = await isAs('disk', id)
    assert.equal(causes[0]?.cause, 'local_trouble')
  } finally {
    renameSync(`${spool}.away`, spool)
  }
  await turnToNext(id)
  await become(id, 'delivered')
  postrider.appliance.deps.troubles.list().forEach(({ name }) => postrider.appliance.deps.troubles.clear(name))
})

test('a wait for warm-up (DV82, DV84, DV98)', async () => {
  assert.ok(domain.id)
  route('new.test')
  await become(await post({ to: 'first@new.test' }), 'delivered')
  const { body } = await postrider.api('GET', '/warmups?filter[receiver]=new.test')
  const { id } = body.data[0]
  await postrider.api('PATCH', `/warmups/${id}`, { data: { type: 'warmups', id, attributes: { allowance: 1 } } })
  const mail = await post({ to: 'bob@new.test' })
  await until(async () => (await show(mail)).recipients[0]?.response?.startsWith('warm-up:'), 'a wait')
  const { causes } = await isAs('warmup', mail)
  assert.deepEqual([causes[0]?.cause, causes[0]?.strength], ['warm_up', 'shown'])
  // The mail itself says it in one sentence: on its page, in the API and at the command line.
  const { stdout } = await postrider.commands.run(['mail', 'show', mail])
  assert.match(stdout, /warm-up: new\.test gets no more of this mail today; it goes on at \d{4}-/)
})

test('delivered, and nothing is known (DV83)', async () => {
  assert.ok(domain.id)
  route('fine.test')
  const id = await post({ to: 'bob@fine.test' })
  await become(id, 'delivered')
  const { causes, not_known } = await isAs('delivered', id)
  assert.deepEqual(causes, [])
  assert.equal(not_known.length, 1)
  assert.doesNotMatch(JSON.stringify(not_known), /spam|inbox/i)
})

test('mail waits because the receiver refuses connections: the mail says it, and so does the receiver', async () => {
  postrider.route('shut.test', '127.0.0.9')
  const id = await post({ to: 'bob@shut.test' })
  await attempted(id, 1)
  const { causes } = await explained(id)
  assert.ok(causes.some(({ cause }) => cause === 'no_way'))
  const { stdout } = await postrider.commands.run(['why', 'shut.test'])
  assert.match(stdout, /^receiver shut\.test\n[^\n]*reached no server of the receiver\. mx\.shut\.test .* refused/)
  assert.match(stdout, /next try \d{4}-/)
  const nowhere = await post({ to: 'bob@nowhere.invalid' })
  await become(nowhere, 'failed')
  assert.match(
    (await explained(nowhere)).summary,
    /^The mail was given up\. The mail reached no server of the receiver\. The domain nowhere\.invalid does not exist\.$/,
  )
  const shut = await explained('shut.test')
  assert.deepEqual([shut.kind, shut.causes[0]?.cause, shut.causes[0]?.strength], ['receiver', 'no_way', 'shown'])
  await postrider.appliance.deps.store.write((tx) => {
    const at = postrider.clock.now()
    tx.run(raw('insert or replace into learned_lanes values (?, null, null, ?, ?)', ['shut.test', at + 60_000, at]))
  })
  const paused = await explained('shut.test')
  assert.ok(paused.causes.some(({ cause }) => cause === 'pause_of_receiver'))
  assert.doesNotMatch(JSON.stringify(paused), /asked for a pause/)
})
