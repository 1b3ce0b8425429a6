// Files that run when they are opened, in every place and under every name in which an email client may find them (D28,
// D77): RFC 2045, RFC 2183, RFC 2231, RFC 6532.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { MalformedMessage, parseTree } from '../../src/message/mime-tree.ts'
import { programIn } from '../../src/message/programs.ts'
import { costingAtOnce } from '../kit/cost.ts'

const found = (text: string): string | undefined => {
  const message = Buffer.from(text.replace(/\r?\n/g, '\r\n'))
  return programIn(message, parseTree(message))
}
const mixed = (...parts: string[]): string =>
  `Content-Type: multipart/mixed; boundary=b\n\n--b\n\nHello\n${parts.map((part) => `--b\n${part}\n`).join('')}--b--\n`
const encoded = (text: string): string =>
  Buffer.from(text)
    .toString('base64')
    .replace(/.{1,76}/g, '$&\n')

const PROGRAM = 'MZ\x90\0\x03\0\0\0\x04'
const BY_NAME = 'Content-Type: text/plain; name="a.bat"\n\necho'

const REFUSED: Record<string, string> = {
  'a text with a name and no disposition': BY_NAME,
  'a text that is shown': 'Content-Type: text/plain\nContent-Disposition: inline; filename="a.bat"\n\necho',
  'a page': 'Content-Type: text/html; name=a.hta\n\n<script>',
  'an attachment': 'Content-Type: application/pdf\nContent-Disposition: attachment; filename=a.exe\n\nx',
  'two names, of which only one says it':
    'Content-Type: text/plain; name="a.txt"\nContent-Disposition: inline; filename=a.bat\n\nx',
  'the second of two parameters of that name':
    'Content-Disposition: attachment; filename="a.txt"; filename="a.exe"\n\nx',
  'the second of two fields': 'Content-Type: text/plain; name=a.txt\nContent-Type: text/plain; name=a.exe\n\nx',
  'a name in pieces (RFC 2231)': 'Content-Disposition: attachment; filename*0="a.e"; filename*1="xe"\n\nx',
  'pieces in another order': 'Content-Disposition: attachment; filename*1=xe;\n filename*0="a.e"\n\nx',
  'a name with a charset': "Content-Disposition: attachment; filename*=utf-8''a%2Eexe\n\nx",
  'pieces with a charset': "Content-Disposition: attachment; filename*0*=utf-8'en'%61.e; filename*1*=%78e\n\nx",
  'an encoded word': 'Content-Type: text/plain; name="=?utf-8?B?YS5leGU=?="\n\nx',
  'no semicolon before it': 'Content-Disposition: attachment filename="a.exe"\n\nx',
  'a comment behind it': 'Content-Type: text/plain; name=a.exe (mine)\n\nx',
  'white space around the equals sign': 'Content-Type: text/plain; NAME = "a.exe"\n\nx',
  'escapes in it': 'Content-Type: text/plain; name="a\\.e\\xe"\n\nx',
  'a message of that name': `Content-Type: message/rfc822; name=a.bat\n\nSubject: x\n\necho`,
  'a container of that name': 'Content-Type: multipart/mixed; boundary=c; name=a.exe\n\n--c\n\nx\n--c--',
  'inside a message': `Content-Type: message/rfc822\n\n${mixed(BY_NAME)}`,
  'inside a message in base64': `Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n${encoded(mixed(BY_NAME))}`,
  'inside a message in quoted-printable': `Content-Type: message/global\nContent-Transfer-Encoding: quoted-printable\n\n${BY_NAME.replaceAll('=', '=3D')}`,
  'octets in base64': `Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\n${encoded(PROGRAM)}`,
  'octets in base64 after many empty lines': `Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\n${'\n'.repeat(5000)}${encoded(PROGRAM)}`,
  'octets in quoted-printable after soft line breaks': `Content-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: quoted-printable\n\n${'=\n'.repeat(3000)}MZ=90=00`,
  'octets under the second of two encodings': `Content-Type: application/pdf\nContent-Transfer-Encoding: 7bit\nContent-Transfer-Encoding: base64\n\n${encoded(PROGRAM)}`,
  'octets without a name': `Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n${encoded(PROGRAM)}`,
  'octets that call themselves text': `Content-Type: text/plain\nContent-Transfer-Encoding: base64\n\n${encoded(PROGRAM)}`,
  'a script with a name': 'Content-Type: text/plain; name=notes.txt\n\n#!/bin/sh',
  'a script that is attached': 'Content-Type: text/plain\nContent-Disposition: attachment\n\n#!/bin/sh',
}

const WELCOME: Record<string, string> = {
  'a text': 'Content-Type: text/plain\n\nHello',
  'a text about a program': 'Content-Type: text/plain\n\nOpen a.exe, filename="a.exe"',
  'a text that begins as a program does': 'Content-Type: text/plain; charset=utf-8\n\nMZ Elektro GmbH, Rechnung',
  'a text that shows a script': 'Content-Type: text/plain\n\n#!/bin/sh\necho',
  'a document': 'Content-Type: application/pdf; name="invoice 3.pdf"\n\n%PDF-1.4',
  'a name with a word that is an ending elsewhere':
    'Content-Type: application/pdf; name="offers of shop.com today.pdf"\n\n%PDF-1.4',
  'a calendar': 'Content-Type: text/calendar; method=REQUEST; name="invite.ics"\n\nBEGIN:VCALENDAR',
  'a message': 'Content-Type: message/rfc822; name="Re: plans.eml"\n\nSubject: x\n\nHello',
}

describe('executables in a message', () => {
  for (const [what, part] of Object.entries(REFUSED)) {
    test(`rejects as a part: ${what}`, () => assert.notEqual(found(mixed(part)), undefined))
    test(`rejects alone: ${what}`, () => assert.notEqual(found(part), undefined))
  }
  for (const [what, part] of Object.entries(WELCOME))
    test(`accepts: ${what}`, () => assert.deepEqual([found(mixed(part)), found(part)], [undefined, undefined]))

  test('limits encoded messages within messages like others', () => {
    let message = BY_NAME
    for (let level = 0; level < 40; level++)
      message = `Content-Type: message/rfc822\nContent-Transfer-Encoding: quoted-printable\n\n${message.replaceAll('=', '=3D')}`
    assert.throws(() => found(message), MalformedMessage)
  })

  test('reads hostile names and headers fast', () => {
    for (const header of [
      `Content-Type: text/plain; ${'name="'.repeat(40_000)}`,
      `Content-Type: text/plain; name=${' '.repeat(200_000)}x`,
      `Content-Type: text/plain; name="${'\\"'.repeat(100_000)}`,
      `Content-Type: text/plain; ${'name*9999=a;'.repeat(20_000)}`,
      `Content-Type: text/plain; name=${'%41'.repeat(80_000)}`,
      `Content-Type: text/plain; name=${'('.repeat(200_000)}`,
    ])
      costingAtOnce(2000, () => found(`${header}\n\nx`))
    const spaces = Buffer.concat([
      Buffer.from('Content-Transfer-Encoding: base64\r\n\r\n'),
      Buffer.alloc(20 * 1024 * 1024, '\r\n'),
    ])
    costingAtOnce(4000, () => programIn(spaces, parseTree(spaces)))
  })
})
