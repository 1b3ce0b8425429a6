// Mail from real senders into inboxes: Postfix, swaks, smtp-source and Python deliver to the listener, receiving
// servers return bounce messages, and a real clamd scans for viruses. Postrider runs as a child process with a
// configuration file.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { EICAR, EICAR_NAME, missingClamd, privateClamd, type Clamd } from './rig/clamd.ts'
import { inject, missingSwaks, smtplib, smtpSource, swaks } from './rig/clients.ts'
import { ALL_PASS, fields, verdicts } from './rig/letter.ts'
import { withPrograms } from './rig/need.ts'
import { missing, receivingPostfix, relayingPostfix } from './rig/postfix.ts'
import type { ReceivingPostfix, RelayingPostfix } from './rig/postfix.ts'
import { startPostrider, type Received, type RunningPostrider } from './rig/postrider.ts'
import { freePort, Sandbox, until } from './rig/sandbox.ts'

const HOSTNAME = 'mx.postrider.example'
const DOMAIN = 'shop.example'
const SENDER = 'sender.example'

/** Ends parts in their order, whatever the one before did. */
async function end(...parts: (() => Promise<unknown> | undefined)[]): Promise<void> {
  const failures: unknown[] = []
  for (const part of parts) await part()?.catch((error: unknown) => failures.push(error))
  if (failures.length > 0) throw failures[0]
}

/** A message with CRLF line ends. */
const letter = (id: string, body: string, ...header: string[]): Buffer =>
  Buffer.from(
    [
      `From: Ann <ann@${SENDER}>`,
      `To: box@${DOMAIN}`,
      `Subject: ${id}`,
      'Date: Mon, 2 Nov 2026 10:00:00 +0000',
      `Message-ID: <${id}@${SENDER}>`,
      ...(header.length > 0 ? header : ['MIME-Version: 1.0', 'Content-Type: text/plain; charset=utf-8']),
      '',
      ...body.split('\n'),
      '',
    ].join('\r\n'),
  )

/** Waits until so many mails lie in an inbox; throws when there are more. */
async function arrived(postrider: RunningPostrider, inbox: string, count: number): Promise<Received[]> {
  let mails: Received[] = []
  await until(
    async () => (mails = await postrider.received(inbox)).length >= count,
    20_000,
    () => `${mails.length} of ${count} mails:\n${postrider.log().slice(-3000)}`,
  )
  assert.equal(mails.length, count)
  return mails
}

const rawOf = (postrider: RunningPostrider, { id }: Received): Promise<Buffer> =>
  postrider.download(`/inbound-emails/${id}/raw`)

/**
 * A Postfix that passes all it is given to one port, over TLS, on one connection that it keeps, and tries again at
 * once.
 */
const passing = (port: number): Promise<RelayingPostfix> =>
  relayingPostfix({
    sinkPort: port,
    signDomain: SENDER,
    settings: {
      smtp_tls_security_level: 'encrypt',
      smtp_tls_loglevel: 1,
      smtp_tls_connection_reuse: 'yes',
      smtp_connection_cache_destinations: '[127.0.0.1]',
      initial_destination_concurrency: 1,
      smtp_destination_concurrency_limit: 1,
      // Postfix breaks lines that are longer than the standard allows, unless told not to.
      smtp_line_length_limit: 0,
      queue_run_delay: '1s',
      minimal_backoff_time: '1s',
      maximal_backoff_time: '1s',
    },
  }).start()

withPrograms('mail from real senders', [...missing(), ...missingSwaks()], () => {
  let dns: TestDns
  let postrider: RunningPostrider
  let postfix: RelayingPostfix
  let boxes = 0

  before(async () => {
    dns = await startTestDns()
    postrider = await startPostrider({ dns, hostname: HOSTNAME, deliveryPort: await freePort() })
    await postrider.sendingDomain(DOMAIN)
    postfix = await passing(postrider.smtpPort)
    dns.set(`${postfix.key.selector}._domainkey.${SENDER}`, 'TXT', [postfix.key.record])
    dns.set(SENDER, 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
    dns.set(`_dmarc.${SENDER}`, 'TXT', ['v=DMARC1; p=reject'])
  })
  after(() =>
    end(
      () => postfix?.stop(),
      () => postrider?.stop(),
      () => dns?.close(),
    ),
  )

  /** A fresh inbox: its address and id. */
  const freshBox = async (): Promise<[address: string, id: string]> => {
    const address = `box${++boxes}@${DOMAIN}`
    return [address, await postrider.inbox(address)]
  }

  describe('Postfix, over TLS', () => {
    const BODIES: Record<string, string> = {
      '7bit': 'Plain words.\n\nAnd more of them.',
      '8bit': 'Grüße aus Köln, 日本語, and a wide space\u3000here.',
      'long lines': `${'x'.repeat(998)}\n${'y'.repeat(5000)}\n${'ü'.repeat(3000)}`,
      dots: '.\n..\n...\n.hidden\n. \nend.\n.',
      'no text at all': '',
      'four bytes around every block': Array.from({ length: 300 }, (_, n) => '.'.repeat((n % 7) + 1)).join('\n'),
      'a megabyte': `${'A line as people write them, again and again.\n'.repeat(23_000)}.`,
    }
    let mails: Map<string, [sent: Buffer, received: Received, raw: Buffer]>

    before(async () => {
      const [address, box] = await freshBox()
      const sent = Object.entries(BODIES).map(([name, body], index) => [name, letter(`m${index}`, body)] as const)
      const letters = sent.map(([, message]) => message)
      for (const reply of await inject(postfix.port, `ann@${SENDER}`, address, letters)) assert.match(reply, /^250 /)
      const received = await arrived(postrider, box, sent.length)
      mails = new Map()
      for (const [index, [name, message]] of sent.entries()) {
        const mail = received.find(({ message_id }) => message_id === `<m${index}@${SENDER}>`)
        assert.ok(mail, name)
        mails.set(name, [message, mail, await rawOf(postrider, mail)])
      }
    })

    for (const name of Object.keys(BODIES))
      test(`${name}: the download ends with the sent bytes, and three verifiers pass its signature`, async () => {
        const [sent, mail, raw] = mails.get(name)!
        // In front of it stand our trace fields and those of Postfix, which signed.
        assert.ok(raw.subarray(-sent.length).equals(sent), raw.subarray(-sent.length).toString('latin1').slice(0, 2000))
        assert.equal(mail.status, 'received')
        assert.equal(mail.sender, `ann@${SENDER}`)
        assert.deepEqual(await verdicts(raw, postfix.key, dns), ALL_PASS)
      })

    test('the trace fields of this server come first: the sender, the verdicts, and TLS', () => {
      const [, mail, raw] = mails.get('7bit')!
      const [first, second, third] = raw.toString('latin1').split(/\r\n(?![ \t])/)
      assert.equal(first, `Return-Path: <ann@${SENDER}>`)
      assert.match(second!, new RegExp(`^Authentication-Results: ${HOSTNAME};`))
      assert.match(third!, /^Received: from relay\.sender\.example \(\[127\.0\.0\.1\]\)\s+\(using TLSv1\.3 /)
      assert.match(third!, /with ESMTPS id /)
      assert.equal(fields(raw, 'Received').length, 2)
      assert.deepEqual(mail.authentication, { spf: 'pass', dkim: 'pass', dmarc: 'pass', arc: 'none' })
    })

    test('twenty messages on one connection arrive once each', async () => {
      const [address, box] = await freshBox()
      const before = postfix.log().length
      const sent = Array.from({ length: 20 }, (_, n) => letter(`one${n}`, `Message ${n}`))
      await inject(postfix.port, `ann@${SENDER}`, address, sent)
      const mails = await arrived(postrider, box, 20)
      assert.equal(new Set(mails.map(({ message_id }) => message_id)).size, 20)
      const uses = [
        ...postfix
          .log()
          .slice(before)
          .matchAll(/conn_use=(\d+)/g),
      ].map(([, use]) => Number(use))
      assert.ok(Math.max(0, ...uses) >= 10, `connections were used ${uses.join(', ')} times`)
    })
  })

  describe('swaks', () => {
    test('STARTTLS and pipelining keep the bytes of an attachment', async () => {
      const [address, box] = await freshBox()
      const sandbox = new Sandbox('swaks')
      try {
        const bytes = Buffer.from(Array.from({ length: 100_000 }, (_, n) => (n * 7 + (n >> 8)) % 256))
        const file = sandbox.write('picture.bin', bytes)
        const whom = ['--tls', '--pipeline', '--from', `ann@${SENDER}`, '--to', address]
        const text = ['--header', 'Subject: With a file', '--body', 'See what is attached.']
        const what = ['--attach-name', 'picture.bin', '--attach-type', 'image/x-test', '--attach', `@${file}`]
        const { code, output } = await swaks(postrider.smtpPort, ...whom, ...text, ...what)
        assert.equal(code, 0, output)
        const [mail] = await arrived(postrider, box, 1)
        assert.equal(mail!.subject, 'With a file')
        const [attachment] = mail!.attachments
        assert.equal(attachment!.filename, 'picture.bin')
        assert.equal(attachment!.content_type, 'image/x-test')
        const path = `/inbound-emails/${mail!.id}/attachments/${attachment!.id}`
        assert.ok(bytes.equals(await postrider.download(path)))
        assert.match(fields(await rawOf(postrider, mail!), 'Received')[0]!, /using TLSv1\.[23]/)
      } finally {
        await sandbox.close()
      }
    })

    test('rejects an unknown mailbox and a foreign domain at RCPT', async () => {
      const to = async (address: string) =>
        (await swaks(postrider.smtpPort, '--from', `ann@${SENDER}`, '--to', address, '--quit-after', 'RCPT')).output
      assert.match(await to(`nobody@${DOMAIN}`), /^550 5\.1\.1 /m)
      assert.match(await to('bob@elsewhere.example'), /^554 5\.7\.1 /m)
    })
  })

  test('accepts addresses and header fields in UTF-8 from Python’s smtplib with SMTPUTF8', async () => {
    const [address, box] = await freshBox()
    const sent = letter('utf8', 'Hällo.', 'X-Note: 日本語', 'Content-Type: text/plain; charset=utf-8')
    const options = ['SMTPUTF8', 'BODY=8BITMIME']
    const { code, output } = await smtplib(postrider.smtpPort, `ähre@${SENDER}`, address, sent, options)
    assert.equal(code, 0, output)
    const [mail] = await arrived(postrider, box, 1)
    assert.equal(mail!.sender, `ähre@${SENDER}`)
    const raw = await rawOf(postrider, mail!)
    assert.ok(raw.subarray(-sent.length).equals(sent))
    assert.match(fields(raw, 'Received')[0]!, /with UTF8SMTP id /)
  })

  test('400 messages in forty concurrent sessions of smtp-source arrive once each', async () => {
    const [address, box] = await freshBox()
    const load = ['-s', '20', '-m', '200', '-l', '4096', '-f', `ann@${SENDER}`, '-t', address]
    const ends = await Promise.all([
      smtpSource(postrider.smtpPort, ...load),
      smtpSource(postrider.smtpPort, '-d', ...load),
    ])
    for (const { code, output } of ends) assert.equal(code, 0, output)
    const mails = await arrived(postrider, box, 400)
    assert.equal(new Set(mails.map(({ message_id }) => message_id)).size, 400)
    for (const mail of mails) assert.equal(mail.status, 'received')
  })
})

withPrograms('bounce messages', missing(), () => {
  let dns: TestDns
  let postrider: RunningPostrider
  let refusing: ReceivingPostfix
  let accepting: ReceivingPostfix
  let unlisted: ReceivingPostfix

  before(async () => {
    dns = await startTestDns()
    const port = await freePort()
    postrider = await startPostrider({ dns, hostname: HOSTNAME, deliveryPort: port })
    await postrider.sendingDomain(DOMAIN)
    refusing = await receivingPostfix({
      domains: ['late.example'],
      tls: false,
      rejectUsers: { nobody: '550 5.1.1 No such user here' },
    }).start()
    const home = `{ bounce.${DOMAIN} = smtp:[127.0.0.1]:${postrider.smtpPort} }`
    accepting = await receivingPostfix({
      domains: ['late.example'],
      listen: { port },
      settings: {
        virtual_mailbox_domains: '',
        relay_domains: 'late.example, slow.example',
        // Nobody listens on the first port: mail for it waits, and its sender is told so.
        transport_maps: `inline:{ { slow.example = smtp:[127.0.0.1]:1 }, { late.example = smtp:[127.0.0.1]:${refusing.port} }, ${home} }`,
        smtp_dns_support_level: 'disabled',
        delay_warning_time: '1s',
        queue_run_delay: '1s',
        minimal_backoff_time: '1s',
        maximal_backoff_time: '1s',
      },
    }).start()
    unlisted = await receivingPostfix({
      domains: ['unlisted.example'],
      listen: { address: '127.0.0.2', port },
      settings: {
        virtual_mailbox_maps: 'inline:{ { known@unlisted.example = box/ } }',
        smtpd_reject_unlisted_recipient: 'no',
        transport_maps: `inline:{ ${home} }`,
        smtp_dns_support_level: 'disabled',
      },
    }).start()
    for (const [domain, address] of [
      ['late.example', '127.0.0.1'],
      ['slow.example', '127.0.0.1'],
      ['unlisted.example', '127.0.0.2'],
    ] as const) {
      dns.set(domain, 'MX', [`10 mx.${domain}`])
      dns.set(`mx.${domain}`, 'A', [address])
    }
  })
  after(() =>
    end(
      () => postrider?.stop(),
      () => accepting?.stop(),
      () => unlisted?.stop(),
      () => refusing?.stop(),
      () => dns?.close(),
    ),
  )

  const mail = (to: string) => ({ from: `ann@${DOMAIN}`, to, subject: 'Hello', html: '<p>Hi.</p>', text: 'Hi.' })

  for (const [cause, address] of [
    ['a receiving server whose next hop rejects the email', 'nobody@late.example'],
    ['a receiving server that accepts an email for a missing mailbox', 'nobody@unlisted.example'],
  ] as const)
    test(`${cause} bounces the email, suppresses the address, and rejects the next email`, async () => {
      const { id } = await postrider.post(mail(address))
      const done = await postrider.settled(id, ({ status }) => status === 'bounced')
      assert.equal(done.status, 'bounced')
      assert.equal(done.recipients[0]!.enhanced_code, '5.1.1')
      const { body } = await postrider.api('GET', `/suppressions?filter[email]=${encodeURIComponent(address)}`)
      assert.deepEqual(
        body.data.map(({ attributes }: { attributes: { reason: string } }) => attributes.reason),
        ['hard_bounce'],
      )
      const again = await postrider.api('POST', '/outbound-emails', {
        data: { type: 'outbound-emails', attributes: mail(address) },
      })
      assert.equal(again.status, 422)
    })

  test('a warning about a delay does not change the status', async () => {
    const reports = (): number => postrider.log().match(/"event":"feedback_received"/g)?.length ?? 0
    const before = reports()
    const { id } = await postrider.post(mail('bob@slow.example'))
    await until(
      () => reports() > before,
      20_000,
      () => `no warning came:\n${accepting.log().slice(-3000)}\n${postrider.log().slice(-1000)}`,
    )
    const [, warning] = /sender delay notification: ([0-9A-F]+)/.exec(accepting.log()) ?? []
    assert.ok(warning, accepting.log().slice(-3000))
    assert.match(accepting.log(), new RegExp(`${warning}: to=<.*@bounce\\.${DOMAIN}>.* status=sent`))
    const { recipients, status } = await postrider.show(id)
    assert.equal(status, 'delivered')
    assert.equal(recipients[0]!.status, 'delivered')
    const { body } = await postrider.api('GET', '/suppressions?filter[email]=bob%40slow.example')
    assert.deepEqual(body.data, [])
    await postrider.post(mail('bob@slow.example'))
  })
})

withPrograms('clamd', [...missing(), ...missingClamd(), ...missingSwaks()], () => {
  let dns: TestDns
  let box: Sandbox
  let clamd: Clamd
  let postrider: RunningPostrider
  let inbox: string
  let seen = 0
  const ADDRESS = `box@${DOMAIN}`

  before(async () => {
    dns = await startTestDns()
    box = new Sandbox('clamd')
    clamd = privateClamd(box)
    await clamd.start()
    postrider = await startPostrider({
      dns,
      hostname: HOSTNAME,
      deliveryPort: await freePort(),
      clamav: clamd.address,
    })
    await postrider.sendingDomain(DOMAIN)
    inbox = await postrider.inbox(ADDRESS)
  })
  after(() =>
    end(
      () => postrider?.stop(),
      () => box?.close(),
      () => dns?.close(),
    ),
  )

  const send = async (message: Buffer): Promise<Received> => {
    const replies = await inject(postrider.smtpPort, `ann@${SENDER}`, ADDRESS, [message])
    assert.match(replies[0]!, /^250 /)
    return (await arrived(postrider, inbox, ++seen)).at(-1)!
  }
  const attached = (type: string, encoding: string, content: string): [string, ...string[]] => [
    [
      '--b',
      'Content-Type: text/plain',
      '',
      'See what is attached.',
      '--b',
      `Content-Type: ${type}`,
      'Content-Disposition: attachment; filename=file',
      `Content-Transfer-Encoding: ${encoding}`,
      '',
      content,
      '--b--',
    ].join('\n'),
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary=b',
  ]
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const nested = (): string => letter('inner', ...attached('application/x-test', 'base64', base64(EICAR))).toString()

  const VIRUSES: Record<string, Buffer> = {
    'in the text': letter('plain', EICAR),
    'attached in base64': letter('base64', ...attached('application/x-test', 'base64', base64(EICAR))),
    'attached to a forwarded message': letter(
      'forwarded',
      ...attached('message/rfc822', '7bit', nested().replaceAll('\r\n', '\n')),
    ),
    'in a message that lies in the spool': letter(
      'large',
      ...attached(
        'application/x-test',
        'base64',
        base64(EICAR + 'A'.repeat(9)).concat(`\n${'QUFB\n'.repeat(100_000)}`),
      ),
    ),
  }
  for (const [where, message] of Object.entries(VIRUSES))
    test(`finds a virus ${where}, and shows and withholds the message`, async () => {
      const mail = await send(message)
      assert.equal(mail.status, 'virus_detected')
      assert.equal(mail.reason, EICAR_NAME)
      await assert.rejects(rawOf(postrider, mail), /404/)
    })

  test('receives a clean message', async () => {
    const mail = await send(letter('clean', ...attached('application/x-test', 'base64', base64('Nothing bad.'))))
    assert.equal(mail.status, 'received')
    assert.equal(mail.attachments.length, 1)
  })

  test('defers mail with 451 while clamd is down, and Postfix delivers it later', async () => {
    const postfix = await passing(postrider.smtpPort)
    try {
      await clamd.stop()
      const direct = await swaks(postrider.smtpPort, '--from', `ann@${SENDER}`, '--to', ADDRESS)
      assert.notEqual(direct.code, 0)
      assert.match(direct.output, /^451 4\.7\.1 /m)
      const [reply] = await inject(postfix.port, `ann@${SENDER}`, ADDRESS, [letter('patient', 'I can wait.')])
      assert.match(reply!, /^250 /)
      await until(
        () => /status=deferred .*451 4\.7\.1/.test(postfix.log()),
        20_000,
        () => `not put off:\n${postfix.log().slice(-3000)}`,
      )
      assert.equal((await postrider.received(inbox)).length, seen)
      await clamd.start()
      const mail = (await arrived(postrider, inbox, ++seen)).at(-1)!
      assert.equal(mail.message_id, `<patient@${SENDER}>`)
      assert.equal(mail.status, 'received')
    } finally {
      await postfix.stop()
    }
  })
})
