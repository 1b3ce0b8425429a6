// Importing many contacts at once (specification "Import rules", D42): valid ones are imported, the others are counted
// and reported.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'

const kit = campaignKit(() => postrider)

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))

const bring = (audience: string, contacts: unknown, type = 'contacts') =>
  postrider.api('POST', `/audiences/${audience}/contacts/import`, document(type, { contacts }))
const size = async (audience: string): Promise<number> =>
  (await postrider.api('GET', `/audiences/${audience}`)).body.data.attributes.contacts_count
const numbered = (count: number) => Array.from({ length: count }, (_, n) => ({ email: `n${n}@there.test` }))

test('imports a thousand contacts at once, and skips all of them the second time', async () => {
  const audience = await kit.audience(domain)
  const first = await bring(audience, numbered(1000))
  assert.equal(first.status, 200)
  assert.equal(first.body.data.type, 'contact-imports')
  assert.equal(typeof first.body.data.id, 'string')
  assert.deepEqual(first.body.data.attributes, { created: 1000, skipped: 0, errors: [] })
  const again = await bring(audience, numbered(1000))
  assert.deepEqual(
    [again.status, again.body.data.attributes.created, again.body.data.attributes.skipped],
    [200, 0, 1000],
  )
  assert.equal(await size(audience), 1000)
})

test('rejects an empty list, 1,001 and 10,001 contacts, and values that are not a list', async () => {
  const audience = await kit.audience(domain)
  for (const contacts of [[], numbered(1001), numbered(10_001), {}, 'a@there.test', null, 7]) {
    const { body, status } = await bring(audience, contacts)
    assert.equal(status, 422)
    assert.deepEqual([body.errors.length, body.errors[0].source.pointer], [1, '/data/attributes/contacts'])
  }
  const missing = await postrider.api('POST', `/audiences/${audience}/contacts/import`, document('contacts', {}))
  assert.deepEqual([missing.status, missing.body.errors[0].source.pointer], [422, '/data/attributes'])
  const more = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts/import`,
    document('contacts', { contacts: numbered(1), update: true }),
  )
  assert.deepEqual([more.status, more.body.errors[0].source.pointer], [422, '/data/attributes/update'])
  assert.equal((await bring(audience, numbered(1), 'contact-imports')).status, 409)
  assert.equal(await size(audience), 0)
})

test('skips duplicates within the list and the audience, and keeps the first unchanged', async () => {
  const audience = await kit.audience(domain)
  await bring(audience, [{ email: 'ann@there.test', name: 'First' }])
  const { body } = await bring(audience, [
    { email: ' ANN@there.test ', name: 'Second' },
    { email: 'bob@bücher.test', name: 'Bob', preferences: { a: 1 }, custom_fields: { b: [2] } },
    { email: 'Bob@xn--bcher-kva.test', name: 'Bob again' },
    { email: 'cid@there.test', name: null, preferences: null, custom_fields: null },
  ])
  assert.deepEqual(body.data.attributes, { created: 2, skipped: 2, errors: [] })
  const list = (await postrider.api('GET', `/audiences/${audience}/contacts?sort=email`)).body.data
  assert.deepEqual(
    list.map((one: { attributes: Record<string, unknown> }) => [one.attributes['email'], one.attributes['name']]),
    [
      ['ann@there.test', 'First'],
      ['bob@xn--bcher-kva.test', 'Bob'],
      ['cid@there.test', null],
    ],
  )
  assert.deepEqual(list[1].attributes.preferences, { a: 1 })
  assert.deepEqual(list[1].attributes.custom_fields, { b: [2] })
})

test('reports invalid contacts by index, counts them as skipped, and imports the valid ones', async () => {
  const audience = await kit.audience(domain)
  const wrong: [unknown, RegExp, string | null][] = [
    [null, /object/, null],
    ['ann@there.test', /object/, null],
    [7, /object/, null],
    [[], /object/, null],
    [{}, /^email:/, null],
    [{ name: 'Ann' }, /^email:/, null],
    [{ email: null }, /^email:/, null],
    [{ email: 7 }, /^email:/, null],
    [{ email: 'ann' }, /not an email address/, 'ann'],
    [{ email: 'a b@there.test' }, /not an email address/, 'a b@there.test'],
    [{ email: 'a\n@there.test' }, /^email:/, 'a\n@there.test'],
    [{ email: 'a@there.test\0' }, /^email:/, 'a@there.test\0'],
    [{ email: `${'x'.repeat(5000)}@there.test` }, /^email:/, 'x'.repeat(320)],
    [{ email: 'w1@there.test', nmae: 'x' }, /nmae/, 'w1@there.test'],
    [{ email: 'w2@there.test', status: 'subscribed' }, /status/, 'w2@there.test'],
    [{ email: 'w3@there.test', name: 7 }, /^name:/, 'w3@there.test'],
    [{ email: 'w4@there.test', custom_fields: { a: 'x'.repeat(65_536) } }, /^custom_fields:.*64 KB/, 'w4@there.test'],
    [
      {
        email: 'w5@there.test',
        custom_fields: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`k${n}`, n])),
      },
      /^custom_fields:.*100/,
      'w5@there.test',
    ],
    [{ email: 'w6@there.test', preferences: 'x' }, /^preferences:/, 'w6@there.test'],
  ]
  const items = wrong.flatMap(([item], index) => [item, { email: `good${index}@there.test` }])
  const { body, status } = await bring(audience, items)
  assert.equal(status, 200)
  const { created, errors, skipped } = body.data.attributes
  assert.deepEqual([created, skipped, errors.length], [wrong.length, wrong.length, wrong.length])
  for (const [index, [item, detail, email]] of wrong.entries()) {
    assert.equal(errors[index].index, index * 2)
    assert.match(errors[index].detail, detail, JSON.stringify(item)?.slice(0, 100))
    assert.equal(errors[index].email, email)
  }
  assert.equal(await size(audience), wrong.length)
  const hostile = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts/import`,
    '{"data":{"type":"contacts","attributes":{"contacts":[{"email":"p@there.test","__proto__":{"name":"x"}}]}}}',
  )
  assert.deepEqual([hostile.status, hostile.body.data.attributes.skipped], [200, 1])
})

test('two parallel imports of the same contacts create each of them once', async () => {
  const audience = await kit.audience(domain)
  const answers = await Promise.all(Array.from({ length: 4 }, () => bring(audience, numbered(200))))
  const sum = (name: string): number => answers.reduce((total, { body }) => total + body.data.attributes[name], 0)
  assert.deepEqual([sum('created'), sum('skipped'), await size(audience)], [200, 600, 200])
})
