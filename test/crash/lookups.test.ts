// Email whose receiving server is not found in DNS, while the server is repeatedly stopped and killed: each recipient
// counts once in a warm-up, and only while it may have been named to a receiving server. An attempt that ended with its
// process does not advance the email's retry schedule.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import type { Store } from '../../src/store/database.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { startSilentDns, type SilentDns } from '../kit/silent-dns.ts'
import { until } from '../kit/until.ts'
import { mail } from '../mail/mails.ts'

const MAILS = 4

interface Scene {
  dns: SilentDns
  exchanger: TestExchanger
  store: Store
  /** Starts the server. The emails that an earlier one left are in progress again. */
  start: () => Promise<Server>
  post: (server: Server) => Promise<void>
  /** Recipients that are counted: of the receiver, and of the source. */
  used: () => number[]
  /** The server waits for the addresses of the receiving server, for each email. */
  lookingUp: () => Promise<void>
}

async function scene(t: TestContext, more: string): Promise<Scene> {
  const dataDir = temporaryDirectory('lookups')
  const exchanger = await startTestExchanger()
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  setUp.dns.set('slow.test', 'MX', ['10 unheard.slow.test'])
  await setUp.appliance.stop()
  const dns = await startSilentDns(setUp.dns.port, /unheard/)
  const configFile = configFor(dataDir, dns, `[delivery]\nport = ${exchanger.port}\n${more}`)
  const store = openStore(dataDir)
  let server: Server | undefined
  t.after(async () => {
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    store.close()
    await dns[Symbol.asyncDispose]()
    await setUp.stop()
    await exchanger.close()
  })
  return {
    dns,
    exchanger,
    store,
    start: async () => (server = await startServer(configFile)),
    async post({ url }) {
      const headers = { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API }
      for (let n = 0; n < MAILS; n++) {
        const body = JSON.stringify(mail({ to: `r${n}@slow.test` }))
        const answer = await fetch(`${url}/api/v1/outbound-emails`, { method: 'POST', headers, body })
        assert.equal(answer.status, 201)
      }
    },
    used: () =>
      store
        .all(
          raw<{ tried: number }>(
            `select sum(d.tried) as tried from warmup_days d join warmups w on w.key = d.warmup_key
             where w.receiver in ('slow.test', '*') group by w.receiver order by w.receiver desc`,
          ),
        )
        .map(({ tried }) => tried),
    async lookingUp() {
      const before = dns.unanswered
      await until(
        () =>
          dns.unanswered > before &&
          store.all(raw(`select 1 from deliveries where status = 'active'`)).length === MAILS,
        'the look-ups of all mails',
      )
    },
  }
}

const WARMING = '[warmup]\nprivate = true\ntransactional_overflow = "wait"\n'

test('SIGTERM while DNS does not answer ends the server in time and releases the daily limits', async (t) => {
  const { lookingUp, post, start, store, used } = await scene(t, WARMING)
  for (let round = 0; round < 2; round++) {
    const server = await start()
    if (round === 0) await post(server)
    await lookingUp()
    assert.deepEqual(used(), [MAILS, MAILS])
    const asked = performance.now()
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
    const took = performance.now() - asked
    // 8 s of this are the time for stopping. A query that is sent three times would take 21 s.
    assert.ok(took < 12_000, `${took} ms`)
    assert.deepEqual(used(), [0, 0], 'no exchanger heard of a recipient')
    const rows = store.all(raw(`select distinct status, attempts, tried_day from deliveries`))
    assert.deepEqual(rows, [{ status: 'queued', attempts: 0, tried_day: null }])
  }
})

test('repeated kills while DNS does not answer count a recipient once, and retries start at the first step (D26)', async (t) => {
  const { lookingUp, post, start, store, used } = await scene(t, WARMING)
  for (let round = 0; round < 4; round++) {
    const server = await start()
    if (round === 0) await post(server)
    await lookingUp()
    assert.deepEqual(used(), [MAILS, MAILS], `after ${round} kills`)
    server.process.kill('SIGKILL')
    await server.ended
  }
  await start()
  // The look-up ends without an answer.
  await until(() => store.all(raw('select 1 from attempts')).length === MAILS, 'a result of each mail')
  const next = store.all(raw<{ next: number }>(`select next_attempt_at - updated_at as next from deliveries`))
  for (const { next: wait } of next) assert.ok(wait <= 5.5 * MINUTE, `${wait / MINUTE} minutes`)
  assert.deepEqual(used(), [MAILS, MAILS], 'what a killed process did is not known')
})
