// The hash of a canonical body, compared with canonicalisation by patterns (RFC 6376 §3.4.4).
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { hashOfCanonical } from '../../src/message/dkim.ts'

test('returns the hash of a canonical body, and undefined for any other', () => {
  for (const body of ['a\r\n', 'a\r\n\r\n\r\n', 'a\r\nb c\r\n', '\r\na\r\n\r\nb\r\n\r\n', '.\r\n', 'a\r\n\r\n.\r\n']) {
    const canonical = `${body.replace(/(?:\r\n)+$/, '')}\r\n`
    assert.equal(hashOfCanonical(Buffer.from(body)), createHash('sha256').update(canonical).digest('base64'), body)
  }
  for (const body of ['', '\r\n', '\r\n\r\n', 'a', 'a\n', 'a\r', 'a \r\n', 'a  b\r\n', 'a\tb\r\n', 'ä\r\n', '\0\r\n'])
    assert.equal(hashOfCanonical(Buffer.from(body)), undefined, JSON.stringify(body))
})
