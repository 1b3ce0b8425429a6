// OAuth clients that publish their metadata at the URL that is their client_id
// (draft-ietf-oauth-client-id-metadata-document-02): accepted URLs and documents, how they are fetched and cached, the
// text that users see, and that such a client is served like any other. A real HTTPS server has the documents.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { makeCertificate } from '../../../src/base/certificate.ts'
import { DAY, HOUR, MINUTE } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/log.ts'
import { allow } from '../../../src/users/oauth/allowed.ts'
import {
  addClient,
  clientById,
  forgetClients,
  MAX_CLIENTS,
  hostOf,
  urlFault,
} from '../../../src/users/oauth/clients.ts'
import { raw } from '../../../src/store/query.ts'
import { startTestAppliance } from '../../kit/appliance.ts'
import { temporaryDirectory } from '../../kit/directory.ts'
import { oauthProvider } from '../../kit/oauth-client.ts'
import { ofFile, setUp } from '../../kit/of-file.ts'
import { givePassword, Person } from '../../kit/person.ts'
import { until } from '../../kit/until.ts'

const PASSWORD = 'a long enough password'
const REDIRECT = 'http://127.0.0.1:1234/callback'

let documents: Server
let dir: string
let caFile: string
/** The server of the documents: https, host and port. */
let origin: string
/** Its responses by path. All other paths are 404. */
const answers = new Map<string, (response: ServerResponse) => void>()
/** Requested paths, and lines of the log. */
const asked: string[] = []
const logged: Record<string, unknown>[] = []
let connections = 0

setUp(async () => {
  dir = temporaryDirectory('documents')
  const certificate = makeCertificate('agent.test', Date.now())
  caFile = join(dir, 'ca.pem')
  writeFileSync(caFile, certificate.cert)
  documents = createServer(certificate, (request, response) => {
    asked.push(request.url!)
    const answer = answers.get(request.url!)
    if (answer) answer(response)
    else response.writeHead(404).end()
  })
  documents.on('connection', () => connections++)
  documents.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => documents.listen(0, '127.0.0.1', resolve))
  origin = `https://agent.test:${(documents.address() as AddressInfo).port}`
})
const postrider = ofFile(() =>
  startTestAppliance({
    config: {
      network: { allow_private: ['127.0.0.1'] },
      webhooks: { ca_file: caFile },
      http: { trusted_proxies: ['127.0.0.1'] },
    },
    log: { ...silentLog, warn: (event, more) => void logged.push({ event, ...more }) },
    domains: ['here.test'],
    open: true,
  }),
)
setUp(async () => {
  postrider.dns.set('agent.test', 'A', ['127.0.0.1'])
  postrider.dns.set('inside.test', 'A', ['10.0.0.1'])
  await givePassword(postrider, postrider.user.email, PASSWORD)
})
after(async () => {
  documents.closeAllConnections()
  await new Promise((resolve) => documents.close(resolve))
})

const store = () => postrider.appliance.deps.store
const about = (path: string, more: Record<string, unknown> = {}) => ({
  client_id: origin + path,
  client_name: 'Agent',
  redirect_uris: [REDIRECT],
  token_endpoint_auth_method: 'none',
  ...more,
})

/** Publishes a document at a path and returns its URL. */
function lay(path: string, body: unknown, headers: Record<string, string> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  answers.set(path, (response) => response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(text))
  return origin + path
}

const asking = (clientId: string, more: Record<string, string> = {}): string =>
  `/oauth/authorize?${new URLSearchParams({
    client_id: clientId,
    redirect_uri: REDIRECT,
    response_type: 'code',
    code_challenge: 'c'.repeat(43),
    code_challenge_method: 'S256',
    ...more,
  }).toString()}`

/** Opens the page of authorization, each time from another address by default. */
let askers = 0
async function ask(clientId: string, more: Record<string, string> = {}, from?: string) {
  const address = from ?? `198.51.${Math.floor(askers / 250)}.${(askers++ % 250) + 1}`
  const response = await fetch(postrider.url + asking(clientId, more), {
    redirect: 'manual',
    headers: { 'x-forwarded-for': address },
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}
const times = (path: string): number => asked.filter((each) => each === path).length

test('an application with a metadata URL signs in without registration, refreshes and revokes its access', async () => {
  const metadata = (await postrider.raw('/.well-known/oauth-authorization-server')).body
  assert.equal(metadata.client_id_metadata_document_supported, true)
  const clientId = lay('/oauth/client.json', about('/oauth/client.json', { client_name: 'Test agent' }))
  const { n } = store().first<{ n: number }>(raw('select count(*) as n from oauth_clients'))!
  const auth = Object.assign(oauthProvider(REDIRECT), { clientMetadataUrl: clientId })
  const transport = () => new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { authProvider: auth })
  const connect = async (): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(transport())
    return client
  }
  await assert.rejects(connect())
  assert.equal(auth.opened!.searchParams.get('client_id'), clientId)
  const back = await new Person(postrider.url).allow(auth.opened!, postrider.user.email, PASSWORD)
  await transport().finishAuth(back.searchParams.get('code')!)
  const client = await connect()
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'From an agent', text: 'Hello.' }
  const sent = await client.callTool({ name: 'send_email', arguments: mail })
  const { data } = sent.structuredContent as { data: { attributes: { agent_id: string } } }
  assert.equal(data.attributes.agent_id, clientId)
  assert.equal(store().first<{ n: number }>(raw('select count(*) as n from oauth_clients'))!.n, n + 1)
  assert.equal(times('/oauth/client.json'), 1, 'once for all the pages')

  postrider.clock.leap(HOUR)
  const before_ = (await auth.tokens())!
  assert.notEqual((await client.callTool({ name: 'list_domains', arguments: {} })).isError, true)
  const now = (await auth.tokens())!
  assert.notEqual(now.access_token, before_.access_token, 'the token was refreshed')
  const grants = (await postrider.api('GET', '/grants')).body.data as { attributes: { program: string } }[]
  assert.deepEqual(
    grants.map(({ attributes }) => attributes.program),
    [`Test agent (${new URL(origin).host})`],
  )
  const form = (path: string, fields: Record<string, string>) =>
    postrider.raw(path, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ client_id: clientId, ...fields }).toString(),
    })
  assert.equal((await form('/oauth/revoke', { token: now.refresh_token! })).status, 200)
  const again = await form('/oauth/token', { grant_type: 'refresh_token', refresh_token: now.refresh_token! })
  assert.equal(again.body.error, 'invalid_grant')
  assert.equal(times('/oauth/client.json'), 1, 'tokens need no document')
  await client.close()
})

test('accepts a long metadata URL as an agent', async () => {
  const path = `/${'x'.repeat(300)}`
  const clientId = lay(path, about(path))
  const auth = Object.assign(oauthProvider(REDIRECT), { clientMetadataUrl: clientId })
  const transport = () => new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { authProvider: auth })
  const client = new Client({ name: 'test', version: '1' })
  await assert.rejects(client.connect(transport()))
  const back = await new Person(postrider.url).allow(auth.opened!, postrider.user.email, PASSWORD)
  await transport().finishAuth(back.searchParams.get('code')!)
  await client.connect(transport())
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'x', text: 'x' }
  const sent = await client.callTool({ name: 'send_email', arguments: mail })
  const { data } = sent.structuredContent as { data: { attributes: { agent_id: string } } }
  assert.equal(data.attributes.agent_id, clientId.slice(0, 128))
  await client.close()
})

test('the consent page shows the metadata host and the redirect host, and warns of loopback redirects', async () => {
  const { host } = new URL(origin)
  const clientId = lay('/named', about('/named', { client_name: 'Claude <b>' }))
  const person = new Person(postrider.url)
  const signIn = await person.open(asking(clientId))
  assert.match(signIn.text, new RegExp(`Claude &lt;b&gt;.*of <strong>${host}`, 's'))
  const consent = await person.signIn(asking(clientId), postrider.user.email, PASSWORD)
  assert.match(consent.text, new RegExp(`The name comes from <strong>${host}</strong>`))
  assert.match(consent.text, /You will be redirected to <strong>127\.0\.0\.1:1234<\/strong>/)
  assert.match(consent.text, /Any application on this device could pretend to be <bdi>Claude &lt;b&gt;<\/bdi>/)
  assert.doesNotMatch(consent.text, /chose this name itself/)

  const more = { redirect_uris: [REDIRECT, 'http://localhost/callback', 'https://agent.example/back'] }
  const elsewhere = await person.open(asking(lay('/elsewhere', about('/elsewhere', more))))
  assert.match(elsewhere.text, /The name comes from/)
  assert.doesNotMatch(elsewhere.text, /pretend to be/)

  const nameless = await person.open(asking(lay('/nameless', about('/nameless', { client_name: undefined }))))
  assert.match(nameless.text, /An unnamed application/)

  const registered = (await addClient(postrider.appliance.deps, { name: 'Old', redirectUris: [REDIRECT] }))!
  const old = await person.open(asking(registered.id))
  assert.match(old.text, /chose this name itself/)
  assert.doesNotMatch(old.text, /The name comes from|pretend to be/)
})

test('rejects a malformed client_id URL before it connects anywhere', async () => {
  const before_ = connections
  const [, port] = origin.split('test:')
  const table: [string, RegExp][] = [
    [origin, /path/],
    [`${origin}/a/../b`, /normal form/],
    [`${origin}/a/./b`, /normal form/],
    [`${origin}/a/%2e%2e/b`, /normal form/],
    [`${origin}/a\\b`, /normal form/],
    [`${origin}/a b`, /normal form/],
    [`https://AGENT.test:${port}/a`, /normal form/],
    [`https://agent.test:0${port}/a`, /normal form/],
    ['https://agent.test:443/a', /normal form/],
    ['HTTPS://agent.test/a', /normal form/],
    ['https:/agent.test/a', /normal form/],
    ['https://@agent.test/a', /normal form/],
    ['https://2130706433/a', /normal form/],
    ['https://bücher.test/a', /normal form/],
    [`${origin}/a#b`, /fragment/],
    [`${origin}/a#`, /fragment/],
    ['https://me@agent.test/a', /credentials/],
    ['https://me:pw@agent.test/a', /credentials/],
    ['https://:pw@agent.test/a', /credentials/],
    ['https://agent.test:99999/a', /not a URL/],
    ['https://', /not a URL/],
    [`${origin}/${'x'.repeat(2000)}`, /longer than 2000/],
  ]
  for (const [clientId, says] of table) {
    const { status, text } = await ask(clientId)
    assert.equal(status, 400, clientId)
    assert.match(text, says, clientId)
    assert.ok(!text.includes('<form'), clientId)
  }
  assert.match(urlFault('http://agent.test/a')!, /HTTPS/)
  for (const good of [`${origin}/a`, `${origin}/`, 'https://agent.test/a?b=c', 'https://xn--bcher-kva.test/a'])
    assert.equal(urlFault(good), undefined, good)
  for (const other of ['http://agent.test/a', 'ftp://agent.test/a', '0195d5a0-0000-7000-8000-000000000000', ''])
    assert.match((await ask(other)).text, /not registered/, 'not a URL to fetch, and not registered')
  assert.match((await ask(`${origin}/a`, { client_id: '' })).text, /not registered/)
  assert.equal(connections, before_)
  assert.equal(hostOf('0195d5a0-0000-7000-8000-000000000000'), undefined)
})

test('rejects an invalid metadata document with a reason and does not store it', async () => {
  const table: [unknown, RegExp][] = [
    ['{', /not JSON/],
    ['[]', /JSON object/],
    ['null', /JSON object/],
    [about('/other'), /client_id/],
    [about('/document', { client_id: undefined }), /client_id/],
    [about('/document', { client_id: `${origin}/document/` }), /client_id/],
    [about('/document', { client_secret: 'x' }), /client_secret/],
    [about('/document', { client_secret_expires_at: 0 }), /client_secret_expires_at/],
    [about('/document', { token_endpoint_auth_method: 'client_secret_post' }), /token_endpoint_auth_method/],
    [about('/document', { token_endpoint_auth_method: 'client_secret_jwt' }), /token_endpoint_auth_method/],
    [about('/document', { token_endpoint_auth_method: 'private_key_jwt' }), /token_endpoint_auth_method/],
    [about('/document', { redirect_uris: undefined }), /redirect_uris/],
    [about('/document', { redirect_uris: [] }), /redirect_uris/],
    [about('/document', { redirect_uris: REDIRECT }), /redirect_uris/],
    [
      about('/document', { redirect_uris: ['https://evil.test/', 5, 'javascript:alert(1)'] }),
      /no URI that this server allows/,
    ],
    [about('/document', { redirect_uris: [`${REDIRECT}#x`] }), /no URI that this server allows/],
    [about('/document', { grant_types: ['client_credentials'] }), /grant_types/],
    [about('/document', { response_types: ['token'] }), /response_types/],
    [about('/document', { client_name: 'Bank\u202Eknab' }), /client_name/],
  ]
  for (const [body, says] of table) {
    const before_ = times('/document')
    const clientId = lay('/document', body)
    const { headers, status, text } = await ask(clientId)
    assert.deepEqual([status, headers.get('location')], [400, null], text)
    assert.match(text, says)
    assert.ok(text.includes(clientId), 'the description is named')
    assert.equal(times('/document'), before_ + 1, 'asked again each time')
    assert.equal(clientById(store(), clientId), undefined)
    assert.match(JSON.stringify(logged.at(-1)), /oauth_client_unusable/)
  }
  assert.equal((await ask(lay('/document', about('/document')))).status, 200, 'fixed, it works at once')
})

test('uses the parts of a metadata document that this server supports', async () => {
  const more = {
    redirect_uris: ['vscode://back', 'not a uri', 'https://elsewhere.example/back', REDIRECT],
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    response_types: ['code', 'id_token'],
    token_endpoint_auth_method: undefined,
    logo_uri: 'javascript:alert(1)',
  }
  const clientId = lay('/many', about('/many', more), { 'content-type': 'application/client+json; charset=utf-8' })
  assert.equal((await ask(clientId)).status, 200)
  assert.equal(
    (await ask(clientId, { redirect_uri: 'http://127.0.0.1:9/callback' })).status,
    200,
    'any port of loopback',
  )
  for (const [uri, says] of [
    ['https://unnamed.example/back', /not registered/],
    ['not a uri', /not registered/],
    ['vscode://back', /does not allow/],
    ['https://elsewhere.example/back', /does not allow.*oauth allow/],
  ] as const) {
    const { headers, status, text } = await ask(clientId, { redirect_uri: uri })
    assert.deepEqual([status, headers.get('location')], [400, null])
    assert.match(text, says)
  }
  await allow(postrider.appliance.deps, 'https://elsewhere.example')
  assert.equal((await ask(clientId, { redirect_uri: 'https://elsewhere.example/back' })).status, 200, 'at once')
  assert.equal(times('/many'), 1)
})

test('fetches metadata without redirects, only with status 200 and JSON, up to 16 KB, never from private addresses', async () => {
  const before_ = connections
  const [, port] = origin.split('test:')
  const table: [string, (response: ServerResponse) => void, RegExp][] = [
    ['/moved', (response) => response.writeHead(302, { location: '/document' }).end(), /redirected/],
    ['/created', (response) => response.writeHead(201, { 'content-type': 'application/json' }).end('{}'), /status 201/],
    ['/missing', (response) => response.writeHead(404).end(), /status 404/],
    ['/large', (response) => response.end(JSON.stringify(about('/large', { x: 'x'.repeat(16_384) }))), /16 KB/],
    [
      '/cut',
      (response) => response.writeHead(200, { 'content-length': '9' }).write('{', () => response.destroy()),
      /./,
    ],
  ]
  for (const [path, answer, reason] of table) {
    answers.set(path, answer)
    const { status, text } = await ask(origin + path)
    assert.equal(status, 400, path)
    assert.match(text, /could not be fetched/, path)
    assert.match(String(logged.at(-1)!['reason']), reason, path)
  }
  for (const type of ['text/html', 'application/javascript', '']) {
    const clientId = lay('/typed', about('/typed'), { 'content-type': type })
    assert.match((await ask(clientId)).text, /Content-Type/, type)
  }
  const met = connections
  assert.ok(met > before_)
  for (const clientId of [
    `https://inside.test:${port}/a`,
    `https://127.0.0.2:${port}/a`,
    `https://[::1]:${port}/a`,
    'https://169.254.169.254/latest',
    'https://nowhere.test/a',
  ]) {
    const { status, text } = await ask(clientId)
    assert.equal(status, 400, clientId)
    assert.match(text, /could not be fetched/, clientId)
    assert.ok(!/10\.0\.0\.1|ENOTFOUND/.test(text), 'what this server sees inside is not told')
  }
  assert.equal(connections, met)
})

test('caches a metadata document according to its headers, for five minutes to one day', async () => {
  const ago = new Date(Date.now() - HOUR).toUTCString()
  const table: [string, Record<string, string>, number][] = [
    ['/nothing', {}, 5 * MINUTE],
    ['/hour', { 'cache-control': 'public, max-age=3600' }, HOUR],
    ['/short', { 'cache-control': 'max-age=1' }, 5 * MINUTE],
    ['/long', { 'cache-control': 'max-age=99999999999' }, DAY],
    ['/never', { 'cache-control': 'no-store, max-age=3600' }, 5 * MINUTE],
    ['/shared', { 'cache-control': 'max-age=60, s-maxage=7200' }, 2 * HOUR],
    ['/aged', { 'cache-control': 'max-age=3600', age: '1800' }, HOUR / 2],
    ['/expires', { date: ago, expires: new Date(Date.parse(ago) + HOUR).toUTCString() }, HOUR],
    ['/expired', { date: ago, expires: '0' }, 5 * MINUTE],
    ['/rubbish', { 'cache-control': 'max-age=x', age: 'y', expires: 'z' }, 5 * MINUTE],
  ]
  for (const [path, headers, life] of table) {
    const clientId = lay(path, about(path), headers)
    assert.equal((await ask(clientId)).status, 200, path)
    postrider.clock.leap(life - 1)
    assert.equal((await ask(clientId)).status, 200, path)
    assert.equal(times(path), 1, `${path} is kept`)
    postrider.clock.leap(1)
    assert.equal((await ask(clientId)).status, 200, path)
    assert.equal(times(path), 2, `${path} is asked again`)
  }
})

test('uses a changed metadata document after the next fetch, and rejects sign-ins while it is missing', async () => {
  const clientId = lay('/changing', about('/changing', { client_name: 'Before' }))
  assert.match((await ask(clientId)).text, /Before/)
  const key = clientById(store(), clientId)!.key
  lay('/changing', about('/changing', { client_name: 'After', redirect_uris: ['http://127.0.0.1/other'] }))
  assert.match((await ask(clientId)).text, /Before/)
  postrider.clock.leap(5 * MINUTE)
  assert.match((await ask(clientId)).text, /not registered/)
  assert.match((await ask(clientId, { redirect_uri: 'http://127.0.0.1/other' })).text, /After/)
  assert.equal(clientById(store(), clientId)!.key, key, 'the same client')
  postrider.clock.leap(5 * MINUTE)
  answers.delete('/changing')
  assert.match((await ask(clientId, { redirect_uri: 'http://127.0.0.1/other' })).text, /could not be fetched/)
})

test('limits each client address to twenty fetched documents per hour, without counting cached ones', async () => {
  const one = '203.0.113.7'
  const clientId = lay('/kept', about('/kept'))
  assert.equal((await ask(clientId, {}, one)).status, 200)
  for (let i = 0; i < 19; i++) assert.equal((await ask(`${origin}/new${i}`, {}, one)).status, 400)
  const { headers, status, text } = await ask(`${origin}/new20`, {}, one)
  assert.equal(status, 429)
  assert.equal(headers.get('retry-after'), '180')
  assert.match(text, /Try again in 180 s/)
  assert.equal(times('/new20'), 0)
  assert.equal((await ask(clientId, {}, one)).status, 200)
  assert.equal((await ask(`${origin}/new20`, {}, '203.0.113.8')).status, 400, 'another address may')
  postrider.clock.leap(3 * MINUTE)
  assert.equal((await ask(`${origin}/new20`, {}, one)).status, 400)
  assert.equal((await ask(`${origin}/new21`, {}, one)).status, 429)
})

test('fetches ten documents in parallel, and each document once for all requests', async () => {
  const held: ServerResponse[] = []
  const paths = Array.from({ length: 10 }, (_, i) => `/held${i}`)
  for (const path of paths) answers.set(path, (response) => void held.push(response))
  const first = paths.map((path) => ask(origin + path))
  await until(() => held.length === 10, 'ten fetches')
  const same = ask(`${origin}/held0`)
  const { headers, status, text } = await ask(`${origin}/eleventh`)
  assert.deepEqual([status, headers.get('retry-after')], [503, '5'])
  assert.match(text, /in a moment/)
  for (const response of held) {
    const path = (response.req as { url?: string }).url!
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(about(path)))
  }
  for (const page of [...(await Promise.all(first)), await same]) assert.equal(page.status, 200)
  assert.equal(times('/held0'), 1)
  assert.equal((await ask(`${origin}/eleventh`)).status, 400, 'there is room again')
})

test('counts clients with documents towards the limit, and deletes those without a grant', async () => {
  const { deps } = postrider.appliance
  const clientId = lay('/unused', about('/unused'))
  await ask(clientId)
  const now = postrider.clock.now()
  const { count } = store().first(raw<{ count: number }>('select count(*) as count from oauth_clients'))!
  await deps.store.write((tx) => {
    tx.run(raw('update oauth_clients set last_used_at = ?', [now]))
    tx.run(raw('update oauth_clients set last_used_at = ? where id = ?', [now - DAY, clientId]))
    tx.run(
      raw(
        `insert into oauth_clients (id, name, redirect_uris, created_at, last_used_at)
         with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
         select 'flood-' || i, '', '[]', ?, ? from n`,
        [MAX_CLIENTS - count, now, now],
      ),
    )
  })
  const next = lay('/next', about('/next'))
  assert.equal((await ask(next)).status, 200)
  assert.ok(clientById(store(), next))
  assert.equal(clientById(store(), clientId), undefined, 'the longest unused gave way')
  await forgetClients(store(), now + 31 * DAY)
  assert.equal(clientById(store(), next), undefined)
})
