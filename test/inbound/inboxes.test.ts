// Inboxes (specification "Inboxes". Decisions D12, D46, D49): addresses on a sending domain whose mail is kept.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { recordsOf } from '../../src/domains/records.ts'
import { domainByKey, type Domain } from '../../src/domains/find.ts'
import { registerDomain, removeDomain } from '../../src/domains/lifecycle.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { deliver, receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() => startTestAppliance({ config: { regions: ['eu', 'us'] } }))

const create = (attributes: Record<string, unknown>) =>
  postrider.api('POST', '/inboxes', document('inboxes', attributes))
const patch = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('PATCH', `/inboxes/${id}`, document('inboxes', attributes, { id }))
const remove = (id: string) => postrider.api('DELETE', `/inboxes/${id}`)

async function make(address: string, name = 'Box'): Promise<string> {
  const made = await create({ name, address })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  return made.body.data.id
}

function refused({ body, status }: Answer, code: string, pointer: string | undefined): void {
  assert.equal(status, 422, JSON.stringify(body))
  assert.deepEqual(
    body.errors.map((error: { code: string; source?: { pointer?: string } }) => [error.code, error.source?.pointer]),
    [[code, pointer]],
  )
}

const inboundMx = (domain: Domain) =>
  recordsOf(postrider.appliance.deps.store, domain.key).filter(({ record_type }) => record_type === 'INBOUND_MX')
const mailTo = async (to: string) => (await deliver(postrider.appliance.smtp[0]!, { to }))[0]!

describe('create', () => {
  test('creates an inbox with the requested attributes on its domain', async () => {
    const domain = await postrider.activeDomain('made.example.org')
    const answer = await create({ name: 'Support', address: 'Support@Made.Example.ORG' })
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
    const { data } = answer.body
    assert.equal(data.type, 'inboxes')
    assert.deepEqual(data.attributes, {
      name: 'Support',
      address: 'support@made.example.org',
      created_at: '2026-01-15T12:00:00.000Z',
      updated_at: '2026-01-15T12:00:00.000Z',
    })
    assert.deepEqual(data.relationships.domain.data, { type: 'domains', id: domain.id })
    assert.equal(answer.headers.get('location'), data.links.self)
    const shown = await postrider.api('GET', `/inboxes/${data.id}?include=domain&fields[inboxes]=name,domain`)
    assert.deepEqual(shown.body.data.attributes, { name: 'Support' })
    assert.deepEqual(
      shown.body.included.map(({ id, type }: { id: string; type: string }) => [type, id]),
      [['domains', domain.id]],
    )
  })

  test('the first inbox of a domain adds the MX record and starts a check, and the last one removes the record', async () => {
    const domain = await postrider.activeDomain('first.example.org')
    const { store } = postrider.appliance.deps
    assert.deepEqual(inboundMx(domain), [])
    postrider.dns.asked.length = 0
    const first = await make('one@first.example.org')
    const [record, ...more] = inboundMx(domain)
    assert.deepEqual(more, [])
    assert.equal(record!.name, 'first.example.org')
    assert.match(record!.value, /^\d+ mx\.postrider\.test$/)
    await until(() => postrider.dns.asked.includes('MX first.example.org'), 'a check of the new record')

    postrider.publish(domain)
    const second = await make('two@first.example.org')
    assert.deepEqual(
      inboundMx(domain).map(({ id }) => id),
      [record!.id],
    )
    await remove(first)
    assert.equal(inboundMx(domain).length, 1)
    assert.equal((await remove(second)).status, 204)
    assert.deepEqual(inboundMx(domain), [])
    assert.equal(domainByKey(store, domain.key)!.status, 'active')
    const again = await make('one@first.example.org')
    assert.notEqual(again, first)
    assert.equal(inboundMx(domain).length, 1)
  })

  test('a domain continues to send until its MX record is published', async () => {
    const domain = await postrider.activeDomain('unpublished.example.org')
    await make('box@unpublished.example.org')
    await until(() => postrider.dns.asked.includes('MX unpublished.example.org'))
    assert.equal(domainByKey(postrider.appliance.deps.store, domain.key)!.status, 'active')
  })

  for (const [label, attributes, code, pointer] of [
    ['no name', { address: 'x@rules.example.org' }, 'required', '/data/attributes'],
    ['no address', { name: 'x' }, 'required', '/data/attributes'],
    ['an empty name', { name: '', address: 'x@rules.example.org' }, 'invalid', '/data/attributes/name'],
    ['a name that is not text', { name: 1, address: 'x@rules.example.org' }, 'invalid', '/data/attributes/name'],
    ['no address at all', { name: 'x', address: 'rules.example.org' }, 'invalid', '/data/attributes/address'],
    ['a display name', { name: 'x', address: 'X <x@rules.example.org>' }, 'invalid', '/data/attributes/address'],
    ['a line break', { name: 'x', address: 'x@rules.example.org\r\nX: y' }, 'invalid', '/data/attributes/address'],
    ['a foreign domain', { name: 'x', address: 'x@elsewhere.example.org' }, 'invalid', '/data/attributes/address'],
    [
      'a host below the domain',
      { name: 'x', address: 'x@sub.rules.example.org' },
      'invalid',
      '/data/attributes/address',
    ],
    [
      'an unknown attribute',
      { name: 'x', address: 'x@rules.example.org', forward: 'y' },
      'invalid',
      '/data/attributes/forward',
    ],
    [
      'an address of 255 characters',
      { name: 'x', address: `${'a'.repeat(237)}@rules.example.org` },
      'too_long',
      '/data/attributes/address',
    ],
  ] as const)
    test(`rejects ${label}`, async () => {
      if (!(await postrider.api('GET', '/domains?filter[name]=rules.example.org')).body.data[0])
        await postrider.activeDomain('rules.example.org')
      const answer = await create(attributes)
      assert.equal(answer.status, 422, JSON.stringify(answer.body))
      const [error, ...more] = answer.body.errors
      assert.deepEqual(more, [])
      assert.equal(error.code, code)
      assert.ok(error.source.pointer.startsWith(pointer), error.source.pointer)
    })

  test('rejects an existing address in any spelling, and accepts a deleted one', async () => {
    await postrider.activeDomain('twice.example.org')
    const id = await make('box@twice.example.org')
    refused(await create({ name: 'x', address: 'BOX@TWICE.example.org' }), 'already_exists', '/data/attributes/address')
    await remove(id)
    await make('box@twice.example.org')
  })

  test('a domain of another user has the same error as an unknown one', async () => {
    await postrider.activeDomain('bobs.example.org', postrider.other)
    refused(await create({ name: 'x', address: 'x@bobs.example.org' }), 'invalid', '/data/attributes/address')
  })

  test('rejects a domain name with two regions as ambiguous (D49), but accepts a subdomain', async () => {
    await postrider.activeDomain('both.example.org')
    const { deps } = postrider.appliance
    const second = await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, {
      name: 'both.example.org',
      purpose: 'both',
      region: 'us',
    })
    refused(await create({ name: 'x', address: 'x@both.example.org' }), 'ambiguous_address', '/data/attributes/address')
    await postrider.activeDomain('us.both.example.org')
    await make('x@us.both.example.org')
    await removeDomain({ ...deps, ring: () => {} } as Parameters<typeof removeDomain>[0], second.key)
    await make('x@both.example.org')
  })

  test('an inbox on an unverified domain receives only after the verification', async () => {
    const { deps } = postrider.appliance
    const domain = await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, {
      name: 'later.example.org',
      purpose: 'both',
    })
    await make('box@later.example.org')
    assert.equal((await mailTo('box@later.example.org')).kind, 'deferred')
    postrider.publish(domain)
    await postrider.appliance.deps.store.write(() => {})
    postrider.clock.leap(60_000)
    await until(() => domainByKey(deps.store, domain.key)!.status === 'active', 'an active domain')
    await receive(postrider, { to: 'box@later.example.org' })
  })
})

describe('update', () => {
  test('accepts a new name, but never a new address', async () => {
    await postrider.activeDomain('change.example.org')
    const id = await make('box@change.example.org')
    postrider.clock.advance(1000)
    const renamed = await patch(id, { name: 'Other' })
    assert.equal(renamed.status, 200, JSON.stringify(renamed.body))
    assert.equal(renamed.body.data.attributes.name, 'Other')
    assert.ok(renamed.body.data.attributes.updated_at > renamed.body.data.attributes.created_at)
    refused(await patch(id, { address: 'other@change.example.org' }), 'immutable', '/data/attributes/address')
    refused(await patch(id, { name: 'x', address: 'nonsense' }), 'immutable', '/data/attributes/address')
    const { attributes } = (await postrider.api('GET', `/inboxes/${id}`)).body.data
    assert.deepEqual([attributes.name, attributes.address], ['Other', 'box@change.example.org'])
    // Sent back as it was read, it is not a change.
    assert.equal((await patch(id, { name: 'Third', address: 'box@change.example.org' })).status, 200)
  })
})

describe('delete', () => {
  test('a deleted inbox stops receiving immediately and keeps its messages', async () => {
    await postrider.activeDomain('gone.example.org')
    const id = await make('box@gone.example.org')
    const { id: mail } = await receive(postrider, { to: 'box@gone.example.org' })
    const answer = await remove(id)
    assert.equal(answer.status, 204)
    assert.equal(answer.body, undefined)
    const verdict = await mailTo('box@gone.example.org')
    assert.equal(verdict.kind, 'bounced')
    assert.equal(verdict.code, 550)

    assert.equal((await postrider.api('GET', `/inboxes/${id}`)).status, 404)
    assert.equal((await remove(id)).status, 404)
    assert.equal((await patch(id, { name: 'x' })).status, 404)
    const ids = (answer: Answer) => answer.body.data.map((each: { id: string }) => each.id)
    const all = await postrider.api('GET', '/inboxes?page[size]=100')
    assert.ok(!ids(all).includes(id))
    for (const list of [
      `/inbound-emails?inbox=${id}`,
      `/inbound-emails?filter[inbox]=${id}`,
      `/inboxes/${id}/inbound-emails`,
    ])
      assert.deepEqual(ids(await postrider.api('GET', list)), [mail], list)
    const shown = await postrider.api('GET', `/inbound-emails/${mail}?include=inbox,inbox.domain`)
    assert.equal(shown.status, 200)
    assert.equal(shown.body.data.relationships.inbox.data.id, id)
    assert.deepEqual(
      shown.body.included.map(({ type }: { type: string }) => type),
      ['inboxes', 'domains'],
    )
    assert.equal((await postrider.api('GET', `/inbound-emails/${mail}/raw`)).status, 200)
  })

  test('an inbox of a deleted domain stops receiving and keeps its messages', async () => {
    const domain = await postrider.activeDomain('whole.example.org')
    const id = await make('box@whole.example.org')
    const { id: mail } = await receive(postrider, { to: 'box@whole.example.org' })
    assert.equal((await postrider.api('DELETE', `/domains/${domain.id}`)).status, 204)
    assert.equal((await mailTo('box@whole.example.org')).kind, 'bounced')
    assert.equal((await postrider.api('GET', `/inboxes/${id}`)).status, 404)
    assert.equal((await postrider.api('GET', `/inbound-emails/${mail}?include=inbox.domain`)).status, 200)
    assert.equal((await postrider.api('GET', `/inboxes/${id}/inbound-emails`)).body.data.length, 1)
  })
})

describe('list', () => {
  test('lists inboxes newest first, with sorting by name and time, pages and the domain, without filters', async () => {
    await postrider.activeDomain('list.example.org')
    const mine = new Set<string>()
    for (const name of ['c', 'a', 'b']) {
      postrider.clock.advance(1000)
      mine.add(await make(`${name}@list.example.org`, `list ${name}`))
    }
    const names = async (query: string): Promise<string[]> =>
      (await postrider.api('GET', `/inboxes?page[size]=100&${query}`)).body.data
        .filter(({ id }: { id: string }) => mine.has(id))
        .map((each: { attributes: { name: string } }) => each.attributes.name.at(-1))
    assert.deepEqual(await names(''), ['b', 'a', 'c'])
    assert.deepEqual(await names('sort=created_at'), ['c', 'a', 'b'])
    assert.deepEqual(await names('sort=name'), ['a', 'b', 'c'])
    assert.deepEqual(await names('sort=-name,updated_at'), ['c', 'b', 'a'])
    const page = (await postrider.api('GET', '/inboxes?page[size]=2&include=domain')).body
    assert.equal(page.data.length, 2)
    assert.equal(page.included.length, 1)
    const next = await postrider.api('GET', `/inboxes?page[size]=2&page[cursor]=${page.meta.next_cursor}`)
    assert.equal(next.status, 200)
    const seen = new Set(page.data.map(({ id }: { id: string }) => id))
    assert.ok(next.body.data.every(({ id }: { id: string }) => !seen.has(id)))
    for (const query of [
      'filter[status]=active',
      'filter[name]=x',
      'sort=address',
      'include=inbound-emails',
      'fields[domains]=name',
      'page[number]=1',
      'inbox=x',
    ])
      assert.equal((await postrider.api('GET', `/inboxes?${query}`)).status, 400, query)
  })
})

describe('permissions', () => {
  test('inboxes are not found for another user', async () => {
    await postrider.activeDomain('mine.example.org')
    const id = await make('box@mine.example.org')
    assert.equal((await postrider.asOther('GET', `/inboxes/${id}`)).status, 404)
    assert.equal((await postrider.asOther('GET', `/inboxes/${id}/inbound-emails`)).status, 404)
    assert.equal(
      (await postrider.asOther('PATCH', `/inboxes/${id}`, document('inboxes', { name: 'x' }, { id }))).status,
      404,
    )
    assert.equal((await postrider.asOther('DELETE', `/inboxes/${id}`)).status, 404)
    assert.deepEqual((await postrider.asOther('GET', '/inboxes')).body.data, [])
    assert.equal((await postrider.api('GET', `/inboxes/${id}`)).status, 200)
  })

  test('reading needs domains:read, changing domains:write', async () => {
    await postrider.activeDomain('scopes.example.org')
    const id = await make('box@scopes.example.org')
    const read = await postrider.tokenFor(postrider.user, ['domains:read'])
    const write = await postrider.tokenFor(postrider.user, ['domains:write'])
    const inbound = await postrider.tokenFor(postrider.user, ['inbound:read'])
    const ask = async (token: string, method: string, path: string, body?: unknown): Promise<number> =>
      (await postrider.api(method, path, body, { authorization: `Bearer ${token}` })).status
    const made = document('inboxes', { name: 'x', address: 'other@scopes.example.org' })
    const renamed = document('inboxes', { name: 'x' }, { id })
    for (const token of [read, inbound]) {
      assert.equal(await ask(token, 'POST', '/inboxes', made), 403)
      assert.equal(await ask(token, 'PATCH', `/inboxes/${id}`, renamed), 403)
      assert.equal(await ask(token, 'DELETE', `/inboxes/${id}`), 403)
    }
    for (const token of [write, inbound]) {
      assert.equal(await ask(token, 'GET', '/inboxes'), 403)
      assert.equal(await ask(token, 'GET', `/inboxes/${id}`), 403)
    }
    assert.equal(await ask(read, 'GET', '/inboxes'), 200)
    assert.equal(await ask(read, 'GET', `/inboxes/${id}`), 200)
    assert.equal(await ask(write, 'POST', '/inboxes', made), 201)
    assert.equal(await ask(write, 'PATCH', `/inboxes/${id}`, renamed), 200)
    assert.equal(await ask(write, 'DELETE', `/inboxes/${id}`), 204)
  })
})
