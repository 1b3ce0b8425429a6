// Addresses with a quoted local part, such as "a..b"@carrier.test (RFC 5321 §4.1.2, D228): they are accepted wherever
// an address is, and all forms of one mailbox are equal.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { comparable, recipientHash } from '../../src/base/recipient-hash.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { filesWith } from '../kit/files-with.ts'
import { until } from '../kit/until.ts'
import { block, homeOf, report } from '../inbound/home.ts'
import { RawClient } from '../smtp/raw.ts'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    domains: ['here.test'],
    routes: ['carrier.test'],
    config: { submission: { listen: [], tls_listen: ['127.0.0.1:0'] } },
  }),
)
const { become, comeHome, post, send, suppressions, tryPost } = homeOf(
  () => postrider,
  () => exchanger,
)

const DOTS = '"a..b"@carrier.test'

test('sends to a quoted local part, and reads the bounce with and without its quotes', async () => {
  for (const [to, wire, reported] of [
    [DOTS, DOTS, DOTS],
    ['Ann <"x.yy."@carrier.test>', '"x.yy."@carrier.test', 'x.yy.@carrier.test'],
    ['"\\q w"@carrier.test', '"q w"@carrier.test', '"q w"@carrier.test'],
    ['"plain"@carrier.test', 'plain@carrier.test', 'plain@carrier.test'],
  ] as const) {
    const gone = await send({ to })
    assert.deepEqual(gone.heard.to, [wire])
    assert.ok(gone.heard.message.includes(wire), to)
    await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: reported })]),
    })
    await become(gone.id, 'bounced')
    assert.deepEqual(
      (await suppressions(wire)).map(({ email, reason }) => [email, reason]),
      [[wire, 'hard_bounce']],
    )
    const refused = await tryPost({ to: wire.startsWith('"') ? wire : '"pl\\ain"@carrier.test' })
    assert.deepEqual([refused.status, refused.body.errors[0].code], [422, 'recipient_suppressed'])
  }
  assert.equal((await tryPost({ to: 'a..b@carrier.test' })).status, 422)
})

test('accepts a quoted local part in MAIL FROM and RCPT TO', async () => {
  const submit = await RawClient.overTls(postrider.appliance.submissions[0]!.port)
  await submit.reply()
  await submit.ask('EHLO client.test')
  assert.equal((await submit.ask(`AUTH PLAIN ${Buffer.from(`\0x\0${postrider.token}`).toString('base64')}`)).code, 235)
  await submit.ask('MAIL FROM:<app@here.test>')
  for (const path of ['"xxx.yyy."@carrier.test', '"s p@x"@carrier.test', '"ann"@carrier.test'])
    assert.equal((await submit.ask(`RCPT TO:<${path}>`)).code, 250, path)
  for (const path of ['""@carrier.test', '"a"b"@carrier.test', '"a@carrier.test', 'a..b@carrier.test'])
    assert.ok((await submit.ask(`RCPT TO:<${path}>`)).code >= 500, path)
  await submit.ask('DATA')
  submit.write('From: app@here.test\r\nTo: <"xxx.yyy."@carrier.test>, ann@carrier.test\r\nSubject: Doors\r\n\r\nx')
  const id = (await submit.ask('\r\n.')).text.slice(-36)
  submit.destroy()
  const { bcc, cc, to } = (await become(id, 'delivered')) as unknown as Record<string, unknown>
  assert.deepEqual([to, cc, bcc], ['"xxx.yyy."@carrier.test', null, ['"s p@x"@carrier.test', 'ann@carrier.test']])
  const heard = exchanger.heard.filter(({ message }) => message.includes('Subject: Doors')).flatMap((one) => one.to)
  assert.deepEqual(heard.toSorted(), ['"s p@x"@carrier.test', '"xxx.yyy."@carrier.test', 'ann@carrier.test'])
})

test('finds an inbox by a quoted form of its address', async () => {
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Hello', address: 'hello@here.test' }))
  const client = await RawClient.greeted(postrider.appliance.smtp[0]!.port)
  await client.ask('MAIL FROM:<"s..r"@carrier.test>')
  assert.equal((await client.ask('RCPT TO:<"h\\ello"@here.test>')).code, 250)
  assert.equal((await client.ask('RCPT TO:<"hel lo"@here.test>')).code, 550)
  client.destroy()
})

test('keeps one contact and one suppression for all forms of an address', async () => {
  const domain = postrider.appliance.deps.store.first<{ id: string }>(
    raw("select id from domains where name = 'here.test'"),
  )!
  const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
  const audience = await postrider.api('POST', '/audiences', document('audiences', { name: 'Q' }, { relationships }))
  const path = `/audiences/${audience.body.data.id}/contacts`
  const add = (email: string) => postrider.api('POST', path, document('contacts', { email }))
  assert.equal((await add('"c..d"@carrier.test')).body.data.attributes.email, '"c..d"@carrier.test')
  assert.equal((await add('"C.\\.d"@Carrier.test')).body.errors[0].code, 'already_exists')
  assert.equal((await add('"cid"@carrier.test')).body.data.attributes.email, 'cid@carrier.test')
  assert.equal((await add('cid@carrier.test')).body.errors[0].code, 'already_exists')
  const bring = await postrider.api('POST', '/suppression-imports', {
    data: { type: 'suppression-imports', attributes: { rows: [{ email: '"c..d"@carrier.test' }] }, relationships },
  })
  assert.deepEqual([bring.body.data.attributes.created, bring.body.data.attributes.errors], [1, []])
  assert.equal((await suppressions('"c.\\.d"@carrier.test')).length, 1)
  const { keyring } = postrider.appliance.deps
  assert.equal(comparable('"Ann"@x.test'), 'ann@x.test')
  assert.equal(recipientHash(keyring, '"\\ann"@x.test'), recipientHash(keyring, 'ann@x.test'))
})

test('erases a recipient with a quoted local part from every text', async () => {
  const id = await post({ to: '"e..f"@carrier.test', html: 'Hello "e..f"@carrier.test and e..f@carrier.test' })
  await become(id, 'delivered')
  const asked = await postrider.api('DELETE', `/recipients/${encodeURIComponent('"e.\\.f"@carrier.test')}/forget`)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  const status = raw<{ status: string }>('select status from privacy_requests')
  await until(() => postrider.appliance.deps.store.first(status)?.status === 'done', 'the erasure')
  assert.deepEqual(await filesWith(postrider.dataDir, '"e..f"@carrier.test'), [])
  const { body } = await postrider.api('GET', `/outbound-emails/${id}`)
  assert.doesNotMatch(JSON.stringify(body.data), /e\.\.f/)
})
