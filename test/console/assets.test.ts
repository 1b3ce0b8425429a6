// What the pages load comes from this server alone (README).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeAsset } from '../../src/console/assets.ts'

test('the reference of the API asks no other host: its library has no address of a logo', async () => {
  const script = Buffer.from((await makeAsset('docs.js')).octets).toString()
  assert.doesNotMatch(script, /src:"https?:/)
  assert.doesNotMatch(script, /cdn\.redoc\.ly/)
})
