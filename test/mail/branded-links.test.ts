// Branded links (D38, D215): links use links.<domain> only while this installation responds there with a certificate
// that browsers of recipients accept.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { ConfigInput } from '../../src/base/config.ts'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { listDomains } from '../../src/domains/find.ts'
import { document, startTestAppliance, type TestAppliance, type TestOptions } from '../kit/appliance.ts'
import { issue, type Issued } from '../kit/authority.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { startTestDns } from '../kit/zone.ts'
import { mailsOf } from './mails.ts'

const HOST = 'links.here.test'
const SHARED = 'http://mail.postrider.test/t/c/'
const BRANDED = `https://${HOST}/t/c/`
const PAGE = '<p><a href="https://shop.test/">shop</a></p>'
const authority = issue({ subject: 'an authority', ca: true })
const certificate = (name: string, end = Date.now() + 30 * DAY): Issued =>
  issue({ subject: name, names: [name], by: authority, until: end })

const directory = temporaryDirectory('links')
const caFile = join(directory, 'ca.pem')
writeFileSync(caFile, authority.cert)

/** The server at the branded host: a proxy in front of `server`, or another server with a status. */
let behind: TestAppliance | number = 404
const proxy = createServer(certificate('other.test'), (request, response) => {
  if (typeof behind === 'number') return void response.writeHead(behind).end()
  void behind.raw(request.url ?? '/').then(({ headers, status }) => {
    response.writeHead(status, { location: headers.get('location') ?? '' }).end()
  })
})
await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
after(() => proxy.close())

async function started({ config, ...options }: TestOptions): Promise<TestAppliance> {
  const postrider = await startTestAppliance({
    clock: new ManualClock(Date.now()),
    httpsPort: (proxy.address() as AddressInfo).port,
    routes: ['there.test'],
    config: { tls: { ca_file: caFile }, http: { public_url: 'http://mail.postrider.test' }, ...config },
    ...options,
  })
  behind = postrider
  return postrider
}

/** An active domain whose tracked links are to lead over its own host. */
async function brand(postrider: TestAppliance): Promise<string> {
  const { id } = await postrider.activeDomain('here.test')
  const change = { click_tracking_enabled: true, tracking_redirect_mode: 'branded' }
  assert.equal((await postrider.api('PATCH', `/domains/${id}`, document('domains', change, { id }))).status, 200)
  return id
}

function publish({ dns }: TestAppliance): void {
  dns.set(HOST, 'CNAME', ['mail.postrider.test'])
  dns.set(HOST, 'A', ['127.0.0.1'])
}

const check = (server: TestAppliance, id: string): Promise<unknown> => server.api('POST', `/domains/${id}/check`)

/** Sends an email. Returns the target of its link. */
async function link(postrider: TestAppliance, exchanger: ReturnType<typeof testExchanger>): Promise<string> {
  const { become, post } = mailsOf(() => postrider)
  const mail = await post({ from: 'ann@here.test', to: 'bob@there.test', html: PAGE })
  const shown = await become(mail, 'delivered')
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  return /https?:\/\/[^"\s]*\/t\/c\//.exec(heard.message.replaceAll('=\r\n', ''))![0]
}

test('links use the branded host only while this server responds there with a valid certificate', async () => {
  const exchanger = testExchanger()
  const lines: string[] = []
  await using postrider = await started({ exchanger, logged: { level: 'info', lines } })
  const id = await brand(postrider)
  assert.equal(await link(postrider, exchanger), SHARED)
  publish(postrider)
  for (const [name, shown, target, expected] of [
    ['a certificate for another host', certificate('other.test'), postrider, SHARED],
    ['a certificate of an unknown authority', issue({ subject: HOST, names: [HOST] }), postrider, SHARED],
    ['another server', certificate(HOST), 404, SHARED],
    ['a certificate for it', certificate(HOST), postrider, BRANDED],
    ['a refused certificate after that', certificate(HOST, Date.now() - 1000), postrider, SHARED],
  ] as const) {
    proxy.setSecureContext(shown)
    behind = target
    await check(postrider, id)
    assert.equal(await link(postrider, exchanger), expected, name)
  }
  const logged = lines.map((line) => JSON.parse(line) as { event: string; error?: string })
  assert.deepEqual(
    logged.filter(({ event }) => event === 'links_host_unusable').map(({ error }) => error),
    [
      'the certificate is for another host',
      'the certificate is self-signed',
      'another server answers there (status 404)',
      'the certificate has expired',
    ],
  )
})

test('after a restart, links use the branded host until a day before its certificate expires', async () => {
  await using dns = { ...(await startTestDns()), [Symbol.asyncDispose]: () => dns.close() }
  const clock = new ManualClock(Date.now())
  const options = { clock, dns, dataDir: directory }
  proxy.setSecureContext(certificate(HOST, clock.now() + 3 * DAY))
  {
    await using postrider = await started(options)
    const id = await brand(postrider)
    publish(postrider)
    await check(postrider, id)
  }
  const exchanger = testExchanger()
  await using postrider = await started({ ...options, exchanger })
  // Further checks fail.
  dns.fail(/(?:^|\.)here\.test$/)
  assert.equal(await link(postrider, exchanger), BRANDED)
  clock.leap(2 * DAY - HOUR)
  assert.equal(await link(postrider, exchanger), BRANDED)
  clock.leap(2 * HOUR)
  assert.equal(await link(postrider, exchanger), SHARED)
})

test('orders the certificate once the record for branded links is verified, and checks often until it has one', async () => {
  const lines: string[] = []
  const acme: ConfigInput['acme'] = {
    enabled: true,
    accept_terms: true,
    directory: 'https://127.0.0.1:1/directory',
    listen: ['127.0.0.1:0'],
  }
  await using postrider = await started({ config: { acme }, logged: { level: 'error', lines } })
  const failed = (name: string): boolean =>
    lines.some((line) => line.includes('certificate_order_failed') && line.includes(`"${name}"`))
  await until(() => failed('mx.postrider.test'), 'the order for the server itself')
  const id = await brand(postrider)
  publish(postrider)
  behind = 404
  // The clock does not move.
  await check(postrider, id)
  await until(() => failed(HOST), 'the order for the host of links')
  const [domain] = listDomains(postrider.appliance.deps.store)
  assert.equal(domain!.next_check_at! - postrider.clock.now(), HOUR / 2)
})
