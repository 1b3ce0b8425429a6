// Sign-ups by the API: outcomes, wrong input, and one more confirmation email.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR, MINUTE } from '../../src/base/clock.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { signupKit } from '../kit/signups.ts'
import { clientHash } from '../../src/forms/limits.ts'
import { raw } from '../../src/store/query.ts'

const postrider = ofFile(() => startTestAppliance({ config: { signup: { per_client: 2 } } }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const forms = formKit(() => postrider)
const campaigns = campaignKit(() => postrider)
const visitor = signupKit(() => postrider)
const FIELDS = [
  { key: 'name', label: null, required: true },
  { key: 'city', label: 'City', required: true },
]

async function makeForm(attributes: Record<string, unknown> = {}) {
  const audience = await campaigns.audience(domain)
  return { audience, ...(await forms.open({ audience }, { fields: FIELDS, ...attributes })) }
}
const form = ofFile(() => makeForm())
const post = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('POST', `/forms/${id}/signups`, document('signups', attributes))
const outcomeOf = async (id: string, attributes: Record<string, unknown>): Promise<string> => {
  const { body, status } = await post(id, attributes)
  assert.equal(status, 202, JSON.stringify(body))
  return body.data.attributes.outcome
}

test('a sign-up by the API sends a confirmation email, and stores what was agreed to and where (AU17, AU30)', async () => {
  const answer = await post(form.id, {
    email: ' Ann@There.test ',
    name: 'Ann',
    fields: { city: 'Ghent' },
    language: 'de-AT',
    page: 'https://www.here.test/shop',
    client_address: '192.0.2.77',
    consent_text: 'Ja, bitte.',
  })
  assert.equal(answer.status, 202, JSON.stringify(answer.body))
  assert.deepEqual(answer.body.data.attributes, { outcome: 'confirmation_sent' })
  const contact = await visitor.contact(form.audience, 'ann@there.test')
  const { relationships } = answer.body.data
  assert.equal(relationships.contact.data.id, contact.id)
  const proof = await postrider.api('GET', `/consents/${relationships.consent.data.id}`)
  assert.equal(proof.body.data.attributes.state, 'requested')
  const [email] = await visitor.emails('ann@there.test')
  assert.match(email!.html, /<html lang="de">/)
  const { keyring, store } = postrider.appliance.deps
  const [consent] = store.all(
    raw('select text, language, page, source, request_client from consents order by key desc limit 1'),
  )
  assert.deepEqual(consent, {
    text: 'Ja, bitte.',
    language: 'de-AT',
    page: 'https://www.here.test/shop',
    source: 'api',
    request_client: clientHash(keyring, '192.0.2.77'),
  })
  const page = await (await postrider.page(visitor.link('ann@there.test'))).text()
  assert.match(page, /Ja, bitte\.[\s\S]*value="Ann"[\s\S]*value="Ghent"/)
})

test('each outcome is named, and those without an email change nothing (AU17)', async () => {
  const { audience, id } = await makeForm()
  await campaigns.fill(audience, ['in@there.test'])
  assert.equal(await outcomeOf(id, { email: 'in@there.test' }), 'already_subscribed')
  assert.equal(await outcomeOf(id, { email: 'new@there.test' }), 'confirmation_sent')
  assert.equal(await outcomeOf(id, { email: 'new@there.test' }), 'limited')
  await visitor.press(visitor.link('new@there.test'), 'refuse')
  postrider.clock.leap(HOUR)
  assert.equal(await outcomeOf(id, { email: 'new@there.test' }), 'refused_lately')
  const suppressions = [{ email: 'stop@there.test', reason: 'complaint' }]
  const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
  const made = await postrider.api(
    'POST',
    '/suppression-imports',
    document('suppression-imports', { suppressions }, { relationships }),
  )
  assert.equal(made.status, 201, JSON.stringify(made.body))
  assert.equal(await outcomeOf(id, { email: 'stop@there.test' }), 'suppressed')
  const client_address = '2001:db8::7'
  for (const [name, outcome] of [
    ['a', 'confirmation_sent'],
    ['b', 'confirmation_sent'],
    ['c', 'limited'],
  ])
    assert.equal(await outcomeOf(id, { email: `${name}@clients.test`, client_address }), outcome)
  await forms.patch(id, { status: 'paused' })
  assert.equal(await outcomeOf(id, { email: 'wait@there.test' }), 'paused')
  const single = await makeForm({ opt_in: 'single', single_reason: 'Customers of our shop.' })
  assert.equal(await outcomeOf(single.id, { email: 'single@there.test' }), 'subscribed')
})

test('a form that is not open is 409 form_closed (AU17)', async () => {
  const { id } = await makeForm()
  await forms.patch(id, { status: 'closed' })
  const { body, status } = await post(id, { email: 'a@there.test' })
  assert.deepEqual([status, body.errors[0].code], [409, 'form_closed'])
})

const WRONG: Record<string, [attributes: Record<string, unknown>, pointer: string]> = {
  'no address': [{}, ''],
  'two addresses': [{ email: 'a@x.test, b@x.test' }, '/email'],
  'a line break': [{ email: 'a@x.test\nBcc: b@x.test' }, '/email'],
  'a local part beyond ASCII': [{ email: 'ä@x.test' }, '/email'],
  'a name with a line break': [{ email: 'a@x.test', name: 'A\nB' }, '/name'],
  'a number as a name': [{ email: 'a@x.test', name: 7 }, '/name'],
  'an unknown field': [{ email: 'a@x.test', fields: { shoe: '43' } }, '/fields'],
  'a number in a field': [{ email: 'a@x.test', fields: { city: 7 } }, '/fields'],
  'a field that is too long': [{ email: 'a@x.test', fields: { city: 'x'.repeat(201) } }, '/fields'],
  'fields that are a list': [{ email: 'a@x.test', fields: [] }, '/fields'],
  'a page without an http URL': [{ email: 'a@x.test', page: 'javascript:alert(1)' }, '/page'],
  'a client without an IP address': [{ email: 'a@x.test', client_address: 'localhost' }, '/client_address'],
  'an empty text': [{ email: 'a@x.test', consent_text: ' ' }, '/consent_text'],
  'a text that reverses what follows': [{ email: 'a@x.test', consent_text: 'I \u202eagree' }, '/consent_text'],
  'a malformed language': [{ email: 'a@x.test', language: 'x' }, '/language'],
  'an unknown attribute': [{ email: 'a@x.test', status: 'subscribed' }, '/status'],
}
for (const [what, [attributes, pointer]] of Object.entries(WRONG))
  test(`${what} is 422 at its attribute, and nothing is stored (AU107)`, async () => {
    const { body, status } = await post(form.id, attributes)
    assert.equal(status, 422, JSON.stringify(body))
    assert.equal(body.errors[0].source.pointer, `/data/attributes${pointer}`)
    assert.equal(await visitor.contact(form.audience, 'a@x.test'), undefined)
  })

test('a pending contact gets one more confirmation email, within the limits of its address (AU17)', async () => {
  const { audience, id } = await makeForm()
  await outcomeOf(id, { email: 'again@there.test', name: 'Ann' })
  const contact = await visitor.contact(audience, 'again@there.test')
  const again = () => postrider.api('POST', `/contacts/${contact.id}/confirmation`)
  const { outcome, possible_at } = (await again()).body.data.attributes
  assert.equal(outcome, 'limited')
  const wait = Date.parse(possible_at) - postrider.clock.now()
  assert.ok(wait > 4 * MINUTE && wait <= 5 * MINUTE, possible_at)
  postrider.clock.leap(wait)
  const answer = await again()
  assert.equal(answer.status, 202)
  assert.deepEqual(answer.body.data.attributes, { outcome: 'confirmation_sent', possible_at: null })
  assert.equal((await visitor.emails('again@there.test')).length, 2)
  const link = visitor.link('again@there.test')
  assert.match(await (await postrider.page(link)).text(), /value="Ann"/)
  await visitor.press(link, 'confirm', { name: 'Ann', 'field.city': 'Ghent' })
  assert.equal((await again()).status, 422)
})
