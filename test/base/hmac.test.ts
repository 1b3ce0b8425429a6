// HMAC-SHA-256 of short texts: the same octets as from Node's own, for any key and text.
import assert from 'node:assert/strict'
import { createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { HmacKey } from '../../src/base/hmac.ts'

test('is the same as of node:crypto, for keys and texts of every size', () => {
  for (const size of [0, 1, 32, 63, 64]) {
    const key = randomBytes(size)
    const mac = new HmacKey(key)
    for (const length of [0, 1, 55, 56, 64, 100, 1023, 1024, 1025, 5000]) {
      const octets = randomBytes(length)
      const theirs = (text: string | Uint8Array) => createHmac('sha256', key).update(text).digest()
      assert.equal(mac.of(octets, 'base64url'), theirs(octets).toString('base64url'))
      assert.equal(mac.of(octets, 'latin1'), theirs(octets).toString('latin1'))
      const text = 'ä€x'.repeat(length / 3)
      assert.equal(mac.of(text, 'base64url'), theirs(text).toString('base64url'))
    }
  }
  assert.throws(() => new HmacKey(Buffer.alloc(65)), RangeError)
})
