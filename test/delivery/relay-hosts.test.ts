// A relay route with several hosts: their load, their limits, and hosts that fail in every way.
import assert from 'node:assert/strict'
import { afterEach, test } from 'node:test'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, type Script, type TestExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

const { attempted, become, post, show, turnToNext } = mailsOf(() => postrider)
const logged: string[] = []
const postrider = ofFile(() =>
  startTestAppliance({
    config: { workers: { count: 2 } },
    logged: { level: 'debug', lines: logged },
    domains: ['here.test'],
  }),
)

type Route = Partial<NonNullable<NonNullable<ConfigInput['delivery']>['routes']>[number]>

const opened: TestExchanger[] = []
afterEach(() => Promise.all(opened.splice(0).map((relay) => relay.close())))
const started = async (script: Script = {}): Promise<TestExchanger> => {
  const relay = await startTestExchanger(script)
  opened.push(relay)
  return relay
}

let tests = 0
/** Sets the route of a new recipient domain. Returns an address at that domain. */
function routed(route: Route): string {
  const domain = `to-${++tests}.test`
  const { routes } = parseConfig({ delivery: { routes: [{ domains: [domain], ...route }] } }).delivery
  postrider.config.delivery.routes = routes
  return `bob@${domain}`
}
const at = ({ port }: TestExchanger): string => `127.0.0.1:${port}`
const postAll = (to: string, count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, () => post({ to })))
const heard = (relays: readonly TestExchanger[]): number[] => relays.map((relay) => relay.heard.length)
/** All emails are delivered by their first attempt, without turning the clock. */
async function assertAtOnce(ids: readonly string[]): Promise<void> {
  for (const id of ids) assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 1)
}
/** Keeps the answers to all messages of these hosts until they are released. */
function held(relays: readonly TestExchanger[]) {
  const answers: (() => void)[] = []
  for (const { script } of relays)
    script.final = () => new Promise((resolve) => answers.push(() => resolve('250 2.0.0 OK')))
  return {
    answers,
    release: (): void => {
      for (const { script } of relays) delete script.final
      for (const answer of answers.splice(0)) answer()
    },
  }
}

test('spreads connections evenly over the hosts of a route, and applies the limits to each of them', async () => {
  const relays = await Promise.all([started(), started(), started()])
  const { answers, release } = held(relays)
  const ids = await postAll(routed({ hosts: relays.map(at) }), 75)
  await until(() => answers.length === 60, 'all connections')
  assert.deepEqual(
    relays.map(({ open }) => open),
    [20, 20, 20],
  )
  release()
  await assertAtOnce(ids)
  for (const count of heard(relays)) assert.ok(Math.abs(count - 25) <= 2.5, String(heard(relays)))
})

test('delivers at once if one host is down and another returns 421, and tries each of them once per minute', async () => {
  const [one, crowded, down] = await Promise.all([started(), started({ greeting: '421 4.3.2 Away' }), started()])
  await down.close()
  const to = routed({ hosts: [down, crowded, one].map(at) })
  await assertAtOnce(await postAll(to, 10))
  const before = crowded.connections
  assert.ok(before <= 10)
  await assertAtOnce(await postAll(to, 40))
  assert.equal(crowded.connections, before)
  assert.equal(one.heard.length, 50)
  const ours = [down, crowded].map(({ port }) => `"port":${port}`)
  const out = logged.filter(
    (line) => line.includes('"relay_host_left_out"') && ours.some((port) => line.includes(port)),
  )
  for (const { port } of [down, crowded])
    assert.ok(
      out.some((line) => line.includes(`"port":${port}`)),
      out.join(),
    )
  assert.equal(out.length, 2)
  // Its connections are those of the test before.
  postrider.clock.advance(MINUTE)
  await assertAtOnce(await postAll(to, 10))
  assert.equal(crowded.connections, before + 1)
  crowded.script.greeting = '220 mx.test ESMTP'
  postrider.clock.advance(MINUTE)
  await assertAtOnce(await postAll(to, 10))
  assert.ok(crowded.heard.length > 0)
})

test('limits the connections to the hosts that are left', async () => {
  const [one, other] = await Promise.all([started(), started({ greeting: '421 4.3.2 Away' })])
  const to = routed({ hosts: [one, other].map(at) })
  await assertAtOnce(await postAll(to, 2))
  const { answers, release } = held([one])
  const ids = await postAll(to, 50)
  await until(() => answers.length === 20, 'all connections')
  assert.equal(one.open, 20)
  release()
  await assertAtOnce(ids)
})

test('limits the connections to the hosts that are left when one fails under load', async () => {
  let peak = 0
  const greeting = (open: number): string => {
    peak = Math.max(peak, open)
    return '220 mx.test ESMTP'
  }
  const [one, other] = await Promise.all([started({ greeting }), started()])
  const { answers, release } = held([one])
  const closing: (() => void)[] = []
  other.script.final = () => new Promise((resolve) => closing.push(() => resolve('421 4.3.2 Shutting down')))
  const ids = await postAll(routed({ hosts: [one, other].map(at) }), 80)
  await until(() => answers.length + closing.length === 40, 'all connections')
  other.script.greeting = '421 4.3.2 Away'
  for (const close of closing) close()
  await until(() => other.open === 0, 'the failed host has no connections')
  release()
  const shown = await Promise.all(ids.map((id) => attempted(id, 1)))
  assert.equal(shown.filter(({ status }) => status === 'delivered').length, 60)
  assert.ok(peak <= 20, String(peak))
})

test('moves connections to a host that works again', async () => {
  const { delivery } = postrider.config
  const usual = delivery.max_connections
  delivery.max_connections = 10
  try {
    const relays = await Promise.all([started(), started({ greeting: '421 4.3.2 Away' })])
    const to = routed({ hosts: relays.map(at) })
    await assertAtOnce(await postAll(to, 2))
    const { answers, release } = held(relays)
    const ids = await postAll(to, 40)
    await until(() => answers.length === 10, 'all connections')
    assert.equal(relays[0]!.open, 10)
    relays[1]!.script.greeting = '220 mx.test ESMTP'
    postrider.clock.advance(MINUTE)
    // One connection tests the host. The others follow it.
    for (let round = 0; round < 2; round++) {
      for (const answer of answers.splice(0)) answer()
      await until(() => answers.length === 10, 'all connections again')
    }
    const open = relays.map((relay) => relay.open)
    assert.ok(Math.abs(open[0]! - open[1]!) <= 2, String(open))
    release()
    await assertAtOnce(ids)
  } finally {
    delivery.max_connections = usual
  }
})

test('no email waits for a host that accepts connections and sends nothing', async () => {
  const [silent, one] = await Promise.all([started({ greeting: '' }), started()])
  const to = routed({ hosts: [silent, one].map(at) })
  const stuck = await post({ to })
  await until(() => silent.connections === 1, 'a connection')
  const others = await postAll(to, 1)
  await assertAtOnce(others)
  silent.cut()
  await assertAtOnce([stuck])
  await assertAtOnce(await postAll(to, 5))
  assert.equal(silent.connections, 1)
})

for (const verb of ['MAIL', 'RCPT', 'DATA'])
  test(`sends an email to another host in the same attempt after 421 to ${verb}`, async () => {
    const answer = (line: string) => (line.startsWith(verb) ? '421 4.3.2 Shutting down' : undefined)
    const [closing, one] = await Promise.all([started({ answer, keywords: [] }), started()])
    const to = routed({ hosts: [closing, one].map(at) })
    await assertAtOnce([await post({ to })])
    await assertAtOnce(await postAll(to, 5))
    assert.deepEqual([closing.connections, one.heard.length], [1, 6])
  })

test('retries an email later if a host returns 421 to the message, while others are sent', async () => {
  const [closing, one] = await Promise.all([started({ final: () => '421 4.3.2 Shutting down' }), started()])
  const to = routed({ hosts: [closing, one].map(at) })
  const first = await post({ to })
  assert.equal((await attempted(first, 1)).recipients[0]?.smtp_code, 421)
  // Neither the other host nor the queue for the recipient domain waits.
  await assertAtOnce(await postAll(to, 5))
  await turnToNext(first)
  assert.equal((await become(first, 'delivered')).recipients[0]?.attempts, 2)
  assert.deepEqual([closing.heard.length, one.heard.length], [0, 6])
})

test('uses the other hosts if one fails the TLS settings of the route', async () => {
  const [clear, one] = await Promise.all([started(), started({ tls: true })])
  const to = routed({ hosts: [clear, one].map(at), tls: 'required' })
  await assertAtOnce([await post({ to })])
  await assertAtOnce(await postAll(to, 5))
  assert.deepEqual([clear.connections, one.heard.length], [1, 6])
})

test('pauses if all hosts are down, and charges one attempt', async () => {
  const relays = await Promise.all([started(), started()])
  for (const { script } of relays) script.greeting = '421 4.3.2 Away'
  const to = routed({ hosts: relays.map(at) })
  const id = await post({ to })
  await attempted(id, 1)
  assert.deepEqual(
    relays.map(({ connections }) => connections),
    [1, 1],
  )
  for (const { script } of relays) script.greeting = '220 mx.test ESMTP'
  await turnToNext(id)
  assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 2)
})

test('finishes emails on the former hosts after a reload, and sends later ones to the new hosts', async () => {
  const [former, fresh] = await Promise.all([started(), started()])
  const { answers, release } = held([former])
  const to = routed({ hosts: [at(former), '127.0.0.1:1'] })
  const id = await post({ to })
  await until(() => answers.length === 1, 'the email is handed over')
  postrider.config.delivery.routes[0]!.hosts = [
    { host: '127.0.0.1', port: fresh.port },
    { host: '127.0.0.1', port: 1 },
  ]
  release()
  await assertAtOnce([id])
  // A route is looked up again after five minutes.
  postrider.clock.advance(5 * MINUTE)
  await assertAtOnce([await post({ to })])
  assert.deepEqual(heard([former, fresh]), [1, 1])
})

test('sends to the MX hosts of a domain ("mx:NAME"), and waits without an attempt while that name is wrong', async () => {
  const one = await started()
  const to = routed({ host: 'mx:cluster.test', port: one.port })
  const id = await post({ to })
  const shown = await until(async () => {
    const now = await show(id)
    return now.recipients[0]?.next_attempt_at ? now : undefined
  }, 'the email waits')
  assert.equal(shown.recipients[0]?.attempts, 0)
  assert.match(shown.recipients[0]?.response ?? '', /problem on this server/)
  assert.ok(logged.some((line) => /problem_reported.*mx:cluster\.test.*does not exist/.test(line)))
  postrider.dns.set('cluster.test', 'MX', ['10 a.cluster.test', '10 gone.cluster.test'])
  postrider.dns.set('a.cluster.test', 'A', ['127.0.0.1'])
  await turnToNext(id)
  assert.equal((await become(id, 'delivered')).recipients[0]?.remote_mta, 'a.cluster.test')
})
