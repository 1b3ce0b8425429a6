// `postrider oauth allow`, next to a running server: known applications by name, with their documented addresses only,
// from the next request on.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startBeside } from '../../commands/beside.ts'

const { commands, postrider } = await startBeside()

async function register(uri: string): Promise<{ status: number; body: { client_id: string } }> {
  postrider.clock.leap(3_600_000)
  const body = JSON.stringify({ redirect_uris: [uri], token_endpoint_auth_method: 'none' })
  return postrider.raw('/oauth/register', { method: 'POST', headers: { 'content-type': 'application/json' }, body })
}
const ask = (client: string, uri: string) => {
  const query = { client_id: client, redirect_uri: uri, response_type: 'code', code_challenge_method: 'S256' }
  return postrider.raw(
    `/oauth/authorize?${new URLSearchParams({ ...query, code_challenge: 'c'.repeat(43) }).toString()}`,
  )
}

const DOCUMENTED: Record<string, string[]> = {
  claude: ['https://claude.ai/api/mcp/auth_callback', 'https://claude.com/api/mcp/auth_callback'],
  chatgpt: ['https://chatgpt.com/connector_platform_oauth_redirect', 'https://chatgpt.com/connector/oauth/Ab_3-x'],
  cursor: ['cursor://anysphere.cursor-mcp/oauth/callback'],
  vscode: ['https://vscode.dev/redirect', 'https://insiders.vscode.dev/redirect', 'http://127.0.0.1:33418/'],
  n8n: ['https://oauth.n8n.cloud/oauth2/callback'],
  'https://agent.example.org': ['https://agent.example.org/any/path'],
}
const NEVER = `https://claude.ai/ https://claude.ai/api/mcp/auth_callback/ https://claude.ai/api/mcp/auth_callback?x=1
  https://claude.ai.evil.test/api/mcp/auth_callback https://chatgpt.com/connector/oauth/ https://chatgpt.com/connector/oauth/..
  https://chatgpt.com/connector/oauth/a/b https://chatgpt.com/connector/oauth/a?x https://chatgpt.com/connector/oauth/*
  cursor://anysphere.cursor-mcp/oauth/callback2 cursor://evil/oauth/callback cursor://anysphere.cursor-mcp/oauth/callback#x
  vscode://redirect javascript:alert(1) https://agent.example.org.evil.test/`

for (const [name, addresses] of Object.entries(DOCUMENTED))
  test(`${name} has access by name from the next request on, and loses it when it is disallowed`, async () => {
    const open = addresses.filter((uri) => !uri.startsWith('http://127.0.0.1'))
    for (const uri of open) assert.equal((await register(uri)).status, 400, uri)
    await commands.json('oauth', 'allow', name)
    await commands.json('oauth', 'allow', name)
    const ids: string[] = []
    for (const uri of addresses) {
      const { body, status } = await register(uri)
      assert.equal(status, 201, uri)
      ids.push(body.client_id)
      assert.equal((await ask(body.client_id, uri)).status, 200, uri)
    }
    for (const uri of NEVER.split(/\s+/)) assert.equal((await register(uri)).status, 400, uri)
    const listed = await commands.json<{ name: string; created_at: string | null }[]>('oauth', 'list')
    assert.ok(listed.some((entry) => entry.name === name && entry.created_at !== null))
    await commands.json('oauth', 'disallow', name)
    for (const uri of open) {
      assert.equal((await register(uri)).status, 400, uri)
      assert.equal((await ask(ids[addresses.indexOf(uri)]!, uri)).status, 400, uri)
    }
  })

test('a web page of an allowed origin can use /mcp', async () => {
  const { PROGRAMS } = await import('../../../src/users/oauth/allowed.ts')
  assert.deepEqual(Object.keys(PROGRAMS), Object.keys(DOCUMENTED).slice(0, -1))
  const preflight = async (): Promise<string | null> => {
    const headers = { origin: 'https://agent.example.org', 'access-control-request-method': 'POST' }
    return (await postrider.raw('/mcp', { method: 'OPTIONS', headers })).headers.get('access-control-allow-origin')
  }
  assert.equal(await preflight(), null)
  await commands.json('oauth', 'allow', 'https://agent.example.org')
  assert.equal(await preflight(), 'https://agent.example.org')
})

test('oauth allow rejects unknown applications and origins, oauth disallow rejects names that were not allowed', async () => {
  for (const wrong of ['bing', 'https://x.test/path', 'ftp://x.test', 'myapp://callback', 'https://*', 'constructor'])
    assert.match(
      await commands.fails('oauth', 'allow', wrong),
      /is not a known application; use one of claude, .*, or an origin/,
      wrong,
    )
  assert.match(await commands.fails('oauth', 'disallow', 'claude'), /oauth list/)
  assert.match(await commands.fails('oauth', 'disallow', 'http://127.0.0.1'), /configuration/)
})

test('oauth allow rejects an http origin that is not loopback', async () => {
  assert.match(
    await commands.fails('oauth', 'allow', 'http://agent.example.org'),
    /is not encrypted; use an https origin/,
  )
  for (const origin of ['http://127.0.0.1:8080', 'http://localhost:8080', 'http://[::1]:8080']) {
    await commands.json('oauth', 'allow', origin)
    await commands.json('oauth', 'disallow', origin)
  }
})
