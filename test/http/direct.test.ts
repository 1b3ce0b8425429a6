// The fast path for usual POST requests of the API, without Hono (http/direct.ts). Every test sends both over a socket:
// a capital letter in the Host of a request selects Hono.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { counters } from '../../src/base/counters.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const lines: string[] = []
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], logged: { level: 'info', lines } }))

const PATH = '/api/v1/outbound-emails'
const WAYS = { direct: 'localhost', through: 'Localhost' }

interface Sent {
  status: number
  headers: Record<string, unknown>
  body: string
}

type Header = Record<string, string | string[]>

function post(host: string, body: string, headers: Header): Promise<Sent> {
  return new Promise((resolve, reject) => {
    const asked = request(postrider.url + PATH, { method: 'POST', headers: { Host: host, ...headers } }, (answer) => {
      let text = ''
      answer.setEncoding('utf8').on('data', (piece: string) => (text += piece))
      answer.on('end', () => resolve({ status: answer.statusCode!, headers: answer.headers, body: text }))
    })
    asked.on('error', reject)
    asked.setHeader('Content-Length', Buffer.byteLength(body))
    asked.end(body)
  })
}

const mail = (more: Record<string, unknown> = {}): string =>
  JSON.stringify({
    data: {
      type: 'outbound-emails',
      attributes: { from: 'ann@here.test', to: 'bob@there.test', subject: 'Grüße', html: '<p>"\\é"</p>', ...more },
    },
  })

/** An answer without the parts that differ from one request to the next. */
function comparable({ body, headers, status }: Sent): unknown {
  const { date: _, ...rest } = headers
  return JSON.parse(
    JSON.stringify({ status, headers: Object.entries(rest).map(String).toSorted(), body }).replaceAll(
      /[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/g,
      'ID',
    ),
  )
}

const signed = (): Header => ({ Authorization: `Bearer ${postrider.token}`, 'Content-Type': JSON_API })

for (const [sent, body, headers, status] of [
  ['an email', mail(), signed, 201],
  ['an email that is not ASCII', mail({ text: 'Ünïcode 🐎' }), signed, 201],
  ['a wrong token', mail(), () => ({ ...signed(), Authorization: 'Bearer wrong' }), 401],
  ['no token', mail(), () => ({ 'Content-Type': JSON_API }), 401],
  ['two tokens', mail(), () => ({ ...signed(), Authorization: ['Bearer a', 'Bearer b'] }), 401],
  ['another Accept', mail(), () => ({ ...signed(), Accept: `${JSON_API}; ext="x"` }), 406],
  ['another type', mail(), () => ({ ...signed(), 'Content-Type': 'application/json' }), 415],
  ['two types', mail(), () => ({ ...signed(), 'Content-Type': [JSON_API, JSON_API] }), 415],
  ['no JSON', '{"data"', signed, 400],
  ['too many levels', '['.repeat(100), signed, 400],
  ['an unknown domain', mail({ from: 'ann@other.test' }), signed, 404],
  ['a missing subject', mail({ subject: undefined }), signed, 422],
] as const)
  test(`the fast path and Hono answer ${sent} with the same ${status}`, async () => {
    const [direct, through] = [await post(WAYS.direct, body, headers()), await post(WAYS.through, body, headers())]
    assert.equal(direct.status, status)
    assert.deepEqual(comparable(direct), comparable(through))
  })

test('the fast path and Hono reject a body that is not UTF-8', async () => {
  const cut = Buffer.concat([Buffer.from(mail().slice(0, -3)), Buffer.from([0xff])]).toString('latin1')
  const sent = (host: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { Authorization, 'Content-Type': type } = signed()
      const socket = connect(postrider.appliance.http.port, '127.0.0.1', () =>
        socket.end(
          `POST ${PATH} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${String(Authorization)}\r\nContent-Type: ${String(type)}\r\nContent-Length: ${cut.length}\r\nConnection: close\r\n\r\n${cut}`,
          'latin1',
        ),
      )
      let text = ''
      socket.setEncoding('latin1').on('data', (piece: string) => (text += piece))
      socket.on('end', () => resolve(text)).on('error', reject)
    })
  for (const host of Object.values(WAYS)) assert.match(await sent(host), /^HTTP\/1\.1 400 [\s\S]*is not valid UTF-8/)
})

test('both routes count wrong tokens together and then return 429', async () => {
  const wrong = { ...signed(), Authorization: 'Bearer wrong' }
  const statuses: number[] = []
  for (let at = 0; at < 30; at++)
    statuses.push((await post(at % 2 === 0 ? WAYS.direct : WAYS.through, mail(), wrong)).status)
  assert.ok(statuses.includes(429))
  const [direct, through] = [await post(WAYS.direct, mail(), wrong), await post(WAYS.through, mail(), wrong)]
  assert.deepEqual(comparable(direct), comparable(through))
  assert.equal((await post(WAYS.direct, mail(), signed())).status, 201)
})

test('metrics count the fast path and Hono under the same route', async () => {
  const counted = (): number =>
    [...counters.http.values()].reduce((sum, [{ method, route, status }, value]) => {
      return method === 'POST' && route === PATH && status === '201' ? sum + value : sum
    }, 0)
  const before = counted()
  for (const host of Object.values(WAYS)) await post(host, mail(), signed())
  assert.equal(counted(), before + 2)
})

test('a post that the client aborts is not an internal error, and releases its memory', async () => {
  const socket = connect(postrider.appliance.http.port, '127.0.0.1')
  const { Authorization, 'Content-Type': type } = signed()
  const { bodies } = postrider.appliance.deps
  socket.write(
    `POST ${PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: ${String(Authorization)}\r\nContent-Type: ${String(type)}\r\nContent-Length: 1000\r\n\r\n{"data"`,
  )
  await until(() => (bodies.taken > 0 ? true : undefined), 'the body to arrive')
  socket.destroy()
  await until(() => (bodies.taken === 0 ? true : undefined), 'the body to be given up')
  assert.deepEqual(
    lines.filter((line) => line.includes('"internal_error"') || line.includes('"level":"error"')),
    [],
  )
})
