// Scheduled emails: accepted and counted now, sent when they are due, changed or cancelled until then.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { ScheduledMail } from '../../src/mail/schedule.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR, MINUTE, mailsOf } from './mails.ts'

const postrider = ofFile(() =>
  startTestAppliance({
    domains: ['here.test'],
    routes: ['there.test'],
    exchanger: testExchanger(),
    config: { plans: { free: { included_volume: 100 } } },
  }),
)
const { become, post, show, tryPost, eventTypes } = mailsOf(() => postrider)
const inMs = (ms: number): string => new Date(postrider.clock.now() + ms).toISOString()
const used = (): number =>
  postrider.appliance.deps.store.first(raw<{ used: number }>('select used from usage'))?.used ?? 0
const patch = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('PATCH', `/outbound-emails/${id}`, { data: { type: 'outbound-emails', id, attributes } })
const cancel = (id: string) => postrider.api('POST', `/outbound-emails/${id}/cancel`)
const pointerOf = ({ body }: { body: { errors: { code: string; source?: { pointer: string } }[] } }) =>
  body.errors.map(({ code, source }) => `${code} ${source?.pointer}`).join()

describe('a scheduled email', () => {
  test('is not sent before its time, and then is', async () => {
    const id = await post({ scheduled_at: inMs(2 * HOUR), cc: ['eve@there.test'] })
    const { recipients, scheduled_at, status } = await show(id)
    assert.deepEqual([status, scheduled_at, recipients[0]!.status], ['scheduled', inMs(2 * HOUR), 'scheduled'])
    postrider.clock.leap(2 * HOUR - 1000)
    await postrider.appliance.deps.store.write(() => undefined)
    assert.equal((await show(id)).status, 'scheduled')
    assert.deepEqual(eventTypes(id), [])
    postrider.clock.advance(1000)
    const sent = await become(id, 'delivered')
    assert.deepEqual(
      sent.recipients.map((each) => each.status),
      ['delivered', 'delivered'],
    )
    assert.equal(sent['queued_at'], sent['scheduled_at'])
    const { body } = await postrider.api('GET', `/outbound-emails/${id}/raw`)
    const [, date] = /^Date: (.*)$/m.exec(String(body))!
    assert.equal(Math.floor(Date.parse(date!) / 1000), Math.floor(Date.parse(sent['scheduled_at']!) / 1000))
  })

  test('has a time zone of at most 14 hours', async () => {
    const inZone = async (zone: string) => {
      const at = inMs(DAY).replace('Z', zone)
      return (await tryPost({ scheduled_at: at })).status
    }
    for (const [zone, status] of [
      ['+14:00', 201],
      ['-14:01', 422],
      ['+23:00', 422],
    ] as const)
      assert.equal(await inZone(zone), status, zone)
  })

  test('with a time in the past, or null, is sent at once, and a duration counts from now', async () => {
    for (const scheduled_at of [inMs(-HOUR), null])
      assert.equal((await show(await post({ scheduled_at })))['scheduled_at'], null)
    const id = await post({ scheduled_at: 'P1DT1H30M5S' })
    assert.equal((await show(id))['scheduled_at'], inMs(DAY + HOUR + 30 * MINUTE + 5000))
    assert.equal((await cancel(id)).status, 202)
  })

  test('is refused more than 30 days ahead, and with any other text', async () => {
    assert.equal(
      pointerOf(await tryPost({ scheduled_at: inMs(30 * DAY + 1000) })),
      'invalid /data/attributes/scheduled_at',
    )
    for (const scheduled_at of [
      'tomorrow',
      'P',
      'PT',
      'PT5',
      'P1M',
      '2026-01-31',
      '2026-01-31T09:00:00',
      5,
      'PT9999999S',
    ])
      assert.equal(
        pointerOf(await tryPost({ scheduled_at })),
        'invalid /data/attributes/scheduled_at',
        String(scheduled_at),
      )
  })

  test('can be moved and sent now, but only before it is due, and only its time can be changed', async () => {
    const id = await post({ scheduled_at: inMs(DAY) })
    const moved = await patch(id, { scheduled_at: inMs(2 * DAY) })
    assert.deepEqual([moved.status, moved.body.data.attributes.scheduled_at], [200, inMs(2 * DAY)])
    assert.equal(pointerOf(await patch(id, { subject: 'Other' })), 'immutable /data/attributes/subject')
    assert.equal(pointerOf(await patch(id, { scheduled_at: inMs(31 * DAY) })), 'invalid /data/attributes/scheduled_at')
    assert.equal((await patch(id, { scheduled_at: null })).status, 200)
    await become(id, 'delivered')
    const late = await patch(id, { scheduled_at: inMs(DAY) })
    assert.deepEqual([late.status, late.body.errors[0].code], [422, 'not_editable'])
    assert.equal((await cancel(id)).body.errors[0].code, 'transition_not_allowed')
  })

  test('can be cancelled: nothing is sent, no event is written, and its volume is returned', async () => {
    const before = used()
    const id = await post({ scheduled_at: inMs(HOUR), bcc: ['eve@there.test'] })
    assert.equal(used(), before + 2)
    const { body, status } = await cancel(id)
    assert.deepEqual([status, body.data.attributes.status], [202, 'cancelled'])
    assert.ok(body.data.attributes.cancelled_at)
    assert.equal(used(), before)
    postrider.clock.leap(2 * HOUR)
    await until(async () => (await show(id)).status === 'cancelled')
    assert.deepEqual(
      (await show(id)).recipients.map((each) => each.status),
      ['cancelled', 'cancelled'],
    )
    assert.deepEqual(eventTypes(id), [])
    assert.equal((await cancel(id)).status, 422)
  })

  test('of a cancellation and the due time at the same moment, exactly one wins', async () => {
    const id = await post({ scheduled_at: inMs(HOUR) })
    const cancelling = cancel(id)
    postrider.clock.advance(HOUR)
    const won = (await cancelling).status === 202
    await until(async () => (await show(id)).status === (won ? 'cancelled' : 'delivered'))
  })

  test('to an address that is suppressed later is not sent', async () => {
    const id = await post({ to: 'later@there.test', scheduled_at: inMs(HOUR) })
    const { clock, store } = postrider.appliance.deps
    const about = store.one(
      raw<{ user_key: number; domain_key: number }>('select user_key, domain_key from outbound_emails where id = ?', [
        id,
      ]),
    )
    const of = { ...about, address: 'later@there.test', reason: 'manual', scope: 'all', source: 'manual' } as const
    await store.write((tx) => suppress(tx, of, clock.now()))
    postrider.clock.advance(HOUR)
    await become(id, 'suppressed')
  })

  test('repeated with the same key and the same words is the same email', async () => {
    const attributes = { scheduled_at: 'PT5M', idempotency_key: 'later' }
    const id = await post(attributes)
    postrider.clock.advance(1000)
    const again = await tryPost(attributes)
    assert.deepEqual([again.status, again.body.data.id], [201, id])
    assert.equal((await tryPost({ ...attributes, scheduled_at: 'PT6M' })).status, 409)
    assert.equal((await cancel(id)).status, 202)
  })

  test('of another user is not found', async () => {
    const id = await post({ scheduled_at: inMs(HOUR) })
    assert.equal((await postrider.asOther('POST', `/outbound-emails/${id}/cancel`)).status, 404)
    assert.equal((await cancel(id)).status, 202)
  })

  test('waits while the clock is in doubt', async () => {
    const id = await post({ scheduled_at: inMs(HOUR) })
    const { deps } = postrider.appliance
    let doubtful = true
    const loop = new ScheduledMail({ ...deps, doubtful: () => doubtful, queueChanged: () => {} } as never)
    // The server's own loop is the other one.
    deps.store.all(
      raw('update outbound_emails set scheduled_at = ? where id = ? returning key', [deps.clock.now() - 1, id]),
    )
    loop.start()
    await loop.stop()
    assert.equal((await show(id)).status, 'scheduled')
    doubtful = false
    loop.start()
    await until(async () => (await show(id)).status !== 'scheduled')
    await loop.stop()
  })

  test('has buttons on its page to send it now and to cancel it', async () => {
    const ann = await signedIn(postrider)
    const [one, other] = [await post({ scheduled_at: inMs(DAY) }), await post({ scheduled_at: inMs(DAY) })]
    const page = await ann.open(`/mail/${one}`)
    assert.match(page.text, /Scheduled for[^]*Send now[^]*Cancel email/)
    assert.match((await ann.send(page, 'cancel')).text, /is not sent/)
    assert.equal((await show(one)).status, 'cancelled')
    await ann.send(await ann.open(`/mail/${other}`), 'now')
    await become(other, 'delivered')
    assert.equal((await ann.open(`/mail/${other}`)).text.includes('Send now'), false)
  })
})
