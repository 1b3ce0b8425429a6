// Answers of a CA are checked before they are used. An invalid one counts as no answer, and is requested again later.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AcmeClient } from '../../src/acme/client.ts'
import { isAuthorization, isDirectory, isOrder, isRenewal, jsonOf, problemOf } from '../../src/acme/documents.ts'
import { NoAnswer, type CaAnswer } from '../../src/acme/http.ts'
import { ManualClock } from '../kit/clock.ts'

const answer = (value: unknown): CaAnswer => ({ status: 200, headers: {}, text: JSON.stringify(value) })

const AT = 'https://ca.test/a'
const DIRECTORY = { newNonce: AT, newAccount: AT, newOrder: AT }
const ORDER = { status: 'pending', authorizations: [AT], finalize: AT }
const CHALLENGE = { type: 'http-01', url: AT, token: 'a-_Z9', status: 'pending' }

test('reads the objects of RFC 8555, treats null as absent, and ignores other members', () => {
  assert.ok(isDirectory(jsonOf(answer({ ...DIRECTORY, meta: { website: 1 }, renewalInfo: null }))))
  assert.ok(isOrder(jsonOf(answer({ ...ORDER, certificate: null, expires: '2026-01-01T00:00:00Z' }))))
  assert.ok(isOrder(jsonOf(answer({ ...ORDER, status: 'invalid', error: { type: 'a', detail: 'b', status: 400 } }))))
  assert.ok(
    isAuthorization(jsonOf(answer({ status: 'pending', challenges: [CHALLENGE, { type: 'device-attest-01' }] }))),
  )
  assert.ok(isRenewal(jsonOf(answer({}))))
  assert.deepEqual(problemOf(answer({ type: 'a' })), { type: 'a' })
})

test('rejects objects of another form', () => {
  for (const value of [null, [], 1, 'a', {}]) {
    for (const is of [isDirectory, isOrder, isAuthorization]) assert.equal(is(jsonOf(answer(value))), false)
  }
  assert.equal(isDirectory({ ...DIRECTORY, newNonce: 'http://ca.test' }), false)
  assert.equal(isOrder({ ...ORDER, authorizations: 'https://ca.test' }), false)
  assert.equal(isOrder({ ...ORDER, finalize: 'https://' }), false)
  assert.equal(isOrder({ ...ORDER, error: 'no' }), false)
  for (const token of ['', '../a', 'a b', 'ä', undefined])
    assert.equal(isAuthorization({ status: 'pending', challenges: [{ ...CHALLENGE, token }] }), false, String(token))
  assert.equal(isAuthorization({ status: 'pending', challenges: [null] }), false)
  assert.equal(isRenewal({ suggestedWindow: { start: 1 } }), false)
  assert.equal(jsonOf({ status: 200, headers: {}, text: '{' }), undefined)
  assert.equal(problemOf(answer({ detail: {} })), undefined)
})

test('rejects a directory, an account or a renewal time of another form', async () => {
  const said: Record<string, CaAnswer> = {}
  const client = () =>
    new AcmeClient({
      directory: 'https://ca.test/directory',
      email: '',
      fetch: async (url) => said[new URL(url).pathname] ?? { status: 200, headers: { 'replay-nonce': 'n' }, text: '' },
      clock: new ManualClock(),
    })
  said['/directory'] = answer({ ...DIRECTORY, newOrder: 7 })
  await assert.rejects(client().account(), NoAnswer)
  said['/directory'] = answer({ ...DIRECTORY, renewalInfo: 'https://ca.test/renewal' })
  said['/a'] = { status: 201, headers: { 'replay-nonce': 'n', location: 'nowhere' }, text: '{}' }
  await assert.rejects(client().account(), NoAnswer)
  said['/renewal/x'] = answer({ suggestedWindow: 'now' })
  await assert.rejects(client().renewalWindow('x'), NoAnswer)
})
