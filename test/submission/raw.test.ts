// POST /raw-emails: complete MIME messages by the rules of SMTP submission (D75, D77, D104), and the position of each
// problem in the request.
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { HOUR } from '../../src/base/clock.ts'
import { raw as sql } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const exchanger = testExchanger({ keywords: ['8BITMIME'] })
const postrider = ofFile(() =>
  startTestAppliance({
    domains: ['here.test'],
    routes: ['there.test'],
    exchanger,
    config: { inbound: { max_message_bytes: '2MB' } },
  }),
)
const { become, show } = mailsOf(() => postrider)

setUp(async () => {
  const { clock, store } = postrider.appliance.deps
  const about = store.first(
    sql<{ user_key: number; domain_key: number }>('select user_key, key as domain_key from domains'),
  )!
  const of = { ...about, address: 'gone@there.test', reason: 'hard_bounce', scope: 'all', source: 'smtp' } as const
  await store.write((tx) => suppress(tx, of, clock.now()))
})

const HEADER = 'From: Shop <shop@here.test>\r\nTo: Ada <ada@there.test>\r\nCc: carl@there.test\r\n'
const message = (subject: string, body = 'Hello\r\n', more = ''): string =>
  `${HEADER}Subject: ${subject}\r\n${more}\r\n${body}`
const post = (text: string | Buffer, more: Record<string, unknown> = {}): Promise<Answer> =>
  postrider.api(
    'POST',
    '/raw-emails',
    document('raw-emails', { raw: Buffer.from(text).toString('base64'), recipients: ['ada@there.test'], ...more }),
  )
async function accepted(...given: Parameters<typeof post>): Promise<Answer['body']['data']> {
  const { body, status } = await post(...given)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data
}
const arrived = (subject: string, to = 'ada@there.test') =>
  until(
    () => exchanger.heard.find((each) => each.to.includes(to) && each.message.includes(`Subject: ${subject}\r\n`)),
    subject,
  )
const spooled = (): string[] => {
  const spool = join(postrider.dataDir, 'spool')
  return existsSync(spool) ? readdirSync(spool).filter((name) => name !== 'quarantine') : []
}

test('answers with the outbound email, and sends the message signed and otherwise as it is', async () => {
  const text = message(
    'Whole',
    'Grüße\r\n',
    'X-Own: 1\r\nBcc: ben@there.test\r\nContent-Type: text/plain; charset=utf-8\r\n',
  )
  const answer = await post(text, {
    recipients: ['ben@there.test', 'carl@there.test', 'ada@there.test', 'ADA@there.test'],
    tags: ['order'],
    metadata: { id: '7' },
  })
  const { attributes, id, type, links } = answer.body.data
  assert.deepEqual([answer.status, type, answer.headers.get('location')], [201, 'outbound-emails', links.self])
  assert.deepEqual(
    [attributes.to, attributes.cc, attributes.bcc, attributes.subject, attributes.text],
    ['"Ada" <ada@there.test>', ['carl@there.test'], ['ben@there.test'], 'Whole', 'Grüße\n'],
  )
  assert.deepEqual([attributes.tags, attributes.metadata], [['order'], { id: '7' }])
  await become(id, 'delivered')
  const { message: sent } = await arrived('Whole')
  assert.ok(!sent.includes('Bcc:') && sent.includes('X-Own: 1\r\n') && sent.includes(attributes.message_id), sent)
  assert.match(sent, /^DKIM-Signature: [^]*d=here\.test;/)
})

test('line ends of a file become CRLF', async () => {
  await accepted(message('Unix', 'one\ntwo\r\nthree\rfour\n').replaceAll('\r\nSub', '\nSub'))
  const { message: sent } = await arrived('Unix')
  assert.ok(sent.includes('\r\n\r\none\r\ntwo\r\nthree\r\nfour\r\n'), sent)
  assert.doesNotMatch(sent, /\r(?!\n)|(?<!\r)\n/)
})

test('a message of 1 MB without a last line end arrives unchanged', async () => {
  const lines = Array.from({ length: 16_000 }, (_, n) => 'x'.repeat(60 + (n % 9)))
  const { id } = await accepted(message('Large', lines.join('\r\n')))
  await become(id, 'delivered')
  const { message: sent } = await arrived('Large')
  assert.ok(sent.endsWith(`\r\n\r\n${lines.join('\r\n')}\r\n`))
})

test('a scheduled message is sent when it is due, and can be cancelled until then', async () => {
  const [due, dropped] = [
    await accepted(message('Later'), { scheduled_at: 'PT1H' }),
    await accepted(message('Never'), { scheduled_at: 'PT1H' }),
  ]
  assert.equal(due.attributes.status, 'scheduled')
  assert.equal((await postrider.api('POST', `/outbound-emails/${dropped.id}/cancel`)).status, 202)
  postrider.clock.advance(HOUR)
  await become(due.id, 'delivered')
  assert.equal((await show(dropped.id)).status, 'cancelled')
})

test('a repeat returns the same email, by its key or by token and Message-ID', async () => {
  const known = message('Twice', 'x\r\n', 'Message-ID: <twice@here.test>\r\n')
  const first = await accepted(known)
  const again = await post(known)
  assert.deepEqual([again.body.data.id, again.headers.get('idempotent-replayed')], [first.id, 'true'])
  assert.notEqual((await accepted(known, { tags: ['other'] })).id, first.id)
  assert.notEqual((await accepted(known, { recipients: ['eve@there.test'] })).id, first.id)
  const keyed = { idempotency_key: 'raw', metadata: { a: '1', b: '2' } }
  const one = await accepted(message('Key'), keyed)
  assert.equal((await accepted(message('Key'), { ...keyed, metadata: { b: '2', a: '1' } })).id, one.id)
  for (const [text, more] of [
    [message('Key', 'other\r\n'), {}],
    [message('Key'), { tags: ['a'] }],
    [message('Key'), { recipients: ['eve@there.test'] }],
    [message('Key'), { scheduled_at: 'PT1H' }],
  ] as const) {
    const { body, status } = await post(text, { ...keyed, ...more })
    assert.deepEqual([status, body.errors[0].source.pointer], [409, '/data/attributes/idempotency_key'])
  }
})

test('with "record", a suppressed recipient is recorded, and the others get the message', async () => {
  const recipients = ['ada@there.test', 'gone@there.test']
  const { id } = await accepted(message('Recorded'), { recipients, on_suppressed: 'record' })
  await become(id, 'delivered')
  assert.deepEqual(
    (await show(id)).recipients.map(({ status }) => status),
    ['suppressed', 'delivered'].toSorted().toReversed(),
  )
})

test('fields of the message for this server are its attributes, unless the request has them', async () => {
  const wish = 'X-Postrider-Agent: bot\r\nX-Postrider-Track-Opens: no\r\n'
  const { attributes } = await accepted(message('Wish', '', wish))
  assert.deepEqual([attributes.agent_id, attributes.track_opens], ['bot', false])
  const other = await accepted(message('Wish', '2', wish), { track_opens: null })
  assert.equal(other.attributes.track_opens, false)
})

const exe = `${HEADER}Content-Type: application/octet-stream; name="a.exe"\r\n\r\nMZ`
for (const [name, text, more, status, code, pointer] of [
  ['text that is not base64', '', { raw: 'RnJvbq=' }, 422, 'invalid', 'raw'],
  ['an empty message', '', {}, 422, 'invalid', 'raw'],
  ['a message without From', 'To: ada@there.test\r\n\r\nx', {}, 422, 'invalid', 'raw'],
  ['a NUL byte', message('Nul', 'a\0b'), {}, 422, 'invalid', 'raw'],
  ['a line that is not a field', `${HEADER}no field\r\n\r\nx`, {}, 422, 'invalid', 'raw'],
  ['an unknown field for this server', message('W', '', 'X-Postrider-Magic: 1\r\n'), {}, 422, 'reserved_header', 'raw'],
  ['a program', exe, {}, 422, 'forbidden_attachment', 'raw'],
  ['more than the size limit', message('Big', 'x\r\n'.repeat(700_000)), {}, 422, 'message_too_large', 'raw'],
  ['a header without end', `${HEADER}X: ${'y'.repeat(300_000)}`, {}, 422, 'invalid', 'raw'],
  ['a domain of others', 'From: a@elsewhere.test\r\n\r\nx', {}, 404, 'not_found', 'raw'],
  ['no recipient', message('N'), { recipients: [] }, 422, 'invalid', 'recipients'],
  ['a name at a recipient', message('N'), { recipients: ['Ada <ada@there.test>'] }, 422, 'invalid', 'recipients/0'],
  ['101 recipients', message('N'), { recipients: Array(101).fill('ada@there.test') }, 422, 'too_long', 'recipients'],
  [
    'a suppressed recipient',
    message('N'),
    { recipients: ['ada@there.test', 'GONE@there.test'] },
    422,
    'recipient_suppressed',
    'recipients/1',
  ],
  ['a time too far ahead', message('N'), { scheduled_at: 'P31D' }, 422, 'invalid', 'scheduled_at'],
  ['an attribute of emails', message('N'), { html: 'x' }, 422, 'invalid', 'html'],
] as const)
  test(`refuses ${name} with its position, and keeps no file`, async () => {
    const before = spooled()
    const answer = await post(text, more)
    const [error] = answer.body.errors
    assert.deepEqual(
      [answer.status, error.code, error.source.pointer],
      [status, code, `/data/attributes/${pointer}`],
      JSON.stringify(answer.body),
    )
    assert.deepEqual(spooled(), before)
  })
