// Bounces in the formats of many servers, old and new, modelled on real ones: the recipient of each, and its meaning
// for the address (D35, D63). Each is about bob@there.test.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { wordsOf } from '../../src/message/bounce-text.ts'
import { parseTree } from '../../src/message/mime-tree.ts'
import { readReport, type Report } from '../../src/message/report.ts'
import { classify, type BounceClass } from '../../src/smtp/bounce-class.ts'

/** Only reports that delivery was given up after five days of deferrals. */
const UNSEEN = ['rfc3464-36.eml']

const read = (message: string): Report | undefined => {
  const bytes = Buffer.from(message)
  return readReport(bytes, parseTree(bytes))
}

interface Form {
  from: string
  subject: string
  more?: string
  means: BounceClass | 'notification'
  body: string
}

const COPY = `Return-Path: <abcdefghijklmnopqrstuvwxyz@bounce.here.test>
Received: from mx.here.test by mx.there.test; Thu, 1 Jan 2026 00:00:00 +0000
From: Ann <ann@here.test>
To: bob@there.test
Subject: Hello

550 5.1.1 carl@elsewhere.test User unknown
`

/** A body of parts: words, and our mail behind them. */
const mixed = (words: string, type = 'multipart/mixed'): { more: string; body: string } => ({
  more: `MIME-Version: 1.0\nContent-Type: ${type}; boundary="b"`,
  body: `--b\nContent-Type: text/plain; charset=utf-8\n\n${words}\n--b\nContent-Type: message/rfc822\n\n${COPY}\n--b--\n`,
})

const FORMS: Record<string, Form> = {
  'OpenSMTPD 5': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification',
    means: 'hard',
    ...mixed(`    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this e-mail.

    An error has occurred while attempting to deliver a message.

bob@there.test: 550 Invalid recipient

    Below is a copy of the original message:
`),
  },
  'OpenSMTPD 5, in plain text': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification: error',
    means: 'quota',
    body: `    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

bob@there.test: 550 5.2.2 <bob@there.test>... Mailbox Full

    Below is a copy of the original message:

${COPY}`,
  },
  'OpenSMTPD 5, of a domain that is gone': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification: error',
    means: 'hard',
    body: `    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

bob@there.test: Domain does not exist

    Below is a copy of the original message:
`,
  },
  'OpenSMTPD 5, our mail in the copy speaks of success': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification: error',
    means: 'hard',
    body: `    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this e-mail.

    An error has occurred while attempting to deliver a message for
    the following list of recipients:

bob@there.test: 550 5.1.1 No such user

    Below is a copy of the original message:

List-Id: <orders.here.test>
Subject: Delayed: your order

It was successfully delivered.
`,
  },
  'OpenSMTPD 4, recipient and reason': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery attempt failed',
    means: 'hard',
    body: `    Hi !

    This is the MAILER-DAEMON, please DO NOT REPLY to this e-mail it is
    just a notification to let you know that an error has occured.

Recipient: bob@there.test
Reason:
550 5.1.1 No such user

    Below is a copy of your message:

DKIM-Signature: v=1; d=here.test
Subject: Hello
`,
  },
  'OpenSMTPD 5, not allowed': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification: error',
    means: 'policy',
    body: `    Hi!

    You are not allowed to send a message to the following
    list of recipients:

bob@there.test: 550 5.7.1 Access denied
`,
  },
  'Exim, the copy begins without a line that says so': {
    from: 'Mail Delivery System <Mailer-Daemon@mx.there.test>',
    subject: 'Mail delivery failed: returning message to sender',
    means: 'hard',
    body: `A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  bob@there.test
    550 5.1.1 No such user

DKIM-Signature: v=1; d=here.test
Subject: Your order

Your order was successfully delivered.
`,
  },
  McAfee: {
    from: '<MAILER-DAEMON@gateway.there.test>',
    subject: 'Delivery Status',
    means: 'hard',
    body: `    --- The following addresses had delivery problems ---

<bob@there.test>   (Unknown user bob@there.test)
`,
  },
  'PowerMTA, its words alone': {
    from: 'postmaster@mta.there.test',
    subject: 'Delivery report',
    means: 'hard',
    body: `Hello, this is the mail server on mta.there.test.

  <bob@there.test>  delivery failed; will not continue trying
550 5.1.1 User unknown
`,
  },
  'Exchange, its words alone, in French': {
    from: '<postmaster@there.test>',
    subject: 'Non remis : Hello',
    means: 'hard',
    body: `Échec de la remise pour ces destinataires ou groupes :

bob@there.test
550 5.1.1 RESOLVER.ADR.RecipNotFound; not found
`,
  },
  'OpenSMTPD, a warning': {
    from: 'Mailer Daemon <MAILER-DAEMON@mx.there.test>',
    subject: 'Delivery status notification: warning',
    means: 'notification',
    body: `    Hi!

    This is the MAILER-DAEMON, please DO NOT REPLY to this email.

    A message is delayed for more than 4 hours for the following
    list of recipients:

bob@there.test: 450 4.2.1 Mailbox busy

    Please note that this is only a temporary failure report.
    The message is kept in the queue for up to 4 days.
    You DO NOT NEED to re-send the message to these recipients.
`,
  },
  Exim: {
    from: 'Mail Delivery System <Mailer-Daemon@mx.there.test>',
    subject: 'Mail delivery failed: returning message to sender',
    more: 'X-Failed-Recipients: bob@there.test\nAuto-Submitted: auto-replied',
    means: 'hard',
    body: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  bob@there.test
    SMTP error from remote mail server after RCPT TO:<bob@there.test>:
    host mx4.there.test [192.0.2.4]: 550 Requested action not taken:
    mailbox unavailable

------ This is a copy of the message, including all the headers. ------

${COPY}`,
  },
  'Exim, refused after MAIL FROM': {
    from: 'Mail Delivery System <Mailer-Daemon@mx.there.test>',
    subject: 'Mail delivery failed: returning message to sender',
    more: 'X-Failed-Recipients: bob@there.test\nAuto-Submitted: auto-replied',
    means: 'policy',
    body: `A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  bob@there.test
    SMTP error from remote mail server after MAIL FROM:<x@bounce.here.test>:
    host mx4.there.test [192.0.2.4]: 550 5.1.1 User unknown
`,
  },
  'qmail in three languages': {
    from: 'MAILER-DAEMON@postino.there.test',
    subject: 'failure notice',
    means: 'hard',
    ...mixed(`(postino.there.test)
Su mensaje no pudo ser entregado - Sua mensagem nao pode ser enviada - Your message could not be delivered.

<bob@there.test>:
Sorry, no mailbox here by that name. (#5.1.1)

--- Mensaje original adjunto.
`),
  },
  'Yahoo, old': {
    from: 'MAILER-DAEMON@yahoo.test',
    subject: 'Delivery failure',
    means: 'hard',
    body: `Message from  yahoo.test.
Unable to deliver message to the following address(es).

<bob@there.test>:
This user doesn't have a there.test account (bob@there.test) [0]

--- Original message follows.

${COPY}`,
  },
  Yahoo: {
    from: 'MAILER-DAEMON@yahoo.test',
    subject: 'Failure Notice',
    means: 'hard',
    body: `Sorry, we were unable to deliver your message to the following address.

<bob@there.test>:
Remote host said: 550 5.1.1 <bob@there.test>... User Unknown [RCPT_TO]

--- Below this line is a copy of the message.

${COPY}`,
  },
  AOL: {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.test>',
    subject: 'Mail Delivery Problem',
    means: 'hard',
    body: `Your mail to the following recipients could not be delivered because they are not accepting mail from anyone or do not exist:

        bob

-- AOL
   <bob@there.test>
    550 MAILBOX NOT FOUND
`,
  },
  'AOL, Sendmail of the nineties': {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.test>',
    subject: 'Returned mail: User unknown',
    means: 'hard',
    body: `The original message was received at Thu, 1 Jan 2026 00:00:00 GMT

   ----- The following addresses had permanent fatal errors -----
<bob@there.test>

   ----- Transcript of session follows -----
... while talking to air.mail.aol.test.:
>>> RCPT To:<bob@there.test>
<<< 550 MAILBOX NOT FOUND
550 <bob@there.test>... User unknown
`,
  },
  Sina: {
    from: 'MAILER-DAEMON@sina.test',
    subject: '=?UTF-8?B?57O757uf6YCA5L+h?=',
    means: 'hard',
    ...mixed(`您好，您发送的邮件未能投递到以下收件人：

收件人地址：
<bob@there.test>

退信原因：
Remote host said: 550 User not found: bob@there.test
`),
  },
  'NetEase (163, 126)': {
    from: 'Postmaster@163.test',
    subject: '=?UTF-8?B?57O757uf6YCA5L+h?=/Systems bounce',
    means: 'hard',
    ...mixed(`抱歉，您的邮件被退回来了……
原邮件信息：
主　题：Hello
收件人：bob@there.test
退信原因：收件人邮件地址（bob@there.test）不存在，邮件无法送达。 host there.test said: SMTP error, RCPT TO: 550 User not found: bob@there.test
`),
  },
  QQ: {
    from: 'PostMaster@qq.test',
    subject: '=?UTF-8?B?5p2l6IeqcXEuY29t55qE6YCA5L+h?=',
    means: 'hard',
    ...mixed(`抱歉，您的邮件被退回来了……
收件人：bob@there.test
退信原因：host mx3.qq.test[192.0.2.3] said: 550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1&&id=20022
`),
  },
  Zoho: {
    from: 'mailer-daemon@mail.zoho.test',
    subject: 'Undelivered Mail Returned to Sender',
    more: 'X-ZohoMail: Si CHF_MF_NL SS_10 UW48 UB48 FMWL UW48 UB48',
    means: 'hard',
    body: `This message was created automatically by mail delivery software.
 A message that you sent could not be delivered to one or more of its recipients. This is a permanent error.

bob@there.test Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 <bob@there.test>... User Unknown

Received:from [192.0.2.1] by mail.zoho.test
`,
  },
  GMX: {
    from: 'GMX Mailer Daemon <mailer-daemon@gmx.test>',
    subject: 'Mail delivery failed: returning message to sender',
    more: 'X-GMX-Antispam: 0 (Mail was not recognized as spam); Detail=V3;',
    means: 'hard',
    body: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of
its recipients. This is a permanent error. The following address
failed:

"bob@there.test":
SMTP error from remote server after RCPT command:
host: mx.there.test
5.1.1 <bob@there.test>... User Unknown

--- The header of the original message is following. ---

${COPY}`,
  },
  'Sun Messaging Server, its words alone': {
    from: 'Internet Mail Delivery <postmaster@mr21.there.test>',
    subject: 'Delivery Notification: Delivery has failed',
    means: 'hard',
    body: `This report relates to a message you sent with the following header fields:

  Message-id: <1@here.test>
  Date: Thu, 1 Jan 2026 00:00:00 +0000
  From: Ann <ann@here.test>
  To: bob@there.test
  Subject: Hello

Your message cannot be delivered to the following recipients:

  Recipient address: bob@there.test
  Reason: Remote SMTP server has rejected address
  Diagnostic code: smtp;550 5.1.1 <bob@there.test>... User Unknown
  Remote system: dns;mx.there.test (TCP|192.0.2.7|47323|192.0.2.225|25)
`,
  },
  'Apache James': {
    from: 'postmaster@james.there.test',
    subject: '[BOUNCE]',
    means: 'hard',
    ...mixed(`Hi. This is the James mail server at james.there.test.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

Error message below:
550 5.1.1 <bob@there.test>... User Unknown

Message details:
  Subject: Hello
  Sent date: Thu Jan 01 00:00:00 UTC 2026
  MAIL FROM: x@bounce.here.test
  RCPT TO: bob@there.test
  From: Ann <ann@here.test>
  To: bob@there.test
  Size (in bytes): 1024
`),
  },
  MailMarshal: {
    from: 'postmaster@gw.there.test',
    subject: 'Undeliverable Mail: "Hello"',
    means: 'hard',
    body: `Your message:
   From:    ann@here.test
   Subject: Hello

Could not be delivered because of

550 5.1.1 User unknown

The following recipients were affected:
    bob@there.test

Additional Information
======================
Original Sender:    <x@bounce.here.test>
`,
  },
  'a gateway that had trouble': {
    from: 'postmaster@gw.there.test',
    subject: 'There was an error sending your mail',
    means: 'hard',
    body: `We had trouble delivering your message. Full details follow:

Subject: 'Hello'
Date: 'Thu, 1 Jan 2026 00:00:00 +0000'

1 error(s):

SMTP Server <mta2.there.test> rejected recipient <bob@there.test>
  (Error following RCPT command). It responded as follows: [550 5.1.1 User unknown]

The attachment contains the original mail headers.
`,
  },
  'Gmail, old': {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.test>',
    subject: 'Delivery Status Notification (Failure)',
    more: 'X-Failed-Recipients: bob@there.test\nAuto-Submitted: auto-replied',
    means: 'hard',
    body: `Delivery to the following recipient failed permanently:

     bob@there.test

Technical details of permanent failure:
Google tried to deliver your message, but it was rejected by the recipient domain. We recommend contacting the other email provider for further information about the cause of this error. The error that the other server returned was: 550 550 5.1.1 <bob@there.test>... User Unknown (state 14).

----- Original message -----

${COPY}`,
  },
  'Gmail, a delay': {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.test>',
    subject: 'Delivery Status Notification (Delay)',
    means: 'notification',
    body: `This is an automatically generated Delivery Status Notification

THIS IS A WARNING MESSAGE ONLY.

YOU DO NOT NEED TO RESEND YOUR MESSAGE.

Delivery to the following recipient has been delayed:

     bob@there.test

Message will be retried for 2 more day(s)
`,
  },
  Biglobe: {
    from: 'postmaster@biglobe.test',
    subject: 'Returned mail: User unknown',
    means: 'hard',
    ...mixed(`   ----- The following addresses had delivery problems -----
bob@there.test

   ----- Non-delivered information -----
Mail Delivery Failed... User unknown
`),
  },
  MailFoundry: {
    from: 'MAILER-DAEMON@mf.there.test',
    subject: 'Message delivery has failed',
    means: 'hard',
    ...mixed(`Unable to deliver message to: <bob@there.test>
Delivery failed for the following reason:
Server mx22.there.test[192.0.2.222] failed with: 550 <bob@there.test> No such user here

This has been a permanent failure.  No further delivery attempts will be made.
`),
  },
  'T-Online': {
    from: 'Mail Delivery System <Mailer-Daemon@t-online.test>',
    subject: 'mail failed, returning to sender',
    means: 'quota',
    body: `|------------------------- Message log follows: -------------------------|
 no valid recipients were found for this message
|------------------------- Failed addresses follow: ---------------------|
 <bob@there.test>
   552 5.2.2 <bob@there.test> Quota exceeded (mailbox for user is full)

|------------------------- Message header follows: ----------------------|
${COPY}`,
  },
  Smail: {
    from: '<MAILER-DAEMON@mx.there.test>',
    subject: 'mail failed, returning to sender',
    means: 'hard',
    body: `|------------------------- Message log follows: -------------------------|
 no valid recipients were found for this message
|------------------------- Failed addresses follow: ---------------------|
 bob@there.test ... unknown host
|------------------------- Message text follows: ------------------------|
${COPY}`,
  },
  Courier: {
    from: '"Courier mail server at mx.there.test" <@mx.there.test>',
    subject: 'NOTICE: mail delivery status.',
    means: 'hard',
    ...mixed(`This is a delivery status notification from mx.there.test,
running the Courier mail server, version 1.0.

The original message was received on Thu, 1 Jan 2026 00:00:00 +0000
from mx.here.test (mx.here.test [192.0.2.1])

---------------------------------------------------------------------------

                           UNDELIVERABLE MAIL

Your message to the following recipients cannot be delivered:

<bob@there.test>:
    mx.there.test [192.0.2.9]:
>>> RCPT TO:<bob@there.test>
<<< 550 User unknown.

---------------------------------------------------------------------------
`),
  },
  'Exchange 5.5': {
    from: 'System Administrator <postmaster@exchange.there.test>',
    subject: 'Undeliverable: Hello',
    means: 'hard',
    body: `Your message

  To:      bob@there.test
  Subject: Hello
  Sent:    Thu, 1 Jan 2026 00:00:00 -0000

did not reach the following recipient(s):

bob@there.test on Thu, 1 Jan 2026 00:00:00 -0000
    The recipient name is not recognized
	The MTS-ID of the original message is: c=us;a= ;p=there;l=MAIL
    MSEXCH:IMS:THERE:MAIL:SERVER 0 (000C05A6) Unknown Recipient
`,
  },
  Domino: {
    from: 'MAILER-DAEMON@domino.there.test',
    subject: 'DELIVERY FAILURE: User bob (bob@there.test) not listed in Domino Directory',
    means: 'hard',
    ...mixed(`Your message

  Subject: Hello

was not delivered to:

  bob@there.test

because:

  User bob (bob@there.test) not listed in Domino Directory
`),
  },
  GroupWise: {
    from: 'Mailer-Daemon@gw.there.test',
    subject: 'Message status - undeliverable',
    means: 'hard',
    body: `The message that you sent was undeliverable to the following:
	bob@there.test (user not found)

Possibly truncated original message follows:

${COPY}`,
  },
  IMail: {
    from: 'Postmaster <postmaster@imail.there.test>',
    subject: 'Undeliverable Mail',
    means: 'hard',
    body: `Unknown user: bob@there.test

Original message follows.

${COPY}`,
  },
  InterMail: {
    from: 'Mail Administrator <Postmaster@intermail.there.test>',
    subject: 'Mail System Error - Returned Mail',
    means: 'quota',
    ...mixed(`This Message was undeliverable due to the following reason:

The user(s) account is temporarily over quota.

<bob@there.test>

Please reply to Postmaster@intermail.there.test
if you feel this message to be in error.
`),
  },
  CommuniGate: {
    from: '<MAILER-DAEMON@cgp.there.test>',
    subject: 'Undeliverable mail: Hello',
    means: 'hard',
    ...mixed(`Failed to deliver to 'bob@there.test'
SMTP module(domain there.test) reports:
 host mx.there.test says:
 550 5.1.1 <bob@there.test>... User unknown
`),
  },
  MDaemon: {
    from: 'MDaemon@mdaemon.there.test',
    subject: 'Permanent Delivery Failure',
    means: 'hard',
    ...mixed(`--- Session Transcript ---
 Thu 2026-01-01 00:00:00: --> RCPT To:<bob@there.test>
 Thu 2026-01-01 00:00:00: <-- 550 <bob@there.test>, Recipient unknown
--- End Transcript ---

The following message could not be delivered.
 Failed address: bob@there.test
`),
  },
  'in German': {
    from: 'Mail Delivery System <MAILER-DAEMON@mx.there.test>',
    subject: 'Unzustellbar: Hello',
    more: 'Auto-Submitted: auto-replied',
    means: 'hard',
    body: `Ihre Nachricht konnte nicht zugestellt werden an:

<bob@there.test>: Empfänger unbekannt (550 5.1.1)
`,
  },
}

const EML = join(
  process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url)),
  'bounces/handover/eml',
)
const skip = existsSync(EML) ? false : `no corpus at ${EML}; set POSTRIDER_CORPORA`

test('recognises real reports by their text without machine-readable fields (D63)', { skip }, () => {
  const unseen = readdirSync(EML).filter((name) => {
    const bytes = Buffer.from(readFileSync(join(EML, name), 'latin1').replace(/\r?\n/g, '\r\n'), 'latin1')
    const tree = parseTree(bytes)
    const words = wordsOf(bytes, tree).filter(
      (line) => !/^(?:[A-Z][a-z]+-){1,2}[A-Z]\w+:|^(?:Action|Status):/i.test(line),
    )
    if (readReport(bytes, tree)?.kind !== 'bounce' || words.filter((line) => line.trim() !== '').length < 2)
      return false
    const header = tree.fields
      .filter(({ name: field }) => !/^(?:content-|mime-|return-path|auto-sub|x-failed)/i.test(field))
      .map(({ name: field, value }) => `${field}: ${value.replace(/\r?\n/g, ' ')}`)
    return read([...header, '', ...words].join('\r\n'))?.kind !== 'bounce'
  })
  assert.deepEqual(unseen, UNSEEN)
})

describe('free-text bounces by server', () => {
  for (const [name, { body, from, means, more, subject }] of Object.entries(FORMS))
    test(name, () => {
      const report = read(
        [
          'Return-Path: <>',
          `From: ${from}`,
          'To: abcdefghijklmnopqrstuvwxyz@bounce.here.test',
          `Subject: ${subject}`,
          ...(more === undefined ? [] : [more]),
          '',
          body,
        ].join('\n'),
      )
      if (means === 'notification') return assert.equal(report?.kind, 'notification')
      assert.equal(report?.kind, 'bounce')
      const [only, ...others] = report.recipients
      assert.deepEqual([only!.address, others], ['bob@there.test', []], JSON.stringify(report))
      const { code, status, text } = only!
      assert.equal(classify({ stage: 'report', code, enhanced: status, text }), means, text)
    })
})
