// The hash of a canonical body, against the canonical form made by patterns (RFC 6376 §3.4.4).
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { hashOfCanonical } from '../../src/message/body-hash.ts'

test('a body that is canonical already has the hash of its canonical form; any other has none here', () => {
  for (const body of ['a\r\n', 'a\r\n\r\n\r\n', 'a\r\nb c\r\n', '\r\na\r\n\r\nb\r\n\r\n', '.\r\n', 'a\r\n\r\n.\r\n']) {
    const canonical = `${body.replace(/(?:\r\n)+$/, '')}\r\n`
    assert.equal(hashOfCanonical(Buffer.from(body)), createHash('sha256').update(canonical).digest('base64'), body)
  }
  for (const body of ['', '\r\n', '\r\n\r\n', 'a', 'a\n', 'a\r', 'a \r\n', 'a  b\r\n', 'a\tb\r\n', 'ä\r\n', '\0\r\n'])
    assert.equal(hashOfCanonical(Buffer.from(body)), undefined, JSON.stringify(body))
})
