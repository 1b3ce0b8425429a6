// Attacks on the OAuth server, each of which must fail.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { addClient, clientById, isRegistered, readRegistration } from '../../../src/users/oauth/clients.ts'
import { findAccess, grantCode } from '../../../src/users/oauth/grants.ts'
import { SignIns } from '../../../src/users/sign-in.ts'
import { setPassword } from '../../../src/users/users.ts'
import { startTestAppliance } from '../../kit/appliance.ts'
import { ofFile, setUp } from '../../kit/of-file.ts'

let clientId: string
const REDIRECT = 'http://localhost:1234/callback'
const VERIFIER = 'v'.repeat(43)
const CHALLENGE = createHash('sha256').update(VERIFIER).digest('base64url')

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  clientId = (await addClient(postrider.appliance.deps, { name: 'Test', redirectUris: [REDIRECT] }))!.id
  await setPassword(postrider.appliance.deps, postrider.user.email, 'a long enough password')
})

const code = (): Promise<string> =>
  grantCode(postrider.appliance.deps, {
    client: clientById(postrider.appliance.deps.store, clientId)!,
    user_key: postrider.user.key,
    redirect_uri: REDIRECT,
    challenge: CHALLENGE,
    resource: `${postrider.config.http.public_url}/mcp`,
  })
const token = (form: Record<string, string> | string) =>
  postrider.raw('/oauth/token', {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(form).toString(),
  })
const redeem = (given: string, more: Record<string, string> = {}) =>
  token({ grant_type: 'authorization_code', client_id: clientId, code: given, code_verifier: VERIFIER, ...more })

test('compares redirect URIs by origin, not by prefix', () => {
  const allowed = { origins: ['https://good.example', 'http://127.0.0.1'], addresses: [] }
  const bad = `https://good.example.evil.test/ https://good.example@evil.test/ https://@good.example/ https:good.example/
    https://good.example:444/ https://good.example./ https://good.example/# https://good.example\\@evil.test/ javascript:alert(1)
    https://good.example/* http://good.example/ http://localhost/ data:text/html,x https://göod.example/ //good.example/`
  for (const uri of bad.split(/\s+/))
    assert.ok('error' in readRegistration({ redirect_uris: [uri] }, allowed), `${uri} was allowed`)
  for (const uri of ['https://good.example/cb', 'http://127.0.0.1:9/cb', 'https://good.example?x=1'])
    assert.ok('name' in readRegistration({ redirect_uris: [uri] }, allowed), `${uri} was refused`)
})

test('ignores only the port of loopback redirect URIs', () => {
  const client = { redirect_uris: JSON.stringify(['http://127.0.0.1:1/cb', 'https://good.example/cb']) }
  for (const uri of ['http://127.0.0.1:1/cb', 'http://127.0.0.1:65000/cb', 'http://127.0.0.1/cb'])
    assert.ok(isRegistered(client, uri), uri)
  const bad = `http://127.0.0.1:2/cb# http://127.0.0.1:2\\cb http://:pw@127.0.0.1:2/cb http://127.0.0.1:2/x/../cb
    http://2130706433:2/cb http://localhost:2/cb http://127.0.0.1:2/cb? http://127.0.0.1:2/CB https://good.example:2/cb`
  for (const uri of bad.split(/\s+/)) assert.ok(!isRegistered(client, uri), `${uri} was taken`)
})

test('redeems a code once, and revokes its tokens if it is redeemed again', async () => {
  const given = await code()
  const answers = await Promise.all(Array.from({ length: 20 }, () => redeem(given)))
  const won = answers.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  for (const { body, headers, status } of answers) {
    if (status !== 200) assert.equal(body.error, 'invalid_grant')
    assert.equal(headers.get('cache-control'), 'no-store')
  }
  const { deps } = postrider.appliance
  assert.equal(findAccess(deps.store, won[0]!.body.access_token, deps.clock.now()), undefined)
})

test('a code is bound to its verifier, redirect URI and resource, and expires after 60 seconds', async () => {
  const given = await code()
  for (const code_verifier of ['', 'x'.repeat(43), 'v'.repeat(42), 'v'.repeat(129)])
    assert.equal((await redeem(given, { code_verifier })).body.error, 'invalid_grant')
  assert.equal((await redeem(given, { redirect_uri: 'http://localhost:1/other' })).body.error, 'invalid_grant')
  assert.equal((await redeem(given, { resource: 'https://evil.test/' })).body.error, 'invalid_target')
  postrider.clock.leap(60_000)
  assert.equal((await redeem(given)).body.error, 'invalid_grant')
})

test('a reused refresh token revokes the whole grant', async () => {
  const first = (await redeem(await code())).body
  const refresh = (refresh_token: string) => token({ grant_type: 'refresh_token', client_id: clientId, refresh_token })
  const second = (await refresh(first.refresh_token)).body
  assert.equal((await refresh(first.refresh_token)).body.error, 'invalid_grant')
  assert.equal((await refresh(second.refresh_token)).body.error, 'invalid_grant')
})

test('of ten concurrent refreshes one succeeds, and the others revoke the grant', async () => {
  const { access_token, refresh_token } = (await redeem(await code())).body
  const refresh = () => token({ grant_type: 'refresh_token', client_id: clientId, refresh_token })
  const answers = await Promise.all(Array.from({ length: 10 }, refresh))
  const won = answers.filter(({ status }) => status === 200)
  assert.equal(won.length, 1)
  for (const { body, status } of answers) if (status !== 200) assert.equal(body.error, 'invalid_grant')
  const { deps } = postrider.appliance
  for (const access of [access_token, won[0]!.body.access_token])
    assert.equal(findAccess(deps.store, access, deps.clock.now()), undefined)
  const after_ = { grant_type: 'refresh_token', client_id: clientId, refresh_token: won[0]!.body.refresh_token }
  assert.equal((await token(after_)).body.error, 'invalid_grant')
})

test('rejects codes and tokens of another client, kind or resource, and leaves them valid', async () => {
  const { deps } = postrider.appliance
  const otherClient = (await addClient(deps, { name: 'Stranger', redirectUris: [REDIRECT] }))!.id
  const given = await code()
  assert.equal((await redeem(given, { client_id: otherClient })).body.error, 'invalid_grant')
  const { body } = await redeem(given)
  assert.deepEqual([body.token_type, body.scope, body.expires_in], ['Bearer', 'mcp:use', 3600])
  const refresh = (more: Record<string, string>) =>
    token({ grant_type: 'refresh_token', client_id: clientId, refresh_token: body.refresh_token, ...more })
  for (const [more, error] of [
    [{ client_id: otherClient }, 'invalid_grant'],
    [{ refresh_token: body.access_token }, 'invalid_grant'],
    [{ refresh_token: 'rubbish' }, 'invalid_grant'],
    [{ refresh_token: '' }, 'invalid_request'],
    [{ resource: postrider.config.http.public_url }, 'invalid_target'],
    [{ resource: 'https://evil.test/mcp' }, 'invalid_target'],
    [{ scope: 'mcp:use emails:send' }, 'invalid_scope'],
  ] as [Record<string, string>, string][])
    assert.equal((await refresh(more)).body.error, error, JSON.stringify(more))
  assert.equal(findAccess(deps.store, body.refresh_token, deps.clock.now()), undefined, 'no access by a refresh token')
  assert.ok(findAccess(deps.store, body.access_token, deps.clock.now()))
  assert.equal((await refresh({ scope: 'mcp:use' })).status, 200)
})

test('rejects malformed token requests', async () => {
  const unknown = await redeem('x', { client_id: 'nobody' })
  assert.deepEqual([unknown.status, unknown.body.error], [401, 'invalid_client'])
  assert.equal(unknown.headers.get('www-authenticate'), 'Bearer')
  const fine = `grant_type=authorization_code&client_id=${clientId}&code=x&code_verifier=${VERIFIER}`
  for (const [body, error] of [
    ['', 'invalid_request'],
    ['grant_type=', 'invalid_request'],
    ['grant_type=password', 'unsupported_grant_type'],
    ['grant_type=client_credentials', 'unsupported_grant_type'],
    ['grant_type=urn:ietf:params:oauth:grant-type:device_code', 'unsupported_grant_type'],
    ['grant_type=refresh_token&grant_type=refresh_token', 'invalid_request'],
    [`${fine}&code=x`, 'invalid_request'],
    [`${fine}&unknown=1&unknown=2`, 'invalid_request'],
    [fine.replace('code=x&', ''), 'invalid_request'],
    [fine, 'invalid_grant'],
    [`${fine}&resource=http://a.test/`, 'invalid_target'],
  ] as const) {
    const answer = await token(body)
    assert.deepEqual([answer.status, answer.body.error], [400, error], body)
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.match(answer.headers.get('content-type')!, /^application\/json/)
    assert.ok(answer.body.error_description)
  }
  const post = (type: string, body: string) =>
    postrider.raw('/oauth/token', { method: 'POST', headers: { 'content-type': type }, body })
  assert.equal((await post('application/json', JSON.stringify({ grant_type: 'refresh_token' }))).status, 400)
  assert.equal((await post('application/x-www-form-urlencoded', `a=${'x'.repeat(17_000)}`)).status, 413)
})

const asking = (more: Record<string, string> = {}): string =>
  new URLSearchParams({
    client_id: clientId,
    redirect_uri: REDIRECT,
    response_type: 'code',
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'st',
    ...more,
  }).toString()

test('redirects errors only to known clients and redirect URIs', async () => {
  for (const query of [
    asking({ client_id: 'x' }),
    asking({ redirect_uri: 'https://evil.test/' }),
    `${asking()}&client_id=x`,
  ]) {
    const { headers, status } = await postrider.raw(`/oauth/authorize?${query}`)
    assert.deepEqual([status, headers.get('location')], [400, null])
  }
  const without = (name: string): string => asking().replace(new RegExp(`&?${name}=[^&]*`), '')
  for (const [query, error] of [
    [asking({ code_challenge_method: 'plain' }), 'invalid_request'],
    [without('code_challenge_method'), 'invalid_request'],
    [without('code_challenge'), 'invalid_request'],
    [asking({ code_challenge: VERIFIER.slice(1) }), 'invalid_request'],
    [without('response_type'), 'invalid_request'],
    [asking({ response_type: 'token' }), 'unsupported_response_type'],
    [asking({ scope: 'mcp:use tokens:write' }), 'invalid_scope'],
    [asking({ resource: 'https://evil.test/mcp' }), 'invalid_target'],
    [`${asking()}&scope=mcp:use&scope=mcp:use`, 'invalid_request'],
  ] as const) {
    const { headers, status } = await postrider.raw(`/oauth/authorize?${query}`)
    assert.equal(status, 303, query)
    const { searchParams } = new URL(headers.get('location')!)
    assert.deepEqual(
      [searchParams.get('error'), searchParams.get('state'), searchParams.get('iss'), searchParams.get('code')],
      [error, 'st', postrider.config.http.public_url, null],
      query,
    )
  }
})

test('the proof of a form is not accepted as a session cookie', async () => {
  const query = asking()
  const first = await postrider.raw(`/oauth/authorize?${query}`)
  const proof = /name="proof" value="([^"]*)"/.exec(first.body)![1]!
  const cookie = `postrider_session=${encodeURIComponent(`form nobody ${query}`)}.${proof}`
  const { body, status } = await postrider.raw(`/oauth/authorize?${query}`, { headers: { cookie } })
  assert.equal(status, 200)
  assert.match(body, /name="password"/)
})

test('signing in to an own account does not reset the guesses against others', async () => {
  const signIns = new SignIns(postrider.appliance.deps)
  let refused = false
  for (let i = 0; i < 6 && !refused; i++) {
    refused = typeof (await signIns.try(`x${i}@other.test`, 'wrong', '192.0.2.1')) === 'object'
    await signIns.try(postrider.user.email, 'a long enough password', '192.0.2.1')
  }
  assert.ok(refused)
})

test('a personal token gets 403 on /mcp until it expires, then 401', async () => {
  const ask = () =>
    postrider.raw('/mcp', { method: 'POST', headers: { authorization: `Bearer ${postrider.token}` }, body: '{}' })
  assert.equal((await ask()).status, 403)
  postrider.clock.leap(400 * 86_400_000)
  assert.equal((await ask()).status, 401)
})
