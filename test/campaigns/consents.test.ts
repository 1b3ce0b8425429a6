// Proof of consent (AU28, AU34, AU35): every way into an audience writes it with the contact, and triggers end and
// restore it with the status, whichever process changes that.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { consentsOf, forgetConsents, moveConsent, recordConsent, type Consent } from '../../src/campaigns/consents.ts'
import { insert, leaveAudience, type Contact } from '../../src/campaigns/contacts.ts'
import { audienceById } from '../../src/campaigns/audiences.ts'
import { forgetContacts } from '../../src/campaigns/forget.ts'
import { recipientHash } from '../../src/base/recipient-hash.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'

const kit = campaignKit(() => postrider)
const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))

const add = async (audience: string, attributes: Record<string, unknown>): Promise<string> => {
  const { body, status } = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts`,
    document('contacts', attributes),
  )
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}
const patch = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('PATCH', `/contacts/${id}`, document('contacts', attributes, { id }))
const statusOf = async (id: string): Promise<string> =>
  (await postrider.api('GET', `/contacts/${id}`)).body.data.attributes.status
const keyring = () => postrider.appliance.deps.keyring
const store = () => postrider.appliance.deps.store
const of = (email: string): Consent[] =>
  consentsOf(store(), keyring(), store().one(raw<{ key: number }>('select min(key) as key from users')).key, email)

test('every way into an audience writes a consent, with who added the contact and the proof', async () => {
  const audience = await kit.audience(domain)
  await add(audience, { email: 'api@there.test', consent_evidence: 'Paper form 17' })
  await kit.fill(audience, ['import@there.test'])
  const list = await postrider.api(
    'POST',
    `/audiences/${audience}/list-imports`,
    document('contacts', { contacts: [{ line: 1, email: 'list@there.test' }], evidence: 'Double opt-in at the shop' }),
  )
  assert.equal(list.status, 200, JSON.stringify(list.body))
  assert.equal(of('list@there.test')[0]?.evidence, 'Double opt-in at the shop')
  const [api] = of('api@there.test')
  assert.equal(api?.state, 'asserted')
  assert.equal(api.source, 'api')
  assert.equal(api.evidence, 'Paper form 17')
  assert.notEqual(api.person, '')
  const [imported] = of('import@there.test')
  assert.equal(imported?.state, 'imported')
  assert.equal(imported.evidence, null)
  const { without } = store().one(
    raw<{ without: number }>(
      `select count(*) as without from contacts c where not exists (select 1 from consents where contact_key = c.key)`,
    ),
  )
  assert.equal(without, 0)
})

test('unsubscribing ends the consent, and subscribing again restores it', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'ann@there.test' })
  await patch(id, { status: 'unsubscribed' })
  assert.equal(of('ann@there.test')[0]?.ended_at, postrider.clock.now())
  postrider.clock.leap(1000)
  await patch(id, { status: 'subscribed' })
  const [consent] = of('ann@there.test')
  assert.equal(consent?.ended_at, null)
  assert.equal(consent.restored_at, postrider.clock.now())
})

test('a contact that unsubscribed from one audience gets the others, and stays unsubscribed when a suppression ends', async () => {
  const [one, two] = [await kit.audience(domain, 'One'), await kit.audience(domain, 'Two')]
  const [first, second] = [await add(one, { email: 'bob@there.test' }), await add(two, { email: 'bob@there.test' })]
  const { body } = await patch(first, { status: 'unsubscribed', unsubscribed_from: 'audience' })
  assert.equal(body.data.attributes.unsubscribed_from, 'audience')
  assert.deepEqual([await statusOf(first), await statusOf(second)], ['unsubscribed', 'subscribed'])
  assert.equal((await postrider.api('GET', '/suppressions?filter[email]=bob@there.test')).body.data.length, 0)

  // All of the domain, and back: the first audience stays as its subscriber wanted it.
  await patch(second, { status: 'unsubscribed' })
  const shown = (await postrider.api('GET', `/contacts/${second}`)).body.data.attributes
  assert.equal(shown.unsubscribed_from, 'domain')
  await patch(second, { status: 'subscribed' })
  assert.deepEqual([await statusOf(first), await statusOf(second)], ['unsubscribed', 'subscribed'])
  await patch(first, { status: 'subscribed' })
  assert.equal(await statusOf(first), 'subscribed')
})

test('a change from one audience to the whole domain adds the suppression', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'carl@there.test' })
  await patch(id, { status: 'unsubscribed', unsubscribed_from: 'audience' })
  await patch(id, { status: 'unsubscribed', unsubscribed_from: 'domain' })
  assert.equal((await postrider.api('GET', '/suppressions?filter[email]=carl@there.test')).body.data.length, 1)
})

const pending = (audience: string, email: string) =>
  store().write((tx) => {
    const now = postrider.clock.now()
    const list = audienceById(tx, audience)
    assert.ok(list)
    const contact = insert(tx, keyring(), list, { email, consent: { state: 'requested', source: 'form' } }, now)
    assert.ok(contact)
    return contact
  })

test('a pending contact gets no campaign, and an owner can subscribe it only with proof', async () => {
  const audience = await kit.audience(domain)
  const { id } = await pending(audience, 'dora@there.test')
  assert.equal(await statusOf(id), 'pending')
  const reach = (await postrider.api('GET', `/audiences/${audience}/reach`)).body.data.attributes
  assert.deepEqual([reach.contacts, reach.recipients, reach.pending], [1, 0, 1])
  for (const change of [{ status: 'subscribed' }, { status: 'unsubscribed' }, { email: 'other@there.test' }]) {
    const { body, status } = await patch(id, change)
    assert.equal(status, 422, JSON.stringify(change))
    assert.equal(body.errors[0].code, 'confirmation_required')
  }
  const { body } = await patch(id, { status: 'subscribed', consent_evidence: 'Signed on paper' })
  assert.equal(body.data.attributes.status, 'subscribed')
  assert.deepEqual(
    of('dora@there.test').map(({ state }) => state),
    ['asserted', 'expired'],
  )
})

test('adding a pending address again by API or import does not subscribe it', async () => {
  const audience = await kit.audience(domain)
  const { id } = await pending(audience, 'emil@there.test')
  const again = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts`,
    document('contacts', { email: 'emil@there.test' }),
  )
  assert.equal(again.status, 422)
  await kit.fill(audience, ['emil@there.test'])
  assert.equal(await statusOf(id), 'pending')
})

test('an address that is unsubscribed enters with an ended consent', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'fred@there.test' })
  await patch(id, { status: 'unsubscribed' })
  const other = await kit.audience(domain, 'Other')
  await add(other, { email: 'fred@there.test' })
  assert.deepEqual(
    of('fred@there.test').map(({ ended_at }) => ended_at !== null),
    [true, true],
  )
})

test('a new address of a contact has its own consent, and the old one keeps only a hash', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'gina@there.test', consent_evidence: 'Stand' })
  await patch(id, { email: 'gina@new.test' })
  const [old] = of('gina@there.test')
  assert.equal(old?.contact_key, null)
  assert.notEqual(old.ended_at, null)
  assert.equal(of('gina@new.test').length, 1)
  assert.equal(of('gina@new.test')[0]?.ended_at, null)
})

test('a removed contact leaves its consent with a hash, until its time is over', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'hugo@there.test', consent_evidence: 'Stand' })
  await postrider.api('DELETE', `/contacts/${id}`)
  const [kept] = of('hugo@there.test')
  assert.deepEqual(
    [kept?.contact_key, kept?.recipient_hash, kept?.ended_at],
    [null, recipientHash(keyring(), 'hugo@there.test'), postrider.clock.now()],
  )
  const limits = { keep_proof: 100 * DAY, keep_requests: 10 * DAY }
  await forgetConsents(store(), limits, postrider.clock.now() + 99 * DAY)
  assert.equal(of('hugo@there.test').length, 1)
  await forgetConsents(store(), limits, postrider.clock.now() + 100 * DAY)
  assert.equal(of('hugo@there.test').length, 0)
})

test('contacts of a deleted audience leave consents that end and expire', async () => {
  const audience = await kit.audience(domain)
  await add(audience, { email: 'ines@there.test' })
  await postrider.api('DELETE', `/audiences/${audience}`)
  const { key } = store().one(raw<{ key: number }>('select key from audiences where id = ?', [audience]))
  await store().write((tx) => tx.run(raw('delete from contacts where audience_key = ?', [key])))
  await forgetConsents(store(), { keep_proof: DAY, keep_requests: DAY }, postrider.clock.now())
  assert.equal(of('ines@there.test')[0]?.ended_at, postrider.clock.now())
})

test('an erasure leaves a stub of each consent: hash, form and times, and nothing else', async () => {
  const audience = await kit.audience(domain)
  await add(audience, { email: 'jane@there.test', consent_evidence: 'Stand of Jane' })
  const hash = recipientHash(keyring(), 'jane@there.test')
  const { user_key } = store().one(raw<{ user_key: number }>('select user_key from audiences where id = ?', [audience]))
  const erasing = { userKey: user_key, address: 'jane@there.test', hash: `#${hash}`, mark: '[erased]', at: 5000 }
  await store().write((tx) => forgetContacts(tx, erasing))
  const [stub] = of('jane@there.test')
  assert.ok(stub)
  const { state, recipient_hash, evidence, text, page, request_client, contact_key } = stub
  assert.deepEqual(
    { state, recipient_hash, evidence, text, page, request_client, contact_key },
    {
      state: 'erased',
      recipient_hash: hash,
      evidence: null,
      text: null,
      page: null,
      request_client: null,
      contact_key: null,
    },
  )
})

test('a consent moves only as its state table says', async () => {
  const audience = await kit.audience(domain)
  const contact = await pending(audience, 'kai@there.test')
  await store().write((tx) => {
    const now = postrider.clock.now()
    const made = recordConsent(tx, keyring(), contact, { state: 'requested', source: 'form' }, now)
    const confirmed = moveConsent(tx, made, 'confirm', now, { confirmed_at: now })
    assert.equal(confirmed?.state, 'confirmed')
    assert.equal(moveConsent(tx, confirmed, 'expire', now), undefined)
    assert.equal(moveConsent(tx, made, 'refuse', now), undefined, 'it is not in this state any more')
  })
})

test('leaving an audience twice changes nothing the second time', async () => {
  const audience = await kit.audience(domain)
  const id = await add(audience, { email: 'lea@there.test' })
  const contact = store().one(raw<Contact>('select * from contacts where id = ?', [id]))
  await store().write((tx) => leaveAudience(tx, contact, 1000))
  const ended = of('lea@there.test')[0]?.ended_at
  await store().write((tx) => leaveAudience(tx, { ...contact, status: 'unsubscribed' }, 2000))
  assert.equal(of('lea@there.test')[0]?.ended_at, ended)
})
