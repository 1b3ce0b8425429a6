// Batches of MCP 2025-03-26: what they are answered with, what they cost, and where they end.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../../kit/appliance.ts'
import { letIn } from '../../kit/oauth-client.ts'
import { ofFile } from '../../kit/of-file.ts'

/** Requests that are possible at once; the clock stands still, so that none comes back. */
const BURST = 60

const postrider = ofFile(() =>
  startTestAppliance({ config: { api: { rate_limit: 1, rate_burst: BURST } }, domains: ['here.test'] }),
)

/** Posts as a program with a whole burst of its own. */
async function program() {
  const { access_token } = await letIn(postrider, postrider.user)
  return (body: unknown, headers: Record<string, string> = {}) =>
    postrider.raw('/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${access_token}`,
        ...headers,
      },
      body: JSON.stringify(body),
    })
}
const request = (id: number | string, method = 'ping', params?: object) => ({ jsonrpc: '2.0', id, method, params })
const call = (id: number, name: string, given: object = {}) => request(id, 'tools/call', { name, arguments: given })
const note = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 9 } }
const pings = (count: number) => Array.from({ length: count }, (_, i) => request(i))
const codes = (body: { error?: { code: number } }[]) => body.map(({ error }) => error?.code)

test('an array is answered by an array, in its order; what is not a request has no answer', async () => {
  const post = await program()
  for (const headers of [{}, { 'mcp-protocol-version': '2025-03-26' }, { 'mcp-protocol-version': '2024-11-05' }]) {
    const {
      body,
      headers: answered,
      status,
    } = await post([request('a'), note, call(2, 'list_domains'), call(2, 'no_tool'), request(4, 'no/method')], headers)
    assert.equal(status, 200)
    assert.match(answered.get('content-type')!, /^application\/json/)
    assert.deepEqual(
      body.map(({ id }: { id: unknown }) => id),
      ['a', 2, 2, 4],
    )
    assert.deepEqual(body[0], { jsonrpc: '2.0', id: 'a', result: {} })
    assert.equal(body[1].result.structuredContent.data[0].attributes.name, 'here.test')
    assert.equal(body[2].result.isError, true)
    assert.equal(body[3].error.code, -32601)
  }
  const one = await post([request(1)])
  assert.deepEqual(one.body, [{ jsonrpc: '2.0', id: 1, result: {} }], 'an array of one too')
  const none = await post([note, note])
  assert.deepEqual([none.status, none.body], [202, undefined])
})

test('what a message asks is done before the next', async () => {
  const post = await program()
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'First', text: 'x', agent_id: 'orderly' }
  const { body } = await post([call(1, 'send_email', mail), call(2, 'list_emails', { agent_id: 'orderly' })])
  assert.equal(body[1].result.structuredContent.data[0].id, body[0].result.structuredContent.data.id)
})

test('an empty batch, one that is too long and one that opens a connection are refused whole', async () => {
  const post = await program()
  const initialize = request(1, 'initialize', {
    protocolVersion: '2025-03-26',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  })
  for (const [batch, says] of [
    [[], /empty/],
    [pings(51), /at most 50/],
    [[initialize], /initialize/],
    [[request(2), initialize], /initialize/],
  ] as const) {
    const { body, status } = await post(batch)
    assert.deepEqual([status, body.error.code, body.id], [400, -32600, null])
    assert.match(body.error.message, says)
  }
  assert.equal((await post(pings(50))).body.length, 50)
})

test('what is not a message has an error of its own; so has a batch in a batch', async () => {
  const post = await program()
  const { body, status } = await post([1, null, {}, [request(1), request(2)], { ...request(5), more: 1 }, request(6)])
  assert.equal(status, 200)
  assert.deepEqual(
    body.map(({ error, id }: { id: unknown; error?: { code: number } }) => [id, error?.code]),
    [
      [null, -32600],
      [null, -32600],
      [null, -32600],
      [null, -32600],
      [5, -32600],
      [6, undefined],
    ],
  )
})

test('a batch with a message that names a version without batches, or an unknown one, is refused whole', async () => {
  const post = await program()
  for (const version of ['2026-07-28', '1999-01-01']) {
    const named = request(2, 'ping', { _meta: { 'io.modelcontextprotocol/protocolVersion': version } })
    const { body, status } = await post([request(1), named])
    assert.deepEqual([status, body.error.code], [400, -32600], version)
  }
})

test('a call that is not well made is an error of its parameters; a name that every object has is not a tool', async () => {
  const post = await program()
  for (const given of [[1], 'x', 5])
    assert.equal((await post(call(1, 'list_domains', given as object))).body.error.code, -32602)
  for (const name of ['__proto__', 'constructor']) {
    const { result } = (await post(call(1, name))).body
    assert.equal(result.isError, true)
    assert.match(result.content[0].text, /There is no tool/)
  }
})

test('it is not promised that changes of the tools are told', async () => {
  const post = await program()
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  const { body } = await post(request(1, 'initialize', params))
  assert.notEqual(body.result.capabilities.tools.listChanged, true)
})

test('headers that are at fault refuse the batch', async () => {
  const post = await program()
  assert.equal((await post([request(1)], { accept: 'text/html' })).status, 406)
  assert.equal((await post([request(1)], { 'content-type': 'text/plain' })).status, 415)
})

test('each request of a batch costs what it would cost alone; beyond the limit it has an error, the others an answer', async () => {
  const post = await program()
  assert.ok(codes((await post(pings(50))).body).every((code) => code === undefined))
  const { body, headers, status } = await post([request('first'), note, ...pings(12)])
  assert.equal(status, 200)
  assert.equal(headers.get('retry-after'), null)
  assert.deepEqual(codes(body), [...Array<undefined>(10).fill(undefined), -32000, -32000, -32000])
  assert.match(body.at(-1).error.message, /try again in 1 s/)
  assert.equal(body.at(-1).id, 11)
  assert.equal((await post(pings(2))).status, 429, 'nothing is left for a request of HTTP either')
  postrider.clock.advance(2000)
  assert.deepEqual(codes((await post(pings(3))).body), [undefined, undefined, -32000])
})

test('a call that is beyond the limit is not made', async () => {
  const post = await program()
  await post(pings(50))
  await post(pings(9))
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'x', text: 'x', agent_id: 'limited' }
  const { body } = await post([call(1, 'send_email', mail), call(2, 'send_email', mail)])
  assert.deepEqual(codes(body), [undefined, -32000])
  postrider.clock.advance(2000)
  const { body: listed } = await post(call(3, 'list_emails', { agent_id: 'limited' }))
  assert.equal(listed.result.structuredContent.data.length, 1)
})

test('what answers would hold together is bounded; what is asked beyond is not done', async () => {
  const post = await program()
  const large = { from: 'me@here.test', to: 'you@there.test', subject: 'x', text: 'x'.repeat(2_000_000) }
  const sent = await post(call(1, 'send_email', large))
  const { id } = sent.body.result.structuredContent.data
  const { body } = await post([1, 2, 3, 4].map((number) => call(number, 'get_email', { id })))
  assert.equal(codes(body)[0], undefined)
  assert.equal(codes(body).at(-1), -32000)
  assert.match(body.at(-1).error.message, /too large/)
})
