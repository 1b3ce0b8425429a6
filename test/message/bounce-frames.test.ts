// Reports quote the reply of another server within their own text. The class of a bounce is that of the reply,
// independent of the text around it (D35, D63, D224).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { parseTree } from '../../src/message/mime-tree.ts'
import { readReport, type Report } from '../../src/message/report.ts'
import type { ReportedRecipient } from '../../src/message/reported.ts'
import { classify, isAboutRecipient, type BounceClass } from '../../src/smtp/bounce-class.ts'
import { classOf as aboutOf } from '../../src/smtp/reply-reason.ts'

const BOB = 'bob@there.test'
const read = (message: string, nullSender = false): Report | undefined =>
  readReport(Buffer.from(message), parseTree(Buffer.from(message)), nullSender)
function only(message: string): ReportedRecipient {
  const report = read(message)
  assert.equal(report?.kind, 'bounce', message)
  assert.equal(report.recipients.length, 1)
  return report.recipients[0]!
}
const classOf = ({ code, status, text }: ReportedRecipient): BounceClass =>
  classify({ stage: 'report', code, enhanced: status, text })
const about = ({ code, status, text }: ReportedRecipient): boolean =>
  isAboutRecipient({ stage: 'report', code, enhanced: status, text })

const DAEMON = `From: Mail Delivery System <Mailer-Daemon@mx.there.test>\nTo: x@bounce.here.test\n`
const exim = (...lines: string[]): string =>
  `${DAEMON}X-Failed-Recipients: ${BOB}\nAuto-Submitted: auto-replied\nSubject: Mail delivery failed: returning message to sender\n
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  ${BOB}
${lines.map((line) => `    ${line}\n`).join('')}
------ This is a copy of the message, including all the headers. ------

Subject: Hello
`
const dsn = (...fields: string[]): string =>
  `${DAEMON}Subject: Delivery Status Notification (Failure)\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\n
--b\nContent-Type: text/plain\n\nThe following message could not be delivered.\n
--b\nContent-Type: message/delivery-status\n\nReporting-MTA: dns; gw.there.test\n
Final-Recipient: rfc822; ${BOB}\nAction: failed\nStatus: 5.0.0\n${fields.join('\n')}\n
--b--\n`

/** The texts of reporting servers around a reply to RCPT. */
const FRAMES: Record<string, (reply: string) => string> = {
  'Exim 4.9': (reply) =>
    exim('host mx.there.test [192.0.2.1]', `SMTP error from remote mail server after RCPT TO:<${BOB}>:`, reply),
  'Exim 4.9, pipelined': (reply) =>
    exim(
      'host mx.there.test [192.0.2.1]',
      `SMTP error from remote mail server after pipelined RCPT TO:<${BOB}>:`,
      reply,
    ),
  'Exim without a host': (reply) => exim(`SMTP error from remote mail server after RCPT TO:<${BOB}>:`, reply),
  'Exim 4.6': (reply) =>
    exim(`SMTP error from remote mailer after RCPT TO:<${BOB}>:`, `host mx.there.test [192.0.2.1]: ${reply}`),
  'Exim, by LMTP': (reply) => exim(`LMTP error after RCPT TO:<${BOB}>: ${reply}`),
  '1&1': (reply) =>
    exim(`SMTP error from remote server for RCPT TO command, host: mx.there.test (192.0.2.1) reason: ${reply}`),
  Postfix: (reply) => exim(`host mx.there.test[192.0.2.1] said: ${reply} (in reply to RCPT TO command)`),
  qmail: (reply) =>
    `${DAEMON}Subject: failure notice\n\nHi. This is the qmail-send program at mx.here.test.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n<${BOB}>:\n192.0.2.1 does not like recipient.\nRemote host said: ${reply}\nGiving up on 192.0.2.1.\n`,
  Sendmail: (reply) =>
    `${DAEMON}Subject: Returned mail: see transcript for details\n\n   ----- The following addresses had permanent fatal errors -----\n<${BOB}>\n\n   ----- Transcript of session follows -----\n... while talking to mx.there.test.:\n>>> RCPT To:<${BOB}>\n<<< ${reply}\n`,
  'Exchange Online': (reply) =>
    `From: Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@there.test>\nSubject: Undeliverable: Hello\nAuto-Submitted: auto-generated\nContent-Type: text/html\n\n<p>Your message to ${BOB} couldn't be delivered.</p><p>Reported error: <i>${reply.replaceAll('<', '&lt;')}</i></p>`,
  Exchange: (reply) =>
    `From: Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@there.test>\nSubject: Undeliverable: Hello\nAuto-Submitted: auto-generated\n\nDelivery has failed to these recipients or groups:\n\n${BOB}\nThe email address you entered couldn't be found.\n\nDiagnostic information for administrators:\n\nGenerating server: ex1.there.test\n\n${BOB}\n#${reply} ##\n`,
  IronPort: (reply) => dsn(`X-Supplementary-Info: <mx.there.test #5.0.0 smtp; ${reply}>`),
  'IronPort, folded, with a vague diagnostic': (reply) =>
    dsn('Diagnostic-Code: smtp; Delivery failed', `X-Supplementary-Info: <192.0.2.1 #5.0.0\n smtp; ${reply}>`),
  'Exim, as a report': (reply) =>
    dsn(`Diagnostic-Code: smtp; SMTP error from remote mail server after RCPT TO:<${BOB}>: ${reply}`),
}

/** Replies to RCPT, of real servers. */
const REPLIES = readFileSync(new URL('../smtp/replies.tsv', import.meta.url), 'utf8')
  .trimEnd()
  .split('\n')
  .map((line) => line.split('\t'))
  .flatMap(([stage, , , reply = '']) => (stage === 'rcpt' && /^5[0-5]\d /.test(reply) ? [reply] : []))
  // A bounce has a limit for its lines, and an address in the reply may be taken for the recipient.
  .filter((reply) => reply.length < 300 && !reply.includes('@'))
const OFTEN = [
  '550 5.1.1 User unknown',
  '550 Unknown user',
  '550 Mailbox does not exist',
  '550 Recipient not found',
  '550 Address unknown',
  '550 No such user here',
  '550 "Unknown User"',
  '552 5.2.2 Mailbox full',
  '550 5.7.1 Message rejected',
]

describe('replies quoted by another server', () => {
  for (const [server, frame] of Object.entries(FRAMES))
    test(`${server}: every reply has its own class, and is about the recipient`, () => {
      assert.ok(REPLIES.length > 200)
      const wrong = [...REPLIES, ...OFTEN].flatMap((reply) => {
        const found = only(frame(reply))
        const [, code = '', enhanced = null] = /^(5\d\d)(?: (5\.\d+\.\d+)\b)?/.exec(reply) ?? []
        const wanted = classify({ stage: 'report', code: Number(code), enhanced: enhanced ?? '5.0.0', text: reply })
        const reason = aboutOf({ code: Number(code), enhanced, text: reply.replace(/^5\d\d (?:5\.\d+\.\d+ )?/, '') })
        const isRight =
          classOf(found) === wanted &&
          found.code === Number(code) &&
          about(found) &&
          aboutOf({ code: found.code, enhanced: found.status, text: found.text }) === reason
        return isRight ? [] : [`${reply}: ${classOf(found)}, not ${wanted}; ${found.code}; ${found.text}`]
      })
      assert.deepEqual(wrong, [])
    })

  test('IronPort: response and code are those of X-Supplementary-Info', () => {
    const { code, host, text } = only(FRAMES['IronPort']!('550 "Unknown User"'))
    assert.deepEqual([code, text, host], [550, '550 "Unknown User"', 'gw.there.test'])
    const plain = only(dsn('Diagnostic-Code: smtp; 550 5.1.1 gone', 'X-Supplementary-Info: <x #5.0.0 smtp; 552 full>'))
    assert.equal(plain.text, '550 5.1.1 gone')
  })

  for (const frame of [
    'SMTP error from remote mail server after MAIL FROM:<x@bounce.here.test>:',
    'SMTP error from remote mail server after pipelined MAIL FROM:<x@bounce.here.test> SIZE=1:',
    'SMTP error from remote mail server after end of data:',
    'SMTP error from remote mail server after pipelined DATA:',
    'SMTP error from remote server for MAIL FROM command, host: mx.there.test (192.0.2.1) reason:',
    'Connected to 192.0.2.1 but sender was rejected. Remote host said:',
    '192.0.2.1 failed after I sent the message. Remote host said:',
  ])
    test(`a reply to another command is not about the recipient: ${frame}`, () => {
      const found = only(exim(frame, '550 5.1.1 User unknown'))
      assert.equal(about(found), false)
      assert.notEqual(classOf(found), 'hard')
    })

  test('reads a reply that quotes another one completely', () => {
    const reply = `550 5.1.1 <${BOB}>: Recipient address rejected: undeliverable address: host mx.b.test[192.0.2.2] said: 450 4.2.1 try later`
    assert.ok(only(dsn(`Diagnostic-Code: smtp; ${reply}`)).text.startsWith('550 5.1.1'))
    assert.equal(classOf(only(exim(`host mx.there.test[192.0.2.1] said: ${reply}`))), 'infrastructure')
  })
})

describe('bounces without a delivery status', () => {
  const words = `Delivery has failed to these recipients or groups:\n\n${BOB}\n550 5.1.1 RESOLVER.ADR.RecipNotFound; not found\n`
  const mixed = `Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\n${Buffer.from(`<p>${words.replaceAll('\n', '<br>')}</p>`).toString('base64')}\n--b\nContent-Type: message/rfc822\n\nSubject: Hello\n\n550 x\n--b--\n`
  const bounce = (from: string, more = '', body = `\n${words}`): string =>
    `${more}From: ${from}\nTo: x@bounce.here.test\nSubject: Undeliverable: Hello\nAuto-Submitted: auto-generated\n${body}`
  for (const from of [
    '"Microsoft Outlook" <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@there.test>',
    '<MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@there.test>',
    'System Administrator <noreply@there.test>',
    'Mailer Daemon <noreply@there.test>',
    '"Mail Delivery Service" <noreply@there.test>',
    '"Barracuda Email Security Gateway" <noreply@there.test>',
    'Domino Router <noreply@there.test>',
  ])
    for (const body of [`\n${words}`, mixed])
      test(`counts a bounce from ${from} in ${body === mixed ? 'HTML with the original' : 'text'}`, () => {
        assert.equal(classOf(only(bounce(from, '', body))), 'hard')
      })
  test('counts a bounce from any name with the null sender, or with a header that marks it', () => {
    for (const more of ['Return-Path: <>\n', 'X-MS-Exchange-Message-Is-Ndr: \n'])
      assert.equal(classOf(only(bounce('Postbote <nobody@there.test>', more))), 'hard')
    assert.deepEqual(read(bounce('Postbote <nobody@there.test>')), { kind: 'autoreply' })
    assert.equal(read(bounce('Postbote <nobody@there.test>'), true)?.kind, 'bounce')
    assert.equal(
      read(`From: ${BOB}\nSubject: Delivery failed?\n\nYour parcel: 550 5.1.1 user unknown\n`, true),
      undefined,
    )
  })
  const mail = `From: ${BOB}\nTo: x@bounce.here.test\nSubject: Re: Hello\n`
  for (const more of ['', 'Auto-Submitted: no\n', 'In-Reply-To: <1@here.test>\n'])
    test(`does not count a person's email with the null sender: ${JSON.stringify(more)}`, () => {
      for (const text of [words, `Delivery failed: mailbox unavailable.\n\n-----Original Message-----\n> ${words}`])
        for (const header of [`Return-Path: <>\n${mail}`, mail])
          assert.equal(read(`${header}${more}\n${text}`, true), undefined)
    })
  test("counts any server's bounce with the null sender that quotes or encloses the header of our email", () => {
    const quoted = `\n${words}\nReceived: from mx.here.test\nMessage-ID: <1@here.test>\n`
    const enclosed = (type: string): string => mixed.replace('message/rfc822', type)
    for (const body of [quoted, mixed, enclosed('text/rfc822-headers')])
      assert.equal(read(`${mail}${body}`, true)?.kind, 'bounce', body)
  })
  for (const answer of [
    'Auto-Submitted: auto-replied\nSubject: Undeliverable? I left',
    'Auto-Submitted: auto-generated\nX-Autoreply: yes\nSubject: Undeliverable: me',
    'Auto-Submitted: auto-generated\nX-Auto-Response-Suppress: All\nSubject: Abwesend',
    'Auto-Submitted: auto-generated (vacation)\nSubject: failure notice',
    'Auto-Submitted: auto-generated\nSubject: Automatic reply: failure notice',
  ])
    test(`does not count an answer with the null sender: ${JSON.stringify(answer)}`, () => {
      for (const nullSender of [false, true])
        assert.deepEqual(read(`Return-Path: <>\nFrom: ${BOB}\n${answer}\n\n${words}`, nullSender), {
          kind: 'autoreply',
        })
    })
})

test('does not suppress for "was undeliverable" from a gateway without a reason', () => {
  const text = 'The following message to <bob@there.test> was undeliverable.'
  assert.equal(classify({ stage: 'report', code: null, enhanced: '5.0.0', text }), 'policy')
  assert.equal(
    classify({ stage: 'report', code: 550, enhanced: null, text: '<bob@there.test> is undeliverable' }),
    'hard',
  )
})
