// kill -9 before a large aggregate report is read, and after it is recorded. After the next start it is listed once and
// counts once.
//
// The servers are separate processes, `postrider serve`, with the system's clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { deliver } from '../kit/sender.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { DAY, DMARC_TO, dmarcReport, mailWith, signerOf } from '../reports/reporter.ts'

const FROM = 'noreply@google.test'
/** The most records of a report. Its largest sources are kept, and the sum of the others. */
const [RECORDS, KEPT] = [20_000, 201]

test('counts a report once, whenever the process is killed', async () => {
  const dataDir = temporaryDirectory('report-crash')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.appliance.stop()
  const sign = await signerOf(setUp.dns, 'google.test')
  const config = configFor(dataDir, setUp.dns)
  const store = openStore(dataDir)
  const begin = Math.floor(Date.now() / 1000 / DAY) * DAY - DAY
  const records = Array.from({ length: RECORDS }, (_, n) => ({ address: `10.0.${n >> 8}.${n & 255}`, count: 3 }))
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
    await until(() => there('aggregate_reports') > 0, 'the report')
    await killed()
    server = await startServer(config)
    await until(() => there('inbound_waiting') === 0, 'everything read')
    assert.deepEqual(store.all(raw('select outcome, authenticated, records from aggregate_reports')), [
      { outcome: 'read', authenticated: 1, records: RECORDS },
    ])
    assert.deepEqual(store.all(raw('select count(*) as "rows", sum(messages) as messages from dmarc_figures')), [
      { rows: KEPT, messages: RECORDS * 3 },
    ])
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) await killed()
    store.close()
    await setUp.dns.close()
  }
})
