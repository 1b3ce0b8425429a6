import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHash } from 'node:crypto'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { RateLimit } from '../../src/base/rates.ts'
import { createToken, listTokens, revokeToken } from '../../src/users/tokens.ts'
import { openStore } from '../../src/store/open.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

// The sixteen scopes of the specification. mcp:use is only for OAuth clients.
const ALL = [
  'tokens:write',
  'emails:send',
  'emails:read',
  'emails:write',
  'campaigns:read',
  'campaigns:write',
  'contacts:read',
  'contacts:write',
  'domains:read',
  'domains:write',
  'inbound:read',
  'suppressions:read',
  'suppressions:write',
  'compliance:write',
  'webhooks:read',
  'webhooks:write',
]

const postrider = ofFile(() => startTestAppliance())

const store = () => postrider.appliance.deps.store
const create = (attributes: Record<string, unknown>, bearer?: string): Promise<Answer> =>
  postrider.api(
    'POST',
    '/tokens',
    document('tokens', { name: 'n', scopes: ['domains:read'], duration: '1_month', ...attributes }),
    bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
  )
const use = (bearer: string, method = 'GET', path = '/domains'): Promise<Answer> =>
  postrider.raw(`/api/v1${path}`, { method, headers: { authorization: `Bearer ${bearer}` } })

async function make(attributes: Record<string, unknown> = {}): Promise<{ id: string; token: string; answer: Answer }> {
  const answer = await create(attributes)
  assert.equal(answer.status, 201, JSON.stringify(answer.body))
  return { id: answer.body.data.id, token: answer.body.data.attributes.token, answer }
}

function refused(answer: Answer, ...problems: [pointer: string, code: string][]): void {
  assert.equal(answer.status, 422, JSON.stringify(answer.body))
  const found = answer.body.errors.map((error: { code: string; source: { pointer: string } }) => [
    error.source.pointer,
    error.code,
  ])
  assert.deepEqual(found, problems)
}

test('creates a token, shows it once, and grants its scopes', async () => {
  const { answer, id, token } = await make({ name: 'shown', scopes: ['domains:read', 'emails:read', 'domains:read'] })
  const { attributes, type } = answer.body.data
  assert.equal(type, 'tokens')
  assert.match(token, /^pr_[0-9A-Za-z]{43}$/)
  assert.deepEqual(attributes, {
    name: 'shown',
    scopes: ['domains:read', 'emails:read'],
    duration: '1_month',
    token,
    last_four: token.slice(-4),
    expires_at: '2026-02-15T12:00:00.000Z',
    last_used_at: null,
    created_at: '2026-01-15T12:00:00.000Z',
  })
  assert.equal((await use(token)).status, 200)
  const beyond = await use(token, 'DELETE', '/domains/x')
  assert.equal(beyond.status, 403)
  assert.equal(beyond.body.errors[0].code, 'insufficient_scope')
  assert.equal(beyond.headers.get('www-authenticate'), 'Bearer error="insufficient_scope", scope="domains:write"')
  assert.notEqual(id, token)
})

test('two tokens are never equal', async () => {
  const made = await Promise.all(Array.from({ length: 20 }, () => make()))
  assert.equal(new Set(made.map(({ token }) => token)).size, 20)
  assert.equal(new Set(made.map(({ id }) => id)).size, 20)
})

test('stores only a hash of the plaintext', async () => {
  const { token } = await make({ name: 'needle-in-the-files' })
  const bytes = Buffer.concat(
    readdirSync(postrider.dataDir, { recursive: true })
      .map((name) => join(postrider.dataDir, name as string))
      .filter((file) => statSync(file).isFile())
      .map((file) => readFileSync(file)),
  )
  assert.ok(bytes.includes('needle-in-the-files'), 'the row is in the bytes that are searched')
  assert.ok(bytes.includes(createHash('sha256').update(token).digest()), 'its SHA-256 is kept')
  assert.ok(!bytes.includes(token))
  assert.ok(!bytes.includes(token.slice(3)))
})

test('accepts the sixteen scopes and no others', async () => {
  const { answer } = await make({ scopes: ALL })
  assert.deepEqual(answer.body.data.attributes.scopes, ALL)
  const at = (index: number) => `/data/attributes/scopes/${index}`
  refused(await create({ scopes: ['domains:read', 'domains:delete'] }), [at(1), 'invalid'])
  refused(await create({ scopes: ['mcp:use'] }), [at(0), 'invalid'])
  refused(await create({ scopes: ['all'] }), [at(0), 'invalid'])
  refused(await create({ scopes: ['Domains:read', 'x', 'emails:read'] }), [at(0), 'invalid'], [at(1), 'invalid'])
  refused(await create({ scopes: [] }), ['/data/attributes/scopes', 'invalid'])
  refused(await create({ scopes: 'domains:read' }), ['/data/attributes/scopes', 'invalid'])
})

test('a token cannot grant scopes that it lacks', async () => {
  const { token } = await make({ scopes: ['tokens:write', 'emails:read'] })
  assert.equal((await create({ scopes: ['emails:read', 'tokens:write'] }, token)).status, 201)
  refused(
    await create({ scopes: ['domains:read', 'emails:read', 'emails:send'] }, token),
    ['/data/attributes/scopes/0', 'invalid'],
    ['/data/attributes/scopes/2', 'invalid'],
  )
  const { token: reader } = await make({ scopes: ['emails:read'] })
  assert.equal((await create({ scopes: ['emails:read'] }, reader)).status, 403)
})

test('validates name and duration', async () => {
  for (const duration of ['2_months', '1_months', '', 1, null])
    refused(await create({ duration }), ['/data/attributes/duration', 'invalid'])
  refused(await create({ name: ' ' }), ['/data/attributes/name', 'invalid'])
  refused(await create({ name: 'x'.repeat(256) }), ['/data/attributes/name', 'too_long'])
  assert.equal((await create({ name: 'x'.repeat(255) })).status, 201)
  refused(await create({ expires_at: '2030-01-01T00:00:00.000Z' }), ['/data/attributes/expires_at', 'immutable'])
  const { body, status } = await postrider.api('POST', '/tokens', document('tokens', {}))
  assert.equal(status, 422)
  assert.deepEqual(
    body.errors.map((error: { code: string }) => error.code),
    ['required', 'required', 'required'],
  )
})

test('durations are calendar months in UTC, clamped to the last day', async () => {
  const expiry = async (from: string, duration: '1_month' | '6_months' | '12_months'): Promise<string> => {
    const deps = { store: store(), clock: new ManualClock(Date.parse(from)) }
    const { token } = await createToken(deps, postrider.user.key, { name: 'n', scopes: ['emails:read'], duration })
    return new Date(token.expires_at).toISOString()
  }
  assert.equal(await expiry('2026-01-15T12:34:56.789Z', '1_month'), '2026-02-15T12:34:56.789Z')
  assert.equal(await expiry('2026-01-15T12:34:56.789Z', '6_months'), '2026-07-15T12:34:56.789Z')
  assert.equal(await expiry('2026-01-15T12:34:56.789Z', '12_months'), '2027-01-15T12:34:56.789Z')
  assert.equal(await expiry('2026-01-31T23:59:59.999Z', '1_month'), '2026-02-28T23:59:59.999Z')
  assert.equal(await expiry('2028-01-31T00:00:00.000Z', '1_month'), '2028-02-29T00:00:00.000Z')
  assert.equal(await expiry('2028-02-29T00:00:00.000Z', '12_months'), '2029-02-28T00:00:00.000Z')
  assert.equal(await expiry('2026-08-31T00:00:00.000Z', '6_months'), '2027-02-28T00:00:00.000Z')
  assert.equal(await expiry('2026-12-31T00:00:00.000Z', '1_month'), '2027-01-31T00:00:00.000Z')
})

test('a token authenticates until the last millisecond before it expires', async () => {
  const clock = new ManualClock(Date.UTC(2026, 0, 31, 8))
  await using own = await startTestAppliance({ clock })
  const get = () => own.api('GET', '/domains')
  clock.leap(Date.UTC(2027, 0, 31, 8) - clock.now() - 1)
  assert.equal((await get()).status, 200)
  clock.leap(1)
  const expired = await get()
  assert.equal(expired.status, 401)
  assert.equal(expired.body.errors[0].code, 'token_expired')
  assert.equal(expired.headers.get('www-authenticate'), 'Bearer error="invalid_token"')
})

test('a revoked token is rejected from the next request on', async () => {
  const { id, token } = await make()
  assert.equal((await use(token)).status, 200)
  const answer = await postrider.api('DELETE', `/tokens/${id}`)
  assert.deepEqual([answer.status, answer.body], [204, undefined])
  const after = await use(token)
  assert.equal(after.status, 401)
  assert.equal(after.body.errors[0].code, 'unauthenticated')
  assert.equal((await postrider.api('DELETE', `/tokens/${id}`)).status, 404)
})

test('a token can revoke itself', async () => {
  const { id, token } = await make({ scopes: ['tokens:write', 'domains:read'] })
  assert.equal((await use(token, 'DELETE', `/tokens/${id}`)).status, 204)
  assert.equal((await use(token)).status, 401)
})

test('a token revoked by another process is rejected immediately', async () => {
  const { id, token } = await make()
  assert.equal((await use(token)).status, 200)
  const beside = openStore(postrider.dataDir)
  assert.equal(await revokeToken(beside, id), true)
  assert.equal((await use(token)).status, 401)
  assert.equal(await revokeToken(beside, id), false)
  beside.close()
})

test("another user's token and an unknown one are the same 404", async () => {
  const { id, token } = await make()
  const foreign = await postrider.asOther('DELETE', `/tokens/${id}`)
  const unknown = await postrider.asOther('DELETE', '/tokens/01900000-0000-7000-8000-000000000000')
  assert.equal(foreign.status, 404)
  const bare = ({ body }: Answer) => body.errors.map((error: object) => ({ ...error, id: '' }))
  assert.deepEqual(bare(foreign), bare(unknown))
  assert.equal((await use(token)).status, 200)
})

test('GET and PATCH of tokens are 405', async () => {
  const { id } = await make()
  for (const [method, path, allow] of [
    ['GET', '/tokens', 'POST'],
    ['GET', `/tokens/${id}`, 'DELETE'],
    ['PATCH', `/tokens/${id}`, 'DELETE'],
  ] as const) {
    const answer = await postrider.api(method, path)
    assert.equal(answer.status, 405, `${method} ${path}`)
    assert.equal(answer.headers.get('allow'), allow)
  }
})

test('stores the last use to the minute', async () => {
  const { id, token } = await make()
  const lastUse = () => listTokens(store(), postrider.user.key).find((each) => each.id === id)!.last_used_at
  assert.equal(lastUse(), null)
  const first = postrider.clock.now()
  await use(token)
  await until(() => lastUse() === first)
  postrider.clock.leap(MINUTE - 1)
  await use(token)
  await store().write(() => undefined)
  assert.equal(lastUse(), first)
  postrider.clock.advance(1)
  await use(token)
  await until(() => lastUse() === first + MINUTE)
})

test('rejects malformed Authorization headers', async () => {
  const { token } = await make()
  for (const authorization of [
    token,
    `Basic ${token}`,
    'Bearer',
    'Bearer ',
    `Bearer ${token} x`,
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token.toLowerCase()}x`,
    `Bearer ${'x'.repeat(10_000)}`,
  ]) {
    const answer = await postrider.raw('/api/v1/domains', { headers: { authorization } })
    assert.equal(answer.status, 401, authorization.slice(0, 60))
    // RFC 6750 §3.1: for another scheme, the header contains only the supported one.
    const expected = authorization.startsWith('Bearer') ? 'Bearer error="invalid_token"' : 'Bearer'
    assert.equal(answer.headers.get('www-authenticate'), expected, authorization.slice(0, 60))
  }
  const none = await postrider.raw('/api/v1/domains')
  assert.deepEqual([none.status, none.headers.get('www-authenticate')], [401, 'Bearer'])
  const lower = await postrider.raw('/api/v1/domains', { headers: { authorization: `bearer ${token}` } })
  assert.equal(lower.status, 200, 'the name of a scheme has no case (RFC 9110 §11.1)')
})

// The bucket behind the 429 (D8): 20 per second, bursts of 100.
test('the bucket allows a burst of 100 and 20 per second after that', () => {
  const clock = new ManualClock(0)
  const rates = new RateLimit(clock, 20, 100)
  for (let i = 1; i <= 100; i++) {
    const { allowed, limit, remaining } = rates.take('a')
    assert.deepEqual({ allowed, limit, remaining }, { allowed: true, limit: 100, remaining: 100 - i })
  }
  assert.deepEqual(rates.take('a'), { allowed: false, limit: 100, remaining: 0, reset: 1 })
  clock.advance(49)
  assert.equal(rates.take('a').allowed, false)
  clock.advance(1)
  assert.equal(rates.take('a').allowed, true, 'one every 50 ms')
  assert.equal(rates.take('a').allowed, false)
  clock.advance(SECOND)
  let through = 0
  while (rates.take('a').allowed) through++
  assert.equal(through, 20)
})

test('the bucket refills within 5 seconds and never overfills', () => {
  const clock = new ManualClock(0)
  const rates = new RateLimit(clock, 20, 100)
  for (let i = 0; i < 100; i++) rates.take('a')
  assert.equal(rates.take('b').remaining, 99, 'each token has its own')
  clock.advance(5 * SECOND)
  assert.equal(rates.take('a').remaining, 99)
  clock.leap(DAY)
  const { remaining, reset } = rates.take('a')
  assert.equal(remaining, 99)
  assert.equal(reset, 1, 'seconds until it is full')
  for (let i = 0; i < 99; i++) rates.take('a')
  assert.equal(rates.take('a').allowed, false)
})

test('the bucket returns its reset time, and the retry time for a rejected request', () => {
  const clock = new ManualClock(0)
  const rates = new RateLimit(clock, 1, 10)
  for (let i = 0; i < 9; i++) rates.take('a')
  assert.equal(rates.take('a').reset, 10)
  assert.equal(rates.take('a').reset, 1)
  const slow = new RateLimit(clock, 1, 1)
  slow.take('a')
  const { allowed, reset } = slow.take('a')
  assert.equal(allowed, false)
  clock.advance(reset * SECOND)
  assert.equal(slow.take('a').allowed, true, 'the promise is kept')
})

test('a rejected request does not count', () => {
  const clock = new ManualClock(0)
  const rates = new RateLimit(clock, 1, 1)
  assert.equal(rates.take('a').allowed, true)
  for (let i = 0; i < 50; i++) assert.equal(rates.take('a').allowed, false)
  clock.advance(SECOND)
  assert.equal(rates.take('a').allowed, true)
})

test('0 turns the limit off', () => {
  const rates = new RateLimit(new ManualClock(0), 0, 100)
  for (let i = 0; i < 1000; i++)
    assert.deepEqual(rates.take('a'), { allowed: true, limit: 100, remaining: 100, reset: 0 })
})

test('a clock that is set back adds no requests', () => {
  let now = HOUR
  const rates = new RateLimit({ now: () => now, elapsed: () => 0, wake: () => () => {} }, 1, 5)
  for (let i = 0; i < 5; i++) rates.take('a')
  now -= MINUTE
  assert.equal(rates.take('a').allowed, false)
})

test('an empty bucket stays empty while 10,000 other tokens send requests', () => {
  const clock = new ManualClock(0)
  const rates = new RateLimit(clock, 20, 2)
  rates.take('first')
  rates.take('first')
  for (let i = 0; i < 10_050; i++) rates.take(`token ${i}`)
  assert.equal(rates.take('first').allowed, false)
})

test('over the API: 429 with Retry-After, counted per token', async () => {
  await using own = await startTestAppliance({ config: { api: { rate_limit: 2, rate_burst: 3 } } })
  const get = () => own.api('GET', '/domains')
  for (const remaining of ['2', '1', '0']) {
    const { headers, status } = await get()
    assert.deepEqual(
      [status, headers.get('ratelimit-limit'), headers.get('ratelimit-remaining')],
      [200, '3', remaining],
    )
  }
  const refusal = await get()
  assert.equal(refusal.status, 429)
  assert.equal(refusal.body.errors[0].code, 'rate_limited')
  assert.equal(refusal.headers.get('retry-after'), '1')
  assert.equal(refusal.headers.get('ratelimit-remaining'), '0')
  assert.equal((await own.asOther('GET', '/domains')).status, 200)
  own.clock.advance(SECOND)
  assert.equal((await get()).status, 200)
})
