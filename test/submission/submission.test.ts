// Email that applications submit over SMTP (contract "SMTP submission", D75, D77), over real sockets and TLS into a
// real server and out to a receiving server: permissions, changes of the message, and every rejection with its code.
import assert from 'node:assert/strict'
import { isAscii } from 'node:buffer'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { simpleParser } from 'mailparser'
import { createTransport } from 'nodemailer'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { changeToken, createToken } from '../../src/users/tokens.ts'
import { pauseAgent } from '../../src/reputation/pauses.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { raw } from '../../src/store/query.ts'
import { Senders } from '../../src/submission/senders.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'
import { RawClient } from '../smtp/raw.ts'

const { become, receiver, show } = mailsOf(() => postrider)

const exchanger = testExchanger({ keywords: ['8BITMIME', 'SMTPUTF8', 'PIPELINING'] })
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    config: {
      submission: { listen: ['127.0.0.1:0'], tls_listen: ['127.0.0.1:0'], max_recipients: 5 },
      inbound: { max_message_bytes: '2MB' },
    },
    routes: ['there.test'],
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))

const ports = () => ({
  starttls: postrider.appliance.submission[0]!.port,
  tls: postrider.appliance.submissions[0]!.port,
})

const tokenWith = async (more: object = {}, scopes: ('emails:send' | 'emails:read')[] = ['emails:send']) =>
  createToken(postrider.appliance.deps, domain.user_key, { name: 'smtp', scopes, duration: '12_months', ...more })
const plain = (password: string): string => Buffer.from(`\0postrider\0${password}`).toString('base64')

/** A client on port 587 after STARTTLS and EHLO. */
async function secured(): Promise<RawClient> {
  const client = await RawClient.greeted(ports().starttls)
  await client.startTls()
  await client.ask('EHLO client.test')
  return client
}

async function signedIn(password = postrider.token): Promise<RawClient> {
  const client = await secured()
  assert.equal(await client.said(`AUTH PLAIN ${plain(password)}`), '235 2.7.0')
  return client
}

const HEADER = 'From: Shop <shop@here.test>\r\nTo: ada@there.test\r\nSubject: Order\r\n'

/** The reply to a message after its final dot. `to` are the recipients of the envelope. */
async function answered(
  message: string | Buffer,
  to: string[] = ['ada@there.test'],
  client?: RawClient,
): Promise<string> {
  const own = client ?? (await signedIn())
  const { code, text } = await sendBy(own, message, to)
  if (!client) own.destroy()
  return `${code} ${text}`
}

async function sendBy(
  client: RawClient,
  message: string | Buffer,
  to: string[],
): Promise<{ code: number; text: string }> {
  assert.equal((await client.ask('MAIL FROM:<anybody@elsewhere.test>')).code, 250)
  for (const each of to) {
    const reply = await client.ask(`RCPT TO:<${each}>`)
    if (reply.code !== 250) return reply
  }
  assert.equal((await client.ask('DATA')).code, 354)
  client.write(message)
  return client.ask('\r\n.')
}

const idOf = (answer: string): string => {
  assert.match(answer, /^250 2\.0\.0 Ok: queued as [0-9a-f-]{36}$/)
  return answer.slice(-36)
}
const arrived = (subject: string) =>
  until(() => exchanger.heard.find(({ message }) => message.includes(`Subject: ${subject}\r\n`)), subject)
const spooled = (): string[] => {
  const spool = join(postrider.dataDir, 'spool')
  return existsSync(spool) ? readdirSync(spool).filter((name) => name !== 'quarantine') : []
}

test('accepts email from nodemailer over implicit TLS and STARTTLS as an outbound email', async () => {
  for (const [name, port] of Object.entries(ports())) {
    const transport = createTransport({
      host: '127.0.0.1',
      port,
      secure: name === 'tls',
      requireTLS: true,
      auth: { user: 'whoever', pass: postrider.token },
      tls: { rejectUnauthorized: false },
    })
    const { response } = await transport.sendMail({
      from: '"Grüße" <shop@here.test>',
      to: 'Ada <ada@there.test>',
      cc: 'carl@there.test',
      bcc: 'ben@there.test',
      subject: `By ${name}`,
      html: '<p>Hällo</p>',
      text: 'Hällo',
      attachments: [{ filename: 'list.csv', content: 'a,b\n' }],
    })
    transport.close()
    const id = idOf(response)
    const shown = await become(id, 'delivered')
    const { from, to, cc, bcc, subject, html, text, attachments, message_id } = shown as Record<string, unknown>
    assert.deepEqual(
      { from, to, cc, bcc, subject, html, text },
      {
        from: '"Grüße" <shop@here.test>',
        to: '"Ada" <ada@there.test>',
        cc: ['carl@there.test'],
        bcc: ['ben@there.test'],
        subject: `By ${name}`,
        html: '<p>Hällo</p>',
        text: 'Hällo',
      },
    )
    assert.deepEqual(attachments, [
      { filename: 'list.csv', content_type: 'text/csv', content_id: null, disposition: 'attachment', size: 4 },
    ])
    assert.match(String(message_id), /^<.+>$/)
    const { message, to: envelope } = await arrived(`By ${name}`)
    assert.deepEqual(envelope.toSorted(), ['ada@there.test', 'ben@there.test', 'carl@there.test'])
    assert.doesNotMatch(message, /^Bcc:/im)
    assert.match(message, /^DKIM-Signature:[\s\S]*?d=here\.test/m)
  }
})

test('sends the message unchanged (field order, folding, 8-bit data, dots), except for removed and added fields', async () => {
  const body = 'caf\u00e9 \u2028 line\r\n.\r\n..two\r\n  \ttrailing \t\r\n\r\n\r\n'
  const fields =
    'X-Odd:  spaces  kept \r\nSUBJECT: Octets\r\nfrom: "a, b"\r\n <shop@here.test>\r\nReferences: <1@x.test>\r\n\t<2@x.test>\r\nReply-To: someone@elsewhere.test\r\n'
  const sent = Buffer.from(
    `Return-Path: <x@y.test>\r\nBcc: hidden@there.test\r\n${fields}X-Postrider-AI-Disclosure: yes\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n${body.replace(/^\./gm, '..')}`,
  )
  const client = await signedIn()
  const { code, text } = await sendBy(client, sent.subarray(0, -2), ['ada@there.test'])
  client.destroy()
  const id = idOf(`${code} ${text}`)
  await become(id, 'delivered')
  const { message } = await until(() => exchanger.heard.find((each) => each.message.includes('X-Odd:')))
  assert.ok(message.includes(fields), message)
  assert.ok(message.endsWith(`\r\n\r\n${body}`), JSON.stringify(message.slice(-80)))
  assert.doesNotMatch(message, /Return-Path|hidden@|X-Postrider/)
  for (const field of ['Date', 'Message-ID', 'MIME-Version', 'AI-Disclosure', 'Feedback-ID', 'CFBL-Address'])
    assert.equal([...message.matchAll(new RegExp(`^${field}:`, 'gim'))].length, 1, field)
  const shown = await show(id)
  assert.equal(shown['message_id'], `<${id}@here.test>`)
  assert.equal(shown['html'], null)
  assert.match(
    exchanger.commands.find((line) => line.includes('MAIL FROM') && line.includes('8BITMIME'))!,
    /BODY=8BITMIME/,
  )
})

test('accepts AUTH only over TLS and from a token with emails:send, and continues after an error', async () => {
  const clear = await RawClient.open(ports().starttls)
  await clear.reply()
  const { lines } = await clear.ask('EHLO client.test')
  assert.ok(lines.includes('STARTTLS') && !lines.some((line) => line.startsWith('AUTH')), lines.join())
  assert.equal(await clear.said(`AUTH PLAIN ${plain(postrider.token)}`), '538 5.7.11')
  assert.equal(await clear.said('MAIL FROM:<shop@here.test>'), '530 5.7.0')
  await clear.startTls()
  assert.ok((await clear.ask('EHLO client.test')).lines.includes('AUTH PLAIN LOGIN'))
  assert.equal(await clear.said('MAIL FROM:<shop@here.test>'), '530 5.7.0')
  assert.equal((await clear.ask('AUTH PLAIN !!!!')).code, 501)
  assert.equal((await clear.ask('AUTH CRAM-MD5')).code, 504)
  assert.equal((await clear.ask('STARTTLS')).code, 503)
  assert.equal((await clear.ask('AUTH LOGIN')).code, 334)
  assert.equal((await clear.ask(Buffer.from('anybody').toString('base64'))).code, 334)
  assert.equal(await clear.said(Buffer.from(postrider.token).toString('base64')), '235 2.7.0')
  assert.equal((await clear.ask(`AUTH PLAIN ${plain(postrider.token)}`)).code, 503)
  clear.destroy()
  // Both commands in one flight.
  const eager = await secured()
  eager.write(`AUTH PLAIN ${plain(postrider.token)}\r\nMAIL FROM:<shop@here.test>\r\n`)
  assert.deepEqual([(await eager.reply()).code, (await eager.reply()).code], [235, 250])
  eager.destroy()
})

test('answers 535 to invalid tokens with a growing delay, and rejects a revoked or expired one at the next command', async () => {
  const { appliance } = postrider
  const read = await tokenWith({}, ['emails:read'])
  const client = await secured()
  for (const password of ['pr_wrong', read.plaintext]) assert.match(await afterAWait(client, password), /^535 5\.7\.8/)
  client.destroy()
  const short = await tokenWith()
  const holder = await signedIn(short.plaintext)
  await appliance.deps.store.write((tx) => tx.run(raw('delete from tokens where id = ?', [short.token.id])))
  assert.equal(await holder.said('MAIL FROM:<shop@here.test>'), '530 5.7.0')
  holder.destroy()
})

test('rejects DATA before 354 if the token expired, was revoked, or lost its scope or subscription after RCPT (D77)', async () => {
  const { deps } = postrider.appliance
  const changes: Record<
    string,
    { gone: string; back?: string; parameter: (token: string) => string | number; code: string }
  > = {
    revoked: { gone: 'delete from tokens where id = ?', parameter: (token) => token, code: '530 5.7.0' },
    expired: { gone: 'update tokens set expires_at = 1 where id = ?', parameter: (token) => token, code: '530 5.7.0' },
    'without its scope': {
      gone: `update tokens set scopes = '["emails:read"]' where id = ?`,
      parameter: (token) => token,
      code: '530 5.7.0',
    },
    'of an account without a subscription': {
      gone: "update users set subscription_state = 'revoked' where key = ?",
      back: "update users set subscription_state = 'active' where key = ?",
      parameter: () => domain.user_key,
      code: '550 5.7.1',
    },
  }
  for (const [name, { back, code, gone, parameter }] of Object.entries(changes)) {
    const { plaintext, token } = await tokenWith()
    const client = await signedIn(plaintext)
    assert.equal((await client.ask('MAIL FROM:<a@here.test>')).code, 250)
    assert.equal((await client.ask('RCPT TO:<ada@there.test>')).code, 250)
    await deps.store.write((tx) => tx.run(raw(gone, [parameter(token.id)])))
    assert.equal(await client.said('DATA'), code, name)
    assert.equal(await client.said('RCPT TO:<bob@there.test>'), code, name)
    client.destroy()
    if (back !== undefined) await deps.store.write((tx) => tx.run(raw(back, [parameter(token.id)])))
  }
})

test('rejects DATA if the agent of the token was paused after RCPT, and accepts it once the agent is resumed (D77)', async () => {
  const { clock, store } = postrider.appliance.deps
  const pause = (paused: boolean) =>
    store.write((tx) => pauseAgent(tx, domain.user_key, 'courier', paused, clock.now()))
  const { plaintext } = await tokenWith({ agentId: 'courier' })
  const client = await signedIn(plaintext)
  assert.equal((await client.ask('MAIL FROM:<a@here.test>')).code, 250)
  assert.equal((await client.ask('RCPT TO:<ada@there.test>')).code, 250)
  await pause(true)
  assert.equal(await client.said('DATA'), '550 5.7.1')
  await pause(false)
  assert.equal((await client.ask('DATA')).code, 354)
  client.destroy()
})

test('reads "=" as an empty initial response (RFC 4954 §4): wrong credentials for PLAIN, an empty user name for LOGIN', async () => {
  const client = await secured()
  let answer: string | undefined
  void client.said('AUTH PLAIN =').then((said) => (answer = said))
  const refused = await until(() => {
    if (answer === undefined) postrider.clock.advance(100)
    return answer
  }, 'an answer')
  assert.equal(refused, '535 5.7.8')
  assert.equal((await client.ask('AUTH LOGIN =')).code, 334)
  assert.equal(await client.said(Buffer.from(postrider.token).toString('base64')), '235 2.7.0')
  client.destroy()
})

test('removes a DKIM-Signature of the sending domain with any selector, and keeps one of another domain (D123)', async () => {
  const signature = (d: string, s: string): string =>
    `DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=${d}; s=${s};\r\n h=from:subject; bh=eA==; b=eA==\r\n`
  const kept = signature('list.test', 'theirs') + signature('sub.here.test', 'below')
  const gone = signature('here.test', 'older') + signature('HERE.test', 'other')
  const message = `${gone}${kept}From: Shop <shop@here.test>\r\nTo: ada@there.test\r\nSubject: Signed before\r\n\r\nx`
  await become(idOf(await answered(message)), 'delivered')
  const { message: sent } = await arrived('Signed before')
  assert.ok(sent.includes(kept), sent)
  assert.doesNotMatch(sent, /s=(?:older|other);/)
  assert.equal([...sent.matchAll(/\bd=here\.test;/gi)].length, 1)
})

/** The reply to AUTH, while the clock is turned. */
async function afterAWait(client: RawClient, password: string): Promise<string> {
  let answer: string | undefined
  void client.said(`AUTH PLAIN ${plain(password)}`).then((said) => (answer = said))
  return until(() => {
    if (answer === undefined) postrider.clock.advance(100)
    return answer
  }, 'an answer')
}

test('delays the answer to each further wrong password from an IP address, up to 8 s, but not to a correct one', async () => {
  const { clock } = postrider
  const { log, rates, store } = postrider.appliance.deps
  const senders = new Senders({ store, clock, log, rates })
  for (const delay of [250, 500, 1000, 2000, 4000, 8000, 8000]) {
    let answered = false
    const answer = senders.login('pr_wrong', '192.0.2.1').finally(() => (answered = true))
    clock.advance(delay - 1)
    await turn()
    assert.equal(answered, false, `${delay}`)
    clock.advance(1)
    assert.deepEqual(Object.keys(await answer), ['code', 'text'])
  }
  assert.ok('who' in (await senders.login(postrider.token, '192.0.2.1')))
  const other = senders.login('pr_wrong', '192.0.2.2')
  clock.advance(250)
  assert.ok('code' in (await other))
})

test('requires exactly one From mailbox in an active domain of the user', async () => {
  const to = 'To: ada@there.test\r\n'
  for (const [header, expected] of [
    [`${to}Subject: x`, '554 5.6.0 The header has no From'],
    [`From: a@here.test\r\nFrom: b@here.test\r\n${to}`, '554 5.6.0 The header has several From'],
    [`From: a@here.test, b@here.test\r\n${to}`, '554 5.6.0 The From field must contain exactly one mailbox'],
    [`From: Us: a@here.test;\r\n${to}`, '554 5.6.0'],
    [`From: <@x.test:a@here.test>\r\n${to}`, '554 5.6.0'],
    [`From: a@here.test (Ann)\r\n${to}`, '554 5.6.0'],
    [`From: <a@here.test> <b@evil.test>\r\n${to}`, '554 5.6.0'],
    [`From: ceo@bank.test <a@here.test>\r\n${to}`, '554 5.6.0'],
    [` From: a@here.test\r\n${to}`, '554 5.6.0 The header has a line that is not a field'],
    [`From : a@here.test\r\nfrom: b@evil.test\r\n${to}`, '554 5.6.0 The header has several From'],
    [`From: a@elsewhere.test\r\n${to}`, '550 5.7.1 You have no sending domain elsewhere.test'],
    [`From: a@sub.here.test\r\n${to}`, '550 5.7.1 You have no sending domain sub.here.test'],
    [`From: a@here.test\r\nSender: b@evil.test\r\n${to}`, '554 5.6.0 The Sender field'],
    [
      `From: a@here.test\r\nSender: b@here.test\r\nSender: c@here.test\r\n${to}`,
      '554 5.6.0 The header has several Sender',
    ],
    [`From: a@here.test\r\nX-Postrider-Colour: red\r\n${to}`, '554 5.5.4 Unknown field x-postrider-colour'],
    [`From: a@here.test\r\nX-Postrider-Track-Opens: perhaps\r\n${to}`, '554 5.5.4 The field x-postrider-track-opens'],
    [`From: a@here.test\r\nX-Postrider-Track-Opens: yes\r\n${to}`, '554 5.5.4 "track_opens" cannot be true'],
  ] as const) {
    const answer = await answered(`${header}\r\n\r\nHello`)
    assert.ok(answer.startsWith(expected), `${JSON.stringify(header)}: ${answer}`)
  }
  const pending = await postrider.api('POST', '/domains', document('domains', { name: 'later.test', purpose: 'both' }))
  assert.equal(pending.status, 201)
  assert.match(await answered(`From: a@later.test\r\n${to}\r\nHello`), /^550 5\.7\.1 The domain later\.test is pending/)
  await postrider.api('DELETE', `/domains/${pending.body.data.id}`)
  assert.deepEqual(spooled(), [])
})

test('rejects a NUL byte and a message over the size limit, in one chunk or many', async () => {
  assert.match(await answered(`${HEADER}\r\na\0b`), /^554 5\.6\.0 The message contains a NUL byte/)
  assert.match(await answered(`${HEADER}\r\n${'x'.repeat(998)}`), /^250 /)
  assert.match(await answered(`${HEADER}\r\n${`${'x'.repeat(70)}\r\n`.repeat(30_000)}`), /^552 5\.3\.4/)
  const client = await signedIn()
  assert.match((await client.ask('MAIL FROM:<shop@here.test> SIZE=3000000')).text, /^5\.3\.4/, 'announced')
  client.destroy()
  assert.deepEqual(spooled(), [])
})

test('re-encodes a part with a line over 998 bytes, and rejects such a line in a signed part or a header', async () => {
  for (const [subject, type, length] of [
    ['Long text', 'text/plain; charset=utf-8', 5000],
    ['Long file', 'application/octet-stream', 400_000],
  ] as const) {
    const line = 'x'.repeat(length)
    const id = idOf(await answered(`${HEADER.replace('Order', subject)}Content-Type: ${type}\r\n\r\n${line}`))
    await become(id, 'delivered')
    const { message } = await arrived(subject)
    assert.ok(message.split('\r\n').every((each) => each.length <= 998))
    const [, encoding] = /^Content-Transfer-Encoding: (.+)\r$/im.exec(message) ?? []
    const body = message.slice(message.indexOf('\r\n\r\n') + 4)
    const read = encoding === 'base64' ? Buffer.from(body, 'base64').toString() : body.replaceAll('=\r\n', '').trimEnd()
    assert.equal(read, line)
  }
  const quoted = `${HEADER.replace('Order', 'Long quoted')}Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n`
  const words = 'Gr=C3=BC=C3=9Fe =3D '.repeat(200)
  await become(idOf(await answered(`${quoted}${words}x\r\nshort`)), 'delivered')
  const { message: folded } = await arrived('Long quoted')
  assert.ok(folded.split('\r\n').every((each) => each.length <= 998))
  assert.equal(
    folded
      .slice(folded.indexOf('\r\n\r\n') + 4)
      .replaceAll('=\r\n', '')
      .trimEnd(),
    `${words}x\r\nshort`,
  )
  const signed = 'Content-Type: multipart/signed; boundary=b\r\n\r\n--b\r\n\r\n'
  assert.match(await answered(`${HEADER}${signed}${'x'.repeat(2000)}\r\n--b--`), /^554 5\.6\.0 Line 8 of the message/)
  assert.match(await answered(`${HEADER}X-Long: ${'x'.repeat(2000)}\r\n\r\nHello`), /^554 5\.6\.0 Line 4/)
})

test('re-encodes the message to 7 bits for a server without 8BITMIME, and bounces one with its own signature', async () => {
  exchanger.script = { keywords: ['PIPELINING'] }
  const head = 'Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n'
  const text = '--b\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\nGrüße\r\n'
  receiver('narrow.test')
  const id = idOf(
    await answered(`${HEADER.replace('Order', 'Narrow')}${head}${text}--b\r\n\r\nplain\r\n--b--`, ['a@narrow.test']),
  )
  await become(id, 'delivered')
  const { message } = await arrived('Narrow')
  // oxlint-disable-next-line no-control-regex
  assert.match(message, /^[\0-\x7f]*$/)
  assert.match(
    message,
    /Content-Transfer-Encoding: 7bit[\s\S]*quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe\r\n--b\r\n\r\nplain\r\n--b--/,
  )
  const signed = idOf(
    await answered(`${HEADER}Content-Type: multipart/signed; boundary=b\r\n\r\n${text}--b--`, ['b@narrow.test']),
  )
  const { recipients } = await become(signed, 'bounced')
  assert.equal(recipients[0]!.enhanced_code, '5.6.3')
  assert.match(recipients[0]!.response!, /the message is signed, so it cannot be re-encoded/)
  // A multipart that has no parts may not be encoded (RFC 2045 §6.4).
  const whole = idOf(await answered(`${HEADER}Content-Type: multipart/mixed\r\n\r\nGrüße`, ['c@narrow.test']))
  const unfit = await become(whole, 'bounced')
  assert.match(unfit.recipients[0]!.response!, /a part has a type that must not be encoded/)
  exchanger.script = { keywords: ['8BITMIME', 'SMTPUTF8', 'PIPELINING'] }
})

test('turns raw UTF-8 in the header into signed encoded words for a receiving server without SMTPUTF8', async () => {
  receiver('ascii.test')
  for (const keywords of [['8BITMIME', 'PIPELINING'], ['PIPELINING']]) {
    exchanger.script = { keywords }
    const subject = `gr\u00fc\u00dfe ${keywords.length}`
    const header = `From: Gr\u00fc\u00dfe K\u00f6ln <shop@here.test>\r\nTo: "\u00c4da, B." <a@ascii.test>, b@ascii.test (G\u00fcnter)\r\nSubject: ${subject}\r\nX-Note: \u2713 ok\r\n`
    const count = exchanger.heard.length
    const id = idOf(await answered(`${header}\r\nHello`, ['a@ascii.test']))
    await become(id, 'delivered')
    const { message } = exchanger.heard[count]!
    assert.ok(isAscii(Buffer.from(message)))
    const { from, headers, subject: shown, to } = await simpleParser(message)
    assert.equal(shown, subject)
    assert.deepEqual(from!.value, [{ name: 'Gr\u00fc\u00dfe K\u00f6ln', address: 'shop@here.test' }])
    assert.equal([to!].flat()[0]!.value[0]!.name, '\u00c4da, B.')
    assert.equal(headers.get('x-note'), '=?UTF-8?Q?=E2=9C=93_ok?=')
  }
  const wide = idOf(await answered(`${HEADER}References: <gr\u00fc\u00dfe@x.test>\r\n\r\nHello`, ['a@ascii.test']))
  const { recipients } = await become(wide, 'bounced')
  assert.equal(recipients[0]!.enhanced_code, '5.6.9')
  assert.match(recipients[0]!.response!, /an address or identifier in a header has no ASCII form/)
  exchanger.script = { keywords: ['8BITMIME', 'SMTPUTF8', 'PIPELINING'] }
})

test('stores a large message in the spool and sends it unchanged', async () => {
  const lines = `${'y'.repeat(76)}\r\n`.repeat(8000)
  const id = idOf(await answered(`${HEADER.replace('Order', 'Large')}\r\n${lines}.`.replace(/^\.$/m, '')))
  await become(id, 'delivered')
  assert.ok((await arrived('Large')).message.includes(lines))
})

const PROGRAM = 'Content-Type: application/octet-stream; name="a.exe"\r\n\r\nMZ\r\n'

test('rejects MIME beyond the limits, which could hide an executable: 554 5.6.0', async () => {
  const mixed = `${HEADER}Content-Type: multipart/mixed; boundary=b\r\n\r\n`
  const many = Array.from({ length: 501 }, () => '--b\r\n\r\nx\r\n').join('')
  assert.match(
    await answered(`${mixed}${many}--b\r\n${PROGRAM}--b--`),
    /^554 5\.6\.0 The message cannot be read as MIME\. It has more than 500 parts\./,
  )
  const deep = Array.from(
    { length: 34 },
    (_, level) => `Content-Type: multipart/mixed; boundary=b${level}z\r\n\r\n--b${level}z\r\n`,
  ).join('')
  assert.match(await answered(`${HEADER}${deep}${PROGRAM}`), /^554 5\.6\.0 [^\r]*nested more than 32 deep/)
})

test('rejects an executable attachment with 554 5.7.0, even with a disguised name', async () => {
  const file = (name: string, octets: string): string =>
    `${HEADER}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: application/pdf\r\nContent-Disposition: attachment; filename="${name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n${Buffer.from(octets).toString('base64')}\r\n--b--`
  assert.match(await answered(file('invoice.exe', 'hello')), /^554 5\.7\.0 "invoice\.exe" has a file type/)
  assert.match(await answered(file('invoice.pdf', 'MZ\x90\0')), /^554 5\.7\.0 "invoice\.pdf" is a Windows program/)
  assert.match(await answered(file('invoice.pdf', '%PDF-1.4')), /^250 /)
  const part = (header: string, body = 'echo'): string =>
    `${HEADER}Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee the file.\r\n--b\r\n${header}\r\n\r\n${body}\r\n--b--`
  for (const header of [
    'Content-Type: text/plain; name="a.bat"\r\nContent-Disposition: inline; filename="a.bat"',
    'Content-Type: text/plain; name="a.bat"',
    'Content-Type: text/html; name=a.hta',
  ])
    assert.match(await answered(part(header)), /^554 5\.7\.0 "a\.(?:bat|hta)" has a file type/, header)
  assert.match(
    await answered(part('Content-Type: text/plain; name=a.txt', '#!/bin/sh')),
    /^554 5\.7\.0 "a\.txt" is a script/,
  )
})

test('assigns roles to recipients, drops duplicates, limits their number, and rejects suppressed ones at RCPT or at the final dot', async () => {
  const id = idOf(
    await answered('From: a@here.test\r\nTo: Zoe <zoe@there.test>\r\nCc: "C" <c@there.test>\r\n\r\nx', [
      'b@there.test',
      'C@there.test',
      'zoe@there.test',
      'B@there.test',
    ]),
  )
  const { bcc, cc, recipients, to } = (await become(id, 'delivered')) as unknown as Record<string, unknown>
  assert.deepEqual([to, cc, bcc], ['"Zoe" <zoe@there.test>', ['"C" <c@there.test>'], ['B@there.test']])
  assert.equal((recipients as unknown[]).length, 3)
  const client = await signedIn()
  await client.ask('MAIL FROM:<>')
  assert.equal(await client.said('RCPT TO:<ann@there>'), '553 5.1.3')
  for (const name of ['a', 'b', 'c', 'd', 'e'])
    assert.equal((await client.ask(`RCPT TO:<${name}@there.test>`)).code, 250)
  assert.equal(await client.said('RCPT TO:<f@there.test>'), '452 4.5.3')
  await client.ask('RSET')
  await postrider.appliance.deps.store.write((tx) =>
    suppress(
      tx,
      {
        user_key: domain.user_key,
        domain_key: domain.key,
        address: 'no@there.test',
        reason: 'manual',
        source: 'manual',
        scope: 'all',
      },
      postrider.clock.now(),
    ),
  )
  // One active domain: known at RCPT.
  assert.match(
    await answered(`${HEADER}\r\nx`, ['no@there.test']),
    /^550 5\.7\.1 no@there\.test is suppressed on here\.test: added manually/,
  )
  const second = await postrider.activeDomain('second.test')
  assert.match(
    await answered(`${HEADER}\r\nx`, ['ada@there.test', 'no@there.test']),
    /^550 5\.7\.1 no@there\.test is suppressed/,
  )
  await client.ask('MAIL FROM:<x@here.test>')
  assert.equal(await client.said('RCPT TO:<no@there.test>'), '550 5.7.1', 'the return path determines the domain')
  client.destroy()
  await postrider.api('DELETE', `/domains/${second.id}`)
})

test('treats a repeat within 24 hours as the same email, and one with other recipients as a new one', async () => {
  const message = `Message-ID: <lost-250@here.test>\r\n${HEADER}\r\nOnce`
  const first = idOf(await answered(message))
  assert.equal(idOf(await answered(message)), first)
  assert.notEqual(idOf(await answered(message, ['eve@there.test'])), first)
  assert.equal((await show(first))['message_id'], '<lost-250@here.test>')
  postrider.clock.leap(23 * HOUR)
  assert.equal(idOf(await answered(message)), first)
  postrider.clock.leap(2 * HOUR)
  assert.notEqual(idOf(await answered(message)), first)
  const keyed = `Idempotency-Key: order-7\r\n${HEADER}\r\n`
  const one = idOf(await answered(`${keyed}Keyed`))
  assert.equal(idOf(await answered(`${keyed}Keyed`)), one)
  assert.match(await answered(`${keyed}Different`), /^554 5\.5\.4 This idempotency_key was used/)
  assert.equal((await show(one))['idempotency_key'], 'order-7')
})

test('stores no second file for a repeated large message', async () => {
  const message = `Message-ID: <large-once@here.test>\r\n${HEADER}\r\n${`${'z'.repeat(76)}\r\n`.repeat(8000)}`
  const first = idOf(await answered(message))
  const files = spooled()
  assert.equal(idOf(await answered(message)), first)
  assert.deepEqual(spooled(), files)
})

test('sends only as the agent of the token (D117), and enforces its daily recipient limit, even at the API', async () => {
  const { deps } = postrider.appliance
  const { plaintext, token } = await tokenWith({ agentId: 'printer', daily: 3 })
  const by = async (message: string, to?: string[]): Promise<string> => {
    const client = await signedIn(plaintext)
    const answer = await answered(message, to, client)
    client.destroy()
    return answer
  }
  assert.equal((await show(idOf(await by(`${HEADER}\r\nx`))))['agent_id'], 'printer')
  assert.equal((await show(idOf(await by(`X-Postrider-Agent: printer\r\n${HEADER}\r\nx`))))['agent_id'], 'printer')
  assert.match(
    await by(`X-Postrider-Agent: other\r\n${HEADER}\r\nx`),
    /^554 5\.6\.0 This token can only send as the agent printer\./,
  )
  assert.match(
    await by(`${HEADER}\r\nx`, ['a@there.test', 'b@there.test']),
    /^452 4\.2\.2 The token smtp may send to 3 recipients per day\. 2 are used, .* The daily limit resets at \d{4}-\d\d-\d\dT00:00:00/,
  )
  const post = () =>
    postrider.raw('/api/v1/outbound-emails', {
      method: 'POST',
      headers: { authorization: `Bearer ${plaintext}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify(
        document('outbound-emails', { from: 'a@here.test', to: 'ada@there.test', subject: 's', html: 'x' }),
      ),
    })
  const posted = await post()
  assert.equal(posted.status, 201)
  assert.equal(posted.body.data.attributes.agent_id, 'printer')
  const [refused] = (await post()).body.errors
  assert.equal(refused.code, 'volume_exceeded')
  assert.match(refused.title, /daily limit of the token/)
  assert.match(refused.detail, /The token smtp may send to 3 .* The daily limit resets at \d{4}-\d\d-\d\dT00:00:00/)
  await changeToken(deps, token.id, { daily: 4 })
  assert.match(await by(`${HEADER}\r\nx`), /^250 /)
  assert.match(await by(`${HEADER}\r\nx`), /^452 4\.2\.2/)
  postrider.clock.leap(DAY)
  assert.match(await by(`${HEADER}\r\nx`), /^250 /)
})

test('stores the text of a message once, returns it, and erases it with the message', async () => {
  const secret = `secret ${'of the house '.repeat(20)}`
  const id = idOf(
    await answered(
      `${HEADER.replace('Order', 'Stored once').replace('ada', 'eve')}Content-Type: text/plain\r\n\r\nFor eve@there.test: ${secret}\r\n`,
      ['eve@there.test'],
    ),
  )
  await become(id, 'delivered')
  const { store } = postrider.appliance.deps
  const bodies = (): string[] =>
    store
      .all(
        raw<{ content: string }>(
          'select b.content from outbound_bodies b join outbound_emails e on e.key = b.email_key where e.id = ?',
          [id],
        ),
      )
      .map(({ content }) => content)
  const [content] = bodies()
  assert.equal(content!.split(secret.trim()).length, 2, 'once')
  assert.match(String((await show(id))['text']), new RegExp(`^For eve@there\\.test: ${secret.trim()}`))
  assert.equal((await postrider.api('DELETE', `/recipients/eve@there.test/forget`)).status, 202)
  await until(() => bodies().length === 0, 'the body is erased')
  assert.equal((await show(id))['text'], null)
})

test('adds tracking to the HTML part, and the DKIM signature still verifies', async () => {
  const tracked = { open_tracking_enabled: true, click_tracking_enabled: true }
  await postrider.api('PATCH', `/domains/${domain.id}`, document('domains', tracked, { id: domain.id }))
  const page = '<p>Grüße <a href="https://shop.test/">here</a></p>'
  for (const [encoding, body] of [
    ['8bit', page] as const,
    ['quoted-printable', page.replaceAll('=', '=3D').replace('ü', '=C3=BC').replace('ß', '=C3=9F')] as const,
    ['base64', Buffer.from(page).toString('base64')] as const,
  ]) {
    const subject = `Tracked ${encoding}`
    const id = idOf(
      await answered(
        `${HEADER.replace('Order', subject)}Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${body}`,
      ),
    )
    await become(id, 'delivered')
    const { message } = await arrived(subject)
    const text = message.slice(message.indexOf('\r\n\r\n') + 4)
    const read =
      encoding === 'base64'
        ? Buffer.from(text, 'base64').toString()
        : encoding === '8bit'
          ? text
          : Buffer.from(
              text
                .replaceAll('=\r\n', '')
                .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
              'latin1',
            ).toString()
    assert.match(read, /Grüße <a href="http[^"]+\/t\/c\//, encoding)
    assert.match(read, /<img src="http[^"]+\/t\/o\//, encoding)
  }
  const off = idOf(
    await answered(
      `${HEADER.replace('Order', 'Untracked')}X-Postrider-Track-Opens: no\r\nX-Postrider-Track-Clicks: no\r\nContent-Type: text/html\r\n\r\n<p>x</p>`,
    ),
  )
  await become(off, 'delivered')
  assert.ok((await arrived('Untracked')).message.endsWith('<p>x</p>\r\n'))
  const sealed =
    'Content-Type: multipart/signed; boundary=b; micalg=pgp-sha256\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>x</p>\r\n--b--'
  await become(idOf(await answered(`${HEADER.replace('Order', 'Sealed')}${sealed}`)), 'delivered')
  assert.ok((await arrived('Sealed')).message.endsWith(`${sealed.split('\r\n\r\n').slice(1).join('\r\n\r\n')}\r\n`))
})

test('signs every email so that an independent verifier accepts it', async () => {
  const keys = postrider.appliance.deps.store.all(
    raw<{ selector: string; public_key: string }>('select selector, public_key from dkim_keys'),
  )
  const resolver = async (name: string): Promise<string[][]> => {
    const key = keys.find(({ selector }) => name.startsWith(`${selector}.`))
    return key ? [[`v=DKIM1; k=rsa; p=${key.public_key}`]] : []
  }
  const client = await signedIn()
  const message = 'From: shop@here.test\r\nSubject: Signed\r\n\r\nHello.'
  const { code, text } = await sendBy(client, Buffer.from(message), ['ada@there.test'])
  client.destroy()
  await become(idOf(`${code} ${text}`), 'delivered')
  for (const { message: heard } of exchanger.heard) {
    const { results } = await dkimVerify(Buffer.from(heard), { resolver, minBitLength: 512 })
    // Signatures of other domains were sent on as they came. Their keys are not here.
    const verdicts = results
      .filter(({ signingDomain }) => signingDomain === 'here.test')
      .map(({ status }) => status.result)
    assert.deepEqual(verdicts, ['pass'], heard.slice(0, 2000))
  }
})
