// A server process under hostile mail: corpora, seeded mutations of them, and bombs (bombs.ts), with ordinary mail in
// between. It must not crash, must keep every byte, bring every message into a final state, and give ordinary mail its
// real verdicts. POSTRIDER_HOSTILE is the number of hostile messages (`npm run test:hostile`: 2,000). Times are printed
// but not checked, because they depend on the machine.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { memoryOf } from '../kit/memory.ts'
import { deliver } from '../kit/sender.ts'
import { configFor, startServer } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { hostile, MANY } from './mails.ts'

const LANES = 4
const EVERY = 20
/** Honest mail has another client, where loopback has more than one address. */
const HONEST = process.platform === 'linux' ? { localAddress: '127.0.0.2' } : {}

const share = (values: number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? 0

test(
  `${MANY} hostile messages: the server survives, all finish, and genuine mail is evaluated correctly`,
  { timeout: 3_600_000 },
  async () => {
    const dataDir = temporaryDirectory('hostile')
    const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
    await setUp.activeDomain('here.test')
    for (const name of ['hostile', 'honest'])
      await setUp.api('POST', '/inboxes', document('inboxes', { name, address: `${name}@here.test` }))
    await setUp.appliance.stop()
    setUp.dns.set('honest.test', 'TXT', ['v=spf1 ip4:127.0.0.0/8 -all'])
    setUp.dns.set('_dmarc.honest.test', 'TXT', ['v=DMARC1; p=reject'])
    const server = await startServer(configFor(dataDir, setUp.dns))
    const store = openStore(dataDir)
    const health: number[] = []
    const readable: number[] = []
    let memory = 0
    let done = false
    const watch = async (): Promise<void> => {
      while (!done) {
        const asked = performance.now()
        assert.equal((await fetch(`${server.url}/health`)).status, 200)
        health.push(performance.now() - asked)
        memory = Math.max(memory, memoryOf(server.process.pid!))
        await pause(20)
      }
    }
    const honest = async (n: number): Promise<void> => {
      const subject = `honest ${n}`
      const sent = performance.now()
      await deliver(
        { host: '127.0.0.1', port: server.smtp[0]!, ...HONEST },
        {
          from: 'ann@honest.test',
          to: 'honest@here.test',
          message: `From: ann@honest.test\nTo: honest@here.test\nSubject: ${subject}\nMessage-ID: <${n}@honest.test>\n\nHello.\n`,
        },
      )
      const row = await until(
        () =>
          store.first(
            raw<{ authentication: string }>('select authentication from inbound_emails where subject = ?', [subject]),
          ),
        subject,
      )
      readable.push(performance.now() - sent)
      assert.deepEqual(JSON.parse(row.authentication), { spf: 'pass', dkim: 'none', dmarc: 'pass', arc: 'none' })
    }
    let sent = 0
    let refused = 0
    const mails = hostile()[Symbol.iterator]()
    const lane = async (): Promise<void> => {
      for (let next = mails.next(); !next.done; next = mails.next()) {
        const n = ++sent
        const [verdict] = await deliver(
          { host: '127.0.0.1', port: server.smtp[0]! },
          { from: 'eve@there.test', to: 'hostile@here.test', message: next.value },
        )
        if (verdict!.kind !== 'delivered') refused++
        if (n % EVERY === 0) await honest(n)
      }
    }
    try {
      const watched = watch()
      await Promise.race([Promise.all(Array.from({ length: LANES }, lane)), watched])
      await until(() => store.first(raw('select message_key from inbound_waiting')) === undefined, 'all of them read')
      done = true
      await watched
      assert.equal(server.process.exitCode, null)
      const rows = store.all(
        raw<{ status: string; reason: string | null; size: number; kept: number | null; spool: string | null }>(
          `select e.status, e.reason, e.size, length(m.content) as kept, m.spool from inbound_emails e
         join inbound_messages m on m.key = e.message_key where e.sender = 'eve@there.test'`,
        ),
      )
      assert.equal(rows.length, sent - refused, 'each that was taken is there once')
      for (const { kept, size, spool } of rows)
        assert.equal(kept ?? readFileSync(join(dataDir, 'spool', spool!)).length, size, 'every octet is kept')
      const statuses = Object.groupBy(rows, ({ reason, status }) => reason ?? status)
      const counts = Object.fromEntries(Object.entries(statuses).map(([label, of]) => [label, of!.length]))
      const figures = {
        sent,
        refused,
        'RSS MB': Math.round(memory / 1024),
        'health p50 ms': Math.round(share(health, 0.5)),
        'health p99 ms': Math.round(share(health, 0.99)),
        'readable p50 ms': Math.round(share(readable, 0.5)),
        'readable worst ms': Math.round(share(readable, 1)),
        counts,
      }
      console.log(JSON.stringify(figures))
      assert.ok(memory < 500 * 1024, `${Math.round(memory / 1024)} MB`)
      server.process.kill('SIGTERM')
      assert.equal(await server.ended, 0)
    } finally {
      done = true
      store.close()
      if (server.process.exitCode === null && server.process.signalCode === null) {
        server.process.kill('SIGKILL')
        await server.ended
      }
      await setUp.dns.close()
    }
  },
)
