// Parsers of what other servers answer: SMTP, DNS, policies, a certificate authority.
import { generateKeyPairSync, X509Certificate } from 'node:crypto'
import dnsPacket from 'dns-packet'
import { AcmeClient, AcmeRefusal } from '../../src/acme/client.ts'
import { NoAnswer, type Fetch } from '../../src/acme/http.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { readAllDer } from '../../src/base/der.ts'
import { forLog } from '../../src/base/clean-text.ts'
import type { Cancel } from '../../src/base/clock.ts'
import { readStatus } from '../../src/base/spamassassin.ts'
import type { ResolverAnswer, Mx, Resolver, Tlsa } from '../../src/net/resolver.ts'
import { readAnswer } from '../../src/net/dns-question.ts'
import { understand } from '../../src/net/validated.ts'
import { judgeDmarc, tagOf } from '../../src/domains/dmarc.ts'
import { lookUp } from '../../src/domains/records.ts'
import { aboutTheHost } from '../../src/delivery/wire/finish-attempt.ts'
import { asksForLess } from '../../src/smtp/about-server.ts'
import { answerTo } from '../../src/server/sandbox/dns.ts'
import { classify } from '../../src/smtp/bounce-class.ts'
import { parsePolicy, policyId } from '../../src/smtp/mta-sts.ts'
import { addressIn, readCapabilities, ReplyReader } from '../../src/smtp/reply.ts'
import { reasonOf } from '../../src/smtp/reply-reason.ts'
import { judgeByDane, countingRecords } from '../../src/smtp/dane.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import { meaningOf, readAnswer as readListed } from '../../src/watch/lists.ts'
import { ManualClock } from '../kit/clock.ts'
import { both, of, text, type Parser } from './parser.ts'

const ZONE = {
  lookUp: (name: string, type: string): string[] | undefined =>
    name.startsWith('none.')
      ? undefined
      : type === 'MX'
        ? ['10 mx.there.test']
        : type === 'A'
          ? ['127.0.0.1']
          : type === 'AAAA'
            ? ['::1']
            : type === 'CAA'
              ? ['0 issue "ca.test"']
              : type === 'TLSA'
                ? ['3 1 1 00ff']
                : [name],
}

const TYPES = ['A', 'AAAA', 'MX', 'TXT', 'CAA', 'TLSA', 'PTR', 'NS', 'CNAME', 'OPT', 'ANY', 'SRV', 'DS'] as const
const QUESTIONS = TYPES.map((type) =>
  dnsPacket.encode({ type: 'query', id: 1, questions: [{ type: type as 'A', name: 'a.there.test' }] }),
)
const ANSWERS = QUESTIONS.map((question) => answerTo(ZONE, question)!)

/** Small packets as they are, and one that is filled up to the size that is asked for. */
const packets =
  (whole: readonly Buffer[]) =>
  (octets: number): Buffer[] => [
    ...whole,
    ...whole.map((packet) =>
      Buffer.concat([packet, Buffer.alloc(Math.max(0, octets - packet.length), packet.subarray(12))]),
    ),
  ]

/** Time passes as soon as somebody waits for it. */
class HurriedClock extends ManualClock {
  override wake(at: number, run: () => void): Cancel {
    this.leap(Math.max(0, at - this.now()))
    return super.wake(at, run)
  }
}

const CERTIFICATE = new X509Certificate(makeCertificate('mx.there.test', 0).cert).raw

const DIRECTORY = 'https://ca.test/directory'
const documentOf = (value: object): string => JSON.stringify(value)
/** The answers of an authority that has nothing against a name, by the path that is asked. */
const AUTHORITY: Record<string, string> = {
  '/directory': documentOf({
    newNonce: 'https://ca.test/nonce',
    newAccount: 'https://ca.test/account',
    newOrder: 'https://ca.test/order',
    renewalInfo: 'https://ca.test/renewal',
  }),
  '/nonce': '',
  '/account': documentOf({ status: 'valid' }),
  '/order': documentOf({
    status: 'pending',
    authorizations: ['https://ca.test/authorization'],
    finalize: 'https://ca.test/finalize',
  }),
  '/authorization': documentOf({
    status: 'pending',
    challenges: [{ type: 'http-01', url: 'https://ca.test/challenge', token: 'a', status: 'pending' }],
  }),
  '/challenge': documentOf({ status: 'processing' }),
  '/finalize': documentOf({ status: 'processing' }),
  '/order/1': documentOf({ status: 'invalid', error: { type: 'urn:ietf:params:acme:error:dns', detail: 'none' } }),
  '/renewal/x': documentOf({ suggestedWindow: { start: '2026-01-01T00:00:00Z', end: '2026-01-02T00:00:00Z' } }),
}
const PATHS = Object.keys(AUTHORITY)
const { privateKey: CERTIFICATE_KEY } = generateKeyPairSync('ec', { namedCurve: 'P-256' })

/** A certificate and a time to renew it are asked of an authority that says these octets at one place. */
async function askAuthority(bytes: Buffer): Promise<void> {
  const said = bytes.toString('utf8')
  const place = PATHS[bytes.length % PATHS.length]!
  const fetch: Fetch = async (url) => {
    const { pathname } = new URL(url)
    const honest = AUTHORITY[pathname] ?? ''
    const header = text(bytes).slice(0, 100)
    return {
      status: bytes.length % 7 === 0 && pathname === place ? 400 : 200,
      headers: {
        'replay-nonce': pathname === place ? header : 'n',
        'retry-after': header,
        location: 'https://ca.test/order/1',
      },
      text: pathname === place ? said : honest,
    }
  }
  const client = new AcmeClient({ directory: DIRECTORY, email: '', fetch, clock: new HurriedClock() })
  const refused = (thrown: unknown): void => {
    if (!(thrown instanceof AcmeRefusal || thrown instanceof NoAnswer)) throw thrown
  }
  await client.certificate('a.here.test', CERTIFICATE_KEY, ['http-01'], () => () => {}).catch(refused)
  await client.renewalWindow('x').catch(refused)
}

const refusal = (bytes: Buffer): Verdict => ({
  kind: 'deferred',
  stage: 'mail',
  code: 450,
  enhanced: '4.7.1',
  text: forLog(text(bytes)),
  handed: false,
  host: null,
  tls: null,
  security: null,
  dialogue: null,
})

/** A resolver that finds this text, and an MX of this name. */
const finding = (found: string): Resolver => {
  const texts = async (): Promise<ResolverAnswer<string>> => ({ kind: 'found', records: [found] })
  const mx = async (): Promise<ResolverAnswer<Mx>> => ({ kind: 'found', records: [{ exchange: found, priority: 10 }] })
  const tlsa = async (): Promise<ResolverAnswer<Tlsa>> => ({ kind: 'none' })
  return { txt: texts, a: texts, aaaa: texts, cname: texts, ptr: texts, mx, tlsa }
}

export const ANSWERED: Record<string, Parser> = {
  'answer of a blocklist': {
    files: ['watch/lists.ts'],
    seeds: of('127.0.0.2\n', '127.0.0.10\n127.0.0.4\n', '127.255.255.254\n', '203.0.113.9\n', '127.0.1.102\n'),
    parse(bytes) {
      const records = text(bytes).split('\n')
      for (const zone of ['zen.spamhaus.org', 'dbl.spamhaus.org', 'bl.example.org']) {
        const { answer, state } = readListed(zone, { kind: 'found', records }, '')
        if (state === 'listed' && meaningOf(zone, answer).fix === '')
          throw new Error(`${zone} is said to list ${answer}`)
      }
    },
  },
  replies: {
    files: ['smtp/reply.ts', 'smtp/bounce-class.ts'],
    seeds: of(
      '250-mx.test\r\n250-SIZE 1000\r\n250 8BITMIME\r\n',
      '250 mx.test, [IPv6:2001:db8::5]\r\n',
      '550 5.1.1 no such user\r\n',
      '250-',
      '  ',
      '4.2.1 ',
    ),
    parse(bytes) {
      for (const reply of new ReplyReader().push(bytes)) {
        readCapabilities(reply)
        addressIn(reply)
        classify({ stage: 'rcpt', code: reply.code, enhanced: reply.enhanced, text: reply.text })
      }
    },
  },
  'words of a refusal': {
    files: ['smtp/bounce-class.ts', 'smtp/reply-reason.ts', 'smtp/about-server.ts', 'delivery/wire/finish-attempt.ts'],
    seeds: of(
      '550 5.1.1 <a@b.test>: user unknown; see https://x.test ',
      'mailbox full ',
      'blocked using zen ',
      'too many messages in this session ',
      ' ',
      '5.7.1',
    ),
    parse(bytes) {
      const verdict = refusal(bytes)
      classify({ stage: 'rcpt', code: 550, enhanced: null, text: verdict.text })
      reasonOf({ text: verdict.text })
      return [asksForLess(verdict), aboutTheHost(verdict)]
    },
  },
  'policies (MTA-STS)': {
    files: ['smtp/mta-sts.ts'],
    seeds: of(
      'version: STSv1\r\nmode: enforce\r\nmx: *.a.test\r\nmax_age: 86400\r\n',
      'k: a ',
      '  ',
      'v=STSv1; id=1; ',
    ),
    parse: (bytes) => [parsePolicy(text(bytes)), policyId([text(bytes)])],
  },
  'records of domains': {
    files: ['domains/dmarc.ts', 'domains/records.ts'],
    seeds: of(
      'v=DMARC1; p=none; sp=reject; rua=mailto:a@here.test; ',
      'v=DMARC1;   ',
      '; p ',
      '_dmarc.here.test v=DMARC1; sp=none; ',
      'v=spf1 a:mx.test +include:b.test ',
      'v=DKIM1; k=rsa; p=MIIB ',
      ' ',
    ),
    async parse(bytes) {
      const found = text(bytes)
      const types = ['DKIM', 'SPF', 'DMARC', 'MAIL_FROM_MX', 'INBOUND_MX', 'TRACKING'] as const
      for (const record_type of types)
        await lookUp(finding(found), {
          record_type,
          name: record_type === 'DMARC' ? '_dmarc.here.test' : 'here.test',
          value: record_type === 'DMARC' ? 'v=DMARC1; p=reject;' : 'v=spf1 a:mx.test -all',
        })
      return [judgeDmarc('reject', found, ['dmarc-reports@here.test']), tagOf(found, 'p')]
    },
  },
  'questions to the DNS of the sandbox': {
    files: ['server/sandbox/dns.ts'],
    seeds: packets(QUESTIONS),
    parse: (bytes) => answerTo(ZONE, bytes),
  },
  'what SpamAssassin wrote': {
    files: ['base/spamassassin.ts'],
    seeds: of(
      'X-Spam-Status: No, score=0.1 required=5.0 tests=HTML_MESSAGE,MISSING_MID autolearn=no\n',
      'X-Spam-Status: Yes, score=-17.2 required=5.0 tests=A,',
      'X-Spam-Status: ',
    ),
    parse: (bytes) => readStatus(text(bytes)),
  },
  'answers of a resolver': {
    files: ['net/dns-question.ts', 'net/validated.ts'],
    seeds: packets(ANSWERS),
    parse: (bytes) => {
      for (const type of ['MX', 'A', 'AAAA', 'CNAME', 'TLSA'] as const) {
        const answer = readAnswer(bytes, { id: 1, name: 'a.there.test', type })
        if (answer) understand(answer, 'a.there.test', type)
      }
    },
  },
  'certificates and TLSA records of an exchanger': {
    files: ['base/der.ts', 'net/validated.ts'],
    seeds: (octets) => [CERTIFICATE, Buffer.concat([CERTIFICATE, Buffer.alloc(octets)])],
    parse: (bytes) => {
      for (const at of [0, 4]) readAllDer(bytes, { body: at, end: bytes.length })
      const data = bytes.toString('hex')
      const records = [0, 1].flatMap((selector) => [2, 3].map((usage) => ({ usage, selector, matching: 0, data })))
      const counting = countingRecords(records)
      if (counting.length === 0) return
      judgeByDane(
        { base: 'mx.there.test', names: ['mx.there.test'], records: counting },
        [new X509Certificate(bytes)],
        0,
      )
    },
  },
  'answers of a certificate authority': {
    files: ['acme/client.ts', 'acme/documents.ts'],
    seeds: both(
      () => Object.values(AUTHORITY).map((each) => Buffer.from(each)),
      of('null', '[]', '{"status":1}', '"a"', '['),
    ),
    parse: askAuthority,
  },
}
