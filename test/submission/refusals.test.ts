// The texts of SMTP replies: only ASCII (RFC 5321 §4.2), and no sentence loses a character that it needs.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { CODES, refuse, type Code } from '../../src/base/errors.ts'
import { readSubmitted, UnsendableHeader } from '../../src/message/submitted.ts'
import { replyTo, wordsOf } from '../../src/submission/senders.ts'

const source = (path: string): string => fileURLToPath(new URL(`../../src/${path}`, import.meta.url))

/** The texts of a file: its literals without its comments. */
function textsOf(path: string): string[] {
  const code = readFileSync(source(path), 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')
  return code.match(/'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`/g) ?? []
}

test('converts every text that can become an SMTP reply to ASCII, and keeps its meaning', () => {
  const folders = ['smtp', 'submission', 'inbound', 'suppressions', 'reputation', 'delivery', 'mail']
  const files = folders.flatMap((folder) =>
    readdirSync(source(folder), { recursive: true, encoding: 'utf8' })
      // The texts of pages are never a reply.
      .filter((name) => name.endsWith('.ts') && !name.startsWith('page'))
      .map((name) => `${folder}/${name}`),
  )
  const texts = [...files, 'message/submitted.ts', 'message/mime-tree.ts', 'message/file-type.ts'].flatMap(textsOf)
  const odd = texts.filter((text) => /[^\n\x20-\x7e]/.test(text))
  assert.ok(texts.length > 1000 && odd.length > 0)
  for (const text of odd) {
    const words = wordsOf(text.replace(/\s+/g, ' ').slice(0, 300))
    assert.match(words, /^[\x20-\x7e]*$/)
    assert.equal(words.split('?').length, text.slice(0, 300).split('?').length, text)
  }
})

test('texts that are sent without conversion are ASCII', () => {
  for (const file of [
    'smtp/session.ts',
    'smtp/listener.ts',
    'submission/senders.ts',
    'inbound/receive.ts',
    'inbound/recipients.ts',
  ])
    for (const text of textsOf(file)) assert.match(text, /^[\n\x20-\x7e]*$/, file)
})

test('turns every error code of the API into one ASCII reply line', () => {
  for (const code of Object.keys(CODES) as Code[]) {
    const { text } = replyTo(refuse(code, 'Grüße “quoted” – it’s as RFC 5322 §3.6 says…'))
    assert.match(text, /^\d\.\d\.\d Gr\?e "quoted" - it's as RFC 5322 section 3\.6 says\.\.\.$/)
  }
})

test('keeps the section number of an RFC in a reply', () => {
  assert.throws(
    () => readSubmitted(Buffer.from('From: a@b.test\r\nFrom: c@b.test\r\n')),
    (thrown: UnsendableHeader) => wordsOf(thrown.message).endsWith('(RFC 5322 section 3.6).'),
  )
})
