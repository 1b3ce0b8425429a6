// Protection of memory, storage and CPU from a single client: sizes and scopes checked before a body is read (D74), a
// budget for all bodies, a reserve of the disk (D73), wrong tokens, one Host.
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { test } from 'node:test'
import { Refusal } from '../../src/base/errors.ts'
import { Budget } from '../../src/base/memory.ts'
import { withBody } from '../../src/jsonapi/body.ts'
import { outboundEmails } from '../../src/mail/api.ts'
import { validate } from '../../src/jsonapi/request.ts'
import type { Resource } from '../../src/jsonapi/resource.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { JsonGuard, MAX_LEVELS, MAX_MEMBERS, MAX_VALUES } from '../../src/jsonapi/json-guard.ts'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { RawClient } from '../smtp/raw.ts'

const lines: string[] = []
const postrider = ofFile(() => startTestAppliance({ logged: { level: 'info', lines }, domains: ['here.test'] }))

const MAIL = document('outbound-emails', { from: 'a@here.test', to: 'b@there.test', subject: 's', html: 'x' })

/** A body that counts how much of it is read. */
function watched(bytes: number): { body: ReadableStream<Uint8Array>; read: () => number } {
  let given = 0
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (given >= bytes) return controller.close()
        given += 65_536
        controller.enqueue(new Uint8Array(65_536).fill(0x20))
      },
    },
    { highWaterMark: 0 },
  )
  return { body, read: () => given }
}

test('checks the scope before it reads a body', async () => {
  const token = await postrider.tokenFor(postrider.user, ['webhooks:read'])
  const { body, read } = watched(50_000_000)
  const { status } = await postrider.raw('/api/v1/outbound-emails', {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': JSON_API },
    body,
    duplex: 'half',
  } as RequestInit)
  assert.equal(status, 403)
  assert.ok(read() <= 65_536, `${read()} bytes were read`)
})

test('limits bodies to 1 MB on routes without emails, with or without Content-Length', async () => {
  for (const announced of [true, false]) {
    const { body, read } = watched(20_000_000)
    const { status } = await postrider.raw('/api/v1/inboxes', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${postrider.token}`,
        'content-type': JSON_API,
        ...(announced ? { 'content-length': '20000000' } : {}),
      },
      body,
      duplex: 'half',
    } as RequestInit)
    assert.equal(status, 413)
    assert.ok(read() <= (announced ? 65_536 : 1_200_000), `${read()} bytes were read`)
  }
})

const posted = (text: string): Request =>
  new Request('http://x', {
    method: 'POST',
    body: text,
    headers: { 'content-length': String(Buffer.byteLength(text)) },
  })

/** The code with which a body is rejected. */
async function codeFor(text: string, budget = new Budget(Infinity), most = 1e6): Promise<string> {
  const request = posted(text)
  try {
    return await withBody(request, { most, budget }, () => 'taken')
  } catch (thrown) {
    assert.ok(thrown instanceof Refusal)
    return thrown.problems[0]!.code
  }
}

test('request bodies share a memory budget: 503 with Retry-After beyond it, and finished ones release it', async () => {
  const budget = new Budget(1_200_000)
  const text = 'x'.repeat(500_000)
  const ended = Promise.withResolvers<void>()
  const first = withBody(posted(text), { most: 1e6, budget }, () => ended.promise)
  while (budget.taken === 0) await new Promise(setImmediate)
  await assert.rejects(
    withBody(posted(text), { most: 1e6, budget }, () => 'taken'),
    (thrown: Refusal) => thrown.status === 503 && thrown.headers['Retry-After'] !== undefined,
  )
  ended.resolve()
  await first
  assert.equal(budget.taken, 0)
  assert.equal(await codeFor(text, budget), 'taken')
  assert.equal(budget.taken, 0)
})

const members = (count: number): string => `{${'"abc":1,'.repeat(count - 1)}"abc":1}`

test('rejects JSON with too many values, levels or members while it is read, and ignores strings', async () => {
  for (const [text, code] of [
    [`[${'1,'.repeat(MAX_VALUES - 3)}1]`, 'taken'],
    [`[${'1,'.repeat(MAX_VALUES)}1]`, 'invalid_document'],
    [`[${'{},'.repeat(MAX_VALUES)}{}]`, 'invalid_document'],
    [members(MAX_MEMBERS), 'taken'],
    [members(MAX_MEMBERS + 1), 'invalid_document'],
    [`[{"a":[${members(MAX_MEMBERS)},${members(MAX_MEMBERS)}],${members(MAX_MEMBERS).slice(1, -9)}}]`, 'taken'],
    [`[[{}],${members(MAX_MEMBERS + 1)}]`, 'invalid_document'],
    [`]]]}${members(MAX_MEMBERS)}`, 'taken'],
    ['['.repeat(MAX_LEVELS) + ']'.repeat(MAX_LEVELS), 'taken'],
    ['{"a":'.repeat(MAX_LEVELS + 1), 'invalid_document'],
    [JSON.stringify({ html: '{[,'.repeat(200_000) }), 'taken'],
    [JSON.stringify({ html: '\\"{[,'.repeat(200_000) }), 'taken'],
  ] as const)
    assert.equal(await codeFor(text, undefined, 1e7), code, text.slice(0, 40))
})

test('formats only as many errors as it returns', async () => {
  const mistaken = {
    unknown: Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`unknown${index}`, 1])),
    listed: { to: Array.from({ length: 50_000 }, () => 'x') },
    nested: { attachments: Array.from({ length: 5000 }, () => ({ a: 1, b: 2 })) },
  }
  for (const [what, attributes] of Object.entries(mistaken))
    assert.throws(
      () =>
        validate(outboundEmails as Resource<never>, 'create', {
          type: 'outbound-emails',
          id: undefined,
          attributes,
          hasAttributes: true,
          relationships: undefined,
        }),
      (thrown: Refusal) => thrown.problems.length > 0 && thrown.problems.length <= 100,
      what,
    )
  const described = (count: number, attributes: object = {}) =>
    document('outbound-emails', {
      ...attributes,
      ...Object.fromEntries(Array.from({ length: count }, (_, index) => [`unknown${index}`, 1])),
    })
  const many = await postrider.api('POST', '/outbound-emails', described(900))
  assert.equal(many.status, 422)
  assert.equal(many.body.errors.length, 100)
  const lists = await postrider.api(
    'POST',
    '/outbound-emails',
    described(0, { to: Array.from({ length: 50_000 }, () => 'x') }),
  )
  assert.equal(lists.status, 422)
  assert.ok(lists.body.errors.length <= 100)
  const more = await postrider.api('POST', '/outbound-emails', described(1001))
  assert.equal(more.status, 400)
  assert.match(more.body.errors[0].detail, /too many members\. The limit is 1000\./)
})

test('counts JSON values independently of the chunks', () => {
  const text = Buffer.from(
    JSON.stringify({ a: ['\\', '"', '\\"', '{['.repeat(9), { b: '\\\\' }], c: [[[[]]]] }).repeat(3),
  )
  const verdict = (limit: number, cut: number): boolean => {
    const guard = new JsonGuard()
    const filler = Buffer.from(`${'1,'.repeat(limit)}`)
    try {
      guard.push(filler)
      for (let at = 0; at < text.length; at += cut) guard.push(text.subarray(at, at + cut))
      return true
    } catch {
      return false
    }
  }
  // The text has 3 * 16 values and commas more than the filler. The limit does not depend on the pieces.
  for (let limit = MAX_VALUES - 60; limit < MAX_VALUES; limit++)
    assert.equal(new Set([1, 2, 3, 7, 1000].map((cut) => verdict(limit, cut))).size, 1, String(limit))
})

test('reads a string of escapes once, however long it is', () => {
  for (const escape of ['\\n', '\\\\', '\\"'])
    costingAtOnce(200, () => new JsonGuard().push(Buffer.from(`"${escape.repeat(500_000)}"`)))
})

test('below the disk reserve, POST is 507, MAIL is 452 and /health degraded, until space is free again', async () => {
  const { config } = postrider
  const before = config.storage.reserve
  config.storage.reserve = 1e18
  postrider.clock.leap(2000)
  const refused = await postrider.api('POST', '/outbound-emails', MAIL)
  assert.equal(refused.status, 507)
  assert.equal(refused.body.errors[0].code, 'insufficient_storage')
  assert.ok(refused.headers.get('retry-after'))
  assert.equal((await postrider.api('GET', '/outbound-emails')).status, 200)
  const smtp = await RawClient.greeted(postrider.appliance.smtp[0]!.port)
  await smtp.ask('EHLO client.test')
  const said = await smtp.ask('MAIL FROM:<a@b.test>')
  assert.equal(said.code, 452)
  assert.match(said.lines.join(' '), /4\.3\.1/)
  smtp.destroy()
  const health = await postrider.raw('/health')
  assert.equal(health.status, 200)
  assert.equal(health.body.status, 'degraded')
  assert.match(health.body.reasons.join(' '), /disk/)
  config.storage.reserve = before
  postrider.clock.leap(2000)
  assert.equal((await postrider.api('POST', '/outbound-emails', MAIL)).status, 201)
  assert.equal((await postrider.raw('/health')).body.status, 'ok')
})

for (const [surface, path, type] of [
  ['the API', '/api/v1/inboxes', JSON_API],
  ['MCP', '/mcp', 'application/json'],
  ['the figures', '/metrics', 'text/plain; charset=utf-8'],
] as const)
  test(`logs wrong tokens at ${surface}, then answers the address with 429 and Retry-After, except for a valid token`, async () => {
    postrider.config.metrics.token = 'right'
    // Passed on by a proxy, because clients on this machine need no token for metrics.
    const headers = { authorization: `Bearer pr_${'x'.repeat(43)}`, accept: JSON_API, 'x-forwarded-for': '192.0.2.7' }
    const wrong = () => postrider.raw(path, { headers })
    const before = lines.length
    const seen: number[] = []
    for (let count = 0; count < 40; count++) seen.push((await wrong()).status)
    assert.equal(seen[0], 401)
    assert.equal(seen.at(-1), 429)
    const slow = await wrong()
    assert.ok(Number(slow.headers.get('retry-after')) > 0)
    assert.equal(slow.headers.get('content-type'), type)
    assert.equal(slow.headers.get('www-authenticate'), null)
    assert.equal((await postrider.api('GET', '/inboxes')).status, 200)
    const logged = lines.slice(before).filter((line) => /"event":"authentication_failed"/.test(line))
    assert.equal(logged.length, seen.filter((status) => status === 401).length)
    assert.ok(logged.every((line) => /"address"/.test(line)))
    postrider.clock.leap(120_000)
    assert.equal((await wrong()).status, 401)
    postrider.clock.leap(120_000)
  })

test('rejects a request with two Host headers and closes its connection', async () => {
  const { port } = postrider.appliance.http
  const ask = (headers: string[]): Promise<(number | string | undefined)[]> =>
    new Promise((resolve, reject) => {
      const request = httpRequest({ port, host: '127.0.0.1', path: '/health', headers, setHost: false }, (response) => {
        response.resume()
        resolve([response.statusCode, response.headers.connection])
      })
      request.on('error', reject).end()
    })
  const kept = ['Connection', 'keep-alive']
  assert.deepEqual(await ask(['Host', 'one.test', ...kept]), [200, 'keep-alive'])
  assert.deepEqual(await ask(['Host', 'one.test', 'Host', 'two.test', ...kept]), [400, 'close'])
})
