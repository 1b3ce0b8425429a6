// Postrider is killed between the receiver's 200 and its own commit: the event is sent again with the same webhook-id,
// and is never lost. The server is `postrider serve` in a separate process. The receiver's handler kills it.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { SECOND } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { startAppliance, type Appliance } from '../../src/server/appliance.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { HOST, startTestReceiver, verify } from '../kit/receiver.ts'
import { configFor } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { happen, makeHook } from '../webhooks/hooks.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const EVENTS = 12
const KILLS = 3

test(`${KILLS} kills between the 200 and the commit: repeats have the same webhook-id, and all events arrive`, async () => {
  const dataDir = temporaryDirectory('webhook-kill')
  const receiver = await startTestReceiver()
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  setUp.dns.set(HOST, 'A', ['127.0.0.1'])
  const domain = await setUp.activeDomain('here.test')
  const hook = await makeHook(setUp, receiver, domain, ['email.opened'])
  // Recorded, and stopped before anything is attempted: the endpoint is not trusted by this first one.
  await setUp.appliance.stop()
  const store = openStore(dataDir)
  await happen({ appliance: { deps: { store } } as never, clock: setUp.clock }, domain, 'email.opened', {}, EVENTS)
  store.close()
  const configFile = configFor(
    dataDir,
    setUp.dns,
    `[webhooks]
ca_file = ${JSON.stringify(receiver.caFile)}
retry = ["200ms"]
probe = ["200ms"]
`,
  )
  let child: ChildProcess | undefined
  let kills = 0
  const answered = new Set<string>()
  receiver.answer = (request, response) => {
    answered.add(request.headers['webhook-id']!)
    // The answer leaves, and the server is gone before it can write anything down.
    response.writeHead(200).end('ok')
    if (kills < KILLS && child?.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL')
    }
  }
  const serve = (): Promise<unknown> => {
    const one = spawn(process.execPath, [PROGRAM, '--config', configFile, 'serve'], {
      stdio: 'ignore',
      env: SERVER_ENVIRONMENT,
    })
    child = one
    return new Promise((resolve) => one.once('exit', (code, signal) => resolve(signal ?? code)))
  }
  try {
    while (kills < KILLS) {
      assert.equal(await serve(), 'SIGKILL')
      kills++
    }
    const first = new Set(receiver.requests.map(({ headers }) => headers['webhook-id']!))
    const ended = serve()
    const reader = openStore(dataDir)
    try {
      const delivered = raw<{ n: number }>(`select count(*) as n from outbound_webhooks where status = 'delivered'`)
      await until(() => reader.first(delivered)!.n === EVENTS, 'all delivered')
      const all = reader.all(raw<{ id: string }>('select id from outbound_webhooks'))
      assert.deepEqual(new Set(all.map(({ id }) => id)), answered, 'each event is one webhook-id, whatever happened')
    } finally {
      reader.close()
    }
    child!.kill('SIGTERM')
    assert.equal(await ended, 0)
    assert.equal(answered.size, EVENTS)
    const byId = Map.groupBy(receiver.requests, ({ headers }) => headers['webhook-id']!)
    assert.ok(
      [...first].some((id) => byId.get(id)!.length > 1),
      'what was answered but not written down came again',
    )
    for (const [id, requests] of byId) {
      assert.equal(new Set(requests.map(({ body }) => body)).size, 1, id)
      for (const request of requests) verify(request, hook.secret, Number(request.headers['webhook-timestamp']) * 1000)
    }
    assert.equal(new Set([...byId.values()].map(([request]) => JSON.parse(request!.body).data.n)).size, EVENTS)
  } finally {
    child?.kill('SIGKILL')
    await setUp.dns.close()
    await receiver.close()
  }
})

test('a stop waits 8 s for a hanging endpoint, and the next start retries with the same id', async () => {
  const dataDir = temporaryDirectory('webhook-stop')
  const receiver = await startTestReceiver()
  const clock = new ManualClock()
  const config = { webhooks: { ca_file: receiver.caFile } }
  const postrider = await startTestAppliance({ dataDir, clock, config })
  let again: Appliance | undefined
  try {
    postrider.dns.set(HOST, 'A', ['127.0.0.1'])
    const domain = await postrider.activeDomain('here.test')
    const hook = await makeHook(postrider, receiver, domain)
    receiver.answer = () => {}
    await happen(postrider, domain, 'campaign.sent')
    await hook.arrived(1)
    // The note of the API request is written.
    clock.advance(SECOND)
    const stopping = postrider.appliance.stop()
    await until(() => clock.nextAlarm === clock.now() + 8 * SECOND, 'nothing but its patience to wait for')
    clock.advance(8 * SECOND)
    await stopping
    receiver.answer = 200
    const { config: parsed, dns } = postrider
    again = await startAppliance({ config: parsed, clock, log: silentLog, resolver: dns.resolver })
    clock.leap(6 * SECOND)
    const [first, second] = await hook.arrived(2)
    assert.equal(second!.headers['webhook-id'], first!.headers['webhook-id'])
  } finally {
    await again?.stop()
    await postrider.dns.close()
    await receiver.close()
  }
})
