// Parsers of mail that came: structure, header, body, reports, verdicts.
import { authenticate } from 'mailauth'
import { isProven } from '../../src/inbound/judge.ts'
import { parseAddress } from '../../src/message/address.ts'
import { withoutForged, withoutForgedField } from '../../src/message/authentication.ts'
import { evidenceOf } from '../../src/message/evidence.ts'
import { refusalOf, typeOf } from '../../src/message/file-type.ts'
import { MalformedMessage, parseFields, parseParameters, parseTree } from '../../src/message/mime-tree.ts'
import { decoded, pageIn, textIn } from '../../src/message/charset.ts'
import { mailboxesOf, shownMailbox } from '../../src/message/mailboxes.ts'
import { attachmentOf, parseBody, parseHeader } from '../../src/message/parse.ts'
import { decodeTransfer, transferEncodingOf } from '../../src/message/transfer.ts'
import { programIn } from '../../src/message/programs.ts'
import { readReport } from '../../src/message/report.ts'
import { names } from '../../src/store/erasing.ts'
import { around, bombs, both, of, text, type Parser } from './parser.ts'

export const malformed = (thrown: unknown): boolean => thrown instanceof MalformedMessage

const nowhere = async (): Promise<never> => {
  throw Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' })
}

async function judge(bytes: Buffer, records: typeof nowhere | (() => Promise<string[][]>) = nowhere): Promise<boolean> {
  const end = bytes.indexOf('\r\n\r\n')
  const header = evidenceOf(text(end < 0 ? bytes : bytes.subarray(0, end + 2))).header
  const body = end < 0 ? '' : text(bytes.subarray(end + 4))
  const result = await authenticate(Buffer.from(`${header}\r\n${body}`, 'latin1'), {
    ip: '192.0.2.1',
    helo: 'there.test',
    sender: 'ann@there.test',
    mta: 'mx.test',
    resolver: records,
    disableBimi: true,
    strict: true,
  })
  return isProven(result)
}

const HEAD = 'From: a@there.test\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n'

/** The body, and each of its files. */
function whole(bytes: Buffer): unknown {
  const tree = parseTree(bytes)
  const { attachments } = parseBody(bytes, tree)
  return attachments.map((each) => attachmentOf(bytes, tree, each))
}

export const MAIL: Record<string, Parser> = {
  'structure and header': {
    files: ['message/mime-tree.ts', 'message/parse.ts'],
    seeds: bombs,
    parse: (bytes) => parseHeader(parseTree(bytes)),
    declared: malformed,
  },
  body: {
    files: ['message/parse.ts'],
    seeds: both(
      bombs,
      of(
        'From: a@there.test\r\nContent-Transfer-Encoding: "quoted-printable"\r\n\r\nHi =C3=BC=\r\n there\r\n',
        'Content-Type: text/html\r\nContent-Transfer-Encoding: base64;\r\n\r\nSGVsbG8gd29ybGQ=\r\n-- \r\nlist\r\n',
        `${HEAD}Content-Type: text/html\r\n\r\n<p>\r\n--b\r\nContent-Type: text/plain; name=a.txt\r\n\r\nHi\r\n--b--\r\n`,
        `${HEAD.replace('boundary=b', 'boundary=c')}Content-Type: text/plain\r\n\r\nHi\r\n--b--\r\n`,
      ),
    ),
    parse: whole,
    declared: malformed,
  },
  'address lists': {
    files: ['message/mailboxes.ts'],
    seeds: of(
      '"Ann \\"x\\"" <ann@there.test>, ',
      '=?utf-8?q?a=2Cb?= <a@b.test> (c (d)) ',
      'Team: a@b, "a b"@c;',
      '<@r:a@b>',
    ),
    parse: (bytes) => mailboxesOf(text(bytes)).map(shownMailbox),
  },
  charsets: {
    files: ['message/charset.ts'],
    seeds: of(
      '<html><!-- x --><meta http-equiv="Content-Type" content="text/html; charset=windows-1251">\xcf',
      '\x1b$B$3\x1b(B',
      '=?unknown-8bit?Q?caf=E9?= =?utf-8?b?w7w=?= ',
    ),
    parse: (bytes) => [textIn(bytes, undefined), pageIn(bytes, text(bytes.subarray(0, 12))), decoded(text(bytes))],
  },
  'transfer encodings': {
    files: ['message/transfer.ts'],
    seeds: of('a=C3=A9  \r\nb=\r\nc=ZZ=', 'SGk=\r\nSGk=\r\n\r\n__ footer\r\n', 'begin 644 a\n%2&5L;&\\\n`\nend\n'),
    parse: (bytes) => [
      transferEncodingOf(text(bytes)),
      ...(['base64', 'quoted-printable', 'x-uuencode'] as const).map((each) => decodeTransfer(bytes, each)),
    ],
  },
  report: {
    files: ['message/report.ts', 'message/reported.ts', 'message/bounce-text.ts'],
    seeds: bombs,
    parse: (bytes) => readReport(bytes, parseTree(bytes)),
    declared: malformed,
  },
  evidence: { files: ['message/evidence.ts'], seeds: bombs, parse: (bytes) => evidenceOf(text(bytes)) },
  verdicts: { files: ['inbound/judge.ts'], seeds: bombs, parse: (bytes) => judge(bytes) },
  'records of DNS': {
    files: ['inbound/judge.ts'],
    seeds: of(
      'v=spf1 include:a.test mx a:%{d} exists:%{i}.%{l1r-}.x.test ip4:192.0.2.0/24 redirect=b.test exp=c.test -all ',
      'v=spf1 exists:%{s}%{s}%{s}%{s} ',
      'v=DMARC1; p=reject; rua=mailto:a@b.test; pct=100; ',
      'v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA; ',
    ),
    parse: (bytes) =>
      judge(
        Buffer.from(
          'DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=there.test; s=k; h=from; bh=x; b=y\r\nFrom: a@there.test\r\n\r\nx',
        ),
        () => Promise.resolve([[text(bytes).slice(0, 4096)]]),
      ),
  },
  fields: { files: ['message/mime-tree.ts'], seeds: bombs, parse: (bytes) => parseFields(text(bytes)) },
  parameters: {
    files: ['message/mime-tree.ts'],
    seeds: of('text/plain; charset="a\\"b"; name*0*=utf-8\'\'%C3; name*1=b', ';', 'a/b; c="\\', 'a/b;c = d '),
    parse: (bytes) => parseParameters(text(bytes)),
  },
  addresses: {
    files: ['message/address.ts', 'base/local-part.ts'],
    seeds: of('"Ann \\"x\\"" <ann@there.test>', 'ann.b@there.test', '"', 'a.', '<', 'ü@xn--a.test', ' ', '"a" '),
    parse: (bytes) => parseAddress(text(bytes)),
  },
  'authentication results': {
    files: ['message/authentication.ts'],
    seeds: of('Authentication-Results: (a (b)) mx.test; spf=pass\r\n\tx\r\n', '(', '"\\', '\r\n\r\n'),
    parse: (bytes) => [
      withoutForged(text(bytes), 'mx.test'),
      withoutForgedField({ 'authentication-results': text(bytes) }, 'mx.test'),
    ],
  },
  'programs in parts': {
    files: ['message/programs.ts'],
    seeds: both(
      bombs,
      around(
        [
          `${HEAD}Content-Disposition: attachment; filename*0*=utf-8''`,
          '; filename*1="a.b"; name = \'c\' ',
          '\r\n\r\nMZ',
        ],
        [`${HEAD}Content-Type: text/plain; name="`, '\\"', '"\r\n\r\nMZ'],
        [`${HEAD}Content-Type: text/plain; name=`, ' (', '\r\n\r\nMZ'],
        [`${HEAD}Content-Type: text/plain; `, 'name ', '\r\n\r\n#!'],
        [`${HEAD}Content-Disposition: inline; filename=`, '=?utf-8?q?=2E=65?= ', '\r\n\r\nx'],
        [`${HEAD}Content-Transfer-Encoding: base64\r\nContent-Type: application/x\r\n\r\n`, ' \r\n', 'TVqQAAMAAAA='],
        [
          `${HEAD}Content-Transfer-Encoding: base64\r\nContent-Type: message/rfc822\r\n\r\n`,
          'Q29udGVudC1UeXBlOiBhL2IKCg==',
          '',
        ],
      ),
    ),
    parse: (bytes) => programIn(bytes, parseTree(bytes)),
    declared: malformed,
  },
  'kinds of files': {
    files: ['message/file-type.ts'],
    seeds: of('MZ\x90\0', 'PK\x03\x04', '%PDF-', '#!'),
    parse: (bytes) => [refusalOf(text(bytes).slice(0, 255), bytes), typeOf(text(bytes).slice(0, 255), bytes)],
  },
  'addresses that are erased': {
    files: ['store/erasing.ts'],
    seeds: both(
      bombs,
      of('ann@there.test', 'YW5uQHRoZXJlLnRlc3Q=', 'ann=40there.=\r\ntest', 'ann%40', 'a.', '=\r\n', '\\u0061'),
    ),
    parse: (bytes) => [names(text(bytes), 'ann@there.test'), names(text(bytes), 'a.a+a@xn--tst-qla.test')],
  },
}
