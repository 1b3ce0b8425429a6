// An MCP client with only the URL: it discovers, registers, gets access from a user, sends an email and reads a reply.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { setPassword } from '../../src/users/users.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { oauthProvider } from '../kit/oauth-client.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { Person } from '../kit/person.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

const PASSWORD = 'a long enough password'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'], open: true }),
)

setUp(async () => {
  await setPassword(postrider.appliance.deps, postrider.user.email, PASSWORD)
})

const REDIRECT = 'http://127.0.0.1:33418/callback'

test('an MCP client needs only the URL to send an email and read the reply', async () => {
  const auth = oauthProvider(REDIRECT)
  const connect = async (): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { authProvider: auth }))
    return client
  }
  await assert.rejects(connect())
  const back = await new Person(postrider.url).allow(auth.opened!, postrider.user.email, PASSWORD)
  assert.equal(back.searchParams.get('iss'), postrider.url)
  const code = back.searchParams.get('code')!
  const transport = new StreamableHTTPClientTransport(new URL(`${postrider.url}/mcp`), { authProvider: auth })
  await transport.finishAuth(code)
  const client = await connect()
  const { tools } = await client.listTools()
  assert.ok(tools.some(({ name }) => name === 'send_email'))

  const sent = await client.callTool({
    name: 'send_email',
    arguments: { from: 'me@here.test', to: 'you@there.test', subject: 'From an agent', text: 'Hello.\n\nBye.' },
  })
  assert.notEqual(sent.isError, true, JSON.stringify(sent))
  await until(() => exchanger.heard.length === 1, 'the mail')
  const { data } = sent.structuredContent as { data: { attributes: { agent_id: string } } }
  const { client_id } = (await auth.clientInformation())!
  assert.equal(data.attributes.agent_id, client_id)

  const refused = await client.callTool({
    name: 'send_email',
    arguments: { from: 'me@nowhere.test', to: 'you@there.test', subject: 'x', text: 'x' },
  })
  assert.equal(refused.isError, true)
  assert.match(JSON.stringify(refused.content), /not_found/)

  await postrider.api('POST', '/inboxes', {
    data: { type: 'inboxes', attributes: { name: 'Me', address: 'me@here.test' } },
  })
  const { id } = await receive(postrider, { to: 'me@here.test' })
  const read = await client.callTool({ name: 'get_inbound_email', arguments: { id } })
  assert.match(JSON.stringify(read.structuredContent), /Hello\./)
  await client.close()
})
