// Revocation of tokens (RFC 7009): it takes effect immediately, and only for the client's own tokens.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findAccess } from '../../../src/users/oauth/grants.ts'
import { startTestAppliance } from '../../kit/appliance.ts'
import { letIn } from '../../kit/oauth-client.ts'
import { ofFile } from '../../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())

const post = (path: string, form: Record<string, string>) =>
  postrider.raw(path, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams(form).toString(),
  })
const revoke = (form: Record<string, string>) => post('/oauth/revoke', form)
const stands = (access: string): boolean =>
  findAccess(postrider.appliance.deps.store, access, postrider.clock.now()) !== undefined
const refresh = (client_id: string, refresh_token: string) =>
  post('/oauth/token', { grant_type: 'refresh_token', client_id, refresh_token })

test('revoking a refresh token revokes the whole grant', async () => {
  const { access_token, client, refresh_token } = await letIn(postrider, postrider.user)
  assert.ok(stands(access_token))
  const answer = await revoke({ token: refresh_token, token_type_hint: 'refresh_token', client_id: client.id })
  assert.deepEqual([answer.status, answer.body, answer.headers.get('cache-control')], [200, undefined, 'no-store'])
  assert.ok(!stands(access_token))
  assert.equal((await refresh(client.id, refresh_token)).body.error, 'invalid_grant')
})

test('revoking an access token revokes only this token', async () => {
  const { access_token, client, refresh_token } = await letIn(postrider, postrider.user)
  // A wrong hint does not matter (RFC 7009 §2.1).
  assert.equal(
    (await revoke({ token: access_token, token_type_hint: 'refresh_token', client_id: client.id })).status,
    200,
  )
  assert.ok(!stands(access_token))
  assert.equal((await refresh(client.id, refresh_token)).status, 200)
})

test('answers 200 for unknown and already revoked tokens', async () => {
  const { client, refresh_token } = await letIn(postrider, postrider.user)
  for (const token of ['nonsense', refresh_token, refresh_token])
    assert.equal((await revoke({ token, client_id: client.id })).status, 200)
})

test('only the client of a token can revoke it, and must be registered', async () => {
  const mine = await letIn(postrider, postrider.user)
  const theirs = await letIn(postrider, postrider.other)
  for (const token of [theirs.access_token, theirs.refresh_token]) {
    const answer = await revoke({ token, client_id: mine.client.id })
    assert.deepEqual([answer.status, answer.body.error], [400, 'invalid_grant'])
  }
  assert.ok(stands(theirs.access_token))
  const strange = await revoke({ token: theirs.access_token, client_id: 'nobody' })
  assert.deepEqual([strange.status, strange.body.error], [401, 'invalid_client'])
  assert.equal((await revoke({ token: theirs.access_token })).status, 401)
  assert.equal((await revoke({ client_id: mine.client.id })).body.error, 'invalid_request')
  assert.ok(stands(theirs.access_token))
})

test('the metadata names the endpoint, and a browser of any origin may use it', async () => {
  const { body } = await postrider.raw('/.well-known/oauth-authorization-server')
  assert.equal(body.revocation_endpoint, `${postrider.config.http.public_url}/oauth/revoke`)
  assert.deepEqual(body.revocation_endpoint_auth_methods_supported, ['none'])
  const preflight = await postrider.raw('/oauth/revoke', {
    method: 'OPTIONS',
    headers: { origin: 'https://page.example', 'access-control-request-method': 'POST' },
  })
  assert.equal(preflight.headers.get('access-control-allow-origin'), '*')
  assert.equal((await postrider.raw('/oauth/revoke')).status, 405)
})
