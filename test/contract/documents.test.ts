// Media types, request documents and error documents (specification "Wire conventions" and "Errors", D4 to D7).
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '../../src/base/log.ts'
import { createApp } from '../../src/http/server.ts'
import type { AppDeps } from '../../src/http/app-deps.ts'
import { document, JSON_API } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import {
  API,
  codes,
  judge,
  jsonApiSchema,
  mailDocument,
  MISSING,
  outcomes,
  sameOutcomes,
  pointers,
  SCHEMAS,
  startWire,
  withoutCorpus,
  type Wire,
} from './wire.ts'

const wire = ofFile(() => startWire())
let domainId: string
const ask: Wire['ask'] = (...request) => wire.ask(...request)

setUp(async () => {
  const domain = await wire.postrider.activeDomain('here.test')
  domainId = domain.id
})

// ---- Media types

const ACCEPT: [accept: string, status: number][] = [
  [JSON_API, 200],
  ['', 200],
  ['*/*', 200],
  ['application/*', 200],
  ['application/json', 200],
  ['text/html', 200],
  [`${JSON_API};q=0.9`, 200],
  [`${JSON_API};q=1.0`, 200],
  [`${JSON_API} ;\tq=0.5 `, 200],
  ['Application/VND.API+JSON', 200],
  ['Application/VND.API+JSON;Q=0.1', 200],
  [`${JSON_API};`, 200],
  [`text/html, ,${JSON_API}`, 200],
  [`${JSON_API};charset=utf-8, ${JSON_API}`, 200],
  [`${JSON_API};charset=utf-8`, 406],
  [`${JSON_API};CHARSET=utf-8;q=0.5`, 406],
  [`APPLICATION/VND.API+JSON;charset=utf-8`, 406],
  [`${JSON_API};charset=utf-8, */*`, 406],
  [`*/*;q=0.1, ${JSON_API};x=1, application/json`, 406],
  [`${JSON_API};profile="https://a.example/x,y;z https://b.example"`, 200],
  [`${JSON_API};profile="a\\"b;charset=utf-8,${JSON_API};ext=x"`, 200],
  [`${JSON_API};profile="https://a.example/x,y", ${JSON_API};ext="https://b.example/p,q"`, 200],
  [`${JSON_API};PROFILE="https://a.example";q=0.3`, 200],
  [`${JSON_API};profile="https://a.example";charset=utf-8`, 406],
  [`${JSON_API};ext="https://a.example/x"`, 406],
  [`${JSON_API};ext=""`, 406],
  [`${JSON_API};ext="https://a.example/x", ${JSON_API};ext="https://b.example/y"`, 406],
  [`${JSON_API};ext="https://a.example/x", ${JSON_API}`, 200],
  [`${JSON_API};q=0`, 406],
  [`${JSON_API};q=0.000`, 406],
  [`${JSON_API};q=0, */*`, 406],
  [`${JSON_API};q=0, ${JSON_API};charset=utf-8`, 406],
  [`${JSON_API};q=0, ${JSON_API}`, 200],
  [`application/vnd.api+jsonx;charset=utf-8`, 200],
  [`text/plain;x="${JSON_API};charset=utf-8"`, 200],
]

test('rejects Accept with 406 only if it names the JSON:API type in unusable forms only', async () => {
  const found = await outcomes(
    ACCEPT,
    ([accept]) => accept,
    async ([accept]) => (await ask('GET', '/domains', { headers: { accept } })).status,
  )
  sameOutcomes(found, Object.fromEntries(ACCEPT))
  const refused = await ask('GET', '/domains', { headers: { accept: `${JSON_API};charset=utf-8` } })
  assert.deepEqual(codes(refused), ['not_acceptable'])
  assert.deepEqual(refused.body.errors[0].source, { header: 'Accept' })
})

test('checks Accept on every kind of request, and on URLs that do not exist', async () => {
  const headers = { accept: `${JSON_API};charset=utf-8` }
  for (const [method, path, body] of [
    ['GET', '/outbound-emails'],
    ['GET', `/domains/${domainId}`],
    ['GET', `/domains/${domainId}/records`],
    ['POST', '/outbound-emails', mailDocument()],
    ['PATCH', `/domains/${domainId}`, document('domains', {}, { id: domainId })],
    ['DELETE', `/domains/${domainId}`],
    ['GET', '/nothing/here'],
    ['PUT', '/domains'],
  ] as const)
    assert.equal((await ask(method, path, { headers, body })).status, 406, `${method} ${path}`)
})

const CONTENT_TYPES: [type: string, taken: boolean][] = [
  [JSON_API, true],
  ['Application/VND.API+JSON', true],
  [`${JSON_API}; profile="https://a.example/x,y;z https://b.example"`, true],
  [`${JSON_API};profile=x`, true],
  [`${JSON_API};PROFILE="a\\";charset=utf-8"`, true],
  [` ${JSON_API} `, true],
  [`${JSON_API};charset=utf-8`, false],
  [`${JSON_API}; Charset="utf-8"`, false],
  [`${JSON_API};profile="https://a.example";charset=utf-8`, false],
  [`${JSON_API};ext="https://a.example/x"`, false],
  [`${JSON_API};ext=""`, false],
  [`${JSON_API};x=1`, false],
  // A weight is defined only for Accept. Here it is one of the "any other parameters".
  [`${JSON_API};q=1`, false],
  [`${JSON_API};q=0.5;charset=utf-8`, false],
  ['application/json', false],
  ['text/plain', false],
  ['application/x-www-form-urlencoded', false],
  ['application/vnd.api+jsonx', false],
  [`application/json, ${JSON_API}`, false],
  ['*/*', false],
  ['', false],
]

test('rejects a Content-Type other than JSON:API, or with a parameter other than profile, with 415', async () => {
  for (const [method, path, body, taken] of [
    ['PATCH', `/domains/${domainId}`, document('domains', {}, { id: domainId }), 200],
    ['POST', '/domains', document('domains', {}), 422],
  ] as const) {
    const found = await outcomes(
      CONTENT_TYPES,
      ([type]) => type,
      async ([type]) => {
        const answer = await ask(method, path, { headers: { 'content-type': type }, body })
        if (answer.status === 415) {
          assert.deepEqual(codes(answer), ['unsupported_media_type'])
          assert.deepEqual(answer.body.errors[0].source, { header: 'Content-Type' })
        }
        return answer.status
      },
    )
    sameOutcomes(found, Object.fromEntries(CONTENT_TYPES.map(([type, ok]) => [type, ok ? taken : 415])), method)
  }
})

test('rejects a body without Content-Type with 415, except for DELETE (D5)', async () => {
  const { postrider } = wire
  const path = `${API}/domains`
  const sent = JSON.stringify(document('domains', {}))
  // Bytes, because fetch would add a Content-Type for text.
  const bare = await postrider.raw(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${postrider.token}` },
    body: new TextEncoder().encode(sent),
  })
  judge(bare, { method: 'POST', path: '/domains', body: sent, base: '' })
  assert.equal(bare.status, 415)
  const [id] = await wire.mails(1)
  assert.equal((await ask('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.equal((await ask('GET', `/outbound-emails/${id}`)).status, 404)
})

test('an internal error is an error document without details (D6)', async () => {
  const { deps } = wire.postrider.appliance
  const secret = 'select * from tokens where hash = 1'
  const lines: string[] = []
  const broken: AppDeps = {
    ...deps,
    log: createLog({ clock: deps.clock, level: 'info', form: 'json', write: (line) => void lines.push(line) }),
    store: new Proxy(deps.store, {
      get(store, name) {
        if (name === 'all')
          return () => {
            throw new Error(`${secret}: cannot open /var/lib/postrider/db`)
          }
        const value: unknown = Reflect.get(store, name)
        return typeof value === 'function' ? (value.bind(store) as unknown) : value
      },
    }),
  }
  const response = await createApp(broken).request(`${API}/domains`, {
    headers: { authorization: `Bearer ${wire.postrider.token}` },
  })
  const text = await response.text()
  judge(
    { status: response.status, headers: response.headers, body: JSON.parse(text) },
    { method: 'GET', path: '/domains', base: '' },
  )
  assert.equal(response.status, 500)
  assert.match(text, /"code":"internal"/)
  assert.doesNotMatch(text, /select|postrider\/db/)
  const [{ id }] = JSON.parse(text).errors
  assert.ok(
    lines.some((line) => line.includes(id) && line.includes('/var/lib/postrider/db')),
    'the log holds the cause under the id',
  )
})

// ---- Request documents

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1')

test('answers an invalid request document with 400 and a pointer', async () => {
  const faults: [body: unknown, pointer: string][] = [
    ['', ''],
    ['{', ''],
    ['{"data":{"type":"domains","attributes":{}}', ''],
    ['{"data":{"type":"domains",}}', ''],
    ["{'data':{}}", ''],
    ['{"data":{"type":"domains","attributes":{"name":NaN}}}', ''],
    [bytes('{"data":{"type":"domains","attributes":{"name":"\xe9"}}}'), ''],
    [bytes('{"data":{"type":"domains","attributes":{"name":"\xed\xa0\x80"}}}'), ''],
    ['null', ''],
    ['true', ''],
    ['7', ''],
    ['"data"', ''],
    ['[]', ''],
    ['[{"data":{"type":"domains","attributes":{}}}]', ''],
    ['{}', ''],
    ['{"meta":{}}', ''],
    ['{"data":null}', '/data'],
    ['{"data":[]}', '/data'],
    ['{"data":[{"type":"domains","attributes":{}}]}', '/data'],
    ['{"data":"domains"}', '/data'],
    ['{"data":7}', '/data'],
    ['{"data":{"attributes":{}}}', '/data'],
    ['{"data":{"type":null,"attributes":{}}}', '/data/type'],
    ['{"data":{"type":7,"attributes":{}}}', '/data/type'],
    ['{"data":{"type":["domains"],"attributes":{}}}', '/data/type'],
    ['{"data":{"type":"domains","attributes":null}}', '/data/attributes'],
    ['{"data":{"type":"domains","attributes":[]}}', '/data/attributes'],
    ['{"data":{"type":"domains","attributes":"name"}}', '/data/attributes'],
    ['{"data":{"type":"domains","attributes":{},"relationships":[]}}', '/data/relationships'],
    ['{"data":{"type":"domains","attributes":{},"relationships":null}}', '/data/relationships'],
  ]
  const name = ([body]: (typeof faults)[0]): string =>
    body instanceof Uint8Array ? Buffer.from(body).toString('latin1') : String(body)
  const found = await outcomes(faults, name, async ([body]) => {
    const answer = await ask('POST', '/domains', { body })
    return answer.status === 400 ? [...codes(answer), ...pointers(answer)] : answer.status
  })
  sameOutcomes(found, Object.fromEntries(faults.map((fault) => [name(fault), ['invalid_document', fault[1]]])))
})

test('rejects an update without a string id with 400, and with another id with 409', async () => {
  const path = `/domains/${domainId}`
  const patch = (data: unknown) => ask('PATCH', path, { body: { data } })
  const without = await patch({ type: 'domains', attributes: {} })
  assert.equal(without.status, 400)
  assert.deepEqual(pointers(without), ['/data'])
  for (const id of [7, null, [domainId], { id: domainId }]) {
    const answer = await patch({ type: 'domains', id, attributes: {} })
    assert.equal(answer.status, 400, JSON.stringify(id))
    assert.deepEqual(pointers(answer), ['/data/id'])
  }
  for (const id of [MISSING, domainId.toUpperCase(), ` ${domainId}`, '']) {
    const answer = await patch({ type: 'domains', id, attributes: {} })
    assert.equal(answer.status, 409, id)
    assert.deepEqual([codes(answer), pointers(answer)], [['id_mismatch'], ['/data/id']])
  }
  for (const type of ['domain', 'Domains', 'tokens', '']) {
    const answer = await patch({ type, id: domainId, attributes: {} })
    assert.equal(answer.status, 409, type)
    assert.deepEqual([codes(answer), pointers(answer)], [['type_mismatch'], ['/data/type']])
  }
})

test('rejects a create with another type with 409 on each endpoint', async () => {
  for (const path of ['/tokens', '/outbound-emails', '/domains'])
    for (const type of ['records', path.slice(1, -1), path.slice(1).toUpperCase()]) {
      const answer = await ask('POST', path, { body: document(type, {}) })
      assert.equal(answer.status, 409, `${type} at ${path}`)
      assert.deepEqual([codes(answer), pointers(answer)], [['type_mismatch'], ['/data/type']])
    }
})

test('rejects a client id on create with 403, and does not accept a lid as id', async () => {
  for (const path of ['/tokens', '/outbound-emails', '/domains'])
    for (const id of [MISSING, 'x', '']) {
      const answer = await ask('POST', path, { body: document(path.slice(1), {}, { id }) })
      assert.equal(answer.status, 403, `"${id}" at ${path}`)
      assert.deepEqual([codes(answer), pointers(answer)], [['client_id_forbidden'], ['/data/id']])
    }
  const made = await ask('POST', '/outbound-emails', { body: { data: { ...mailDocument().data, lid: 'mine' } } })
  assert.equal(made.status, 201)
  assert.notEqual(made.body.data.id, 'mine')
})

test('rejects relationships with 403 if an endpoint does not offer them', async () => {
  const domain = { data: { type: 'domains', id: domainId } }
  const attributes = { name: 'x', scopes: ['emails:read'], duration: '1_month' }
  const [mail] = await wire.mails(1)
  for (const [method, path, body] of [
    ['PATCH', `/domains/${domainId}`, document('domains', {}, { id: domainId, relationships: { owner: domain } })],
    ['POST', '/tokens', document('tokens', attributes, { relationships: { owner: domain } })],
    // In the specification `from` selects the domain. A relationship would be a second, silently ignored, choice.
    ['POST', '/outbound-emails', mailDocumentWith({ relationships: { domain } })],
    ['POST', '/outbound-emails', mailDocumentWith({ relationships: { 'a/b~c': domain } })],
  ] as const) {
    const answer = await ask(method, path, { body })
    assert.equal(answer.status, 403, `${method} ${path} ${JSON.stringify(body)}`)
    assert.deepEqual(codes(answer), ['relationship_update_forbidden'])
  }
  for (const path of [
    `/outbound-emails/${mail}/relationships/domain`,
    `/outbound-emails/${MISSING}/relationships/domain`,
    `/domains/${domainId}/relationships/nothing`,
  ])
    for (const method of ['POST', 'PATCH', 'DELETE']) {
      const answer = await ask(method, path, { body: domain })
      assert.equal(answer.status, 403, `${method} ${path}`)
      assert.deepEqual(codes(answer), ['relationship_update_forbidden'])
    }
})

const mailDocumentWith = (more: Record<string, unknown>) => ({ data: { ...mailDocument().data, ...more } })

// ---- Error documents

test('a pointer names an existing value, and the parent of a missing attribute', async () => {
  const without = await ask('POST', '/tokens', { body: document('tokens', { name: 'x', duration: '1_month' }) })
  assert.equal(without.status, 422)
  assert.deepEqual([codes(without), pointers(without)], [['required'], ['/data/attributes']])
  const bare = await ask('POST', '/tokens', { body: { data: { type: 'tokens' } } })
  assert.equal(bare.status, 422)
  assert.deepEqual(new Set(pointers(bare)), new Set(['/data']))
})

test('a pointer names the wrong value exactly, with escaped keys and the index of list items', async () => {
  const unknown = await ask('POST', '/domains', {
    body: document('domains', { name: 'a.test', purpose: 'both', 'a/b~c': 1, '': 2, ' x': 3 }),
  })
  assert.equal(unknown.status, 422)
  assert.deepEqual(pointers(unknown).toSorted(), [
    '/data/attributes/',
    '/data/attributes/ x',
    '/data/attributes/a~1b~0c',
  ])
  const scopes = ['emails:read', 'mcp:use', 'emails:send', 'emails:all', 7]
  const items = await ask('POST', '/tokens', { body: document('tokens', { name: 'x', scopes, duration: '1_month' }) })
  assert.equal(items.status, 422)
  assert.deepEqual(
    pointers(items),
    [1, 3, 4].map((index) => `/data/attributes/scopes/${index}`),
  )
  // A repeated address is dropped, but the index of the others is that in the request.
  const replies = ['ann@here.test', 'ann@here.test', 'ann@elsewhere.test']
  const family = await ask('POST', '/outbound-emails', { body: mailDocument({ reply_to: replies }) })
  assert.equal(family.status, 422)
  assert.deepEqual([codes(family), pointers(family)], [['address_outside_domain'], ['/data/attributes/reply_to/2']])
})

test('a pointer names a single address without an index', async () => {
  const alone = await ask('POST', '/outbound-emails', { body: mailDocument({ reply_to: 'ann@elsewhere.test' }) })
  assert.equal(alone.status, 422)
  assert.deepEqual([codes(alone), pointers(alone)], [['address_outside_domain'], ['/data/attributes/reply_to']])
  const wrong = await ask('POST', '/outbound-emails', { body: mailDocument({ reply_to: 'not an address' }) })
  assert.deepEqual(pointers(wrong), ['/data/attributes/reply_to'])
})

test('a wrong item in a list of addresses is named by its index', async () => {
  const answer = await ask('POST', '/outbound-emails', {
    body: mailDocument({ reply_to: ['ann@here.test', 'not an address', 'x@'] }),
  })
  assert.equal(answer.status, 422)
  assert.deepEqual(pointers(answer), ['/data/attributes/reply_to/1', '/data/attributes/reply_to/2'])
})

test('reports all errors of a request at once (D6)', async () => {
  const empty = await ask('POST', '/outbound-emails', { body: document('outbound-emails', {}) })
  assert.equal(empty.status, 422)
  assert.deepEqual(codes(empty), ['required', 'required', 'required', 'required'])
  for (const name of ['from', 'to', 'subject', 'html'])
    assert.ok(
      empty.body.errors.some(({ detail }: { detail: string }) => detail.includes(`"${name}"`)),
      name,
    )
  const mixed = await ask('POST', '/outbound-emails', {
    body: mailDocument({ to: 'nobody', subject: 'a\nb', html: 7, nonsense: true, status: 'sent' }),
  })
  assert.equal(mixed.status, 422)
  assert.deepEqual(
    pointers(mixed).toSorted(),
    ['html', 'nonsense', 'status', 'subject', 'to'].map((name) => `/data/attributes/${name}`),
  )
})

test('unknown and unsettable attributes are 422, never ignored (D5)', async () => {
  for (const [method, path, attributes, more, wrong] of [
    ['PATCH', `/domains/${domainId}`, { tls_polcy: 'Require' }, { id: domainId }, 'tls_polcy'],
    ['PATCH', `/domains/${domainId}`, { name: 'other.test' }, { id: domainId }, 'name'],
    ['PATCH', `/domains/${domainId}`, { status: 'failed' }, { id: domainId }, 'status'],
    ['PATCH', `/domains/${domainId}`, { created_at: null }, { id: domainId }, 'created_at'],
    ['POST', '/domains', { name: 'n.test', purpose: 'both', rotate_dkim_key: true }, {}, 'rotate_dkim_key'],
    ['POST', '/domains', { name: 'n.test', purpose: 'both', constructor: 1 }, {}, 'constructor'],
    ['POST', '/domains', JSON.parse('{"name":"n.test","purpose":"both","__proto__":{}}'), {}, '__proto__'],
    ['POST', '/tokens', { name: 'x', scopes: ['emails:read'], duration: '1_month', token: 'pr_x' }, {}, 'token'],
  ] as const) {
    const body = document(path.split('/')[1]!, attributes, more)
    const answer = await ask(method, path, { body })
    assert.equal(answer.status, 422, `${wrong}: ${JSON.stringify(answer.body)}`)
    assert.deepEqual(pointers(answer), [`/data/attributes/${wrong}`])
  }
  assert.equal((await ask('GET', '/domains?filter[name]=n.test')).body.data.length, 0)
})

test('PATCH keeps attributes that it does not name', async () => {
  const path = `/domains/${domainId}`
  const patch = (attributes?: Record<string, unknown>) =>
    ask('PATCH', path, { body: { data: { type: 'domains', id: domainId, ...(attributes ? { attributes } : {}) } } })
  const before_ = (await ask('GET', path)).body.data.attributes
  const changed = (await patch({ tls_policy: 'Require', open_tracking_enabled: true })).body.data.attributes
  assert.deepEqual(changed, {
    ...before_,
    tls_policy: 'Require',
    open_tracking_enabled: true,
    updated_at: changed.updated_at,
  })
  const same = (await patch({})).body.data.attributes
  assert.deepEqual({ ...same, updated_at: '' }, { ...changed, updated_at: '' })
  const bare = await patch()
  assert.equal(bare.status, 200)
  const back = (await patch({ tls_policy: 'Optional', open_tracking_enabled: false })).body.data.attributes
  assert.deepEqual({ ...back, updated_at: '' }, { ...before_, updated_at: '' })
  for (const nothing of ['tls_policy', 'mail_from_prefix', 'open_tracking_enabled', 'rotate_dkim_key']) {
    const answer = await patch({ [nothing]: null })
    assert.equal(answer.status, 422, `${nothing} null`)
    assert.deepEqual(pointers(answer), [`/data/attributes/${nothing}`])
  }
})

test('a 201 response has a Location, which equals links.self and returns the resource (D10)', async () => {
  const { body, headers } = await ask('POST', '/outbound-emails', { body: mailDocument() })
  const location = headers.get('location')!
  assert.equal(location, `${wire.postrider.config.http.public_url}${API}/outbound-emails/${body.data.id}`)
  const shown = await ask('GET', `/outbound-emails/${body.data.id}`)
  assert.equal(shown.body.data.id, body.data.id)
  assert.equal(shown.body.data.links.self, location)
  assert.match(body.data.id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('POST and PATCH honour include and fields', async () => {
  const query = '?include=domain&fields[domains]=name&fields[outbound-emails]=subject,domain'
  const { status, body } = await ask('POST', `/outbound-emails${query}`, { body: mailDocument() })
  assert.equal(status, 201)
  assert.deepEqual(body.data.attributes, { subject: 'Hello' })
  assert.deepEqual(body.data.relationships, { domain: { data: { type: 'domains', id: domainId } } })
  assert.deepEqual(
    body.included.map(({ attributes }: { attributes: unknown }) => attributes),
    [{ name: 'here.test' }],
  )
  const patched = await ask('PATCH', `/domains/${domainId}?fields[domains]=name,status`, {
    body: document('domains', {}, { id: domainId }),
  })
  assert.deepEqual(patched.body.data.attributes, { name: 'here.test', status: 'active' })
})

test('returns the plaintext of a token only on creation', async () => {
  const { status, body } = await ask('POST', '/tokens', {
    body: document('tokens', { name: 'x', scopes: ['emails:read'], duration: '1_month' }),
  })
  assert.equal(status, 201)
  const { token, last_four } = body.data.attributes
  assert.match(token, /^pr_[0-9A-Za-z]{43}$/)
  assert.equal(token.slice(-4), last_four)
})

// ---- The checks themselves

test('the schema of these tests accepts and rejects the corpus as labelled', { skip: withoutCorpus }, () => {
  let seen = 0
  for (const verdict of ['valid', 'invalid'])
    for (const entry of readdirSync(join(SCHEMAS, 'tests/response', verdict), {
      recursive: true,
      withFileTypes: true,
    })) {
      if (!entry.isFile()) continue
      const file = join(entry.parentPath, entry.name)
      const taken = jsonApiSchema!(JSON.parse(readFileSync(file, 'utf8')))
      assert.equal(taken, verdict === 'valid', `${file}: ${JSON.stringify(jsonApiSchema!.errors)}`)
      seen++
    }
  assert.ok(seen > 50)
})
