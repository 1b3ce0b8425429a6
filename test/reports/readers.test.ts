// Reports are read in worker threads: their cost, and that they do not affect others.
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { NoWorker } from '../../src/base/threads/pool.ts'
import { MOST_KEPT } from '../../src/reports/reading/fold.ts'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { costing, within } from '../kit/cost.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { dmarc, filled, record, TIMES, tls, widest } from './written.ts'

const reader = reportReader()

after(() => reader.close())

const [BEGIN = '', END = ''] = dmarc({ records: '|' }).split('|')

test('limits the time for 20 MB of any content (a sample of test/hostile/report-content.test.ts)', async () => {
  const policies = JSON.stringify(tls({ policies: 0 })).slice(0, -1)
  for (const [begin, piece, end, expected] of [
    [`${BEGIN}<a>`, '&amp;', `</a>${END}`, 'too_large'],
    ['<a>', '<!--', '', 'not_a_report'],
    [`${policies},"more":[`, '{},', '1]}', 'too_large'],
  ] as const) {
    const reading = await costing(5000, () => reader.read(filled(begin, piece, end), TIMES))
    assert.equal(reading.outcome === 'read' ? reading.report.kind : reading.why, expected, piece)
  }
})

test('reads a report of 20,000 records in 2 s of CPU time without blocking the main thread', async () => {
  const rows = Array.from({ length: LIMITS.records }, (_, n) => record({ address: `10.0.${n >> 8}.${n & 255}` }))
  const bytes = Buffer.from(dmarc({ records: rows.join('') }))
  // The CPU time of a turn of the main thread, independent of the load of the machine.
  let longest = 0
  let before = process.threadCpuUsage()
  let ended = false
  const watch = (): void => {
    const { system, user } = process.threadCpuUsage(before)
    longest = Math.max(longest, (system + user) / 1000)
    before = process.threadCpuUsage()
    if (!ended) setImmediate(watch)
  }
  setImmediate(watch)
  const reading = await costing(2000, () => reader.read(bytes, TIMES))
  ended = true
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
  assert.equal(reading.report.sums.records, LIMITS.records)
  // Only a much larger cost exceeds it. `npm run bench -- reports` shows the turns themselves.
  within(60, longest)
})

test('returns the sums and the largest sources of a large report', async () => {
  const reading = await reader.read(widest(), TIMES)
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
  assert.equal(reading.report.sums.records, LIMITS.records)
  assert.equal(reading.report.sources.length, MOST_KEPT + 1)
  assert.ok(JSON.stringify(reading).length < 200_000)
})

test('reads a file of the spool, and fails if it is missing', async () => {
  const folder = temporaryDirectory('reports')
  const file = join(folder, 'message')
  writeFileSync(file, dmarc())
  assert.equal((await reader.read({ file }, TIMES)).outcome, 'read')
  rmSync(folder, { recursive: true })
  await assert.rejects(reader.read({ file }, TIMES), /is missing/)
})

test('rejects reports after it was closed', async () => {
  const other = reportReader()
  const under = other.read(Buffer.from(dmarc()), TIMES)
  const refused = assert.rejects(under, NoWorker)
  await other.close()
  await refused
  await assert.rejects(other.read(Buffer.from(dmarc()), TIMES), NoWorker)
})
