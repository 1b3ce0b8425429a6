// Contacts (specification "Contact", "Contacts"; D12, D13, D36, D41, D44): an address is once in an audience, in
// normalised form, with a status that follows the suppressions of the audience’s domain.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { removeSuppressions, suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

let audience: string
const kit = campaignKit(() => postrider)

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const second = ofFile(() => postrider.activeDomain('second.test'))

setUp(async () => {
  audience = await kit.audience(domain)
})

const add = (attributes: Record<string, unknown>, to = audience) =>
  postrider.api('POST', `/audiences/${to}/contacts`, document('contacts', attributes))
const patch = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('PATCH', `/contacts/${id}`, document('contacts', attributes, { id }))
const show = async (id: string) => (await postrider.api('GET', `/contacts/${id}`)).body.data.attributes
const faults = (body: { errors: { code: string; source?: { pointer?: string } }[] }): string[] =>
  body.errors.map(({ code, source }) => `${code} ${source?.pointer}`)
async function added(email: string, to = audience): Promise<string> {
  const { body, status } = await add({ email }, to)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}
const suppressions = async (email: string) =>
  (await postrider.api('GET', `/suppressions?filter[email]=${email}`)).body.data

test('stores a contact in normalised form and finds it again', async () => {
  const { body, status } = await add({
    email: '  Ann.Lee@BÜCHER.Test ',
    name: 'Ann',
    preferences: { weekly: true },
    custom_fields: { plan: 'big' },
  })
  assert.equal(status, 201)
  const { attributes, id, relationships, type } = body.data
  assert.equal(type, 'contacts')
  const now = new Date(postrider.clock.now()).toISOString()
  assert.deepEqual(attributes, {
    email: 'ann.lee@xn--bcher-kva.test',
    name: 'Ann',
    preferences: { weekly: true },
    custom_fields: { plan: 'big' },
    status: 'subscribed',
    unsubscribed_from: null,
    language: null,
    subscribed_at: now,
    created_at: now,
    updated_at: now,
  })
  assert.deepEqual(relationships.audience.data, { type: 'audiences', id: audience })
  const shown = await postrider.api('GET', `/contacts/${id}?include=audience`)
  assert.deepEqual(shown.body.data.attributes, attributes)
  assert.equal(shown.body.included[0].id, audience)
  for (const email of ['ann.lee@xn--bcher-kva.test', 'ANN.LEE@bücher.test', ' ann.lee@Bücher.TEST'])
    assert.deepEqual(faults((await add({ email })).body), ['already_exists /data/attributes/email'])
  assert.equal((await add({ email: 'ann.lee@bücher.test' }, await kit.audience(domain, 'Others'))).status, 201)
})

test('rejects invalid attributes of a contact', async () => {
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { a: deep(levels - 1) })
  const cases: [Record<string, unknown>, string[]][] = [
    [{}, ['required /data/attributes']],
    [{ email: null }, ['invalid /data/attributes/email']],
    [{ email: '' }, ['invalid /data/attributes/email']],
    [{ email: 'ann' }, ['invalid /data/attributes/email']],
    [{ email: 'ann lee@there.test' }, ['invalid /data/attributes/email']],
    [{ email: 'ann@there.test\r\nBcc: x@y.test' }, ['invalid /data/attributes/email']],
    [{ email: 'ann@there.test\0' }, ['invalid /data/attributes/email']],
    [{ email: 'ann@there.test, bob@there.test' }, ['invalid /data/attributes/email']],
    [{ email: '"Ann" <ann@there.test>' }, ['invalid /data/attributes/email']],
    [{ email: `${'a'.repeat(320)}@there.test` }, ['too_long /data/attributes/email']],
    [{ email: 'x@there.test', status: 'subscribed' }, ['immutable /data/attributes/status']],
    [{ email: 'x@there.test', nmae: 'x' }, ['invalid /data/attributes/nmae']],
    [{ email: 'x@there.test', name: 'a\nb' }, ['invalid /data/attributes/name']],
    [{ email: 'x@there.test', name: 7 }, ['invalid /data/attributes/name']],
    [{ email: 'x@there.test', preferences: [] }, ['invalid /data/attributes/preferences']],
    [{ email: 'x@there.test', custom_fields: 'x' }, ['invalid /data/attributes/custom_fields']],
    [{ email: 'x@there.test', custom_fields: { '': 1 } }, ['invalid /data/attributes/custom_fields']],
    [{ email: 'x@there.test', custom_fields: { a: 'x'.repeat(65_536) } }, ['too_long /data/attributes/custom_fields']],
    [
      { email: 'x@there.test', custom_fields: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`k${n}`, n])) },
      ['invalid /data/attributes/custom_fields'],
    ],
    [{ email: 'x', name: 7 }, ['invalid /data/attributes/name']],
  ]
  for (const [attributes, expected] of cases) {
    const answer = await add(attributes)
    assert.equal(answer.status, 422, JSON.stringify(attributes).slice(0, 200))
    assert.deepEqual(faults(answer.body), expected, JSON.stringify(attributes).slice(0, 200))
  }
  assert.equal(
    (await postrider.api('GET', `/audiences/${audience}/contacts?filter[email]=x@there.test`)).body.data.length,
    0,
  )
  // A request is read to 64 levels (D74), the document around it counted.
  for (const [levels, status] of [
    [50, 201],
    [64, 400],
    [500, 400],
  ] as const)
    assert.equal(
      (await add({ email: `deep-${levels}@there.test`, custom_fields: deep(levels) as Record<string, unknown> }))
        .status,
      status,
    )
  const document409 = document('audiences', { email: 'x@there.test' })
  assert.equal((await postrider.api('POST', `/audiences/${audience}/contacts`, document409)).status, 409)
})

test('rejects a lone surrogate in a free-form object, because some JSON parsers reject it', async () => {
  for (const custom_fields of [{ a: '\ud800' }, { '\udc00': 1 }, { a: [{ b: 'x\\\ud83d' }] }])
    assert.deepEqual(faults((await add({ email: 'lone@there.test', custom_fields })).body), [
      'invalid /data/attributes/custom_fields',
    ])
  assert.equal((await add({ email: 'text@there.test', custom_fields: { a: '\\ud800', b: '😀' } })).status, 201)
})

test('returns custom fields and preferences as sent', async () => {
  const custom: Record<string, unknown> = {
    ...Object.fromEntries(Array.from({ length: 90 }, (_, n) => [`key ${n}`, n])),
    constructor: 'a',
    toString: null,
    'a.b': [1, { c: '😀' }],
    '{{name}}': '{{email}}',
    ключ: true,
    'two words': -1.5,
    ['x'.repeat(200)]: '\r\n\0',
  }
  const text = JSON.stringify({ email: 'many@there.test', custom_fields: custom, preferences: { n: [] } }).replace(
    '"constructor"',
    '"__proto__":{"polluted":1},"constructor"',
  )
  const { body, status } = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts`,
    `{"data":{"type":"contacts","attributes":${text}}}`,
  )
  assert.equal(status, 201, JSON.stringify(body).slice(0, 300))
  const answer = await postrider.raw(`/api/v1/contacts/${body.data.id}`, {
    headers: { authorization: `Bearer ${postrider.token}` },
  })
  const read = answer.body.data.attributes.custom_fields
  assert.deepEqual(Object.getOwnPropertyDescriptor(read, '__proto__')?.value, { polluted: 1 })
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined)
  for (const [key, value] of Object.entries(custom)) assert.deepEqual(read[key], value, key)
  const exact = { a: 'x'.repeat(65_536 - 8) }
  assert.equal(JSON.stringify(exact).length, 65_536)
  assert.deepEqual((await patch(body.data.id, { custom_fields: exact })).body.data.attributes.custom_fields, exact)
  assert.deepEqual((await show(body.data.id)).preferences, { n: [] })
  const cleared = (await patch(body.data.id, { custom_fields: null, preferences: null, name: null })).body.data
    .attributes
  assert.deepEqual([cleared.custom_fields, cleared.preferences, cleared.name], [null, null, null])
})

test('PATCH changes the named attributes, and rejects a duplicate address', async () => {
  const one = await added('one@there.test')
  const two = await added('two@there.test')
  assert.deepEqual(faults((await patch(two, { email: ' ONE@there.test' })).body), [
    'already_exists /data/attributes/email',
  ])
  assert.deepEqual(faults((await patch(two, { email: 'no address' })).body), ['invalid /data/attributes/email'])
  assert.deepEqual(faults((await patch(two, { email: null })).body), ['invalid /data/attributes/email'])
  assert.equal((await patch(two, { email: 'TWO@there.test', name: 'Two' })).status, 200)
  assert.equal((await patch(two, { email: 'three@there.test' })).body.data.attributes.name, 'Two')
  assert.equal((await patch(one, { email: 'two@there.test' })).status, 200)
  const half = await patch(one, { name: 'Half', email: 'three@there.test' })
  assert.equal(half.status, 422)
  assert.equal((await show(one)).name, null)
  assert.equal(
    (await postrider.asOther('PATCH', `/contacts/${one}`, document('contacts', {}, { id: one }))).status,
    404,
  )
  assert.equal((await postrider.asOther('GET', `/contacts/${one}`)).status, 404)
  assert.equal((await postrider.asOther('DELETE', `/contacts/${one}`)).status, 404)
})

test('setting the status creates and removes a marketing suppression', async () => {
  const id = await added('left@there.test')
  const again = await added('left@there.test', await kit.audience(domain, 'Again'))
  const elsewhere = await added('left@there.test', await kit.audience(second))
  assert.equal((await patch(id, { status: 'unsubscribed' })).body.data.attributes.status, 'unsubscribed')
  const [entry, ...others] = await suppressions('left@there.test')
  assert.deepEqual(others, [])
  const { expires_at, reason, scope, source } = entry.attributes
  assert.deepEqual([reason, scope, source, expires_at], ['unsubscribe', 'marketing', 'manual', null])
  assert.equal(entry.relationships.domain.data.id, domain.id)
  assert.equal((await show(again)).status, 'unsubscribed')
  assert.equal((await show(elsewhere)).status, 'subscribed')
  assert.equal((await patch(id, { status: 'unsubscribed' })).status, 200)
  assert.equal((await suppressions('left@there.test')).length, 1)
  assert.equal((await patch(id, { status: 'subscribed' })).body.data.attributes.status, 'subscribed')
  assert.equal((await suppressions('left@there.test')).length, 0)
  assert.equal((await show(again)).status, 'subscribed')
  for (const status of ['bounced', 'complained', 'Subscribed', '', null])
    assert.deepEqual(faults((await patch(id, { status })).body), ['invalid /data/attributes/status'], String(status))
})

test('deleting the suppression resubscribes, but adding the contact again does not', async () => {
  const id = await added('back@there.test')
  await patch(id, { status: 'unsubscribed' })
  assert.equal((await postrider.api('DELETE', `/contacts/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/contacts/${id}`)).status, 404)
  assert.equal((await suppressions('back@there.test')).length, 1)
  const readded = await added('Back@there.test')
  assert.equal((await show(readded)).status, 'unsubscribed')
  const imported = await kit.audience(domain, 'Imported')
  await kit.fill(imported, ['back@there.test'])
  const list = (await postrider.api('GET', `/audiences/${imported}/contacts`)).body.data
  assert.equal(list[0].attributes.status, 'unsubscribed')
  const [entry] = await suppressions('back@there.test')
  assert.equal((await postrider.api('DELETE', `/suppressions/${entry.id}`)).status, 204)
  assert.equal((await show(readded)).status, 'subscribed')
  assert.equal((await show(list[0].id)).status, 'subscribed')
})

test('removing a contact adds no suppression', async () => {
  const id = await added('plain@there.test')
  const before = (await postrider.api('GET', `/audiences/${audience}`)).body.data.attributes.contacts_count
  assert.equal((await postrider.api('DELETE', `/contacts/${id}`)).status, 204)
  assert.equal((await postrider.api('DELETE', `/contacts/${id}`)).status, 404)
  assert.deepEqual(await suppressions('plain@there.test'), [])
  assert.equal((await postrider.api('GET', `/audiences/${audience}`)).body.data.attributes.contacts_count, before - 1)
  assert.equal((await show(await added('plain@there.test'))).status, 'subscribed')
})

test('bounces and complaints permanently change contacts of their domain only', async () => {
  const { clock, store } = postrider.appliance.deps
  for (const [reason, status] of [
    ['hard_bounce', 'bounced'],
    ['complaint', 'complained'],
  ] as const) {
    const email = `${reason}@there.test`
    const here = [await added(email), await added(email, await kit.audience(domain, reason))]
    const elsewhere = await added(email, await kit.audience(second, reason))
    const { key: domain_key, user_key } = domain
    const entry = { user_key, domain_key, address: email.toUpperCase(), reason, source: 'smtp', scope: 'all' } as const
    await store.write((tx) => suppress(tx, entry, clock.now()))
    for (const id of here) assert.equal((await show(id)).status, status)
    assert.equal((await show(elsewhere)).status, 'subscribed')
    for (const wanted of ['subscribed', 'unsubscribed'])
      assert.deepEqual(faults((await patch(here[0]!, { status: wanted })).body), [
        'permanent_suppression /data/attributes/status',
      ])
    await postrider.api('DELETE', `/contacts/${here[1]}`)
    assert.equal((await suppressions(email)).length, 1)
    assert.equal((await show(await added(email, await kit.audience(domain, 'New')))).status, status)
    const renamed = await added(`old-${email}`)
    assert.equal((await patch(renamed, { email: `older-${email}` })).body.data.attributes.status, 'subscribed')
    await postrider.api('DELETE', `/contacts/${here[0]}`)
    assert.equal((await patch(renamed, { email })).body.data.attributes.status, status)
    // The operator knows better.
    await removeSuppressions(postrider.appliance.deps, domain.key, email)
    assert.equal((await show(renamed)).status, 'subscribed')
  }
})

test('manual and soft bounce suppressions stop email without changing the contact status', async () => {
  const id = await added('soft@there.test')
  const { clock, store } = postrider.appliance.deps
  for (const reason of ['manual', 'soft_bounce', 'list_import'] as const) {
    const { key: domain_key, user_key } = domain
    const entry = { user_key, domain_key, address: 'soft@there.test', reason, source: 'manual', scope: 'all' } as const
    await store.write((tx) => suppress(tx, entry, clock.now()))
    assert.equal((await show(id)).status, 'subscribed')
  }
})

test('lists: filters, sorts, pages over contacts without a name', async () => {
  const list = await kit.audience(domain, 'Listed')
  const people: [string, string | null][] = [
    ['e@there.test', null],
    ['a@there.test', 'Zoe'],
    ['d@there.test', null],
    ['b@there.test', 'Ann'],
    ['c@there.test', null],
    ['f@there.test', 'Bea'],
  ]
  for (const [email, name] of people) {
    await add({ email, name }, list)
    postrider.clock.advance(10)
  }
  type Body = {
    data: { attributes: { email: string } }[]
    meta: { next_cursor: string | null; prev_cursor: string | null }
  }
  const get = async (query: string): Promise<Body> =>
    (await postrider.api('GET', `/audiences/${list}/contacts?${query}`)).body
  const lettersOf = ({ data }: Body): string => data.map(({ attributes }) => attributes.email[0]).join('')
  assert.equal(lettersOf(await get('')), 'fcbdae')
  assert.equal(lettersOf(await get('sort=email')), 'abcdef')
  assert.equal(lettersOf(await get('filter[email]=a@there.test,f@there.test')), 'fa')
  assert.equal(lettersOf(await get('filter[status]=unsubscribed')), '')
  assert.equal(lettersOf(await get('filter[status]=subscribed,unsubscribed&sort=-email')), 'fedcba')
  for (const sort of ['name', '-name', 'name,email', '-name,-email', 'status,-name', '-status,name,email'])
    for (const size of [1, 2, 4]) {
      const whole = lettersOf(await get(`sort=${sort}`))
      assert.equal(whole.length, 6)
      let walked = ''
      let backwards = ''
      let page = await get(`sort=${sort}&page[size]=${size}`)
      for (;;) {
        walked += lettersOf(page)
        if (page.meta.next_cursor === null || walked.length > 12) break
        page = await get(`sort=${sort}&page[size]=${size}&page[cursor]=${page.meta.next_cursor}`)
      }
      assert.equal(walked, whole, `${sort} by ${size}`)
      for (;;) {
        backwards = lettersOf(page) + backwards
        if (page.meta.prev_cursor === null || backwards.length > 12) break
        page = await get(`sort=${sort}&page[size]=${size}&page[cursor]=${page.meta.prev_cursor}`)
      }
      assert.equal(backwards, whole, `${sort} by ${size}, backwards`)
    }
  for (const query of [
    'filter[name]=x',
    'filter[audience]=x',
    'sort=custom_fields',
    'include=domain',
    'include=audience.domain.x',
  ])
    assert.equal((await postrider.api('GET', `/audiences/${list}/contacts?${query}`)).status, 400, query)
})
