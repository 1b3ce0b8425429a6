// Bulk email of a sender who manages the list: its lane, its suppressions and its unsubscribe links.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { readUnsubscribeLocalPart } from '../../src/message/return-path.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { mailsOf } from './mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger }))
const { become, post, show, tryPost } = mailsOf(() => postrider)
const store = () => postrider.appliance.deps.store
const about = () =>
  store().one(raw<{ user_key: number; domain_key: number }>('select user_key, key as domain_key from domains'))
const unsubscribed = (address: string): Promise<unknown> =>
  store().write((tx) =>
    suppress(
      tx,
      { ...about(), address, reason: 'unsubscribe', scope: 'marketing', source: 'unsubscribe_link' },
      postrider.clock.now(),
    ),
  )
const unfolded = (message: string): string => message.replaceAll(/\r\n[ \t]/g, ' ')
const heardBy = (address: string): string =>
  unfolded(exchanger.heard.find(({ to }) => to.includes(address))?.message ?? '')

beforeEach(() => {
  exchanger.heard.length = 0
  exchanger.script = {}
})

test('bulk email is sent on the lane of bulk email, and is shown and found by its stream', async () => {
  const bulk = await post({ stream: 'bulk', to: 'bulk@there.test' })
  const plain = await post({ to: 'plain@there.test' })
  assert.equal((await become(bulk, 'delivered'))['stream'], 'bulk')
  assert.equal((await become(plain, 'delivered'))['stream'], 'transactional')
  const lanes = store().all(raw<{ address: string; lane: string }>('select address, lane from deliveries order by key'))
  assert.deepEqual(
    lanes.map(({ address, lane }) => `${address} ${lane}`),
    ['bulk@there.test ~there.test', 'plain@there.test there.test'],
  )
  assert.match(heardBy('bulk@there.test'), /^Feedback-ID: 0:[^:]+:bulk:here\.test/m)
  const { body } = await postrider.api('GET', '/outbound-emails?filter[stream]=bulk')
  assert.deepEqual(
    body.data.map(({ id }: { id: string }) => id),
    [bulk],
  )
  const refused = await tryPost({ stream: 'marketing' })
  assert.equal(refused.body.errors[0].source.pointer, '/data/attributes/stream')
})

test('a recipient who unsubscribed gets transactional email and no bulk email', async () => {
  await unsubscribed('left@there.test')
  await become(await post({ to: 'left@there.test' }), 'delivered')
  const { body, status } = await tryPost({ to: 'left@there.test', stream: 'bulk' })
  assert.deepEqual([status, body.errors[0].code], [422, 'recipient_suppressed'])
  const recorded = await tryPost({ to: 'left@there.test', stream: 'bulk', on_suppressed: 'record' })
  assert.equal(recorded.body.data.attributes.status, 'suppressed')
})

test('bulk email is not sent to a recipient who unsubscribes while it is queued', async () => {
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
  const [bulk, plain] = [await post({ to: 'soon@there.test', stream: 'bulk' }), await post({ to: 'soon@there.test' })]
  await mailsOf(() => postrider).attempted(bulk, 1)
  await mailsOf(() => postrider).attempted(plain, 1)
  await unsubscribed('soon@there.test')
  exchanger.script = {}
  postrider.clock.advance(3_600_000)
  await become(bulk, 'suppressed')
  await become(plain, 'delivered')
})

test('the unsubscribe links are in the header, signed, and shown with the email', async () => {
  const unsubscribe = { uris: [`https://list.test/leave/${'x'.repeat(60)}`], one_click: true, mail: true }
  const id = await post({ to: 'ann@there.test', unsubscribe })
  await become(id, 'delivered')
  const message = heardBy('ann@there.test')
  const [, uri, local] =
    /^List-Unsubscribe: +<([^>]+)>, <mailto:([\w.+-]+)@[\w-]+\.here\.test\?subject=unsubscribe>\r$/m.exec(message) ?? []
  assert.equal(uri, unsubscribe.uris[0])
  const { key } = store().one(raw<{ key: number }>(`select key from deliveries where address = 'ann@there.test'`))
  assert.equal(readUnsubscribeLocalPart(postrider.appliance.deps.keyring, local!), key)
  assert.match(message, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m)
  assert.match(message, /^DKIM-Signature: .*h=.*:List-Unsubscribe:.*List-Unsubscribe-Post/im)
  assert.deepEqual((await show(id))['unsubscribe'], unsubscribe)
  const source = await postrider.page(`/api/v1/outbound-emails/${id}/raw`, {
    headers: { authorization: `Bearer ${postrider.token}` },
  })
  assert.match(unfolded(await source.text()), /<mailto:known-to-the-recipient@/)
})

test('unsubscribe links that do not work are refused with a pointer', async () => {
  const cases: [object, string][] = [
    [{ uris: [] }, 'uris'],
    [{ uris: ['https://a.test/1', 'https://a.test/2', 'https://a.test/3'] }, 'uris'],
    [{ uris: ['ftp://a.test/'] }, 'uris/0'],
    [{ uris: ['https://a.test/', 'https://a.test/>\r\nBcc: x@y.test'] }, 'uris/1'],
    [{ uris: ['mailto:leave@a.test'], one_click: true }, 'one_click'],
    [{ mail: 'yes' }, 'mail'],
    [{ mail: true, link: true }, 'link'],
  ]
  for (const [unsubscribe, pointer] of cases) {
    const { body, status } = await tryPost({ unsubscribe })
    assert.equal(status, 422, JSON.stringify(unsubscribe))
    assert.equal(body.errors[0].source.pointer, `/data/attributes/unsubscribe/${pointer}`)
  }
  const shared = await tryPost({ unsubscribe: { mail: true }, cc: ['eve@there.test'] })
  assert.equal(shared.body.errors[0].source.pointer, '/data/attributes/unsubscribe/mail')
  assert.equal((await tryPost({ headers: { 'List-Unsubscribe': '<https://a.test/>' } })).status, 422)
})
