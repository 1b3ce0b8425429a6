// The bodies of all clients share one budget, by the bytes that have arrived (D112). HTTP connections have a maximum
// number, a minimum rate and a deadline (D113).
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { Budget } from '../../src/base/memory.ts'
import { Refusal } from '../../src/base/errors.ts'
import { listen } from '../../src/http/listen.ts'
import { Places } from '../../src/http/places.ts'
import { withBody } from '../../src/jsonapi/body.ts'
import { hasManyFields, MAX_FIELDS } from '../../src/views/html/fields.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const lines: string[] = []
const postrider = ofFile(() => startTestAppliance({ logged: { level: 'info', lines } }))

const FORM = 'application/x-www-form-urlencoded'

/** A body with this number of bytes of `a=&`, which counts the bytes that are read. */
function watched(bytes: number): { body: ReadableStream<Uint8Array>; read: () => number } {
  let given = 0
  const piece = Buffer.from('a=&'.repeat(1024))
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (given >= bytes) return controller.close()
        given += piece.length
        controller.enqueue(new Uint8Array(piece))
      },
    },
    { highWaterMark: 0 },
  )
  return { body, read: () => given }
}

const sent = (path: string, body: ReadableStream, type: string): Promise<Response> =>
  postrider.page(path, { method: 'POST', headers: { 'content-type': type }, body, duplex: 'half' } as RequestInit)

for (const [path, status, most] of [
  ['/campaigns/new', 401, 20_000],
  ['/account', 401, 20_000],
  ['/sign-out', 303, 20_000],
  ['/sign-in', 403, 80_000],
  ['/oauth/token', 413, 80_000],
] as const)
  test(`reads only a little of a form of 8 MB to ${path} without a session (D112)`, async () => {
    const { body, read } = watched(8_000_000)
    const response = await sent(path, body, FORM)
    const page = await response.text()
    assert.equal(response.status, status)
    assert.ok(read() <= most, `${read()} bytes were read`)
    assert.ok(page.length < 20_000, `${page.length} bytes were answered`)
    assert.equal(postrider.appliance.deps.bodies.taken, 0)
  })

test('keeps a short form of an expired session (D112)', async () => {
  const response = await postrider.page('/campaigns/new', {
    method: 'POST',
    headers: { 'content-type': FORM },
    body: 'action=save&subject=News',
  })
  assert.equal(response.status, 401)
})

for (const path of [
  '/campaigns/new',
  '/sign-in',
  '/sign-in/passkey',
  '/oauth/token',
  '/oauth/register',
  '/api/v1/inboxes',
])
  test(`counts the body of a request to ${path} in the memory budget while it arrives (D112)`, async () => {
    const { bodies } = postrider.appliance.deps
    let more: ReadableStreamDefaultController<Uint8Array>
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (more = controller) })
    const type = path === '/oauth/register' ? 'application/json' : path.startsWith('/api') ? JSON_API : FORM
    const answered = postrider.page(path, {
      method: 'POST',
      headers: { 'content-type': type, authorization: `Bearer ${postrider.token}` },
      body,
      duplex: 'half',
    } as RequestInit)
    more!.enqueue(new Uint8Array(1000).fill(0x61))
    await until(() => bodies.taken >= 1000)
    more!.close()
    await answered
    assert.equal(bodies.taken, 0)
  })

test('a form has at most a thousand fields, which are counted before they are parsed (D112)', () => {
  const parts = (count: number): Buffer => Buffer.from(`${'--x\r\n\r\n1\r\n'.repeat(count)}--x--`)
  assert.equal(hasManyFields(Buffer.from('a=&'.repeat(MAX_FIELDS - 1)), FORM), false)
  assert.equal(hasManyFields(Buffer.from('a=&'.repeat(MAX_FIELDS)), FORM), true)
  assert.equal(hasManyFields(parts(MAX_FIELDS), 'multipart/form-data; boundary=x'), false)
  assert.equal(hasManyFields(parts(MAX_FIELDS + 1), 'multipart/form-data; boundary="x"'), true)
  // A file in a field may contain any number of `&`.
  assert.equal(hasManyFields(Buffer.from('&'.repeat(5000)), 'multipart/form-data; boundary=x'), false)
})

/** A request that announces a length and sends only a few bytes. */
function begun(announced: number): { request: Request; end: () => void } {
  let stream: ReadableStreamDefaultController<Uint8Array>
  const body = new ReadableStream<Uint8Array>({ start: (controller) => void (stream = controller) })
  const headers = { 'content-length': String(announced) }
  const request = new Request('http://x', { method: 'POST', body, headers, duplex: 'half' } as RequestInit)
  stream!.enqueue(new Uint8Array(250).fill(0x20))
  return { request, end: () => stream.error(new Error('Client connection prematurely closed.')) }
}

test('72 bodies that announce 60 MB and send 250 bytes do not block other posts (D112)', async () => {
  const budget = new Budget(250_000_000)
  const all = Array.from({ length: 72 }, () => begun(60_000_000))
  const readings = all.map(({ request }) => withBody(request, { most: 62_000_000, budget }, () => 'read'))
  await until(() => budget.taken > 0)
  const posted = new Request('http://x', { method: 'POST', body: ' '.repeat(50_000) })
  assert.equal(await withBody(posted, { most: 1e6, budget }, () => 'taken'), 'taken')
  assert.ok(budget.taken < 10_000_000, String(budget.taken))
  for (const { end } of all) end()
  for (const ended of await Promise.allSettled(readings))
    assert.ok(ended.status === 'rejected' && ended.reason instanceof Refusal && ended.reason.status === 400)
  assert.equal(budget.taken, 0)
})

test('an account uses at most its share of the budget, and others are still served (D112)', async () => {
  const budget = new Budget(1_000_000, 500_000)
  const ended = Promise.withResolvers<void>()
  const posted = () => new Request('http://x', { method: 'POST', body: ' '.repeat(100_000) })
  const first = withBody(posted(), { most: 1e6, budget, owner: 'one' }, () => ended.promise)
  await until(() => budget.taken > 0)
  await assert.rejects(
    withBody(posted(), { most: 1e6, budget, owner: 'one' }, () => 'taken'),
    (thrown: Refusal) => thrown.status === 503 && thrown.headers['Retry-After'] !== undefined,
  )
  assert.equal(await withBody(posted(), { most: 1e6, budget, owner: 'two' }, () => 'taken'), 'taken')
  ended.resolve()
  await first
  assert.equal(budget.taken, 0)
})

for (const path of [
  '/campaigns/new',
  '/sign-in',
  '/oauth/token',
  '/sign-in/passkey',
  '/u/none',
  '/api/v1/outbound-emails',
])
  test(`a post to ${path} that the client aborts is not an internal error (D113)`, async () => {
    const before = lines.length
    const { port } = postrider.appliance.http
    const headers = {
      'content-type': path.startsWith('/api') ? JSON_API : FORM,
      'content-length': '9000',
      authorization: `Bearer ${postrider.token}`,
    }
    const request = httpRequest({ port, host: '127.0.0.1', method: 'POST', path, headers })
    request.on('error', () => {})
    request.write('a=1')
    const { bodies } = postrider.appliance.deps
    if (path !== '/u/none') await until(() => bodies.taken > 0)
    request.destroy()
    await until(() => bodies.taken === 0)
    await postrider.raw('/health')
    assert.deepEqual(
      lines.slice(before).filter((line) => /"internal_error"/.test(line)),
      [],
    )
  })

test('closes a stalled body after 20 seconds, but not a slow one (D113)', async () => {
  const clock = new ManualClock()
  let arrived = 0
  const app = {
    fetch: async (request: Request) => {
      for await (const chunk of request.body ?? []) arrived += chunk.length
      return new Response('read')
    },
  }
  const listener = await listen(app, { host: '127.0.0.1', port: 0 }, { clock })
  const begin = (): ReturnType<typeof connect> => {
    const socket = connect(listener.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\na')
    return socket
  }
  const stalled = begin()
  await until(() => arrived === 1)
  const steady = begin()
  let answer = ''
  steady.on('data', (bytes) => (answer += bytes.toString()))
  await until(() => arrived === 2)
  steady.write('a'.repeat(15_000))
  await until(() => arrived === 15_002)
  const ended = once(stalled, 'close')
  clock.leap(20_000)
  await ended
  steady.write('a'.repeat(14_999))
  await until(() => answer.includes('200 OK'))
  assert.equal(clock.nextAlarm, null)
  steady.destroy()
  await listener.close(0)
})

const socketFrom = (remoteAddress: string): EventEmitter & { remoteAddress: string } =>
  Object.assign(new EventEmitter(), { remoteAddress })

test('limits connections in total and per address to a share of the descriptors (D113)', () => {
  const trusted_proxies = ['192.0.2.0/24']
  const opened = (places: Places, address: (index: number) => string, count: number) =>
    Array.from({ length: count }, (_, index) => socketFrom(address(index))).filter((socket) =>
      places.take(socket as never),
    )
  const one = new Places({ trusted_proxies }, 1024)
  const kept = opened(one, () => '198.51.100.7', 1500)
  assert.equal(kept.length, 64)
  assert.equal(opened(one, () => '198.51.100.8', 1).length, 1)
  kept[0]!.emit('close')
  assert.equal(opened(one, () => '198.51.100.7', 2).length, 1)
  // A /64 of IPv6 is one customer.
  assert.equal(opened(new Places({ trusted_proxies }, 1024), (index) => `2001:db8::${index + 1}`, 100).length, 64)
  // Many users share this machine and a trusted proxy.
  for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1', '192.0.2.9'])
    assert.equal(opened(new Places({ trusted_proxies }, 1024), () => address, 1500).length, 256, address)
  assert.equal(opened(new Places({ trusted_proxies }, 1024), (index) => `10.0.${index % 250}.1`, 1500).length, 256)
})

test('closes a connection above the limit and serves the others (D113)', async () => {
  const places = new Places({ trusted_proxies: [] }, 8)
  const app = { fetch: () => new Response('here') }
  const listener = await listen(app, { host: '127.0.0.1', port: 0 }, { clock: new ManualClock(), places })
  const open = () => connect(listener.port, '127.0.0.1').on('error', () => {})
  const first = open()
  first.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(first, 'data')
  const second = open()
  second.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(second, 'data')
  const third = open()
  await once(third, 'close')
  first.destroy()
  second.destroy()
  await listener.close(0)
})

test('builds the OpenAPI document once, and answers a matching ETag with 304 (RFC 9110 §13.1.2)', async () => {
  const path = '/api/v1/openapi.json'
  const first = await postrider.page(path)
  const tag = first.headers.get('etag')!
  const { openapi } = (await first.json()) as { openapi: string }
  assert.match(openapi, /^3\.1/)
  const again = await postrider.page(path, { headers: { 'if-none-match': `W/${tag}` } })
  assert.equal(again.status, 304)
  assert.equal(await again.text(), '')
  const before = postrider.config.http.public_url
  postrider.config.http.public_url = 'https://other.test'
  const other = await postrider.page(path, { headers: { 'if-none-match': tag } })
  postrider.config.http.public_url = before
  assert.equal(other.status, 200)
  assert.match(await other.text(), /https:\/\/other\.test/)
})
