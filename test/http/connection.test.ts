// Answers that belong to a connection rather than to a request (http/connection.ts), over plain HTTP and TLS, by the
// fast path and through Hono. A capital letter in the Host of a request selects Hono.
import assert from 'node:assert/strict'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { raw } from '../../src/store/query.ts'
import { listen } from '../../src/http/listen.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

const postrider = ofFile(() =>
  startTestAppliance({
    domains: ['here.test'],
    config: { http: { tls_listen: ['127.0.0.1:0'] }, acme: { listen: ['127.0.0.1:0'] } },
  }),
)

const PATH = '/api/v1/outbound-emails'
const BODY = JSON.stringify(mail())
const HOSTS = { direct: 'localhost', through: 'Localhost' }

const DOORS = {
  HTTP: () => connect(postrider.appliance.http.port, '127.0.0.1'),
  HTTPS: () => connectTls({ port: postrider.appliance.https[0]!.port, host: '127.0.0.1', rejectUnauthorized: false }),
}

interface Conversation {
  socket: Socket
  /** The text that the server has sent so far. */
  heard: () => string
  ended: Promise<string>
}

/** Sends text in one piece, as latin1 bytes. */
function say(socket: Socket, text: string): Conversation {
  let heard = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (heard += piece))
  const ended = new Promise<string>((resolve, reject) => {
    socket.once('error', reject).once('end', () => {
      socket.end()
      resolve(heard)
    })
  })
  socket.write(text, 'latin1')
  return { socket, heard: () => heard, ended }
}

interface Posted {
  host?: string
  token?: string
  body?: string
  more?: string
  length?: number
}

const post = ({ host = 'localhost', body = BODY, token = postrider.token, more = '', length }: Posted = {}): string =>
  `POST ${PATH} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${token}\r\nContent-Type: ${JSON_API}\r\n${more}` +
  `Content-Length: ${length ?? Buffer.byteLength(body)}\r\n\r\n${body}`

const statuses = (heard: string): number[] =>
  [...heard.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status))

const stored = (): number =>
  postrider.appliance.deps.store.first(raw<{ n: number }>('select count(*) as n from outbound_emails'))!.n

const BROKEN = {
  'one byte too many': ['x', 400],
  'a header of 20 KB': [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  'two lengths': ['POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n', 400],
} as const

for (const [door, open] of Object.entries(DOORS))
  for (const [way, host] of Object.entries(HOSTS)) {
    for (const [behind, [bytes, status]] of Object.entries(BROKEN))
      test(`${door}, ${way}: answers a request before the error about ${behind} after it`, async () => {
        const heard = await say(open(), post({ host }) + bytes).ended
        assert.deepEqual(statuses(heard), [201, status])
        assert.match(heard.slice(heard.indexOf('HTTP/1.1', 1)), /\r\nConnection: close\r\n[\s\S]*\.\n$/)
      })

    test(`${door}, ${way}: answers the request that closes the connection, and ignores later ones`, async () => {
      const before = stored()
      const heard = await say(open(), post({ host, more: 'Connection: close\r\n' }) + post({ host })).ended
      assert.deepEqual(statuses(heard), [201])
      assert.equal(stored() - before, 1)
    })

    test(`${door}, ${way}: answers all posts before a malformed request`, async () => {
      const heard = await say(open(), `${post({ host })}${post({ host })}${post({ host, token: 'wrong' })}\0`).ended
      assert.deepEqual(statuses(heard), [201, 201, 401, 400])
    })

    test(`${door}, ${way}: sends "100 Continue" after the checks of token and size`, async () => {
      const more = 'Expect: 100-continue\r\n'
      for (const [given, status] of [
        [{ token: 'wrong', length: 10 }, 401],
        [{ length: 70 * 1024 * 1024 }, 413],
      ] as const) {
        const heard = await say(open(), post({ host, body: '', more, ...given })).ended
        assert.deepEqual(statuses(heard), [status])
        assert.match(heard, /\r\nConnection: close\r\n/i)
      }
      const talk = say(open(), post({ host, body: '', more, length: Buffer.byteLength(BODY) }))
      await until(() => talk.heard().includes('\r\n\r\n') || undefined, 'the body to be asked for')
      assert.equal(talk.heard(), 'HTTP/1.1 100 Continue\r\n\r\n')
      talk.socket.write(BODY)
      await until(() => statuses(talk.heard()).length === 2 || undefined, 'the answer')
      assert.deepEqual(statuses(talk.heard()), [100, 201])
      assert.match(talk.heard(), /\r\nConnection: keep-alive\r\n/i)
      talk.socket.destroy()
    })

    test(`${door}, ${way}: an answer before the end of a large body has "Connection: close"`, async () => {
      for (const [given, status] of [
        [{ token: 'wrong', length: 2 * 1024 * 1024 }, 401],
        [{ length: 70 * 1024 * 1024 }, 413],
      ] as const) {
        const heard = await say(open(), post({ host, body: ' '.repeat(100_000), ...given })).ended
        assert.deepEqual(statuses(heard), [status])
        assert.match(heard, /\r\nConnection: close\r\n/i)
      }
    })
  }

test('a refused request keeps its connection if its body has arrived, on the fast path and in Hono', async () => {
  for (const host of Object.values(HOSTS)) {
    const talk = say(DOORS.HTTP(), post({ host, token: 'wrong' }))
    await until(() => statuses(talk.heard()).length === 1 || undefined, 'the refusal')
    talk.socket.write(post({ host }))
    await until(() => statuses(talk.heard()).length === 2 || undefined, 'the answer to the second post')
    assert.deepEqual(statuses(talk.heard()), [401, 201])
    talk.socket.destroy()
  }
})

test('reads and discards the rest of a small refused body, and keeps the connection', async () => {
  const talk = say(DOORS.HTTP(), post({ token: 'wrong', body: BODY.slice(0, 10), length: Buffer.byteLength(BODY) }))
  await until(() => statuses(talk.heard()).length === 1 || undefined, 'the refusal')
  talk.socket.write(BODY.slice(10) + post())
  await until(() => statuses(talk.heard()).length === 2 || undefined, 'the answer to the second post')
  assert.deepEqual(statuses(talk.heard()), [401, 201])
  talk.socket.destroy()
})

test('reads a connection for seconds after its last answer, so that no reset discards it, and then closes it', async () => {
  const talk = say(DOORS.HTTP(), post({ token: 'wrong', length: 50 * 1024 * 1024, body: '' }))
  talk.socket.removeAllListeners('end')
  let closed = false
  talk.socket.on('close', () => (closed = true)).on('error', () => {})
  await until(() => statuses(talk.heard()).length === 1 || undefined, 'the answer')
  for (let at = 0; at < 20; at++) await new Promise<void>((done) => talk.socket.write('x'.repeat(64_000), () => done()))
  assert.equal(closed, false)
  await until(() => {
    postrider.clock.leap(1000)
    talk.socket.write('x')
    return closed || undefined
  }, 'the end of the connection')
})

test('answers an interrupted body with the error only', async () => {
  const head = post({ body: '' }).replace(/Content-Length: 0/, 'Transfer-Encoding: chunked')
  assert.deepEqual(statuses(await say(DOORS.HTTP(), `${head}5\r\n{"dat\r\nzz\r\n`).ended), [400])
})

test('a malformed request does not wait forever for the response before it', async () => {
  const clock = new ManualClock()
  const asked = Promise.withResolvers<void>()
  const fetch = () => (asked.resolve(), new Promise<Response>(() => {}))
  const listener = await listen({ fetch } as never, { host: '127.0.0.1', port: 0 }, { clock })
  const talk = say(connect(listener.port, '127.0.0.1'), 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n\0')
  await asked.promise
  let closed = false
  talk.socket.on('close', () => (closed = true))
  await until(() => {
    clock.leap(10_000)
    return closed || undefined
  }, 'the connection to be closed')
  assert.equal(talk.heard(), '')
  await listener.close(0)
})

test('a connection whose handshake fails is closed without an answer', async () => {
  const socket = connect(postrider.appliance.https[0]!.port, '127.0.0.1', () => socket.write('GET / HTTP/1.1\r\n\r\n'))
  let heard = ''
  socket.setEncoding('latin1').on('data', (piece: string) => (heard += piece))
  await new Promise((resolve) => socket.once('close', resolve).on('error', () => {}))
  assert.doesNotMatch(heard, /HTTP/)
})
