// The limits for untrusted clients and tokens with few scopes: connections of the executable, request sizes, and
// timeouts.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { connect } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { document } from '../kit/appliance.ts'
import { RawClient } from '../smtp/raw.ts'
import { Machine, type Serving } from './rig/machine.ts'
import { passBy } from './rig/need.ts'

let machine: Machine
let server: Serving
before(async () => {
  machine = await Machine.make()
  server = await machine.start()
})
after(() => machine.close())

/**
 * Says something to the API's port, octet for octet; the status line that comes back, '' when the connection ends
 * before.
 */
function raw(text: string, patience = 10_000): Promise<string> {
  const { hostname, port } = new URL(server.url)
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname)
    let heard = ''
    const end = (): void => {
      clearTimeout(limit)
      socket.destroy()
      resolve(heard.split('\r\n')[0]!)
    }
    const limit = setTimeout(end, patience)
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      heard += chunk
      if (heard.includes('\r\n')) end()
    })
    socket.on('error', end).on('close', end)
    socket.write(text)
  })
}

const NOT_PUBLIC = [
  '[::ffff:0:7f00:1]',
  '[::ffff:0:127.0.0.2]',
  '[2001::1]',
  '[2001:0:7f00:1::1]',
  '[64:ff9b::a00:1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::1]',
  '[::7f00:1]',
  '[100::1]',
  '[2001:db8::1]',
  '[3fff::1]',
  '[5f00::1]',
  '[fec0::1]',
  '192.88.99.1',
  '192.0.0.1',
  '192.0.2.1',
  '198.18.0.1',
  '198.51.100.1',
  '203.0.113.1',
  '240.0.0.1',
  '100.64.0.1',
]

test('the server does not connect to non-public addresses, in any notation', async (t) => {
  // In a network of its own, which holds nothing: a server that tries all the same reaches nobody.
  const alone = ['unshare', '--net']
  if (spawnSync(alone[0]!, [...alone.slice(1), 'true']).status !== 0)
    return passBy(t, 'no network of its own can be made here')
  const reached: string[] = []
  for (const address of NOT_PUBLIC) {
    const { stdout } = await machine.runUnder(alone, '--json', 'webhook', 'test', `https://${address}:9/x`)
    const { reason } = JSON.parse(stdout) as { reason: string }
    if (!/is not a public address/.test(reason)) reached.push(`${address}: ${reason}`)
  }
  assert.deepEqual(reached, [])
})

describe('requests are checked before the body is read', () => {
  const head = (token: string, length: number, path = 'outbound-emails'): string =>
    `POST /api/v1/${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/vnd.api+json\r\nContent-Length: ${length}\r\n\r\n`

  test('returns 403 after the headers if the token lacks the scope', async () =>
    assert.match(await raw(head(machine.narrow, 59_000_000) + '{"data":'), / 403 /))

  test('returns 413 after the headers for more than 1 MB on routes other than email', async () =>
    assert.match(await raw(head(machine.token, 2_000_000, 'audiences') + '{"data":'), / 413 /))

  test('rejects JSON with a million keys while /health stays fast', async () => {
    const attributes = Object.fromEntries(Array.from({ length: 1_000_000 }, (_, n) => [`k${n}`, 1]))
    const asked = machine.api(server, 'POST', '/outbound-emails', document('outbound-emails', attributes))
    let longest = 0
    let done = false
    const { status } = await Promise.all([
      asked.finally(() => (done = true)),
      (async () => {
        while (!done) {
          const began = performance.now()
          await (await fetch(`${server.url}/health`)).text()
          longest = Math.max(longest, performance.now() - began)
        }
      })(),
    ]).then(([answer]) => answer)
    assert.ok(status === 400 || status === 413, String(status))
    assert.ok(longest < 1000, `/health took ${Math.round(longest)} ms`)
  })
})

test('rejects a request with two Host headers', async () =>
  assert.match(await raw('GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n'), / 400 /))

for (const command of ['NOOP', 'RSET'])
  test(`closes an SMTP session that sends ${command} endlessly`, async () => {
    const client = await RawClient.greeted(server.smtp)
    let answered = 0
    try {
      for (; answered < 5000; answered++) if ((await client.ask(command)).code !== 250) break
    } catch {
      // It was cut.
    }
    client.destroy()
    assert.ok(answered < 5000, `${answered} were answered`)
  })

test('rate-limits wrong tokens from one address and logs them', async () => {
  const said = new Set<number>()
  for (let n = 0; n < 2000 && !said.has(429); n++) {
    const response = await fetch(`${server.url}/api/v1/domains`, { headers: { authorization: `Bearer wrong-${n}` } })
    await response.arrayBuffer()
    said.add(response.status)
  }
  assert.ok(said.has(429), `answered with ${[...said].join(', ')} alone`)
  assert.match(server.said, /authentication_failed/)
})
