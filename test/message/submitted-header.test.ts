// Empty or invalid fields of submitted messages (RFC 6409 §8.2, §8.3, D227): the sending device cannot be changed, and
// receiving servers reject such fields.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSubmitted } from '../../src/message/submitted.ts'

const NOW = Date.parse('2026-11-28T09:11:12Z')
const OURS = '<ours@here.test>'

/** The values of a field in the header that is sent on. */
function sent(lines: string[], name: string): string[] {
  const header = readSubmitted(Buffer.from([...lines, 'From: App <app@here.test>', ''].join('\r\n')))
  const edited = header.edited({ messageId: header.messageId ?? OURS, now: NOW })
  const pattern = new RegExp(`^${name}:(.*(?:\\r\\n[ \\t].*)*)\\r\\n`, 'gim')
  return Array.from(edited.matchAll(pattern), ([, value = '']) => value.replaceAll('\r\n', '').trim())
}

test('keeps one valid Message-ID, and replaces an empty or invalid one', () => {
  for (const id of [
    '<a@here.test>',
    '<a..b$c@host>',
    '<a@[192.0.2.1]>',
    '\r\n <a@here.test>',
    '<a@here.test> (scanner)',
    '(x) <a@here.test>',
  ])
    assert.deepEqual(sent([`Message-ID: ${id}`], 'Message-ID'), [id.replace('\r\n', '').trim()])
  for (const id of [
    '',
    '  ',
    '20261128101112.77@scanner',
    '<20261128.x@>',
    '<@here.test>',
    '<x>',
    '<>',
    '<a b@here.test>',
    '<a@b@here.test>',
    '<a@here.test',
    '<a@here.test.>',
    '<a@here.test> <b@here.test>',
    '<a@here.test>x',
    `<${'a'.repeat(900)}@here.test>`,
  ])
    assert.deepEqual(sent([`Message-ID: ${id}`], 'Message-ID'), [OURS], id)
  assert.deepEqual(sent([], 'Message-ID'), [OURS])
})

test('keeps one readable Date, and replaces an empty or unreadable one', () => {
  for (const date of [
    'Sat, 28 Nov 2026 10:11:12 +0100',
    '28 Nov 2026 10:11 GMT',
    'Sat, 8 Nov 26 10:11:12 +0100 (CET)',
    'sat,28 nov 2026 10:11:60 -0000',
  ])
    assert.deepEqual(sent([`Date: ${date}`], 'Date'), [date])
  for (const date of [
    '',
    '2026-11-28T10:11:12Z',
    'sam. 28 nov. 2026 10:11:12',
    'yesterday',
    'Thu, 32 Foo 2026 10:11:12 +0100',
    'Sat, 28 Nov 2026 25:11:12 +0100',
    'Sat, 28 Nov 2026 10:11:12',
  ])
    assert.deepEqual(sent([`Date: ${date}`], 'Date'), ['Sat, 28 Nov 2026 09:11:12 +0000'], date)
  const twice = ['Date: Sat, 28 Nov 2026 10:11:12 +0100', 'Date: Sat, 28 Nov 2026 10:11:13 +0100']
  assert.deepEqual(sent(twice, 'Date'), ['Sat, 28 Nov 2026 09:11:12 +0000'])
})

test('sends a field that occurs once a single time if it is repeated with the same value', () => {
  for (const line of [
    'Message-ID: <a@here.test>',
    'Date: Sat, 28 Nov 2026 10:11:12 +0100',
    'Subject: Scan',
    'To: b@there.test',
  ]) {
    const [name = '', value = ''] = line.split(/: (.*)/)
    assert.deepEqual(sent([line, 'X-Other: x', line.replace(name, name.toUpperCase())], name), [value])
  }
  assert.deepEqual(sent(['From: App <app@here.test>'], 'From'), ['App <app@here.test>'])
  assert.deepEqual(sent(['Received: from a', 'Received: from a'], 'Received'), ['from a', 'from a'])
})

test('replaces several different Message-IDs', () => {
  assert.deepEqual(sent(['Message-ID: <a@here.test>', 'Message-ID: <b@here.test>'], 'Message-ID'), [OURS])
})

test('leaves out empty fields that must have a value', () => {
  for (const name of ['To', 'Cc', 'Reply-To', 'Sender', 'References', 'In-Reply-To', 'Content-Type'])
    assert.deepEqual(sent([`${name}: `], name), [], name)
  assert.deepEqual(sent(['MIME-Version:'], 'MIME-Version'), ['1.0'])
  assert.deepEqual(sent(['Subject: '], 'Subject'), [''])
})

test('keeps fields whose names are inherited property names', () => {
  for (const name of ['Constructor', '__proto__', 'toString', 'valueOf'])
    assert.deepEqual(sent([`${name}: x`, `${name}: y`], name), ['x', 'y'], name)
})
