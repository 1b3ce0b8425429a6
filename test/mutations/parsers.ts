// Every parser of octets that strangers write, as one call each: what it is given to begin with, and what it may throw.
import { authenticate } from 'mailauth'
import { CsvError, parse as parseCsv } from 'csv-parse/sync'
import { parseAddress } from '../../src/message/address.ts'
import { withoutForged, withoutForgedField } from '../../src/message/authentication.ts'
import { plainText } from '../../src/message/compose.ts'
import { evidenceOf } from '../../src/message/evidence.ts'
import { refusalOf, typeOf } from '../../src/message/file-type.ts'
import { MalformedMessage, parseFields, parseParameters, parseTree } from '../../src/message/mime-tree.ts'
import { parseBody, parseHeader } from '../../src/message/parse.ts'
import { readReport } from '../../src/message/report.ts'
import { cutTemplate } from '../../src/message/template.ts'
import { isHarmless, readLinks, readTargets } from '../../src/message/tracking.ts'
import { classify } from '../../src/smtp/bounce-class.ts'
import { parsePolicy, policyId } from '../../src/smtp/mta-sts.ts'
import { readCapabilities, ReplyReader } from '../../src/smtp/reply.ts'
import { hasBareLineEnd } from '../../src/smtp/strict-stream.ts'
import { BODY_BOMBS, HEADER_BOMBS } from '../hostile/bombs.ts'

export interface Parser {
  /** What mutations begin with, of about so many octets. */
  seeds: (octets: number) => Buffer[]
  parse: (bytes: Buffer) => unknown
  /** Errors that belong to it. */
  declared?: (thrown: unknown) => boolean
}

const of =
  (...texts: string[]) =>
  (octets: number): Buffer[] =>
    texts.map((text) =>
      Buffer.from(text.repeat(Math.max(1, Math.ceil(octets / text.length))).slice(0, octets), 'latin1'),
    )
const bombs = (octets: number): Buffer[] =>
  [...Object.values(HEADER_BOMBS), ...Object.values(BODY_BOMBS)].map((bomb) => bomb(octets))
const text = (bytes: Buffer): string => bytes.toString('latin1')
const malformed = (thrown: unknown): boolean => thrown instanceof MalformedMessage

const nowhere = async (): Promise<never> => {
  throw Object.assign(new Error('ENOTFOUND'), { code: 'ENOTFOUND' })
}

const judge = (bytes: Buffer, records: typeof nowhere | (() => Promise<string[][]>) = nowhere): Promise<unknown> => {
  const end = bytes.indexOf('\r\n\r\n')
  const header = evidenceOf(text(end < 0 ? bytes : bytes.subarray(0, end + 2))).header
  return authenticate(Buffer.from(`${header}\r\n${end < 0 ? '' : text(bytes.subarray(end + 4))}`, 'latin1'), {
    ip: '192.0.2.1',
    helo: 'there.test',
    sender: 'ann@there.test',
    mta: 'mx.test',
    resolver: records,
    disableBimi: true,
    strict: true,
  })
}

export const PARSERS: Record<string, Parser> = {
  'structure and header': { seeds: bombs, parse: (bytes) => parseHeader(parseTree(bytes)), declared: malformed },
  body: { seeds: bombs, parse: (bytes) => (parseTree(bytes), parseBody(bytes)), declared: malformed },
  report: { seeds: bombs, parse: (bytes) => readReport(bytes, parseTree(bytes)), declared: malformed },
  evidence: { seeds: bombs, parse: (bytes) => evidenceOf(text(bytes)) },
  verdicts: { seeds: bombs, parse: (bytes) => judge(bytes) },
  'records of DNS': {
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
  fields: { seeds: bombs, parse: (bytes) => parseFields(text(bytes)) },
  parameters: {
    seeds: of('text/plain; charset="a\\"b"; name*0*=utf-8\'\'%C3; name*1=b', ';', 'a/b; c="\\', 'a/b;c = d '),
    parse: (bytes) => parseParameters(text(bytes)),
  },
  addresses: {
    seeds: of('"Ann \\"x\\"" <ann@there.test>', 'ann.b@there.test', '"', 'a.', '<', 'ü@xn--a.test'),
    parse: (bytes) => parseAddress(text(bytes)),
  },
  'authentication results': {
    seeds: of('Authentication-Results: (a (b)) mx.test; spf=pass\r\n\tx\r\n', '(', '"\\', '\r\n\r\n'),
    parse: (bytes) => [
      withoutForged(text(bytes), 'mx.test'),
      withoutForgedField({ 'authentication-results': text(bytes) }, 'mx.test'),
    ],
  },
  replies: {
    seeds: of('250-mx.test\r\n250-SIZE 1000\r\n250 8BITMIME\r\n', '550 5.1.1 no such user\r\n', '250-', '  ', '4.2.1 '),
    parse(bytes) {
      const replies = new ReplyReader().push(bytes)
      if (replies === 'protocol error') return
      for (const reply of replies) {
        readCapabilities(reply)
        classify({ code: reply.code, enhanced: reply.enhanced, text: reply.text } as never)
      }
    },
  },
  'words of a refusal': {
    seeds: of(
      '550 5.1.1 <a@b.test>: user unknown; see https://x.test ',
      'mailbox full ',
      'blocked using zen ',
      ' ',
      '5.7.1',
    ),
    parse: (bytes) => classify({ code: 550, enhanced: null, text: text(bytes).slice(0, 1000) } as never),
  },
  'line ends': { seeds: of('a\r\n', '\r', '\n', '\r\n.\r\n'), parse: (bytes) => hasBareLineEnd(bytes, 0) },
  'policies (MTA-STS)': {
    seeds: of(
      'version: STSv1\r\nmode: enforce\r\nmx: *.a.test\r\nmax_age: 86400\r\n',
      'k: a ',
      '  ',
      'v=STSv1; id=1; ',
    ),
    parse: (bytes) => [parsePolicy(text(bytes)), policyId([text(bytes)])],
  },
  'links of pages': {
    seeds: of('<a href="https://x.test/?a=b&amp;c">x</a>', '<a ', '<a<', 'href="', "<a href='{{x}}", '<iframe src=a>'),
    parse: (bytes) => [[...readLinks(text(bytes))], [...readTargets(text(bytes))], isHarmless(text(bytes))],
  },
  templates: {
    seeds: of('{{name}} ', '{{', '{{ a', '{{{{}}}}', 'a {{b c}}'),
    parse: (bytes) => cutTemplate(text(bytes)),
  },
  'pages as text': {
    seeds: of(
      '<p>Hello <b>you</b></p><ul><li>a</li></ul>',
      '<table><tr><td>',
      '<div>',
      '&amp;',
      '<',
      '<!--',
      '<a href="x">',
    ),
    parse: (bytes) => plainText(text(bytes)),
  },
  'kinds of files': {
    seeds: of('MZ\x90\0', 'PK\x03\x04', '%PDF-', '#!'),
    parse: (bytes) => [refusalOf(text(bytes).slice(0, 255), bytes), typeOf(text(bytes).slice(0, 255), bytes)],
  },
  'tables (CSV)': {
    seeds: of('email,name\r\nann@there.test,"Ann ""x"""\r\n', '"', ',', '"\r\n', '\r\n'),
    parse: (bytes) =>
      parseCsv(text(bytes), {
        bom: true,
        info: true,
        relax_column_count: true,
        skip_empty_lines: true,
        max_record_size: 256 * 1024,
      }),
    declared: (thrown) => thrown instanceof CsvError,
  },
}
