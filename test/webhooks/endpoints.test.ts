// Webhooks in the API: accepted attributes, responses, and permissions (specification "Webhook", "Webhooks", D51, D52,
// D55).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { EVENT_TYPES } from '../../src/store/states/events.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { happen, makeHook, relation } from './hooks.ts'

const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ receiver }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const foreign = ofFile(() => postrider.activeDomain('bobs.test', postrider.other))

const URL = 'https://hooks.example.com/in'
const good = { name: 'app', url: URL, events: ['email.sent'] }
const create = (attributes: Record<string, unknown>, more: Record<string, unknown> = relation(domain.id)) =>
  postrider.api('POST', '/webhooks', document('webhooks', attributes, more))

function refused({ body, status }: Answer, expected: number, code: string, pointer?: string): void {
  assert.equal(status, expected, JSON.stringify(body))
  assert.equal(body.errors[0].code, code, JSON.stringify(body))
  if (pointer !== undefined) assert.equal(body.errors[0].source.pointer, pointer, JSON.stringify(body))
}

describe('create', () => {
  test('returns the secret once on creation, and only its hint later', async () => {
    const made = await create(good)
    assert.equal(made.status, 201, JSON.stringify(made.body))
    const { attributes, id, links, relationships, type } = made.body.data
    assert.equal(type, 'webhooks')
    assert.equal(made.headers.get('location'), links.self)
    // whsec_ and padded standard base64 of 32 random bytes.
    assert.match(attributes.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    assert.equal(attributes.secret_hint, attributes.secret.slice(-4))
    assert.deepEqual(relationships.domain.data, { type: 'domains', id: domain.id })
    assert.deepEqual(
      [attributes.name, attributes.url, attributes.events, attributes.active, attributes.status],
      ['app', URL, ['email.sent'], true, 'active'],
    )
    assert.deepEqual([attributes.disabled_reason, attributes.consecutive_failures], [null, 0])
    assert.ok(!('rotate_secret' in attributes))
    const other = await create(good)
    assert.notEqual(other.body.data.attributes.secret, attributes.secret)
    const patched = await postrider.api('PATCH', `/webhooks/${id}`, document('webhooks', { name: 'b' }, { id }))
    for (const answer of [
      await postrider.api('GET', `/webhooks/${id}`),
      await postrider.api('GET', '/webhooks'),
      await postrider.api('GET', `/webhooks/${id}?include=domain`),
      patched,
    ]) {
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
      const text = JSON.stringify(answer.body)
      assert.ok(!text.includes(attributes.secret) && !text.includes('whsec_') && !text.includes('"secret"'), text)
      assert.ok(text.includes(`"secret_hint":${JSON.stringify(attributes.secret_hint)}`))
    }
    for (const path of ['/webhooks', `/webhooks/${id}`])
      refused(await postrider.api('GET', `${path}?fields[webhooks]=secret`), 400, 'unsupported_fields')
    const only = await postrider.api('GET', `/webhooks/${id}?fields[webhooks]=name,secret_hint`)
    assert.deepEqual(Object.keys(only.body.data.attributes).toSorted(), ['name', 'secret_hint'])
    // At rest the secret is sealed.
    const [box] = postrider.appliance.deps.store.all(
      raw<{ sealed: Uint8Array }>('select sealed_secret as sealed from webhooks where id = ?', [id]),
    )
    const sealed = Buffer.from(box!.sealed)
    assert.ok(
      !sealed.includes(attributes.secret.slice(6)) &&
        !sealed.includes(Buffer.from(attributes.secret.slice(6), 'base64')),
    )
  })

  test('validates the name', async () => {
    refused(await create({ url: URL, events: ['*'] }), 422, 'required', '/data/attributes')
    for (const name of ['', '  ', null, 7, 'two\nlines', 'x'.repeat(256)]) {
      const answer = await create({ ...good, name })
      assert.equal(answer.status, 422, JSON.stringify(name))
      assert.equal(answer.body.errors[0].source.pointer, '/data/attributes/name')
    }
    for (const name of ['x', 'x'.repeat(255), 'Größe ✓ "quoted" <b>'])
      assert.equal((await create({ ...good, name })).body.data.attributes.name, name)
  })

  test('accepts only https URLs of bounded length without credentials or fragment', async () => {
    refused(await create({ name: 'app', events: ['*'] }), 422, 'required', '/data/attributes')
    for (const url of [
      '',
      null,
      7,
      'hooks.example.com',
      '/in',
      'https://',
      'http://hooks.example.com/in',
      'HTTP://hooks.example.com/in',
      'ftp://hooks.example.com/',
      'javascript:alert(1)',
      'file:///etc/passwd',
      'wss://hooks.example.com/',
      'https://user:pass@hooks.example.com/',
      'https://user@hooks.example.com/',
      'https://:pass@hooks.example.com/',
      'https://hooks.example.com/in#part',
      'https://hooks.example.com:99999/',
      'https://hooks.example.com/\r\nX-Evil: 1',
      'https://hooks .example.com/',
    ]) {
      const answer = await create({ ...good, url })
      assert.equal(answer.status, 422, `${JSON.stringify(url)}: ${JSON.stringify(answer.body)}`)
      assert.equal(answer.body.errors[0].source.pointer, '/data/attributes/url')
    }
    refused(await create({ ...good, url: `${URL}/${'x'.repeat(10_000)}` }), 422, 'too_long', '/data/attributes/url')
    for (const url of [
      'https://hooks.example.com',
      'https://hooks.example.com:8443/a/b?c=d&e=%20',
      'https://bücher.example/in',
      `${URL}?${'x'.repeat(1500)}`,
      'https://93.184.215.14/in',
      'https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/in',
    ])
      assert.equal((await create({ ...good, url })).body.data?.attributes.url, url)
  })

  test('rejects private addresses in every notation', async () => {
    // 127.0.0.0/8 is the operator's exception in tests; all else of the private world is not.
    for (const host of [
      '10.0.0.1',
      '10.1',
      '0xa000001',
      '0x0a.0.0.1',
      '167772161',
      '012.0.0.1',
      '10.0.0.1.',
      '１０.0.0.1',
      '10。0。0。1',
      '%31%30.0.0.1',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
      '169.254.169.254',
      '0xa9fea9fe',
      '100.64.0.1',
      '0.0.0.0',
      '0',
      '224.0.0.1',
      '255.255.255.255',
      '[::1]',
      '[::]',
      '[0:0:0:0:0:0:0:1]',
      '[::ffff:10.0.0.1]',
      '[::ffff:a00:1]',
      '[::ffff:169.254.169.254]',
      '[64:ff9b::a00:1]',
      '[2002:a00:1::]',
      '[fe80::1]',
      '[fc00::1]',
      '[fd12:3456::1]',
      '[ff02::1]',
    ])
      refused(await create({ ...good, url: `https://${host}/` }), 422, 'invalid', '/data/attributes/url')
  })

  test('accepts known event names or only *, and ignores repeated names', async () => {
    refused(await create({ name: 'app', url: URL }), 422, 'required', '/data/attributes')
    for (const events of [
      [],
      null,
      'email.sent',
      '*',
      [7],
      [null],
      [''],
      ['email.*'],
      ['email.Sent'],
      ['email.sent '],
      ['email.sent', 'nothing.such'],
      ['*', 'email.sent'],
      ['email.sent', '*'],
      { 0: 'email.sent' },
    ]) {
      const answer = await create({ ...good, events })
      assert.equal(answer.status, 422, JSON.stringify(events))
      assert.match(answer.body.errors[0].source.pointer, /^\/data\/attributes\/events(\/\d+)?$/)
    }
    for (const [given, kept] of [
      [['*'], ['*']],
      [[...EVENT_TYPES], [...EVENT_TYPES]],
      [
        ['email.sent', 'email.sent', 'email.opened'],
        ['email.sent', 'email.opened'],
      ],
    ])
      assert.deepEqual((await create({ ...good, events: given })).body.data.attributes.events, kept)
  })

  test('rejects attributes on create that only the server or PATCH sets', async () => {
    for (const extra of [
      { secret: `whsec_${'A'.repeat(43)}=` },
      { active: false },
      { rotate_secret: true },
      { status: 'paused' },
      { secret_hint: 'abcd' },
      { colour: 'red' },
    ]) {
      const answer = await create({ ...good, ...extra })
      assert.equal(answer.status, 422, JSON.stringify(extra))
      assert.equal(answer.body.errors[0].source.pointer, `/data/attributes/${Object.keys(extra)[0]}`)
    }
  })

  test('reports all errors of a document at once', async () => {
    const { body, status } = await create({ name: '', url: 'http://x.example', events: ['a.b'] })
    assert.equal(status, 422)
    const pointers = body.errors.map((error: { source: { pointer: string } }) => error.source.pointer)
    assert.ok(
      pointers.some((pointer: string) => pointer === '/data/attributes/name'),
      String(pointers),
    )
    assert.ok(
      pointers.some((pointer: string) => pointer.startsWith('/data/attributes/events')),
      String(pointers),
    )
  })

  test('rejects a missing or malformed domain, and returns 404 for an unknown, foreign or deleted one', async () => {
    refused(await create(good, {}), 422, 'required')
    refused(await create(good, { relationships: {} }), 422, 'required')
    const gone = await postrider.activeDomain('gone.test')
    assert.equal((await postrider.api('DELETE', `/domains/${gone.id}`)).status, 204)
    const answers = []
    for (const id of ['nothing', foreign.id, gone.id]) {
      const answer = await create(good, relation(id))
      refused(answer, 404, 'not_found')
      delete answer.body.errors[0].id
      answers.push(answer.body)
    }
    assert.deepEqual(answers[0], answers[1])
    assert.deepEqual(answers[0], answers[2])
    for (const data of [
      null,
      [],
      'x',
      { type: 'domains' },
      { type: 'domains', id: 7 },
      { type: 'inboxes', id: domain.id },
    ]) {
      const { status } = await create(good, { relationships: { domain: { data } } })
      assert.ok(status >= 400 && status < 500, `${JSON.stringify(data)}: ${status}`)
    }
    refused(await create(good, { ...relation(domain.id), id: 'mine' }), 403, 'client_id_forbidden')
    refused(
      await create(good, { relationships: { ...relation(domain.id).relationships, user: { data: null } } }),
      403,
      'relationship_update_forbidden',
    )
    refused(
      await postrider.api('POST', '/webhooks', document('hooks', good, relation(domain.id))),
      409,
      'type_mismatch',
    )
  })

  test('a domain that is not active yet can have webhooks, which receive its verification', async () => {
    const made = await postrider.api('POST', '/domains', document('domains', { name: 'new.test', purpose: 'both' }))
    assert.equal((await create(good, relation(made.body.data.id))).status, 201)
  })
})

describe('read', () => {
  test('lists webhooks with sorting, pages and inclusion, but without filters', async () => {
    for (const name of ['A first', 'A second', 'A third']) assert.equal((await create({ ...good, name })).status, 201)
    const all = await postrider.api('GET', '/webhooks?page[size]=2&sort=name&include=domain')
    assert.equal(all.status, 200, JSON.stringify(all.body))
    assert.equal(all.body.data.length, 2)
    assert.equal(all.body.meta.has_more, true)
    assert.deepEqual(
      all.body.included.map(({ type }: { type: string }) => type),
      ['domains'],
    )
    for (const filter of ['status', 'domain', 'name', 'active']) {
      const { body, status } = await postrider.api('GET', `/webhooks?filter[${filter}]=x`)
      assert.equal(status, 400, filter)
      assert.equal(body.errors[0].source.parameter, `filter[${filter}]`)
    }
    for (const sort of ['created_at', '-updated_at', 'name', '-status'])
      assert.equal((await postrider.api('GET', `/webhooks?sort=${sort}`)).status, 200, sort)
    for (const sort of ['url', 'secret', 'secret_hint', 'events'])
      refused(await postrider.api('GET', `/webhooks?sort=${sort}`), 400, 'unsupported_sort')
    refused(await postrider.api('GET', '/webhooks?include=deliveries'), 400, 'unsupported_include')
    refused(await postrider.api('GET', '/webhooks?include=domain.user'), 400, 'unsupported_include')
    refused(await postrider.api('GET', '/webhooks?page[number]=2'), 400, 'unknown_page_parameter')
    const { id } = all.body.data[0]
    refused(await postrider.api('GET', `/webhooks/${id}?sort=name`), 400, 'invalid_query')
  })
})

describe('change', () => {
  test('changes name, url and events under the rules of creation', async () => {
    const { id } = (await create(good)).body.data
    const patch = (attributes: Record<string, unknown>, more = {}) =>
      postrider.api('PATCH', `/webhooks/${id}`, document('webhooks', attributes, { id, ...more }))
    const changed = await patch({ name: 'new', url: 'https://other.example/', events: ['*'] })
    assert.equal(changed.status, 200, JSON.stringify(changed.body))
    const { events, name, url } = changed.body.data.attributes
    assert.deepEqual([name, url, events], ['new', 'https://other.example/', ['*']])
    const same = await patch({})
    assert.deepEqual([same.status, same.body.data.attributes.name], [200, 'new'])
    for (const bad of [
      { name: '' },
      { url: 'http://x.example/' },
      { url: 'https://192.168.0.1/' },
      { url: 'https://a:b@x.example/' },
      { url: null },
      { events: [] },
      { events: ['*', 'email.sent'] },
      { active: 'false' },
      { active: null },
      { rotate_secret: 'yes' },
      { rotate_secret: 1 },
      { secret: `whsec_${'A'.repeat(43)}=` },
      { secret_hint: 'AAAA' },
      { status: 'paused' },
      { consecutive_failures: 1 },
      { colour: 'red' },
    ]) {
      const answer = await patch(bad)
      assert.equal(answer.status, 422, JSON.stringify(bad))
      assert.ok(answer.body.errors[0].source.pointer.startsWith(`/data/attributes/${Object.keys(bad)[0]}`))
    }
    // One invalid attribute rejects the whole change, including the secret.
    const before = await postrider.api('GET', `/webhooks/${id}`)
    assert.equal((await patch({ name: 'never', rotate_secret: true, url: 'http://x.example' })).status, 422)
    assert.deepEqual((await postrider.api('GET', `/webhooks/${id}`)).body.data, before.body.data)
    refused(await patch({}, relation(id)), 403, 'relationship_update_forbidden')
    refused(await patch({}, { id: 'another' }), 409, 'id_mismatch')
  })

  test('rotate_secret returns a new secret once, and false does not rotate', async () => {
    const made = (await create(good)).body.data
    const { id } = made
    const patch = (attributes: Record<string, unknown>) =>
      postrider.api('PATCH', `/webhooks/${id}`, document('webhooks', attributes, { id }))
    const kept = (await patch({ rotate_secret: false })).body.data.attributes
    assert.ok(!('secret' in kept))
    assert.equal(kept.secret_hint, made.attributes.secret_hint)
    const rotated = (await patch({ rotate_secret: true })).body.data.attributes
    assert.match(rotated.secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
    assert.notEqual(rotated.secret, made.attributes.secret)
    assert.equal(rotated.secret_hint, rotated.secret.slice(-4))
    assert.ok(!('rotate_secret' in rotated))
    const shown = (await postrider.api('GET', `/webhooks/${id}`)).body.data.attributes
    assert.ok(!('secret' in shown))
    assert.equal(shown.secret_hint, rotated.secret_hint)
  })

  test('active false pauses, true resumes, and both can be repeated', async () => {
    const { id } = (await create(good)).body.data
    for (const [active, status] of [
      [false, 'paused'],
      [false, 'paused'],
      [true, 'active'],
      [true, 'active'],
    ] as const) {
      const { body } = await postrider.api('PATCH', `/webhooks/${id}`, document('webhooks', { active }, { id }))
      assert.deepEqual([body.data.attributes.active, body.data.attributes.status], [active, status])
    }
  })
})

describe('access', () => {
  test('returns 404 for another user’s webhooks and deliveries', async () => {
    const hook = await makeHook(postrider, receiver, domain, ['email.opened'])
    const bobs = await makeHook({ api: (...given) => postrider.asOther(...given) }, receiver, foreign)
    await happen(postrider, domain, 'email.opened')
    await hook.arrived(1)
    const [delivery] = await hook.deliveries()
    const asOther: TestAppliance['api'] = (...given) => postrider.asOther(...given)
    const normal = ({ body, status }: Answer): string => {
      if (body?.errors) for (const error of body.errors) delete error.id
      return JSON.stringify([status, body])
    }
    for (const [method, path, body] of [
      ['GET', '/webhooks/ID', undefined],
      ['PATCH', '/webhooks/ID', (id: string) => document('webhooks', { name: 'mine now' }, { id })],
      ['DELETE', '/webhooks/ID', undefined],
      ['GET', '/webhooks/ID/deliveries', undefined],
    ] as const) {
      const theirs = await asOther(method, path.replace('ID', hook.id), body?.(hook.id))
      const none = await asOther(method, path.replace('ID', 'nothing'), body?.('nothing'))
      assert.equal(theirs.status, 404, `${method} ${path}`)
      assert.equal(normal(theirs).replaceAll(hook.id, 'nothing'), normal(none))
    }
    for (const [method, path] of [
      ['GET', '/deliveries/ID'],
      ['POST', '/deliveries/ID/replay'],
    ] as const) {
      const theirs = await asOther(method, path.replace('ID', delivery.id))
      const none = await asOther(method, path.replace('ID', 'nothing'))
      assert.equal(theirs.status, 404, `${method} ${path}`)
      assert.equal(normal(theirs), normal(none))
    }
    assert.equal((await hook.show()).name, hook.path)
    const list = await asOther('GET', '/webhooks')
    assert.deepEqual(
      list.body.data.map(({ id }: { id: string }) => id),
      [bobs.id],
    )
    assert.equal(bobs.requests().length, 0, 'nothing of Ann’s domain goes to Bob')
  })

  test('each operation requires its scope', async () => {
    const hook = await makeHook(postrider, receiver, domain)
    const readOnly = await postrider.tokenFor(postrider.user, ['webhooks:read'])
    const writeOnly = await postrider.tokenFor(postrider.user, ['webhooks:write'])
    const neither = await postrider.tokenFor(
      postrider.user,
      SCOPES.filter((scope) => !scope.startsWith('webhooks:')),
    )
    const as = (token: string, method: string, path: string, body?: unknown) =>
      postrider.api(method, path, body, { authorization: `Bearer ${token}` })
    const patch = document('webhooks', { name: 'x' }, { id: hook.id })
    for (const [method, path, scope, body] of [
      ['GET', '/webhooks', 'webhooks:read', undefined],
      ['POST', '/webhooks', 'webhooks:write', document('webhooks', good, relation(domain.id))],
      ['GET', `/webhooks/${hook.id}`, 'webhooks:read', undefined],
      ['PATCH', `/webhooks/${hook.id}`, 'webhooks:write', patch],
      ['GET', `/webhooks/${hook.id}/deliveries`, 'webhooks:read', undefined],
      ['GET', '/deliveries/nothing', 'webhooks:read', undefined],
      ['POST', '/deliveries/nothing/replay', 'webhooks:write', undefined],
      ['DELETE', `/webhooks/${hook.id}`, 'webhooks:write', undefined],
    ] as const) {
      for (const token of [neither, scope === 'webhooks:read' ? writeOnly : readOnly]) {
        const answer = await as(token, method, path, body)
        refused(answer, 403, 'insufficient_scope')
        assert.match(answer.headers.get('www-authenticate') ?? '', new RegExp(`scope="${scope}"`))
      }
      const { status } = await as(scope === 'webhooks:read' ? readOnly : writeOnly, method, path, body)
      assert.ok(status !== 403 && status !== 401, `${method} ${path}: ${status}`)
      assert.equal((await postrider.raw(`/api/v1${path}`, { method })).status, 401, `${method} ${path}`)
    }
  })
})

test('a deleted webhook returns 404 everywhere at once, and its secret is deleted', async () => {
  const { id } = (await create(good)).body.data
  assert.equal((await postrider.api('DELETE', `/webhooks/${id}`)).status, 204)
  for (const [method, path, body] of [
    ['GET', `/webhooks/${id}`, undefined],
    ['PATCH', `/webhooks/${id}`, document('webhooks', { active: true }, { id })],
    ['DELETE', `/webhooks/${id}`, undefined],
  ] as const)
    refused(await postrider.api(method, path, body), 404, 'not_found')
  // "Past delivery records retained": they are found by the webhook that they went to, for its owner.
  assert.equal((await postrider.api('GET', `/webhooks/${id}/deliveries`)).status, 200)
  refused(await postrider.asOther('GET', `/webhooks/${id}/deliveries`), 404, 'not_found')
  const list = await postrider.api('GET', '/webhooks?page[size]=100')
  assert.ok(!list.body.data.some((one: { id: string }) => one.id === id))
  const left = postrider.appliance.deps.store.all(
    raw<object>('select sealed_secret, sealed_previous from webhooks where id = ?', [id]),
  )
  assert.deepEqual(
    left.map((row) => Object.values(row)),
    [[null, null]],
  )
})
