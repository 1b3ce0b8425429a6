// The API requests of a token: which are kept, for how long, and without which contents.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, SECOND } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { createToken, type Token } from '../../src/users/tokens.ts'
import { addUser, findUser } from '../../src/users/users.ts'
import { z } from 'zod'
import { masked, wordsOf } from '../../src/users/requests.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const UUID = '019bc6d0-0440-7d81-9e99-6246f6d728e8'

/** A token of the first user, and a request with it. */
async function tokenOf(postrider: TestAppliance, scopes: readonly ('emails:send' | 'emails:read')[] = ['emails:send']) {
  const deps = postrider.appliance.deps
  const { plaintext, token } = await createToken(deps, postrider.user.key, {
    name: 'shop',
    scopes,
    duration: '1_month',
  })
  const ask = (method: string, path: string, body?: unknown) =>
    postrider.api(method, path, body, { authorization: `Bearer ${plaintext}` })
  return { ask, token }
}

type Shown = [method: string, path: string, status: number, error: string | null]

/** The requests of a token, oldest first, after those of the last second are written. */
async function requestsOf(postrider: TestAppliance, { id }: Token, query = ''): Promise<Shown[]> {
  postrider.clock.advance(SECOND)
  await postrider.appliance.deps.store.writeSoon(() => {})
  const { body, status } = await postrider.api('GET', `/personal-access-tokens/${id}/requests?page[size]=100${query}`)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data
    .map(({ attributes: { error, method, path, status: of } }: { attributes: Record<string, never> }) => [
      method,
      path,
      of,
      error,
    ])
    .reverse()
}

test('lists requests of a token with method, path, status and error code, and none that were refused with 401', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { ask, token } = await tokenOf(postrider)
  const mail = { from: 'a@here.test', to: 'b@there.test', subject: 'x', html: 'x' }
  assert.equal((await ask('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  assert.equal((await ask('POST', '/outbound-emails', document('outbound-emails', { ...mail, to: 'x' }))).status, 422)
  assert.equal((await ask('GET', '/outbound-emails?filter[search]=b@there.test')).status, 403)
  assert.equal((await ask('GET', '/nowhere/b@there.test')).status, 404)
  assert.equal((await ask('PATCH', '/outbound-emails', document('outbound-emails', {}))).status, 405)
  const wrong = { authorization: 'Bearer pr_wrong' }
  assert.equal((await postrider.api('GET', '/outbound-emails', undefined, wrong)).status, 401)
  // The fast path of node:http.
  const headers = { authorization: 'Bearer x' }
  assert.equal((await fetch(`${postrider.url}/api/v1/outbound-emails`, { method: 'POST', headers })).status, 401)
  assert.deepEqual(await requestsOf(postrider, token), [
    ['POST', '/outbound-emails', 201, null],
    ['POST', '/outbound-emails', 422, 'invalid'],
    ['GET', '/outbound-emails?filter[search]=***', 403, 'insufficient_scope'],
    ['GET', '/nowhere/***', 404, 'not_found'],
    ['PATCH', '/outbound-emails', 405, 'method_not_allowed'],
  ])
  assert.equal((await requestsOf(postrider, token, '&filter[failed]=true')).length, 4)
  assert.equal((await postrider.asOther('GET', `/personal-access-tokens/${token.id}/requests`)).status, 404)
  assert.equal((await ask('GET', `/personal-access-tokens/${token.id}/requests`)).status, 403, 'without tokens:write')
})

test('keeps requests that are rejected by the rate limit, and requests over the fast path', async () => {
  await using postrider = await startTestAppliance({
    domains: ['here.test'],
    config: { api: { rate_limit: 1, rate_burst: 1 } },
  })
  const { plaintext, token } = await createToken(postrider.appliance.deps, postrider.user.key, {
    name: 'fast',
    scopes: ['emails:send'],
    duration: '1_month',
  })
  const send = (): Promise<Response> =>
    fetch(`${postrider.url}/api/v1/outbound-emails`, {
      method: 'POST',
      headers: { authorization: `Bearer ${plaintext}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify(
        document('outbound-emails', { from: 'a@here.test', to: 'b@t.test', subject: 'x', html: 'x' }),
      ),
    })
  assert.deepEqual([(await send()).status, (await send()).status], [201, 429])
  assert.deepEqual(await requestsOf(postrider, token), [
    ['POST', '/outbound-emails', 201, null],
    ['POST', '/outbound-emails', 429, 'rate_limited'],
  ])
})

test('keeps at most 1,000 requests of a token, for 30 days', async () => {
  await using postrider = await startTestAppliance()
  const { clock } = postrider
  const { requests, store } = postrider.appliance.deps
  const { token } = await tokenOf(postrider)
  const { token: other } = await tokenOf(postrider)
  const count = (of: Token): number =>
    store.one(raw<{ n: number }>('select count(*) as n from token_requests where token_key = ?', [of.key])).n
  const note = (of: Token, times: number): void => {
    for (let at = 0; at < times; at++)
      requests.note(of.key, { method: 'GET', path: `/a-${at}`, query: [], status: 200 }, new Set())
  }
  note(other, 3)
  for (const times of [990, 9, 40, 70, 1500, 99, 1, 4000]) {
    note(token, times)
    requests.flush()
    await store.writeSoon(() => {})
    assert.ok(count(token) <= 1000 && count(token) >= 900, `${count(token)}`)
  }
  assert.equal(count(other), 3)
  note(token, 9000)
  requests.flush()
  await store.writeSoon(() => {})
  assert.ok(count(token) <= 1000)
  clock.leap(30 * DAY)
  clock.advance(HOUR)
  await until(() => count(token) + count(other) === 0, 'the end of the retention')
})

test('a revoked token and a removed user leave no requests, even those still in memory', async () => {
  await using postrider = await startTestAppliance()
  const { deps } = postrider.appliance
  const all = (): number => deps.store.one(raw<{ n: number }>('select count(*) as n from token_requests')).n
  const { ask, token } = await tokenOf(postrider)
  await ask('GET', '/domains')
  postrider.clock.advance(SECOND)
  await until(() => all() === 1, 'the request')
  await ask('GET', '/domains')
  const mine = (
    await createToken(deps, postrider.user.key, { name: 'm', scopes: ['tokens:write'], duration: '1_month' })
  ).plaintext
  const deleted = await postrider.api('DELETE', `/tokens/${token.id}`, undefined, { authorization: `Bearer ${mine}` })
  assert.equal(deleted.status, 204)
  postrider.clock.advance(SECOND)
  await deps.store.writeSoon(() => {})
  const rows = deps.store.all(raw<{ path: string }>('select path from token_requests'))
  assert.deepEqual(rows, [{ path: `/tokens/${token.id}` }], 'only the request of the other token')
  const eve = await addUser(deps, { email: 'eve@owner.test' })
  const { plaintext } = await createToken(deps, eve.key, { name: 'e', scopes: ['emails:read'], duration: '1_month' })
  await postrider.api('GET', '/outbound-emails', undefined, { authorization: `Bearer ${plaintext}` })
  deps.requests.flush()
  await until(() => all() === 2, 'her request')
  await deps.store.write((tx) => tx.run(raw('delete from users where email = ?', ['eve@owner.test'])))
  assert.equal(findUser(deps.store, 'eve@owner.test'), undefined)
  assert.equal(all(), 1)
})

test('a stop of the server writes the requests of the last second', async () => {
  await using postrider = await startTestAppliance()
  const { ask } = await tokenOf(postrider)
  await ask('GET', '/domains')
  let written = 0
  const { store } = postrider.appliance.deps
  const close = store.close.bind(store)
  store.close = () => {
    close()
    written++
  }
  const soon = store.writeSoon.bind(store)
  store.writeSoon = (work, patience) => {
    written += 10
    return soon(work, patience)
  }
  await postrider.stop()
  assert.equal(written % 10, 1)
  assert.ok(written > 10)
})

test('masks addresses, names and secrets in paths and queries', () => {
  const status = { schema: z.enum(['queued', 'sent']), about: '' }
  const words = wordsOf([{ attributes: { status, created_at: { schema: z.string(), about: '' } } }])
  const shown = (path: string): string => {
    const { pathname, searchParams } = new URL(path, 'http://here.test')
    return masked(pathname, searchParams, words)
  }
  assert.equal(shown('/api/v1/outbound-emails'), '/outbound-emails')
  assert.equal(shown(`/api/v1/domains/${UUID}/records`), `/domains/${UUID}/records`)
  assert.equal(shown('/v3/here.test/messages'), '/v3/***/messages')
  for (const secret of [
    'ann@here.test',
    'pr_aBcDeF0123456789',
    'Ann',
    '%61nn%40here.test',
    'a'.repeat(40),
    '4111111111111111',
  ])
    assert.equal(shown(`/api/v1/contacts/${secret}`), '/contacts/***')
  assert.equal(shown('/x?filter[status]=queued,sent&page[size]=50'), '/x?filter[status]=queued,sent&page[size]=50')
  assert.equal(shown('/x?sort=-created_at,status&page[size]=1000'), '/x?sort=-created_at,status&page[size]=***')
  for (const name of ['filter[status]', 'sort', 'include', 'page[size]', 'fields[emails]'])
    for (const secret of ['hunter2', 'pr_aBcDeF0123456789', 'queued,hunter2', '41111111'])
      assert.equal(shown(`/x?${name}=${secret}`), `/x?${name}=***`)
  assert.equal(
    shown('/x?filter[search]=ann&page[cursor]=abc&token=pr_1&sort=ann@here.test&ann@here.test=1'),
    '/x?filter[search]=***&page[cursor]=***&token=***&sort=***&***=***',
  )
  assert.ok(shown(`/x?${'sort=a&'.repeat(500)}`).length <= 200)
})

test('the page of a token lists its requests, and the list of tokens links to it', async () => {
  await using postrider = await startTestAppliance()
  const { ask, token } = await tokenOf(postrider, ['emails:read'])
  await ask('GET', '/nowhere')
  await ask('GET', '/outbound-emails')
  postrider.clock.advance(SECOND)
  await postrider.appliance.deps.store.writeSoon(() => {})
  const ann = await signedIn(postrider)
  assert.match((await ann.open('/tokens')).text, new RegExp(`href="/tokens/${token.id}"`))
  const page = await ann.open(`/tokens/${token.id}`)
  assert.match(page.text, /<h1>shop/)
  assert.match(page.text, /GET[^]*\/nowhere[^]*404[^]*not_found/)
  assert.match(page.text, /<\/b> \/outbound-emails/)
  assert.doesNotMatch((await ann.open(`/tokens/${token.id}?failed=true`)).text, /<\/b> \/outbound-emails/)
  const bob = await signedIn(postrider, postrider.other.email)
  assert.equal((await bob.open(`/tokens/${token.id}`)).status, 404)
})
