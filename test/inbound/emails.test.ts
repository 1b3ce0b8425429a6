// Received mail over the API and webhooks (specification "Inbound email", decisions D12, D13, D47, D48, D50, D51), come
// in over SMTP.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { createApp } from '../../src/http/server.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { verify, testReceiver } from '../kit/receiver.ts'
import { deliver, receive, type Sent } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { makeHook, rest } from '../webhooks/hooks.ts'
import { startScanner, type TestScanner } from './scanner.ts'

const LIMIT = 600_000

let scanner: TestScanner
let inbox: string

async function makeInbox(address: string): Promise<string> {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Box', address }))
  assert.equal(made.status, 201, JSON.stringify(made.body))
  return made.body.data.id
}

setUp(async () => void (scanner = await startScanner()))
const receiver = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    receiver,
    config: {
      inbound: { clamav: scanner.address, max_message_bytes: LIMIT },
    },
  }),
)
const domain = ofFile(() => postrider.activeDomain('example.org'))

setUp(async () => void (inbox = await makeInbox('box@example.org')))
after(() => scanner.close())
beforeEach(() => {
  scanner.answer = () => 'stream: OK'
})

const lines = (...each: string[]): string => each.join('\n')
const get = (path: string) => postrider.api('GET', path)
const attributesOf = async (id: string) => (await get(`/inbound-emails/${id}`)).body.data.attributes
/** The bytes of a download. */
const bytes = async (path: string): Promise<Buffer> => {
  const response = await createApp(postrider.appliance.deps).request(`/api/v1${path}`, {
    headers: { authorization: `Bearer ${postrider.token}` },
  })
  assert.equal(response.status, 200)
  return Buffer.from(await response.arrayBuffer())
}
/** Sends one message to the inbox and waits until it was read. All its attributes. */
async function received(message: string | Buffer, more: Partial<Sent> = {}) {
  const { id } = await receive(postrider, { to: 'box@example.org', message, ...more })
  return { id, ...(await attributesOf(id)) }
}

/** Sends one line after the other, without regard to the server's extensions. Returns the last reply. */
async function dictate(said: string[]): Promise<string> {
  const { host, port } = postrider.appliance.smtp[0]!
  const socket = connect(port, host).setEncoding('latin1')
  try {
    let reply = ''
    for await (const data of socket as AsyncIterable<string>) {
      reply += data
      if (!/^\d{3} .*\r\n$/m.test(reply)) continue
      const line = said.shift()
      if (line === undefined) return reply
      reply = ''
      socket.write(`${line}\r\n`)
    }
    throw new Error(`the server closed after ${reply}`)
  } finally {
    socket.destroy()
  }
}

describe('a received email', () => {
  const MAIL = lines(
    'Received: from elsewhere',
    'From: =?utf-8?q?J=C3=B6rg?= <joerg@there.test>',
    'To: "Box, the" <box@example.org>, Team: a@there.test, b@there.test;',
    'Cc: c@there.test',
    'Reply-To: answers@there.test',
    'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=',
    'Message-ID: <2@there.test>',
    'In-Reply-To: <1@there.test>',
    'References: <0@there.test>',
    ' <1@there.test>',
    'X-Spam-Status: Yes, score=99',
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
    '',
    '--b',
    'Content-Type: multipart/alternative; boundary=c',
    '',
    '--c',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'Grüße',
    '--c',
    'Content-Type: text/html; charset=utf-8',
    '',
    '<p>Grüße</p>',
    '--c--',
    '--b',
    'Content-Type: application/pdf; name=a.pdf',
    'Content-Disposition: attachment; filename=a.pdf',
    'Content-Transfer-Encoding: base64',
    '',
    'AAECAw==',
    '--b',
    'Content-Type: image/png',
    'Content-Disposition: inline',
    'Content-ID: <pic@there.test>',
    'Content-Transfer-Encoding: base64',
    '',
    'iVBORw==',
    '--b--',
    '',
  )

  test('shows everything the specification and D48 name', async () => {
    const { authentication, headers, id, size, ...mail } = await received(MAIL, {
      from: 'bounces@there.test',
      to: ['Box+Tag@example.org'],
    })
    assert.deepEqual(mail, {
      status: 'received',
      reason: null,
      sender: 'bounces@there.test',
      recipients: ['box+tag@example.org'],
      subject: 'Grüße',
      from: 'Jörg <joerg@there.test>',
      to: ['"Box, the" <box@example.org>', 'a@there.test', 'b@there.test'],
      cc: ['c@there.test'],
      reply_to: ['answers@there.test'],
      message_id: '<2@there.test>',
      in_reply_to: '<1@there.test>',
      references: ['<0@there.test>', '<1@there.test>'],
      text: 'Grüße',
      html: '<p>Grüße</p>',
      attachments: [
        {
          id: '1',
          filename: 'a.pdf',
          content_type: 'application/pdf',
          size: 4,
          content_id: null,
          disposition: 'attachment',
        },
        {
          id: '2',
          filename: null,
          content_type: 'image/png',
          size: 4,
          content_id: 'pic@there.test',
          disposition: 'inline',
        },
      ],
      received_at: '2026-01-15T12:00:00.000Z',
      created_at: '2026-01-15T12:00:00.000Z',
      updated_at: '2026-01-15T12:00:00.000Z',
    })
    assert.equal(size, Buffer.byteLength(MAIL.replaceAll('\n', '\r\n')))
    assert.deepEqual(Object.keys(authentication), ['spf', 'dkim', 'dmarc', 'arc'])
    assert.equal(headers['x-spam-status'], 'Yes, score=99')
    assert.equal(headers.subject, 'Grüße')
    assert.deepEqual(await bytes(`/inbound-emails/${id}/attachments/1`), Buffer.from([0, 1, 2, 3]))
    assert.deepEqual(await bytes(`/inbound-emails/${id}/attachments/2`), Buffer.from('iVBORw==', 'base64'))
    assert.equal((await get(`/inbound-emails/${id}/attachments/3`)).status, 404)
    assert.equal((await get(`/inbound-emails/${id}/attachments/01`)).status, 404)
    const raw = (await bytes(`/inbound-emails/${id}/raw`)).toString()
    assert.match(raw, /^Return-Path: <bounces@there\.test>\r\nAuthentication-Results: mx\.postrider\.test;/)
    assert.match(raw, /\r\nReceived: from client\.test \(\[127\.0\.0\.1\]\)[\s\S]*?\sby mx\.postrider\.test with ESMTP/)
    assert.ok(raw.endsWith(MAIL.replaceAll('\n', '\r\n')))
  })

  test('an email for two inboxes is one in each, with only its own address', async () => {
    const second = await makeInbox('second@example.org')
    const { id } = await receive(postrider, { to: ['box@example.org', 'second@example.org', 'second+x@example.org'] })
    const { message_id: _ } = await attributesOf(id)
    const [mine, ...more] = (await get(`/inbound-emails?inbox=${second}`)).body.data
    assert.deepEqual(more, [])
    assert.deepEqual(mine.attributes.recipients, ['second@example.org', 'second+x@example.org'])
    const [other] = (await get(`/inbound-emails?inbox=${inbox}`)).body.data
    assert.deepEqual(other.attributes.recipients, ['box@example.org'])
    // `for` would reveal the other's address.
    assert.doesNotMatch((await bytes(`/inbound-emails/${mine.id}/raw`)).toString().split('\r\n\r\n')[0]!, /for </)
  })

  test('a bounce has an empty sender', async () => {
    const mail = await received('From: MAILER-DAEMON@there.test\nSubject: Undelivered\n\nNo.\n', { from: '' })
    assert.equal(mail.sender, '')
    assert.equal(mail.status, 'received')
  })

  for (const [label, message] of Object.entries({
    'no data': '',
    'an empty line': '\n',
    'no body': 'Subject: only\n',
    'no header': '\nonly a body\n',
  }))
    test(`receives a message with ${label}`, async () => {
      const mail = await received(message)
      assert.equal(mail.status, 'received')
      assert.deepEqual([mail.from, mail.to, mail.message_id, mail.html, mail.attachments], [null, [], null, null, []])
      assert.equal(mail.text, message.includes('body') ? 'only a body\n' : null)
    })
})

describe('statuses (D47)', () => {
  test('virus_detected: body, attachments and raw are withheld, the header is shown', async () => {
    scanner.scanned.length = 0
    scanner.answer = () => 'stream: Win.Test.EICAR_HDB-1 FOUND'
    const message = lines(
      'From: ann@there.test',
      'Subject: Bad',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      '',
      'secret words',
      '--b',
      'Content-Type: application/pdf; name=bad.pdf',
      '',
      'bad',
      '--b--',
      '',
    )
    const mail = await received(message)
    // The scanner got the whole message unchanged.
    assert.deepEqual(
      scanner.scanned.map((each) => each.toString()),
      [message.replaceAll('\n', '\r\n')],
    )
    assert.equal(mail.status, 'virus_detected')
    assert.equal(mail.reason, 'Win.Test.EICAR_HDB-1')
    assert.equal(mail.subject, 'Bad')
    assert.deepEqual([mail.text, mail.html, mail.attachments], [null, null, []])
    assert.equal((await get(`/inbound-emails/${mail.id}/raw`)).status, 404)
    assert.equal((await get(`/inbound-emails/${mail.id}/attachments/1`)).status, 404)
    const shown = await get(`/inbound-emails/${mail.id}?include=inbox`)
    assert.ok(!JSON.stringify(shown.body).includes('secret words'))
  })

  test('a large message is scanned from the disk', async () => {
    scanner.scanned.length = 0
    const message = `Subject: large\n\n${'x'.repeat(70)}\n`.padEnd(500_000, `${'y'.repeat(70)}\n`)
    const mail = await received(message)
    assert.equal(mail.status, 'received')
    assert.equal(scanner.scanned[0]!.toString().trimEnd(), message.replaceAll('\n', '\r\n').trimEnd())
    assert.ok(
      (await bytes(`/inbound-emails/${mail.id}/raw`))
        .toString()
        .trimEnd()
        .endsWith(scanner.scanned[0]!.toString().trimEnd()),
    )
  })

  for (const [label, answer] of Object.entries({
    'an error': 'INSTREAM size limit exceeded. ERROR',
    'an invalid reply': 'stream: maybe',
  }))
    test(`defers a message if the scanner returns ${label}`, async () => {
      scanner.answer = () => answer
      const [verdict] = await deliver(postrider.appliance.smtp[0]!, { to: 'box@example.org' })
      assert.equal(verdict!.code, 451)
    })

  test('parse_rejected: the raw message and its header fields are kept', async () => {
    const nested = Array.from({ length: 40 }, (_, n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`)
    const message = `From: ann@there.test\nSubject: Deep\n${nested.join('')}\ncore\n`
    const mail = await received(message)
    assert.equal(mail.status, 'parse_rejected')
    assert.match(mail.reason, /nested/)
    assert.equal(mail.subject, 'Deep')
    assert.deepEqual([mail.text, mail.html, mail.attachments], [null, null, []])
    assert.ok((await bytes(`/inbound-emails/${mail.id}/raw`)).toString().endsWith(message.replaceAll('\n', '\r\n')))
  })

  test('parse_rejected: more than 1,000 fields, or a header over 256 KB', async () => {
    const many = `Subject: many\n${Array.from({ length: 10_000 }, (_, n) => `X-${n}: y\n`).join('')}\nbody\n`
    const first = await received(many)
    assert.equal(first.status, 'parse_rejected')
    assert.ok((await bytes(`/inbound-emails/${first.id}/raw`)).toString().endsWith(many.replaceAll('\n', '\r\n')))
    const long = `Subject: long\n${`X-Long: ${'z'.repeat(900)}\n`.repeat(500)}\nbody\n`
    const second = await received(long)
    assert.equal(second.status, 'parse_rejected')
    assert.ok((await bytes(`/inbound-emails/${second.id}/raw`)).toString().endsWith(long.replaceAll('\n', '\r\n')))
  })

  test('oversized: refused with 552, envelope and header are kept', async () => {
    const count = async () => (await get('/inbound-emails?filter[status]=oversized')).body.data.length
    assert.equal(await count(), 0)
    const body = `${'x'.repeat(70)}\r\n`.repeat(LIMIT / 70 + 1000)
    const reply = await dictate([
      'EHLO client.test',
      'MAIL FROM:<ann@there.test>',
      'RCPT TO:<box@example.org>',
      'DATA',
      `From: ann@there.test\r\nSubject: Big\r\n\r\n${body}.`,
    ])
    assert.match(reply, /^552 5\.3\.4 /)
    const { id } = await until(async () => (await get('/inbound-emails?filter[status]=oversized')).body.data[0])
    const mail = await attributesOf(id)
    assert.deepEqual([mail.status, mail.subject, mail.from], ['oversized', 'Big', 'ann@there.test'])
    assert.deepEqual([mail.sender, mail.recipients], ['ann@there.test', ['box@example.org']])
    assert.deepEqual([mail.text, mail.html, mail.attachments], [null, null, []])
    assert.ok(mail.size > LIMIT)
    const raw = (await bytes(`/inbound-emails/${id}/raw`)).toString()
    assert.ok(raw.endsWith('From: ann@there.test\r\nSubject: Big\r\n\r\n'))
  })
})

describe('downloads are inert', () => {
  const HOSTILE = {
    page: ['text/html', 'page.html'],
    picture: ['image/svg+xml', 'a.svg'],
    script: ['application/javascript', 'a.js'],
    path: ['text/html', '../../etc/passwd'],
    quotes: ['text/html', 'a\\"; filename=b.html; x=\\"'],
    unicode: ['text/html', 'a\u202Egnp.exe'],
    'type with parameters': ['text/html; charset=utf-7', 'x'],
    'invalid type': ['text', 'x'],
  }
  for (const [label, [type, name]] of Object.entries(HOSTILE))
    test(label, async () => {
      const mail = await received(
        lines(
          'Subject: x',
          `Content-Type: ${type}`,
          `Content-Disposition: attachment; filename="${name}"`,
          '',
          '<script>alert(1)</script>',
          '',
        ),
      )
      const { headers, status } = await get(`/inbound-emails/${mail.id}/attachments/1`)
      assert.equal(status, 200)
      assert.equal(headers.get('x-content-type-options'), 'nosniff')
      assert.match(headers.get('content-security-policy')!, /default-src 'none'.*sandbox|sandbox.*default-src 'none'/)
      assert.match(headers.get('content-type')!, /^[\w.+-]+\/[\w.+-]+$/)
      // RFC 8187: only safe characters, and one parameter.
      const [, encoded] = /^attachment; filename\*=utf-8''([\w.!#$&+^`|~%-]+)$/.exec(
        headers.get('content-disposition')!,
      )!
      assert.equal(decodeURIComponent(encoded!), mail.attachments[0].filename)
      assert.doesNotMatch(mail.attachments[0].filename, /[\r\n]/)
    })

  test('the raw message', async () => {
    const mail = await received('Content-Type: text/html\n\n<script>alert(1)</script>\n')
    const { headers } = await get(`/inbound-emails/${mail.id}/raw`)
    assert.equal(headers.get('content-type'), 'message/rfc822')
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.match(headers.get('content-security-policy')!, /sandbox/)
    assert.match(headers.get('content-disposition') ?? '', /^attachment/)
  })
})

describe('lists', () => {
  const ids = ({ body }: Answer): string[] => body.data.map(({ id }: { id: string }) => id)
  const made: string[] = []
  let own: string

  before(async () => {
    await received('Subject: in another inbox\n\nx\n')
    own = await makeInbox('lists@example.org')
    for (const subject of ['c', 'a', 'b']) {
      postrider.clock.leap(60_000)
      const message = `Subject: ${subject}\n\n${'long text '.repeat(1000)}\n`
      made.push((await receive(postrider, { to: 'lists@example.org', message })).id)
    }
  })

  test('of an inbox, in three ways, newest first', async () => {
    for (const list of [
      `/inbound-emails?inbox=${own}`,
      `/inbound-emails?filter[inbox]=${own}`,
      `/inboxes/${own}/inbound-emails`,
    ])
      assert.deepEqual(ids(await get(list)), made.toReversed(), list)
    const all = ids(await get('/inbound-emails?page[size]=100'))
    assert.deepEqual(all.slice(0, 3), made.toReversed())
    assert.ok(all.length > 3)
  })

  test('an unknown inbox, or one of another user, has no emails', async () => {
    const unknown = '019bc187-cc48-7852-9c78-000000000000'
    for (const id of [unknown, 'nonsense']) {
      assert.deepEqual(ids(await get(`/inbound-emails?inbox=${id}`)), [])
      assert.equal((await get(`/inboxes/${id}/inbound-emails`)).status, 404)
    }
    assert.deepEqual(ids(await postrider.asOther('GET', `/inbound-emails?inbox=${own}`)), [])
    assert.equal((await postrider.asOther('GET', `/inboxes/${own}/inbound-emails`)).status, 404)
  })

  test('sorted, filtered, included, in pages', async () => {
    const at = `/inbound-emails?inbox=${own}`
    const [c, a, b] = made
    assert.deepEqual(ids(await get(`${at}&sort=subject`)), [a, b, c])
    assert.deepEqual(ids(await get(`${at}&sort=-subject`)), [c, b, a])
    assert.deepEqual(ids(await get(`${at}&sort=received_at`)), made)
    assert.deepEqual(ids(await get(`${at}&sort=status,created_at`)), made)
    assert.deepEqual(ids(await get(`${at}&sort=updated_at`)), made)
    assert.deepEqual(ids(await get(`${at}&filter[status]=received`)), made.toReversed())
    assert.deepEqual(ids(await get(`${at}&filter[status]=oversized,virus_detected`)), [])
    const { body } = await get(
      `/inboxes/${own}/inbound-emails?include=inbox,inbox.domain&fields[inbound-emails]=subject,inbox`,
    )
    assert.deepEqual(body.data[0].attributes, { subject: 'b' })
    assert.deepEqual(body.included.map(({ id, type }: { id: string; type: string }) => [type, id]).toSorted(), [
      ['domains', domain.id],
      ['inboxes', own],
    ])
    const first = await get(`${at}&page[size]=2`)
    assert.deepEqual(ids(first), [b, a])
    const next = `${at}&page[size]=2&page[cursor]=${first.body.meta.next_cursor}`
    assert.deepEqual(ids(await get(next)), [c])
    assert.equal((await get(`${next}&sort=subject`)).status, 400)
    for (const query of [
      'sort=from',
      'filter[from]=x',
      'include=domain',
      'include=inbox.domain.x',
      'fields[domains]=name',
    ])
      assert.equal((await get(`${at}&${query}`)).status, 400, query)
  })

  test('lists omit headers and bodies, and show attachments', async () => {
    const [mail] = (await get(`/inbound-emails?inbox=${own}`)).body.data
    for (const name of ['headers', 'text', 'html']) assert.ok(!(name in mail.attributes), name)
    assert.deepEqual(mail.attributes.attachments, [])
    const shown = await attributesOf(mail.id)
    assert.match(shown.text, /^long text/)
    assert.equal(shown.headers.subject, 'b')
  })

  test('belong to inbound:read and to their owner', async () => {
    const [id] = made
    const paths = [
      '/inbound-emails',
      `/inbound-emails/${id}`,
      `/inbound-emails/${id}/raw`,
      `/inboxes/${own}/inbound-emails`,
    ]
    const scopes = { 'inbound:read': 200, 'domains:read': 403 } as const
    for (const [scope, status] of Object.entries(scopes)) {
      const token = await postrider.tokenFor(postrider.user, [scope as 'inbound:read'])
      for (const path of paths)
        assert.equal(
          (await postrider.api('GET', path, undefined, { authorization: `Bearer ${token}` })).status,
          status,
          path,
        )
    }
    for (const path of [...paths.slice(1, 3), `/inbound-emails/${id}/attachments/1`])
      assert.equal((await postrider.asOther('GET', path)).status, 404, path)
    for (const method of ['POST', 'PATCH', 'DELETE'])
      assert.equal((await postrider.api(method, `/inbound-emails/${id}`)).status, 405, method)
  })
})

describe('inbound_email.received (D50, D51)', () => {
  test('the event is sent to webhooks of its domain, with the fields of D50', async () => {
    const elsewhere = await postrider.activeDomain('elsewhere.example')
    const [hook, deaf, foreign] = [
      await makeHook(postrider, receiver, domain, ['inbound_email.received']),
      await makeHook(postrider, receiver, domain, ['email.sent']),
      await makeHook(postrider, receiver, elsewhere),
    ]
    const message = lines(
      'From: Ann <ann@there.test>',
      'To: box@example.org',
      'Subject: Hello',
      'Message-ID: <77@there.test>',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      '',
      'The text.',
      '--b',
      'Content-Type: application/pdf; name=a.pdf',
      '',
      'pdf',
      '--b--',
      '',
    )
    const mail = await received(message)
    const [request] = await hook.arrived(1)
    verify(request!, hook.secret, postrider.clock.now())
    const { data, timestamp, type } = JSON.parse(request!.body)
    assert.equal(type, 'inbound_email.received')
    assert.equal(timestamp, mail.created_at)
    assert.deepEqual(data, {
      inbound_email_id: mail.id,
      inbox_id: inbox,
      domain_id: domain.id,
      status: 'received',
      envelope: { from: 'ann@there.test', to: ['box@example.org'] },
      subject: 'Hello',
      from: 'Ann <ann@there.test>',
      to: ['box@example.org'],
      cc: [],
      reply_to: [],
      message_id: '<77@there.test>',
      in_reply_to: null,
      references: [],
      authentication: mail.authentication,
      attachments: [{ id: '1', filename: 'a.pdf', content_type: 'application/pdf', size: 3 }],
      size: mail.size,
      received_at: mail.received_at,
      text: 'The text.',
      truncated: false,
    })
    await rest(postrider)
    assert.equal(hook.requests().length, 1)
    assert.deepEqual([...deaf.requests(), ...foreign.requests()], [])
  })

  const dataOf = async (message: string | Buffer) => {
    const hook = await makeHook(postrider, receiver, domain, ['inbound_email.received'])
    await received(message)
    const [request] = await hook.arrived(1)
    assert.ok(Buffer.byteLength(request!.body) < 20_000, `${Buffer.byteLength(request!.body)} octets`)
    await postrider.api('DELETE', `/webhooks/${hook.id}`)
    return JSON.parse(request!.body).data
  }

  for (const [label, character] of Object.entries({
    ascii: 'x',
    'two bytes': 'ü',
    'three bytes': '€',
    'four bytes': '😀',
  }))
    test(`text over 8 KB is cut between characters of ${label}`, async () => {
      const whole = `${Array.from({ length: 400 }, () => character.repeat(30)).join('\n')}\n`
      const { text, truncated } = await dataOf(`Subject: x\nContent-Type: text/plain; charset=utf-8\n\n-${whole}`)
      assert.equal(truncated, true)
      assert.ok(`-${whole}`.startsWith(text))
      assert.ok(Buffer.byteLength(text) <= 8192)
      assert.ok(Buffer.byteLength(text) > 8192 - 5)
    })

  test('text of just 8 KB is whole', async () => {
    const whole = `${'x'.repeat(63)}\n`.repeat(128)
    const { text, truncated } = await dataOf(`Subject: x\n\n${whole}`)
    assert.equal(text.trimEnd(), whole.trimEnd())
    assert.equal(truncated, false)
  })

  /** So many characters of three bytes, folded. */
  const wide = (count: number): string => Array.from({ length: count / 100 }, () => '€'.repeat(100)).join('\n ')
  const LARGE: Record<string, string> = {
    'text with many escapes in JSON': `Subject: x\n\n${`${'"\\\u0001\u0002\t'.repeat(20)}\n`.repeat(200)}`,
    'header fields as long as they may be': lines(
      ...['Subject', 'From', 'Message-ID', 'In-Reply-To'].map((name) => `${name}: ${wide(600)}`),
      ...['To', 'Cc', 'Reply-To'].map((name) => `${name}: ${Array.from({ length: 20 }, () => wide(600)).join(',\n ')}`),
      `References: ${Array.from({ length: 50 }, (_, n) => `<${'"'.repeat(600)}${n}@there.test>`).join('\n ')}`,
      '',
      `${'€'.repeat(300)}\n`.repeat(30),
    ),
    'many attachments with long names': lines(
      'Subject: x',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      ...Array.from({ length: 25 }, () =>
        lines(
          '--b',
          `Content-Type: application/${'x'.repeat(600)}`,
          `Content-Disposition: attachment;\n filename="${wide(600)}"`,
          '',
          'x',
        ),
      ),
      '--b--',
      '',
    ),
  }
  for (const [label, message] of Object.entries(LARGE))
    test(`the event stays under 20 KB: ${label}`, async () => {
      const data = await dataOf(message)
      assert.equal(data.status, 'received')
    })

  test('the event of an email with a virus has no body', async () => {
    scanner.answer = () => 'stream: Eicar FOUND'
    const data = await dataOf('Subject: x\n\nsecret words\n')
    assert.deepEqual([data.status, data.text, data.attachments], ['virus_detected', '', []])
  })
})

describe('mail between local domains', () => {
  const send = async (to: string): Promise<string> => {
    const attributes = { from: 'ann@example.org', to, subject: 'To ourselves', html: '<p>x</p>' }
    const sent = await postrider.api('POST', '/outbound-emails', document('outbound-emails', attributes))
    assert.equal(sent.status, 201, JSON.stringify(sent.body))
    return sent.body.data.id
  }
  const settled = (id: string) =>
    until(async () => {
      const { attributes } = (await get(`/outbound-emails/${id}`)).body.data
      return attributes.status === 'queued' ? undefined : attributes
    }, 'the end')

  test('local email arrives via our own listener, signed, and an unknown mailbox bounces', async () => {
    postrider.dns.set('example.org', 'MX', ['10 mx.postrider.test'])
    const { recipients, status } = await settled(await send('box@example.org'))
    assert.equal(status, 'delivered')
    assert.deepEqual([recipients[0].smtp_code, recipients[0].remote_mta], [250, 'mx.postrider.test'])
    const mail = await until(
      async () =>
        (await get('/inbound-emails?page[size]=100')).body.data.find(
          (each: { attributes: { subject: string } }) => each.attributes.subject === 'To ourselves',
        ),
      'the mail in the inbox',
    )
    assert.equal((await attributesOf(mail.id)).authentication.dkim, 'pass')

    const lost = await settled(await send('nobody@example.org'))
    assert.deepEqual([lost.status, lost.recipients[0].smtp_code], ['bounced', 550])
  })

  test('an MX record of another domain that is this server is still a loop (RFC 5321 §5.1)', async () => {
    postrider.dns.set('astray.test', 'MX', ['10 mx.postrider.test'])
    const { recipients, status } = await settled(await send('ann@astray.test'))
    assert.deepEqual([status, recipients[0].enhanced_code], ['failed', '5.4.6'])
  })
})
