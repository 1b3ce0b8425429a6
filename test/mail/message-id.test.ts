// The Message-ID that a client chooses: where it may be from, and which request counts as a repeat.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { DAY, mail, mailsOf } from './mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger }))
const { become, post, tryPost } = mailsOf(() => postrider)

test('the chosen Message-ID is sent, on the sending domain or a subdomain', async () => {
  for (const message_id of ['<order-1017@here.test>', '<a.b+c@news.here.test>']) {
    const id = await post({ message_id })
    assert.equal((await become(id, 'delivered'))['message_id'], message_id)
    assert.match(exchanger.heard.at(-1)!.message, new RegExp(`^Message-ID: ${message_id.replace('+', '\\+')}\r?$`, 'm'))
  }
})

for (const message_id of [
  'order@here.test',
  '<order>',
  '<a b@here.test>',
  '<a@here.test>\r\nBcc: x@y.test',
  '<@here.test>',
  '<ä@here.test>',
  5,
])
  test(`${JSON.stringify(message_id)} is not a Message-ID`, async () => {
    const { body, status } = await tryPost({ message_id })
    assert.deepEqual([status, body.errors[0].source.pointer], [422, '/data/attributes/message_id'])
  })

test('a Message-ID of another domain is refused', async () => {
  const { body } = await tryPost({ message_id: '<a@elsewhere.test>' })
  assert.deepEqual(
    [body.errors[0].code, body.errors[0].source.pointer],
    ['address_outside_domain', '/data/attributes/message_id'],
  )
  assert.equal(
    (await tryPost({ message_id: `<${'x'.repeat(190)}@${'y'.repeat(60)}.here.test>` })).body.errors[0].code,
    'too_long',
  )
})

test('a repeat within 24 hours is the same email, and other content is a conflict', async () => {
  const message_id = '<repeat@here.test>'
  const id = await post({ message_id })
  const again = await tryPost({ message_id })
  assert.deepEqual([again.status, again.body.data.id, again.headers.get('idempotent-replayed')], [201, id, 'true'])
  assert.equal((await tryPost({ message_id, subject: 'Other' })).status, 409)
  assert.notEqual((await tryPost({ message_id, to: 'eve@there.test' })).body.data.id, id, 'another recipient')
  const token = await postrider.tokenFor(postrider.user, ['emails:send'])
  const other = await postrider.api('POST', '/outbound-emails', mail({ message_id }), {
    authorization: `Bearer ${token}`,
  })
  assert.notEqual(other.body.data.id, id, 'another token')
  postrider.clock.leap(DAY + 1000)
  assert.notEqual((await tryPost({ message_id })).body.data.id, id)
})
