// Records as lines of a zone file, and as the fields of DNS providers.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { partsOf, typeOf, zoneFile, zoneLine } from '../../src/domains/zone-lines.ts'

test('each record has its type, and an MX record has a separate priority', () => {
  const types = (['DKIM', 'SPF', 'DMARC', 'MAIL_FROM_MX', 'INBOUND_MX', 'TRACKING'] as const).map((record_type) =>
    typeOf({ record_type }),
  )
  assert.deepEqual(types, ['TXT', 'TXT', 'TXT', 'MX', 'MX', 'CNAME'])
  assert.deepEqual(partsOf({ record_type: 'INBOUND_MX', value: '10 mx.here.test' }), {
    priority: '10',
    value: 'mx.here.test',
  })
  assert.deepEqual(partsOf({ record_type: 'SPF', value: '10 of them' }), { priority: undefined, value: '10 of them' })
})

test('splits long texts into strings of at most 255 bytes, and escapes quotes and backslashes (RFC 1035 §3.3, §5.1)', () => {
  const line = zoneLine({ name: 'a.test', ttl: 60, type: 'TXT', value: `${'k'.repeat(300)}"\\` })
  assert.equal(line, `a.test. 60 IN TXT "${'k'.repeat(255)}" "${'k'.repeat(45)}\\"\\\\"`)
  assert.equal(
    zoneFile([
      { record_type: 'MAIL_FROM_MX', name: 'bounce.a.test', ttl: 60, value: '10 mx.a.test' },
      { record_type: 'TRACKING', name: 'links.a.test', ttl: 60, value: 'mx.a.test' },
    ]),
    'bounce.a.test. 60 IN MX 10 mx.a.test.\nlinks.a.test. 60 IN CNAME mx.a.test.',
  )
})
