// Tests the JSON requests that pages send by script: invalid bodies get a 4xx response, not an internal error.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())

const said = async (path: string, body: string): Promise<number> =>
  (await postrider.page(path, { method: 'POST', body })).status

test('rejects a body that is not a JSON object', async () => {
  for (const body of ['{', 'null', '[]', '7', '"a"', '\0', ' '.repeat(70_000)])
    for (const path of ['/sign-in/passkey', '/account/passkeys']) assert.equal(await said(path, body), 400, path + body)
})

test('rejects members of the wrong type', async () => {
  for (const response of ['a', 7, [], {}, { id: 7 }, { id: 'a', response: null }])
    assert.equal(await said('/sign-in/passkey', JSON.stringify({ response })), 403, JSON.stringify(response))
  for (const body of [{ proof: 7 }, { proof: {} }, { name: [] }])
    assert.equal(await said('/account/passkeys', JSON.stringify(body)), 403, JSON.stringify(body))
})

test('returns a challenge for an empty body', async () => {
  assert.equal(await said('/sign-in/passkey', ''), 200)
})
