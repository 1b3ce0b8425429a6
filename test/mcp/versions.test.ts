// One endpoint serves MCP 2026-07-28 and the earlier versions by the SDK: the tools, the access rules and the results
// are the same.
import assert from 'node:assert/strict'
import { z } from 'zod'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { silentLog } from '../../src/base/log.ts'
import { version } from '../../src/base/version.ts'
import { createMcp } from '../../src/mcp/mcp.ts'
import { outputOf } from '../../src/mcp/output.ts'
import { MCP_TOOLS } from '../../src/mcp/tools.ts'
import { startTestAppliance, type Answer } from '../kit/appliance.ts'
import { letIn } from '../kit/oauth-client.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

const MODERN = '2026-07-28'
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

/** Posts a body unchanged. An undefined header is omitted. */
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

/** A request with the usual headers, which the given ones replace. */
const ask = (method: string, params: object = {}, headers: Headers_ = {}): Promise<Answer> =>
  post(request(method, params), { 'mcp-method': method, ...headers })
const call = (name: string, given?: unknown, headers: Headers_ = {}): Promise<Answer> =>
  ask('tools/call', { name, ...(given === undefined ? {} : { arguments: given }) }, { 'mcp-name': name, ...headers })
const refusedAs = ({ body, status }: Answer) => [status, body.error?.code]

test('server/discover returns the version, the capabilities and the purpose of the server', async () => {
  const { body, status } = await ask('server/discover')
  const { instructions, ...rest } = body.result
  assert.equal(status, 200)
  assert.match(instructions, /Send emails/)
  assert.deepEqual(rest, {
    resultType: 'complete',
    supportedVersions: [MODERN],
    capabilities: { tools: { listChanged: false } },
    ttlMs: 300_000,
    cacheScope: 'public',
    _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'postrider', version } },
  })
})

test('lists the same tools in all versions, and clients may cache the list', async () => {
  const { body } = await ask('tools/list')
  const { cacheScope, nextCursor, resultType, tools, ttlMs } = body.result
  assert.deepEqual([resultType, ttlMs, cacheScope, nextCursor], ['complete', 300_000, 'public', undefined])
  const client = new Client({ name: 'test', version: '1' })
  const requestInit = { headers: { authorization } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { requestInit }))
  const older = (await client.listTools()).tools
  assert.notEqual(client.getServerCapabilities()?.tools?.listChanged, true)
  await client.close()
  const plain = (tool: object): unknown =>
    JSON.parse(
      JSON.stringify(tool, (name, value: unknown) => (['$schema', 'execution'].includes(name) ? undefined : value)),
    )
  assert.deepEqual(tools.map(plain), older.map(plain))
})

test('tools/call sends and reads email as the user and the client', async () => {
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'Hello', text: 'Dear you' }
  const sent = (await call('send_email', mail)).body.result
  assert.deepEqual([sent.resultType, sent.isError], ['complete', undefined])
  assert.deepEqual(JSON.parse(sent.content[0].text), sent.structuredContent)
  assert.equal(sent.structuredContent.data.attributes.agent_id, clientId)
  const read = (await call('get_email', { id: sent.structuredContent.data.id })).body.result
  assert.match(read.structuredContent.data.attributes.html, /Dear you/)
  const optional = ({ input }: (typeof MCP_TOOLS)[number]) =>
    Object.values(input).every((schema) => z.core.safeParse(schema, undefined).success)
  for (const { name, output } of MCP_TOOLS.filter((tool) => tool.name.startsWith('list_') && optional(tool))) {
    const { structuredContent } = (await call(name)).body.result
    assert.ok(outputOf(output).safeParse(structuredContent).success, name)
  }
})

test('a rejected call is a result that names the argument, and an unknown tool is an error', async () => {
  const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'Hello', text: 'x' }
  for (const [name, given, says] of [
    ['send_email', { ...mail, from: 'me@nowhere.test' }, /not_found/],
    ['send_email', { ...mail, to: 'not an address' }, /\(to\)/],
    ['send_email', { ...mail, too: 'x' }, /"too"/],
    ['send_email', { from: mail.from }, /to: .*subject: /s],
    ['list_emails', { limit: 101 }, /limit: .*100/],
    ['list_emails', { status: 'gone' }, /status: .*"queued"/],
  ] as const) {
    const { body, status } = await call(name, given)
    assert.deepEqual([status, body.result.isError, body.result.resultType], [200, true, 'complete'])
    assert.match(body.result.content[0].text, says)
  }
  for (const name of ['start_campaign', '__proto__', 'constructor']) {
    assert.deepEqual(refusedAs(await call(name, {})), [200, -32602], name)
    const params = { name, arguments: {} }
    const older = await post(
      { jsonrpc: '2.0', id: 1, method: 'tools/call', params },
      { 'mcp-protocol-version': undefined },
    )
    assert.deepEqual(refusedAs(older), [200, -32602], name)
  }
})

test('rejects headers that differ from the body, unknown versions and unknown methods', async () => {
  for (const [answer, status, code] of [
    [await ask('tools/list', {}, { 'mcp-protocol-version': undefined }), 400, -32020],
    [await ask('tools/list', {}, { 'mcp-method': 'tools/call' }), 400, -32020],
    [await call('list_emails', {}, { 'mcp-name': 'send_email' }), 400, -32020],
    [await post({ jsonrpc: '2.0', id: 1, method: 'tools/list' }, { 'mcp-method': 'tools/list' }), 400, -32602],
    [await ask('ping'), 404, -32601],
    [await ask('__proto__'), 404, -32601],
    [await ask('subscriptions/listen', { notifications: {} }), 200, -32603],
  ] as const)
    assert.deepEqual(refusedAs(answer), [status, code], JSON.stringify(answer.body))
  const _meta = { ...META, 'io.modelcontextprotocol/protocolVersion': '2027-01-01' }
  const later = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta } }
  const answer = await post(later, { 'mcp-protocol-version': '2027-01-01', 'mcp-method': 'tools/list' })
  assert.deepEqual(refusedAs(answer), [400, -32022])
  assert.deepEqual(answer.body.error.data, { supported: [MODERN], requested: '2027-01-01' })
})

test('serves a client of an earlier version', async () => {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1' } }
  for (const header of [undefined, '2025-11-25']) {
    const opening = { jsonrpc: '2.0', id: 1, method: 'initialize', params }
    const { body, status } = await post(opening, { 'mcp-protocol-version': header })
    assert.deepEqual([status, body.result.protocolVersion], [200, '2025-11-25'])
  }
  const note = { jsonrpc: '2.0', method: 'notifications/initialized' }
  assert.equal((await post(note, { 'mcp-protocol-version': '2025-11-25' })).status, 202)
})

test('rejects batches', async () => {
  for (const version of [undefined, '2025-03-26', MODERN]) {
    const answer = await post([request('tools/list')], { 'mcp-protocol-version': version, 'mcp-method': 'tools/list' })
    assert.deepEqual(refusedAs(answer), [400, -32600])
  }
})

test('answers an internal error with the id of its log entry, in all versions', async () => {
  const fails = () => Promise.reject(new Error('broken'))
  const broken = Object.assign(fails, { create: fails })
  const mcp = createMcp({ ...postrider.appliance.deps, log: { ...silentLog, fault: () => 'fault-1' } }, broken)
  const params = { name: 'list_domains', arguments: {}, _meta: META }
  for (const [headers, given] of [
    [{ 'mcp-protocol-version': MODERN, 'mcp-method': 'tools/call', 'mcp-name': 'list_domains' }, params],
    [{}, { name: params.name, arguments: {} }],
  ] as const) {
    const answer = await mcp.request('/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization,
        ...headers,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 7, method: 'tools/call', params: given }),
    })
    const { result } = (await answer.json()) as { result: { isError: boolean; content: { text: string }[] } }
    assert.equal(result.isError, true)
    assert.match(result.content[0]!.text, /^Internal error\. Report the id fault-1 to the operator/)
  }
})

test('applies the same access rules to all versions', async () => {
  assert.equal((await ask('tools/list', {}, { authorization: undefined })).status, 401)
  assert.equal((await ask('tools/list', {}, { authorization: `Bearer ${postrider.token}` })).status, 403)
  assert.equal((await ask('tools/list', {}, { origin: 'https://evil.test' })).status, 403)
})
