// Each tool of the MCP server as an agent uses it, its errors, and the requests that are rejected before any tool.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { HOUR } from '../../src/base/clock.ts'
import { listGrants, revokeGrantById } from '../../src/users/oauth/grants.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { letIn } from '../kit/oauth-client.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

let clientId: string
let bearer: string
let mine: Client
let theirs: Client
const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    config: {
      oauth: { redirect_origins: ['http://localhost', 'https://app.test'] },
    },
    otherDomains: ['other.test'],
    routes: ['there.test'],
    open: true,
  }),
)
const here = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => {
  const { access_token, client } = await letIn(postrider, postrider.user)
  clientId = client.id
  bearer = `Bearer ${access_token}`
  mine = await connect(bearer)
  theirs = await connect(`Bearer ${(await letIn(postrider, postrider.other)).access_token}`)
})
after(async () => {
  await mine.close()
  await theirs.close()
})

async function connect(authorization: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { requestInit: { headers: { authorization } } }),
  )
  return client
}

/** A tool's document. */
// oxlint-disable-next-line typescript/no-explicit-any
async function call(client: Client, name: string, given: Record<string, unknown> = {}): Promise<any> {
  const result = await client.callTool({ name, arguments: given })
  assert.notEqual(result.isError, true, JSON.stringify(result.content))
  const [{ text }] = result.content as [{ text: string }]
  assert.deepEqual(JSON.parse(text), result.structuredContent, 'the text and the structured form say the same')
  return result.structuredContent
}

/** The text of a refusal. */
async function refusal(client: Client, name: string, given: Record<string, unknown> = {}): Promise<string> {
  const result = await client.callTool({ name, arguments: given })
  assert.equal(result.isError, true, JSON.stringify(result.structuredContent))
  return (result.content as { text: string }[]).map(({ text }) => text).join('\n')
}

const MAIL = { from: 'me@here.test', to: 'you@there.test', subject: 'Hello', text: 'Dear <you>,\n\nbye & so\non' }

test('every tool describes its purpose, input and effects, and no tool starts a campaign', async () => {
  const { tools } = await mine.listTools()
  assert.deepEqual(
    tools.map(({ name }) => name),
    [
      'send_email',
      'list_emails',
      'get_email',
      'explain_delivery',
      'list_inbound_emails',
      'get_inbound_email',
      'list_inboxes',
      'list_domains',
      'list_audiences',
      'list_forms',
      'list_consents',
      'list_segments',
      'count_segment',
      'list_campaigns',
      'draft_campaign',
    ],
  )
  for (const { annotations, description, inputSchema, name, outputSchema, title } of tools) {
    const { data } = outputSchema!.properties as { data: { items?: object; required?: string[] } }
    assert.ok(
      name.startsWith('list_') ? data.items : data.required!.includes('attributes'),
      `${name} says what it answers`,
    )
    assert.ok(title && description && description.length > 30, name)
    assert.equal(inputSchema['additionalProperties'], false, name)
    assert.equal(annotations!.readOnlyHint, !['send_email', 'draft_campaign'].includes(name), name)
    for (const [argument, schema] of Object.entries(inputSchema.properties ?? {}))
      assert.ok(/description|enum|agent_id|cc|bcc/.test(JSON.stringify(schema) + argument), `${name}.${argument}`)
  }
  assert.match(mine.getInstructions()!, /never started here/)
})

test('send_email converts text to html, keeps replies in their thread and records the client as agent', async () => {
  const { data } = await call(mine, 'send_email', {
    ...MAIL,
    cc: ['Carl <carl@there.test>'],
    reply_to: ['answers@here.test'],
    in_reply_to: '<2@there.test>',
    references: ['<1@there.test>', '<2@there.test>'],
  })
  assert.equal(data.attributes.agent_id, clientId)
  await until(() => exchanger.heard.length > 0, 'the mail')
  const { message } = exchanger.heard[0]!
  assert.match(message, /^In-Reply-To: <2@there\.test>\r$/m)
  assert.match(message, /^References: <1@there\.test>\s+<2@there\.test>\r$/m)
  assert.match(message, /^Reply-To: answers@here\.test\r$/m)
  const shown = await until(async () => {
    const { data: now } = await call(mine, 'get_email', { id: data.id })
    return now.attributes.status === 'delivered' ? now.attributes : undefined
  }, 'delivered')
  assert.match(shown.html, /<p>Dear &lt;you&gt;,<\/p>\n<p>bye &amp; so<br>\non<\/p>/)

  const named = await call(mine, 'send_email', { ...MAIL, agent_id: 'helper', idempotency_key: 'once' })
  assert.equal(named.data.attributes.agent_id, 'helper')
  const repeated = await call(mine, 'send_email', { ...MAIL, agent_id: 'helper', idempotency_key: 'once' })
  assert.equal(repeated.data.id, named.data.id)
  const { data: listed } = await call(mine, 'list_emails', { agent_id: 'helper' })
  assert.deepEqual(
    listed.map(({ id }: { id: string }) => id),
    [named.data.id],
  )
})

test('an error names the argument and the fix', async () => {
  assert.match(await refusal(mine, 'send_email', { ...MAIL, from: 'me@nowhere.test' }), /not_found.*nowhere\.test/)
  assert.match(await refusal(mine, 'send_email', { ...MAIL, from: 'me@other.test' }), /not_found/)
  assert.match(await refusal(mine, 'send_email', { ...MAIL, to: 'not an address' }), /\(to\)/)
  assert.match(await refusal(mine, 'send_email', { ...MAIL, subject: 'two\nlines' }), /\(subject\)/)
  assert.match(await refusal(mine, 'send_email', { ...MAIL, too: 'x@there.test' }), /too/)
  assert.match(await refusal(mine, 'send_email', { from: MAIL.from }), /subject/)
  const { text: _, ...empty } = MAIL
  assert.match(await refusal(mine, 'send_email', empty), /html/)
  assert.match(await refusal(mine, 'list_emails', { status: 'gone' }), /status/)
  assert.match(await refusal(mine, 'list_emails', { limit: 101 }), /limit/)
  await assert.rejects(mine.callTool({ name: 'start_campaign', arguments: { id: 'x' } }), /start_campaign/)
  const { clock, store } = postrider.appliance.deps
  const gone = { user_key: postrider.user.key, domain_key: here.key, address: 'gone@there.test' }
  await store.write((tx) => suppress(tx, { ...gone, reason: 'manual', source: 'manual', scope: 'all' }, clock.now()))
  assert.match(await refusal(mine, 'send_email', { ...MAIL, to: 'gone@there.test' }), /suppressed/)
})

test('lists continue from their cursor', async () => {
  const all = (await call(mine, 'list_emails')).data as { id: string }[]
  const seen: string[] = []
  let cursor: string | undefined
  do {
    const page = await call(mine, 'list_emails', { limit: 1, ...(cursor === undefined ? {} : { cursor }) })
    seen.push(...page.data.map(({ id }: { id: string }) => id))
    cursor = page.meta.next_cursor ?? undefined
  } while (cursor !== undefined)
  assert.deepEqual(
    seen,
    all.map(({ id }) => id),
  )
  assert.ok(seen.length >= 2)
})

test('reads domains, inboxes, received email, audiences and campaigns, and never starts a draft', async () => {
  const { data: domains } = await call(mine, 'list_domains', { status: 'active' })
  assert.deepEqual(
    domains.map(({ attributes }: { attributes: { name: string } }) => attributes.name),
    ['here.test'],
  )
  const inbox = { data: { type: 'inboxes', attributes: { name: 'Me', address: 'me@here.test' } } }
  const made = (await postrider.api('POST', '/inboxes', inbox)).body.data.id
  assert.equal((await call(mine, 'list_inboxes')).data[0].id, made)
  const { id } = await receive(postrider, { to: 'me@here.test' })
  assert.equal((await call(mine, 'list_inbound_emails', { inbox: made })).data[0].id, id)
  const read = (await call(mine, 'get_inbound_email', { id })).data.attributes
  assert.match(read.text, /Hello\./)

  const audience = await kit.audience({ id: domains[0].id })
  assert.equal((await call(mine, 'list_audiences')).data[0].id, audience)
  const draft = { audience, name: 'News', subject: 'For {{name}}', body_html: '<p>{{name}}</p>' }
  const { data } = await call(mine, 'draft_campaign', draft)
  assert.equal(data.attributes.status, 'draft')
  assert.match(await refusal(mine, 'draft_campaign', { ...draft, status: 'scheduled' }), /status/)
  assert.equal((await call(mine, 'list_campaigns', { status: 'draft' })).data[0].id, data.id)
  assert.deepEqual((await call(mine, 'list_campaigns', { status: 'sent' })).data, [])
})

test('another user’s agent sees no foreign data, even by id', async () => {
  for (const list of ['list_emails', 'list_inbound_emails', 'list_inboxes', 'list_audiences', 'list_campaigns'])
    assert.deepEqual((await call(theirs, list)).data, [], list)
  assert.equal((await call(theirs, 'list_domains')).data.length, 1)
  const [email] = (await call(mine, 'list_emails')).data
  const [received] = (await call(mine, 'list_inbound_emails')).data
  const [audience] = (await call(mine, 'list_audiences')).data
  assert.equal(
    await refusal(theirs, 'get_email', { id: email.id }),
    'not_found: No such resource exists. Check the id.',
  )
  assert.match(await refusal(theirs, 'get_inbound_email', { id: received.id }), /^not_found/)
  const draft = { audience: audience.id, name: 'x', subject: 'x', body_html: '<p>x</p>' }
  assert.match(await refusal(theirs, 'draft_campaign', draft), /not_found/)
  for (const id of [
    '',
    '.',
    '..',
    '../tokens',
    '..%2ftokens',
    `${email.id}/../../tokens`,
    '?page[size]=1',
    '#',
    '%',
    '\0',
    '\ud800',
  ])
    for (const tool of ['get_email', 'get_inbound_email'])
      assert.match(await refusal(mine, tool, { id }), /^not_found/, `${tool} ${JSON.stringify(id)}`)
})

const post = (headers: Record<string, string>, body: unknown) =>
  fetch(`${postrider.url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: bearer,
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' }

test('accepts web pages of its own and of allowed origins, and rejects others', async () => {
  for (const origin of [postrider.url, 'http://localhost:6274', 'https://app.test']) {
    const { headers, status } = await post({ origin }, PING)
    assert.equal(status, 200, origin)
    assert.equal(headers.get('access-control-allow-origin'), origin)
    assert.match(headers.get('access-control-expose-headers')!, /WWW-Authenticate/i)
    const refused = await post({ origin, authorization: 'Bearer x' }, PING)
    assert.deepEqual([refused.status, refused.headers.get('access-control-allow-origin')], [401, origin])
    const preflight = await fetch(`${postrider.url}/mcp`, {
      method: 'OPTIONS',
      headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization' },
    })
    assert.equal(preflight.status, 204)
    for (const header of ['Authorization', 'Mcp-Method', 'Mcp-Name'])
      assert.ok(preflight.headers.get('access-control-allow-headers')!.includes(header), header)
  }
  for (const origin of ['https://evil.test', 'null', 'https://app.test.evil.test', 'http://app.test', 'rubbish']) {
    const { headers, status } = await post({ origin }, PING)
    assert.deepEqual([status, headers.get('access-control-allow-origin')], [403, null], origin)
  }
})

test('rejects invalid, oversized and multiple messages with a JSON-RPC error', async () => {
  const table: [Record<string, string>, unknown, number, number][] = [
    [{}, '{', 400, -32700],
    [{ 'mcp-protocol-version': '2025-06-18' }, [PING, PING], 400, -32600],
    [{ 'mcp-protocol-version': '2025-11-25' }, [PING], 400, -32600],
    [{}, { hello: 1 }, 400, -32600],
    [{}, 'null', 400, -32600],
    [{}, `"${'x'.repeat(10 * 1024 * 1024)}"`, 413, -32600],
    [{ 'content-type': 'text/plain' }, PING, 415, -32000],
    [{ accept: 'text/html' }, PING, 406, -32000],
    [{ 'mcp-protocol-version': '1999-01-01' }, PING, 400, -32000],
  ]
  for (const [headers, body, status, code] of table) {
    const response = await post(headers, body)
    const what = `${JSON.stringify(headers)} ${JSON.stringify(body).slice(0, 60)}`
    assert.equal(response.status, status, what)
    assert.equal(((await response.json()) as { error: { code: number } }).error.code, code, what)
  }
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const { headers, status } = await fetch(`${postrider.url}/mcp`, { method, headers: { authorization: bearer } })
    assert.deepEqual([status, headers.get('allow')], [405, 'POST'], method)
  }
  assert.equal((await post({}, PING)).status, 200)
})

test('accepts a token only in one Authorization header, not in the query, body or a cookie', async () => {
  const token = bearer.slice('Bearer '.length)
  const none = (init: RequestInit, path = '/mcp') => fetch(postrider.url + path, { method: 'POST', ...init })
  for (const answer of [
    await none({}, `/mcp?access_token=${token}`),
    await none({ body: new URLSearchParams({ access_token: token }) }),
    await none({ headers: { cookie: `access_token=${token}; postrider_session=${token}` } }),
    await none({ headers: { authorization: `Basic ${token}` } }),
  ]) {
    assert.equal(answer.status, 401)
    assert.doesNotMatch(answer.headers.get('www-authenticate')!, /error=/, 'no token was sent that could be wrong')
  }
  const twice = await new Promise<number>((resolve, reject) => {
    const sent = request(
      `${postrider.url}/mcp`,
      { method: 'POST', headers: { authorization: [bearer, bearer] } as never },
      (got) => {
        got.resume()
        resolve(got.statusCode!)
      },
    )
    sent.on('error', reject).end('{}')
  })
  assert.equal(twice, 401)
  assert.equal((await post({ authorization: `bEARER ${token}` }, PING)).status, 200, 'the scheme has no case')
})

test('the API rejects an MCP token for every scope', async () => {
  for (const [method, path] of [
    ['GET', '/domains'],
    ['GET', '/webhooks'],
    ['GET', '/suppressions'],
    ['GET', '/outbound-emails'],
  ] as const) {
    const { body, headers, status } = await postrider.raw(`/api/v1${path}`, {
      method,
      headers: { authorization: bearer },
    })
    assert.equal(status, 403, path)
    assert.equal(body.errors[0].code, 'insufficient_scope')
    assert.match(headers.get('www-authenticate')!, /error="insufficient_scope", scope="/)
  }
})

test('access expires after an hour, and at once when the user revokes it', async () => {
  const { access_token, client } = await letIn(postrider, postrider.user)
  const ask = async (): Promise<number> => (await post({ authorization: `Bearer ${access_token}` }, PING)).status
  assert.equal(await ask(), 200)
  postrider.clock.leap(HOUR - 1)
  assert.equal(await ask(), 200)
  postrider.clock.advance(1)
  const late = await post({ authorization: `Bearer ${access_token}` }, PING)
  assert.equal(late.status, 401)
  assert.match(late.headers.get('www-authenticate')!, /error="invalid_token".*resource_metadata=/)

  const fresh = await letIn(postrider, postrider.user)
  const grant = listGrants(postrider.appliance.deps.store).find(({ client_id }) => client_id === fresh.client.id)!
  const refreshes = () =>
    postrider.raw('/oauth/token', {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({
        grant_type: 'refresh_token',
        client_id: fresh.client.id,
        refresh_token: fresh.refresh_token,
      }).toString(),
    })
  assert.equal((await post({ authorization: `Bearer ${fresh.access_token}` }, PING)).status, 200)
  assert.ok(await revokeGrantById(postrider.appliance.deps, grant.id))
  assert.equal((await post({ authorization: `Bearer ${fresh.access_token}` }, PING)).status, 401)
  assert.equal((await refreshes()).body.error, 'invalid_grant')
  assert.notEqual(client.id, fresh.client.id)
})

test('a paused application cannot send as another agent (D117)', async () => {
  const { access_token, client } = await letIn(postrider, postrider.user)
  const program = await connect(`Bearer ${access_token}`)
  const path = `/agents/${encodeURIComponent(client.id)}`
  await call(program, 'send_email', MAIL)
  assert.equal((await postrider.api('POST', `${path}/pause`)).status, 202)
  assert.match(await refusal(program, 'send_email', { ...MAIL, agent_id: 'mask' }), /agent_paused/)
  assert.equal((await postrider.api('POST', `${path}/resume`)).status, 202)
  assert.equal((await call(program, 'send_email', { ...MAIL, agent_id: 'mask' })).data.attributes.agent_id, 'mask')
  await program.close()
})
