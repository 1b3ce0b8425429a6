// The client of HTTPS against servers on loopback that answer wrongly.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createPlain, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { after, before, test } from 'node:test'
import { createServer, type TLSSocket } from 'node:tls'
import { makeCertificate } from '../../src/base/certificate.ts'
import { allowPublicAnd } from '../../src/base/network.ts'
import {
  ask,
  whileMoving,
  follow,
  httpsUrlFault,
  within,
  wordsFor,
  type HttpsAnswer,
  type HttpsRequest,
} from '../../src/net/https.ts'
import type { Resolver } from '../../src/net/resolver.ts'

const certificate = makeCertificate('here.test', Date.now())
const found = { kind: 'found', records: ['127.0.0.1'] } as const
const resolver = {
  a: () => Promise.resolve(found),
  aaaa: () => Promise.resolve({ kind: 'none' }),
} as unknown as Resolver
const guard = { resolver, allowed: allowPublicAnd(['127.0.0.1']) }
const HEAD = 'HTTP/1.1 200 OK\r\n'
const servers: Server[] = []
let said = ''

async function portOf(server: Server): Promise<number> {
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

let url: URL
before(async () => {
  const answer = (socket: TLSSocket): void => {
    socket.on('error', () => {}).once('data', () => socket.end(said))
  }
  url = new URL(`https://here.test:${await portOf(createServer(certificate, answer))}/`)
})
after(() => {
  for (const server of servers) server.close()
})

const asked = (text: string, more: Partial<HttpsRequest> = {}, timeout = 60_000): Promise<HttpsAnswer> => {
  said = text
  const request = { headers: {}, guard, authorities: () => certificate.cert, most: 10, ...more }
  return within(timeout, (signal) => ask(url, { ...request, signal }))
}

test('returns a complete response, and reads a longer one only up to the limit', async () => {
  const { fault, headers, octets, status } = await asked(`${HEAD}Content-Length: 5\r\nX-A: b\r\n\r\nhello`)
  assert.deepEqual([fault, headers['x-a'], octets.toString(), status], [undefined, 'b', 'hello', 200])
  for (const body of [
    'Content-Length: 11\r\n\r\nhello world',
    'Transfer-Encoding: chunked\r\n\r\nb\r\nhello world\r\n0\r\n\r\n',
  ])
    assert.equal((await asked(`${HEAD}${body}`)).fault?.kind, 'large')
  const kept = await asked(`${HEAD}Content-Length: 11\r\n\r\nhello world`, { most: 11, kept: 4 })
  assert.deepEqual([kept.fault, kept.octets.toString()], [undefined, 'hell'])
})

test('does not read an unwanted body, and lets the caller reject one', async () => {
  const { fault, octets, status } = await asked(`${HEAD}Content-Length: 500\r\n\r\n`, { wanted: () => false })
  assert.deepEqual([fault, octets.length, status], [undefined, 0, 200])
  const arrived = (octets: number): never => {
    throw new RangeError(`${octets} octets`)
  }
  await assert.rejects(asked(`${HEAD}Content-Length: 5\r\n\r\nhello`, { arrived }), { message: '5 octets' })
})

test('fails on a truncated response, on one that switches protocols, and on a missing one', async () => {
  const half = await asked(`${HEAD}Content-Length: 9\r\n\r\nhello`)
  assert.deepEqual([half.fault?.kind, half.octets.toString(), half.status], ['cut', 'hello', 200])
  const switched = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
  const late = await asked(switched, {}, 200)
  assert.deepEqual(
    [late.fault?.kind, late.fault && wordsFor(late.fault)],
    ['late', 'no complete response within 0.2 s'],
  )
  const stranger = await asked(HEAD, { authorities: () => undefined })
  assert.equal(stranger.fault && wordsFor(stranger.fault), 'the certificate is self-signed')
})

test('does not connect to a forbidden address, and uses http: only on request', async () => {
  const strict = { resolver, allowed: allowPublicAnd([]) }
  const { fault } = await asked(HEAD, { guard: strict })
  assert.equal(
    fault?.error.message,
    'resolves to 127.0.0.1, which is not a public address and not in "network.allow_private"',
  )
  const port = await portOf(createPlain((_, response) => response.end()))
  const plainly = (plain: { plain?: true }): Promise<HttpsAnswer> =>
    within(60_000, (signal) =>
      ask(new URL(`http://127.0.0.1:${port}/`), { headers: {}, most: 0, guard, signal, ...plain }),
    )
  assert.equal((await plainly({})).fault?.kind, 'failed')
  assert.equal((await plainly({ plain: true })).status, 200)
})

test('follows redirects up to the limit, and checks each URL', async () => {
  const visited: string[] = []
  const onward = (first: string, location: string, redirects: number): Promise<HttpsAnswer> =>
    follow(first, {
      redirects,
      timeout: 60_000,
      wrong: httpsUrlFault,
      ask: async ({ href }) => {
        visited.push(href)
        return { status: 302, headers: { location }, octets: Buffer.alloc(0), fault: undefined }
      },
    })
  const first = 'https://here.test/a/'
  for (const [location, redirects, why] of [
    ['b', 0, 'is redirected'],
    ['b/', 2, 'is redirected more than 2 times'],
    ['http://here.test/', 3, 'must be an HTTPS URL'],
    ['https://a:b@here.test/', 3, 'must not contain credentials'],
    ['https://', 3, 'is not a URL'],
  ] as const)
    assert.equal((await onward(first, location, redirects)).fault?.error.message, why)
  assert.deepEqual(visited.slice(0, 4), [first, first, `${first}b/`, `${first}b/b/`])
})

/** An http: server that records its requests. */
async function plainServer(answer: (received: IncomingMessage, response: ServerResponse) => void): Promise<URL> {
  return new URL(`http://127.0.0.1:${await portOf(createPlain(answer))}/`)
}

/** One request with a body, in which something must move. */
const put = (to: URL, body: HttpsRequest['body'], timeout = 60_000): Promise<HttpsAnswer> =>
  whileMoving(timeout, (signal, { moved }) =>
    ask(to, { method: 'PUT', headers: {}, body, plain: true, most: 1000, signal, arrived: moved, sent: moved }),
  )

test('sends the whole body', async () => {
  const octets = randomBytes(3_000_000)
  const to = await plainServer((received, response) => {
    const pieces: Buffer[] = []
    received.on('data', (piece: Buffer) => pieces.push(piece))
    received.on('end', () => response.end(createHash('sha256').update(Buffer.concat(pieces)).digest('hex')))
  })
  const hash = createHash('sha256').update(octets).digest('hex')
  assert.equal((await put(to, octets)).octets.toString(), hash)
})

test('stops sending if the server replies early', async () => {
  const to = await plainServer((received, response) => {
    received.once('data', () => response.writeHead(507).end('full'))
  })
  const { octets, status } = await put(to, Buffer.alloc(50_000_000))
  assert.deepEqual([status, octets.toString()], [507, 'full'])
})

test('times out on a server that reads or writes too slowly, but not while the caller pauses', async () => {
  const drop = Buffer.alloc(1)
  const deaf = await plainServer((received) => void received.pause())
  assert.equal((await put(deaf, Buffer.alloc(50_000_000), 200)).fault?.kind, 'late')
  const halting = await plainServer((received, response) => {
    received.resume()
    response.write(drop)
  })
  assert.equal((await put(halting, drop, 200)).fault?.kind, 'late')
  const answering = await plainServer((received, response) => {
    received.resume().on('end', () => response.end('done'))
  })
  const pause = Promise.withResolvers<void>()
  const sent = whileMoving(50, async (signal, { held }) => {
    held(true)
    await pause.promise
    held(false)
    return ask(answering, { method: 'PUT', headers: {}, body: drop, plain: true, most: 10, signal })
  })
  // Longer than its timeout.
  assert.equal((await put(deaf, Buffer.alloc(50_000_000), 300)).fault?.kind, 'late')
  pause.resolve()
  assert.equal((await sent).octets.toString(), 'done')
})
