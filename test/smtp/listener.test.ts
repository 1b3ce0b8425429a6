// The listener against misbehaving clients: RFC 5321 §2.3.8, §4.1, §4.3.2, §4.5.3, RFC 2034, RFC 3207, RFC 2920. All
// tests use raw sockets, so that they control every byte.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { makeCertificate, type Certificate } from '../../src/base/certificate.ts'
import { startListener, type InboundEnvelope, type ListenerOptions } from '../../src/smtp/listener.ts'
import { hasBareLineEnd } from '../../src/smtp/session.ts'
import { ManualClock } from '../kit/clock.ts'
import { costing } from '../kit/cost.ts'
import { until } from '../kit/until.ts'
import { RawClient, type RawReply } from './raw.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const SEQUENCES = join(CORPORA, 'smtp-smuggling/sequences.json')
const skip = existsSync(SEQUENCES) ? false : `no corpus at ${SEQUENCES}; set POSTRIDER_CORPORA`
const selfMade = makeCertificate('mx.here.test', Date.now())

interface Kept {
  text: string
  envelope: InboundEnvelope
  blocks: number[]
}

interface TestListener {
  port: number
  kept: Kept[]
  faults: unknown[]
  close(patience?: number): Promise<void>
}

const closing: (() => Promise<unknown>)[] = []
after(() => Promise.all(closing.map((close) => close())))

/** A listener that keeps well-formed messages in memory, for every address at here.test. */
async function listenerWith(
  options: Partial<Omit<ListenerOptions, 'certificate'>> & { certificate?: Certificate | null } = {},
  clock = new ManualClock(),
): Promise<TestListener> {
  const kept: Kept[] = []
  const faults: unknown[] = []
  const { certificate = selfMade, ...others } = options
  const listener = await startListener(
    { host: '127.0.0.1', port: 0 },
    {
      hostname: 'mx.here.test',
      clock,
      ...(certificate ? { certificate } : {}),
      maxBytes: 1_000_000,
      recipient: (address) =>
        /@here\.test$/i.test(address) ? undefined : { code: 554, text: '5.7.1 Not for that domain' },
      message: async (bytes, envelope, sound) => {
        const chunks: Buffer[] = []
        for await (const chunk of bytes) chunks.push(chunk)
        const refusal = sound()
        if (refusal) return refusal
        kept.push({
          text: Buffer.concat(chunks).toString('latin1'),
          envelope,
          blocks: chunks.map((each) => each.length),
        })
        return undefined
      },
      fault: (thrown) => faults.push(thrown),
      ...others,
    },
  )
  const close = (patience?: number): Promise<void> => listener.close(patience)
  closing.push(() => close())
  return { port: listener.port, kept, faults, close }
}

const ENVELOPE = 'MAIL FROM:<ann@there.test>\r\nRCPT TO:<box@here.test>\r\nDATA\r\n'
const EVIL = 'MAIL FROM:<evil@there.test>\r\nRCPT TO:<box@here.test>\r\nDATA\r\nSubject: evil\r\n\r\nx\r\n.\r\nQUIT\r\n'
const codes = (replies: readonly RawReply[]): number[] => replies.map(({ code }) => code)
const [plainListener, open] = await Promise.all([listenerWith(), listenerWith({ maxPerAddress: 1000 })])

describe('smuggling', () => {
  const LOOKALIKES = skip
    ? {}
    : (JSON.parse(readFileSync(SEQUENCES, 'utf8')) as { end_of_data_lookalikes: Record<string, string> })
        .end_of_data_lookalikes
  const isBare = (sequence: string): boolean => /\r(?!\n)|(?<!\r)\n/.test(sequence)

  for (const tls of [false, true])
    for (const pipelined of [false, true])
      test(`no look-alike ends DATA${tls ? ', in TLS' : ''}${pipelined ? ', pipelined' : ''}`, { skip }, async () => {
        const { kept, port } = await listenerWith()
        assert.equal(Object.keys(LOOKALIKES).length, 10)
        for (const [name, sequence] of Object.entries(LOOKALIKES)) {
          kept.length = 0
          const client = await RawClient.greeted(port)
          if (tls) {
            await client.startTls()
            await client.ask('EHLO client.test')
          }
          const message = `Subject: good\r\n\r\nHello${sequence}${EVIL}`
          if (pipelined) client.write(ENVELOPE + message)
          else {
            await client.begin('box@here.test')
            client.write(message)
          }
          const replies = await client.rest()
          client.destroy()
          if (isBare(sequence)) {
            assert.deepEqual(kept, [], name)
            const last = replies.at(-1)!
            assert.equal(last.code, 521, `${name}: ${JSON.stringify(replies)}`)
            assert.match(last.text, /^5\.5\.2 /)
            if (!pipelined) assert.equal(replies.length, 1, name)
          } else {
            // NUL is an ordinary byte: the message continues to its real end.
            assert.equal(kept.length, 1, name)
            assert.equal(kept[0]!.envelope.from, 'ann@there.test')
            assert.ok(kept[0]!.text.includes('MAIL FROM:<evil@there.test>'))
            assert.deepEqual(codes(replies).slice(-2), [250, 221], name)
          }
        }
      })

  test('only CRLF.CRLF ends DATA, in any fragments', { skip }, async () => {
    const { kept, port } = await listenerWith()
    for (const [name, sequence] of Object.entries(LOOKALIKES)) {
      if (!isBare(sequence)) continue
      const head = Buffer.from('Subject: good\r\n\r\nHello')
      const whole = Buffer.concat([head, Buffer.from(sequence), Buffer.from(EVIL)])
      for (let at = head.length - 1; at <= head.length + sequence.length + 1; at++) {
        const client = await RawClient.greeted(port)
        await client.begin('box@here.test')
        await client.writePieces([whole.subarray(0, at), whole.subarray(at)])
        assert.deepEqual(codes(await client.rest()), [521], `${name} at ${at - head.length}`)
        client.destroy()
      }
    }
    assert.deepEqual(kept, [])
  })

  test('reads two pipelined messages in any fragments', async () => {
    const { kept, port } = await listenerWith()
    const bodies = ['Subject: 1\r\n\r\n..dot\r\n..\r\n', 'Subject: 2\r\n\r\nlast\r\n']
    const whole = Buffer.from(`${bodies.map((body) => `${ENVELOPE}${body}.\r\n`).join('')}QUIT\r\n`)
    for (let at = 1; at <= whole.length; at++) {
      kept.length = 0
      const client = await RawClient.greeted(port)
      await client.writePieces([whole.subarray(0, at), whole.subarray(at)])
      const replies = await client.rest()
      client.destroy()
      assert.deepEqual(codes(replies), [250, 250, 354, 250, 250, 250, 354, 250, 221], `cut at ${at}`)
      assert.deepEqual(
        kept.map(({ text }) => text),
        ['Subject: 1\r\n\r\n.dot\r\n.\r\n', bodies[1]],
        `cut at ${at}`,
      )
    }
  })

  test('unstuffs dots at the start of a line in any fragments', async () => {
    const { kept, port } = await listenerWith()
    const whole = Buffer.from('..\r\n...\r\n.a\r\na.\r\n\r\n..\r\n..a.\r\n.\r\nQUIT\r\n')
    for (let one = 1; one < whole.length; one++)
      for (const two of [one + 1, one + 2, one + 4]) {
        const client = await RawClient.greeted(port)
        await client.begin('box@here.test')
        await client.writePieces([whole.subarray(0, one), whole.subarray(one, two), whole.subarray(two)])
        assert.deepEqual(codes(await client.rest()), [250, 221])
        assert.equal(kept.at(-1)!.text, '.\r\n..\r\na\r\na.\r\n\r\n.\r\n.a.\r\n', `cut at ${one} and ${two}`)
        client.destroy()
      }
  })

  test('reads messages that arrive byte by byte', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    await client.writePieces([...Buffer.from(`${ENVELOPE}a\r\n.\r\n`)].map((octet) => Buffer.from([octet])))
    client.write('QUIT\r\n')
    assert.deepEqual(codes(await client.rest()), [250, 250, 354, 250, 221])
    assert.equal(kept[0]!.text, 'a\r\n')
    client.destroy()
  })

  const LINES = [
    'NOOP\n',
    'NO\rOP\r\n',
    'NOOP\r\r\n',
    '\n',
    '\r\r',
    'NOOP\r\n\nNOOP\r\n',
    'MAIL FROM:<a@there.test>\n',
    'DATA\n',
  ]
  for (const tls of [false, true])
    test(`a bare CR or LF in a command ends the session${tls ? ', in TLS' : ''}`, async () => {
      const { kept, port } = await listenerWith()
      for (const line of LINES)
        for (const cut of [false, true]) {
          const client = await RawClient.greeted(port)
          if (tls) {
            await client.startTls()
            await client.ask('EHLO client.test')
          }
          const bytes = Buffer.from(`${line}${ENVELOPE}x\r\n.\r\n`)
          await client.writePieces(cut ? [bytes.subarray(0, line.length), bytes.subarray(line.length)] : [bytes])
          const replies = await client.rest()
          client.destroy()
          // Commands before it in the same segment may have been answered, but none after it.
          assert.equal(replies.at(-1)!.code, 521, `${JSON.stringify(line)} ${JSON.stringify(replies)}`)
          assert.match(replies.at(-1)!.text, /^5\.5\.2 /)
          assert.ok(!codes(replies).includes(354), JSON.stringify(line))
        }
      assert.deepEqual(kept, [])
    })

  test('a bare LF in the body of a failed message ends the session too', async () => {
    const { port } = await listenerWith({ message: () => Promise.reject(new Error('broken disk')) })
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    await client.writePieces([Buffer.from('one\ntwo\r\n'), Buffer.from('.\r\n'), Buffer.from('NOOP\nNOOP\r\n')])
    const replies = await client.rest()
    client.destroy()
    assert.ok([451, 521].includes(replies[0]!.code))
    assert.equal(replies.at(-1)!.code, 521)
    assert.ok(!codes(replies).includes(250))
  })

  test('does not run an unterminated command', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    client.write('NOOP')
    client.socket.end()
    assert.deepEqual(codes(await client.rest()), [])
    assert.deepEqual(kept, [])
  })

  test('distinguishes bare line ends from CRLF', () => {
    const look = (text: string, previous = 0): boolean => hasBareLineEnd(Buffer.from(text), previous)
    for (const good of ['', 'a', '\r\n', 'a\r\nb\r\n', 'a\r', '\r\n\r\n']) assert.equal(look(good), false, good)
    for (const bad of ['\n', 'a\nb', '\ra', '\r\r\n', '\n\r', '\r\n\n']) assert.equal(look(bad), true, bad)
    assert.equal(look('\n', 0x0d), false)
    assert.equal(look('a', 0x0d), true)
    assert.equal(look('\r\n', 0x0d), true)
  })
})

describe('STARTTLS', () => {
  test('discards commands pipelined behind it', async () => {
    const { kept, port } = await listenerWith()
    for (const behind of [
      `${ENVELOPE}x\r\n.\r\n`,
      'EHLO evil.test\r\nMAIL FROM:<evil@there.test>\r\n',
      'NOOP\r\n'.repeat(500),
      'RSET',
    ]) {
      const client = await RawClient.greeted(port)
      // Bytes that are not TLS may also abort the handshake, which is as good.
      const secured = await client.startTls({}, behind).then(
        () => true,
        () => false,
      )
      if (secured) {
        client.write('EHLO client.test\r\nRCPT TO:<box@here.test>\r\nQUIT\r\n')
        assert.deepEqual(codes(await client.rest()), [250, 503, 221], JSON.stringify(behind.slice(0, 40)))
      }
      client.destroy()
    }
    assert.deepEqual(kept, [])
  })

  test('is offered once, and resets the session', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.open(port)
    await client.reply()
    assert.ok((await client.ask('EHLO before.test')).lines.includes('STARTTLS'))
    assert.equal(await client.said('STARTTLS now'), '501 5.5.4')
    await client.ask('MAIL FROM:<before@there.test>')
    await client.ask('RCPT TO:<box@here.test>')
    await client.startTls()
    assert.equal(await client.said('MAIL FROM:<a@there.test>'), '503 5.5.1', 'EHLO is to be said again')
    assert.ok(!(await client.ask('EHLO after.test')).lines.includes('STARTTLS'))
    assert.equal(await client.said('STARTTLS'), '503 5.5.1')
    assert.equal(await client.said('DATA'), '503 5.5.1')
    await client.begin('box@here.test')
    assert.equal(await client.said('x\r\n.'), '250 2.6.0')
    assert.equal(kept[0]!.envelope.helo, 'after.test')
    assert.equal(kept[0]!.envelope.protocol, 'ESMTPS')
    assert.match(kept[0]!.envelope.tls!, /^TLSv1\.[23] /)
    client.destroy()
  })

  test('TLS 1.2 and later only', async () => {
    for (const [version, works] of [
      ['TLSv1', false],
      ['TLSv1.1', false],
      ['TLSv1.2', true],
      ['TLSv1.3', true],
    ] as const) {
      const client = await RawClient.greeted(open.port)
      // Old versions need a lower security level on the client's side, or it would be the one that refuses.
      const done = client.startTls({ minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' })
      if (works) await done
      else await assert.rejects(done, /alert protocol version|alert/i)
      client.destroy()
    }
  })

  test('an invalid handshake closes only its own connection', async () => {
    const client = await RawClient.greeted(open.port)
    await client.ask('STARTTLS')
    client.write('EHLO this is not TLS\r\n')
    await client.rest()
    client.destroy()
    const other = await RawClient.greeted(open.port)
    assert.equal(await other.said('NOOP'), '250 2.0.0')
    other.destroy()
  })

  test('is not offered without a certificate', async () => {
    const { port } = await listenerWith({ certificate: null })
    const client = await RawClient.open(port)
    await client.reply()
    assert.ok(!(await client.ask('EHLO client.test')).lines.includes('STARTTLS'))
    assert.equal((await client.ask('STARTTLS')).code, 500)
    client.destroy()
  })
})

describe('commands', () => {
  test('offers only supported extensions', async () => {
    const client = await RawClient.open(plainListener.port)
    const greeting = await client.reply()
    assert.match(greeting.text, /^mx\.here\.test ESMTP/)
    const { lines } = await client.ask('EHLO client.test')
    assert.match(lines[0]!, /^mx\.here\.test\b/)
    assert.deepEqual(lines.slice(1).sort(), [
      '8BITMIME',
      'ENHANCEDSTATUSCODES',
      'PIPELINING',
      'SIZE 1000000',
      'SMTPUTF8',
      'STARTTLS',
    ])
    client.destroy()
  })

  // Each session after EHLO, with the reply to the last command.
  const CONVERSATIONS: [string, string[]][] = [
    ['503 5.5.1', ['RCPT TO:<box@here.test>']],
    ['503 5.5.1', ['DATA']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'MAIL FROM:<b@there.test>']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'DATA']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'RCPT TO:<x@elsewhere.test>', 'DATA']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'RCPT TO:<box@here.test>', 'RSET', 'DATA']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'RCPT TO:<box@here.test>', 'EHLO again.test', 'DATA']],
    ['503 5.5.1', ['MAIL FROM:<a@there.test>', 'RSET', 'RCPT TO:<box@here.test>']],
    ['250 2.1.0', ['MAIL FROM:<a@there.test>', 'RSET', 'MAIL FROM:<b@there.test>']],
    ['250 2.1.0', ['MAIL FROM:<>']],
    ['250 2.1.5', ['MAIL FROM:<>', 'RCPT TO:<box@here.test>', 'RCPT TO:<other@here.test>']],
    ['250 2.1.0', ['mail from:<a@there.test>']],
    ['250 2.1.0', ['MAIL FROM:<a@there.test> SIZE=1000 BODY=8BITMIME']],
    ['250 2.1.0', ['MAIL FROM:<a@there.test> body=7bit smtputf8']],
    ['250 2.0.0', ['NOOP']],
    ['250 2.0.0', ['NOOP whatever']],
    ['250 2.0.0', ['RSET']],
    ['214 2.0.0', ['HELP']],
    ['252 2.1.5', ['VRFY box']],
    ['502 5.5.1', ['EXPN list']],
    ['501 5.5.4', ['VRFY']],
    ['500 5.5.2', ['TURN']],
    ['500 5.5.2', ['']],
    ['500 5.5.2', ['AUTH PLAIN AGEAYg==']],
    ['500 5.5.2', ['BDAT 5 LAST']],
    ['500 5.5.2', ['XCLIENT ADDR=192.0.2.1']],
    ['500 5.5.2', ['XFORWARD ADDR=192.0.2.1']],
    // Jokes of old sendmails.
    ['500 5.5.2', ['WIZ please']],
    ['500 5.5.2', ['SHELL']],
    ['500 5.5.2', ['KILL mom']],
    // Names of the library's own contexts must not choose the enhanced code.
    ['500 5.5.2', ['RCPT_TO_OK']],
    ['500 5.5.2', ['SYSTEM_FULL']],
    ['500 5.5.2', ['LHLO client.test']],
    ['501 5.1.7', ['MAIL FROM:']],
    ['501 5.1.7', ['MAIL FROM:a@there.test']],
    ['501 5.1.7', ['MAIL FROM:<a@there.test']],
    ['501 5.1.7', ['MAIL FROM:<a@@there.test>']],
    ['501 5.1.7', ['MAIL FROM:<a b@there.test>']],
    ['501 5.1.7', ['MAIL TO:<a@there.test>']],
    ['501 5.1.3', ['MAIL FROM:<>', 'RCPT TO:<>']],
    ['501 5.1.3', ['MAIL FROM:<>', 'RCPT TO:<box@>']],
    ['501 5.1.3', ['MAIL FROM:<>', 'RCPT TO:<box\0@here.test>']],
    ['501 5.5.4', ['MAIL FROM:<a@there.test> SIZE=many']],
    ['501 5.5.4', ['MAIL FROM:<a@there.test> SIZE']],
    ['501 5.5.4', ['MAIL FROM:<a@there.test> SIZE=1 SIZE=2']],
    ['501 5.5.4', ['MAIL FROM:<a@there.test> BODY=BINARYMIME']],
    ['501 5.5.4', ['MAIL FROM:<a@there.test> SMTPUTF8=yes']],
    ['552 5.3.4', ['MAIL FROM:<a@there.test> SIZE=1000001']],
    ['552 5.3.4', ['MAIL FROM:<a@there.test> SIZE=99999999999999999999']],
    ['250 2.1.0', ['MAIL FROM:<a@there.test> SIZE=1000000']],
    ['555 5.5.4', ['MAIL FROM:<a@there.test> FOO=BAR']],
    ['555 5.5.4', ['MAIL FROM:<a@there.test> FOO']],
    ['555 5.5.4', ['MAIL FROM:<a@there.test> AUTH=<>']],
    ['555 5.5.4', ['MAIL FROM:<a@there.test> RET=HDRS']],
    ['555 5.5.4', ['MAIL FROM:<a@there.test> __proto__=1']],
    ['555 5.5.4', ['MAIL FROM:<>', 'RCPT TO:<box@here.test> NOTIFY=NEVER']],
    ['555 5.5.4', ['MAIL FROM:<>', 'RCPT TO:<box@here.test> FOO=BAR']],
    ['553 5.6.7', ['MAIL FROM:<jürgen@there.test>']],
    ['553 5.6.7', ['MAIL FROM:<a@bücher.test>']],
    ['553 5.6.7', ['MAIL FROM:<>', 'RCPT TO:<jürgen@here.test>']],
    ['250 2.1.0', ['MAIL FROM:<a@xn--bcher-kva.test>']],
    ['250 2.1.5', ['MAIL FROM:<jürgen@there.test> SMTPUTF8', 'RCPT TO:<jürgen@here.test>']],
    ['221 2.0.0', ['QUIT']],
  ]
  for (const [expected, lines] of CONVERSATIONS)
    test(`${lines.join(', ') || 'an empty line'}: ${expected}`, async () => {
      const client = await RawClient.greeted(open.port)
      let last = ''
      for (const line of lines) last = await client.said(line)
      assert.equal(last, expected)
      client.destroy()
    })

  test('rejects an address that is not UTF-8', async () => {
    const client = await RawClient.greeted(open.port)
    assert.equal(await client.said(Buffer.from('MAIL FROM:<\xff@there.test> SMTPUTF8\r\n', 'latin1')), '553 5.6.7')
    client.destroy()
  })

  test('requires HELO or EHLO first, with one word', async () => {
    const client = await RawClient.open(open.port)
    await client.reply()
    assert.equal(await client.said('MAIL FROM:<a@there.test>'), '503 5.5.1')
    for (const line of ['EHLO', 'HELO', 'EHLO two words', `EHLO ${'x'.repeat(400)}`])
      assert.equal((await client.ask(line)).code, 501, line)
    assert.equal((await client.ask('HELO client.test')).code, 250)
    assert.equal(await client.said('MAIL FROM:<a@there.test>'), '250 2.1.0')
    client.destroy()
  })

  test('the envelope has the protocol (SMTP, ESMTP, UTF8SMTP), and domains as A-labels', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.open(port)
    await client.reply()
    for (const [hello, from, parameters] of [
      ['HELO', 'a@xn--bcher-kva.test', ''],
      ['EHLO', 'a@[192.0.2.1]', ' BODY=8BITMIME'],
      ['EHLO', 'jürgen@bücher.test', ' SMTPUTF8'],
    ] as const) {
      await client.ask(`${hello} client.test`)
      await client.begin('box@here.test', from, parameters)
      assert.equal((await client.ask('x\r\n.')).code, 250)
    }
    assert.deepEqual(
      kept.map(({ envelope }) => [envelope.protocol, envelope.from, envelope.tls]),
      [
        ['SMTP', 'a@xn--bcher-kva.test', null],
        ['ESMTP', 'a@[192.0.2.1]', null],
        ['UTF8SMTP', 'jürgen@xn--bcher-kva.test', null],
      ],
    )
    client.destroy()
  })

  test('passes 8-bit data unchanged', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    const octets = Buffer.from(Array.from({ length: 256 }, (_, n) => n).filter((n) => n !== 10 && n !== 13))
    const body = Buffer.concat([octets, Buffer.from('\r\n')])
    client.write(Buffer.concat([Buffer.from(ENVELOPE), body, Buffer.from('.\r\n')]))
    assert.deepEqual(
      codes([await client.reply(), await client.reply(), await client.reply(), await client.reply()]),
      [250, 250, 354, 250],
    )
    assert.equal(kept[0]!.text, body.toString('latin1'))
    client.destroy()
  })

  test('accepts an empty message', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    assert.equal((await client.ask('.')).code, 250)
    assert.equal(kept[0]!.text, '')
    client.destroy()
  })

  test('rejects HTTP requests from a browser', async () => {
    const client = await RawClient.open(open.port)
    await client.reply()
    client.write(`POST / HTTP/1.1\r\nHost: here.test\r\n\r\nEHLO x\r\n${ENVELOPE}x\r\n.\r\n`)
    assert.deepEqual(codes(await client.rest()), [421])
    client.destroy()
  })
})

describe('limits', () => {
  test('limits connections per IP address, and frees a slot when one closes', async () => {
    const { port } = await listenerWith({ maxPerAddress: 2 })
    const clients = [await RawClient.greeted(port), await RawClient.greeted(port)]
    const third = await RawClient.open(port)
    const replies = await third.rest()
    assert.deepEqual(codes(replies), [421])
    assert.match(replies[0]!.text, /^4\.7\.0 /)
    third.destroy()
    const elsewhere = await RawClient.open(port, { localAddress: '127.0.0.2' })
    assert.equal((await elsewhere.reply()).code, 220, 'another address has its own')
    elsewhere.destroy()
    clients[0]!.destroy()
    const later = await until(async () => {
      const client = await RawClient.open(port)
      if ((await client.next())?.code === 220) return client
      client.destroy()
      return undefined
    }, 'a free place')
    for (const client of [...clients, later]) client.destroy()
  })

  test('limits connections in total', async () => {
    const { port } = await listenerWith({ maxConnections: 2 })
    const clients = [await RawClient.greeted(port), await RawClient.greeted(port)]
    const third = await RawClient.open(port, { localAddress: '127.0.0.3' })
    assert.deepEqual(codes(await third.rest()), [421])
    assert.equal(await clients[0]!.said('NOOP'), '250 2.0.0', 'the others go on')
    for (const client of [...clients, third]) client.destroy()
  })

  test('counts a connection before its TLS handshake, and closes it without a reply at the limit', async () => {
    const { port } = await listenerWith({ implicitTls: true, maxPerAddress: 2 })
    const silent = [await RawClient.open(port), await RawClient.open(port)]
    const third = await RawClient.open(port)
    assert.deepEqual(await third.rest(), [])
    const served = (localAddress: string): Promise<RawClient | undefined> =>
      RawClient.overTls(port, { localAddress }).then(
        async (client) => ((await client.next())?.code === 220 ? client : undefined),
        () => undefined,
      )
    const elsewhere = await served('127.0.0.2')
    assert.ok(elsewhere, 'another address has its own')
    silent[0]!.destroy()
    const later = await until(() => served('127.0.0.1'), 'a free place')
    assert.equal(await later.said('EHLO client.test').then((said) => said.slice(0, 3)), '250')
    assert.equal(await served('127.0.0.1'), undefined, 'it is taken')
    for (const client of [...silent, third, elsewhere, later]) client.destroy()
  })

  test('frees a slot after a TLS session', async () => {
    const { port } = await listenerWith({ maxPerAddress: 1 })
    for (let n = 0; n < 3; n++) {
      const client = await until(async () => {
        const next = await RawClient.open(port)
        if ((await next.next())?.code === 220) return next
        next.destroy()
        return undefined
      }, 'a free place')
      await client.ask('EHLO client.test')
      await client.startTls()
      client.destroy()
    }
  })

  test('times out a handshake, with implicit TLS and after STARTTLS, and frees its slot', async () => {
    const implicit = await listenerWith({ implicitTls: true, handshake: 60, maxPerAddress: 1 })
    const silent = await RawClient.open(implicit.port)
    // The beginning of a handshake whose end never comes.
    silent.write(Buffer.from([0x16, 3, 1]))
    assert.deepEqual(await silent.rest(), [])
    await until(
      () =>
        RawClient.overTls(implicit.port).then(
          (client) => client.destroy() === undefined,
          () => false,
        ),
      'a free place',
    )
    const { port } = await listenerWith({ handshake: 60, maxPerAddress: 1 })
    const client = await until(async () => {
      const next = await RawClient.open(port)
      next.write('EHLO client.test\r\nSTARTTLS\r\n')
      await next.next()
      await next.next()
      if ((await next.next())?.code === 220) return next
      next.destroy()
      return undefined
    }, 'STARTTLS')
    assert.deepEqual(await client.rest(), [])
    const later = await until(async () => {
      const next = await RawClient.open(port)
      if ((await next.next())?.code === 220) return next
      next.destroy()
      return undefined
    }, 'a free place')
    later.destroy()
  })

  test('disconnects a client that does not sign in early, but not one that is signed in', async () => {
    const login = async (password: string) => (password === 'right' ? { who: 1 } : { code: 535, text: '5.7.8 No' })
    const { port } = await listenerWith({ login, signInDeadline: 200 })
    const client = await until(async () => {
      // Where the machine is busy its time may be up before it has come so far.
      const next = await RawClient.open(port)
      try {
        await next.reply()
        await next.ask('EHLO client.test')
        await next.startTls()
        await next.ask('EHLO client.test')
        const { code } = await next.ask(`AUTH PLAIN ${Buffer.from('\0me\0right').toString('base64')}`)
        return code === 235 ? next : undefined
      } catch {
        next.destroy()
        return undefined
      }
    }, 'signed in')
    const idle = await RawClient.open(port)
    const replies = await idle.rest()
    assert.deepEqual(codes(replies), [220, 421])
    assert.match(replies[1]!.text, /^4\.4\.2 /)
    const dripping = await RawClient.greeted(port)
    dripping.write('NO')
    assert.deepEqual(codes(await dripping.rest()), [421])
    assert.equal(await client.said('NOOP'), '250 2.0.0')
    for (const each of [client, idle, dripping]) each.destroy()
  })

  test('accepts 1,000 of 10,000 recipients, defers the rest, and delivers to the accepted ones', async () => {
    let asked = 0
    const { kept, port } = await listenerWith({ recipient: () => void asked++ })
    const client = await RawClient.greeted(port)
    client.write('MAIL FROM:<a@there.test>\r\n')
    client.write(Array.from({ length: 10_000 }, (_, n) => `RCPT TO:<n${n}@here.test>\r\n`).join(''))
    client.write('DATA\r\n')
    assert.equal((await client.reply()).code, 250)
    const replies: RawReply[] = []
    for (let n = 0; n < 10_000; n++) replies.push(await client.reply())
    assert.deepEqual(
      codes(replies.slice(0, 1000)),
      Array.from({ length: 1000 }, () => 250),
    )
    for (const { code, text } of replies.slice(1000)) assert.match(`${code} ${text}`, /^452 4\.5\.3 /)
    assert.equal(asked, 1000, 'nobody is asked about those beyond')
    assert.equal((await client.reply()).code, 354)
    assert.equal((await client.ask('x\r\n.')).code, 250)
    assert.equal(kept[0]!.envelope.to.length, 1000)
    client.destroy()
  })

  test('counts a duplicate recipient once', async () => {
    const { kept, port } = await listenerWith({ maxRecipients: 1 })
    const client = await RawClient.greeted(port)
    await client.ask('MAIL FROM:<a@there.test>')
    for (let n = 0; n < 3; n++) assert.equal(await client.said('RCPT TO:<box@here.test>'), '250 2.1.5')
    assert.equal(await client.said('RCPT TO:<other@here.test>'), '452 4.5.3')
    await client.ask('DATA')
    await client.ask('x\r\n.')
    assert.deepEqual(kept[0]!.envelope.to, ['box@here.test'])
    client.destroy()
  })

  test('disconnects a client after repeated rejections', async () => {
    const client = await RawClient.greeted(open.port)
    await client.ask('MAIL FROM:<a@there.test>')
    client.write('RCPT TO:<x@elsewhere.test>\r\n'.repeat(1000))
    const replies = await client.rest()
    assert.ok(replies.length <= 51, `${replies.length} answers`)
    assert.equal(replies.at(-1)!.code, 421)
    assert.match(replies.at(-1)!.text, /^4\.7\.0 /)
    client.destroy()
  })

  test('disconnects a client after repeated unknown commands', async () => {
    const client = await RawClient.greeted(open.port)
    client.write('NONSENSE\r\n'.repeat(1000))
    const replies = await client.rest()
    assert.ok(replies.length <= 51)
    assert.equal(replies.at(-1)!.code, 421)
    assert.match(replies.at(-1)!.text, /^4\./)
    client.destroy()
  })

  test('reads a command line up to the limit of RFC 5321 and its extensions, and no longer one', async () => {
    const fine = await RawClient.greeted(open.port)
    assert.equal(await fine.said(`NOOP ${'x'.repeat(1000)}`), '250 2.0.0')
    fine.destroy()
    for (const end of ['\r\n', '']) {
      const client = await RawClient.greeted(open.port)
      client.write(`NOOP ${'x'.repeat(100_000)}${end}`)
      const replies = await client.rest()
      assert.ok([421, 500].includes(replies.at(-1)!.code))
      assert.match(replies.at(-1)!.text, /^[45]\.5\.\d /)
      client.destroy()
    }
  })

  test('accepts long text lines', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    assert.equal((await client.ask(`${'x'.repeat(100_000)}\r\n.`)).code, 250)
    assert.equal(kept[0]!.text.length, 100_002)
    client.destroy()
  })

  test('disconnects an idle client with a reply, even in the middle of DATA, and stores no message', async () => {
    const ended: unknown[] = []
    const { faults, kept, port } = await listenerWith({
      idle: 60,
      message: async (bytes) => {
        try {
          for await (const _ of bytes);
        } catch (thrown) {
          ended.push(thrown)
          throw thrown
        }
        return undefined
      },
    })
    const idle = await RawClient.open(port)
    const replies = await idle.rest()
    assert.deepEqual(codes(replies), [220, 421])
    assert.match(replies[1]!.text, /^4\.4\.2 /)
    // Where the machine is busy its time may be up before it has come so far.
    const halfway = await until(async () => {
      const client = await RawClient.open(port)
      client.write(`EHLO client.test\r\n${ENVELOPE}Subject: never ended\r\n`)
      for (let reply = await client.next(); reply; reply = await client.next()) if (reply.code === 354) return client
      client.destroy()
      return undefined
    }, 'DATA in time')
    assert.deepEqual(codes(await halfway.rest()), [421])
    halfway.destroy()
    idle.destroy()
    await until(() => ended.length > 0, 'the end of the message')
    await turn()
    assert.deepEqual(faults, [], 'that is not a fault of ours')
    assert.deepEqual(kept, [])
  })

  test('does not time out while a message is processed', async () => {
    const judged = Promise.withResolvers<undefined>()
    const judging = Promise.withResolvers<true>()
    const { port } = await listenerWith({
      idle: 40,
      message: async (bytes) => {
        for await (const _ of bytes);
        judging.resolve(true)
        return judged.promise
      },
    })
    // Where the machine is busy its time may be up before it has come so far.
    const slow = await until(async () => {
      const client = await RawClient.open(port)
      client.write(`EHLO client.test\r\n${ENVELOPE}x\r\n.\r\n`)
      for (let n = 0; n < 5; n++) await client.next()
      const answer = client.next()
      return (await Promise.race([judging.promise, answer.then(() => false)])) ? { answer, client } : undefined
    }, 'a whole message in time')
    const idle = await RawClient.open(port)
    assert.equal((await idle.rest()).at(-1)?.code, 421, 'the time was up for somebody')
    judged.resolve(undefined)
    assert.equal((await slow.answer)?.code, 250)
    slow.client.destroy()
    idle.destroy()
  })

  test('bounds the memory for a client that does not read replies', async () => {
    const client = await RawClient.greeted(open.port)
    client.socket.pause()
    const before = process.memoryUsage().rss
    const block = 'NOOP\r\n'.repeat(10_000)
    let written = 0
    // 60 MB of commands. The server must stop reading long before, or close the session because of commands without
    // mail.
    for (let n = 0; n < 1000 && client.socket.writableLength < 4_000_000 && !client.socket.destroyed; n++) {
      client.write(block)
      written += block.length
      for (let k = 0; k < 5; k++) await turn()
    }
    assert.ok(
      client.socket.destroyed || client.socket.writableLength >= 4_000_000,
      `${written} octets were taken without an answer being read`,
    )
    assert.ok(process.memoryUsage().rss - before < 200_000_000)
    client.destroy()
  })

  test('passes a message in tiny fragments in blocks', async () => {
    const { kept, port } = await listenerWith()
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    client.write('..\r\n'.repeat(100_000))
    assert.equal((await client.ask('.')).code, 250)
    const { blocks, text } = kept[0]!
    assert.equal(text.length, 300_000)
    assert.ok(blocks.length <= 300_000 / 16_384 + 1, `${blocks.length} pieces`)
    client.destroy()
  })

  test('reads a message of dots as quickly as another', async () => {
    const { kept, port } = await listenerWith({ maxBytes: 20_000_000 })
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    // A turn of the event loop for each would cost most of a minute.
    const { code } = await costing(10_000, () => {
      client.write('..\r\n'.repeat(4_000_000))
      return client.ask('.')
    })
    assert.equal(code, 250)
    assert.equal(kept[0]!.text.length, 12_000_000)
    client.destroy()
  })
})

describe('internal errors', () => {
  test('logs an internal error for the operator, not for the client, after the final dot, and the session continues', async () => {
    let failing = true
    const { faults, port } = await listenerWith({
      message: async (bytes) => {
        for await (const _ of bytes) if (failing) throw new Error('EACCES: open /srv/secret/spool')
        return undefined
      },
    })
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    await client.writePieces([Buffer.alloc(210_000, 'x\r\n'), Buffer.alloc(150_000, 'y\r\n')])
    client.write('NOOP\r\n.\r\n')
    const answer = await client.reply()
    assert.equal(answer.code, 451)
    assert.match(answer.text, /^4\.3\.0 /)
    assert.doesNotMatch(answer.text, /secret|EACCES/)
    assert.match(String(faults[0]), /secret/)
    assert.equal(faults.length, 1)
    failing = false
    await client.begin('box@here.test')
    assert.equal(await client.said('x\r\n.'), '250 2.6.0')
    client.destroy()
  })

  for (const code of ['ENOSPC', 'EDQUOT', 'SQLITE_FULL'])
    test(`${code} is 452 4.3.1`, async () => {
      const { port } = await listenerWith({
        message: async (bytes) => {
          for await (const _ of bytes);
          throw Object.assign(new Error('full'), { code })
        },
      })
      const client = await RawClient.greeted(port)
      await client.begin('box@here.test')
      assert.equal(await client.said('x\r\n.'), '452 4.3.1')
      client.destroy()
    })

  test('answers 451 if the check of a recipient fails', async () => {
    const { faults, port } = await listenerWith({
      recipient: () => {
        throw new Error('disk I/O error in /srv/secret')
      },
    })
    const client = await RawClient.greeted(port)
    await client.ask('MAIL FROM:<>')
    const { code, text } = await client.ask('RCPT TO:<box@here.test>')
    assert.equal(code, 451)
    assert.doesNotMatch(text, /secret/)
    assert.equal(faults.length, 1)
    client.destroy()
  })

  test('serves the next client after any invalid data', async () => {
    const { port } = await listenerWith({ maxPerAddress: 1000 })
    let state = 7
    const random = (): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0
      return state / 4294967296
    }
    const WORDS = [
      'EHLO x',
      'MAIL FROM:<',
      'RCPT TO:<box@here.test>',
      'DATA',
      '\r\n',
      '.',
      '\r',
      '\n',
      '\0',
      'STARTTLS',
      '>',
      ' SIZE=',
      'QUIT',
      '\xff\xfe',
    ]
    for (let round = 0; round < 150; round++) {
      const client = await RawClient.open(port)
      const parts = Array.from({ length: 1 + Math.floor(random() * 30) }, () =>
        random() < 0.5
          ? Buffer.from(Array.from({ length: Math.floor(random() * 40) }, () => Math.floor(random() * 256)))
          : Buffer.from(WORDS[Math.floor(random() * WORDS.length)]!, 'latin1'),
      )
      client.write(Buffer.concat(parts))
      if (random() < 0.5) {
        client.socket.end()
        await client.rest()
      } else await client.next()
      client.destroy()
    }
    const client = await RawClient.greeted(port)
    await client.begin('box@here.test')
    assert.equal(await client.said('x\r\n.'), '250 2.6.0')
    client.destroy()
  })
})

describe('shutting down', () => {
  test('waits for no handshake', async () => {
    const implicit = await listenerWith({ implicitTls: true })
    const silent = await RawClient.open(implicit.port)
    const plain = await listenerWith()
    const upgrading = await RawClient.greeted(plain.port)
    await upgrading.ask('STARTTLS')
    await Promise.all([implicit.close(), plain.close()])
    assert.deepEqual([await silent.rest(), await upgrading.rest()], [[], []])
  })

  test('sends 421 to idle sessions, and finishes a message in progress first', async () => {
    const listener = await listenerWith()
    const { kept, port } = listener
    const [idle, between, busy] = [
      await RawClient.greeted(port),
      await RawClient.greeted(port),
      await RawClient.greeted(port),
    ]
    await between.ask('MAIL FROM:<a@there.test>')
    await busy.begin('box@here.test')
    await busy.writePieces([Buffer.from('Subject: under way\r\n')])
    const closed = listener.close(10_000)
    for (const client of [idle, between]) {
      const replies = await client.rest()
      assert.deepEqual(codes(replies), [421])
      assert.match(replies[0]!.text, /^4\.3\.2 /)
      client.destroy()
    }
    busy.write('\r\nHello\r\n.\r\n')
    assert.deepEqual(codes(await busy.rest()), [250, 421])
    busy.destroy()
    await closed
    assert.equal(kept[0]!.text, 'Subject: under way\r\n\r\nHello\r\n')
    await assert.rejects(RawClient.open(port))
  })

  test('disconnects a slow client, and does not store its message', async () => {
    const clock = new ManualClock()
    const listener = await listenerWith({}, clock)
    const { kept, port } = listener
    const busy = await RawClient.greeted(port)
    await busy.begin('box@here.test')
    busy.write('Subject: endless\r\n')
    const closed = listener.close(30_000)
    clock.advance(30_000)
    await closed
    assert.deepEqual(codes(await busy.rest()), [])
    assert.deepEqual(kept, [])
    busy.destroy()
  })
})
