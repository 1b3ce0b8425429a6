// Emails from the HTTP API to real receiving servers: Postfix with an OpenDKIM verifier. Postrider runs as a child
// process with a configuration file.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { authenticate } from 'mailauth'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { HOSTILE, readsAs } from './rig/hostile.ts'
import { ALL_PASS, fields, mailauthResolver, parsed, verdicts, withMessageId } from './rig/letter.ts'
import { withPrograms } from './rig/need.ts'
import { missing, receivingPostfix, type DkimKey, type ReceivingPostfix } from './rig/postfix.ts'
import { startPostrider, type Mail, type RunningPostrider } from './rig/postrider.ts'
import { until } from './rig/sandbox.ts'
import { judgedBySpamassassin, missingSpamassassin } from './rig/spamassassin.ts'

const HOSTNAME = 'mx.postrider.example'
/**
 * Where Postrider would send from in the world, so that SPF and spam filters judge it as they judge strangers. Nobody's
 * (the retired 6to4 anycast, RFC 7526): networks for documentation are held against a mail.
 */
const PUBLIC_ADDRESS = '192.88.99.7'
const FROM = 'shop.example'
/** A sending domain whose tls_policy is Require. */
const STRICT = 'strict.example'

withPrograms('outbound mail to real receiving servers', missing(), () => {
  let dns: TestDns
  let postrider: RunningPostrider
  let main: ReceivingPostfix
  let grey: ReceivingPostfix
  let plain: ReceivingPostfix
  let key: DkimKey

  before(async () => {
    dns = await startTestDns()
    const exchanger = (domain: string, hosts: Record<string, string>) => {
      dns.set(
        domain,
        'MX',
        Object.keys(hosts).map((host, index) => `${(index + 1) * 10} ${host}`),
      )
      for (const [host, address] of Object.entries(hosts)) dns.set(host, 'A', [address])
    }
    dns.set(HOSTNAME, 'A', [PUBLIC_ADDRESS])
    main = await receivingPostfix({
      domains: ['there.example', 'xn--bcher-kva.example', 'second.example'],
      hostname: 'mx.there.example',
      opendkimVerify: true,
      rejectUsers: { nobody: '550 5.1.1 No such user here', gone: '550 5.1.1 No such user here' },
    }).start()
    const { port } = main
    ;[grey, plain] = await Promise.all([
      receivingPostfix({ domains: ['grey.example'], greylist: {}, listen: { address: '127.0.0.2', port } }).start(),
      receivingPostfix({ domains: ['plain.example'], tls: false, listen: { address: '127.0.0.3', port } }).start(),
    ])
    exchanger('there.example', { 'mx.there.example': '127.0.0.1' })
    exchanger('xn--bcher-kva.example', { 'mx.there.example': '127.0.0.1' })
    exchanger('elsewhere.example', { 'mx.there.example': '127.0.0.1' })
    exchanger('grey.example', { 'mx.grey.example': '127.0.0.2' })
    exchanger('plain.example', { 'mx.plain.example': '127.0.0.3' })
    // Nobody listens on the first one's port.
    exchanger('second.example', { 'mx1.second.example': '127.0.0.9', 'mx2.second.example': '127.0.0.1' })
    exchanger('down.example', { 'mx.down.example': '127.0.0.9' })
    dns.set('nullmx.example', 'MX', ['0 .'])

    postrider = await startPostrider({ dns, hostname: HOSTNAME, deliveryPort: port })
    await postrider.sendingDomain(FROM)
    await postrider.sendingDomain(STRICT, '--tls-policy', 'Require')
    key = await signingKey(postrider, FROM)
    await main.setKeys([key, await signingKey(postrider, STRICT)])
  })
  after(async () => {
    // Each in its turn, whatever the one before did.
    const ends = [postrider, main, grey, plain].map((part) => () => part?.stop())
    const failures: unknown[] = []
    for (const end of [...ends, () => dns?.close()]) await end()?.catch((error: unknown) => failures.push(error))
    if (failures.length > 0) throw failures[0]
  })

  /** Waits for an email at a receiving server. Returns it with CRLF line ends. */
  const arrived = async (mail: Mail, exchanger = main): Promise<Buffer> => {
    let letter: Buffer | undefined
    await until(
      async () => (letter = withMessageId(await exchanger.maildir(), mail.message_id)) !== undefined,
      20_000,
      () => `${mail.message_id} did not arrive:\n${exchanger.log().slice(-3000)}\n${postrider.log().slice(-3000)}`,
    )
    return letter!
  }
  const simple = (to: string, more: Record<string, unknown> = {}) => ({
    from: `ann@${FROM}`,
    to,
    subject: 'Your order 4711',
    html: '<p>Thank you.</p>',
    text: 'Thank you.',
    ...more,
  })

  describe('an email sent with the API', () => {
    let mail: Mail
    let letter: Buffer

    before(async () => {
      mail = await postrider.post(
        simple('"Bob Böll" <bob@there.example>', {
          from: `"Ann Ähre" <ann@${FROM}>`,
          subject: 'Grüße, "all" of you',
          reply_to: [`support@${FROM}`],
        }),
      )
      letter = await arrived(mail)
      mail = await postrider.settled(mail.id, (to) => to.status !== 'queued')
    })

    test('passes OpenDKIM on the receiving server', () => {
      const results = fields(letter, 'Authentication-Results')
      assert.equal(results.length, 1)
      assert.match(results[0]!, /^mx\.there\.example;\s+dkim=pass /)
      assert.match(results[0]!, new RegExp(`header\\.d=${FROM}\\b`))
    })

    test('arrives over TLS, as the receiving server and the queue report', async () => {
      const [received] = fields(letter, 'Received')
      assert.match(received!, /\(using TLSv1\.[23] with cipher /)
      assert.match(received!, /with ESMTPS /)
      assert.ok(received!.startsWith(`from ${HOSTNAME} (`), received!)
      const shown = (await postrider.json('queue', 'show', mail.id)) as Mail
      assert.match(shown.recipients[0]!.tls ?? '', /^TLSv1\.[23]$/)
    })

    test('has the status delivered in the API, with the reply of the receiving server', () => {
      assert.equal(mail.status, 'delivered')
      const [bob] = mail.recipients
      assert.equal(bob!.address, 'bob@there.example')
      assert.equal(bob!.smtp_code, 250)
      assert.equal(bob!.enhanced_code, '2.0.0')
      assert.match(bob!.response!, /queued as [0-9A-F]+/)
      assert.equal(bob!.remote_mta, 'mx.there.example')
      assert.equal(bob!.attempts, 1)
    })

    test('passes OpenDKIM, dkimpy, Mail::DKIM and mailauth on the same bytes', async () => {
      assert.deepEqual(await verdicts(letter, key, dns), ALL_PASS)
    })

    test('fails all four verifiers after a change of one letter', async () => {
      const changed = Buffer.from(letter.toString('latin1').replace('Thank you.', 'Thank me.'), 'latin1')
      const said = await verdicts(changed, key, dns)
      for (const [verifier, verdict] of Object.entries(said)) assert.notEqual(verdict, 'pass', verifier)
    })

    test('passes SPF and DMARC with the advised records', async () => {
      const [sender] = fields(letter, 'Return-Path')
      assert.match(sender!, new RegExp(`^<[a-z2-7]+@bounce\\.${FROM.replace('.', '\\.')}>$`))
      const { spf, dmarc } = await authenticate(letter, {
        ip: PUBLIC_ADDRESS,
        helo: HOSTNAME,
        sender: sender!.slice(1, -1),
        mta: 'judge.example',
        resolver: mailauthResolver(dns),
      })
      assert.equal(spf && spf.status.result, 'pass')
      assert.equal(dmarc && dmarc.status.result, 'pass')
    })

    test('has no defects in Python’s email parser, which returns the original content', async () => {
      const read = await parsed(letter)
      assert.deepEqual(read.defects, [])
      assert.equal(read.subject, 'Grüße, "all" of you')
      assert.deepEqual(read.from, [['Ann Ähre', `ann@${FROM}`]])
      assert.deepEqual(read.to, [['Bob Böll', 'bob@there.example']])
      assert.deepEqual(read.reply_to, [['', `support@${FROM}`]])
      assert.equal(read.type, 'multipart/alternative')
      for (const name of ['date', 'from', 'to', 'reply-to', 'subject', 'message-id', 'mime-version', 'content-type'])
        assert.equal(read.names.filter((each) => each === name).length, 1, name)
    })
  })

  describe('hostile email arrives intact', () => {
    const shows = (text: string | null): text is string => text !== null && /\S/.test(text)

    // One after the other on few connections would be kind; posted at once they share them.
    const posted = new Map<string, Promise<Mail>>()
    before(() => {
      for (const [name, { fromRead: _, toRead: __, ...given }] of Object.entries(HOSTILE)) {
        const mail = postrider.post(simple('bob@there.example', given))
        // Who fails is told in its own test.
        mail.catch(() => {})
        posted.set(name, mail)
      }
    })

    for (const [name, given] of Object.entries(HOSTILE))
      test(name, async () => {
        const letter = await arrived(await posted.get(name)!)
        const [said, read] = await Promise.all([verdicts(letter, key, dns), parsed(letter)])
        assert.deepEqual(said, ALL_PASS)
        assert.match(fields(letter, 'Authentication-Results')[0] ?? '', /dkim=pass/)
        assert.deepEqual(read.defects, [])
        assert.ok(read.ascii, 'not 7-bit clean')
        assert.ok(read.longest <= 998, `a line of ${read.longest} bytes`)
        const wanted = { ...simple('bob@there.example'), ...given }
        assert.equal(read.subject, wanted.subject)
        for (const [type, written] of [
          ['text/html', wanted.html],
          ['text/plain', wanted.text],
        ] as const) {
          // A mail without text, or with one that shows nothing, gets one made from its html.
          if (!shows(written)) {
            if (type === 'text/plain' && shows(wanted.html)) assert.match(read.parts[type] ?? '', /\S/)
            if (type === 'text/html') assert.equal(read.parts[type], undefined)
          } else
            assert.ok(
              readsAs(read.parts[type]!, written),
              `${type}: ${JSON.stringify(read.parts[type])}`.slice(0, 2000),
            )
        }
        assert.deepEqual(read.from, [given.fromRead ?? ['', `ann@${FROM}`]])
        assert.deepEqual(read.to, [given.toRead ?? ['', 'bob@there.example']])
      })
  })

  describe('receiving servers that do not accept an email', () => {
    test('greylisting defers an email with its reply, and a retry of the operator delivers it', async () => {
      const { id, ...mail } = await postrider.post(simple('bob@grey.example'))
      const put = await postrider.settled(
        id,
        ({ attempts, next_attempt_at }) => attempts === 1 && next_attempt_at !== null,
      )
      assert.equal(put.status, 'queued')
      assert.equal(put.recipients[0]!.smtp_code, 451)
      assert.equal(put.recipients[0]!.enhanced_code, '4.7.1')
      assert.match(put.recipients[0]!.response!, /Greylisted, please try again later/)
      assert.deepEqual(await postrider.json('queue', 'retry', id), { retried: 1, on_hold: 0 })
      const done = await postrider.settled(id, ({ status }) => status !== 'queued')
      assert.equal(done.status, 'delivered')
      assert.equal(done.recipients[0]!.attempts, 2)
      await arrived({ id, ...mail }, grey)
    })

    test('an unknown user bounces with the reply of the server', async () => {
      const { id } = await postrider.post(simple('nobody@there.example'))
      const { status, recipients } = await postrider.settled(id, (to) => to.status !== 'queued')
      assert.equal(status, 'bounced')
      assert.equal(recipients[0]!.smtp_code, 550)
      assert.equal(recipients[0]!.enhanced_code, '5.1.1')
      const words = '<nobody@there.example>: Recipient address rejected: No such user here'
      assert.equal(recipients[0]!.response, words)
      assert.ok(main.log().includes(`reject: RCPT from unknown[127.0.0.1]: 550 5.1.1 ${words}`))
      assert.equal(recipients[0]!.next_attempt_at, null)
    })

    test('with different results for two recipients in one transaction, the status follows the primary recipient', async () => {
      const mail = await postrider.post(simple('bob@there.example', { cc: ['gone@there.example'] }))
      const { status, recipients } = await postrider.settled(mail.id, (_, { recipients: all }) =>
        all.every((to) => to.status !== 'queued'),
      )
      assert.equal(status, 'delivered')
      assert.deepEqual(
        recipients.map((to) => [to.address, to.role, to.status, to.smtp_code]),
        [
          ['bob@there.example', 'to', 'delivered', 250],
          ['gone@there.example', 'cc', 'bounced', 550],
        ],
      )
      await arrived(mail)
      // The address that does not exist is suppressed: the next mail to it is refused at once.
      await assert.rejects(postrider.post(simple('gone@there.example')), /422|suppressed/)
    })

    test('a server that rejects the domain bounces the email', async () => {
      const { id } = await postrider.post(simple('bob@elsewhere.example'))
      const { status, recipients } = await postrider.settled(id, (to) => to.status !== 'queued')
      assert.equal(status, 'bounced')
      assert.equal(recipients[0]!.smtp_code, 554)
      assert.match(recipients[0]!.response!, /Relay access denied/)
    })

    test('if the first MX host refuses the connection, the same attempt uses the second one', async () => {
      const mail = await postrider.post(simple('bob@second.example'))
      await arrived(mail)
      const { status, recipients } = await postrider.settled(mail.id, (to) => to.status !== 'queued')
      assert.equal(status, 'delivered')
      assert.equal(recipients[0]!.attempts, 1)
      assert.equal(recipients[0]!.remote_mta, 'mx2.second.example')
    })

    test('if no MX host responds, the email is deferred, and the operator’s retry delivers it at once', async () => {
      const mail = await postrider.post(simple('bob@down.example'))
      const put = await postrider.settled(mail.id, (to) => to.attempts === 1 && to.next_attempt_at !== null)
      assert.equal(put.status, 'queued')
      assert.equal(put.recipients[0]!.smtp_code, null)
      assert.match(put.recipients[0]!.response!, /connection refused/)
      // Another one waits for the same exchanger, due earlier than the retry will be.
      await postrider.post(simple('eve@down.example'))
      const { port } = main
      const up = await receivingPostfix({ domains: ['down.example'], listen: { address: '127.0.0.9', port } }).start()
      try {
        assert.deepEqual(await postrider.json('queue', 'retry', mail.id), { retried: 1, on_hold: 0 })
        // "Try a mail again now": what the queue means to wait for by itself does not count.
        const done = await postrider.settled(mail.id, ({ status }) => status !== 'queued', 8000)
        assert.equal(done.status, 'delivered')
        await arrived(mail, up)
      } finally {
        await up.stop()
      }
    })

    test('an email to a domain with a null MX or without DNS records fails at once', async () => {
      const [none, nowhere] = await Promise.all([
        postrider.post(simple('bob@nullmx.example')),
        postrider.post(simple('bob@nowhere.example')),
      ])
      const silent = await postrider.settled(none.id, (to) => to.status !== 'queued')
      assert.equal(silent.status, 'failed')
      assert.equal(silent.recipients[0]!.enhanced_code, '5.1.10')
      assert.match(silent.recipients[0]!.response!, /null MX/)
      const unknown = await postrider.settled(nowhere.id, (to) => to.status !== 'queued')
      assert.equal(unknown.status, 'failed')
      assert.equal(unknown.recipients[0]!.enhanced_code, '5.1.2')
      assert.match(unknown.recipients[0]!.response!, /nowhere\.example does not exist/)
    })

    test('sends in clear text to a server without TLS if TLS is optional', async () => {
      const mail = await postrider.post(simple('bob@plain.example'))
      const letter = await arrived(mail, plain)
      assert.match(fields(letter, 'Received')[0]!, /with ESMTP /)
      const { status } = await postrider.settled(mail.id, (to) => to.status !== 'queued')
      assert.equal(status, 'delivered')
      const shown = (await postrider.json('queue', 'show', mail.id)) as Mail
      assert.equal(shown.recipients[0]!.tls, null)
    })

    test('defers mail to a server without TLS if TLS is required', async () => {
      const mail = await postrider.post({ ...simple('carol@plain.example'), from: `ann@${STRICT}` })
      const put = await postrider.settled(mail.id, (to) => to.attempts === 1 && to.next_attempt_at !== null)
      assert.equal(put.status, 'queued')
      assert.equal(put.recipients[0]!.smtp_code, null)
      assert.match(put.recipients[0]!.response!, /does not offer TLS/)
      const letters = await plain.maildir()
      assert.equal(withMessageId(letters, mail.message_id), undefined)
      assert.ok(!plain.log().includes(`@bounce.${STRICT}`), 'the envelope was told in clear text')
    })
  })

  withPrograms('a spam filter', missingSpamassassin(), () => {
    test('finds no problem of Postrider in a plain transactional email', async () => {
      const mail = await postrider.post(
        simple('bob@there.example', {
          from: `"Example Shop" <orders@${FROM}>`,
          html: `<html><body><p>Dear Bob,</p><p>thank you for order 4711. It leaves our warehouse on Friday. You can see
where it is at any time at <a href="https://${FROM}/orders/4711">your order</a>.</p><p>Kind regards,<br>Example
Shop</p></body></html>`,
          text: `Dear Bob,\n\nthank you for order 4711. It leaves our warehouse on Friday. You can see where it is at any
time at https://${FROM}/orders/4711.\n\nKind regards,\nExample Shop\n`,
        }),
      )
      const letter = (await arrived(mail)).toString('latin1')
      // Loopback is everybody's own network; to be judged as a stranger's the letter says that it came from our public
      // address.
      const seen = letter.replace('(unknown [127.0.0.1])', `(${HOSTNAME} [${PUBLIC_ADDRESS}])`)
      assert.notEqual(seen, letter)
      const [judged] = await judgedBySpamassassin([Buffer.from(seen, 'latin1')], dns.port)
      const fired = judged!.rules.map(({ name }) => name)
      for (const good of ['DKIM_SIGNED', 'DKIM_VALID', 'DKIM_VALID_AU'])
        assert.ok(fired.includes(good), fired.join(' '))
      // HTML_MESSAGE only says that there is HTML.
      const known = [
        'DKIM_SIGNED',
        'DKIM_VALID',
        'DKIM_VALID_AU',
        'DKIM_VALID_EF',
        'SPF_PASS',
        'SPF_HELO_PASS',
        'HTML_MESSAGE',
      ]
      assert.deepEqual(
        fired.filter((rule) => !known.includes(rule)),
        [],
      )
    })
  })
})

async function signingKey(postrider: RunningPostrider, domain: string): Promise<DkimKey> {
  const { records } = (await postrider.json('domain', 'records', domain)) as {
    records: { record_type: string; name: string; value: string; required: boolean }[]
  }
  const { name, value } = records.find(({ record_type, required }) => record_type === 'DKIM' && required)!
  return { selector: name.split('.')[0]!, domain, record: value }
}
