// Reading reports in worker threads: what one costs, and that it harms no other (DV54, DV97).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { NoWorker } from '../../src/base/threads/pool.ts'
import { readReport } from '../../src/reports/reading/read.ts'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { costing, within } from '../kit/cost.ts'
import { dmarc, gzip, multipart, part, policy, record, TIMES, tls, utf16 } from './written.ts'

const MB = 1024 * 1024
const reader = reportReader()
after(() => reader.close())

const [BEGIN = '', END = ''] = dmarc({ records: '|' }).split('|')

/** What is said of some octets; memory may grow by 100 MB meanwhile. */
async function said(octets: Buffer): Promise<string> {
  const before = process.memoryUsage.rss()
  let most = before
  const looks = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5)
  const reading = await reader.read(octets, TIMES)
  clearInterval(looks)
  assert.ok(most - before < 100 * MB, `${Math.round((most - before) / MB)} MB`)
  return reading.outcome === 'read' ? reading.report.kind : reading.why
}

/** 20 MB of a piece, between two texts. */
function filled(begin: string, piece: string, end: string): Buffer {
  const times = Math.floor((LIMITS.unpacked - Buffer.byteLength(begin + end)) / Buffer.byteLength(piece))
  return Buffer.concat([Buffer.from(begin), Buffer.alloc(times * Buffer.byteLength(piece), piece), Buffer.from(end)])
}

describe('20 MB of anything end in time and memory (DV54)', () => {
  for (const [begin, piece, end, expected] of [
    ['<!--', 'x', '-->', 'dmarc'],
    ['', '<!-- -->', '', 'dmarc'],
    ['<a>', '<![CDATA[]]>', '</a>', 'dmarc'],
    // Each octet is a piece of text of its own.
    ['<a><![CDATA[', ']', ']]></a>', 'too_large'],
    ['<!--', '- ', '-->', 'too_large'],
    ['<?a ', '?', '?>', 'too_large'],
    ['', ' ', '', 'too_large'],
    ['<a>', '&amp;', '</a>', 'too_large'],
    ['<a>', '&#x1f4e7;', '</a>', 'too_large'],
    ['<a>&', 'a', '</a>', 'malformed'],
    ['<a b="', '&lt;', '"/>', 'too_large'],
    ['<a ', 'b="" ', '/>', 'too_large'],
    ['<', 'a', '/>', 'too_large'],
    ['', '<a>', '', 'too_large'],
    ['', '</a>', '', 'malformed'],
    ['', '<record/>', '', 'too_large'],
    ['<record><auth_results>', '<dkim/>', '</auth_results></record>', 'too_large'],
    ['<record><row><policy_evaluated>', '<reason></reason>', '</policy_evaluated></row></record>', 'dmarc'],
  ] as const)
    test(`in the element: ${begin}${piece}`, async () => {
      assert.equal(await said(filled(BEGIN + begin, piece, end + END)), expected)
    })

  for (const piece of ['<', '<a:', '<!--', '<?', '<![CDATA[', '<feedbac', ' ', '&', '\0', '--><!--', ']]>'])
    test(`before the element: ${JSON.stringify(piece)}`, async () => {
      assert.equal(await said(filled('<a>', piece, '')), 'not_a_report')
    })

  test('UTF-16', async () => {
    assert.equal(await said(utf16(BEGIN + '<!-- comment -->'.repeat(660_000) + END)), 'too_large')
    assert.equal(await said(utf16(BEGIN + '<!-- comment -->'.repeat(650_000) + END, true)), 'dmarc')
    assert.equal(await said(utf16(`${BEGIN}<!--${'\u0416'.repeat(10_000_000)}-->${END}`)), 'dmarc')
  })

  for (const [begin, piece, end, expected] of [
    ['[', '{},', '1]', 'too_large'],
    ['[', '1,', '1]', 'too_large'],
    ['[', '"\\u0416aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",', '1]', 'no_policy'],
    ['"', 'a', '"', 'no_policy'],
    ['"', '\\"', '"', 'no_policy'],
    ['"', '\\ud800', '"', 'no_policy'],
    ['"', 'a', '', 'malformed'],
  ] as const)
    test(`JSON: ${begin}${piece}`, async () => {
      const head = JSON.stringify(tls({ policies: 0 })).slice(0, -1)
      assert.equal(await said(filled(`${head},"more":${begin}`, piece, `${end}}`)), expected)
    })

  test('what unpacks to gigabytes', async () => {
    const member = gzipSync(Buffer.alloc(100 * MB))
    assert.equal(await said(Buffer.concat(Array<Buffer>(50).fill(member))), 'too_large')
  })
})

test('a report of 20,000 records is read in 2 s of the processor, and the server never waits for it (DV97)', async () => {
  const rows = Array.from({ length: LIMITS.records }, (_, n) => record({ address: `10.0.${n >> 8}.${n & 255}` }))
  const octets = Buffer.from(dmarc({ records: rows.join('') }))
  // What the thread of the server does in a turn: its own CPU time, however busy the machine is.
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
  const reading = await costing(2000, () => reader.read(octets, TIMES))
  ended = true
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
  assert.equal(reading.report.records.length, LIMITS.records)
  assert.deepEqual(reading, readReport(octets, TIMES))
  // Only work of another order exceeds it; `npm run bench -- reports` shows the turns themselves.
  within(60, longest)
})

test('TLS reports come whole', async () => {
  const octets = Buffer.from(JSON.stringify(tls({ policies: Array.from({ length: 1000 }, () => policy()) })))
  assert.deepEqual(await reader.read(octets, TIMES), readReport(octets, TIMES))
})

test('a report that takes too long is refused, and the next one is read meanwhile (DV54)', async () => {
  // Each part unpacks to 20 MB that are not a report.
  const slow = part(gzip(filled('<a>', '<!--', '')))
  const endless = reader.read(multipart(Array<Buffer>(490).fill(slow)), TIMES)
  let isOver = false
  void endless.then(() => (isOver = true))
  for (let n = 0; n < 5; n++) {
    const next = await reader.read(Buffer.from(dmarc()), TIMES)
    assert.equal(next.outcome, 'read')
    assert.ok(!isOver, 'the next report waited for the slow one')
  }
  assert.deepEqual(await endless, { outcome: 'refused', why: 'too_large' })
})

test('a file of the spool is read; one that is not there is a fault of this machine', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-reports-'))
  const file = join(folder, 'message')
  writeFileSync(file, dmarc())
  assert.equal((await reader.read({ file }, TIMES)).outcome, 'read')
  rmSync(folder, { recursive: true })
  await assert.rejects(reader.read({ file }, TIMES), /is not there/)
})

test('after the end nothing is read', async () => {
  const other = reportReader()
  const under = other.read(Buffer.from(dmarc()), TIMES)
  const refused = assert.rejects(under, NoWorker)
  await other.close()
  await refused
  await assert.rejects(other.read(Buffer.from(dmarc()), TIMES), NoWorker)
})
