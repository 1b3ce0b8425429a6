// /metrics: Prometheus' text format, correct values, and access from this machine only.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { receive } from '../kit/sender.ts'
import { mailsOf } from '../mail/mails.ts'

const { attempted, become, post } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, domains: ['here.test'], routes: ['there.test'] }))

async function figures(): Promise<Map<string, number>> {
  const response = await fetch(`${postrider.url}/metrics`)
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/)
  const text = await response.text()
  assert.ok(text.endsWith('\n'))
  const described = new Map<string, string>()
  const found = new Map<string, number>()
  for (const line of text.trimEnd().split('\n')) {
    if (/^# HELP [a-z_]+ \S/.test(line)) continue
    const [, about, type] = /^# TYPE ([a-z_]+) (gauge|counter|histogram)$/.exec(line) ?? []
    if (about !== undefined) {
      assert.ok(!described.has(about), `${about} twice`)
      described.set(about, type!)
      continue
    }
    const [, name, labels = '', value] =
      /^([a-z_]+)(\{(?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(line) ??
      assert.fail(line)
    const type_ = described.get(name!) ?? described.get(name!.replace(/_(?:bucket|sum|count)$/, ''))
    assert.ok(type_, line)
    // Prometheus requires it in the names of counters.
    if (type_ === 'counter') assert.match(name!, /_total$/)
    assert.ok(!found.has(name! + labels), `${line} twice`)
    found.set(name! + labels, Number(value))
  }
  return found
}

/** The differences of all changed metrics from an earlier state. */
async function since(earlier: Map<string, number>): Promise<(name: string) => number> {
  const now = await figures()
  return (name) => {
    assert.ok(now.has(name), `${name} is a figure`)
    return now.get(name)! - (earlier.get(name) ?? 0)
  }
}

test('gauges show the present state, and counters rise with each event', async () => {
  const earlier = await figures()
  assert.equal(earlier.get('postrider_queue_deliveries{status="queued"}'), 0)
  assert.equal(earlier.get('postrider_domains{status="active"}'), 1)
  await become(await post({ to: 'ann@there.test' }), 'delivered')
  exchanger.script = { answer: (line) => (line.startsWith('RCPT TO:<gone') ? '550 5.1.1 No such user' : undefined) }
  await become(await post({ to: 'gone@there.test' }), 'bounced')
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
  await attempted(await post({ to: 'later@there.test' }), 1)
  const now = await figures()
  assert.equal(now.get('postrider_queue_deliveries{status="queued"}'), 1)
  assert.equal(now.get('postrider_queue_late_seconds'), 0)
  assert.equal(now.get('postrider_outcomes_week{outcome="delivered"}'), 1)
  assert.equal(now.get('postrider_outcomes_week{outcome="bounced"}'), 1)
  assert.ok(now.get('process_cpu_seconds_total')! > earlier.get('process_cpu_seconds_total')!)
  assert.ok(now.get('process_resident_memory_bytes')! > 10_000_000)
  assert.ok(now.get('postrider_disk_free_bytes')! > 0)
  assert.ok(now.get(`postrider_storage_bytes{kind="database"}`)! >= 4096)
  assert.ok(now.get(`postrider_storage_bytes{kind="log"}`)! > 100_000)
  const rise = await since(earlier)
  for (const outcome of ['delivered', 'bounced', 'deferred'])
    assert.equal(rise(`postrider_mails_total{outcome="${outcome}"}`), 1, outcome)
  assert.equal(rise('postrider_mails_total{outcome="complained"}'), 0)
  assert.ok(rise('postrider_smtp_replies_total{direction="out",class="2xx"}') > 5)
  assert.ok(rise(`postrider_smtp_replies_total{direction="out",class="5xx"}`) >= 1)
  assert.ok(rise(`postrider_smtp_replies_total{direction="out",class="4xx"}`) >= 1)
})

test('counts requests by route and status, and measures their duration', async () => {
  const earlier = await figures()
  const id = await post({ to: 'ann@there.test' })
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 200)
  assert.equal((await postrider.api('GET', `/outbound-emails/${'x'.repeat(500)}`)).status, 404)
  assert.equal((await postrider.raw('/no/such"page\\at all')).status, 404)
  assert.equal((await postrider.raw('/health', { method: 'PROPFIND' })).status, 404)
  const rise = await since(earlier)
  const at = (labels: string) => rise(`postrider_http_requests_total{${labels}}`)
  assert.equal(at('method="POST",route="/api/v1/outbound-emails",status="201"'), 1)
  assert.equal(at('method="GET",route="/api/v1/outbound-emails/:outboundEmail",status="200"'), 1)
  assert.equal(at('method="GET",route="/api/v1/outbound-emails/:outboundEmail",status="404"'), 1)
  assert.equal(at('method="GET",route="other",status="404"'), 1)
  assert.equal(at('method="other",route="other",status="404"'), 1)
  const of = (what: string, le = '') =>
    rise(`postrider_http_request_seconds_${what}{method="GET",route="/api/v1/outbound-emails/:outboundEmail"${le}}`)
  assert.deepEqual([of('count'), of('bucket', ',le="0.005"'), of('bucket', ',le="+Inf"'), of('sum')], [2, 2, 2, 0])
})

test('counts wrong credentials and rate-limited requests', async () => {
  const earlier = await figures()
  assert.equal((await postrider.raw('/api/v1/domains')).status, 401)
  assert.equal((await postrider.raw('/mcp', { method: 'POST' })).status, 401)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  for (let index = 0; index < 61; index++) await postrider.raw('/oauth/token', { method: 'POST', headers: form })
  const rise = await since(earlier)
  assert.equal(rise('postrider_auth_failures_total{where="api"}'), 1)
  assert.equal(rise('postrider_auth_failures_total{where="mcp"}'), 1)
  assert.equal(rise('postrider_rate_limited_total'), 1)
})

test('counts received messages and the SMTP replies to them', async () => {
  const { status } = await postrider.api('POST', '/inboxes', {
    data: { type: 'inboxes', attributes: { name: 'Box', address: 'box@here.test' } },
  })
  assert.equal(status, 201)
  const earlier = await figures()
  await receive(postrider, { to: 'box@here.test' })
  const rise = await since(earlier)
  assert.equal(rise('postrider_inbound_total{outcome="received"}'), 1)
  assert.ok(rise('postrider_smtp_replies_total{direction="in",class="2xx"}') >= 4)
  assert.equal(rise('postrider_smtp_replies_total{direction="in",class="3xx"}'), 1)
})

test('a failing webhook endpoint does not raise the delay of working ones', async () => {
  const { store } = postrider.appliance.deps
  const now = postrider.clock.now()
  const domain = { data: { type: 'domains', id: (await postrider.api('GET', '/domains')).body.data[0].id } }
  const hook = async (name: string) => {
    const attributes = { name, url: 'https://hooks.test/', events: ['email.opened'] }
    const { body } = await postrider.api('POST', '/webhooks', {
      data: { type: 'webhooks', attributes, relationships: { domain } },
    })
    return body.data.id as string
  }
  const [dead] = [await hook('dead'), await hook('well')]
  await store.write((tx) => {
    tx.run(raw('update webhooks set consecutive_failures = 5, held_until = ? where id = ?', [now + 320_000, dead]))
    tx.run(
      raw(
        `insert into outbound_webhooks (id, user_key, webhook_key, event, about, payload, status, attempts, next_attempt_at, created_at, updated_at)
         select 'waits', user_key, key, 'email.opened', '', '{}', 'pending', 5, ?, ?, ? from webhooks where id = ?`,
        [now - 600_000, now, now, dead],
      ),
    )
  })
  const found = await figures()
  assert.equal(found.get('postrider_webhook_endpoints{state="failing"}'), 1)
  assert.equal(found.get('postrider_webhook_endpoints{state="active"}'), 1)
  assert.equal(found.get('postrider_webhook_late_seconds'), 0)
  assert.equal(found.get('postrider_webhook_failing_late_seconds'), 600)
})

test('shows the certificate expiry, the last backup and the use of plans', async () => {
  const { deps } = postrider.appliance
  const earlier = await figures()
  assert.ok(earlier.get('postrider_certificate_expiry_timestamp_seconds{use="smtp"}')! > postrider.clock.now() / 1000)
  assert.equal(earlier.get('postrider_last_backup_timestamp_seconds'), 0)
  writeFileSync(join(postrider.dataDir, 'last-backup'), '2026-01-15T12:00:00.000Z\n')
  await deps.store.write((tx) => tx.run(raw(`update users set plan = 'growth' where key = ?`, [postrider.other.key])))
  const now = await figures()
  assert.equal(now.get('postrider_last_backup_timestamp_seconds'), Date.parse('2026-01-15T12:00:00Z') / 1000)
  // The names of 0.2.0 stay in addition to the new ones.
  for (const [old, name] of [
    ['postrider_last_backup_seconds', 'postrider_last_backup_timestamp_seconds'],
    ['postrider_certificate_end_seconds{use="smtp"}', 'postrider_certificate_expiry_timestamp_seconds{use="smtp"}'],
  ] as const)
    assert.equal(now.get(old), now.get(name))
  const whose = `{user="${postrider.other.id}",plan="growth"}`
  assert.equal(now.get(`postrider_plan_included_recipients${whose}`), 100_000)
  assert.equal(now.get(`postrider_plan_used_recipients${whose}`), 0)
})

test('returns 404 to other machines and through a proxy', async () => {
  for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip'])
    assert.equal((await fetch(`${postrider.url}/metrics`, { headers: { [name]: '127.0.0.1' } })).status, 404, name)
  // No socket, no address.
  assert.equal((await postrider.raw('/metrics')).status, 404)
  assert.equal((await postrider.raw('/metrics', { headers: { authorization: 'Bearer ' } })).status, 404)
})

test('a remote Prometheus needs the token of metrics.token', async () => {
  postrider.config.metrics.token = 'a-token-of-enough-letters'
  const ask = (authorization?: string) =>
    postrider.raw('/metrics', authorization === undefined ? {} : { headers: { authorization } })
  const known = await ask('Bearer a-token-of-enough-letters')
  assert.equal(known.status, 200)
  assert.match(known.body, /^postrider_mails_total\{outcome="delivered"\} \d/m)
  for (const wrong of [
    undefined,
    'Bearer a-token-of-enough-letter',
    'Basic a-token-of-enough-letters',
    `Bearer ${postrider.token}`,
  ]) {
    const refused = await ask(wrong)
    assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer'], String(wrong))
  }
  assert.equal((await fetch(`${postrider.url}/metrics`)).status, 200, 'this machine needs none')
  postrider.config.metrics.token = ''
})

for (const [name, value] of [
  ['Via', '1.1 caddy'],
  ['Forwarded', 'for=192.0.2.7'],
  ['X-Forwarded-For', '192.0.2.7'],
  ['X-Forwarded-Host', 'mail.example.com'],
  ['X-Real-IP', '192.0.2.7'],
  ['CF-Connecting-IP', '192.0.2.7'],
  ['True-Client-IP', '192.0.2.7'],
  ['Host', 'mail.example.com'],
  ['Host', '127.0.0.1.example.com'],
] as const)
  test(`a request that a proxy passed on (${name}: ${value}) is not treated as local`, async () => {
    const { port } = postrider.appliance.http
    const status = await new Promise((resolve, reject) => {
      const asked = request({ port, host: '127.0.0.1', path: '/metrics', headers: { [name]: value } }, (response) => {
        response.resume()
        resolve(response.statusCode)
      })
      asked.on('error', reject).end()
    })
    assert.equal(status, 404)
  })
