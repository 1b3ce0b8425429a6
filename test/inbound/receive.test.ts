// Receiving, over real sockets into a real server: accepted recipients (D46), which data is kept and when 250 is sent
// (D47), trace fields, internationalised mail, the virus scanner, certificates.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { after, describe, test, type TestContext } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { silentLog } from '../../src/base/log.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { scan } from '../../src/inbound/scan.ts'
import type { Tx } from '../../src/store/database.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { startTestDns } from '../kit/zone.ts'
import { RawClient } from '../smtp/raw.ts'

const LIMIT = 1_000_000
type Ask = (...request: Parameters<TestAppliance['api']>) => Promise<Answer>
const postrider = await startTestAppliance({ config: { inbound: { max_message_bytes: LIMIT } } })
after(() => postrider.stop())
const { store } = postrider.appliance.deps
const { port } = postrider.appliance.smtp[0]!
const asAnn: Ask = (...request) => postrider.api(...request)
const asBob: Ask = (...request) => postrider.asOther(...request)

await postrider.activeDomain('here.test')

async function inbox(address: string, as: Ask = asAnn): Promise<string> {
  const { body, status } = await as('POST', '/inboxes', document('inboxes', { name: 'Box', address }))
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id as string
}
await inbox('Box@here.test')

const count = (sql: string): number => store.first(raw<{ n: number }>(`select count(*) as n from ${sql}`))!.n
const messages = (): number => count('inbound_messages')
const spooled = (dir = postrider.dataDir): string[] =>
  existsSync(join(dir, 'spool')) ? readdirSync(join(dir, 'spool')) : []
/** Everything that came was read. */
const settled = (): Promise<boolean> => until(() => count('inbound_waiting') === 0, 'everything read')

/** The reply to RCPT. */
async function rcpt(address: string | Buffer, parameters = ''): Promise<string> {
  const client = await RawClient.greeted(port)
  await client.ask(`MAIL FROM:<ann@there.test>${parameters}`)
  const said = await client.said(Buffer.concat([Buffer.from('RCPT TO:<'), Buffer.from(address), Buffer.from('>\r\n')]))
  client.destroy()
  return said
}

/** Sends one message. Returns the reply to the final dot. */
async function send(
  message: string | Buffer,
  { to = ['box@here.test'], at = port, helo = 'client.test', from = 'ann@there.test', parameters = '' } = {},
): Promise<string> {
  const client = await RawClient.greeted(at, helo)
  await client.ask(`MAIL FROM:<${from}>${parameters}`)
  for (const each of to) await client.ask(`RCPT TO:<${each}>`)
  assert.equal((await client.ask('DATA')).code, 354)
  client.write(message)
  const said = await client.said('.')
  client.destroy()
  return said
}

const list = async (query = '', as: Ask = asAnn) =>
  (await as('GET', `/inbound-emails?page[size]=100${query}`)).body.data as {
    id: string
    attributes: Record<string, unknown>
  }[]
const rawOf = async (id: string): Promise<string> =>
  String((await postrider.api('GET', `/inbound-emails/${id}/raw`)).body)

describe('accepted recipients', () => {
  for (const address of [
    'box@here.test',
    'BOX@HERE.TEST',
    'box+tag@here.test',
    'Box+Tag+More@Here.Test',
    '@relay.test:box@here.test',
    '@one.test,@two.test:box@here.test',
    'postmaster',
    'PostMaster',
    'postmaster@here.test',
    'POSTMASTER@Here.Test',
    'abuse@here.test',
    'Abuse@here.test',
  ])
    test(`accepts <${address}>`, async () => assert.equal(await rcpt(address), '250 2.1.5'))

  for (const [address, refusal] of [
    ['nobody@here.test', '550 5.1.1'],
    ['nobody+box@here.test', '550 5.1.1'],
    ['+tag@here.test', '550 5.1.1'],
    ['ann%there.test@here.test', '550 5.1.1'],
    ['there.test!ann@here.test', '550 5.1.1'],
    ['box%here.test@here.test', '550 5.1.1'],
    ['webmaster@here.test', '550 5.1.1'],
    ['ann@there.test', '554 5.7.1'],
    ['postmaster@there.test', '554 5.7.1'],
    ['abuse@there.test', '554 5.7.1'],
    ['abuse', '501 5.1.3'],
    ['box', '501 5.1.3'],
    ['@here.test:ann@there.test', '554 5.7.1'],
    ['box@here.test@there.test', '501 5.1.3'],
    ['"ann@there.test"@here.test', '550 5.1.1'],
    ['box@[127.0.0.1]', '554 5.7.1'],
    ['ann@[192.0.2.1]', '554 5.7.1'],
    ['ann@[IPv6:2001:db8::1]', '554 5.7.1'],
    ['box@localhost', '554 5.7.1'],
    ['box@127.0.0.1', '554 5.7.1'],
    ['box@here.test.', '501 5.1.3'],
    ['box@sub.here.test', '550 5.1.1'],
    ['box@nothere.test', '554 5.7.1'],
    ['box@test', '554 5.7.1'],
  ] as const)
    test(`rejects <${address}>: ${refusal}`, async () => assert.equal(await rcpt(address), refusal))

  test('rejects return paths and unsubscribe addresses with invalid tokens', async () => {
    const token = 'a'.repeat(26)
    for (const address of [`${token}@bounces.here.test`, `u-${token}@bounces.here.test`, `${token}@here.test`])
      assert.equal(await rcpt(address), '550 5.1.1', address)
    assert.equal(await rcpt(`${token}@bounces.there.test`), '554 5.7.1')
  })

  test('rejects mail for a domain that is not verified for any account', async () => {
    const { deps } = postrider.appliance
    await registerDomain({ ...deps, ring: () => {} }, postrider.other.key, { name: 'claimed.test', purpose: 'both' })
    await inbox('box@claimed.test', asBob)
    for (const local of ['box', 'postmaster', 'abuse']) assert.equal(await rcpt(`${local}@claimed.test`), '451 4.3.0')
    // A claim to another account's domain does not get its mail either.
    await registerDomain({ ...deps, ring: () => {} }, postrider.other.key, { name: 'here.test', purpose: 'both' })
    await inbox('box@here.test', asBob)
    await receive(postrider, { to: 'box@here.test' })
    assert.deepEqual(await list('', asBob), [])
  })

  test('two accounts that both own a domain both get its mail', async () => {
    await postrider.activeDomain('shared.test')
    await postrider.activeDomain('shared.test', postrider.other)
    await inbox('team@shared.test')
    await inbox('team@shared.test', asBob)
    await receive(postrider, { to: 'team@shared.test', message: 'Subject: for both\n\nHello\n' })
    for (const as of [asAnn, asBob])
      assert.equal((await list('', as)).filter(({ attributes }) => attributes['subject'] === 'for both').length, 1)
  })

  test('rejects mail for a suspended or removed domain, and for a deleted inbox', async () => {
    const going = await postrider.activeDomain('going.test')
    const id = await inbox('box@going.test')
    await inbox('other@going.test')
    assert.equal(await rcpt('box@going.test'), '250 2.1.5')
    assert.equal((await postrider.api('DELETE', `/inboxes/${id}`)).status, 204)
    assert.equal(await rcpt('box@going.test'), '550 5.1.1')
    const move = (status: string) =>
      store.write((tx) => tx.run(raw('update domains set status = ? where key = ?', [status, going.key])))
    await move('suspended')
    assert.equal(await rcpt('other@going.test'), '554 5.7.1')
    for (const status of ['failed', 'pending']) {
      await move(status)
      assert.equal(await rcpt('other@going.test'), '451 4.3.0', status)
    }
    await move('verifying')
    assert.equal(await rcpt('other@going.test'), '250 2.1.5', 'verified once, looked at again')
    await move('active')
    assert.equal((await postrider.api('DELETE', `/domains/${going.id}`)).status, 204)
    assert.match(await rcpt('other@going.test'), /^55[04] 5\.[17]\.1$/)
  })

  test('a domain that must be verified again between RCPT and the final dot: the sender tries again (D197)', async () => {
    const falling = await postrider.activeDomain('falling.test')
    await inbox('box@falling.test')
    const client = await RawClient.greeted(port)
    await client.begin('box@falling.test')
    await store.write((tx) => tx.run(raw(`update domains set status = 'failed' where key = ?`, [falling.key])))
    const before = messages()
    client.write('Subject: too early\r\n\r\nx\r\n')
    assert.equal(await client.said('.'), '451 4.3.0')
    client.destroy()
    assert.equal(messages(), before)
  })

  test('rejects the message if its only inbox is deleted between RCPT and the final dot', async () => {
    const id = await inbox('brief@here.test')
    for (const size of [10, 400_000]) {
      const client = await RawClient.greeted(port)
      await client.begin('brief@here.test')
      if (size === 10) await postrider.api('DELETE', `/inboxes/${id}`)
      else await store.write((tx) => tx.run(raw('update inboxes set deleted_at = 1 where id = ?', [id])))
      const before = messages()
      client.write(`Subject: too late\r\n\r\n${'x\r\n'.repeat(size / 2)}`)
      assert.equal(await client.said('.'), '550 5.1.1')
      client.destroy()
      assert.equal(messages(), before)
      await store.write((tx) => tx.run(raw('update inboxes set deleted_at = null where id = ?', [id])))
    }
    await settled()
    assert.deepEqual(
      spooled().filter((name) => name.endsWith('.part')),
      [],
    )
  })

  test('one inbox under several spellings gets one message with all of them', async () => {
    await send('Subject: spellings\r\n\r\n', { to: ['box@here.test', 'BOX+a@here.test', 'box+b@HERE.test'] })
    const mail = await until(
      async () => (await list()).find(({ attributes }) => attributes['subject'] === 'spellings'),
      'the mail',
    )
    assert.deepEqual(mail.attributes['recipients'], ['box@here.test', 'box+a@here.test', 'box+b@here.test'])
  })
})

describe('size', () => {
  const message = (size: number): Buffer => {
    const head = Buffer.from(`Subject: size ${size}\r\nX-Last: of the header\r\n\r\n`)
    const line = `${'x'.repeat(76)}\r\n`
    const rest = size - head.length
    const body = Buffer.from(line.repeat(Math.ceil(rest / line.length))).subarray(0, rest)
    body.write('\r\n', rest - 2)
    // A line end that was cut in the middle by the one above.
    if (body[rest - 3] === 0x0d) body[rest - 3] = 0x78
    return Buffer.concat([head, body])
  }
  const found = (size: number) =>
    until(
      async () => (await list()).find(({ attributes }) => attributes['subject'] === `size ${size}`),
      `the mail of ${size} octets`,
    )

  test('rejects SIZE over the limit at MAIL, without storing a row', async () => {
    const before = messages()
    const client = await RawClient.greeted(port)
    assert.equal(await client.said(`MAIL FROM:<ann@there.test> SIZE=${LIMIT + 1}`), '552 5.3.4')
    assert.equal(await client.said('RCPT TO:<box@here.test>'), '503 5.5.1')
    client.destroy()
    assert.equal(messages(), before)
  })

  for (const size of [256 * 1024, 256 * 1024 + 1, LIMIT - 1, LIMIT])
    test(`accepts and stores all ${size} bytes`, async () => {
      assert.equal(await send(message(size)), '250 2.6.0')
      const { attributes, id } = await found(size)
      assert.equal(attributes['status'], 'received')
      assert.equal(attributes['size'], size)
      assert.ok((await rawOf(id)).endsWith(message(size).toString('latin1')))
    })

  test('answers 552 5.3.4 to more bytes, and stores envelope and header', async () => {
    await settled()
    const files = spooled()
    assert.equal(await send(message(LIMIT + 1), { from: 'big@there.test' }), '552 5.3.4')
    const { attributes, id } = await found(LIMIT + 1)
    assert.equal(attributes['status'], 'oversized')
    assert.equal(attributes['sender'], 'big@there.test')
    assert.equal(attributes['size'], LIMIT + 1)
    assert.deepEqual(attributes['attachments'], [])
    const whole = (await postrider.api('GET', `/inbound-emails/${id}`)).body.data.attributes
    assert.equal(whole.headers['x-last'], 'of the header')
    assert.equal(whole.text, null)
    assert.doesNotMatch(await rawOf(id), /xxxx/)
    assert.deepEqual(spooled(), files, 'no file is left of it')
  })

  test('does not count stuffed dots for the size limit', async () => {
    const line = '..\r\n'
    const head = 'Subject: dots\r\n\r\n'
    const lines = Math.floor((LIMIT - head.length) / 3)
    assert.equal(await send(head + line.repeat(lines)), '250 2.6.0')
    const mail = await until(
      async () => (await list()).find(({ attributes }) => attributes['subject'] === 'dots'),
      'the mail',
    )
    assert.equal(mail.attributes['size'], head.length + 3 * lines)
  })
})

describe('durability after 250', () => {
  test('answers 452 if the database is full, leaves no files, and accepts the next message', async () => {
    await settled()
    const before = { messages: messages(), files: spooled() }
    const pages = store.first(raw<{ page_count: number }>('pragma page_count'))!.page_count
    store.all(raw(`pragma max_page_count = ${pages}`))
    try {
      assert.equal(await send(`Subject: full\r\n\r\n${'x'.repeat(70)}\r\n`.repeat(2000)), '452 4.3.1')
      // A file of the spool whose row does not fit any more: the row is made large by its recipients.
      const client = await RawClient.greeted(port)
      await client.ask('MAIL FROM:<ann@there.test>')
      for (let n = 0; n < 900; n++) await client.ask(`RCPT TO:<box+${'t'.repeat(50)}${n}@here.test>`)
      await client.ask('DATA')
      client.write(`Subject: full\r\n\r\n${`${'y'.repeat(70)}\r\n`.repeat(5000)}`)
      assert.equal(await client.said('.'), '452 4.3.1')
      assert.deepEqual({ messages: messages(), files: spooled() }, before)
      store.all(raw('pragma max_page_count = 1000000'))
      await client.begin('box@here.test')
      client.write('Subject: after full\r\n\r\n')
      assert.equal(await client.said('.'), '250 2.6.0', 'the same session goes on')
      client.destroy()
    } finally {
      store.all(raw('pragma max_page_count = 1000000'))
    }
    await until(async () => (await list()).some(({ attributes }) => attributes['subject'] === 'after full'), 'the mail')
  })

  test('answers 451 or 452 to large messages if the spool cannot be used, and accepts small ones', async () => {
    const large = `Subject: large\r\n\r\n${`${'z'.repeat(70)}\r\n`.repeat(5000)}`
    assert.equal(await send(large), '250 2.6.0', 'the first large mail, for which the folder of the spool is made')
    await settled()
    const before = messages()
    const spool = join(postrider.dataDir, 'spool')
    const aside = `${spool}-aside`
    renameSync(spool, aside)
    writeFileSync(spool, '')
    try {
      const client = await RawClient.greeted(port)
      await client.begin('box@here.test')
      client.write(large)
      const answer = await client.ask('.')
      assert.match(`${answer.code} ${answer.text}`, /^45[12] 4\.3\./)
      assert.ok(!answer.text.includes(postrider.dataDir), answer.text)
      client.destroy()
      assert.equal(messages(), before)
      assert.equal(await send('Subject: small\r\n\r\n'), '250 2.6.0')
    } finally {
      rmSync(spool)
      renameSync(aside, spool)
    }
    assert.equal(await send(large), '250 2.6.0')
    await settled()
  })

  test('a connection that is cut during DATA leaves no files', async () => {
    await settled()
    const before = { messages: messages(), files: spooled() }
    for (const bytes of ['Subject: cut\r\n', `Subject: cut\r\n\r\n${`${'c'.repeat(70)}\r\n`.repeat(5000)}`]) {
      for (const end of ['', '\r\n', '\r\n.', '.\r']) {
        const client = await RawClient.greeted(port)
        await client.begin('box@here.test')
        client.write(bytes)
        if (bytes.length > 300_000) await until(() => spooled().length > before.files.length, 'a file of the spool')
        client.write(end)
        client.socket.end()
        await client.rest()
        client.destroy()
        await until(() => spooled().length === before.files.length, 'no file')
      }
    }
    assert.deepEqual({ messages: messages(), files: spooled() }, before)
  })
})

describe('rows that share a commit', () => {
  /** Sends a message. How its row was written: `write` at once, `writeSoon` with others. */
  async function way(t: TestContext): Promise<string[]> {
    const ways: string[] = []
    const mocks = (['write', 'writeSoon'] as const).map((name) => {
      const original = store[name].bind(store)
      return t.mock.method(store, name, <T>(work: (tx: Tx) => T, patience?: number) =>
        original((tx) => {
          const run: Tx['run'] = (query) => {
            if (query.compile().sql.startsWith('insert into "inbound_messages"')) ways.push(name)
            return tx.run(query)
          }
          return work({ ...tx, run })
        }, patience),
      )
    })
    assert.equal(await send('Subject: x\r\n\r\nx\r\n'), '250 2.6.0')
    for (const { mock } of mocks) mock.restore()
    return ways
  }

  test('the row of a message waits for others only while several clients are at work', async (t) => {
    const alone = (why: string): Promise<boolean> => until(async () => (await way(t))[0] === 'write', why)
    // Repeated if the machine is so busy that a second passes before the message arrives.
    const beside = (begin: () => Promise<void>, why: string): Promise<boolean> =>
      until(async () => {
        await begin()
        return (await way(t))[0] === 'writeSoon'
      }, why)
    const others: RawClient[] = []
    await alone('the clients of other tests have gone')
    await beside(async () => {
      others.push(await RawClient.greeted(port), await RawClient.greeted(port))
    }, 'two clients have just connected')
    await alone('clients that have connected do nothing')
    await beside(async () => {
      for (const client of others) await client.ask('RSET').then(() => client.ask('MAIL FROM:<ann@there.test>'))
    }, 'they have just begun a mail')
    for (const client of others) client.destroy()
    await alone('they have gone')
  })
})

describe('trace fields', () => {
  const received = async (subject: string): Promise<string> => {
    const { id } = await until(
      async () => (await list()).find(({ attributes }) => attributes['subject'] === subject),
      subject,
    )
    const field = /^Received: [^\r]*\r\n(?:[ \t][^\r]*\r\n)*/m.exec(await rawOf(id))
    return field![0]
  }

  test('Received has from, by, with, id, for and the date', async () => {
    await send('Subject: traced\r\n\r\n')
    const field = await received('traced')
    assert.match(
      field.replace(/\r\n[ \t]+/g, ' '),
      /^Received: from client\.test \(\[127\.0\.0\.1\]\) by mx\.postrider\.test with ESMTP id [\w-]+ for <box@here\.test>; Thu, 15 Jan 2026 12:00:\d\d \+0000\r\n$/,
    )
  })

  test('Received has no "for" if there are several recipients', async () => {
    await send('Subject: several\r\n\r\n', { to: ['box@here.test', 'postmaster@here.test'] })
    assert.doesNotMatch(await received('several'), /for <|postmaster/)
  })

  test('Received has ESMTPS and the cipher over TLS', async () => {
    const client = await RawClient.greeted(port)
    await client.startTls()
    await client.ask('EHLO client.test')
    await client.begin('box@here.test')
    assert.equal(await client.said('Subject: secure\r\n\r\n.'), '250 2.6.0')
    client.destroy()
    assert.match(await received('secure'), /\(using TLSv1\.[23] [\w-]+\)[^]* with ESMTPS /)
  })

  test('a hostile HELO stays a name', async () => {
    const names = [
      'x);(evil',
      '<script>',
      'a"b\\',
      'münchen.test',
      'by(evil)with;',
      '[127.0.0.1]',
      '()',
      `x${'y'.repeat(250)}`,
    ]
    for (const [n, helo] of names.entries()) {
      await send(`Subject: helo ${n}\r\n\r\n`, { helo })
      const field = await received(`helo ${n}`)
      assert.match(
        field,
        /^Received: from [\w.[\]-]+ \(\[127\.0\.0\.1\]\)\r\n\tby mx\.postrider\.test with ESMTP id [\w-]+\r\n\tfor <box@here\.test>;\r\n\t[^;()"<>]+\r\n$/,
        helo,
      )
    }
  })

  test('does not decode an A-label in the envelope', async () => {
    await send('Subject: a-label\r\n\r\n', { from: 'ann@xn--bcher-kva.test' })
    const { attributes, id } = await until(
      async () => (await list()).find(({ attributes: { subject } }) => subject === 'a-label'),
      'the mail',
    )
    assert.equal(attributes['sender'], 'ann@xn--bcher-kva.test')
    assert.match(await rawOf(id), /^Return-Path: <ann@xn--bcher-kva\.test>\r\n/)
  })

  test('rejects a message with 100 Received fields, and accepts one with 99', async () => {
    const hop = 'Received: from a.test by b.test; Thu, 15 Jan 2026 12:00:00 +0000\r\n'
    assert.equal(await send(`${hop.repeat(100)}Subject: loop\r\n\r\n`), '554 5.4.6')
    assert.equal(
      await send(`${hop.repeat(99).replaceAll('Received', 'RECEIVED')}Subject: 99 hops\r\n\r\n`),
      '250 2.6.0',
    )
    // Received fields that are quoted in a body do not count.
    assert.equal(await send(`Subject: quoted\r\n\r\n${hop.repeat(200)}`), '250 2.6.0')
    assert.equal(await send(`\r\n${hop.repeat(200)}\r\nx\r\n`), '250 2.6.0')
    await settled()
  })
})

test('internationalised mail is shown as it was written', async () => {
  await inbox('jürgen@here.test')
  assert.equal(await rcpt('jürgen@here.test', ' SMTPUTF8'), '250 2.1.5')
  assert.equal(await rcpt('JÜRGEN+größe@here.test', ' SMTPUTF8'), '250 2.1.5')
  assert.equal(await rcpt('jürgen@here.test'), '553 5.6.7')
  const said = await send(
    Buffer.from('From: Ünal <ünal@bücher.test>\r\nTo: jürgen@here.test\r\nSubject: Größe 日本\r\n\r\nGrüße\r\n'),
    { from: 'ünal@bücher.test', to: ['jürgen@here.test'], parameters: ' BODY=8BITMIME SMTPUTF8' },
  )
  assert.equal(said, '250 2.6.0')
  const { attributes, id } = await until(
    async () => (await list()).find(({ attributes: { subject } }) => subject === 'Größe 日本'),
    'the mail',
  )
  assert.equal(attributes['status'], 'received')
  assert.deepEqual(attributes['recipients'], ['jürgen@here.test'])
  assert.equal(attributes['sender'], 'ünal@xn--bcher-kva.test')
  assert.match(String(attributes['from']), /Ünal/)
  assert.match(String(attributes['from']), /ünal@(?:bücher|xn--bcher-kva)\.test/)
  assert.deepEqual(attributes['to'], ['jürgen@here.test'])
  const whole = await rawOf(id)
  assert.match(whole, /^Return-Path: <ünal@xn--bcher-kva\.test>\r\n/)
  assert.match(whole, /with UTF8SMTP id [\w-]+\r\n\tfor <jürgen@here\.test>/)
  assert.match(whole, /\r\n\r\nGrüße\r\n$/)
})

/** A clamd that reads INSTREAM as described in clamd(8), and replies as the test sets it. */
async function fakeClamd() {
  const scanned: Buffer[] = []
  const sockets = new Set<Socket>()
  const clamd = {
    port: 0,
    scanned,
    /** Or "hang", or "close". */
    answer: (): string => 'stream: OK\0',
    /** After this many bytes it replies that the stream is too large, and disconnects. */
    limit: Infinity,
    /** Reads a little at a time. */
    slow: false,
    async close() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    let rest: Buffer = Buffer.alloc(0)
    let begun = false
    let body: Buffer[] = []
    let size = 0
    socket.on('data', (data: Buffer) => {
      if (clamd.slow) {
        socket.pause()
        setImmediate(() => socket.resume())
      }
      rest = Buffer.concat([rest, data])
      if (!begun) {
        if (rest.length < 10) return
        assert.equal(rest.subarray(0, 10).toString(), 'zINSTREAM\0')
        rest = rest.subarray(10)
        begun = true
      }
      while (rest.length >= 4) {
        const length = rest.readUInt32BE(0)
        if (rest.length < 4 + length) return
        const chunk = rest.subarray(4, 4 + length)
        rest = rest.subarray(4 + length)
        size += length
        if (size > clamd.limit) return void socket.end('INSTREAM size limit exceeded. ERROR\0')
        if (length > 0) {
          body.push(Buffer.from(chunk))
          continue
        }
        const whole = Buffer.concat(body)
        body = []
        scanned.push(whole)
        const answer = clamd.answer()
        if (answer === 'close') socket.destroy()
        else if (answer !== 'hang') socket.end(answer)
      }
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  clamd.port = (server.address() as AddressInfo).port
  return clamd
}

describe('the virus scanner', async () => {
  const clamd = await fakeClamd()
  const guarded = await startTestAppliance({ config: { inbound: { clamav: `127.0.0.1:${clamd.port}` } } })
  after(async () => {
    await guarded.stop()
    await clamd.close()
  })
  await guarded.activeDomain('safe.test')
  await guarded.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@safe.test' }))
  const at = guarded.appliance.smtp[0]!.port
  const deliver = (message: string): Promise<string> => send(message, { at, to: ['box@safe.test'] })
  const kept = async (subject: string) =>
    (await list('', (...request) => guarded.api(...request))).find(
      ({ attributes }) => attributes['subject'] === subject,
    )
  const large = `${'w'.repeat(70)}\r\n`.repeat(20_000)

  test('the scanner gets the exact bytes of a message, from memory and from the spool', async () => {
    for (const [subject, body] of [
      ['small', 'Hello\r\n'],
      ['large', large],
    ]) {
      clamd.scanned.length = 0
      assert.equal(await deliver(`Subject: ${subject}\r\n\r\n${body}`), '250 2.6.0')
      assert.equal(clamd.scanned.length, 1)
      assert.equal(clamd.scanned[0]!.toString(), `Subject: ${subject}\r\n\r\n${body}`)
      assert.equal((await until(() => kept(subject!), 'the mail')).attributes['status'], 'received')
    }
  })

  test('withholds a message with a virus, and shows the virus name', async () => {
    clamd.answer = () => 'stream: Eicar-Test-Signature FOUND\0'
    for (const [subject, body] of [
      ['ill', 'EICAR\r\n'],
      ['ill and large', large],
    ]) {
      assert.equal(await deliver(`Subject: ${subject}\r\n\r\n${body}`), '250 2.6.0')
      const { attributes, id } = await until(() => kept(subject!), 'the mail')
      assert.equal(attributes['status'], 'virus_detected')
      assert.equal(attributes['reason'], 'Eicar-Test-Signature')
      const whole = (await guarded.api('GET', `/inbound-emails/${id}`)).body.data.attributes
      assert.equal(whole.text, null)
      assert.equal(whole.html, null)
      assert.equal((await guarded.api('GET', `/inbound-emails/${id}/raw`)).status, 404)
    }
  })

  for (const [name, answer] of [
    ['an error', 'stream: Can not read ERROR\0'],
    ['a closed connection', 'close'],
    ['nothing', ''],
    ['half an answer', 'stream: O'],
    ['another language', 'HTTP/1.1 200 OK\r\n\r\n'],
    ['OK for something else', 'other: OK\0'],
    ['OK in the middle', 'stream: OK but not quite\0'],
    ['far too much', 'x'.repeat(5000)],
  ] as const)
    test(`answers 451 and stores no message if the scanner returns ${name}`, async () => {
      await until(() => count('inbound_waiting') === 0)
      const files = spooled(guarded.dataDir)
      clamd.answer = () => answer
      for (const body of ['x\r\n', large]) assert.equal(await deliver(`Subject: unsure\r\n\r\n${body}`), '451 4.7.1')
      assert.equal(await kept('unsure'), undefined)
      assert.deepEqual(spooled(guarded.dataDir), files)
    })

  test('answers 451 if the message is too large for the scanner, even if it replies early', async () => {
    clamd.answer = () => 'stream: OK\0'
    clamd.limit = 100_000
    assert.equal(await deliver(`Subject: unsure\r\n\r\n${large}`), '451 4.7.1')
    clamd.limit = Infinity
    assert.equal(await deliver(`Subject: sure\r\n\r\n${large}`), '250 2.6.0')
  })

  test('answers 451 if the scanner does not reply or is not running', async () => {
    clamd.answer = () => 'hang'
    const address = `127.0.0.1:${clamd.port}`
    const file = join(guarded.dataDir, 'hang.txt')
    writeFileSync(file, large)
    for (const content of [Buffer.from('x'), { file }])
      assert.deepEqual(await scan(address, content, 50), { kind: 'unavailable', reason: 'clamd does not answer' })
    clamd.answer = () => 'stream: OK\0'
    assert.deepEqual(await scan(address, Buffer.from('x')), { kind: 'clean' })
    assert.equal((await scan('127.0.0.1:1', Buffer.from('x'))).kind, 'unavailable')
    assert.equal((await scan(join(guarded.dataDir, 'no.sock'), Buffer.from('x'))).kind, 'unavailable')
    assert.equal((await scan(address, { file: join(guarded.dataDir, 'no.file') })).kind, 'unavailable')
  })

  test('a large file does not pile up listeners', async () => {
    const warnings: string[] = []
    const hear = (warning: Error): void => void warnings.push(warning.name)
    process.on('warning', hear)
    clamd.slow = true
    const file = join(guarded.dataDir, 'large.txt')
    writeFileSync(file, Buffer.alloc(20_000_000, 'x'))
    assert.equal((await scan(`127.0.0.1:${clamd.port}`, { file })).kind, 'clean')
    process.off('warning', hear)
    assert.deepEqual(warnings, [])
  })
})

describe('certificates', () => {
  const dirs: string[] = []
  after(() => dirs.forEach((dir) => rmSync(dir, { recursive: true, force: true })))

  function dataDir(): string {
    const dir = temporaryDirectory('certificate')
    dirs.push(dir)
    return dir
  }

  async function running<T>(
    dir: string,
    clock: ManualClock,
    smtp: ConfigInput['smtp'],
    use: (appliance: Appliance) => Promise<T>,
  ): Promise<T> {
    const dns = await startTestDns()
    const config = parseConfig({
      hostname: 'mx.postrider.test',
      data_dir: dir,
      http: { listen: '127.0.0.1:0' },
      smtp: { listen: ['127.0.0.1:0'], ...smtp },
    })
    const appliance = await startAppliance({ config, clock, log: silentLog, resolver: dns.resolver })
    try {
      return await use(appliance)
    } finally {
      await appliance.stop()
      await dns.close()
    }
  }

  /** The fingerprint and the names of the certificate that a client gets. */
  async function shown({ smtp }: Appliance): Promise<{ fingerprint: string; names: string | undefined }> {
    const client = await RawClient.greeted(smtp[0]!.port)
    await client.startTls()
    const { fingerprint256, subjectaltname } = (client.socket as TLSSocket).getPeerCertificate()
    client.destroy()
    return { fingerprint: fingerprint256, names: subjectaltname }
  }

  test('keeps the self-signed certificate over restarts, and replaces an expired or damaged one', async () => {
    const dir = dataDir()
    const file = join(dir, 'smtp-certificate.pem')
    const clock = new ManualClock(Date.now())
    const first = await running(dir, clock, {}, shown)
    assert.equal(first.names, 'DNS:mx.postrider.test')
    assert.deepEqual(await running(dir, clock, {}, shown), first)
    const whole = readFileSync(file, 'utf8')
    const seen = new Set([first.fingerprint])
    // Truncated before the key, with another key, empty, and invalid.
    for (const damaged of [
      whole.slice(0, whole.indexOf('-----BEGIN PRIVATE KEY-----')),
      makeCertificate('mx.postrider.test', Date.now()).cert + whole.slice(whole.indexOf('-----BEGIN PRIVATE KEY-----')),
      '',
      'nonsense',
      makeCertificate('other.test', Date.now()).cert,
    ]) {
      writeFileSync(file, damaged)
      const { fingerprint, names } = await running(dir, clock, {}, shown)
      assert.equal(names, 'DNS:mx.postrider.test')
      assert.ok(!seen.has(fingerprint))
      seen.add(fingerprint)
    }
    const last = await running(dir, clock, {}, shown)
    const later = new ManualClock(Date.now() + 11 * 365 * 86_400_000)
    assert.notEqual((await running(dir, later, {}, shown)).fingerprint, last.fingerprint)
  })

  test('new sessions use a renewed certificate, and an invalid one is rejected and the old one stays', async () => {
    const dir = dataDir()
    const [tls_cert, tls_key] = [join(dir, 'cert.pem'), join(dir, 'key.pem')]
    const put = ({ cert, key }: { cert: string; key: string }): void => {
      writeFileSync(tls_cert, cert)
      writeFileSync(tls_key, key)
    }
    put(makeCertificate('one.test', Date.now()))
    await running(dir, new ManualClock(), { tls_cert, tls_key }, async (appliance) => {
      assert.equal((await shown(appliance)).names, 'DNS:one.test')
      const old = await RawClient.greeted(appliance.smtp[0]!.port)
      await old.startTls()
      put(makeCertificate('two.test', Date.now()))
      await appliance.reload(appliance.deps.config)
      assert.equal((await shown(appliance)).names, 'DNS:two.test')
      assert.equal((await old.ask('EHLO client.test')).code, 250, 'a session that is open goes on')
      old.destroy()
      writeFileSync(tls_cert, makeCertificate('three.test', Date.now()).cert)
      await assert.rejects(appliance.reload(appliance.deps.config), OperatorError)
      rmSync(tls_key)
      await assert.rejects(appliance.reload(appliance.deps.config), OperatorError)
      assert.equal((await shown(appliance)).names, 'DNS:two.test')
    })
  })
})

test('a server that stops receives the current message to the end and stores it', async () => {
  const dataDir = temporaryDirectory('stop')
  const stopping = await startTestAppliance({ dataDir })
  await stopping.activeDomain('here.test')
  await stopping.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  const at = stopping.appliance.smtp[0]!.port
  const [idle, busy] = [await RawClient.greeted(at), await RawClient.greeted(at)]
  await busy.begin('box@here.test')
  busy.write(`Subject: under way\r\n\r\n${`${'s'.repeat(70)}\r\n`.repeat(5000)}`)
  await until(() => spooled(dataDir).length > 0, 'a file of the spool')
  const stopped = stopping.stop()
  assert.equal((await idle.reply()).code, 421)
  idle.destroy()
  assert.equal(await busy.said('.'), '250 2.6.0')
  assert.equal((await busy.reply()).code, 421)
  busy.destroy()
  await stopped
  const left = openStore(dataDir)
  assert.equal(left.all(raw('select * from inbound_messages')).length, 1)
  left.close()
  assert.equal(spooled(dataDir).length, 1)
})
