// The size of a campaign’s email is the sum of its parts. It is computed before anything of that size exists, so that
// no text and no contact can exhaust the memory: the campaign is rejected before the start, or the email of a single
// recipient fails.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { holdLane } from '../../src/delivery/queue/waiting.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const store = () => postrider.appliance.deps.store
const VALUE = 'x'.repeat(60_000)
/** 480 MB with this value. */
const TAGS = '{{a}}'.repeat(8000)
/** 45 KB that take 165 KB in the HTML of an email. */
const ENCODED = '\u00e9&'.repeat(15_000)
let ann: Guest

setUp(async () => void (ann = await signedIn(postrider)))

async function draft(attributes: Record<string, unknown>, values: readonly (string | undefined)[]): Promise<string> {
  const contacts = values.map((a, at) => ({ email: `r${at}@there.test`, ...(a ? { custom_fields: { a } } : {}) }))
  const list = await kit.audience(domain)
  await kit.fill(list, contacts)
  return kit.draft(list, attributes)
}

const CASES: Record<string, { body: Record<string, unknown>; value?: string }> = {
  'tags in the HTML': { body: { body_html: `<p>${TAGS}</p>` } },
  'tags in the plain text': { body: { body_html: '<p>Hello</p>', body_text: `Hello ${TAGS}` } },
  'tags and nothing else': { body: { body_html: '', body_text: TAGS } },
  'tags in a link': { body: { body_html: `<a href="https://there.test/?${TAGS}">x</a>` } },
  'tags in the subject': { body: { subject: '{{a}}'.repeat(3), body_html: '<p>Hello</p>' } },
  'values that grow when they are encoded': { body: { body_html: '{{a}} '.repeat(265) }, value: ENCODED },
}

for (const [name, { body, value = VALUE }] of Object.entries(CASES))
  test(`refuses to start and to test a campaign that is too large for one contact: ${name}`, async () => {
    const id = await draft(body, [undefined, 'short', value])
    const started = await kit.patch(id, { status: 'scheduled' })
    assert.equal(started.status, 422, JSON.stringify(started.body))
    assert.equal(started.body.errors[0].code, 'message_too_large')
    assert.equal(started.body.errors[0].source.pointer, '/data/attributes/status')
    assert.equal((await kit.show(id))['status'], 'draft')
    const { body: reach } = await postrider.api('GET', `/campaigns/${id}/reach`)
    assert.equal(reach.data.attributes.oversize, started.body.errors[0].detail)
    const review = (await ann.open(`/campaigns/${id}/send`)).text
    assert.match(review, /the email would have 40 MB or more/)
    assert.doesNotMatch(review, />Send now</)
    // The newest contact is the one with the large value: a test shows its data.
    const tested = await postrider.api('POST', `/campaigns/${id}/test`, {
      data: { type: 'campaign-tests', attributes: { email: 'me@there.test' } },
    })
    assert.equal(tested.status, 422, JSON.stringify(tested.body))
    assert.equal(tested.body.errors[0].code, 'message_too_large')
  })

test('starts a campaign that is just small enough', async () => {
  exchanger.heard.length = 0
  const id = await draft({ body_html: `<p>${'{{a}}\n'.repeat(500)}</p>`, body_text: 'Hello' }, [VALUE])
  assert.equal(await kit.send(id), 'sent')
  assert.ok(exchanger.heard[0]!.message.length > 30_000_000)
})

test('fails a campaign whose contact got large values after it was scheduled', async () => {
  const id = await draft({ body_html: TAGS }, ['short'])
  const at = new Date(postrider.clock.now() + 60_000).toISOString()
  assert.equal((await kit.patch(id, { status: 'scheduled', scheduled_at: at })).status, 200)
  await store().write((tx) =>
    tx.run(raw(`update contacts set custom_fields = json_object('a', ?) where custom_fields like '%short%'`, [VALUE])),
  )
  postrider.clock.advance(60_000)
  const failed = await until(async () => {
    const shown = await kit.show(id)
    return shown['status'] === 'failed' ? shown : undefined
  }, 'the failure')
  assert.match(failed['failure'], /40 MB/)
})

test('rejects the email of the single recipient whose values are too large, with the reason', async () => {
  const { deps } = postrider.appliance
  await holdLane(deps, 'there.test', true)
  const id = await draft({ body_html: TAGS }, ['one', 'two'])
  assert.equal((await kit.patch(id, { status: 'scheduled' })).status, 200)
  await until(async () => ((await kit.show(id))['recipients'] === 2 ? true : undefined), 'the count')
  await store().write((tx) =>
    tx.run(raw(`update contacts set custom_fields = json_object('a', ?) where custom_fields like '%"one"%'`, [VALUE])),
  )
  await holdLane(deps, 'there.test', false)
  deps.bells.queue()
  await until(async () => ((await kit.show(id))['status'] === 'sent' ? true : undefined), 'the end')
  const rows = store().all(
    raw<{ status: string; response: string }>(
      `select d.status, d.response from deliveries d join outbound_emails e on e.key = d.email_key
       where e.campaign_key = (select key from campaigns where id = ?) order by d.key`,
      [id],
    ),
  )
  assert.deepEqual(
    rows.map(({ status }) => status),
    ['rejected', 'delivered'],
  )
  assert.match(rows[0]!.response, /40 MB or more/)
  const { body } = await postrider.api('GET', '/outbound-emails?filter%5Bstatus%5D=rejected')
  const source = await postrider.api('GET', `/outbound-emails/${body.data[0].id}/raw`)
  assert.equal(source.status, 422)
})

test('shows the filled subject of an email cut, in lists and in the preview', async () => {
  const id = await draft({ subject: '{{a}}'.repeat(100), body_html: '<p>Hello</p>' }, ['x'.repeat(600)])
  assert.equal(await kit.send(id), 'sent')
  const { body } = await postrider.api('GET', '/outbound-emails?page%5Bsize%5D=100')
  const subjects: string[] = body.data.map(({ attributes }: { attributes: { subject: string } }) => attributes.subject)
  assert.equal(Math.max(...subjects.map(({ length }) => length)), 2001)
  const preview = (await ann.open(`/campaigns/${id}/preview?head=yes`)).text
  assert.ok(preview.length < 20_000)
})
