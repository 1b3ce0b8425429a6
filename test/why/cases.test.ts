// The explanations for common cases, as printed. A real server produces each of them from a real reply. expected/ has
// the texts, with DATE for dates and ID for ids.
import assert from 'node:assert/strict'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Explanation } from '../../src/why/explain.ts'
import { explanationText } from '../../src/why/text.ts'
import { MINUTE } from '../../src/base/clock.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { sceneOfFile } from './scene.ts'

const { domain, explained, mails, postrider, replies, route } = sceneOfFile({
  config: {
    warmup: { private: true, transactional_overflow: 'wait' },
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
  const text = explanationText(explanation, { verbose: true })
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'DATE')
    .replaceAll(/\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?/g, 'DATE')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'ID')
    .replaceAll(/pr[\w-]*(?=\._domainkey)/g, 'SELECTOR')
  if (process.env['WRITE_EXPECTED']) writeFileSync(new URL(`expected/${name}.txt`, import.meta.url), `${text}\n`)
  assert.equal(`${text}\n`, readFileSync(new URL(`expected/${name}.txt`, import.meta.url), 'utf8'))
  return explanation
}

/** Sends an email that gets a reply, and waits for the attempt. */
async function said(to: string, reply: string, host?: string): Promise<string> {
  route(to.slice(to.indexOf('@') + 1), host)
  replies.set(to, reply)
  const id = await post({ to })
  await (reply.startsWith('5') ? become(id, 'bounced') : attempted(id, 1))
  return id
}

test('a block at Microsoft', async () => {
  const id = await said(
    'bob@hotmail.test',
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. Please contact your Internet service provider since part of their network is on our block list (S3150).",
    'hotmail-com.olc.protection.outlook.com',
  )
  const { causes } = await isAs('block', id)
  assert.deepEqual([causes[0]?.cause, causes[0]?.confidence, causes[0]?.rank], ['block', 'confirmed', 1])
  assert.equal(causes[0]?.evidence[0]?.href, `/mail/${id}`)
})

test('greylisting', async () => {
  await isAs('greylisting', await said('bob@grey.test', '451 4.7.1 Greylisting in action, please come back later'))
})

test('a full mailbox', async () => {
  await isAs('full', await said('bob@full.test', '552 5.2.2 The mailbox is over quota'))
})

test('an unknown user after an import', async () => {
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
  // The campaign can be explained too, as an email to many recipients.
  const whole = await explained(campaign)
  assert.deepEqual([whole.kind, whole.causes[0]?.cause, whole.causes[0]?.evidence.length], ['email', 'user', 5])
})

test('a missing DKIM record', async () => {
  const gone = await postrider.activeDomain('gone.test')
  postrider.publish(gone, ({ record_type }) => record_type !== 'DKIM')
  await postrider.api('POST', `/domains/${gone.id}/check`)
  await until(
    () => domainByKey(postrider.appliance.deps.store, gone.key)?.missing_since ?? undefined,
    'a missing record',
  )
  // Email is held if the record is still missing at the second check (D217).
  postrider.clock.advance(MINUTE)
  await postrider.api('POST', `/domains/${gone.id}/check`)
  const id = await post({ from: 'ann@gone.test' })
  await until(async () => (await show(id)).recipients[0]?.response?.includes('DKIM'), 'a wait for the record')
  await isAs('record', id)
  const { causes, kind } = await explained('gone.test')
  assert.equal(kind, 'domain')
  assert.deepEqual([causes[0]?.cause, causes[0]?.confidence], ['missing_records', 'confirmed'])
})

test('a suppressed address', async () => {
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

test('a DMARC rejection by Gmail', async () => {
  const reply =
    "550 5.7.26 Unauthenticated email from here.test is not accepted due to domain's DMARC policy. https://support.google.com/mail/?p=DmarcRejection - gsmtp"
  await isAs('dmarc', await said('ann@gmail.test', reply, 'gmail-smtp-in.l.google.com'))
})

test('missing reverse DNS', async () => {
  const reply = '450 4.7.25 Client host rejected: cannot find your reverse hostname, [192.0.2.1]'
  await isAs('reverse', await said('bob@ptr.test', reply))
})

test('this server cannot read its disk', async () => {
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
    await until(async () => (await show(id)).recipients[0]?.response?.includes('problem on this server'))
    const { causes } = await isAs('disk', id)
    assert.equal(causes[0]?.cause, 'local_trouble')
  } finally {
    renameSync(`${spool}.away`, spool)
  }
  await turnToNext(id)
  await become(id, 'delivered')
  postrider.appliance.deps.troubles.list().forEach(({ name }) => postrider.appliance.deps.troubles.clear(name))
})

test('an email queued by the warm-up limit', async () => {
  assert.ok(domain.id)
  route('new.test')
  await become(await post({ to: 'first@new.test' }), 'delivered')
  const { body } = await postrider.api('GET', '/warmups?filter[receiver]=new.test')
  const { id } = body.data[0]
  await postrider.api('PATCH', `/warmups/${id}`, { data: { type: 'warmups', id, attributes: { daily_limit: 1 } } })
  const mail = await post({ to: 'bob@new.test' })
  await until(async () => (await show(mail)).recipients[0]?.response?.startsWith('warm-up:'), 'a wait')
  const { causes } = await isAs('warmup', mail)
  assert.deepEqual([causes[0]?.cause, causes[0]?.confidence], ['warm_up', 'confirmed'])
  // The email shows the same sentence: on its page, in the API and at the command line.
  const { stdout } = await postrider.commands.run(['mail', 'show', mail])
  assert.match(stdout, /warm-up: the limit for new\.test is reached for today; sending resumes at \d{4}-/)
})

test('a delivered email without evidence of a problem', async () => {
  assert.ok(domain.id)
  route('fine.test')
  const id = await post({ to: 'bob@fine.test' })
  await become(id, 'delivered')
  const { causes, unknowns } = await isAs('delivered', id)
  assert.deepEqual(causes, [])
  assert.equal(unknowns.length, 1)
  assert.doesNotMatch(JSON.stringify(unknowns), /spam|inbox/i)
})

test('the email and the provider both show that the receiving server refuses connections', async () => {
  postrider.route('shut.test', '127.0.0.9')
  const id = await post({ to: 'bob@shut.test' })
  await attempted(id, 1)
  const { causes } = await explained(id)
  assert.ok(causes.some(({ cause }) => cause === 'no_way'))
  const { stdout } = await postrider.commands.run(['why', 'shut.test'])
  assert.match(
    stdout,
    /^receiver shut\.test\nEmail to shut\.test\.\n\n1\. [^\n]*reached no receiving server\. mx\.shut\.test .* refused/,
  )
  assert.match(stdout, /next attempt \d{4}-/)
  const nowhere = await post({ to: 'bob@nowhere.invalid' })
  await become(nowhere, 'failed')
  assert.match(
    (await explained(nowhere)).summary,
    /^Delivery failed, and Postrider stopped retrying\. The email reached no receiving server\. The domain nowhere\.invalid does not exist\.$/,
  )
  const shut = await explained('shut.test')
  assert.deepEqual([shut.kind, shut.causes[0]?.cause, shut.causes[0]?.confidence], ['receiver', 'no_way', 'confirmed'])
  await postrider.appliance.deps.store.write((tx) => {
    const at = postrider.clock.now()
    tx.run(raw('insert or replace into learned_lanes values (?, null, null, ?, ?)', ['shut.test', at + 60_000, at]))
  })
  const paused = await explained('shut.test')
  assert.ok(paused.causes.some(({ cause }) => cause === 'pause_of_receiver'))
  assert.doesNotMatch(JSON.stringify(paused), /asked for a pause/)
})

test('a recipient domain whose MX is another host shows its own deferral and the receiver that replied', async () => {
  const trouble = '451 4.3.0 <bob@friend.test>: Temporary system problem, try again later'
  await said('bob@friend.test', trouble, 'mx.hoster.test')
  const friend = await explained('friend.test')
  assert.deepEqual([friend.kind, friend.causes[0]?.cause], ['receiver', 'receiver_trouble'])
  assert.match(
    friend.causes[0]?.evidence[0]?.text ?? '',
    /^Email to friend\.test deferred .*, next attempt .*: 451 4\.3\.0 <address>/,
  )
  assert.match(friend.causes[0]?.fix ?? '', /retries/)
  const read = friend.sources.flatMap(({ source, state }) => (state === 'read' ? [source] : []))
  assert.deepEqual(read, ['waiting', 'replies'])
  assert.doesNotMatch(JSON.stringify(friend), /bob@/)
  const { stdout } = await postrider.commands.run(['why', 'friend.test'])
  assert.match(
    stdout,
    /^receiver friend\.test\nEmail to friend\.test\.\n\n1\. .*\n.*\n .* waiting: Email to friend\.test/,
  )
  // At a provider, its other replies are evidence too.
  await said('ann@hosted.test', '451 4.7.1 Greylisted, come back later', 'aspmx.l.google.com')
  const { causes } = await explained('hosted.test')
  assert.deepEqual([causes[0]?.cause, causes[0]?.confidence], ['greylist', 'confirmed'])
  assert.match(JSON.stringify((await explained('hosted.test')).sources), /"replies","state":"read"/)
  // Mail that was delivered lately is known too.
  route('served.test', 'mx.hoster.test')
  await become(await post({ to: 'bob@served.test' }), 'delivered')
  assert.equal((await explained('served.test')).kind, 'receiver')
  assert.equal((await postrider.asOther('GET', '/explanations?filter[subject]=served.test')).status, 404)
})

test('the error for an unknown domain reports that no email to it is known', async () => {
  const { body, status } = await postrider.api('GET', '/explanations?filter[subject]=strange.test')
  assert.equal(status, 404)
  assert.match(body.errors[0].detail, /^No email to or from strange\.test is known: .* queue .* newest emails/)
  assert.match(await postrider.commands.fails('why', 'strange.test'), /No email to or from strange\.test is known/)
  assert.match(await postrider.commands.fails('why', 'bob@strange.test'), /mail find ADDRESS/)
})

test('the fix for a limited mailbox fits the class of the reply, and is printed once', async () => {
  for (const [to, reply, fix] of [
    ['bob@busy.test', '450 4.2.1 The mailbox is temporarily disabled', 'Postrider retries automatically.'],
    ['bob@locked.test', '550 5.2.1 This account has been temporarily suspended', 'Send the email again later.'],
  ] as const) {
    const { stdout } = await postrider.commands.run(['why', await said(to, reply)])
    assert.equal(stdout.split('does not accept email at the moment').length, 2, stdout)
    assert.equal(stdout.split(fix).length, 2, stdout)
    assert.doesNotMatch(stdout, /After a 5xx/)
  }
})
