// MCP 2026-07-28 from the same endpoint as the older versions: each request stands for itself, headers and body say
// the same, and what a tool does is what it does on the older wire.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { version } from '../../../src/base/version.ts'
import { outputOf } from '../../../src/http/mcp/output.ts'
import { MCP_TOOLS } from '../../../src/http/mcp/tools.ts'
import { startTestAppliance, type Answer } from '../../kit/appliance.ts'
import { letIn } from '../../kit/oauth-client.ts'
import { ofFile, setUp } from '../../kit/of-file.ts'

const MODERN = '2026-07-28'
const OLDER = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05', '2024-10-07']
const META = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

let authorization: string
let clientId: string

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))

setUp(async () => {
  const { access_token, client } = await letIn(postrider, postrider.user)
  authorization = `Bearer ${access_token}`
  clientId = client.id
})

type Headers_ = Record<string, string | undefined>

/** Posts a body as it is; a header that is undefined is left out. */
function post(body: unknown, headers: Headers_ = {}): Promise<Answer> {
  const all: Headers_ = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization,
    'mcp-protocol-version': MODERN,
    ...headers,
  }
  const sent = Object.entries(all).filter((pair): pair is [string, string] => pair[1] !== undefined)
  return postrider.raw('/mcp', { method: 'POST', headers: sent, body: JSON.stringify(body) })
}
const request = (method: string, params: object = {}, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params: { ...params, _meta: META },
})

/** A request with the headers that belong to it, but for those that are given. */
const ask = (method: string, params: object = {}, headers: Headers_ = {}): Promise<Answer> =>
  post(request(method, params), { 'mcp-method': method, ...headers })
const call = (name: string, given?: unknown, headers: Headers_ = {}): Promise<Answer> =>
  ask('tools/call', { name, ...(given === undefined ? {} : { arguments: given }) }, { 'mcp-name': name, ...headers })
const refusedAs = ({ body, status }: Answer) => [status, body.error?.code]

test('server/discover says versions, capabilities and what the server is for, without a handshake', async () => {
  const { body, headers, status } = await ask('server/discover')
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^application\/json/)
  assert.equal(headers.get('mcp-session-id'), null)
  const { instructions, ...rest } = body.result
  assert.match(instructions, /never here/)
  assert.deepEqual(body, { jsonrpc: '2.0', id: 1, result: body.result })
  assert.deepEqual(rest, {
    resultType: 'complete',
    supportedVersions: [MODERN, ...OLDER],
    capabilities: { tools: {} },
    ttlMs: 300_000,
    cacheScope: 'public',
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'postrider', version } },
  })
})

test('tools/list has the tools of the older wire, once, with how long it may be kept', async () => {
  const { body } = await ask('tools/list')
  const { cacheScope, nextCursor, resultType, tools, ttlMs } = body.result
  assert.deepEqual([resultType, ttlMs, cacheScope, nextCursor], ['complete', 300_000, 'public', undefined])
  const client = new Client({ name: 'test', version: '1' })
  const requestInit = { headers: { authorization } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { requestInit }))
  const older = (await client.listTools()).tools
  await client.close()
  const plain = (tool: object): unknown =>
    JSON.parse(
      JSON.stringify(tool, (name, value: unknown) => (['$schema', 'execution'].includes(name) ? undefined : value)),
    )
  assert.deepEqual(tools.map(plain), older.map(plain))
  for (const { inputSchema, outputSchema } of tools)
    for (const schema of [inputSchema, outputSchema])
      assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema')
  assert.deepEqual(refusedAs(await ask('tools/list', { cursor: 'x' })), [200, -32602])
})

test('tools/call does what it does on the older wire, as the same user and client', async () => {
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'Hello', text: 'Dear you' }
  const sent = (await call('send_email', mail)).body.result
  assert.equal(sent.resultType, 'complete')
  assert.equal(sent.isError, undefined)
  assert.deepEqual(JSON.parse(sent.content[0].text), sent.structuredContent)
  assert.equal(sent.structuredContent.data.attributes.agent_id, clientId)
  assert.deepEqual(sent._meta, { 'io.modelcontextprotocol/serverInfo': { name: 'postrider', version } })
  const read = (await call('get_email', { id: sent.structuredContent.data.id })).body.result
  assert.match(read.structuredContent.data.attributes.html, /Dear you/)
  for (const { name, output } of MCP_TOOLS.filter((tool) => tool.name.startsWith('list_'))) {
    const { structuredContent } = (await call(name)).body.result
    assert.ok(outputOf(output).safeParse(structuredContent).success, name)
  }
})

test('what a tool refuses is a result that names the argument; an unknown tool is an error', async () => {
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'Hello', text: 'x' }
  for (const [name, given, says] of [
    ['send_email', { ...mail, from: 'me@nowhere.test' }, /not_found/],
    ['send_email', { ...mail, to: 'not an address' }, /\(to\)/],
    ['send_email', { ...mail, too: 'x' }, /arguments must not have too/],
    ['send_email', { from: mail.from }, /arguments\.to must be a text; arguments\.subject must be a text/],
    ['list_emails', { limit: 101 }, /arguments\.limit must be at most 100/],
    ['list_emails', { status: 'gone' }, /arguments\.status must be "queued"/],
  ] as const) {
    const { body, status } = await call(name, given)
    assert.deepEqual([status, body.result.isError, body.result.resultType], [200, true, 'complete'])
    assert.match(body.result.content[0].text, says)
  }
  for (const name of ['start_campaign', '__proto__', 'x'.repeat(500)]) {
    const answer = await call(name, {})
    assert.deepEqual(refusedAs(answer), [200, -32602])
    assert.ok(answer.body.error.message.length < 200)
  }
  assert.deepEqual(refusedAs(await call('list_emails', [])), [200, -32602])
})

test('headers that are missing or say something else than the body are refused', async () => {
  const meta = (more: object) => ({ ...request('tools/list'), params: { _meta: { ...META, ...more } } })
  const named = 'io.modelcontextprotocol/protocolVersion'
  const table: [Answer, RegExp][] = [
    [await ask('tools/list', {}, { 'mcp-protocol-version': undefined }), /MCP-Protocol-Version is missing/],
    [await ask('tools/list', {}, { 'mcp-protocol-version': '2025-11-25' }), /MCP-Protocol-Version is not/],
    [await post(meta({ [named]: '2025-11-25' }), { 'mcp-method': 'tools/list' }), /MCP-Protocol-Version is not/],
    [await post(meta({ [named]: 1 }), { 'mcp-method': 'tools/list' }), /MCP-Protocol-Version is not/],
    [await ask('tools/list', {}, { 'mcp-method': undefined }), /Mcp-Method/],
    [await ask('tools/list', {}, { 'mcp-method': 'tools/call' }), /Mcp-Method/],
    [await ask('tools/list', {}, { 'mcp-method': 'Tools/List' }), /Mcp-Method/],
    [await call('list_emails', {}, { 'mcp-name': undefined }), /Mcp-Name/],
    [await call('list_emails', {}, { 'mcp-name': 'send_email' }), /Mcp-Name/],
    [await call('list_emails', {}, { 'mcp-name': '=?base64?c2VuZF9lbWFpbA==?=' }), /Mcp-Name/],
    [await call('list_emails', {}, { 'mcp-name': '=?base64?*?=' }), /Mcp-Name/],
  ]
  for (const [answer, says] of table) {
    assert.deepEqual(refusedAs(answer), [400, -32020], String(says))
    assert.equal(answer.body.id, 1)
    assert.match(answer.body.error.message, says)
  }
  const encoded = `=?base64?${Buffer.from('list_emails').toString('base64')}?=`
  assert.equal((await call('list_emails', {}, { 'mcp-name': encoded })).status, 200)
  assert.equal((await ask('tools/list', {}, { 'mcp-name': 'whatever', 'mcp-session-id': 'x' })).status, 200)
})

test('a request without what it has to say of itself is refused, and told what is missing', async () => {
  const withMeta = (_meta: unknown) =>
    post({ ...request('tools/list'), params: { _meta } }, { 'mcp-method': 'tools/list' })
  const capabilities = 'io.modelcontextprotocol/clientCapabilities'
  const info = 'io.modelcontextprotocol/clientInfo'
  for (const [meta, says] of [
    [undefined, /protocolVersion/],
    ['x', /protocolVersion/],
    [{ ...META, 'io.modelcontextprotocol/protocolVersion': undefined }, /protocolVersion/],
    [{ ...META, [capabilities]: undefined }, /clientCapabilities must be an object/],
    [{ ...META, [capabilities]: [] }, /clientCapabilities must be an object/],
    [{ ...META, [info]: { name: 'test' } }, /clientInfo\.version must be a text/],
    [{ ...META, [info]: 'test' }, /clientInfo must be an object/],
  ] as const) {
    const answer = await withMeta(meta)
    assert.deepEqual(refusedAs(answer), [400, -32602], JSON.stringify(meta))
    assert.match(answer.body.error.message, says)
  }
  assert.equal((await withMeta({ ...META, [info]: undefined, progressToken: 1 })).status, 200)
})

test('a version that is not spoken here is told which ones are', async () => {
  for (const requested of ['1999-01-01', '2027-01-01', 'x']) {
    const named = { ...META, 'io.modelcontextprotocol/protocolVersion': requested }
    const whole = { ...request('tools/list'), params: { _meta: named } }
    for (const body of [whole, { jsonrpc: '2.0', id: 1, method: 'ping' }]) {
      const answer = await post(body, { 'mcp-protocol-version': requested, 'mcp-method': 'tools/list' })
      assert.deepEqual(refusedAs(answer), [400, -32022])
      assert.deepEqual(answer.body.error.data, { supported: [MODERN, ...OLDER], requested })
    }
  }
})

test('a method that is not there is 404, those that left MCP too', async () => {
  for (const method of [
    'ping',
    'initialize',
    'resources/read',
    'prompts/list',
    'subscriptions/listen',
    'x'.repeat(999),
  ]) {
    const answer = await ask(method)
    assert.deepEqual(refusedAs(answer), [404, -32601], method)
    assert.equal(answer.body.id, 1)
    assert.ok(answer.body.error.message.length < 200)
  }
})

test('a notification is taken, without an answer', async () => {
  const note = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  const { body, status } = await post(note)
  assert.deepEqual([status, body], [202, undefined])
  assert.deepEqual(refusedAs(await post(note, { 'mcp-protocol-version': '2027-01-01' })), [400, -32022])
})

test('what is not a request is refused; its id is told where it has one', async () => {
  for (const [body, id] of [
    [1, undefined],
    [null, undefined],
    [{}, undefined],
    [{ ...request('tools/list'), jsonrpc: '1.0' }, 1],
    [{ ...request('tools/list'), method: 5 }, 1],
    [{ ...request('tools/list'), params: [] }, 1],
    [{ jsonrpc: '2.0', id: 'a', result: {} }, 'a'],
    [{ ...request('tools/list'), id: null }, undefined],
    [{ ...request('tools/list'), id: 1.5 }, undefined],
  ] as const) {
    const answer = await post(body, { 'mcp-method': 'tools/list' })
    assert.deepEqual(refusedAs(answer), [400, -32600], JSON.stringify(body))
    assert.equal(answer.body.id, id)
  }
  const batch = await post([request('tools/list')], { 'mcp-method': 'tools/list' })
  assert.deepEqual(refusedAs(batch), [400, -32600])
  assert.deepEqual(refusedAs(await ask('tools/list', {}, { 'content-type': 'text/plain' })), [415, -32600])
})

test('who opens in the older way is served in the older way, whatever the header', async () => {
  const opening = (header?: string) =>
    post(
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } },
      },
      { 'mcp-protocol-version': header },
    )
  for (const header of [undefined, '2025-11-25', MODERN]) {
    const { body, status } = await opening(header)
    assert.deepEqual([status, body.result.protocolVersion], [200, '2025-11-25'])
    assert.equal(body.result.resultType, undefined)
  }
  const named = { ...META, 'io.modelcontextprotocol/protocolVersion': '2025-11-25' }
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping', params: { _meta: named } }
  assert.deepEqual((await post(ping, { 'mcp-protocol-version': '2025-11-25' })).body.result, {})
})

test('who may ask is the same on both wires', async () => {
  assert.equal((await ask('tools/list', {}, { authorization: undefined })).status, 401)
  assert.equal((await ask('tools/list', {}, { authorization: `Bearer ${postrider.token}` })).status, 403)
  assert.equal((await ask('tools/list', {}, { origin: 'https://evil.test' })).status, 403)
})
