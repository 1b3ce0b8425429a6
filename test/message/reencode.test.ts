// Changing the transfer encoding of parts, and the reasons why some cannot be changed (RFC 2045 §6.4, RFC 1847).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inSevenBits, octetOf, reasonOf, withShortLines, type Fixed } from '../../src/message/reencode.ts'

const message = (header: string, body: string): Buffer => Buffer.from(`${header}\r\n\r\n${body}\r\n`)

for (const [reason, header, body] of [
  ['signed', 'Content-Type: multipart/signed; boundary=b', '--b\r\n\r\nGrüße\r\n--b--'],
  ['unreadable', 'Content-Type: multipart/mixed; boundary=b', '--b\r\n\r\nGrüße\r\n'.repeat(600)],
  ['whole', 'Content-Type: multipart/mixed', 'Grüße'],
  ['whole', 'Content-Type: message/delivery-status', 'Reporting-MTA: dns; grüße.test'],
] as const)
  test(`not in 7 bits: ${header} is ${reason}`, () => {
    assert.equal(inSevenBits(message(header, body)), reason)
    assert.equal(withShortLines(message(header, body + 'x'.repeat(2000))), undefined)
  })

test('a worker returns a reason unchanged, and never mistakes an email for one', () => {
  for (const reason of ['signed', 'unreadable', 'whole'] satisfies Fixed[])
    assert.equal(reasonOf(octetOf(reason)), reason)
  assert.equal(reasonOf(Buffer.from('.\r\n')), undefined)
})

test('refolds quoted-printable with long lines, with the same bytes', () => {
  const header = 'Content-Transfer-Encoding: quoted-printable'
  const text = withShortLines(message(header, `${'=C3=BC = '.repeat(300)}x=0D=0Ay=\r\nz`))!.toString('latin1')
  assert.ok(text.split('\r\n').every((line) => line.length <= 76))
  const body = text.slice(text.indexOf('\r\n\r\n') + 4).replaceAll('=\r\n', '')
  assert.equal(body, `${'=C3=BC =3D '.repeat(300)}x\r\nyz\r\n`)
})
