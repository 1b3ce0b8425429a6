// An email to suppressed recipients: refused by default, or recorded, so that the others get it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from './mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger }))
const { become, eventTypes, show, tryPost } = mailsOf(() => postrider)
const used = (): number =>
  postrider.appliance.deps.store.first(raw<{ used: number }>('select used from usage'))?.used ?? 0

/** The rejections of an email as `GET /email-events` shows them. */
const rejections = async (id: string): Promise<unknown[]> =>
  (await postrider.api('GET', `/email-events?filter[email]=${id}&filter[event]=email.rejected`)).body.data.map(
    ({ attributes }: { attributes: { data: { rejection: unknown } } }) => attributes.data.rejection,
  )

setUp(async () => {
  const { clock, store } = postrider.appliance.deps
  const [about] = store.all(
    raw<{ user_key: number; domain_key: number }>('select user_key, key as domain_key from domains'),
  )
  const of = { ...about!, address: 'gone@there.test', reason: 'hard_bounce', scope: 'all', source: 'smtp' } as const
  await store.write((tx) => suppress(tx, of, clock.now()))
})

test('by default the whole email is refused', async () => {
  const { body, status } = await tryPost({ cc: ['gone@there.test'] })
  assert.deepEqual([status, body.errors[0].code], [422, 'recipient_suppressed'])
  assert.equal(
    (await tryPost({ on_suppressed: 'ignore' })).body.errors[0].source.pointer,
    '/data/attributes/on_suppressed',
  )
})

test('with "record", the suppressed copy is recorded with an event, costs no volume, and the others get the email', async () => {
  const before = used()
  const { body, status } = await tryPost({ cc: ['gone@there.test', 'eve@there.test'], on_suppressed: 'record' })
  assert.equal(status, 201)
  assert.equal(used(), before + 2)
  const { id } = body.data
  await become(id, 'delivered')
  const { recipients } = await show(id)
  assert.deepEqual(recipients.map((each) => each.status).toSorted(), ['delivered', 'delivered', 'suppressed'])
  assert.equal(eventTypes(id)[0], 'email.rejected')
  assert.deepEqual(await rejections(id), [
    {
      kind: 'suppressed',
      reason: 'The address is suppressed: a receiving server reported that it does not exist.',
      suppression_reason: 'hard_bounce',
    },
  ])
  assert.deepEqual(new Set(exchanger.heard.flatMap(({ to }) => to)), new Set(['bob@there.test', 'eve@there.test']))
})

test('if the primary recipient is suppressed, the email has that status, and copies are sent', async () => {
  const { body } = await tryPost({ to: 'gone@there.test', bcc: ['eve@there.test'], on_suppressed: 'record' })
  assert.equal(body.data.attributes.status, 'suppressed')
  assert.ok(body.data.attributes.suppressed_at)
  const only = await tryPost({ to: 'gone@there.test', on_suppressed: 'record' })
  assert.equal(only.body.data.attributes.status, 'suppressed')
  const repeat = { to: 'gone@there.test', on_suppressed: 'record', idempotency_key: 'twice' }
  const first = await tryPost(repeat)
  assert.equal((await tryPost(repeat)).body.data.id, first.body.data.id)
  assert.equal((await tryPost({ ...repeat, on_suppressed: 'refuse' })).status, 409)
})

test('a scheduled email records them when it is due, sends the copies, and can be cancelled until then', async () => {
  const attributes = { to: 'gone@there.test', cc: ['carol@there.test'], on_suppressed: 'record', scheduled_at: 'PT1H' }
  const before = used()
  const [one, other] = [await tryPost(attributes), await tryPost(attributes)]
  assert.equal(one.body.data.attributes.status, 'scheduled')
  assert.equal((await postrider.api('POST', `/outbound-emails/${other.body.data.id}/cancel`)).status, 202)
  assert.equal(used(), before + 2)
  postrider.clock.advance(3_600_000)
  const { recipients } = await become(one.body.data.id, 'suppressed')
  assert.deepEqual(recipients.map(({ status }) => status).includes('scheduled'), false)
  const [rejection] = (await rejections(one.body.data.id)) as [{ suppression_reason: string }]
  assert.equal(rejection.suppression_reason, 'hard_bounce')
  await until(() => exchanger.heard.some(({ to }) => to.includes('carol@there.test')), 'the copy')
  assert.equal((await show(other.body.data.id)).status, 'cancelled')
})
