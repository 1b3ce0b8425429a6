// An AI agent and a user: the MCP SDK's client only has the URL of /mcp, and the user signs in and allows access in
// headless Chromium. If POSTRIDER_SHOTS is set to a directory, it saves screenshots of both pages in light, dark and on
// a phone.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { listGrants, revokeGrantById } from '../../src/users/oauth/grants.ts'
import { setPassword } from '../../src/users/users.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { HOUR } from '../../src/base/clock.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { oauthProvider } from '../kit/oauth-client.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { absent, LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { withPrograms } from './rig/need.ts'

const PASSWORD = 'a long enough password'

withPrograms('an MCP client and a user in Chromium', absent, () => {
  let exchanger: TestExchanger
  let postrider: TestAppliance
  let browser: Browser
  /** The program's own listener, where the browser is led back to. */
  let program: Server
  const cameBack: URL[] = []
  /** Where a program's description lies, and its certificate. */
  let described: TlsServer
  let dir = ''
  let clientId = ''
  let url = ''

  before(async () => {
    exchanger = await startTestExchanger()
    dir = mkdtempSync(join(tmpdir(), 'postrider-described-'))
    const certificate = makeCertificate('agent.test', Date.now())
    writeFileSync(join(dir, 'ca.pem'), certificate.cert)
    described = createTlsServer(certificate, (_, response) => {
      const redirect_uris = [redirect('/described')]
      response
        .setHeader('content-type', 'application/json')
        .end(JSON.stringify({ client_id: clientId, client_name: 'Travel agent', redirect_uris }))
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => described.once('listening', resolve))
    clientId = `https://agent.test:${(described.address() as AddressInfo).port}/client.json`
    postrider = await startTestAppliance({
      config: {
        delivery: { port: exchanger.port },
        network: { allow_private: ['127.0.0.0/8'] },
        tls: { ca_file: join(dir, 'ca.pem') },
      },
    })
    postrider.dns.set('agent.test', 'A', ['127.0.0.1'])
    url = `http://127.0.0.1:${postrider.appliance.http.port}`
    postrider.config.http.public_url = url
    await postrider.activeDomain('here.test')
    postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
    postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
    await setPassword(postrider.appliance.deps, postrider.user.email, PASSWORD)
    program = createServer((request, response) => {
      cameBack.push(new URL(request.url!, 'http://127.0.0.1'))
      response.end('<h1>Back in the program</h1>')
    }).listen(0, '127.0.0.1')
    await new Promise((resolve) => program.once('listening', resolve))
    browser = await startBrowser()
  })
  after(async () => {
    await browser.stop()
    program.close()
    described.closeAllConnections()
    described.close()
    await exchanger.close()
    await postrider.stop()
    rmSync(dir, { recursive: true, force: true })
  })

  /** An address of the program itself. */
  const redirect = (path: string): string => `http://127.0.0.1:${(program.address() as AddressInfo).port}${path}`
  const connecting = (auth: ReturnType<typeof oauthProvider>): Promise<void> =>
    new Client({ name: 'test', version: '1' }).connect(
      new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider: auth }),
    )
  /** Opens the page that asks; who has signed in already is not asked for a password. */
  const asked = async ({ opened }: ReturnType<typeof oauthProvider>, heading: string): Promise<void> => {
    await browser.open(opened!.href)
    const page = await until(() => browser.run('return document.querySelector("h1")?.textContent'), 'a page')
    if (page === 'Sign in to Postrider') {
      await browser.type('#email', postrider.user.email)
      await browser.type('#password', `${PASSWORD}\uE007`)
    }
    await browser.headed(heading)
  }

  const looks = async (name: string, parts: string[]): Promise<void> => {
    for (const [scheme, width] of LOOKS) {
      await browser.look(scheme, width, `${name}-${scheme}-${width}`)
      for (const part of parts)
        assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
    }
  }

  test('a client discovers the server, registers, gets access, sends, reads and refreshes, and is rejected after revocation', async () => {
    const auth = oauthProvider(redirect('/callback'))
    const transport = () => new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider: auth })
    const connect = async (): Promise<Client> => {
      const client = new Client({ name: 'test', version: '1' })
      await client.connect(transport())
      return client
    }
    await assert.rejects(connect())

    await browser.open(auth.opened!.href)
    await browser.headed('Sign in to Postrider')
    await browser.type('#email', postrider.user.email)
    await browser.type('#password', 'not the password')
    await browser.click('button')
    await until(() => browser.run('return document.querySelector(".alert") !== null'), 'the refusal')
    // Enter in the password's field signs in.
    await browser.type('#password', `${PASSWORD}\uE007`)
    await browser.headed('Allow Test agent?')
    await looks('consent', ['h1', 'p', 'button', 'button.plain'])
    assert.equal(await browser.run('return document.querySelectorAll("img, script, link, iframe").length'), 0)
    assert.match(await browser.run('return document.querySelector("main").innerText'), /127\.0\.0\.1/)
    await browser.click('button[value=allow]')
    await browser.headed('Back in the program')
    const { searchParams } = cameBack.find(({ pathname }) => pathname === '/callback')!
    assert.equal(searchParams.get('iss'), url)

    await transport().finishAuth(searchParams.get('code')!)
    const client = await connect()
    const { tools } = await client.listTools()
    assert.ok(tools.some(({ name }) => name === 'send_email'))
    const mail = { from: 'me@here.test', to: 'you@there.test', subject: 'From an agent', text: 'Hello.' }
    const sent = await client.callTool({ name: 'send_email', arguments: mail })
    assert.notEqual(sent.isError, true, JSON.stringify(sent))
    await until(() => exchanger.heard.length === 1, 'the mail')

    const inbox = { data: { type: 'inboxes', attributes: { name: 'Me', address: 'me@here.test' } } }
    await postrider.api('POST', '/inboxes', inbox)
    const { id } = await receive(postrider, { to: 'me@here.test' })
    const read = await client.callTool({ name: 'get_inbound_email', arguments: { id } })
    assert.match(JSON.stringify(read.structuredContent), /Hello\./)

    const before_ = (await auth.tokens())!.access_token
    postrider.clock.leap(HOUR)
    assert.notEqual((await client.callTool({ name: 'list_domains', arguments: {} })).isError, true)
    assert.notEqual((await auth.tokens())!.access_token, before_, 'the token was refreshed')

    const [grant] = listGrants(postrider.appliance.deps.store)
    assert.ok(await revokeGrantById(postrider.appliance.deps, grant!.id))
    auth.opened = undefined
    await assert.rejects(client.callTool({ name: 'list_domains', arguments: {} }))
    assert.ok(auth.opened, 'the person is asked again')
    await client.close()
  })

  test('denying access redirects the user with access_denied', async () => {
    const auth = oauthProvider(redirect('/denied'))
    await assert.rejects(connecting(auth))
    await asked(auth, 'Allow Test agent?')
    await browser.click('button[value=deny]')
    await browser.headed('Back in the program')
    const { searchParams } = cameBack.find(({ pathname }) => pathname === '/denied')!
    assert.equal(searchParams.get('error'), 'access_denied')
    assert.equal(searchParams.get('code'), null)
  })

  test('a client with a metadata URL: the consent page names its host, and the client gets access', async () => {
    const auth = Object.assign(oauthProvider(redirect('/described')), { clientMetadataUrl: clientId })
    await assert.rejects(connecting(auth))
    assert.equal(auth.opened!.searchParams.get('client_id'), clientId)
    await asked(auth, 'Allow Travel agent?')
    await looks('described', ['h1', 'p', 'strong', 'button', 'button.plain'])
    const words: string = await browser.run('return document.querySelector("main").innerText')
    assert.match(words, new RegExp(`The name comes from ${new URL(clientId).host} and is not verified`))
    assert.match(words, /You will be redirected to 127\.0\.0\.1/)
    assert.match(words, /could pretend to be/)
    await browser.click('button[value=allow]')
    await browser.headed('Back in the program')
    const { searchParams } = cameBack.find(({ pathname }) => pathname === '/described')!
    const transport = () => new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { authProvider: auth })
    await transport().finishAuth(searchParams.get('code')!)
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(transport())
    assert.notEqual((await client.callTool({ name: 'list_domains', arguments: {} })).isError, true)
    await client.close()
  })
})
