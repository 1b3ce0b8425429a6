// Requests that recipients make on their own page: stored with a deadline, answered by the account or at once, and
// reported when they are overdue.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { DAY } from '../../src/base/clock.ts'
import { recipientHash } from '../../src/base/recipient-hash.ts'
import { answerDepsOf } from '../../src/privacy/api-recipient-requests.ts'
import { recordsAbout } from '../../src/privacy/bundle.ts'
import { askFor } from '../../src/privacy/recipient-requests.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const METRICS = '0123456789abcdef'
const kit = campaignKit(() => postrider)

type Kind = 'export' | 'erasure'

const ask = (kind: Kind, email: string, on: TestAppliance = postrider, of = domain) => {
  const { deps } = on.appliance
  const asked = { user_key: of.user_key, domain_key: of.key, kind, language: 'de', email }
  return askFor(answerDepsOf(deps), asked)
}
const show = async (id: string) => (await postrider.api('GET', `/recipient-requests/${id}`)).body.data.attributes
const patch = (id: string, attributes: Record<string, unknown>, headers: Record<string, string> = {}) =>
  postrider.api('PATCH', `/recipient-requests/${id}`, { data: { type: 'recipient-requests', id, attributes } }, headers)
const heard = (to: string, subject: RegExp) =>
  until(
    () => exchanger.heard.find((each) => each.to.includes(to) && subject.test(each.message))?.message,
    `an email to ${to}`,
  )
const notices = (): string[] =>
  postrider.appliance.deps.store.all(raw<{ text: string }>('select text from notices')).map(({ text }) => text)

async function subscriber(email: string): Promise<void> {
  await kit.fill(await kit.audience(domain), [email])
}

test('a request is open for 30 days, and the owner is notified once without the address (AU56)', async () => {
  await subscriber('mia@there.test')
  const before = notices().length
  const request = await ask('export', 'mia@there.test')
  assert.equal((await ask('export', 'mia@there.test')).id, request.id)
  const { data } = (await postrider.api('GET', '/recipient-requests?filter[state]=open&filter[kind]=export')).body
  assert.equal(data.length, 1)
  assert.partialDeepStrictEqual(data[0].attributes, {
    kind: 'export',
    state: 'open',
    email: 'mia@there.test',
    reason: null,
    answered_at: null,
    emailed_at: null,
    recipient_hash: recipientHash(postrider.appliance.deps.keyring, 'mia@there.test'),
  })
  assert.equal(Date.parse(data[0].attributes.due_at) - Date.parse(data[0].attributes.created_at), 30 * DAY)
  const written = notices().slice(before)
  assert.equal(written.length, 1)
  assert.match(written[0]!, /\/privacy\n/)
  assert.doesNotMatch(written[0]!, /mia/)
})

test('"done" exports the data, and the recipient receives a link that works for 24 hours', async () => {
  await subscriber('copy@there.test')
  const { id } = await ask('export', 'copy@there.test')
  const before = notices().length
  assert.equal((await patch(id, { state: 'done' })).status, 200)
  const message = await heard('copy@there.test', /Die Kopie Ihrer Daten/)
  assert.match(message, /^Auto-Submitted: auto-generated\r$/m)
  const { answered_at, email, emailed_at, state } = await show(id)
  assert.deepEqual([state, email, answered_at !== null, emailed_at !== null], ['done', null, true, true])
  // The account gets no link.
  assert.equal(notices().length, before)
  const found = await postrider.api('GET', '/outbound-emails?filter[search]=to:copy@there.test')
  const shown = (await postrider.api('GET', `/outbound-emails/${found.body.data[0].id}`)).body.data.attributes
  assert.deepEqual(shown.tags, ['subscriber_export'])
  assert.match(shown.text, /\/exports\/known-to-the-recipient\n/)
  const [, path] = /https?:\/\/[^/\s]+(\/exports\/\S+)/.exec((await simpleParser(message)).text ?? '')!
  const got = await postrider.raw(path!)
  assert.deepEqual([got.status, got.headers.get('content-type')], [200, 'application/zip'])
  postrider.clock.leap(DAY)
  assert.equal((await postrider.raw(path!)).status, 404)
})

test('"declined" needs a reason, which the recipient receives (AU56, AU107)', async () => {
  await subscriber('no@there.test')
  const { id } = await ask('erasure', 'no@there.test')
  for (const [attributes, pointer] of [
    [{ state: 'declined' }, undefined],
    [{ state: 'declined', reason: null }, 'reason'],
    [{ state: 'declined', reason: 'too short' }, 'reason'],
    [{ state: 'declined', reason: '          ' }, 'reason'],
    [{ state: 'declined', reason: 'x'.repeat(1001) }, 'reason'],
    [{ state: 'declined', reason: 7 }, 'reason'],
    [{ state: 'done', reason: 'This is a reason.' }, 'reason'],
    [{ state: 'open', reason: 'This is a reason.' }, 'state'],
    [{ state: 'gone' }, 'state'],
    [{ reason: 'This is a reason.' }, undefined],
  ] as const) {
    const { body, status } = await patch(id, attributes)
    assert.deepEqual(
      [status, body.errors[0].source.pointer],
      [422, pointer === undefined ? '/data/attributes' : `/data/attributes/${pointer}`],
      JSON.stringify(attributes),
    )
  }
  for (const attributes of [{}, { state: 'open' }]) assert.equal((await patch(id, attributes)).status, 200)
  assert.equal((await show(id)).state, 'open')
  // Limited in characters, not in bytes.
  const reason = 'We must keep <your> invoices.\nFor ten years.'.padEnd(1000, 'é')
  const { body, status } = await patch(id, { state: 'declined', reason })
  assert.equal(status, 200)
  assert.partialDeepStrictEqual(body.data.attributes, { state: 'declined', reason, email: null })
  assert.ok(body.data.attributes.emailed_at !== null)
  await heard('no@there.test', /^Subject: .*Ihre Anfrage/m)
  const found = await postrider.api('GET', '/outbound-emails?filter[search]=to:no@there.test')
  const shown = (await postrider.api('GET', `/outbound-emails/${found.body.data[0].id}`)).body.data.attributes
  assert.deepEqual(shown.tags, ['subscriber_declined'])
  assert.ok(shown.text.includes(reason) && shown.html.includes('We must keep &lt;your&gt; invoices.'))
  const again = await patch(id, { state: 'done' })
  assert.deepEqual([again.status, again.body.errors[0].code], [422, 'transition_not_allowed'])
})

test('"done" erases the recipient, and no request keeps the address', async () => {
  await subscriber('erase@there.test')
  const other = await ask('export', 'erase@there.test')
  const { id } = await ask('erasure', 'erase@there.test')
  assert.equal((await patch(id, { state: 'done' })).status, 200)
  assert.deepEqual([(await show(id)).state, (await show(id)).email], ['done', null])
  assert.deepEqual([(await show(other.id)).state, (await show(other.id)).email], ['done', null])
  await until(async () => (await postrider.api('GET', '/recipients/erase@there.test')).status === 404, 'the erasure')
})

test('an erasure by the account closes the requests of the recipient', async () => {
  await subscriber('closed@there.test')
  const { id } = await ask('erasure', 'closed@there.test')
  assert.equal((await postrider.api('DELETE', '/recipients/closed@there.test/forget')).status, 202)
  assert.deepEqual([(await show(id)).state, (await show(id)).email], ['done', null])
})

test('other accounts do not see a request (AU110)', async () => {
  const { id } = await ask('export', 'private@there.test')
  const token = { authorization: `Bearer ${postrider.otherToken}` }
  assert.equal((await postrider.api('GET', `/recipient-requests/${id}`, undefined, token)).status, 404)
  assert.equal((await patch(id, { state: 'done' }, token)).status, 404)
  assert.deepEqual((await postrider.api('GET', '/recipient-requests', undefined, token)).body.data, [])
  assert.equal((await show(id)).state, 'open')
})

test('the page Privacy lists open requests, and answers them', async () => {
  const ann = await signedIn(postrider)
  await subscriber('page@there.test')
  await ask('export', 'page@there.test')
  const page = await ann.open('/privacy')
  assert.match(page.text, /Requests of recipients/)
  assert.match(page.text, /page@there\.test/)
  assert.match((await ann.send(page, 'decline')).text, /Reason|reason/)
})

test('an overdue request is a problem of the account on the overview, and counted in the metrics (AU56, AU111)', async () => {
  await using own = await startTestAppliance({ config: { metrics: { token: METRICS } } })
  const here = await own.activeDomain('late.test')
  const ann = await signedIn(own)
  await ask('export', 'late@there.test', own, here)
  assert.doesNotMatch((await ann.open('/')).text, /should have been answered/)
  own.clock.leap(30 * DAY)
  const again = await signedIn(own)
  assert.match((await again.open('/')).text, /1 request of recipients should have been answered/)
  const metrics = await own.raw('/metrics', { headers: { authorization: `Bearer ${METRICS}` } })
  assert.match(metrics.body, /^postrider_recipient_requests_overdue 1$/m)
})

test('with "automatic", the server answers at once and does not notify the owner', async () => {
  await using own = await startTestAppliance({ config: { privacy: { recipient_requests: 'automatic' } } })
  const here = await own.activeDomain('auto.test')
  const made = await ask('export', 'auto@there.test', own, here)
  assert.equal(made.state, 'done')
  assert.equal((await ask('export', 'auto@there.test', own, here)).id, made.id)
  own.clock.leap(DAY)
  assert.notEqual((await ask('export', 'auto@there.test', own, here)).id, made.id)
  const erased = await ask('erasure', 'auto@there.test', own, here)
  assert.deepEqual([erased.state, erased.email], ['done', null])
  const { store } = own.appliance.deps
  assert.equal(store.all(raw('select 1 from notices where subject like ?', ['A recipient asks%'])).length, 0)
})

test('an export has the consents of the recipient and the requests, without the words of the account (AU36)', async () => {
  const audience = await kit.audience(domain, 'Leads, cold')
  const titled = document('audiences', { title: 'Proof' }, { id: audience })
  assert.equal((await postrider.api('PATCH', `/audiences/${audience}`, titled)).status, 200)
  const add = (email: string) =>
    postrider.api(
      'POST',
      `/audiences/${audience}/contacts`,
      document('contacts', { email, consent_evidence: 'A card' }),
    )
  const { body } = await add('proof@there.test')
  assert.equal((await postrider.api('DELETE', `/contacts/${body.data.id}`)).status, 204)
  await add('proof@there.test')
  await add('xproof@there.test')
  await ask('export', 'proof@there.test')
  const records = recordsAbout(postrider.appliance.deps, domain.user_key, 'proof@there.test')
  assert.deepEqual(
    records['consents']!.map(({ audience: name, evidence, state }) => [name, evidence, state]),
    [
      ['Proof', 'A card', 'asserted'],
      ['Proof', 'A card', 'asserted'],
    ],
  )
  assert.equal(records['contacts']![0]!['audience'], 'Proof')
  assert.equal(records['recipient_requests']!.length, 1)
  assert.deepEqual(records['signups'], [])
  assert.ok(!JSON.stringify(records).includes('Leads, cold'))
  assert.ok(records['consents']!.every((each) => !('person' in each)))
})
