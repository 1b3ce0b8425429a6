// The sandbox of `postrider dev`: replies of its simulated recipients arrive over SMTP at its own listener.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { silentLog, type Log } from '../../src/base/log.ts'
import { addNotice } from '../../src/users/notices.ts'
import { startSandbox, type Sandbox } from '../../src/server/sandbox/start.ts'
import type { ReceivedMail } from '../../src/server/sandbox/exchanger.ts'
import { raw } from '../../src/store/query.ts'
import { document, JSON_API, type Answer } from '../kit/appliance.ts'
import { Commands } from '../commands/command.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { until } from '../kit/until.ts'

const dataDir = temporaryDirectory('sandbox')
const clock = new ManualClock()
const arrived: ReceivedMail[] = []
const reports: Record<string, unknown>[] = []
const troubles: unknown[] = []
const log: Log = {
  ...silentLog,
  info: (event, fields) => void (event === 'feedback_received' && reports.push(fields ?? {})),
  warn: (event, fields) => void (event !== 'notification_queued' && troubles.push([event, fields])),
  fault: (where, thrown) => (troubles.push([where, thrown]), ''),
}
let sandbox: Sandbox

before(async () => {
  const loopback = { host: '127.0.0.1', port: 0 }
  sandbox = await startSandbox({
    http: loopback,
    smtp: loopback,
    dataDir,
    clock,
    log,
    received: (mail) => void arrived.push(mail),
  })
})
after(async () => {
  await sandbox.stop()
  assert.deepEqual(troubles, [])
})

async function api(method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${sandbox.url}/api/v1${path}`, {
    method,
    headers: {
      authorization: `Bearer ${sandbox.token}`,
      ...(body === undefined ? {} : { 'content-type': JSON_API }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, body: text === '' ? undefined : JSON.parse(text) }
}

/** A value of the one row that a query of the store finds. The API is called afterwards, because of its rate limit. */
const found = (sql: string, ...values: string[]): string | undefined =>
  sandbox.appliance.deps.store.first(raw<{ value: string }>(sql, values))?.value

async function become(id: string, status: string) {
  await until(() => found('select status as value from outbound_emails where id = ?', id) === status, status)
  return (await api('GET', `/outbound-emails/${id}`)).body.data.attributes
}

/** Posts an email and waits until the built-in receiving server has it. */
async function send(to: string, attributes: Record<string, unknown> = {}): Promise<{ id: string; mail: ReceivedMail }> {
  const posted = await api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: sandbox.inbox,
      to,
      subject: 'A question',
      html: '<p>Well?</p>',
      ...attributes,
    }),
  )
  assert.equal(posted.status, 201, JSON.stringify(posted.body))
  const { id } = posted.body.data
  return { id, mail: await until(() => arrived.find((each) => each.to.includes(to)), 'the mail') }
}

/** How many answers the tests have found in the inbox. */
let answers = 0

async function received(subject: string) {
  const id = await until(() => found('select id as value from inbound_emails where subject = ?', subject), subject)
  answers++
  return (await api('GET', `/inbound-emails/${id}`)).body.data.attributes
}

const headerOf = (mail: ReceivedMail, name: string): string =>
  new RegExp(`^${name}: (.*)$`, 'im').exec(mail.message.toString())![1]!.trim()

test('reply@ replies to the email after a second, and the reply arrives in the inbox', async () => {
  const { id, mail } = await send('reply@friend.example')
  assert.equal(mail.dkim, 'pass')
  await become(id, 'delivered')
  clock.advance(1000)
  const reply = await received('Re: A question')
  assert.equal(reply.in_reply_to, headerOf(mail, 'Message-ID'))
  assert.deepEqual(reply.references, [headerOf(mail, 'Message-ID')])
  assert.equal(reply.from, 'reply@friend.example')
  assert.deepEqual(reply.to, [sandbox.inbox])
  assert.equal((await become(id, 'delivered')).bounced_at, null)
})

test('a reply goes to Reply-To and keeps the references and a subject in any script', async () => {
  const references = ['<first@far.example>', '<second@far.example>']
  const { mail } = await send('reply@second.example', {
    subject: 'Grüße č ✓ 你好',
    reply_to: 'Hello <hello+thread@sandbox.example>',
    headers: { References: references.join(' ') },
  })
  clock.advance(1000)
  const reply = await received('Re: Grüße č ✓ 你好')
  assert.equal(reply.in_reply_to, headerOf(mail, 'Message-ID'))
  assert.deepEqual(reply.references, [...references, headerOf(mail, 'Message-ID')])
  assert.deepEqual(reply.to, ['hello+thread@sandbox.example'])
})

test('bounce@ returns a bounce message', async () => {
  const { id } = await send('bounce@friend.example')
  await become(id, 'delivered')
  clock.advance(1000)
  const { recipients } = await become(id, 'bounced')
  assert.partialDeepStrictEqual(recipients, [{ status: 'bounced', smtp_code: 550, enhanced_code: '5.1.1' }])
  assert.deepEqual(reports.at(-1), { kind: 'bounce', bounced: 'bounce@friend.example' })
  const { body } = await api('GET', '/suppressions?filter[email]=bounce@friend.example')
  assert.partialDeepStrictEqual(body.data, [{ attributes: { reason: 'hard_bounce', source: 'dsn', scope: 'all' } }])
})

test('complain@ returns a complaint', async () => {
  const { id } = await send('complain@friend.example')
  await become(id, 'delivered')
  clock.advance(1000)
  assert.equal((await become(id, 'complained')).recipients[0].status, 'complained')
  const { body } = await api('GET', '/suppressions?filter[email]=complain@friend.example')
  assert.partialDeepStrictEqual(body.data, [{ attributes: { reason: 'complaint', source: 'arf', scope: 'all' } }])
})

test('refuse@ is rejected in the SMTP session, and no message arrives', async () => {
  const posted = await api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', { from: sandbox.inbox, to: 'refuse@friend.example', subject: 'No', html: 'x' }),
  )
  const { recipients } = await become(posted.body.data.id, 'bounced')
  assert.partialDeepStrictEqual(recipients, [{ status: 'bounced', smtp_code: 550, enhanced_code: '5.1.1' }])
  assert.ok(!arrived.some(({ to }) => to.includes('refuse@friend.example')))
})

test('a tag has no effect: refuse+x@, defer+x@, slow+x@, bounce+x@, complain+x@', async () => {
  const post = async (to: string): Promise<string> => {
    const mail = { from: sandbox.inbox, to, subject: 'A tag', html: 'x' }
    return (await api('POST', '/outbound-emails', document('outbound-emails', mail))).body.data.id
  }
  const recipientOf = async (id: string) => (await api('GET', `/outbound-emails/${id}`)).body.data.attributes.recipients
  const refused = await post('Refuse+1@friend.example')
  assert.partialDeepStrictEqual((await become(refused, 'bounced')).recipients, [{ smtp_code: 550 }])
  const deferred = await post('defer+1@friend.example')
  const tried = 'select smtp_code as value from deliveries where address = ?'
  await until(() => found(tried, 'defer+1@friend.example'), 'an answer')
  assert.partialDeepStrictEqual(await recipientOf(deferred), [{ status: 'queued', smtp_code: 451 }])
  const slow = await send('slow+1@friend.example')
  assert.equal(found('select status as value from deliveries where address = ?', 'slow+1@friend.example'), 'active')
  clock.advance(10_000)
  await become(slow.id, 'delivered')
  for (const [to, status] of [
    ['bounce+1@friend.example', 'bounced'],
    ['complain+1@friend.example', 'complained'],
  ] as const) {
    const { id } = await send(to)
    await become(id, 'delivered')
    clock.advance(1000)
    await become(id, status)
  }
})

test('local parts such as constructor have no effect', async () => {
  for (const name of ['constructor', '+', 'refuse.not'])
    await become((await send(`${name}@friend.example`)).id, 'delivered')
})

test('commands next to the sandbox use its names and keep its certificate and records (D122)', async (t) => {
  const folder = temporaryDirectory('beside')
  const file = join(folder, 'sandbox.toml')
  writeFileSync(file, `data_dir = ${JSON.stringify(dataDir)}\n`)
  const commands = new Commands(folder, ['--config', file])
  t.after(async () => {
    await commands.close()
  })
  const pem = readFileSync(join(dataDir, 'smtp-certificate.pem'), 'utf8')
  const added = await commands.json('domain', 'add', 'more.example', '--user', sandbox.user)
  const valueOf = (records: { record_type: string; value: string }[], type: string) =>
    records.find(({ record_type }) => record_type === type)!.value
  assert.equal(valueOf(added.records, 'MAIL_FROM_MX'), '10 postrider.sandbox.example')
  const { records } = await commands.json('domain', 'records', sandbox.domain)
  assert.equal(valueOf(records, 'SPF'), 'v=spf1 a:postrider.sandbox.example -all')
  assert.equal(readFileSync(join(dataDir, 'smtp-certificate.pem'), 'utf8'), pem)
})

test('an address without an effect sends no reply, and no other message is in the inbox', async () => {
  const { id } = await send('ann@quiet.example')
  await become(id, 'delivered')
  clock.advance(1000)
  const { body } = await api('GET', '/inbound-emails')
  assert.equal(body.data.length, answers)
})

test('notifications of the sandbox to its user arrive signed in an inbox', async () => {
  const { deps, notices } = sandbox.appliance
  const user_key = Number(found('select key as value from users where email = ?', sandbox.user))
  const subject = 'A data export is ready'
  await deps.store.write((tx) => addNotice(tx, { user_key, domain_key: null, subject, text: 'Here.' }, clock.now()))
  notices.ring()
  const id = await until(() => found('select id as value from inbound_emails where subject = ?', subject), 'the notice')
  const { attributes } = (await api('GET', `/inbound-emails/${id}`)).body.data
  assert.match(attributes.from, /postrider@sandbox\.example/)
  assert.deepEqual([attributes.to, attributes.authentication.dkim], [[sandbox.user], 'pass'])
})
