// Email that ends the process: after the process ended twice during its delivery, it is composed alone. If the process
// ends again, it fails, with a reason that its owner sees. Other email is sent. The servers are separate processes,
// `postrider serve`, with the system's clock.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

/** Takes long to compose: each link is signed. */
const LINK = '<a href="https://there.test/a">a</a>\n'

for (const kind of ['a submitted email', 'the email of a campaign'])
  test(`fails ${kind} after two crashes and a third while it is composed separately (D200)`, async () => {
    const dataDir = temporaryDirectory('composing')
    let open = false
    const exchanger = await startTestExchanger({ answer: () => (open ? undefined : '') })
    const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
    const domain = await setUp.activeDomain('here.test')
    setUp.dns.set('there.test', 'MX', ['10 mx.there.test'])
    setUp.dns.set('mx.there.test', 'A', ['127.0.0.1'])
    const kit = campaignKit(() => setUp)
    const list = await kit.audience(domain)
    await kit.fill(list, ['large@there.test'])
    const campaign = await kit.draft(list, { body_html: LINK.repeat(22_000), body_text: 'a' })
    await setUp.api('PATCH', `/domains/${domain.id}`, {
      data: { type: 'domains', id: domain.id, attributes: { click_tracking_enabled: true } },
    })
    await setUp.appliance.stop()
    const config = configFor(dataDir, setUp.dns, `[delivery]\nport = ${exchanger.port}\n`)
    const store = openStore(dataDir)
    const limit = `echo $$ > ${dataDir}/pid`
    const log: string[] = []
    const start = (): Promise<Server> => startServer(config, { limit, heard: (chunk) => void log.push(chunk) })
    const attempts = (n: number): Promise<unknown> =>
      until(
        () => store.all(raw(`select 1 from deliveries where status = 'active' and attempts = ?`, [n])).length === 2,
        `${n} claims`,
      )
    const kill = (): void => void process.kill(Number(readFileSync(`${dataDir}/pid`, 'utf8')), 'SIGKILL')
    const api = (server: Server, method: string, path: string, body?: unknown) =>
      fetch(`${server.url}/api/v1${path}`, {
        method,
        headers: { Authorization: `Bearer ${setUp.token}`, 'Content-Type': JSON_API },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }).then((response) => response.json() as any) // oxlint-disable-line typescript/no-explicit-any
    let server: Server | undefined
    try {
      server = await start()
      if (kind === 'a submitted email')
        await api(
          server,
          'POST',
          '/outbound-emails',
          mail({ to: 'large@there.test', html: LINK.repeat(130_000), text: 'a' }),
        )
      else
        await api(server, 'PATCH', `/campaigns/${campaign}`, {
          data: { type: 'campaigns', id: campaign, attributes: { status: 'scheduled' } },
        })
      await api(server, 'POST', '/outbound-emails', mail({ to: 'small@there.test' }))
      await attempts(1)
      kill()
      await server.ended
      server = await start()
      await attempts(2)
      kill()
      await server.ended
      // The small one is composed alone too, which takes little time. The ports are open before.
      server = await start()
      const marked = `select 1 from deliveries where leased_until = 1 and address like 'large%'`
      await until(() => store.first(raw(marked)), 'the mark')
      assert.equal((await fetch(`${server.url}/health`)).status, 200)
      kill()
      await server.ended
      open = true
      server = await start()
      const shown = async (to: string) =>
        (await api(server!, 'GET', `/outbound-emails?filter%5Bsearch%5D=${to}`)).data[0]
      await until(async () => (await shown('small')).attributes.status === 'delivered', 'the small one')
      const failed = await shown('large')
      assert.equal(failed.attributes.status, 'failed')
      const tried = await api(server, 'GET', `/outbound-emails/${failed.id}`)
      assert.match(
        tried.data.attributes.recipients[0].response,
        /This server crashed three times while composing the email/,
      )
      assert.match(log.join(''), new RegExp(`"email_crashed_process"[^\n]*${failed.id}`))
      assert.equal(exchanger.heard.length, 1)
    } finally {
      if (server?.process.exitCode === null && server.process.signalCode === null) {
        server.process.kill('SIGKILL')
        await server.ended
      }
      store.close()
      await exchanger.close()
      await setUp.dns.close()
    }
  })
