// Headers in ASCII for servers without SMTPUTF8: names and comments become encoded words, in linear time.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withAsciiHeader } from '../../src/message/relay.ts'
import { decoded } from '../../src/message/charset.ts'
import { costingAtOnce } from '../kit/cost.ts'

const FROM = 'From: a@here.test\r\n'

/** The header in ASCII, with its encoded words decoded again, or undefined if that is impossible. */
function shown(header: string): string | undefined {
  const octets = withAsciiHeader(Buffer.from(`${FROM}${header}\r\n\r\nx\r\n`))
  if (!octets) return undefined
  const text = octets.toString('latin1').slice(FROM.length, -7)
  assert.match(text, /^[\t\r\n -~]*$/)
  return decoded(text.replaceAll('\r\n', '')).replace(/ +/g, ' ')
}

test('encodes names and comments as encoded words, with any escapes in them', () => {
  assert.equal(shown('To: "Ä, \\"B\\"" <b@there.test>, c@there.test'), 'To: Ä, "B" <b@there.test>, c@there.test')
  assert.equal(shown('To: Ä <b@there.test> (ö \\( ü)'), 'To: Ä <b@there.test> (ö ( ü)')
  assert.equal(shown('To: Gr\\ü\u{1f4ee}n <b@there.test>'), 'To: Gr\\ü\u{1f4ee}n <b@there.test>')
})

test('a non-ASCII address has no ASCII form', () => {
  assert.equal(shown('To: B <ä@there.test>'), undefined)
  assert.equal(shown('To: ä@there.test'), undefined)
})

test('scans an unclosed quote or comment once', () => {
  for (const piece of ['\\"', '\\(', '"\\', '(\\', '<', '(a', '"a\\" '])
    for (const begin of ['"', '(', '<', ''])
      costingAtOnce(1000, () =>
        withAsciiHeader(Buffer.from(`${FROM}To: ä ${begin}${piece.repeat(60_000)}\r\n\r\nx\r\n`)),
      )
})
