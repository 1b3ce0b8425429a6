// Classifying messages to a return path: RFC 3464, RFC 3834, RFC 5965, RFC 6533, RFC 9477, and decision D35.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { parseTextRules, TEXT_RULES } from '../../src/message/bounce-text.ts'
import { parseTree } from '../../src/message/mime-tree.ts'
import { readReport, type Report } from '../../src/message/report.ts'
import type { ReportedRecipient } from '../../src/message/reported.ts'
import { classify, type BounceClass, type SaidAt } from '../../src/smtp/bounce-class.ts'
import { costingAtOnce } from '../kit/cost.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const skip = existsSync(join(CORPORA, 'bounces')) ? false : `no corpus at ${CORPORA}; set POSTRIDER_CORPORA`

const lines = (...each: string[]): string => each.join('\n')
const read = (message: string | Buffer): Report | undefined => {
  const bytes = typeof message === 'string' ? Buffer.from(message) : message
  return readReport(bytes, parseTree(bytes))
}
const classOf = ({ code, status, text }: ReportedRecipient): BounceClass =>
  classify({ stage: 'report', code, enhanced: status, text })
function bounced(message: string | Buffer): ReportedRecipient[] {
  const report = read(message)
  assert.equal(report?.kind, 'bounce')
  return report.recipients
}

/** Runs work that must be fast for any hostile input. */
const quick = <T>(work: () => T): T => costingAtOnce(3000, work)

const DSN = ['From: MAILER-DAEMON@there.test', 'To: x@here.test', 'Subject: Undelivered Mail Returned to Sender']
/** A report with these lines as its delivery status. */
const dsn = (status: string, header = '', copy = ''): string =>
  lines(
    ...DSN,
    'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
    '',
    '--b',
    '',
    'Words for people.',
    '--b',
    `Content-Type: message/delivery-status${header}`,
    '',
    status,
    '--b',
    'Content-Type: message/rfc822',
    '',
    copy || 'Subject: ours\n\nbody',
    '--b--',
  )
const about = (...each: string[]): string => lines('Reporting-MTA: dns; mx.there.test', '', ...each)
const FAILED = [
  'Final-Recipient: rfc822; Bob@There.test',
  'Action: failed',
  'Status: 5.1.1',
  'Diagnostic-Code: smtp; 550 5.1.1 <bob@there.test> User unknown',
]

describe('delivery status notifications (RFC 3464)', () => {
  test('reads a failure from every field', () => {
    const [only, ...more] = bounced(
      dsn(about('Original-Recipient: rfc822;Ann+2Blist@here.test', ...FAILED, 'Remote-MTA: dns; mx2.there.test')),
    )
    assert.deepEqual(only, {
      address: 'bob@there.test',
      original: 'ann+list@here.test',
      status: '5.1.1',
      code: 550,
      text: '550 5.1.1 <bob@there.test> User unknown',
      host: 'mx2.there.test',
    })
    assert.deepEqual(more, [])
  })

  for (const action of ['delayed', 'delivered', 'relayed', 'expanded', 'Delayed (still trying)', 'something'])
    test(`${action} is not a failure, with any status`, () => {
      for (const status of ['2.0.0', '4.4.1', '5.1.1'])
        assert.deepEqual(
          read(dsn(about('Final-Recipient: rfc822; a@b.test', `Action: ${action}`, `Status: ${status}`))),
          { kind: 'notification' },
        )
    })

  test('reads only the failed recipients of several', () => {
    const status = about(
      ...FAILED,
      '',
      'Final-Recipient: rfc822; carl@there.test',
      'Action: delayed',
      'Status: 4.2.2',
      ' ',
      'Final-Recipient: rfc822; dora@there.test',
      'Action: FAILED (for good)',
      'Status: 5.2.2 (full)',
      'Diagnostic-Code: smtp; 552 5.2.2',
      '\tover quota',
      // Some leave the empty line out.
      'Final-Recipient: rfc822; emil@there.test',
      'Action: failed',
      'Status: 5.7.1',
    )
    for (const ends of ['\n', '\r\n', '\r']) {
      const found = bounced(dsn(status.replaceAll('\n', ends)))
      assert.deepEqual(
        found.map(({ address, status: enhanced }) => [address, enhanced]),
        [
          ['bob@there.test', '5.1.1'],
          ['dora@there.test', '5.2.2'],
          ['emil@there.test', '5.7.1'],
        ],
      )
      assert.deepEqual(found.map(classOf), ['hard', 'quota', 'policy'])
      assert.equal(found[1]!.text, '552 5.2.2 over quota')
    }
  })

  test('reads a report with missing fields', () => {
    const [bare] = bounced(dsn(about('Action: failed')))
    assert.deepEqual([bare!.address, bare!.status, bare!.code, bare!.host], ['', '5.0.0', null, 'mx.there.test'])
    assert.notEqual(classOf(bare!), 'hard')
    // No block about the message, no Action, no Final-Recipient.
    assert.equal(bounced(dsn(lines(...FAILED)))[0]!.address, 'bob@there.test')
    assert.equal(bounced(dsn(about('Final-Recipient: rfc822; a@b.test', 'Status: 5.1.1')))[0]!.status, '5.1.1')
    assert.deepEqual(read(dsn(about('Final-Recipient: rfc822; a@b.test', 'Status: 4.1.1'))), { kind: 'notification' })
    assert.deepEqual(read(dsn(about('Final-Recipient: rfc822; a@b.test'))), { kind: 'notification' })
    assert.equal(bounced(dsn(about('Original-Recipient: a@b.test', 'Action: failed')))[0]!.original, 'a@b.test')
    // 550 without a word more, in a report, may mean anything.
    const [silent] = bounced(
      dsn(about('Final-Recipient: rfc822; a@b.test', 'Action: failed', 'Diagnostic-Code: smtp; 550')),
    )
    assert.deepEqual([silent!.code, classOf(silent!)], [550, 'policy'])
  })

  test('prefers the rejecting server’s reply to a contradicting status', () => {
    const of = (status: string, words: string): BounceClass =>
      classOf(
        bounced(
          dsn(
            about(
              'Final-Recipient: rfc822; a@b.test',
              'Action: failed',
              `Status: ${status}`,
              `Diagnostic-Code: smtp; ${words}`,
            ),
          ),
        )[0]!,
      )
    assert.equal(of('5.1.1', '552 5.2.2 Over quota'), 'quota')
    assert.equal(of('5.1.1', '550 5.7.1 We do not like you'), 'policy')
    assert.equal(of('5.1.1', '552 5.3.4 Message too big'), 'content')
    assert.equal(of('5.1.1', '550 Refused due to recipient preferences'), 'policy')
    assert.equal(of('5.0.0', '550 5.0.0 <a@b.test>... User unknown'), 'hard')
    assert.equal(of('5.0.0', '550 mailbox unavailable: rejected by our policy'), 'policy')
    assert.equal(of('5.1.1', '550 5.0.0 Rejected'), 'hard')
    assert.equal(of('5.5.0', '550 5.1.1 No such mailbox'), 'hard')
    assert.equal(of('4.4.7', 'connect to 5.1.1.9: timed out'), 'infrastructure')
  })

  for (const encoding of ['base64', 'quoted-printable'] as const)
    test(`a delivery status in ${encoding}, folded`, () => {
      const plain = about(...FAILED).replace('smtp; 550', 'smtp;\n 550')
      const encoded =
        encoding === 'base64'
          ? Buffer.from(plain).toString('base64').replace(/.{70}/g, '$&\n')
          : plain.replaceAll('=', '=3D').replaceAll(' User', '=20=\nUser')
      const [only] = bounced(dsn(encoded, `\nContent-Transfer-Encoding: ${encoding}`))
      assert.deepEqual([only!.address, only!.code, classOf(only!)], ['bob@there.test', 550, 'hard'])
    })

  test('reads truncated base64 as far as it goes', () => {
    const encoded = Buffer.from(about(...FAILED, 'X: y')).toString('base64')
    const found = bounced(dsn(encoded.slice(0, -7), '\nContent-Transfer-Encoding: base64'))
    assert.equal(found[0]!.address, 'bob@there.test')
    assert.deepEqual(read(dsn('UmVw', '\nContent-Transfer-Encoding: base64'))?.kind, 'bounce')
  })

  test('reads addresses in UTF-8 (RFC 6533)', () => {
    for (const address of ['utf-8; jos\\x{e9}@there.test', 'utf-8;josé@there.test', 'utf-8; <José@there.test>']) {
      const message = dsn(about(`Final-Recipient: ${address}`, ...FAILED.slice(1))).replace(
        'message/delivery-status',
        'message/global-delivery-status',
      )
      assert.equal(bounced(message)[0]!.address, 'josé@there.test')
    }
  })

  test('reads a report without the third part, and with a boundary that matches no line', () => {
    const whole = dsn(about(...FAILED))
    assert.equal(bounced(whole.slice(0, whole.indexOf('\n--b\nContent-Type: message/rfc822')))[0]!.status, '5.1.1')
    assert.equal(bounced(whole.replace('boundary=b', 'boundary=another'))[0]!.address, 'bob@there.test')
  })

  test('ignores a report in a forwarded email', () => {
    const forwarded = lines(
      'From: Ann <ann@here.test>',
      'Subject: Fwd: Undelivered Mail Returned to Sender',
      'Content-Type: multipart/mixed; boundary=f',
      '',
      '--f',
      '',
      "I wasn't able to deliver your message to <bob@there.test>, see below.",
      '--f',
      'Content-Type: message/rfc822',
      '',
      dsn(about(...FAILED)),
      '--f--',
    )
    assert.equal(read(forwarded), undefined)
  })

  test('reads fields in the text, but not those in the copy of the email', () => {
    const words = ['Sorry, it is full:', '', '<bob@there.test>:', '552 5.2.2 over quota', '']
    const loose = (...body: string[]): string => plain([...DSN], ...body)
    assert.equal(bounced(loose('Sorry.', '', about(...FAILED), '', ...COPY))[0]!.address, 'bob@there.test')
    for (const mark of ['--- Below this line is a copy of the message.', 'Return-Path: <x@here.test>'])
      assert.deepEqual(bounced(loose(...words, mark, '', about(...FAILED))).map(classOf), ['quota'])
  })

  for (const action of ['failed', 'Failure', 'expired'])
    test(`${action} is a failure`, () => {
      const [only] = bounced(dsn(about('Final-Recipient: rfc822; a@b.test', `Action: ${action}`, 'Status: ')))
      assert.deepEqual([only!.address, only!.status, classOf(only!)], ['a@b.test', '5.0.0', 'policy'])
    })

  test('ignores an attached delivery status', () => {
    const attached = dsn(about(...FAILED))
      .replace(DSN.join('\n'), 'From: ann@here.test\nSubject: what is this?')
      .replace('multipart/report; report-type=delivery-status', 'multipart/mixed')
    assert.equal(read(attached), undefined)
    // Some mail servers use the wrong type.
    assert.equal(bounced(`${DSN[0]}\n${attached.slice(attached.indexOf('\n') + 1)}`)[0]!.address, 'bob@there.test')
  })

  test('uses the outer report of a bounce that contains one of this server', () => {
    const inner = dsn(about(...FAILED.map((line) => line.replace('Bob@There.test', 'inner@there.test'))))
    const found = bounced(dsn(about(...FAILED), '', inner))
    assert.deepEqual(
      found.map(({ address }) => address),
      ['bob@there.test'],
    )
    assert.deepEqual(read(dsn(about('Action: delayed', 'Final-Recipient: rfc822; a@b.test'), '', inner)), {
      kind: 'notification',
    })
  })
})

const plain = (header: string[], ...body: string[]): string => lines(...header, '', ...body)
const COPY = [
  '',
  '--- Below this line is a copy of the message.',
  '',
  'From: x@here.test',
  '',
  '<copied@there.test>:',
  '550 x',
]

describe('free-text bounces', () => {
  const rules = parseTextRules(readFileSync(new URL('../../config/bounce-texts.txt', import.meta.url), 'utf8'))

  test('the file has rules of every class, each with its own sample line', () => {
    assert.deepEqual([...new Set(rules.map(({ kind }) => kind))].toSorted(), [...TEXT_RULES].toSorted())
    assert.equal(new Set(rules.map(({ kind, sample }) => `${kind} ${sample}`)).size, rules.length)
    assert.throws(() => parseTextRules('\nsomething x\n'), /bounce-texts\.txt:2:/)
  })
  for (const { kind, pattern, sample } of rules)
    test(`${kind}: ${sample.slice(0, 60)}`, () => {
      const found = pattern.exec(sample)
      assert.ok(found)
      if (kind === 'recipient' || kind === 'reply') assert.match(found[1]!, /^[^<>]+@[^<>]+$/)
      for (const fill of ['a', ' ', '@', '<', '-', 'a@', '<a@b', ': ', '5.1.1 '])
        quick(() => pattern.test(fill.repeat(500)))
    })

  test('reads the reply of each of two recipients, and skips the copy', () => {
    const found = bounced(
      plain(
        ['From: MAILER-DAEMON@mx.here.test', 'Subject: failure notice'],
        'Hi. This is the qmail-send program at mx.here.test.',
        "I'm afraid I wasn't able to deliver your message to the following addresses.",
        '',
        '<Bob@there.test>:',
        '192.0.2.1 does not like recipient.',
        'Remote host said: 550 5.1.1 No such user',
        '',
        '<carl@there.test>:',
        'Remote host said: 552 5.2.2 over quota',
        ...COPY,
      ),
    )
    assert.deepEqual(
      found.map((each) => [each.address, each.code, each.status, classOf(each)]),
      [
        ['bob@there.test', 550, '5.1.1', 'hard'],
        ['carl@there.test', 552, '5.2.2', 'quota'],
      ],
    )
  })

  test('reads a subject in encoded words (RFC 2047), even malformed ones', () => {
    const of = (subject: string): string | undefined =>
      read(plain(['From: MAILER-DAEMON@mx.here.test', `Subject: ${subject}`], '<bob@there.test>:', '550 5.1.1 gone'))
        ?.kind
    assert.equal(of('=?iso-2022-jp?B?UmV0dXJuZWQgbWFpbDogVXNlciB1bmtub3du?='), 'bounce')
    for (const broken of ['=?no-such?B?////?=', '=?utf-8?Q?=ZZ=?=', '=?utf-8?B?A?=', '=?utf-8?X?a?='])
      assert.equal(of(broken), undefined)
  })

  test('reads a bounce in HTML only', () => {
    const header = ['From: postmaster@there.test', 'Subject: Undeliverable: hello', 'Content-Type: text/html']
    const [only] = bounced(plain(header, '<p>&lt;bob@there.test&gt;:<br>550 5.1.1 User unknown</p><p>Sorry</p>'))
    assert.deepEqual([only!.address, only!.status], ['bob@there.test', '5.1.1'])
  })

  test('does not suppress for a rejection that has only a code', () => {
    const [only] = bounced(
      plain(
        ['From: MAILER-DAEMON@here.test', 'Subject: failure notice'],
        '<bob@there.test>:',
        'Remote host said: 550 Nope',
      ),
    )
    assert.deepEqual([only!.code, classOf(only!)], [550, 'policy'])
  })

  const daemon = ['From: MAILER-DAEMON@here.test']
  const GONE = ['<bob@there.test>:', '550 5.1.1 User unknown']
  for (const [what, message, wanted] of [
    ['a mail of a person', plain(['From: ann@here.test', 'Subject: failure notice'], ...GONE), undefined],
    [
      'an answer that quotes',
      plain(['From: ann@here.test', 'Subject: Re: failure notice'], '> <b@c.test>:', '> 550'),
      undefined,
    ],
    [
      'a letter of a postmaster',
      plain(
        ['From: postmaster@here.test', 'Subject: Last night'],
        'Some mail could not be delivered to our customers.',
      ),
      undefined,
    ],
    [
      'a mailer daemon that says nothing of a failure',
      plain([...daemon, 'Subject: hello'], ...GONE.slice(0, 1)),
      undefined,
    ],
    [
      'a read receipt (RFC 8098)',
      plain(
        [
          'From: bob@there.test',
          'Subject: Not read: hello',
          'Content-Type: multipart/report; report-type=disposition-notification; boundary=b',
        ],
        '--b',
        '',
        'Your message to <bob@there.test> was deleted without being read.',
        '--b',
        'Content-Type: message/disposition-notification',
        '',
        'Final-Recipient: rfc822;bob@there.test',
        'Disposition: automatic-action/MDN-sent-automatically; deleted',
        '--b--',
      ),
      undefined,
    ],
    [
      'an out-of-office answer with a null sender',
      plain(
        ['Return-Path: <>', 'From: bob@there.test', 'Subject: Undeliverable? I left', 'Auto-Submitted: auto-replied'],
        ...GONE,
      ),
      'autoreply',
    ],
    [
      'a warning (Exim)',
      plain(
        [...daemon, 'Subject: Warning: message 1-2-3 delayed 24 hours'],
        'A message that you sent could not be delivered to',
        '  bob@there.test',
        '550 5.1.1 User unknown',
      ),
      'notification',
    ],
    ['a warning (Postfix)', plain([...daemon, 'Subject: Delayed Mail (still being retried)'], ...GONE), 'notification'],
    [
      'a warning (Sendmail)',
      plain([...daemon, 'Subject: Returned mail'], ...GONE, 'Will keep trying until message is 5 days old'),
      'notification',
    ],
  ] as const)
    test(`${what}: ${wanted ?? 'undefined'}`, () => assert.equal(read(message)?.kind, wanted))
})

describe('automatic replies (RFC 3834)', () => {
  for (const header of [
    'Auto-Submitted: auto-replied',
    'Auto-Submitted: auto-generated (vacation)',
    'Auto-Submitted: Auto-Replied; owner="x"',
    'Precedence: auto_reply',
    'X-Autoreply: yes',
    'X-Auto-Response-Suppress: All',
    'Subject: Automatic reply: hello',
    'Subject: Out of office',
    'Subject: =?utf-8?Q?Out_of_office?=',
  ])
    test(header, () =>
      assert.deepEqual(read(`From: bob@there.test\n${header}\n\n550 5.1.1 gone`), { kind: 'autoreply' }),
    )
  for (const header of ['Auto-Submitted: no', 'Auto-Submitted: no (by hand)', 'Precedence: bulk', 'Subject: Office'])
    test(`${header} is an ordinary message`, () =>
      assert.equal(read(`From: bob@there.test\n${header}\n\nhello`), undefined))
})

const TOKEN = 'abcdefghijklmnopqrstuvwxyz'
const arf = (...fields: string[]): string =>
  lines(
    'From: fbl@there.test',
    'Content-Type: multipart/report; report-type=feedback-report; boundary=b',
    '',
    '--b',
    '',
    '550 5.1.1 User unknown',
    '--b',
    'Content-Type: Message/Feedback-Report',
    '',
    ...fields,
    '--b',
    'Content-Type: text/rfc822-headers',
    '',
    `Return-Path: <${TOKEN}@bounce.here.test>`,
    `CFBL-Address: ${TOKEN.toUpperCase().replace('A', '2')}@fbl.here.test; report=arf`,
    '--b--',
  )

describe('complaints (RFC 5965, RFC 9477)', () => {
  test('reads an abuse report with the identifiers of the email', () => {
    const tokens = [TOKEN, TOKEN.replace('a', '2')]
    assert.deepEqual(read(arf('FEEDBACK-TYPE: Abuse', 'Original-Rcpt-To: <Bob@there.test>')), {
      kind: 'complaint',
      feedbackType: 'abuse',
      recipient: 'bob@there.test',
      tokens,
    })
    const redacted = read(
      arf('Feedback-Type: abuse', 'Original-Rcpt-To: redacted', `Original-Mail-From: <${TOKEN}@x.test>`),
    )
    assert.deepEqual(redacted, {
      kind: 'complaint',
      feedbackType: 'abuse',
      recipient: null,
      tokens,
    })
  })
  for (const type of ['opt-out', 'opt-out-list'])
    test(`${type} is an unsubscribe request`, () => {
      const report = read(arf(`Feedback-Type: ${type}`, 'Removal-Recipient: bob@there.test'))
      assert.deepEqual(report, {
        kind: 'opt-out',
        feedbackType: type,
        recipient: 'bob@there.test',
        tokens: [TOKEN, TOKEN.replace('a', '2')],
      })
    })
  for (const type of ['not-spam', 'auth-failure', 'fraud', 'virus', 'other', 'dmarc', 'abusive', ''])
    test(`"${type}" is not an unsubscribe request`, () =>
      assert.deepEqual(read(arf(`Feedback-Type: ${type}`)), { kind: 'feedback', feedbackType: type }))
  test('ignores a report without a type, and a forwarded one', () => {
    assert.deepEqual(read(arf('User-Agent: x')), { kind: 'feedback', feedbackType: '' })
    assert.equal(read(`From: ann@here.test\nContent-Type: message/rfc822\n\n${arf('Feedback-Type: abuse')}`), undefined)
  })
})

describe('hostile reports', () => {
  const MB = 1024 * 1024
  const text = (body: string): string => plain([...DSN], body)
  for (const [what, message] of [
    ['a field of 1 MB', dsn(about(`Final-Recipient: rfc822; ${'a'.repeat(MB)}`, 'Action: failed'))],
    ['a type of 1 MB', dsn(about(`Final-Recipient: ${'a'.repeat(MB)};`, 'Action: failed'))],
    ['an address of 60 KB', dsn(about(`Final-Recipient: rfc822; ${'a@'.repeat(30_000)}`, 'Action: failed'))],
    ['white space of 60 KB', dsn(about(`Diagnostic-Code: smtp;${' '.repeat(60_000)}x`, 'Action: failed'))],
    ['an action of 60 KB', dsn(about(`Action: ${'failed'.repeat(10_000)}`))],
    ['10,000 fields', dsn(about('Action: failed\n'.repeat(10_000)))],
    ['10,000 blocks', dsn(about('Action: failed\n\n'.repeat(10_000)))],
    ['10,000 empty blocks', dsn('\n \n'.repeat(10_000))],
    ['10,000 recipients', text("I wasn't able to deliver your message\n<a@b.test>:\n".repeat(10_000))],
    ['different recipients', text(Array.from({ length: 5000 }, (_, at) => `<a${at}@b.test>:\n`).join(''))],
    ['a line of 1 MB', text('a'.repeat(MB))],
    ['a line of 1 MB of addresses', text('<a@b.test>'.repeat(MB / 10))],
    ['a line of 1 MB of brackets', text('<'.repeat(MB))],
    ['HTML without end', text('<p'.repeat(MB / 2)).replace('Subject', 'Content-Type: text/html\nSubject')],
    ['a subject of 200 KB', plain(daemonOf('x'.repeat(200_000)), 'x')],
    ['a subject of encoded words', plain(daemonOf('=?utf-8?Q?'.repeat(20_000)), 'x')],
    ['NULs', Buffer.concat([Buffer.from(dsn(about(...FAILED))), Buffer.alloc(MB)])],
    ['NULs in the fields', dsn(about(...FAILED).replaceAll(' ', ' \0'))],
    [
      'reports in reports',
      Array.from({ length: 20 }).reduce<string>((inner) => dsn(about('Action: failed'), '', inner), ''),
    ],
  ] as const)
    test(`reads ${what} in time, with bounded results`, () => {
      const report = quick(() => read(message))
      const recipients = report?.kind === 'bounce' ? report.recipients : []
      assert.ok(recipients.length <= 100)
      for (const each of recipients) {
        assert.ok(each.text.length <= 1000 && each.address.length <= 320 && (each.host?.length ?? 0) <= 255)
        assert.doesNotMatch(each.text, /\p{Cc}/u)
      }
    })

  test('never unpacks compressed parts', () => {
    const zipped = gzipSync(Buffer.from(about(...FAILED))).toString('base64')
    const message = (type: string): string =>
      dsn(zipped, '\nContent-Transfer-Encoding: base64').replace('message/delivery-status', type)
    for (const type of ['application/gzip', 'application/zip', 'message/delivery-status']) {
      const report = read(message(type))
      assert.ok(report?.kind !== 'bounce' || report.recipients.every(({ address }) => address === ''), type)
    }
  })
})

function daemonOf(subject: string): string[] {
  return ['From: MAILER-DAEMON@there.test', `Subject: ${subject}`]
}

interface Label {
  class: string
  sisimai_5_1: { recipient: string; reason: string }[]
  flufl?: { permanent: string[] }
}

describe('the corpora', { skip }, () => {
  const folder = join(CORPORA, 'bounces/handover')
  const labels = skip ? {} : (JSON.parse(readFileSync(join(folder, 'labels.json'), 'utf8')) as Record<string, Label>)
  const rows = Object.entries(labels).map(([name, label]) => {
    const report = quick(() => read(readFileSync(join(folder, 'eml', name))))
    const recipients = report?.kind === 'bounce' ? report.recipients : []
    const wanted = [...label.sisimai_5_1.map(({ recipient }) => recipient), ...(label.flufl?.permanent ?? [])].map(
      (each) => each.toLowerCase(),
    )
    const right = recipients.filter(
      ({ address, original }) => wanted.includes(address) || wanted.includes(original ?? ''),
    )
    return { name, label, report, right, hard: recipients.filter((each) => classOf(each) === 'hard') }
  })
  const of = (name: string): typeof rows => rows.filter(({ label }) => label.class === name)

  // Not reports: a user forwards one, and a service informs its customer.
  const FOREIGN = ['lhost-sendmail-14.eml', 'lhost-amazonses-10.eml']

  test('recognises more than 97 % of the reports on addresses that do not exist', (t) => {
    const hard = of('hard').filter(({ name }) => !FOREIGN.includes(name))
    assert.ok(hard.length > 70)
    const misses = hard.filter(({ right, hard: gone }) => !right.some((each) => gone.includes(each)))
    const told = misses.map(({ name, report }) => `${name} (${report?.kind ?? 'nothing'})`)
    t.diagnostic(`missed: ${told.join(', ')}`)
    assert.ok(misses.length / hard.length < 0.03, `${misses.length} of ${hard.length}: ${told.join(', ')}`)
  })

  test('never suppresses for a message that reports no failure', () => {
    const others = [...of('delivered'), ...of('autoreply'), ...of('complaint')]
    assert.ok(others.length >= 3)
    for (const { name, hard } of others) assert.deepEqual(hard, [], name)
    for (const { name, report } of of('autoreply')) assert.equal(report?.kind, 'autoreply', name)
  })

  test('of the others, suppresses only for a text that reports an unknown mailbox', (t) => {
    const soft = [...of('soft-or-policy'), ...of('unlabelled')]
    const held = soft.filter(({ hard }) => hard.length > 0)
    t.diagnostic(
      `held against the address: ${held.map(({ name, label }) => `${name} (${label.sisimai_5_1[0]?.reason})`).join(', ')}`,
    )
    for (const { name, hard } of held)
      for (const { text } of hard)
        assert.match(
          text,
          /user unknown|unknown user|not found|does not exist|(?:is|account) disabled|disabled recipient|5\.4\.1 recipient address rejected: access denied/i,
          name,
        )
    assert.ok(held.length <= soft.length * 0.15, `${held.length} of ${soft.length}`)
    const lost = soft.filter(({ report }) => report?.kind !== 'bounce' && report?.kind !== 'notification')
    assert.deepEqual(
      lost.map(({ name }) => name),
      [],
    )
  })

  test('the tables of docs/receivers.md match the results, by source and by stage', () => {
    const SOURCES: [string, RegExp][] = [
      ['Sendmail', /sendmail$/],
      ['DragonFly', /dragonfly/],
      ['qmail', /qmail/],
      ['Amazon SES', /ses$/],
      ['Yahoo and AOL', /yahoo|aol/],
      ['Microsoft', /exchange|outlook|office365/],
      ['Google', /google|gsuite/],
      ['others', /./],
    ]
    const sourceOf = (name: string): string =>
      SOURCES.find(([, pattern]) => pattern.test(name.replace(/-\d+\.eml$/, '')))![0]
    const bySource = SOURCES.map(([source]) => {
      const from = rows.filter(({ name }) => sourceOf(name) === source && !FOREIGN.includes(name))
      const gone = from.filter(({ label }) => label.class === 'hard')
      const told = gone.filter(({ hard, right }) => right.some((each) => hard.includes(each)))
      const others = from.filter(({ label }) => !label.class.includes('hard'))
      return `| ${source} | ${told.length} of ${gone.length} | ${others.filter(({ hard }) => hard.length > 0).length} of ${others.length} |`
    })
    const said = rows.flatMap(({ hard }) => hard).filter(({ code }) => code !== null)
    const STAGES: [string, SaidAt][] = [
      ['a greeting', 'greeting'],
      ['MAIL', 'mail'],
      ['RCPT', 'rcpt'],
      ['DATA', 'data'],
      ['the final dot', 'final dot'],
    ]
    const byStage = STAGES.map(([words, stage]) => {
      const held = said.filter(({ code, status, text }) => classify({ stage, code, enhanced: status, text }) === 'hard')
      return `| ${words} | ${held.length} of ${said.length} |`
    })
    const document = readFileSync(new URL('../../docs/receivers.md', import.meta.url), 'utf8')
    for (const row of [...bySource, ...byStage]) assert.ok(document.includes(`\n${row}\n`), row)
  })

  test('feedback, aggregate and TLS reports are not bounces', () => {
    const reports = join(CORPORA, 'reports')
    const files = readdirSync(reports, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    const kinds: Record<string, string | undefined> = {}
    for (const { parentPath, name } of files) {
      const report = quick(() => read(readFileSync(join(parentPath, name))))
      assert.notEqual(report?.kind, 'bounce', name)
      if (name.endsWith('.eml')) kinds[name] = report?.kind
      if (name === '002.eml') assert.equal(report?.kind === 'complaint' && report.recipient, 'user@example.com')
    }
    assert.deepEqual(kinds, {
      '001.eml': 'complaint',
      '002.eml': 'complaint',
      '003.eml': 'feedback',
      '004.eml': 'feedback',
      '005.eml': 'feedback',
    })
    assert.ok(files.length >= 12)
  })
})
