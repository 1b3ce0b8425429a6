// Rescheduling and unscheduling (D144). The specification rejects both in a PATCH, so they have their own routes. In a
// race with the start exactly one of the two wins.
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { depsOf } from '../../src/campaigns/api.ts'
import { changeSchedule } from '../../src/campaigns/edit.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const HOUR = 3_600_000
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const iso = (at: number): string => new Date(at).toISOString()

beforeEach(() => void (exchanger.heard.length = 0))

async function scheduled(after: number): Promise<string> {
  const list = await kit.audience(domain)
  await kit.fill(list, ['ann@there.test'])
  const id = await kit.draft(list)
  const answer = await kit.patch(id, { status: 'scheduled', scheduled_at: iso(postrider.clock.now() + after) })
  assert.equal(answer.status, 200)
  return id
}
const unschedule = (id: string) => postrider.api('POST', `/campaigns/${id}/unschedule`)
const reschedule = (id: string, scheduled_at: unknown) =>
  postrider.api('POST', `/campaigns/${id}/reschedule`, document('campaign-schedules', { scheduled_at }))
const status = async (id: string): Promise<string> => (await kit.show(id))['status']

test('an unscheduled campaign is a draft without a start time, which can be edited and started at once', async () => {
  const id = await scheduled(HOUR)
  const answer = await unschedule(id)
  assert.equal(answer.status, 202, JSON.stringify(answer.body))
  assert.partialDeepStrictEqual(answer.body.data, {
    type: 'campaigns',
    id,
    attributes: { status: 'draft', scheduled_at: null },
  })
  postrider.clock.leap(2 * HOUR)
  assert.equal((await kit.patch(id, { subject: 'Newer' })).status, 200)
  assert.equal(await status(id), 'draft')
  assert.equal(await kit.send(id), 'sent')
  assert.match(exchanger.heard[0]!.message, /^Subject: Newer\r$/m)
})

test('a rescheduled campaign starts at its new time, not before', async () => {
  const id = await scheduled(HOUR)
  const later = iso(postrider.clock.now() + 3 * HOUR)
  const answer = await reschedule(id, later)
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
  assert.deepEqual(answer.body.data.attributes, { scheduled_at: later, status: 'scheduled' })
  postrider.clock.leap(2 * HOUR)
  // A campaign that is due now ends: the runner has had its turn.
  const other = await scheduled(0)
  await until(async () => (await status(other)) === 'sent', 'the other one')
  assert.equal(await status(id), 'scheduled')
  postrider.clock.leap(HOUR)
  await until(async () => (await status(id)) === 'sent', 'the start at the new time')
  const past = await scheduled(HOUR)
  assert.equal((await reschedule(past, '2001-01-01T00:00:00Z')).status, 200)
  await until(async () => (await status(past)) === 'sent', 'a past time starts at once')
})

test('only scheduled campaigns can be unscheduled or rescheduled, and PATCH rejects both', async () => {
  const id = await scheduled(HOUR)
  const back = await kit.patch(id, { status: 'draft' })
  assert.equal(back.status, 422)
  assert.match(
    back.body.errors[0].detail,
    /Possible: cancelled\. To make it a draft again, use POST \/campaigns\/\{id\}\/unschedule/,
  )
  assert.equal((await kit.patch(id, { scheduled_at: iso(postrider.clock.now()) })).status, 422)
  for (const at of [null, 'tomorrow', 7, undefined])
    assert.equal((await reschedule(id, at)).status, 422, JSON.stringify(at))
  assert.equal((await postrider.asOther('POST', `/campaigns/${id}/unschedule`)).status, 404)
  await unschedule(id)
  for (const answer of [await unschedule(id), await reschedule(id, iso(postrider.clock.now() + HOUR))]) {
    assert.equal(answer.status, 422)
    assert.equal(answer.body.errors[0].code, 'transition_not_allowed')
    assert.match(answer.body.errors[0].detail, /The campaign is draft/)
  }
  assert.equal(await status(id), 'draft')
  assert.equal((await unschedule('019bc186-de00-738a-a9ec-e0b19577265d')).status, 404)
})

test('unscheduling or rescheduling in the second of the start: exactly one of the two wins', async () => {
  for (let n = 0; n < 24; n++) {
    const id = await scheduled(1000)
    // The runner is woken by the clock; the requests come before it, with it, or after it.
    const turns = n % 8
    postrider.clock.advance(1000)
    for (let turn = 0; turn < turns; turn++) await new Promise((resolve) => setImmediate(resolve))
    const [first, second] = await Promise.all(
      n % 2 === 0
        ? [unschedule(id), unschedule(id)]
        : [unschedule(id), reschedule(id, iso(postrider.clock.now() + HOUR))],
    )
    const won = [first, second].filter((answer) => answer.status < 300).length
    assert.ok(won <= (n % 2 === 0 ? 1 : 2), `${won} won`)
    if (won === 0) {
      assert.match(first.body.errors[0].detail, /The campaign is (sending|sent)/)
      await until(async () => (await status(id)) === 'sent', 'the end')
    } else {
      const { started_at, status: now } = await kit.show(id)
      assert.equal(started_at, null, 'it has not begun')
      assert.equal(now, 'draft', 'a draft cannot be put off')
    }
    assert.equal(exchanger.heard.length, won === 0 ? 1 : 0)
    exchanger.heard.length = 0
  }
})

test('a due campaign that is rescheduled before it starts does not start', async () => {
  const id = await scheduled(1000)
  const { deps } = postrider.appliance
  const { clock, store } = deps
  const { key } = store.first<{ key: number }>(raw('select key from campaigns where id = ?', [id]))!
  // The change waits for its commit while the runner finds the campaign due.
  const changed = changeSchedule({ ...depsOf(deps), ring: () => {} }, key, clock.now() + HOUR)
  postrider.clock.advance(1000)
  await changed
  const other = await scheduled(0)
  await until(async () => (await status(other)) === 'sent', 'the other one')
  assert.equal(await status(id), 'scheduled')
})

test('a read-only token cannot change a schedule', async () => {
  const id = await scheduled(HOUR)
  const reader = await postrider.tokenFor(postrider.user, ['campaigns:read'])
  const headers = { authorization: `Bearer ${reader}` }
  assert.equal((await postrider.api('POST', `/campaigns/${id}/unschedule`, undefined, headers)).status, 403)
  const asked = document('campaign-schedules', { scheduled_at: iso(postrider.clock.now()) })
  assert.equal((await postrider.api('POST', `/campaigns/${id}/reschedule`, asked, headers)).status, 403)
})
