// kill -9 over a large aggregate report: before it is read, before its rows are counted, and between two pieces of
// them. After the next start it is listed once, and each of its rows counts once.
//
// The servers are processes of their own, `postrider serve`, with the system's clock.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { deliver } from '../kit/sender.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { DAY, DMARC_TO, dmarcReport, mailWith, signerOf } from '../reports/reporter.ts'

const FROM = 'noreply@google.test'
/** Enough for many pieces. A day keeps 5,000 rows, and the sum of the others in one. */
const [ROWS, KEPT] = [20_000, 5001]

test('a report counts once, whenever the process dies over it', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'postrider-report-crash-'))
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.appliance.stop()
  const sign = await signerOf(setUp.dns, 'google.test')
  const config = configFor(dataDir, setUp.dns)
  const store = openStore(dataDir)
  const begin = Math.floor(Date.now() / 1000 / DAY) * DAY - DAY
  const records = Array.from({ length: ROWS }, (_, n) => ({ address: `10.0.${n >> 8}.${n & 255}`, count: 3 }))
  const content = gzipSync(dmarcReport({ begin, records }))
  const message = await sign(mailWith(content, { from: FROM, to: DMARC_TO }))
  const there = (table: string): number => store.one(raw<{ n: number }>(`select count(*) as n from ${table}`)).n
  let server: Server | undefined
  const killed = async (): Promise<void> => {
    server?.process.kill('SIGKILL')
    assert.equal(await server?.ended, 'SIGKILL')
  }
  try {
    server = await startServer(config)
    const [verdict] = await deliver({ host: '127.0.0.1', port: server.smtp[0]! }, { from: FROM, to: DMARC_TO, message })
    await killed()
    assert.equal(verdict?.kind, 'delivered')
    assert.equal(there('inbound_messages'), 1)
    server = await startServer(config)
    await until(() => there('report_pieces') > 0, 'rows that wait')
    await killed()
    const waiting = there('report_pieces')
    assert.equal(there('inbound_waiting'), 0)
    assert.equal(there('aggregate_reports'), 1)
    server = await startServer(config)
    await until(() => there('dmarc_figures') > 0, 'the first piece')
    await killed()
    const counted = store.one(raw<{ n: number }>('select sum(messages) as n from dmarc_figures')).n
    assert.ok(waiting > 0 && there('report_pieces') > 0, 'nothing waited when it died')
    assert.ok(counted < ROWS * 3, 'all was counted when it died')
    server = await startServer(config)
    await until(() => there('report_pieces') === 0, 'all counted')
    assert.deepEqual(store.all(raw('select outcome, authenticated, records from aggregate_reports')), [
      { outcome: 'read', authenticated: 1, records: ROWS },
    ])
    assert.deepEqual(store.all(raw('select count(*) as "rows", sum(messages) as messages from dmarc_figures')), [
      { rows: KEPT, messages: ROWS * 3 },
    ])
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) await killed()
    store.close()
    await setUp.dns.close()
    rmSync(dataDir, { recursive: true, force: true })
  }
})
