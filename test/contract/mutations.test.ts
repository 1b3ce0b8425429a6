// Some thousand requests that are almost right, made by a seeded generator. Each answer is a document that matches the
// description and never a 5xx.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, JSON_API } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { API, judge, mailDocument, MISSING, startWire } from './wire.ts'

const ROUNDS = 4000
const SEED = Number(process.env['POSTRIDER_SEED'] ?? 20260115)

let domainId: string
let mailId: string
const faults: string[] = []
const wire = ofFile(() => startWire({ logged: { level: 'error', lines: faults } }))

setUp(async () => {
  domainId = (await wire.postrider.activeDomain('here.test')).id
  ;[mailId] = (await wire.mails(1, () => ({ idempotency_key: 'used' }))) as [string]
})

/** Mulberry32: small, and the same on every machine. */
function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
const random = generator(SEED)
const below = (count: number): number => Math.floor(random() * count)
const pick = <T>(from: readonly T[]): T => from[below(from.length)]!
const chance = (part: number): boolean => random() < part

const TEXTS = [
  '',
  ' ',
  '0',
  '-1',
  '1e999',
  'null',
  'true',
  '[]',
  '{}',
  '\0',
  '\r\n',
  '\ud800',
  '\udfff\ud800',
  '\u202e\u2028',
  '😀'.repeat(40),
  'é'.repeat(300),
  'a'.repeat(1000),
  'a'.repeat(70_000),
  "'; drop table users; --",
  '%',
  '%s%n',
  '../../etc/passwd',
  '__proto__',
  'constructor',
  'toString',
  'key',
  'ann@here.test',
  'bob@nowhere.test',
  '@',
  '<>',
  'ann@[127.0.0.1]',
  `ann@${'x.'.repeat(200)}test`,
  'ann@xn--zzzzzzz---',
  '"" <ann@here.test>',
  '=?utf-8?b?/w==?=',
  'ann@here.test, bob@here.test',
  'xn--',
  '.',
  'a..b',
  '1_month',
  'emails:read',
  'mcp:use',
  '*',
  ',',
  '-',
  MISSING,
]
const junk = (depth = 0): unknown =>
  pick<() => unknown>([
    () => null,
    () => true,
    () => false,
    () => pick([0, -0, 1, -1, 1.5, 1e21, 2 ** 53, -1e308]),
    () => pick(TEXTS),
    () => pick(TEXTS),
    () => [],
    () => ({}),
    () => (depth > 3 ? null : Array.from({ length: below(6) }, () => junk(depth + 1))),
    () => (depth > 3 ? null : Object.fromEntries([[pick(TEXTS), junk(depth + 1)]])),
    () => nested(pick([10, 500, 3000])),
  ])()

function nested(depth: number): unknown {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = chance(0.5) ? [value] : { a: value }
  return value
}

/** Changes one value of a JSON tree. */
function mutateTree(tree: unknown): unknown {
  if (typeof tree !== 'object' || tree === null || chance(0.15)) return junk()
  if (Array.isArray(tree)) {
    const copy: unknown[] = [...tree]
    if (chance(0.3)) copy.push(junk())
    else if (copy.length > 0) {
      const at = below(copy.length)
      copy[at] = mutateTree(copy[at])
    }
    return copy
  }
  const copy: Record<string, unknown> = { ...tree }
  const keys = Object.keys(copy)
  const key = keys.length > 0 ? pick(keys) : 'x'
  switch (below(5)) {
    case 0:
      delete copy[key]
      break
    case 1:
      copy[
        pick([...TEXTS, 'type', 'id', 'lid', 'attributes', 'relationships', 'links', 'meta', 'included', 'errors'])
      ] = junk()
      break
    default:
      copy[key] = mutateTree(copy[key])
  }
  return copy
}

function mutateBytes(text: string): Uint8Array {
  let bytes = Buffer.from(text)
  for (let times = 1 + below(3); times > 0; times--) {
    const at = below(bytes.length + 1)
    switch (below(4)) {
      case 0:
        bytes = bytes.subarray(0, at)
        break
      case 1:
        bytes = Buffer.concat([bytes.subarray(0, at), Buffer.from([below(256)]), bytes.subarray(at)])
        break
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(Math.min(bytes.length, at + 1 + below(9)))])
        break
      default:
        if (at < bytes.length) bytes[at] = below(256)
    }
  }
  return bytes
}

const TYPES = [
  JSON_API,
  'application/json',
  `${JSON_API};charset=utf-8`,
  `${JSON_API};profile="`,
  `${JSON_API};profile="\\`,
  `${JSON_API};;;=;q=`,
  `${JSON_API};ext`,
  ';',
  ',,,',
  '"',
  '*/*;q=2',
  `${JSON_API};q=${'9'.repeat(400)}`,
  `${`${JSON_API};x=1,`.repeat(200)}a`,
  '\x80\xff',
]
const PARAMETERS = [
  'include',
  'sort',
  'fields[domains]',
  'fields[outbound-emails]',
  'fields[records]',
  'filter[status]',
  'filter[domain]',
  'filter[verified]',
  'filter[to]',
  'page[size]',
  'page[cursor]',
  'page',
  'filter',
  'fields',
  'filter[',
  'filter]',
  'filter[[a]]',
  'fields[__proto__]',
  '%',
  '%ff',
  '%00',
  '',
]
const VALUES = [
  'domain',
  'domain.domain',
  'name',
  '-created_at',
  'created_at,-updated_at,subject',
  'name,status',
  'active,failed',
  '5',
  '%ff%fe',
  '%',
  '%ud800',
  '%00',
  '+',
  '&&&',
  '=',
  ','.repeat(60),
  'x,'.repeat(2000),
]
const query = (): string => {
  const value = (): string =>
    chance(0.7) ? pick(VALUES) : encodeURIComponent(pick(TEXTS).toWellFormed().slice(0, 3000))
  const name = (): string =>
    chance(0.8) ? pick(PARAMETERS) : encodeURIComponent(pick(TEXTS).toWellFormed().slice(0, 200))
  return `?${Array.from({ length: 1 + below(3) }, () => `${name()}=${value()}`).join('&')}`
}

const IDS = [
  '1',
  '%00',
  '%',
  '%ff',
  '%2F',
  '..%2f..',
  '%E0%A4%A',
  'a'.repeat(5000),
  '%F0%9F%93%AB',
  '*',
  ':id',
  '{id}',
  MISSING,
]

interface Request_ {
  method: string
  path: string
  query: string
  headers: Record<string, string>
  body: unknown
}

function base(): Request_ {
  const tokens = document('tokens', { name: 'x', scopes: ['emails:read'], duration: '1_month' })
  // The name is in use, because a created domain would need two keys each time.
  const domains = document('domains', { name: 'here.test', purpose: 'both', region: 'default', tls_policy: 'Optional' })
  const change = document(
    'domains',
    { open_tracking_enabled: true, tls_policy: 'Require', tracking_redirect_mode: 'shared' },
    { id: domainId },
  )
  const mail = mailDocument({ reply_to: ['ann@here.test'], text: 'x', idempotency_key: chance(0.5) ? 'used' : null })
  const [method, path, body] = pick<[string, string, unknown?]>([
    ['POST', '/tokens', tokens],
    ['POST', '/domains', domains],
    ['POST', '/outbound-emails', mail],
    ['POST', '/outbound-emails', mail],
    ['PATCH', `/domains/${domainId}`, change],
    ['PATCH', `/domains/${domainId}`, change],
    ['GET', '/domains'],
    ['GET', '/outbound-emails'],
    ['GET', `/domains/${domainId}`],
    ['GET', `/outbound-emails/${mailId}`],
    ['GET', `/domains/${domainId}/records`],
    ['DELETE', `/tokens/${MISSING}`],
    ['DELETE', `/outbound-emails/${MISSING}`],
  ])
  return { method, path, query: '', headers: {}, body: body === undefined ? undefined : JSON.stringify(body) }
}

function mutate(request: Request_): void {
  const { body } = request
  if (typeof body === 'string' && chance(0.7)) {
    if (chance(0.25)) request.body = mutateBytes(body)
    else {
      let tree: unknown = JSON.parse(body)
      for (let times = 1 + below(3); times > 0; times--) tree = mutateTree(tree)
      const { data } = (tree ?? {}) as { data?: Record<string, unknown> }
      if (typeof data === 'object' && data !== null && chance(0.1)) data[pick(['id', 'lid', 'relationships'])] = junk()
      if (typeof data === 'object' && data !== null && chance(0.1)) data['relationships'] = { [pick(TEXTS)]: junk() }
      request.body = JSON.stringify(tree)
    }
  } else if (chance(0.6)) request.query = query()
  if (chance(0.1)) request.headers['accept'] = pick(TYPES)
  if (chance(0.1)) request.headers['content-type'] = pick(TYPES)
  if (chance(0.05)) request.headers['content-length'] = pick(['-1', 'x', '0', '1e9', '99999999999999999999', ''])
  if (chance(0.03)) request.headers['authorization'] = pick(['Bearer', 'Bearer \xff', '', `Bearer ${'x'.repeat(9000)}`])
  if (chance(0.05)) request.path = request.path.replace(/[^/]+$/, pick(IDS))
  if (chance(0.03)) request.path = request.path.replace(/^\/[^/]+/, `/${pick(IDS)}`)
  if (chance(0.03)) request.method = pick(['GET', 'POST', 'PUT', 'PATCH', 'OPTIONS', 'HEAD', 'QUERY'])
}

test(`${ROUNDS} mutated requests (seed ${SEED}): every response is valid and never 5xx`, async () => {
  const { config, token } = wire.postrider
  const base_ = config.http.public_url + API
  const statuses = new Map<number, number>()
  for (let round = 0; round < ROUNDS; round++) {
    const request = base()
    mutate(request)
    const bodiless = request.method === 'GET' || request.method === 'HEAD' || request.body === undefined
    const path = request.path + request.query
    const answer = await wire.postrider.raw(API + path, {
      method: request.method,
      headers: { authorization: `Bearer ${token}`, 'content-type': JSON_API, ...request.headers },
      ...(bodiless ? {} : { body: request.body as string }),
    })
    const description = `round ${round}: ${request.method} ${path.slice(0, 500)} ${JSON.stringify(request.headers)}
      ${Buffer.from((request.body ?? '') as string)
        .toString()
        .slice(0, 2000)}`
    assert.ok(answer.status < 500, `${answer.status} ${description}\n${faults.join('')}`)
    try {
      judge(answer, { method: request.method, path, body: request.body, base: base_ })
    } catch (thrown) {
      throw new Error(description, { cause: thrown })
    }
    statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
  }
  assert.deepEqual(
    faults.filter((line) => line.includes(`"level":"error"`)),
    [],
  )
  // The mutations reach every check, not just the first.
  for (const status of [200, 201, 400, 401, 403, 404, 405, 406, 409, 415, 422])
    assert.ok((statuses.get(status) ?? 0) > 5, `${status} was answered: ${JSON.stringify([...statuses])}`)
})

test('answers deep, wide or repetitive JSON like any other', async () => {
  const deep = 100_000
  for (const [name, text, expected] of [
    [
      'deep list',
      `{"data":{"type":"domains","attributes":{"name":${'['.repeat(deep)}${']'.repeat(deep)}}}}`,
      [400, 422],
    ],
    ['deep object', `{"data":{"type":"domains","attributes":${'{"a":'.repeat(deep)}1${'}'.repeat(deep)}}}`, [400, 422]],
    ['unclosed', '['.repeat(deep), [400]],
    ['wide', `{"data":{"type":"domains","attributes":{${wide(1000)}}}}`, [422]],
    ['too wide', `{"data":{"type":"domains","attributes":{${wide(20_000)}}}}`, [400]],
    ['long list', `{"data":{"type":"tokens","attributes":{"scopes":[${'7,'.repeat(20_000)}7]}}}`, [422]],
    ['same key', `{"data":{"type":"domains",${'"attributes":{},'.repeat(900)}"attributes":{}}}`, [422]],
    ['same key too often', `{"data":{"type":"domains",${'"attributes":{},'.repeat(20_000)}"attributes":{}}}`, [400]],
    ['huge number', `{"data":{"type":"domains","attributes":{"name":${'9'.repeat(100_000)}}}}`, [422]],
    ['proto', '{"data":{"type":"domains","__proto__":{"id":"x"},"attributes":{"__proto__":{"name":"x"}}}}', [400, 422]],
  ] as [string, string, number[]][]) {
    const { status } = await wire.postrider.raw(`${API}/${text.includes('tokens') ? 'tokens' : 'domains'}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${wire.postrider.token}`, 'content-type': JSON_API },
      body: text,
    })
    assert.ok(expected.includes(status), `${name}: ${status}`)
  }
})

const wide = (count: number): string => Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',')
