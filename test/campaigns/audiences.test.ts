// Audiences over the API (D3, D12, D13, D40): attributes, relationships, lists, scopes, and what remains after deleting
// one.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const kit = campaignKit(() => postrider)

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const theirs = ofFile(() => postrider.activeDomain('theirs.test', postrider.other))

const of = ({ id }: { id: string }) => ({ relationships: { domain: { data: { type: 'domains', id } } } })
const make = (attributes: Record<string, unknown>, more: Record<string, unknown> = of(domain)) =>
  postrider.api('POST', '/audiences', document('audiences', attributes, more))

/** Code and pointer of each error in a response. */
const faults = (body: { errors: { code: string; source?: { pointer?: string } }[] }): string[] =>
  body.errors.map(({ code, source }) => `${code} ${source?.pointer}`)

test('creates an audience for a domain and returns it', async () => {
  const { body, headers, status } = await make({ name: 'Readers', description: 'Two\nlines' })
  assert.equal(status, 201)
  const { attributes, id, links, relationships, type } = body.data
  assert.equal(type, 'audiences')
  assert.equal(headers.get('location'), links.self)
  assert.deepEqual(attributes, {
    name: 'Readers',
    description: 'Two\nlines',
    title: null,
    language: null,
    contacts_count: 0,
    created_at: new Date(postrider.clock.now()).toISOString(),
    updated_at: new Date(postrider.clock.now()).toISOString(),
  })
  assert.deepEqual(relationships.domain.data, { type: 'domains', id: domain.id })
  const shown = await postrider.api('GET', `/audiences/${id}?include=domain`)
  assert.deepEqual(shown.body.data.attributes, attributes)
  assert.deepEqual(
    shown.body.included.map((one: { type: string; id: string }) => [one.type, one.id]),
    [['domains', domain.id]],
  )
})

test('rejects invalid attributes of an audience', async () => {
  const cases: [Record<string, unknown>, Record<string, unknown>, number, string[]][] = [
    [{}, of(domain), 422, ['required /data/attributes']],
    [{ name: '' }, of(domain), 422, ['invalid /data/attributes/name']],
    [{ name: 'a\r\nb' }, of(domain), 422, ['invalid /data/attributes/name']],
    [{ name: 7 }, of(domain), 422, ['invalid /data/attributes/name']],
    [{ name: 'x'.repeat(256) }, of(domain), 422, ['too_long /data/attributes/name']],
    [{ name: 'a', description: 'x'.repeat(10_001) }, of(domain), 422, ['too_long /data/attributes/description']],
    [{ name: 'a', contacts_count: 7 }, of(domain), 422, ['immutable /data/attributes/contacts_count']],
    [{ name: 'a', nmae: 'b' }, of(domain), 422, ['invalid /data/attributes/nmae']],
    [{ name: 'a' }, {}, 422, ['required /data']],
    [{ name: 'a' }, of(theirs), 404, ['not_found /data/relationships/domain']],
    [{ name: 'a' }, of({ id: 'none' }), 404, ['not_found /data/relationships/domain']],
    [{ name: 'a' }, { ...of(domain), id: 'mine' }, 403, ['client_id_forbidden /data/id']],
    [
      { name: 'a' },
      { relationships: { domain: { data: { type: 'inboxes', id: domain.id } } } },
      409,
      ['type_mismatch /data/relationships/domain/data/type'],
    ],
    [
      { name: 'a' },
      { relationships: { ...of(domain).relationships, owner: { data: null } } },
      403,
      ['relationship_update_forbidden /data/relationships/owner'],
    ],
  ]
  for (const [attributes, more, status, expected] of cases) {
    const answer = await make(attributes, more)
    assert.deepEqual([answer.status, faults(answer.body)], [status, expected], JSON.stringify([attributes, more]))
  }
  for (const key of ['__proto__', 'constructor', 'toString']) {
    const hostile = JSON.stringify(document('audiences', { name: 'a' }, of(domain))).replace(
      '"name"',
      `${JSON.stringify(key)}:"x","name"`,
    )
    const answer = await postrider.api('POST', '/audiences', hostile)
    assert.equal(answer.status, 422, key)
    assert.deepEqual(faults(answer.body), [`invalid /data/attributes/${key}`])
  }
})

test('PATCH changes only the named attributes', async () => {
  const id = await kit.audience(domain, 'Before')
  const patch = (attributes: Record<string, unknown>, more: Record<string, unknown> = { id }) =>
    postrider.api('PATCH', `/audiences/${id}`, document('audiences', attributes, more))
  assert.equal((await patch({ description: 'About' })).body.data.attributes.name, 'Before')
  const renamed = (await patch({ name: 'After' })).body.data.attributes
  assert.deepEqual([renamed.name, renamed.description], ['After', 'About'])
  assert.equal((await patch({ description: null })).body.data.attributes.description, null)
  assert.equal((await patch({ name: null })).status, 422)
  assert.equal((await patch({ name: 'x' }, { id: 'other' })).status, 409)
  assert.equal((await patch({ name: 'x' }, {})).status, 400)
  // Its own domain is accepted (D70), and another one is rejected.
  assert.equal((await patch({ name: 'After' }, { id, ...of(domain) })).status, 200)
  const elsewhere = { domain: { data: { type: 'domains', id: '01985c7e-7c1a-7000-8000-000000000001' } } }
  assert.equal((await patch({ name: 'x' }, { id, relationships: elsewhere })).status, 403)
  assert.equal((await postrider.api('GET', `/audiences/${id}`)).body.data.attributes.name, 'After')
})

test('hides audiences from other users', async () => {
  const id = await kit.audience(domain)
  const missing = await postrider.asOther('GET', '/audiences/none')
  for (const [method, path, body] of [
    ['GET', `/audiences/${id}`],
    ['DELETE', `/audiences/${id}`],
    ['PATCH', `/audiences/${id}`, document('audiences', { name: 'x' }, { id })],
    ['GET', `/audiences/${id}/contacts`],
    ['POST', `/audiences/${id}/contacts`, document('contacts', { email: 'a@there.test' })],
    ['POST', `/audiences/${id}/contacts/import`, document('contacts', { contacts: [{ email: 'a@there.test' }] })],
  ] as const) {
    const answer = await postrider.asOther(method, path, body)
    assert.equal(answer.status, 404, `${method} ${path}`)
    assert.equal(answer.body.errors[0].detail, missing.body.errors[0].detail)
  }
  assert.deepEqual((await postrider.asOther('GET', '/audiences')).body.data, [])
  assert.equal((await postrider.api('GET', `/audiences/${id}`)).status, 200)
})

test('lists: sorts, pages, and no filter', async () => {
  const names = ['b', 'a', 'c']
  for (const name of names) {
    await kit.audience(theirs, name).catch(() => undefined)
    const made = await postrider.asOther('POST', '/audiences', document('audiences', { name }, of(theirs)))
    assert.equal(made.status, 201)
    postrider.clock.advance(10)
  }
  const list = async (query: string) => (await postrider.asOther('GET', `/audiences?${query}`)).body
  const namesOf = (body: { data: { attributes: { name: string } }[] }) => body.data.map((one) => one.attributes.name)
  assert.deepEqual(namesOf(await list('')), ['c', 'a', 'b'])
  assert.deepEqual(namesOf(await list('sort=name')), ['a', 'b', 'c'])
  assert.deepEqual(namesOf(await list('sort=-updated_at')), ['c', 'a', 'b'])
  const first = await list('sort=name&page[size]=2')
  const second = await list(`sort=name&page[size]=2&page[cursor]=${first.meta.next_cursor}`)
  assert.deepEqual([namesOf(first), namesOf(second)], [['a', 'b'], ['c']])
  for (const query of [
    'filter[name]=a',
    'sort=description',
    'include=contacts',
    'page[number]=2',
    'fields[audiences]=x',
  ])
    assert.equal((await postrider.asOther('GET', `/audiences?${query}`)).status, 400, query)
  assert.equal(
    (await postrider.asOther('GET', `/audiences?page[cursor]=${first.meta.next_cursor}&sort=-name`)).status,
    400,
  )
})

test('requires the scopes', async () => {
  const id = await kit.audience(domain)
  const reader = await postrider.tokenFor(postrider.user, ['contacts:read', 'campaigns:write', 'campaigns:read'])
  const as = (method: string, path: string, body?: unknown) =>
    postrider.api(method, path, body, { authorization: `Bearer ${reader}` })
  assert.equal((await as('GET', `/audiences/${id}/contacts`)).status, 200)
  for (const [method, path, body] of [
    ['POST', '/audiences', document('audiences', { name: 'x' }, of(domain))],
    ['PATCH', `/audiences/${id}`, document('audiences', { name: 'x' }, { id })],
    ['DELETE', `/audiences/${id}`],
    ['POST', `/audiences/${id}/contacts`, document('contacts', { email: 'a@there.test' })],
    ['POST', `/audiences/${id}/contacts/import`, document('contacts', { contacts: [{ email: 'a@there.test' }] })],
  ] as const) {
    const answer = await as(method, path, body)
    assert.deepEqual([answer.status, answer.body.errors?.[0].code], [403, 'insufficient_scope'], `${method} ${path}`)
  }
})

test('deleting an audience deletes its contacts and keeps its campaigns and suppressions', async () => {
  const id = await kit.audience(domain)
  await kit.fill(
    id,
    Array.from({ length: 1000 }, (_, n) => `n${n}@there.test`),
  )
  await kit.fill(
    id,
    Array.from({ length: 201 }, (_, n) => `m${n}@there.test`),
  )
  assert.equal((await postrider.api('GET', `/audiences/${id}`)).body.data.attributes.contacts_count, 1201)
  const campaign = await kit.draft(id)
  const [contact] = (await postrider.api('GET', `/audiences/${id}/contacts?filter[email]=n7@there.test`)).body.data
  await postrider.api(
    'PATCH',
    `/contacts/${contact.id}`,
    document('contacts', { status: 'unsubscribed' }, { id: contact.id }),
  )
  assert.equal((await postrider.api('DELETE', `/audiences/${id}`)).status, 204)
  for (const path of [`/audiences/${id}`, `/audiences/${id}/contacts`, `/contacts/${contact.id}`])
    assert.equal((await postrider.api('GET', path)).status, 404, path)
  assert.equal((await postrider.api('DELETE', `/audiences/${id}`)).status, 404)
  const add = await postrider.api('POST', `/audiences/${id}/contacts`, document('contacts', { email: 'a@there.test' }))
  assert.equal(add.status, 404)
  const draft = await postrider.api('POST', '/campaigns', {
    data: {
      type: 'campaigns',
      attributes: { name: 'a', subject: 'b', body_html: 'c' },
      relationships: { audience: { data: { type: 'audiences', id } } },
    },
  })
  assert.equal(draft.status, 404)
  const shown = await postrider.api('GET', `/campaigns/${campaign}?include=audience.domain`)
  assert.equal(shown.status, 200)
  assert.deepEqual(shown.body.data.relationships.audience.data, { type: 'audiences', id })
  assert.deepEqual(shown.body.included.map(({ type }: { type: string }) => type).toSorted(), ['audiences', 'domains'])
  const kept = await postrider.api('GET', '/suppressions?filter[email]=n7@there.test')
  assert.deepEqual([kept.body.data.length, kept.body.data[0].attributes.scope], [1, 'marketing'])
  const { store } = postrider.appliance.deps
  await until(
    () =>
      store.first<{ count: number }>(
        raw('select count(*) as count from contacts c join audiences a on a.key = c.audience_key where a.id = ?', [id]),
      )!.count === 0,
    'the contacts to be deleted',
  )
})
