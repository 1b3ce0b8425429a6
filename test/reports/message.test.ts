// The report in a message is found only by its bytes.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { dmarc, gzip, mail, multipart, part, TIMES, tls, zip } from './written.ts'
import { readReport } from './whole.ts'

/** The id of the report that is read, or why it is refused. */
function said(bytes: Buffer): string {
  const reading = readReport(bytes, TIMES)
  return reading.outcome === 'read' ? reading.report.reportId : reading.why
}

const xml = dmarc()
const json = JSON.stringify(tls())
const text = part('Here is the report.\r\n', '7bit', 'Content-Type: text/plain')
const named = (id: string): string => dmarc({ id: `<report_id>${id}</report_id>` })

describe('finds the report in a message', () => {
  test('as the only part, in every encoding and with any media type', () => {
    for (const encoding of ['base64', 'quoted-printable', '7bit', '8bit', 'binary'])
      for (const content of [xml, json]) assert.equal(said(mail(part(content, encoding))), 'one', encoding)
    for (const encoding of ['base64', 'quoted-printable', 'binary'])
      for (const content of [gzip(xml), zip([{ content: xml }]), gzip(json)])
        assert.equal(said(mail(part(content, encoding))), 'one', encoding)
    for (const type of ['text/plain', 'application/zip; name=a.exe', 'image/png', 'nonsense', 'application/gzip'])
      assert.equal(said(mail(part(gzip(xml), 'base64', `Content-Type: ${type}`))), 'one', type)
  })

  test('nested, inline, and in an attached message', () => {
    assert.equal(said(multipart([text, part(gzip(xml))], 9)), 'one')
    const inline = 'Content-Type: text/xml\r\nContent-Disposition: inline'
    assert.equal(said(multipart([part(xml, '7bit', inline)])), 'one')
    const forwarded = Buffer.concat([Buffer.from('Content-Type: message/rfc822\r\n\r\n'), multipart([part(gzip(xml))])])
    assert.equal(said(multipart([text, forwarded])), 'one')
  })

  test('and uses the first of several', () => {
    assert.equal(said(multipart([text, part(gzip(named('first'))), part(gzip(named('second')))])), 'first')
    // It is a report although it is rejected, so the second is not read.
    assert.equal(said(multipart([part(named('')), part(named('second'))])), 'no_id')
  })

  test('and skips parts that only look like a report', () => {
    const page = part('<!DOCTYPE html><html><body><br>Your feedback</p></html>', '8bit', 'Content-Type: text/html')
    const braces = part('{name}, here is the report', '7bit')
    const photos = part(
      zip([
        { name: 'a', content: 'a' },
        { name: 'b', content: 'b' },
      ]),
    )
    assert.equal(said(multipart([page, braces, photos, part(gzip(xml))])), 'one')
    assert.equal(said(multipart([page])), 'doctype')
    assert.equal(said(multipart([text, photos])), 'archive')
    assert.equal(said(multipart([part('<p>Hello</p>', '7bit')])), 'not_a_report')
  })

  test('and rejects a message without a report as no_report', () => {
    assert.equal(said(multipart([text])), 'no_report')
    assert.equal(said(Buffer.from('Subject: nothing\r\n\r\n')), 'no_report')
    const deep = multipart([part(xml)], 40)
    assert.equal(said(deep), 'malformed')
  })

  test('and ignores a signature below the base64 and line ends in it', () => {
    const encoded = part(gzip(xml)).toString('latin1')
    assert.equal(
      said(mail(Buffer.from(`${encoded.replace(/=*$/, '==')}\r\n--\r\nA mailing list\r\n`, 'latin1'))),
      'one',
    )
    assert.equal(said(mail(Buffer.from(encoded.replaceAll('\r\n', '\n'), 'latin1'))), 'one')
  })
})

describe('a file', () => {
  test('can be a report, an archive or a message', () => {
    for (const bytes of [
      Buffer.from(xml),
      Buffer.from(`\r\n ${xml}`),
      gzip(xml),
      zip([{ content: xml }]),
      Buffer.from(json),
    ])
      assert.equal(said(bytes), 'one')
    assert.equal(said(Buffer.from(`From a@b.test Mon Sep 21 00:00:00 2026\n${mail(part(xml)).toString()}`)), 'one')
  })

  test('with other content is rejected', () => {
    for (const content of ['', ' ', 'text', '<', '<html></html>', '[]', '{}', '"a"', 'null', '\0', '\u{1f4e7}'])
      for (const bytes of [Buffer.from(content), gzip(content), zip([{ content }])])
        assert.ok(['not_a_report', 'malformed'].includes(said(bytes)), content)
  })
})

test('rejects a part that decodes to more than the limit', () => {
  const large = dmarc({ behind: ' '.repeat(LIMITS.unpacked) })
  for (const encoding of ['base64', 'quoted-printable', '7bit'])
    assert.equal(said(mail(part(large, encoding))), 'too_large', encoding)
  const archive = zip([{ content: Buffer.alloc(LIMITS.archive), method: 0 }])
  assert.equal(said(mail(part(archive))), 'too_large')
  assert.equal(said(archive), 'too_large')
})
