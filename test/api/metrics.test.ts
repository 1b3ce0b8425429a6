// /metrics: Prometheus' text format, true figures, and for this machine alone.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { mailsOf } from '../outbound/mails.ts'

let exchanger: TestExchanger
let postrider: TestAppliance
let url: string
const { attempted, become, post, receiver } = mailsOf(() => postrider)

before(async () => {
  exchanger = await startTestExchanger()
  postrider = await startTestAppliance({ config: { delivery: { port: exchanger.port } } })
  url = `http://127.0.0.1:${postrider.appliance.http.port}/metrics`
  await postrider.activeDomain('here.test')
  receiver('there.test')
})
after(async () => {
  await exchanger.close()
  await postrider.stop()
})

async function figures(): Promise<Map<string, number>> {
  const response = await fetch(url)
  assert.equal(response.status, 200)
  assert.match(response.headers.get('content-type')!, /^text\/plain; version=0\.0\.4/)
  const text = await response.text()
  assert.ok(text.endsWith('\n'))
  const described = new Set<string>()
  const found = new Map<string, number>()
  for (const line of text.trimEnd().split('\n')) {
    const [, about] = /^# (?:HELP ([a-z_]+) \S.*|TYPE [a-z_]+ (?:gauge|counter))$/.exec(line) ?? []
    if (about !== undefined) described.add(about)
    if (line.startsWith('#')) continue
    const [, name, labels, value] = /^([a-z_]+)(\{(?:[a-z]+="[^"\\\n]*",?)+\})? (\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(
      line,
    )!
    assert.ok(described.has(name!), line)
    assert.ok(!found.has(name! + (labels ?? '')), `${line} twice`)
    found.set(name! + (labels ?? ''), Number(value))
  }
  return found
}

test('figures are those of the moment', async () => {
  const before_ = await figures()
  assert.equal(before_.get('postrider_queue_deliveries{status="queued"}'), 0)
  assert.equal(before_.get('postrider_domains{status="active"}'), 1)
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
  assert.ok(now.get('process_cpu_seconds_total')! > before_.get('process_cpu_seconds_total')!)
  assert.ok(now.get('process_resident_memory_bytes')! > 10_000_000)
  assert.ok(now.get('postrider_disk_free_bytes')! > 0)
})

test('who comes from elsewhere, or through a proxy, finds nothing', async () => {
  for (const name of ['x-forwarded-for', 'forwarded', 'x-real-ip'])
    assert.equal((await fetch(url, { headers: { [name]: '127.0.0.1' } })).status, 404, name)
  // No socket, no address.
  assert.equal((await postrider.raw('/metrics')).status, 404)
})
