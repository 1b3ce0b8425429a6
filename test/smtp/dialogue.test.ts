// The SMTP client against real and misbehaving servers: RFC 5321 §4, RFC 2920, RFC 1870, RFC 3207, RFC 6531.
import assert from 'node:assert/strict'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { makeCertificate } from '../../src/base/certificate.ts'
import { stuffDots } from '../../src/message/compose.ts'
import { openSession, TIMEOUTS, type SmtpSession, type Timeouts, type TlsWish } from '../../src/smtp/client.ts'
import { ReplyReader, readCapabilities, type SmtpReply } from '../../src/smtp/reply.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import { startTestExchanger, type Script, type TestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

const MESSAGE = 'Subject: x\r\n\r\nHello\r\n'
/** The data after DATA: dots at line starts doubled, and the final dot. */
const toWire = (message: string): Buffer => Buffer.from(`${stuffDots(message)}.\r\n`)
const WIRE = toWire(MESSAGE)
/** Short time limits for some steps, and the usual ones for the others. */
const hasty = (...steps: (keyof Timeouts)[]): Timeouts => ({
  ...TIMEOUTS,
  ...Object.fromEntries(steps.map((step) => [step, 150])),
})

const closing: (() => Promise<unknown>)[] = []
after(() => Promise.all(closing.map((close) => close())))

interface Wish {
  tls?: TlsWish
  timeouts?: Timeouts
}
const openAt = (port: number, { tls = 'none', timeouts = TIMEOUTS }: Wish = {}): Promise<SmtpSession | Verdict> =>
  openSession({ host: 'mx.there.test', address: '127.0.0.1', port, hostname: 'mx.here.test', tls, timeouts })

async function exchangerWith(script: Script): Promise<TestExchanger> {
  const exchanger = await startTestExchanger(script)
  closing.push(() => exchanger.close())
  return exchanger
}

/**
 * Opens a session and sends one message. Without a session, the verdict of the opening is the result of every
 * recipient.
 */
async function sendAt(
  port: number,
  {
    recipients = ['bob@there.test'],
    wire = WIRE,
    from = 'token@bounce.here.test',
    ...wish
  }: Wish & { recipients?: string[]; wire?: Buffer; from?: string } = {},
): Promise<Verdict[]> {
  const session = await openAt(port, wish)
  if ('kind' in session) return recipients.map(() => session)
  const verdicts = await session.send({ from, recipients }, wire)
  void session.quit()
  return verdicts
}

type Step = string | ((socket: Socket) => void)
/**
 * Answers byte by byte, by verb. `greeting` and `.` (the final dot) are steps, too. Other commands get the usual
 * answer.
 */
async function rawExchanger(steps: Record<string, Step>): Promise<{ port: number; lines: string[] }> {
  const lines: string[] = []
  const sockets = new Set<Socket>()
  const usual: Record<string, string> = {
    greeting: '220 mx.test\r\n',
    EHLO: '250 mx.test\r\n',
    DATA: '354 go\r\n',
    QUIT: '221 bye\r\n',
  }
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    let rest = ''
    let inData = false
    const act = (name: string): void => {
      const step = steps[name] ?? usual[name] ?? '250 ok\r\n'
      if (name === 'DATA') inData = typeof step === 'string' && step.startsWith('354')
      if (typeof step === 'string') socket.write(step)
      else step(socket)
    }
    socket.on('data', (chunk: Buffer) => {
      rest += chunk.toString('latin1')
      for (let end = rest.indexOf('\r\n'); end >= 0; end = rest.indexOf('\r\n')) {
        const line = rest.slice(0, end)
        rest = rest.slice(end + 2)
        if (inData) {
          if (line !== '.') continue
          inData = false
          act('.')
          continue
        }
        lines.push(line)
        act(line.split(/[ :]/)[0]!.toUpperCase())
      }
    })
    act('greeting')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(
    () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(resolve)
      }),
  )
  return { port: (server.address() as AddressInfo).port, lines }
}

const PIPELINING = ['PIPELINING', '8BITMIME', 'ENHANCEDSTATUSCODES']
const BOTH = [
  ['pipelined', PIPELINING],
  ['one by one', ['8BITMIME']],
] as const

// ---- replies ----

/** The replies in bytes that are cut at the given offsets. */
function read(octets: Buffer, ...cuts: number[]): SmtpReply[] | 'protocol error' {
  const reader = new ReplyReader()
  const replies: SmtpReply[] = []
  let from = 0
  for (const to of [...cuts, octets.length]) {
    replies.push(...reader.push(octets.subarray(from, to)))
    if (reader.broken) return 'protocol error'
    from = to
  }
  return replies
}
const one = (text: string | Buffer): SmtpReply => {
  const replies = read(Buffer.from(text as string))
  assert.ok(Array.isArray(replies), `${JSON.stringify(text)} is a reply`)
  assert.equal(replies.length, 1)
  return replies[0]!
}

test('reads replies of every form: one line, many lines, bare LF, without text', () => {
  for (const [octets, code, enhanced, text] of [
    ['250 ok\r\n', 250, null, 'ok'],
    ['250\r\n', 250, null, ''],
    ['250 \r\n', 250, null, ''],
    ['250 ok\n', 250, null, 'ok'],
    ['550 5.1.1 no such user\r\n', 550, '5.1.1', 'no such user'],
    ['550-5.1.1 no\r\n550 5.1.1 such user\r\n', 550, '5.1.1', 'no such user'],
    ['550 5.1.1\r\n', 550, '5.1.1', ''],
    // The class of the basic code counts. A contradicting enhanced code is dropped.
    ['550 4.1.1 no such user\r\n', 550, null, '4.1.1 no such user'],
    ['451 5.7.1 later\r\n', 451, null, '5.7.1 later'],
    ['250 5.0.0 ok\r\n', 250, null, '5.0.0 ok'],
    // Not an enhanced code: an address, a version, a digit too many.
    ['550 5.1.1.2 x\r\n', 550, null, '5.1.1.2 x'],
    ['550 5.1.1000 x\r\n', 550, null, '5.1.1000 x'],
    ['550 x 5.1.1\r\n', 550, null, 'x 5.1.1'],
  ] as const) {
    const reply = one(octets)
    assert.equal(reply.code, code, octets)
    assert.equal(reply.enhanced, enhanced, octets)
    assert.equal(reply.text, text, octets)
  }
})

test('strips control characters and 8-bit data, and keeps the code', () => {
  for (const rubbish of [
    '\0',
    '\x07',
    '\x1b[2J',
    '\x7f',
    '\t',
    '\r',
    '\u0085',
    '\u009b',
    '\u200b',
    '\u202e',
    '\u2028',
    '\ufeff',
  ]) {
    const reply = one(`550 5.1.1 no${rubbish}user\r\n`)
    assert.equal(reply.code, 550, JSON.stringify(rubbish))
    assert.equal(reply.enhanced, '5.1.1')
    assert.doesNotMatch(reply.text, /[\p{Cc}\p{Cf}\u2028\u2029]/u)
    assert.match(reply.text, /^no.*user$/)
  }
  // Latin-1 and broken UTF-8.
  const reply = one(Buffer.from('550 5.1.1 Empf\xe4nger \xff\xfe unbekannt\r\n', 'latin1'))
  assert.equal(reply.code, 550)
  assert.ok(reply.text.isWellFormed())
  assert.match(reply.text, /unbekannt$/)
  // Long text is cut, not refused.
  assert.ok(one(`550 ${'x'.repeat(1500)}\r\n`).text.length <= 1000)
})

test('reads the same replies from the same bytes in any fragments', () => {
  for (const text of [
    '250-mx.test\r\n250-SIZE 1000\r\n250 PIPELINING\r\n250 2.1.0 ok\r\n550 5.1.1 no\r\n',
    '550 5.1.1 Empfänger unbekannt: jürgen 😀\r\n',
    `250 ${'x'.repeat(3000)}\r\n`,
  ]) {
    const octets = Buffer.from(text)
    const whole = read(octets)
    for (let cut = 1; cut < octets.length; cut++)
      assert.deepEqual(read(octets, cut), whole, `cut at ${cut} of ${text.slice(0, 40)}`)
    assert.deepEqual(read(octets, ...Array.from({ length: octets.length - 1 }, (_, index) => index + 1)), whole)
  }
})

test('reads the replies before invalid data', () => {
  const reader = new ReplyReader()
  const replies = reader.push(Buffer.from('250 2.1.0 ok\r\n550 5.1.1 no\r\nhello\r\n250 ok\r\n'))
  assert.deepEqual(
    replies.map(({ code }) => code),
    [250, 550],
  )
  assert.equal(reader.broken, true)
})

test('rejects data that is not SMTP or has no end', () => {
  for (const text of [
    'hello\r\n',
    '\r\n',
    '25\r\n',
    '2500 x\r\n',
    '100 x\r\n',
    '650 x\r\n',
    '250_x\r\n',
    'HTTP/1.1 400 Bad Request\r\n',
  ])
    assert.equal(read(Buffer.from(text)), 'protocol error', text)
  assert.equal(read(Buffer.from('250-x\r\n'.repeat(10_000))), 'protocol error')
  assert.equal(read(Buffer.alloc(100_000, 'x')), 'protocol error')
  assert.equal(read(Buffer.from(`250 ${'x'.repeat(100_000)}`)), 'protocol error')
})

test('reads EHLO keywords in any case with parameters, without the first line', () => {
  const capabilities = readCapabilities(
    one('250-STARTTLS greets you\r\n250-size 1000\r\n250-AUTH PLAIN login\r\n250 8BitMime\r\n'),
  )
  assert.deepEqual(
    [...capabilities],
    [
      ['SIZE', '1000'],
      ['AUTH', 'PLAIN LOGIN'],
      ['8BITMIME', ''],
    ],
  )
})

// ---- opening ----

test('opens no session after a greeting of 4xx, 5xx, invalid data or silence, and loses no email', async () => {
  for (const [greeting, code, stage] of [
    ['421 4.3.2 later', 421, 'greeting'],
    ['451 busy', 451, 'greeting'],
    ['554 5.7.1 no', 554, 'greeting'],
    ['354 what', 354, 'greeting'],
    ['close', null, 'greeting'],
    ['SSH-2.0-OpenSSH', null, 'greeting'],
  ] as const) {
    const exchanger = await exchangerWith({ greeting })
    const [verdict] = await sendAt(exchanger.port)
    assert.equal(verdict?.stage, stage, greeting)
    assert.equal(verdict.code, code, greeting)
    assert.notEqual(verdict.kind, 'delivered')
    assert.equal(verdict.handed, false)
    assert.equal(exchanger.heard.length, 0)
    assert.ok(!exchanger.commands.some((line) => /^(EHLO|HELO|MAIL)/.test(line)), greeting)
  }
  const mute = await exchangerWith({ greeting: '' })
  const [verdict] = await sendAt(mute.port, { timeouts: hasty('greeting') })
  assert.equal(verdict?.kind, 'deferred')
  assert.equal(verdict.stage, 'greeting')
})

test('defers at the stage connect if the port is closed', async () => {
  const gone = await startTestExchanger()
  await gone.close()
  const [verdict] = await sendAt(gone.port)
  assert.equal(verdict?.kind, 'deferred')
  assert.equal(verdict.stage, 'connect')
  assert.equal(verdict.enhanced, '4.4.1')
})

test('reads a whole greeting of many lines before EHLO', async () => {
  const exchanger = await exchangerWith({ greeting: '220-mx.test\r\n220-No spam\r\n220 please' })
  assert.equal((await sendAt(exchanger.port))[0]?.kind, 'delivered')
  assert.deepEqual(exchanger.commands.slice(0, 2), ['EHLO mx.here.test', 'MAIL FROM:<token@bounce.here.test>'])
})

test('falls back to HELO after 5xx to EHLO, and uses no extension', async () => {
  for (const code of [500, 501, 502, 503, 504, 550, 554]) {
    const exchanger = await exchangerWith({ answer: (line) => (line.startsWith('EHLO') ? `${code} no` : undefined) })
    const [verdict] = await sendAt(exchanger.port)
    assert.equal(verdict?.kind, 'delivered', `EHLO ${code}`)
    assert.deepEqual(exchanger.commands.slice(0, 5), [
      'EHLO mx.here.test',
      'HELO mx.here.test',
      'MAIL FROM:<token@bounce.here.test>',
      'RCPT TO:<bob@there.test>',
      'DATA',
    ])
  }
})

test('sends no MAIL command after 4xx to EHLO, or after rejections of EHLO and HELO', async () => {
  for (const [ehlo, helo] of [
    ['421 4.3.2 later', undefined],
    ['451 later', undefined],
    ['502 no', '554 no'],
    ['502 no', '451 later'],
  ] as const) {
    const exchanger = await exchangerWith({
      answer: (line) => (line.startsWith('EHLO') ? ehlo : line.startsWith('HELO') ? helo : undefined),
    })
    const [verdict] = await sendAt(exchanger.port)
    assert.notEqual(verdict?.kind, 'delivered')
    assert.equal(verdict?.stage, 'ehlo')
    assert.ok(!exchanger.commands.some((line) => line.startsWith('MAIL')))
  }
})

// ---- servers that waste our time ----

test('defers at every stage after endless replies, endless lines or slow fragments', async (t) => {
  const flood =
    (text: string): Step =>
    (socket) => {
      const go = (): void => {
        while (!socket.destroyed && socket.write(text));
        if (!socket.destroyed) socket.once('drain', go)
      }
      go()
    }
  const drip: Step = (socket) => {
    const timer = setInterval(() => socket.write('2'), 15)
    socket.once('close', () => clearInterval(timer))
  }
  const slowLines: Step = (socket) => {
    const timer = setInterval(() => socket.write('250-still here\r\n'), 15)
    socket.once('close', () => clearInterval(timer))
  }
  const plagues: [string, Step][] = [
    ['250- lines without end', flood('250-and another\r\n'.repeat(100))],
    ['a line without end', flood('x'.repeat(100_000))],
    ['a line of 100 KB', `250 ${'y'.repeat(100_000)}\r\n`],
    ['silence', () => {}],
    ['a drip of octets', drip],
    ['a drip of lines', slowLines],
  ]
  for (const [name, step] of plagues)
    await t.test(name, async () => {
      const stages = [
        ['greeting', 'greeting'],
        ['EHLO', 'command'],
        ['MAIL', 'command'],
        ['RCPT', 'command'],
        ['DATA', 'data'],
        ['.', 'finalDot'],
      ] as const
      await Promise.all(
        stages.map(async ([stage, impatient]) => {
          const { port } = await rawExchanger({ [stage]: step })
          const [verdict] = await sendAt(port, { timeouts: hasty(impatient) })
          assert.equal(verdict?.kind, 'deferred', stage)
          assert.equal(verdict.handed, stage === '.', stage)
          assert.ok(verdict.text.length <= 2000)
          assert.ok((verdict.dialogue ?? '').length <= 16_000)
        }),
      )
    })
})

test('accepts a reply that arrives byte by byte', async () => {
  const slowly =
    (text: string): Step =>
    (socket) => {
      const octets = [...Buffer.from(text)]
      const next = (): void => {
        const octet = octets.shift()
        if (octet !== undefined) socket.write(Buffer.from([octet]), () => setImmediate(next))
      }
      next()
    }
  const { port } = await rawExchanger({
    EHLO: slowly('250-mx.test\r\n250 SIZE 5000\r\n'),
    '.': slowly('250-2.0.0 a\r\n250 2.0.0 b\r\n'),
  })
  assert.equal((await sendAt(port))[0]?.kind, 'delivered')
})

// ---- the connection ends ----

for (const [way, keywords] of BOTH)
  test(`${way}: defers if the connection closes at any stage, and never delivers or bounces`, async () => {
    for (const stage of ['greeting', 'EHLO', 'MAIL', 'RCPT', 'DATA', '.'])
      for (const [how, step] of [
        ['at once', (socket: Socket) => void socket.destroy()],
        ['orderly', (socket: Socket) => void socket.end()],
        ['in a reply', (socket: Socket) => void socket.end('25')],
        ['between lines', (socket: Socket) => void socket.end('250-2.0.0 Queued as 1234\r\n')],
      ] as const) {
        const { port } = await rawExchanger({
          EHLO: ['250-mx.test', ...keywords.map((word) => `250-${word}`), '250 HELP', ''].join('\r\n'),
          [stage]: step,
        })
        const [verdict] = await sendAt(port)
        assert.equal(verdict?.kind, 'deferred', `${stage} ${how}`)
        assert.equal(verdict.code, null, `${stage} ${how}`)
        // After the final dot the result is unknown: the message was handed over.
        assert.equal(verdict.handed, stage === '.', `${stage} ${how}`)
        assert.match(verdict.enhanced ?? '', /^4\./)
      }
  })

test('defers if the connection closes in the middle of the message', async () => {
  const { port } = await rawExchanger({
    DATA: (socket) => {
      socket.removeAllListeners('data')
      socket.write('354 go\r\n')
      socket.once('data', () => socket.destroy())
    },
  })
  const [verdict] = await sendAt(port, { wire: toWire(`Subject: x\r\n\r\n${'line\r\n'.repeat(500_000)}`) })
  assert.equal(verdict?.kind, 'deferred')
  assert.equal(verdict.code, null)
})

test('does not take an early 250 for the reply to the final dot (D25)', async () => {
  const { port } = await rawExchanger({
    DATA: (socket) => {
      socket.removeAllListeners('data')
      socket.write('354 go\r\n250 2.0.0 Queued, or so I say\r\n')
      let tail = ''
      socket.on('data', (chunk: Buffer) => {
        tail = (tail + chunk.toString('latin1')).slice(-5)
        if (tail === '\r\n.\r\n') socket.destroy()
      })
    },
  })
  const [verdict] = await sendAt(port)
  assert.equal(verdict?.kind, 'deferred')
})

// ---- envelopes ----

for (const [way, keywords] of BOTH) {
  test(`${way}: each recipient has the result of its RCPT, and the message goes to the accepted ones`, async () => {
    const exchanger = await exchangerWith({
      keywords: [...keywords],
      answer: (line) =>
        line.includes('b@')
          ? '451 4.2.1 later'
          : line.includes('c@')
            ? '550 5.1.1 who'
            : line.includes('e@')
              ? '251 will forward'
              : undefined,
    })
    const recipients = ['a@there.test', 'b@there.test', 'c@there.test', 'd@there.test', 'e@there.test']
    const verdicts = await sendAt(exchanger.port, { recipients })
    assert.deepEqual(
      verdicts.map(({ kind, code, stage }) => [kind, code, stage]),
      [
        ['delivered', 250, 'final dot'],
        ['deferred', 451, 'rcpt'],
        ['bounced', 550, 'rcpt'],
        ['delivered', 250, 'final dot'],
        ['delivered', 250, 'final dot'],
      ],
    )
    assert.deepEqual(
      exchanger.heard.map(({ to }) => to),
      [['a@there.test', 'd@there.test', 'e@there.test']],
    )
    assert.deepEqual(
      verdicts.map(({ handed }) => handed),
      [true, false, false, true, true],
    )
  })

  test(`${way}: a rejection of the final dot is the result of all accepted recipients`, async () => {
    for (const [reply, kind] of [
      ['550 5.7.1 spam', 'bounced'],
      ['451 4.3.0 later', 'deferred'],
      ['552 5.3.4 too big', 'bounced'],
    ] as const) {
      const exchanger = await exchangerWith({ keywords: [...keywords], final: () => reply })
      const verdicts = await sendAt(exchanger.port, { recipients: ['a@there.test', 'b@there.test'] })
      assert.deepEqual(
        verdicts.map((verdict) => [verdict.kind, verdict.handed]),
        [
          [kind, true],
          [kind, true],
        ],
      )
    }
  })

  test(`${way}: defers recipients beyond the limit of a transaction (RFC 5321 §4.5.3.1.10)`, async () => {
    for (const reply of ['452 4.5.3 Too many recipients', '552 5.5.3 Too many recipients', '552 Too many recipients']) {
      const exchanger = await exchangerWith({
        keywords: [...keywords],
        answer: (line) => (line.includes('c@') ? reply : undefined),
      })
      const verdicts = await sendAt(exchanger.port, { recipients: ['a@there.test', 'b@there.test', 'c@there.test'] })
      assert.deepEqual(
        verdicts.map(({ kind }) => kind),
        ['delivered', 'delivered', 'deferred'],
        reply,
      )
    }
  })

  test(`${way}: a rejection of MAIL is the result of all recipients, with its code`, async () => {
    for (const [reply, kind] of [
      ['550 5.7.1 not you', 'bounced'],
      ['451 4.7.1 later', 'deferred'],
      ['421 4.7.0 go away', 'deferred'],
      ['555 parameter', 'bounced'],
    ] as const) {
      const exchanger = await exchangerWith({
        keywords: [...keywords],
        answer: (line) => (line.startsWith('MAIL') ? reply : /^(RCPT|DATA)/.test(line) ? '503 5.5.1 order' : undefined),
      })
      const verdicts = await sendAt(exchanger.port, { recipients: ['a@there.test', 'b@there.test'] })
      for (const verdict of verdicts) {
        assert.equal(verdict.kind, kind, reply)
        assert.equal(verdict.code, Number(reply.slice(0, 3)))
        assert.equal(verdict.stage, 'mail')
      }
      assert.equal(exchanger.heard.length, 0)
    }
  })

  test(`${way}: only 354 to DATA continues, and only 2xx to the final dot delivers`, async () => {
    for (const [reply, kind] of [
      ['250 2.0.0 ok', 'deferred'],
      ['451 4.3.0 later', 'deferred'],
      ['554 5.7.1 no', 'bounced'],
    ] as const) {
      const exchanger = await exchangerWith({
        keywords: [...keywords],
        answer: (line) => (line === 'DATA' ? reply : undefined),
      })
      const [verdict] = await sendAt(exchanger.port)
      assert.equal(verdict?.kind, kind, `DATA ${reply}`)
      assert.equal(verdict.stage, 'data')
      assert.equal(verdict.handed, false)
      assert.equal(exchanger.heard.length, 0)
    }
    for (const reply of ['354 go on', '334 what']) {
      const exchanger = await exchangerWith({ keywords: [...keywords], final: () => reply })
      assert.equal((await sendAt(exchanger.port))[0]?.kind, 'deferred', `final dot ${reply}`)
    }
  })
}

test('pipelines commands only if PIPELINING was offered', async () => {
  for (const [keywords, flight] of [
    [PIPELINING, true],
    [['8BITMIME'], false],
  ] as const) {
    // MAIL is never answered, so later commands prove pipelining.
    const exchanger = await exchangerWith({
      keywords: [...keywords],
      answer: (line) => (/^(MAIL|RCPT|DATA)/.test(line) ? '' : undefined),
    })
    const sent = sendAt(exchanger.port)
    await until(() => exchanger.commands.some((line) => line.startsWith('MAIL')), 'MAIL')
    if (flight) await until(() => exchanger.commands.includes('DATA'), 'DATA')
    exchanger.cut()
    const [verdict] = await sent
    assert.equal(verdict?.kind, 'deferred')
    assert.equal(exchanger.commands.includes('DATA'), flight)
    assert.equal(
      exchanger.commands.some((line) => line.startsWith('RCPT')),
      flight,
    )
  }
})

test('sends an empty message after 354 if all recipients were rejected, and keeps the connection (RFC 2920 §3.1)', async () => {
  for (const reply of ['354 go ahead', '503 5.5.1 no recipients', '554 5.5.1 no valid recipients']) {
    let refusing = true
    const exchanger = await exchangerWith({
      answer: (line) => {
        if (!refusing) return undefined
        if (line.startsWith('RCPT')) return '550 5.1.1 who'
        return line === 'DATA' ? reply : undefined
      },
      final: ({ message }) => (message === '' ? '554 5.5.1 no valid recipients' : undefined),
    })
    const session = await openAt(exchanger.port)
    assert.ok(!('kind' in session))
    const envelope = { from: 'token@bounce.here.test', recipients: ['a@there.test', 'b@there.test'] }
    const verdicts = await session.send(envelope, WIRE)
    assert.deepEqual(
      verdicts.map(({ kind, code, handed }) => [kind, code, handed]),
      [
        ['bounced', 550, false],
        ['bounced', 550, false],
      ],
      reply,
    )
    assert.equal(exchanger.heard.length, 0)
    refusing = false
    const again = await session.send(envelope, WIRE)
    assert.deepEqual(
      again.map(({ kind }) => kind),
      ['delivered', 'delivered'],
      reply,
    )
    assert.deepEqual(
      exchanger.heard.map(({ message }) => message),
      [MESSAGE],
    )
    assert.equal(exchanger.connections, 1)
    void session.quit()
  }
})

test('reuses a connection with RSET after a rejected email', async () => {
  for (const [refused, way] of [
    ['MAIL', PIPELINING],
    ['RCPT', PIPELINING],
    ['DATA', PIPELINING],
    ['MAIL', []],
    ['RCPT', []],
    ['DATA', []],
  ] as const) {
    let refuse = true
    const exchanger = await exchangerWith({
      keywords: [...way],
      answer: (line) => {
        if (!refuse) return undefined
        if (line.startsWith(refused)) return '550 5.7.1 no'
        return line === 'DATA' ? '503 5.5.1 order' : undefined
      },
    })
    const session = await openAt(exchanger.port)
    assert.ok(!('kind' in session))
    const [first] = await session.send({ from: 'one@bounce.here.test', recipients: ['a@there.test'] }, WIRE)
    assert.equal(first?.kind, 'bounced', refused)
    refuse = false
    const [second] = await session.send({ from: 'two@bounce.here.test', recipients: ['b@there.test'] }, WIRE)
    assert.equal(second?.kind, 'delivered', refused)
    assert.deepEqual(
      exchanger.heard.map(({ from, to }) => [from, to]),
      [['two@bounce.here.test', ['b@there.test']]],
    )
    assert.equal(exchanger.connections, 1)
    assert.equal(exchanger.commands.filter((line) => line === 'RSET').length, 1)
    // The transcript of the second message must not contain the first, because the owner of the second can see it.
    assert.doesNotMatch(second.dialogue ?? '', /one@bounce|a@there/)
    void session.quit()
  }
})

test('sends many emails over one connection', async () => {
  const exchanger = await exchangerWith({})
  const session = await openAt(exchanger.port)
  assert.ok(!('kind' in session))
  for (let n = 0; n < 50; n++) {
    const verdicts: Verdict[] = await session.send(
      { from: 'x@bounce.here.test', recipients: [`n${n}@there.test`] },
      WIRE,
    )
    assert.equal(verdicts[0]?.kind, 'delivered')
    assert.ok(session.usable)
  }
  assert.equal(exchanger.heard.length, 50)
  assert.equal(exchanger.connections, 1)
  void session.quit()
})

test('treats 421 at any stage as temporary, with its code', async () => {
  for (const stage of ['MAIL', 'RCPT', 'DATA', '.']) {
    const { port } = await rawExchanger({ [stage]: (socket) => void socket.end('421 4.3.2 shutting down\r\n') })
    const [verdict] = await sendAt(port)
    assert.equal(verdict?.kind, 'deferred', stage)
    assert.equal(verdict.code, 421, stage)
  }
})

test('defers the next email after 421 and a close on an idle session', async () => {
  const exchanger = await rawExchanger({ '.': (socket) => void socket.end('250 ok\r\n421 4.4.2 idle too long\r\n') })
  const session = await openAt(exchanger.port)
  assert.ok(!('kind' in session))
  const envelope = { from: 'x@bounce.here.test', recipients: ['a@there.test'] }
  assert.equal((await session.send(envelope, WIRE))[0]?.kind, 'delivered')
  const [verdict] = await session.send(envelope, WIRE)
  assert.equal(verdict?.kind, 'deferred')
  assert.equal(verdict.handed, false)
  await until(() => !session.usable)
})

// ---- extensions ----

test('sends no message above SIZE, and the SIZE parameter only if the server offers it', async () => {
  const wire = toWire(`Subject: x\r\n\r\n${'line\r\n'.repeat(400)}`)
  const small = await exchangerWith({ keywords: ['PIPELINING', 'SIZE 2000'] })
  const [verdict] = await sendAt(small.port, { wire })
  assert.equal(verdict?.kind, 'bounced')
  assert.equal(verdict.enhanced, '5.3.4')
  assert.ok(!small.commands.some((line) => /^(MAIL|RCPT|DATA)/.test(line)))
  for (const [keyword, parameter] of [
    ['SIZE 1000000', true],
    ['SIZE 0', true],
    ['SIZE', true],
    ['SIZE nonsense', true],
    ['HELP', false],
  ] as const) {
    const exchanger = await exchangerWith({ keywords: [keyword] })
    assert.equal((await sendAt(exchanger.port, { wire }))[0]?.kind, 'delivered', keyword)
    const mail = exchanger.commands.find((line) => line.startsWith('MAIL'))!
    assert.equal(/ SIZE=\d+/.test(mail), parameter, `${keyword}: ${mail}`)
  }
})

test('bounces non-ASCII addresses with 5.6.7 without SMTPUTF8', async () => {
  const recipients = ['jürgen@there.test']
  const without = await exchangerWith({})
  const [verdict] = await sendAt(without.port, { recipients })
  assert.equal(verdict?.kind, 'bounced')
  assert.equal(verdict.enhanced, '5.6.7')
  assert.ok(!without.commands.some((line) => /^(MAIL|RCPT|DATA)/.test(line)))
  const { port, lines } = await rawExchanger({ EHLO: '250-mx.test\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n' })
  assert.equal((await sendAt(port, { recipients }))[0]?.kind, 'delivered')
  assert.match(
    lines.find((line) => line.startsWith('MAIL'))!,
    / SMTPUTF8$/,
  )
  assert.ok(lines.map((line) => Buffer.from(line, 'latin1').toString()).includes('RCPT TO:<jürgen@there.test>'))
})

test('sends only MAIL parameters that EHLO offered', async () => {
  const exchanger = await exchangerWith({ keywords: ['PIPELINING'] })
  await sendAt(exchanger.port)
  assert.ok(exchanger.commands.includes('MAIL FROM:<token@bounce.here.test>'))
})

// ---- the mail itself ----

test('stuffs dots at any position and block boundary, and ends the message with one CRLF', async () => {
  const exchanger = await exchangerWith({})
  const session = await openAt(exchanger.port)
  assert.ok(!('kind' in session))
  const envelope = { from: 'x@bounce.here.test', recipients: ['a@there.test'] }
  const messages = [
    'Subject: x\r\n\r\n.\r\n',
    'Subject: x\r\n\r\n.\r\n.\r\n..\r\n...\r\n.x\r\n',
    'Subject: x\r\n\r\nx\r\n\r\n.\r\n\r\nQUIT\r\n.\r\nMAIL FROM:<y@z.test>\r\n',
    // Around the block of 64 KB in which the mail is written.
    ...[-4, -3, -2, -1, 0, 1, 2].map((shift) => `Subject: x\r\n\r\n${'y'.repeat(65_536 - 14 + shift)}\r\n.\r\n.z\r\n`),
  ]
  for (const message of messages) assert.equal((await session.send(envelope, toWire(message)))[0]?.kind, 'delivered')
  assert.deepEqual(
    exchanger.heard.map(({ message }) => message),
    messages,
  )
  void session.quit()
})

test('delivers a large message to a slow server, and gives up on one that stops reading', async () => {
  const wire = toWire(`Subject: x\r\n\r\n${'0123456789'.repeat(7).concat('\r\n').repeat(120_000)}`)
  let octets = 0
  const reading =
    (stop: boolean): Step =>
    (socket) => {
      socket.write('354 go\r\n')
      socket.removeAllListeners('data')
      let tail = ''
      socket.on('data', (chunk: Buffer) => {
        octets += chunk.length
        tail = (tail + chunk.toString('latin1')).slice(-5)
        socket.pause()
        if (!stop) setImmediate(() => socket.resume())
        if (tail === '\r\n.\r\n') socket.write('250 2.0.0 ok\r\n')
      })
    }
  const slow = await rawExchanger({ DATA: reading(false) })
  assert.equal((await sendAt(slow.port, { wire }))[0]?.kind, 'delivered')
  assert.equal(octets, wire.length)
  const stuck = await rawExchanger({ DATA: reading(true) })
  const [verdict] = await sendAt(stuck.port, { wire, timeouts: hasty('block') })
  assert.equal(verdict?.kind, 'deferred')
})

// ---- STARTTLS ----

test('STARTTLS uses TLS 1.2 or newer, repeats EHLO, and drops earlier keywords', async () => {
  let hellos = 0
  const exchanger = await exchangerWith({
    answer: (line) =>
      line.startsWith('EHLO')
        ? hellos++ === 0
          ? '250-mx.test\r\n250-SIZE 10\r\n250-PIPELINING\r\n250 STARTTLS'
          : '250 mx.test'
        : undefined,
  })
  const [verdict] = await sendAt(exchanger.port, { tls: 'optional' })
  assert.equal(verdict?.kind, 'delivered')
  assert.match(verdict.tls ?? '', /^TLSv1\.[23]$/)
  assert.equal(exchanger.heard[0]?.tls, true)
  assert.deepEqual(exchanger.commands.slice(0, 4), [
    'EHLO mx.here.test',
    'STARTTLS',
    'EHLO mx.here.test',
    'MAIL FROM:<token@bounce.here.test>',
  ])
})

test('without STARTTLS, sends in clear text if TLS is optional, and no MAIL command if it is required', async () => {
  const exchanger = await exchangerWith({})
  const [optional] = await sendAt(exchanger.port, { tls: 'optional' })
  assert.equal(optional?.kind, 'delivered')
  assert.equal(optional.tls, null)
  exchanger.commands.length = 0
  const [required] = await sendAt(exchanger.port, { tls: 'required' })
  assert.equal(required?.kind, 'deferred')
  assert.equal(required.stage, 'starttls')
  assert.ok(!exchanger.commands.some((line) => /^(MAIL|RCPT|DATA)/.test(line)))
  assert.equal(exchanger.heard.length, 1)
})

test('opens no session after a failed STARTTLS, and ignores replies from before it', async () => {
  const old = makeCertificate('mx.test', Date.now())
  const upTo =
    (maxVersion: 'TLSv1' | 'TLSv1.1'): Step =>
    (socket) => {
      socket.write('220 go\r\n')
      socket.removeAllListeners('data')
      const secure = new TLSSocket(socket, {
        isServer: true,
        ...old,
        minVersion: 'TLSv1',
        maxVersion,
        ciphers: 'ALL@SECLEVEL=0',
      })
      secure.on('error', () => socket.destroy())
    }
  for (const [what, step] of [
    ['454 instead of 220', '454 4.7.0 TLS not available\r\n'],
    ['501 instead of 220', '501 no\r\n'],
    // CVE-2011-0411: replies injected in clear text would count as replies inside TLS.
    ['replies behind 220 in the same packet', '220 go\r\n250-mx.test\r\n250 ok\r\n'],
    ['half a reply behind 220', '220 go\r\n25'],
    ['no TLS behind 220', (socket) => void (socket.write('220 go\r\n'), socket.write('not TLS at all\r\n'))],
    ['closed after 220', (socket) => void socket.end('220 go\r\n')],
    ['silent after 220', '220 go\r\n'],
    ['TLS 1.0 only', upTo('TLSv1')],
    ['TLS 1.1 only', upTo('TLSv1.1')],
  ] as [string, Step][])
    for (const tls of ['optional', 'required'] as const) {
      const { port, lines } = await rawExchanger({ EHLO: '250-mx.test\r\n250 STARTTLS\r\n', STARTTLS: step })
      const open = () => openAt(port, { tls, timeouts: what.startsWith('silent') ? hasty('command') : TIMEOUTS })
      // Where the machine is busy the impatient one may give up before it has come to STARTTLS.
      const session = await until(async () => {
        const opened = await open()
        return 'kind' in opened && opened.stage === 'ehlo' ? undefined : opened
      }, 'STARTTLS')
      assert.ok('kind' in session, what)
      assert.equal(session.kind, 'deferred', what)
      assert.equal(session.stage, 'starttls', what)
      assert.equal(session.tls, null, what)
      assert.ok(!lines.some((line) => /^(MAIL|RCPT|DATA)/.test(line)), what)
    }
})

test('sends QUIT when the session is no longer needed', async () => {
  const exchanger = await exchangerWith({})
  await sendAt(exchanger.port)
  await until(() => exchanger.commands.at(-1) === 'QUIT')
  // And the port is free of us: a new connection is a new conversation.
  const socket = connect(exchanger.port, '127.0.0.1')
  await new Promise((resolve) => socket.once('data', resolve))
  socket.destroy()
  assert.equal(exchanger.connections, 2)
})
