import assert from 'node:assert/strict'
import { createPublicKey } from 'node:crypto'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { recordsOf, syncRecords } from '../../src/domains/records.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance({ newKeys: true, config: { regions: ['eu', 'us-1'] } }))

const create = (attributes: Record<string, unknown>) =>
  postrider.api('POST', '/domains', document('domains', attributes))
const patch = (id: string, attributes: Record<string, unknown>) =>
  postrider.api('PATCH', `/domains/${id}`, document('domains', attributes, { id }))

const made = (answer: Answer): Record<string, unknown> & { id: string } => {
  assert.equal(answer.status, 201, JSON.stringify(answer.body))
  return { id: answer.body.data.id, ...answer.body.data.attributes }
}

/** Checks for a 422 with one error at this attribute. */
function refused(answer: Answer, attribute: string, code = 'invalid'): void {
  assert.equal(answer.status, 422, JSON.stringify(answer.body))
  const errors = answer.body.errors as { status: string; code: string; source: { pointer: string } }[]
  assert.deepEqual(
    errors.map((error) => [error.status, error.code, error.source.pointer]),
    [['422', code, `/data/attributes/${attribute}`]],
    JSON.stringify(answer.body),
  )
}

test('registers a pending domain with all defaults', async () => {
  const answer = await create({ name: 'defaults.example.org', purpose: 'transactional' })
  const { id, ...attributes } = made(answer)
  assert.equal(answer.headers.get('location'), answer.body.data.links.self)
  assert.match(answer.body.data.links.self, new RegExp(`/api/v1/domains/${id}$`))
  assert.equal(answer.body.data.type, 'domains')
  const { checked_at: _, ...rest } = attributes
  assert.deepEqual(rest, {
    name: 'defaults.example.org',
    purpose: 'transactional',
    region: 'eu',
    mail_from_prefix: 'bounce',
    tls_policy: 'Optional',
    open_tracking_enabled: false,
    click_tracking_enabled: false,
    tracking_redirect_mode: 'shared',
    status: 'pending',
    created_at: '2026-01-15T12:00:00.000Z',
    updated_at: '2026-01-15T12:00:00.000Z',
  })
})

test('accepts every attribute of a new domain', async () => {
  const domain = made(
    await create({
      name: 'given.example.org',
      purpose: 'marketing',
      region: 'us-1',
      mail_from_prefix: 'A'.repeat(63),
      tls_policy: 'Require',
    }),
  )
  assert.equal(domain['purpose'], 'marketing')
  assert.equal(domain['region'], 'us-1')
  assert.equal(domain['mail_from_prefix'], 'a'.repeat(63))
  assert.equal(domain['tls_policy'], 'Require')
})

test('stores names as lower-case A-labels without a trailing dot', async () => {
  const kept = async (name: string): Promise<unknown> => made(await create({ name, purpose: 'both' }))['name']
  assert.equal(await kept('UPPER.Example.ORG'), 'upper.example.org')
  assert.equal(await kept('zone.example.org.'), 'zone.example.org')
  // UTS 46 non-transitional: the sharp s stays itself.
  assert.equal(await kept('Straße.example.org'), 'xn--strae-oqa.example.org')
  assert.equal(await kept('bücher。example.org'), 'xn--bcher-kva.example.org')
  // The two spellings are one name.
  refused(await create({ name: 'XN--bcher-KVA.example.org', purpose: 'both' }), 'name', 'already_exists')
})

const LABEL_63 = 'a'.repeat(63)

for (const [kind, name] of Object.entries({
  'a single label': 'localhost',
  'two dots at the end': 'mail.example.org..',
  'an empty label': 'mail..example.org',
  'a leading dot': '.example.org',
  'a public suffix': 'org',
  'a public suffix of two labels': 'co.uk',
  'a public suffix of a host that gives out subdomains': 'github.io',
  'an IPv4 address': '192.0.2.1',
  'an IPv4 address literal': '[192.0.2.1]',
  'an IPv6 address literal': '[IPv6:2001:db8::1]',
  'an IPv6 address': '2001:db8::1',
  'an underscore': '_spf.example.org',
  'a hyphen in front': '-mail.example.org',
  'a hyphen at the end': 'mail-.example.org',
  'a space': 'mail .example.org',
  'a wildcard': '*.example.org',
  'a URL': 'https://example.org',
  'an address': 'ann@example.org',
  'a port': 'example.org:25',
  'a line break': 'example.org\nx',
  'the empty text': '',
  'a label of 64 bytes': `${'a'.repeat(64)}.example.org`,
  'an A-label of more than 63 bytes': `${'ü'.repeat(60)}.example.org`,
}))
  test(`rejects ${kind} as a domain name`, async () => refused(await create({ name, purpose: 'both' }), 'name'))

test('rejects a name above 253 bytes', async () => {
  const name = (octets: number): string =>
    `${LABEL_63}.${LABEL_63}.${LABEL_63}.${'a'.repeat(octets - 3 * 64 - 12)}.example.org`
  assert.equal(name(253).length, 253)
  refused(await create({ name: name(254), purpose: 'both' }), 'name', 'too_long')
})

test('name and purpose are required', async () => {
  const { body, status } = await create({})
  assert.equal(status, 422)
  assert.deepEqual(
    body.errors.map((error: { code: string; source: { pointer: string } }) => [error.code, error.source.pointer]),
    [
      ['required', '/data/attributes'],
      ['required', '/data/attributes'],
    ],
  )
})

for (const [attribute, values] of Object.entries({
  purpose: ['', 'Both', 'other', null, 1],
  region: ['mars', 'EU', '', null],
  mail_from_prefix: ['', 'a.b', 'a_b', '-a', 'a-', 'ü', 'a b', 'a'.repeat(64), null, 7],
  tls_policy: ['require', 'None', null, true],
}))
  test(`rejects an invalid ${attribute} with 422`, async () => {
    for (const value of values)
      refused(await create({ name: 'invalid.example.org', purpose: 'both', [attribute]: value }), attribute)
  })

test('rejects attributes on create that only an update or the server sets', async () => {
  for (const [attribute, value] of Object.entries({
    rotate_dkim_key: true,
    open_tracking_enabled: true,
    click_tracking_enabled: true,
    tracking_redirect_mode: 'shared',
    status: 'active',
  }))
    refused(
      await create({ name: 'update-only.example.org', purpose: 'both', [attribute]: value }),
      attribute,
      'immutable',
    )
  refused(await create({ name: 'update-only.example.org', purpose: 'both', colour: 'red' }), 'colour')
})

test('a name is unique per account and region, and another account can register it', async () => {
  const [first, second] = await Promise.all([
    create({ name: 'twice.example.org', purpose: 'both' }),
    create({ name: 'Twice.Example.org', purpose: 'marketing' }),
  ])
  assert.deepEqual(new Set([first.status, second.status]), new Set([201, 422]), 'two at the same instant')
  refused(await create({ name: 'twice.example.org', purpose: 'both' }), 'name', 'already_exists')
  refused(await create({ name: 'twice.example.org', purpose: 'both', region: 'eu' }), 'name', 'already_exists')
  made(await create({ name: 'twice.example.org', purpose: 'both', region: 'us-1' }))
  const others = await postrider.asOther(
    'POST',
    '/domains',
    document('domains', { name: 'twice.example.org', purpose: 'both' }),
  )
  assert.equal(others.status, 201)
})

test("answers every request for another account's domain with 404", async () => {
  const { id } = made(await create({ name: 'mine.example.org', purpose: 'both' }))
  const unknown = '01900000-0000-7000-8000-000000000000'
  for (const [method, tail] of [
    ['GET', ''],
    ['GET', '/records'],
    ['DELETE', ''],
  ] as const) {
    const foreign = await postrider.asOther(method, `/domains/${id}${tail}`)
    const missing = await postrider.asOther(method, `/domains/${unknown}${tail}`)
    assert.equal(foreign.status, 404)
    const bare = ({ body }: Answer) => body.errors.map((error: object) => ({ ...error, id: '' }))
    assert.deepEqual(bare(foreign), bare(missing), 'foreign and missing are one answer')
  }
  const change = await postrider.asOther(
    'PATCH',
    `/domains/${id}`,
    document('domains', { tls_policy: 'Require' }, { id }),
  )
  assert.equal(change.status, 404)
  const listed = await postrider.asOther('GET', '/domains?page[size]=100')
  assert.ok(!listed.body.data.some((each: { id: string }) => each.id === id))
  assert.equal((await postrider.api('GET', `/domains/${id}`)).body.data.attributes.tls_policy, 'Optional')
})

test('each endpoint requires its scope', async () => {
  const { id } = made(await create({ name: 'scoped.example.org', purpose: 'both' }))
  const reads = { authorization: `Bearer ${await postrider.tokenFor(postrider.user, ['domains:read'])}` }
  const writes = { authorization: `Bearer ${await postrider.tokenFor(postrider.user, ['domains:write'])}` }
  const body = document('domains', { name: 'scoped-2.example.org', purpose: 'both' })
  const change = document('domains', { tls_policy: 'Require' }, { id })
  for (const path of ['/domains', `/domains/${id}`, `/domains/${id}/records`]) {
    assert.equal((await postrider.api('GET', path, undefined, reads)).status, 200, path)
    assert.equal((await postrider.api('GET', path, undefined, writes)).status, 403, path)
  }
  assert.equal((await postrider.api('POST', '/domains', body, reads)).status, 403)
  assert.equal((await postrider.api('PATCH', `/domains/${id}`, change, reads)).status, 403)
  assert.equal((await postrider.api('DELETE', `/domains/${id}`, undefined, reads)).status, 403)
  assert.equal((await postrider.api('PATCH', `/domains/${id}`, change, writes)).status, 200)
  assert.equal((await postrider.api('DELETE', `/domains/${id}`, undefined, writes)).status, 204)
})

test('lists domains with filters and sorting', async () => {
  const names = async (query: string): Promise<string[]> => {
    const { body, status } = await postrider.api('GET', `/domains?${query}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body.data.map((each: { attributes: { name: string } }) => each.attributes.name)
  }
  made(await create({ name: 'a.list.example.org', purpose: 'marketing' }))
  postrider.clock.advance(5)
  made(await create({ name: 'b.list.example.org', purpose: 'transactional' }))
  assert.deepEqual((await names('page[size]=2')).slice(0, 1), ['b.list.example.org'], 'newest first')
  assert.deepEqual(await names('filter[name]=a.list.example.org,b.list.example.org&sort=name'), [
    'a.list.example.org',
    'b.list.example.org',
  ])
  assert.deepEqual(await names('filter[name]=a.list.example.org,b.list.example.org&sort=-name'), [
    'b.list.example.org',
    'a.list.example.org',
  ])
  const two = 'filter[name]=a.list.example.org,b.list.example.org'
  assert.deepEqual(await names(`${two}&filter[purpose]=marketing`), ['a.list.example.org'])
  assert.deepEqual(await names(`${two}&filter[status]=active`), [])
  assert.equal((await postrider.api('GET', '/domains?filter[region]=eu')).status, 400)
})

interface Issued {
  type: string
  relationships: { domain: { data: { type: string; id: string } } }
  attributes: { record_type: string; name: string; value: string; ttl: number; required: boolean; verified: boolean }
}

async function recordsFor(id: string, query = ''): Promise<Issued[]> {
  const { body, status } = await postrider.api('GET', `/domains/${id}/records?page[size]=100${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data
}

test('a domain has records for two DKIM keys, SPF and MX below the prefix, and DMARC on the organisational domain', async () => {
  const { id } = made(await create({ name: 'news.shop.example.co.uk', purpose: 'both', mail_from_prefix: 'rp' }))
  const records = await recordsFor(id)
  for (const record of records) {
    assert.equal(record.type, 'records')
    assert.deepEqual(record.relationships.domain.data, { type: 'domains', id })
    assert.equal(record.attributes.ttl, 3600)
    assert.equal(record.attributes.verified, false)
  }
  const dkim = records.map(({ attributes }) => attributes).filter(({ record_type }) => record_type === 'DKIM')
  assert.deepEqual(new Set(dkim.map(({ required }) => required)), new Set([false, true]), 'the standby key is advised')
  assert.equal(dkim.length, 2)
  assert.equal(new Set(dkim.map(({ name }) => name)).size, 2)
  assert.equal(new Set(dkim.map(({ value }) => value)).size, 2)
  for (const { name, value } of dkim) {
    assert.match(name, /^[a-z0-9]+\._domainkey\.news\.shop\.example\.co\.uk$/)
    const [, key] = /^v=DKIM1; k=rsa; p=([A-Za-z0-9+/]+=*)$/.exec(value) ?? []
    const publicKey = createPublicKey({ key: Buffer.from(key!, 'base64'), format: 'der', type: 'spki' })
    assert.equal(publicKey.asymmetricKeyType, 'rsa')
    assert.equal(publicKey.asymmetricKeyDetails?.modulusLength, 2048)
  }
  const others = records
    .map(({ attributes: { record_type, name, value, required } }) => ({ record_type, name, value, required }))
    .filter(({ record_type }) => record_type !== 'DKIM')
    .toSorted((a, b) => (a.record_type < b.record_type ? -1 : 1))
  assert.deepEqual(others, [
    {
      record_type: 'DMARC',
      name: '_dmarc.example.co.uk',
      value: 'v=DMARC1; p=none; rua=mailto:dmarc-reports@rp.news.shop.example.co.uk;',
      required: false,
    },
    {
      record_type: 'MAIL_FROM_MX',
      name: 'rp.news.shop.example.co.uk',
      value: '10 mx.postrider.test',
      required: true,
    },
    {
      record_type: 'SPF',
      name: 'rp.news.shop.example.co.uk',
      value: 'v=spf1 a:mx.postrider.test -all',
      required: true,
    },
  ])
})

test('filters records by type and flag, and includes their domain once', async () => {
  const { id } = made(await create({ name: 'filtered.example.org', purpose: 'both' }))
  assert.equal((await recordsFor(id, '&filter[record_type]=DKIM')).length, 2)
  assert.equal((await recordsFor(id, '&filter[record_type]=SPF,DMARC')).length, 2)
  assert.equal((await recordsFor(id, '&filter[verified]=false')).length, 5)
  assert.equal((await recordsFor(id, '&filter[verified]=true')).length, 0)
  const { body } = await postrider.api('GET', `/domains/${id}/records?include=domain`)
  assert.deepEqual(
    body.included.map((each: { type: string; id: string }) => [each.type, each.id]),
    [['domains', id]],
  )
  assert.equal((await postrider.api('GET', `/domains/${id}/records?filter[required]=true`)).status, 400)
})

test('the SPF record contains the operator’s sending IP addresses', async () => {
  const { id } = made(await create({ name: 'sources.example.org', purpose: 'both' }))
  const { store } = postrider.appliance.deps
  const { key } = store.first(raw<{ key: number }>('select key from domains where id = ?', [id]))!
  await store.write((tx) =>
    syncRecords(
      tx,
      domainByKey(tx, key)!,
      { ...postrider.config, delivery: { ...postrider.config.delivery, source: ['192.0.2.7', '2001:db8::7'] } },
      1,
    ),
  )
  const spf = recordsOf(store, key).filter(({ record_type }) => record_type === 'SPF')
  assert.deepEqual(
    spf.map(({ value }) => value),
    ['v=spf1 a:mx.postrider.test ip4:192.0.2.7 ip6:2001:db8::7 -all'],
  )
})

test('PATCH changes the given attributes, except name, purpose and region', async () => {
  const { id } = made(await create({ name: 'patched.example.org', purpose: 'both' }))
  postrider.clock.advance(1000)
  const changed = await patch(id, { tls_policy: 'Require', open_tracking_enabled: true, click_tracking_enabled: true })
  assert.equal(changed.status, 200, JSON.stringify(changed.body))
  const { attributes } = changed.body.data
  assert.equal(attributes.tls_policy, 'Require')
  assert.equal(attributes.open_tracking_enabled, true)
  assert.equal(attributes.click_tracking_enabled, true)
  assert.equal(attributes.mail_from_prefix, 'bounce')
  assert.ok(attributes.updated_at > attributes.created_at)
  assert.ok(!('rotate_dkim_key' in attributes), 'an order, not a state')
  const off = await patch(id, { open_tracking_enabled: false })
  assert.equal(off.body.data.attributes.open_tracking_enabled, false)
  assert.equal(off.body.data.attributes.click_tracking_enabled, true)
  for (const [attribute, value] of Object.entries({ name: 'x.example.org', purpose: 'marketing', region: 'us-1' }))
    refused(await patch(id, { [attribute]: value }), attribute, 'immutable')
  refused(await patch(id, { status: 'active' }), 'status', 'immutable')
  for (const [attribute, value] of Object.entries({
    tls_policy: 'optional',
    mail_from_prefix: 'a.b',
    rotate_dkim_key: 'yes',
    open_tracking_enabled: 1,
    click_tracking_enabled: null,
    tracking_redirect_mode: 'own',
  }))
    refused(await patch(id, { [attribute]: value }), attribute)
})

test('branded tracking requires a plan that includes it', async () => {
  const { id } = made(await create({ name: 'branded.example.org', purpose: 'both' }))
  const { store } = postrider.appliance.deps
  const plan = (name: string) =>
    store.write((tx) => tx.run(raw('update users set plan = ? where key = ?', [name, postrider.user.key])))
  await plan('starter')
  refused(await patch(id, { tracking_redirect_mode: 'branded' }), 'tracking_redirect_mode', 'plan_required')
  assert.equal((await postrider.api('GET', `/domains/${id}`)).body.data.attributes.tracking_redirect_mode, 'shared')
  assert.equal((await patch(id, { tracking_redirect_mode: 'shared' })).status, 200)
  for (const name of ['growth', 'unlimited']) {
    await plan(name)
    const { body } = await patch(id, { tracking_redirect_mode: 'branded' })
    assert.equal(body.data.attributes.tracking_redirect_mode, 'branded', name)
  }
})

test('rejects the same name for branded links and the return path, because a CNAME excludes other records (RFC 1034 §3.6.2)', async () => {
  const { id } = made(await create({ name: 'linked.example.org', purpose: 'both', mail_from_prefix: 'links' }))
  refused(await patch(id, { tracking_redirect_mode: 'branded' }), 'tracking_redirect_mode')
  assert.equal((await patch(id, { tracking_redirect_mode: 'branded', mail_from_prefix: 'back' })).status, 200)
  refused(await patch(id, { mail_from_prefix: 'links' }), 'mail_from_prefix')
})
