// Webhooks with the format `listmonk`: bounces and complaints as listmonk's endpoint /webhooks/bounce accepts them.
import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { appendEvent } from '../../src/store/events.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { testReceiver, type Request } from '../kit/receiver.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'
import { deliveryOf, relation, rest } from './hooks.ts'

const receiver = testReceiver()
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const { become, post, show } = mailsOf(() => postrider)

const CAMPAIGN = '9f86b50d-5711-41c8-ab03-bc91c43d711b'
const create = (attributes: Record<string, unknown>): Promise<Answer> =>
  postrider.api(
    'POST',
    '/webhooks',
    document(
      'webhooks',
      { name: 'lists', url: `${receiver.url}/webhooks/bounce`, events: ['*'], format: 'listmonk', ...attributes },
      relation(domain.id),
    ),
  )
const update = (id: string, attributes: Record<string, unknown>): Promise<Answer> =>
  postrider.api('PATCH', `/webhooks/${id}`, document('webhooks', attributes, { id }))
const arrived = (count: number): Promise<Request[]> =>
  until(() => (receiver.requests.length >= count ? receiver.requests : undefined), `${count} requests`)
const basic = (text: string): string => `Basic ${Buffer.from(text).toString('base64')}`

afterEach(async () => {
  exchanger.script = {}
  receiver.answer = 200
  const { body } = await postrider.api('GET', '/webhooks')
  for (const { id } of body.data) await postrider.api('DELETE', `/webhooks/${id}`)
  receiver.requests.length = 0
})

/** Refuses one recipient. */
const refusing = (address: string, reply: string): void => {
  exchanger.script = { answer: (command) => (command.startsWith(`RCPT TO:<${address}>`) ? reply : undefined) }
}

test('posts a hard bounce with the campaign of listmonk and HTTP Basic, and no other event', async () => {
  const made = await create({ username: 'postrider', password: 'secret token' })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const { attributes, id } = made.body.data
  assert.deepEqual([attributes.format, attributes.username, 'password' in attributes], ['listmonk', 'postrider', false])
  refusing('gone@there.test', '550 5.1.1 No such user')
  const message = [
    'From: list@here.test',
    'To: gone@there.test',
    'Subject: News',
    `X-Listmonk-Campaign: ${CAMPAIGN}`,
    '',
    'X-Listmonk-Campaign: 00000000-0000-0000-0000-000000000000',
  ].join('\r\n')
  const sent = await postrider.api(
    'POST',
    '/raw-emails',
    document('raw-emails', {
      raw: Buffer.from(message).toString('base64'),
      recipients: ['gone@there.test', 'bob@there.test'],
    }),
  )
  await become(sent.body.data.id, 'bounced')
  const [request] = await arrived(1)
  await until(
    async () => (await show(sent.body.data.id)).recipients.every(({ status }) => status !== 'queued'),
    'all recipients',
  )
  await rest(postrider)
  assert.equal(receiver.requests.length, 1)
  const { meta, ...body } = JSON.parse(request!.body)
  assert.deepEqual(body, { email: 'gone@there.test', campaign_uuid: CAMPAIGN, source: 'postrider', type: 'hard' })
  const { bounce, email_id } = JSON.parse(meta)
  assert.deepEqual([email_id, bounce.class, bounce.enhanced_code], [sent.body.data.id, 'hard', '5.1.1'])
  assert.deepEqual(
    [request!.path, request!.headers['authorization']],
    ['/webhooks/bounce', basic('postrider:secret token')],
  )
  const [{ sealed }] = postrider.appliance.deps.store.all(
    raw<{ sealed: Uint8Array }>('select sealed_password as sealed from webhooks where id = ?', [id]),
  ) as [{ sealed: Uint8Array }]
  assert.ok(!Buffer.from(sealed).includes('secret token'))
})

test('posts other bounces as soft, and complaints', async () => {
  await create({})
  refusing('full@there.test', '552 5.2.2 Mailbox full')
  const id = await post({ to: 'full@there.test', from: 'list@here.test' })
  await become(id, 'bounced')
  const [soft] = await arrived(1)
  const { store } = postrider.appliance.deps
  const row = store.first(
    raw<{ key: number; delivery: number }>(
      'select e.key, d.key as delivery from outbound_emails e join deliveries d on d.email_key = e.key where e.id = ?',
      [id],
    ),
  )!
  await store.write((tx) =>
    appendEvent(tx, {
      type: 'email.complained',
      user_key: domain.user_key,
      domain_key: domain.key,
      email_key: row.key,
      data: { delivery: row.delivery, feedback_type: 'abuse' },
      at: postrider.clock.now(),
    }),
  )
  const [, complaint] = await arrived(2)
  assert.deepEqual(
    [soft!, complaint!].map(({ body, headers }) => [
      JSON.parse(body).email,
      JSON.parse(body).type,
      JSON.parse(body).campaign_uuid,
      headers['authorization'],
    ]),
    [
      ['full@there.test', 'soft', undefined, undefined],
      ['full@there.test', 'complaint', undefined, undefined],
    ],
  )
  assert.deepEqual(JSON.parse(JSON.parse(complaint!.body).meta).complaint, { feedback_type: 'abuse' })
})

test('is tested, retried and replayed like other webhooks, with the present password', async () => {
  const { id } = (await create({ username: 'u', password: 'old' })).body.data
  receiver.answer = 500
  assert.equal((await postrider.api('POST', `/webhooks/${id}/test`)).status, 202)
  const [first] = await arrived(1)
  assert.equal(JSON.parse(first!.body).type, 'hard')
  receiver.answer = 200
  assert.equal((await update(id, { password: 'new' })).status, 200)
  const { body } = await postrider.api('GET', `/webhooks/${id}/deliveries`)
  const delivery = body.data[0].id
  await until(async () => (await deliveryOf(postrider, delivery)).attempt_log.length === 1, 'the first attempt')
  postrider.clock.leap(6000)
  const [, second] = await arrived(2)
  assert.deepEqual([second!.body, second!.headers['authorization']], [first!.body, basic('u:new')])
  assert.equal((await postrider.api('POST', `/deliveries/${delivery}/replay`)).status, 202)
  assert.equal((await arrived(3))[2]!.body, first!.body)
  assert.equal((await update(id, { username: null, password: null })).body.data.attributes.username, null)
})

test('erases an address from its payloads', async () => {
  await create({})
  refusing('erase@there.test', '550 5.1.1 No such user')
  const id = await post({ to: 'erase@there.test', from: 'list@here.test' })
  await become(id, 'bounced')
  await arrived(1)
  assert.equal((await postrider.api('DELETE', '/recipients/erase%40there.test/forget')).status, 202)
  const { store } = postrider.appliance.deps
  await until(
    () => store.first(raw(`select 1 from privacy_requests where status = 'pending'`)) === undefined,
    'the erasure',
  )
  assert.equal(store.first(raw(`select 1 from outbound_webhooks where instr(payload, 'erase@there.test')`)), undefined)
})

for (const [name, attributes, member] of [
  ['an unknown format', { format: 'mailman' }, 'format'],
  ['a user name for signed requests', { format: 'standard', username: 'u' }, 'username'],
  ['a password for signed requests', { format: undefined, password: 'p' }, 'password'],
  ['a colon in the user name', { username: 'a:b' }, 'username'],
  ['an empty password', { password: '' }, 'password'],
  ['credentials in the URL', { url: 'https://u:p@lists.example.com/webhooks/bounce' }, 'url'],
] as const)
  test(`refuses ${name}`, async () => {
    const { body, status } = await create(attributes)
    assert.deepEqual([status, body.errors[0].source.pointer], [422, `/data/attributes/${member}`])
  })

test('the format cannot be changed, and a webhook has the format standard by default', async () => {
  const { attributes, id } = (await create({ format: undefined })).body.data
  assert.deepEqual([attributes.format, attributes.username], ['standard', null])
  for (const change of [{ format: 'listmonk' }, { username: 'u' }]) {
    const { body, status } = await update(id, change)
    assert.deepEqual([status, body.errors[0].source.pointer], [422, `/data/attributes/${Object.keys(change)[0]}`])
  }
})

test('the console creates a webhook for listmonk, and does not return a password in a form with an error', async () => {
  const ann = await signedIn(postrider)
  const form = { domain: domain.id, name: 'lists', url: `${receiver.url}/webhooks/bounce`, username: 'postrider' }
  const made = await ann.send(await ann.open('/webhooks/new'), 'add', {
    ...form,
    format: 'listmonk',
    password: 'between us',
  })
  assert.match(made.text, /<dt>Format<\/dt>\s*<dd>listmonk<\/dd>/)
  const { data } = (await postrider.api('GET', '/webhooks')).body
  assert.deepEqual([data[0].attributes.format, data[0].attributes.username], ['listmonk', 'postrider'])
  const refused = await ann.send(await ann.open('/webhooks/new'), 'add', {
    ...form,
    format: 'standard',
    password: 'between us',
  })
  assert.match(refused.text, /can only be set if/)
  assert.ok(!refused.text.includes('between us'))
})

test('the stored password is not sent to another server', async () => {
  const { body } = await create({ username: 'postrider', password: 'secret token' })
  const { id } = body.data
  const { origin } = new URL(receiver.url)
  for (const url of ['https://evil.test/hook', `${origin.replace(/:\d+$/, '')}:1/webhooks/bounce`]) {
    const refused = await update(id, { url })
    assert.equal(refused.status, 422, url)
    assert.match(refused.body.errors[0].detail, /"password" is required/)
  }
  assert.equal((await update(id, { url: `${origin}/other` })).status, 200)
  assert.equal((await update(id, { url: 'https://lists.test/hook', password: 'other' })).status, 200)
  assert.equal((await update(id, { url: 'https://other.test/hook', password: null })).status, 200)
  assert.equal((await update(id, { url: 'https://third.test/hook' })).status, 200)
})
