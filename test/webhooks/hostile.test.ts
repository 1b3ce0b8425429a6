// Receivers that misbehave, intentionally or not (D53, D55): each request is a failed attempt with a clear reason,
// within the time limit and with little memory.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import { createServer as createPlain } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { createServer, type TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { makeCertificate } from '../../src/base/certificate.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { HOST, testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { attempted, happen, makeHook } from './hooks.ts'

/** The timeout of the impatient server. The other server has no timeouts in these tests. */
const TIMEOUT = 400

const servers: Server[] = []
const directory = temporaryDirectory('hostile')
const mine = makeCertificate('hostile.test', Date.now())

const receiver = testReceiver()
const caFile = join(directory, 'ca.pem')
setUp(async () => {
  await receiver.listen()
  writeFileSync(caFile, `${readFileSync(receiver.caFile, 'utf8')}\n${mine.cert}`)
})

const startWith = (timeout: string) => startTestAppliance({ config: { webhooks: { ca_file: caFile, timeout } } })
const postrider = ofFile(() => startWith('1h'))
const hasty = ofFile(() => startWith(`${TIMEOUT}ms`))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const hastyDomain = ofFile(() => hasty.activeDomain('here.test'))
setUp(() => {
  hasty.dns.set('hostile.test', 'A', ['127.0.0.1'])
  for (const name of [HOST, 'hostile.test', 'elsewhere.test']) postrider.dns.set(name, 'A', ['127.0.0.1'])
  postrider.dns.set('private.test', 'A', ['10.1.2.3'])
  postrider.dns.set('private6.test', 'AAAA', ['fd00::1'])
  postrider.dns.set('metadata.test', 'A', ['169.254.169.254'])
})
after(async () => {
  await receiver.close()
  for (const server of servers) server.close()
})

/** A TLS server that calls a function with the socket of each request. Returns its port. */
async function hostile(behave: (socket: TLSSocket) => void, certificate = mine): Promise<number> {
  const sockets = new Set<TLSSocket>()
  const server = createServer(certificate, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {}).on('close', () => sockets.delete(socket))
    socket.once('data', () => behave(socket))
  })
  server.on('tlsClientError', () => {})
  const close = server.close.bind(server)
  server.close = () => {
    for (const socket of sockets) socket.destroy()
    return close()
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  servers.push(server)
  return (server.address() as AddressInfo).port
}

/** The result of the first attempt at `url`. */
async function outcomeAt(url: string, at = postrider, on = domain) {
  const hook = await makeHook(at, { url, requests: [] }, on, ['email.opened'])
  await happen(at, on, 'email.opened')
  const [{ id }] = await until(async () => {
    const list = await hook.deliveries()
    return list.length > 0 ? (list as [{ id: string }]) : undefined
  }, 'a delivery')
  const shown = await attempted(at, id, 1)
  await at.api('DELETE', `/webhooks/${hook.id}`)
  return shown
}

/**
 * What the hasty server's first attempt comes to: it runs out of time. Where the machine is busy that may be before
 * anything came.
 */
async function outOfTime(port: number, status: number | null) {
  const owner = hastyDomain
  return until(async () => {
    const shown = await outcomeAt(`https://hostile.test:${port}`, hasty, owner)
    if (shown.response_status === null && status !== null) return undefined
    failedWith(shown, SLOW, status)
    return shown
  }, `an answer of ${status}`)
}

const HEAD = 'HTTP/1.1 200 OK\r\n'

function drip(socket: TLSSocket, text: string): void {
  socket.write(text)
  const timer = setInterval(() => socket.write('x'), 20)
  socket.on('close', () => clearInterval(timer)).on('error', () => clearInterval(timer))
}

/** Writes as long as the client reads. */
function flood(socket: TLSSocket, head: string): void {
  socket.write(head)
  const block = Buffer.alloc(256 * 1024, 'x')
  const more = (): void => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('drain', more)
  more()
}

// oxlint-disable-next-line typescript/no-explicit-any
function failedWith(shown: any, reason: RegExp, status: number | null = null): void {
  assert.equal(shown.outcome, 'pending', JSON.stringify(shown))
  assert.match(shown.reason, reason)
  assert.ok(shown.reason.length <= 300 && !/\p{Cc}/u.test(shown.reason), shown.reason)
  assert.equal(shown.response_status, status)
  assert.equal(shown.attempt_log[0].reason, shown.reason)
}

const SLOW = /within 0\.4 s/

test('the timeout covers a missing response, an endless header and a slow body', async () => {
  const [silent, head, body, chunks, half] = await Promise.all([
    hostile(() => {}),
    hostile((socket) => drip(socket, `${HEAD}X-Slow: `)),
    hostile((socket) => drip(socket, `${HEAD}Content-Length: 100000\r\n\r\n`)),
    hostile((socket) => drip(socket, `${HEAD}Transfer-Encoding: chunked\r\n\r\n10000\r\n`)),
    hostile((socket) => socket.write(`${HEAD}Content-Length: 100\r\n\r\nhalf of it`)),
  ])
  await Promise.all([outOfTime(silent, null), outOfTime(head, null), outOfTime(body, 200), outOfTime(chunks, 200)])
  assert.equal((await outOfTime(half, 200)).response_body, 'half of it')
})

test('fails with a reason if the port does not answer the TLS handshake or has no TLS', async () => {
  const mute = createPlain((socket) => void socket.on('error', () => {}))
  const plain = createPlain((socket) => {
    socket.on('error', () => {})
    socket.write('220 mx.test ESMTP\r\n')
  })
  for (const server of [mute, plain]) {
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    servers.push(server)
  }
  const port = (server: Server): number => (server.address() as AddressInfo).port
  await outOfTime(port(mute), null)
  failedWith(await outcomeAt(`https://hostile.test:${port(plain)}`), /\w+ \w+/)
})

test('fails with a reason on a closed port, a reset, an incomplete response and a response that is not HTTP', async () => {
  const free = createPlain().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const nobody = (free.address() as AddressInfo).port
  free.close()
  await once(free, 'close')
  failedWith(await outcomeAt(`https://hostile.test:${nobody}`), /connection was refused/)
  const reset = await hostile((socket) => socket.destroy())
  failedWith(await outcomeAt(`https://hostile.test:${reset}`), /connection was reset/)
  const half = await hostile((socket) => socket.end(`${HEAD}Content-Length: 100\r\n\r\nhalf of it`))
  const shown = await outcomeAt(`https://hostile.test:${half}`)
  failedWith(shown, /response ended before it was complete|reset/, 200)
  assert.equal(shown.response_body, 'half of it')
  const chunks = await hostile((socket) => socket.end(`${HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n`))
  failedWith(await outcomeAt(`https://hostile.test:${chunks}`), /response ended before it was complete|reset/, 200)
  for (const answer of [
    '220 mx.test ESMTP\r\n',
    'HTTP/1.1 2000 Nonsense\r\n\r\n',
    `${HEAD}X-Big: ${'x'.repeat(100_000)}\r\n\r\n`,
    `${HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
    '\0\0\0\u001b[31mred\r\n\r\n',
  ]) {
    const port = await hostile((socket) => socket.write(answer))
    failedWith(await outcomeAt(`https://hostile.test:${port}`, hasty, hastyDomain), /\w+ \w+/)
  }
  const upgrade = await hostile((socket) =>
    socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'),
  )
  const switched = await outcomeAt(`https://hostile.test:${upgrade}`, hasty, hastyDomain)
  assert.equal(switched.outcome, 'pending')
  assert.match(switched.reason, /\w+ \w+/)
})

test('stops reading a body of 1 GB, stores 4 KB of it, and uses its status', async () => {
  let written = 0
  const port = await hostile((socket) => {
    flood(socket, `${HEAD}Content-Length: 1073741824\r\n\r\n`)
    socket.on('close', () => (written = socket.bytesWritten))
  })
  const before = process.memoryUsage.rss()
  const shown = await outcomeAt(`https://hostile.test:${port}`)
  await until(() => written > 0, 'the connection cut')
  assert.ok(written < 64 * 1024 * 1024, `${written} bytes left the receiver`)
  assert.ok(process.memoryUsage.rss() - before < 200 * 1024 * 1024)
  assert.ok(Buffer.byteLength(shown.response_body) <= 4096)
  assert.equal(shown.response_status, 200)
  assert.equal(shown.outcome, 'delivered')
})

test('an error response of 1 GB fails by its status', async () => {
  const port = await hostile((socket) =>
    flood(socket, 'HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n'),
  )
  const shown = await outcomeAt(`https://hostile.test:${port}`)
  assert.equal(shown.outcome, 'pending')
  assert.equal(shown.response_status, 500)
  assert.ok(Buffer.byteLength(shown.response_body) <= 4096)
})

test('a gzip bomb is never unpacked', async () => {
  // 32 KB that unpack to 32 MB.
  const bomb = gzipSync(Buffer.alloc(32 * 1024 * 1024))
  const port = await hostile((socket) => {
    socket.write(`HTTP/1.1 500 No\r\nContent-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`)
    socket.write(bomb)
  })
  const before = process.memoryUsage.rss()
  const shown = await outcomeAt(`https://hostile.test:${port}`)
  failedWith(shown, /500/, 500)
  assert.ok(Buffer.byteLength(shown.response_body) <= 4096)
  assert.ok(process.memoryUsage.rss() - before < 24 * 1024 * 1024)
})

test('stores a response as clean text', async () => {
  const body = `tab\there \u001b[31mred\0 \u202Eback ${'ü'.repeat(4000)}`
  const port = await hostile((socket) =>
    socket.write(`HTTP/1.1 500 No\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`),
  )
  const { response_body } = await outcomeAt(`https://hostile.test:${port}`)
  // oxlint-disable-next-line no-control-regex
  assert.ok(!/[\0\u001b]/.test(response_body))
  assert.ok(response_body.includes('red') && response_body.includes('üü') && response_body.isWellFormed())
  assert.ok(Buffer.byteLength(response_body) <= 4096, `${Buffer.byteLength(response_body)} bytes`)
})

test('rejects certificates for another host, from an unknown CA and expired ones', async () => {
  const port = await hostile((socket) => socket.end(`${HEAD}\r\n`))
  failedWith(await outcomeAt(`https://elsewhere.test:${port}`), /certificate is for another host/)
  const unknown = await hostile((socket) => socket.end(`${HEAD}\r\n`), makeCertificate('hostile.test', Date.now()))
  failedWith(await outcomeAt(`https://hostile.test:${unknown}`), /certificate/)
  const old = await hostile(
    (socket) => socket.end(`${HEAD}\r\n`),
    makeCertificate('hostile.test', Date.now() - 5000 * 86_400_000),
  )
  failedWith(await outcomeAt(`https://hostile.test:${old}`), /certificate/)
})

test('a redirect is never followed, least of all to a private address', async () => {
  let followed = 0
  const target = createPlain(() => void followed++).listen(0, '127.0.0.1')
  await once(target, 'listening')
  servers.push(target)
  const to = (target.address() as AddressInfo).port
  for (const [status, location] of [
    [301, `https://127.0.0.1:${to}/`],
    [307, `http://127.0.0.1:${to}/`],
    [308, 'https://169.254.169.254/latest/meta-data/'],
  ] as const) {
    receiver.answer = (_, response) => response.writeHead(status, { location }).end('gone there')
    failedWith(await outcomeAt(receiver.url), new RegExp(String(status)), status)
  }
  receiver.answer = 200
  assert.equal(followed, 0)
})

test('fails with a reason if a name has no address or a private one', async () => {
  for (const name of ['private.test', 'private6.test', 'metadata.test'])
    failedWith(await outcomeAt(`https://${name}/`), /which is not a public address/)
  failedWith(await outcomeAt('https://nowhere.test/'), /no address/)
  postrider.dns.fail(true)
  const shown = await outcomeAt('https://failing.test/')
  postrider.dns.fail(false)
  assert.equal(shown.outcome, 'pending')
  assert.match(shown.reason, /\w+ \w+/)
})

test('never connects to loopback unless allow_private lists it, even if the name changes its address', async () => {
  await using strict = await startTestAppliance({
    config: { network: { allow_private: [] }, webhooks: { ca_file: receiver.caFile } },
  })
  const here = await strict.activeDomain('strict.test')
  const before = receiver.requests.length
  strict.dns.set(HOST, 'A', ['127.0.0.1'])
  failedWith(await outcomeAt(receiver.url, strict, here), /resolves to 127\.0\.0\.1, which is not a public address/)
  strict.dns.set(HOST, 'A', undefined)
  for (const address of ['::1', '::ffff:127.0.0.1']) {
    strict.dns.set(HOST, 'AAAA', [address])
    failedWith(await outcomeAt(receiver.url, strict, here), /which is not a public address/)
  }
  assert.equal(receiver.requests.length, before)
})
