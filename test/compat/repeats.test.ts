// Clients of the compatibility APIs repeat a request without an answer. An equal batch is then the same batch, and a
// request that takes too long is refused as a whole.
import assert from 'node:assert/strict'
import { on, once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { describe, mock, test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { inTime } from '../../src/compat/answer-time.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'], open: true }),
)
const count = (table: string): number =>
  postrider.appliance.deps.store.one(raw<{ times: number }>(`select count(*) as times from ${table}`)).times

const MAILGUN = '/v3/here.test/messages'
const basic = (token: string): string => `Basic ${Buffer.from(`api:${token}`).toString('base64')}`
/** So many that the server has read the end of a connection before it answers. */
const PEOPLE = Array.from({ length: 300 }, (_, index) => `reader${index}@there.test`)
const bodyOf = (subject: string, more: Record<string, string> = {}): string =>
  new URLSearchParams({
    from: 'ann@here.test',
    to: PEOPLE.join(),
    subject,
    text: 'Hello %recipient.name%',
    'recipient-variables': '{"reader1@there.test":{"name":"Bob"}}',
    ...more,
  }).toString()
async function post(subject: string, { token = postrider.token, more = {} } = {}) {
  const { body, headers, status } = await postrider.raw(MAILGUN, {
    method: 'POST',
    headers: { Authorization: basic(token), 'Content-Type': 'application/x-www-form-urlencoded' },
    body: bodyOf(subject, more),
  })
  assert.equal(status, 200, JSON.stringify(body))
  return { id: headers.get('postrider-batch'), replayed: headers.get('idempotent-replayed') }
}

/** Sends a whole request and disconnects before the answer. Returns when the batch is stored. */
async function postAndLeave(path: string, type: string, authorization: string, body: string): Promise<void> {
  const before = count('outbound_batches')
  const socket = connect(Number(new URL(postrider.url).port), '127.0.0.1')
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${authorization}\r\nContent-Type: ${type}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  socket.destroy()
  await until(() => count('outbound_batches') === before + 1, 'the batch')
}
const mailgunAndLeave = (subject: string): Promise<void> =>
  postAndLeave(MAILGUN, 'application/x-www-form-urlencoded', basic(postrider.token), bodyOf(subject))

describe('a batch for Mailgun without an answer', () => {
  test('is returned to an equal request, until its client has the answer', async () => {
    await mailgunAndLeave('Lost answer')
    const emails = count('outbound_emails')
    const repeat = await post('Lost answer')
    assert.equal(repeat.replayed, 'true')
    assert.equal(count('outbound_emails'), emails)
    const later = await post('Lost answer')
    assert.deepEqual([later.replayed, later.id === repeat.id], [null, false])
    assert.equal(count('outbound_emails'), emails + PEOPLE.length)
  })

  test('is another one than that of another request, of another token, or of another day', async () => {
    await mailgunAndLeave('Other')
    assert.equal((await post('Other', { more: { 'o:tag': 'other' } })).replayed, null)
    assert.equal(
      (await post('Other', { token: await postrider.tokenFor(postrider.user, ['emails:send']) })).replayed,
      null,
    )
    postrider.clock.leap(DAY + HOUR)
    assert.equal((await post('Other')).replayed, null)
  })

  test('cannot be confused with a batch that has an idempotency key', async () => {
    await mailgunAndLeave('With a key')
    const authorization = basic(postrider.token)
    const withKey = () =>
      postrider.raw(MAILGUN, {
        method: 'POST',
        headers: {
          Authorization: authorization,
          'Idempotency-Key': 'one',
          'Content-Type': 'application/x-www-form-urlencoded',
        },
        body: bodyOf('With a key'),
      })
    assert.equal((await withKey()).headers.get('idempotent-replayed'), null)
    assert.equal((await withKey()).headers.get('idempotent-replayed'), 'true')
  })
})

/** Posts a batch over a connection, and returns the answer. */
async function postOn(socket: Socket, subject: string): Promise<string> {
  const body = bodyOf(subject)
  socket.write(
    `POST ${MAILGUN} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${basic(postrider.token)}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
  let answer = ''
  for await (const [piece] of on(socket, 'data')) {
    answer += String(piece)
    if (answer.includes('Thank you.')) break
  }
  return answer
}
async function connected(): Promise<Socket> {
  const socket = connect(Number(new URL(postrider.url).port), '127.0.0.1')
  await once(socket, 'connect')
  return socket
}
/** Whether an equal batch over another connection is the same batch. */
const isRepeat = async (subject: string): Promise<boolean> => {
  const before = count('outbound_batches')
  const socket = await connected()
  const answer = await postOn(socket, subject)
  socket.destroy()
  assert.match(answer, /^HTTP\/1.1 200 /)
  const isSame = count('outbound_batches') === before
  assert.equal(/^idempotent-replayed: true/im.test(answer), isSame)
  return isSame
}

describe('a batch whose answer was handed to the connection', () => {
  test('is repeated for 10 minutes if its client disconnects within 5 s', async () => {
    const { clock } = postrider
    const socket = await connected()
    const alarms = mock.method(clock, 'wake').mock
    await postOn(socket, 'Closed')
    const answeredAt = clock.now()
    clock.advance(4 * SECOND)
    socket.destroy()
    const isEnd = ({ arguments: [at] }: { arguments: unknown[] }) => at === answeredAt + 10 * MINUTE
    await until(() => alarms.calls.some(isEnd), 'the end of the repeats')
    alarms.restore()
    clock.advance(9 * MINUTE)
    assert.equal(await isRepeat('Closed'), true)
    clock.advance(MINUTE)
    assert.equal(await isRepeat('Closed'), false)
  })

  test('is another one than that of a later request over the same connection', async () => {
    const socket = await connected()
    await postOn(socket, 'Same connection')
    assert.doesNotMatch(await postOn(socket, 'Same connection'), /idempotent-replayed/i)
    socket.destroy()
  })

  test('is another one than that of another connection, once its own stayed open for 5 s', async () => {
    const socket = await connected()
    const [, id] = /^postrider-batch: (\S+)/im.exec(await postOn(socket, 'Open')) ?? []
    const keyOf = (batch = '') =>
      postrider.appliance.deps.store.one(
        raw<{ idempotency_key: string | null }>('select idempotency_key from outbound_batches where id = ?', [batch]),
      ).idempotency_key
    postrider.clock.advance(4 * SECOND)
    assert.equal(await isRepeat('Open'), true)
    postrider.clock.advance(SECOND)
    await until(() => keyOf(id) === null, 'the end of the repeats')
    assert.equal(await isRepeat('Open'), false)
    socket.destroy()
  })
})

test('an equal batch whose answer arrived is a new batch', async () => {
  const [first, second] = [await post('Alarm'), await post('Alarm')]
  assert.notEqual(first.id, second.id)
  assert.equal(second.replayed, null)
})

test('a batch for Resend without an answer is returned to an equal request', async () => {
  const body = JSON.stringify(
    PEOPLE.slice(0, 20).map((to) => ({ from: 'ann@here.test', to, subject: 'Lost', text: 'x' })),
  )
  const authorization = `Bearer ${postrider.token}`
  await postAndLeave('/resend/emails/batch', 'application/json', authorization, body)
  const ask = () =>
    postrider.raw('/resend/emails/batch', { method: 'POST', headers: { Authorization: authorization }, body })
  assert.equal((await ask()).headers.get('idempotent-replayed'), 'true')
  assert.equal((await ask()).headers.get('idempotent-replayed'), null)
})

test('a batch keeps a Reply-To of another domain', async () => {
  const { id } = await post('Reply-To', { more: { 'h:Reply-To': 'visitor@elsewhere.test' } })
  assert.ok(id)
})

test('a request whose commit has not begun after 30 s is refused, and nothing is accepted', async () => {
  const { clock } = postrider
  const form = () =>
    postrider.raw(MAILGUN, {
      method: 'POST',
      headers: { Authorization: basic(postrider.token), 'Content-Type': 'application/x-www-form-urlencoded' },
      body: bodyOf('Late'),
    })
  const emails = count('outbound_emails')
  const alarms = mock.method(clock, 'wake').mock
  const asked = form()
  const isDeadline = ({ arguments: [at] }: { arguments: unknown[] }) => at === clock.now() + 30 * SECOND
  const { bodies } = postrider.appliance.deps
  await until(() => bodies.taken > 0 && alarms.calls.some(isDeadline), 'the deadline')
  alarms.restore()
  clock.advance(30 * SECOND)
  const { body, headers, status } = await asked
  assert.deepEqual([status, body.errors[0].code, headers.get('retry-after')], [503, 'overloaded', '60'])
  // An equal request goes the same way behind it, and is the only one that is accepted.
  assert.equal((await form()).headers.get('idempotent-replayed'), null)
  assert.equal(count('outbound_emails'), emails + PEOPLE.length)
})

test('the time to answer ends with the beginning of the commit', async () => {
  const clock = new ManualClock(0)
  const held = Promise.withResolvers<void>()
  const late = inTime(clock, async (begin) => {
    await held.promise
    begin()
  })
  const begun = inTime(clock, async (begin) => {
    begin()
    await held.promise
    return 'accepted'
  })
  clock.advance(30 * SECOND)
  await assert.rejects(late, { code: 'overloaded' })
  held.resolve()
  assert.equal(await begun, 'accepted')
  assert.equal(clock.nextAlarm, null)
})
