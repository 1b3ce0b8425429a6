// Discovery and registration by an application before any user is involved: the metadata documents and RFC 7591, over a
// real socket.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { DAY, HOUR } from '../../../src/base/clock.ts'
import { silentLog } from '../../../src/base/log.ts'
import { addClient, clientById, forgetClients, MAX_CLIENTS } from '../../../src/users/oauth/clients.ts'
import { grantCode } from '../../../src/users/oauth/grants.ts'
import { raw } from '../../../src/store/query.ts'
import { startTestAppliance } from '../../kit/appliance.ts'
import { ofFile } from '../../kit/of-file.ts'

const REDIRECT = 'http://127.0.0.1:1234/callback'

const postrider = ofFile(() =>
  startTestAppliance({
    config: { oauth: { redirect_origins: ['http://127.0.0.1', 'https://good.example'] } },
    open: true,
  }),
)

/** Registers a client, each time from another address by default. */
let asked = 0
async function register(body: unknown, headers: Record<string, string> = {}) {
  postrider.config.http.trusted_proxies = ['127.0.0.1']
  const from = `192.0.2.${(asked++ % 250) + 1}`
  const response = await fetch(`${postrider.url}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-forwarded-for': from, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as Record<string, unknown>,
  }
}

test('the metadata documents name the issuer byte for byte, and each its own resource', async () => {
  const read = async (path: string) => {
    const response = await fetch(`${postrider.url}/.well-known/${path}`, { headers: { origin: 'https://any.test' } })
    assert.equal(response.status, 200, path)
    assert.match(response.headers.get('content-type')!, /^application\/json/)
    assert.match(response.headers.get('cache-control')!, /max-age=\d+/)
    assert.equal(response.headers.get('access-control-allow-origin'), '*')
    assert.equal(response.headers.get('access-control-allow-credentials'), null)
    return (await response.json()) as Record<string, unknown>
  }
  for (const path of ['oauth-authorization-server', 'oauth-authorization-server/mcp']) {
    const document = await read(path)
    assert.deepEqual(document, {
      issuer: postrider.url,
      authorization_endpoint: `${postrider.url}/oauth/authorize`,
      token_endpoint: `${postrider.url}/oauth/token`,
      registration_endpoint: `${postrider.url}/oauth/register`,
      revocation_endpoint: `${postrider.url}/oauth/revoke`,
      revocation_endpoint_auth_methods_supported: ['none'],
      scopes_supported: ['mcp:use'],
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_methods_supported: ['none'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
      client_id_metadata_document_supported: true,
    })
  }
  for (const [path, resource] of [
    ['oauth-protected-resource', postrider.url],
    ['oauth-protected-resource/mcp', `${postrider.url}/mcp`],
  ] as const)
    assert.deepEqual(await read(path), {
      resource,
      authorization_servers: [postrider.url],
      scopes_supported: ['mcp:use'],
      bearer_methods_supported: ['header'],
      resource_name: 'Postrider',
    })
  const refused = await fetch(`${postrider.url}/mcp`, { method: 'POST' })
  const [, pointed] = /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate')!)!
  assert.equal(pointed, `${postrider.url}/.well-known/oauth-protected-resource/mcp`)
  assert.doesNotMatch(refused.headers.get('www-authenticate')!, /error=/, 'nothing was sent that could be wrong')
})

test('a browser of any origin can use the metadata, registration and token endpoints without credentials', async () => {
  for (const path of ['/oauth/register', '/oauth/token', '/.well-known/oauth-authorization-server']) {
    const { headers, status } = await fetch(postrider.url + path, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://any.test',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'content-type, mcp-protocol-version',
      },
    })
    assert.equal(status, 204, path)
    assert.equal(headers.get('access-control-allow-origin'), '*')
    assert.equal(headers.get('access-control-allow-credentials'), null)
    assert.match(headers.get('access-control-allow-headers')!, /MCP-Protocol-Version/i)
  }
  const page = await fetch(`${postrider.url}/oauth/authorize?client_id=x`, { headers: { origin: 'https://any.test' } })
  assert.equal(page.headers.get('access-control-allow-origin'), null, 'the page of consent is read by nobody else')
})

test('registers every client as public, even if its request has other members', async () => {
  const { body, headers, status } = await register({
    redirect_uris: [REDIRECT, REDIRECT],
    client_name: '  Agent  ',
    scope: 'mcp:use emails:send admin',
    application_type: 'native',
    logo_uri: 'javascript:alert(1)',
    software_statement: 'eyJ',
    client_secret: 'mine',
    client_id: 'mine',
  })
  assert.equal(status, 201)
  assert.equal(headers.get('cache-control'), 'no-store')
  const { client_id, client_id_issued_at, ...rest } = body
  assert.deepEqual(rest, {
    client_name: 'Agent',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: 'mcp:use',
  })
  assert.notEqual(client_id, 'mine')
  assert.equal(client_id_issued_at, Math.floor(postrider.clock.now() / 1000))
})

test('rejects wrong metadata with an OAuth error that names it', async () => {
  const uris = 'invalid_redirect_uri'
  const metadata = 'invalid_client_metadata'
  const fine = { redirect_uris: [REDIRECT] }
  const table: [unknown, string, RegExp][] = [
    ['{', metadata, /JSON/],
    ['[]', metadata, /object/],
    ['null', metadata, /object/],
    [{}, uris, /redirect_uris/],
    [{ redirect_uris: REDIRECT }, uris, /redirect_uris/],
    [{ redirect_uris: [] }, uris, /redirect_uris/],
    [{ redirect_uris: [1] }, uris, /redirect_uris/],
    [{ redirect_uris: ['/callback'] }, uris, /absolute/],
    [{ redirect_uris: [REDIRECT, 'https://evil.test/'] }, uris, /origin/],
    [{ redirect_uris: [`${REDIRECT}#x`] }, uris, /redirect_uris/],
    [{ redirect_uris: [`https://good.example/${'x'.repeat(2000)}`] }, uris, /redirect_uris/],
    [{ redirect_uris: Array.from({ length: 11 }, (_, i) => `${REDIRECT}${i}`) }, uris, /at most 10/],
    [{ ...fine, client_name: 5 }, metadata, /client_name/],
    [{ ...fine, client_name: 'x'.repeat(201) }, metadata, /client_name/],
    [{ ...fine, client_name: 'Bank\u202Eknab' }, metadata, /client_name/],
    [{ ...fine, client_name: 'two\nlines' }, metadata, /client_name/],
    [{ ...fine, client_name: '\u115F\u3164\u2800' }, metadata, /client_name/],
    [{ ...fine, client_name: `a${'\u0301'.repeat(50)}` }, metadata, /client_name/],
    [{ redirect_uris: [`${REDIRECT}?state=mine`] }, uris, /redirect_uris/],
    [{ ...fine, grant_types: ['password'] }, metadata, /grant_types/],
    [{ ...fine, grant_types: 'authorization_code' }, metadata, /grant_types/],
    [{ ...fine, response_types: ['token'] }, metadata, /response_types/],
    [{ ...fine, token_endpoint_auth_method: 'client_secret_basic' }, metadata, /token_endpoint_auth_method/],
  ]
  for (const [body, error, says] of table) {
    const answer = await register(body)
    assert.equal(answer.status, 400, JSON.stringify(body).slice(0, 100))
    assert.equal(answer.body['error'], error, JSON.stringify(body).slice(0, 100))
    assert.match(String(answer.body['error_description']), says)
    assert.match(answer.headers.get('content-type')!, /^application\/json/)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
  }
  assert.equal((await register(fine, { 'content-type': 'text/plain' })).status, 400)
  const large = await register({ ...fine, client_uri: 'x'.repeat(20_000) })
  assert.equal(large.status, 413)
})

test('answers other methods with 405 and Allow', async () => {
  for (const [method, path, allow] of [
    ['GET', '/oauth/token', 'POST'],
    ['DELETE', '/oauth/register', 'POST'],
    ['POST', '/.well-known/oauth-authorization-server', 'GET, HEAD'],
  ] as const) {
    const { headers, status } = await fetch(postrider.url + path, { method })
    assert.deepEqual([status, headers.get('allow')], [405, allow], path)
  }
})

test('allows ten registrations per hour from one address, even with forged forwarding headers', async () => {
  const body = { redirect_uris: [REDIRECT] }
  // Without a proxy, the header is untrusted.
  const direct = async () => {
    const answer = register(body)
    postrider.config.http.trusted_proxies = []
    return answer
  }
  const answers = []
  for (let i = 0; i < 11; i++) answers.push(await direct())
  assert.deepEqual(
    answers.map(({ status }) => status),
    [...Array<number>(10).fill(201), 429],
  )
  const [last] = answers.slice(-1)
  assert.equal(last!.body['error'], 'temporarily_unavailable')
  assert.ok(Number(last!.headers.get('retry-after')) > 0)
  postrider.clock.leap(HOUR / 10)
  assert.equal((await direct()).status, 201)
  assert.equal((await direct()).status, 429)

  // Behind a proxy, the last address that is not the proxy's counts. Those before it are forged.
  const behind = (forwarded: string) => register(body, { 'x-forwarded-for': forwarded })
  for (let i = 0; i < 10; i++) assert.equal((await behind(`203.0.113.${i}, 198.51.100.1`)).status, 201)
  assert.equal((await behind('203.0.113.99, 198.51.100.1')).status, 429)
  assert.equal((await behind('198.51.100.1, ::ffff:198.51.100.1')).status, 429)
  assert.equal((await behind('198.51.100.1, 198.51.100.2')).status, 201)
  // A whole /64 counts as one customer.
  for (let i = 0; i < 10; i++) assert.equal((await behind(`2001:db8:0:7:${i}::1`)).status, 201)
  assert.equal((await behind('2001:db8:0:7::ffff')).status, 429)
  assert.equal((await behind('2001:db8:0:8::1')).status, 201)
})

test('a flood of registrations locks out no other client, and unused clients are deleted after thirty days', async () => {
  const { deps } = postrider.appliance
  const registration = { name: 'Old', redirectUris: [REDIRECT] }
  const [granted, first] = [(await addClient(deps, registration))!, (await addClient(deps, registration))!]
  await grantCode(deps, {
    client: granted,
    user_key: postrider.user.key,
    redirect_uri: REDIRECT,
    challenge: 'c'.repeat(43),
    resource: postrider.url,
  })
  const { count } = deps.store.first(raw<{ count: number }>('select count(*) as count from oauth_clients'))!
  const now = postrider.clock.now()
  await deps.store.write((tx) => {
    tx.run(raw('update oauth_clients set last_used_at = ?', [now]))
    tx.run(raw('update oauth_clients set last_used_at = ? where id in (?, ?)', [now - DAY, granted.id, first.id]))
    tx.run(
      raw(
        `insert into oauth_clients (id, name, redirect_uris, created_at, last_used_at)
         with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
         select 'flood-' || i, '', '[]', ?, ? from n`,
        [MAX_CLIENTS - count, now, now],
      ),
    )
  })
  const { body, status } = await register({ redirect_uris: [REDIRECT] })
  assert.equal(status, 201)
  assert.ok(clientById(deps.store, String(body['client_id'])))
  assert.equal(clientById(deps.store, first.id), undefined, 'the longest unused gave way')
  assert.ok(clientById(deps.store, granted.id), 'one that a person let in stays')

  assert.equal(await forgetClients(deps.store, now + 30 * DAY), 0)
  assert.ok((await forgetClients(deps.store, now + 31 * DAY)) >= MAX_CLIENTS - 1)
  assert.ok(clientById(deps.store, granted.id))
})

test('a client that disconnects during a request causes no internal error', async () => {
  const faults: string[] = []
  const own = await startTestAppliance({
    log: { ...silentLog, fault: (where) => (faults.push(where), 'id') },
  })
  const { port } = own.appliance.http
  for (const path of ['/oauth/register', '/oauth/token', '/oauth/authorize']) {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    const type = path.endsWith('register') ? 'application/json' : 'application/x-www-form-urlencoded'
    socket.write(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\nContent-Length: 100\r\n\r\n{}`)
    // The server has read it when it answers another request.
    await fetch(`http://127.0.0.1:${port}/health`)
    socket.destroy()
    await once(socket, 'close')
  }
  await fetch(`http://127.0.0.1:${port}/health`)
  await own.stop()
  assert.deepEqual(faults, [])
})
