// The body of usual messages is the same with and without the library (message/plain-body.ts).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readWhole } from '../../src/message/parse.ts'
import { plainBody } from '../../src/message/plain-body.ts'

const FROM = 'From: a@here.test\r\nSubject: x\r\n'
const page = '<p>Grüße &amp; more</p>\r\n'
const quoted = 'Gr=C3=BC=C3=9Fe =3D =\r\nmore\r\n'
const alternatives = (text: string, html: string, more = ''): string =>
  `${FROM}Content-Type: multipart/alternative; boundary="b=1"\r\n\r\n--b=1\r\n${text}\r\n--b=1\r\n${html}\r\n--b=1--\r\n${more}`
const plain = (body: string, fields = 'Content-Type: text/plain; charset=utf-8\r\n'): string => `${fields}\r\n${body}`
const html = (body: string, fields = 'Content-Type: text/html; charset="UTF-8"\r\n'): string => `${fields}\r\n${body}`
const encoded = (encoding: string, type = 'plain'): string =>
  `Content-Type: text/${type}; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n`

/** Forms that are read here. */
const USUAL: Record<string, string> = {
  'without a type': `${FROM}\r\nHello\r\n`,
  'with lines at both ends': `${FROM}\r\n\r\nHello\r\n\r\n\r\n`,
  'without a line end': `${FROM}\r\nHello`,
  'a text in UTF-8': `${FROM}${plain('Grüße\r\n')}`,
  'octets that are not UTF-8': `${FROM}${plain('\udc80Grüße\r\n')}`,
  'a page': `${FROM}${html(page)}`,
  'a text in quoted-printable': `${FROM}${plain(quoted, encoded('quoted-printable'))}`,
  'a page in base64': `${FROM}${html(Buffer.from(page).toString('base64'), encoded('base64', 'html'))}\r\n`,
  'an empty line and a page': alternatives(plain('\r\n'), html(page)),
  'a text and a page': alternatives(plain('Hello\r\n'), html(page)),
  'both encoded': alternatives(
    plain(quoted, encoded('quoted-printable')),
    html(Buffer.from(page.repeat(9)).toString('base64').replace(/.{76}/g, '$&\r\n'), encoded('BASE64', 'html')),
  ),
}

for (const [name, message] of Object.entries(USUAL))
  test(`${name}: the library reads the same`, async () => {
    const octets = Buffer.from(message)
    const { attachments, ...body } = await readWhole(octets)
    assert.deepEqual(plainBody(octets), body)
    assert.deepEqual(attachments, [])
  })

/** Forms that are left to the library. */
const UNUSUAL: Record<string, string> = {
  'another charset': `${FROM}${plain('x', 'Content-Type: text/plain; charset=iso-8859-1\r\n')}`,
  'flowed text': `${FROM}${plain('x', 'Content-Type: text/plain; format=flowed\r\n')}`,
  'without a body': `${FROM}\r\n`,
  'a text without octets and a page': alternatives(plain(''), html(page)),
  'two types': `${FROM}${plain('x', 'Content-Type: text/plain\r\nContent-Type: text/html\r\n')}`,
  'a type that is not a field': `${FROM}${plain('x', 'Content-Type text/html\r\n')}`,
  'a disposition': `${FROM}${plain('x', 'Content-Disposition: attachment\r\n')}`,
  'a disposition in a part': alternatives(plain('x', 'Content-Disposition: inline\r\n'), html(page)),
  'a page before the text': alternatives(html(page), plain('Hello')),
  'a third part': alternatives(plain('x'), `${html(page)}\r\n--b=1\r\n\r\nmore`),
  'text behind the last part': alternatives(plain('x'), html(page), 'more\r\n'),
  'a line that begins as the boundary does': alternatives(plain('x\r\n--b=12\r\ny'), html(page)),
  'white space at the end of a quoted line': `${FROM}${plain('x \r\ny', encoded('quoted-printable'))}`,
  'a lone equals sign': `${FROM}${plain('x=y', encoded('quoted-printable'))}`,
  'base64 with other characters': `${FROM}${plain('SGk*=', encoded('base64'))}`,
  'an encoding that is not known': `${FROM}${plain('x', encoded('x-uuencode'))}`,
  'a file': `${FROM}Content-Type: application/pdf\r\n\r\nx`,
  'parts that are mixed': alternatives(plain('x'), html(page)).replace('alternative', 'mixed'),
}

for (const [name, message] of Object.entries(UNUSUAL))
  test(`${name}: left to the library`, () => assert.equal(plainBody(Buffer.from(message)), undefined))
