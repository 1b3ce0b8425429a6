// A body as a file in the spool (message/stored-body.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { WrittenBody } from '../../src/message/stored-body.ts'
import { readBody, writeBody } from '../../src/message/stored-body.ts'

const page = `<p title="a">\\ one</p>\r\n\n`.repeat(3000)
const file = { filename: 'a.txt', contentType: 'text/plain', contentId: null, disposition: 'attachment' as const }

for (const [what, body] of [
  ['ASCII', { html: page, text: 'Hello\n' }],
  ['no text', { html: page, text: null }],
  ['an empty page', { html: '', text: page }],
  ['octets of several lengths', { html: `${page}Grüße 🐎\u2028`, text: 'é' }],
  ['half a character, which UTF-8 cannot hold', { html: `${page}\ud83d`, text: 'after' }],
  ['a NUL', { html: `\0${page}`, text: '\0' }],
  [
    'fields and files',
    { html: page, text: 'a', headers: [['X-A', '\n']], attachments: [{ ...file, size: 1, content: { file: 'b' } }] },
  ],
] as [string, WrittenBody][])
  test(`a body with ${what} is read back unchanged`, () => assert.deepEqual(readBody(writeBody(body)), body))

test('stores texts unencoded after one line, each byte once', () => {
  const octets = writeBody({ html: page, text: 'Grüße' })
  assert.ok(octets.toString().endsWith(`}\n${page}Grüße`))
  assert.ok(octets.length < page.length + 100)
})

test('reads a file of an earlier version with the texts in JSON', () => {
  const body = { html: page, text: null, headers: [], attachments: [] }
  assert.deepEqual(readBody(Buffer.from(JSON.stringify(body))), body)
})

test('rejects a truncated or foreign file', () => {
  const octets = writeBody({ html: page, text: 'Hello' })
  for (const cut of [octets.subarray(0, -1), octets.subarray(0, 20), Buffer.alloc(0), Buffer.from('<html>\n')])
    assert.throws(() => readBody(cut))
})
