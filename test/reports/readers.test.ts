// Reading reports in worker threads: what one costs, and that it harms no other (DV54, DV97).
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { NoWorker } from '../../src/base/threads/pool.ts'
import { PIECE } from '../../src/reports/reading/fold.ts'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { costing, within } from '../kit/cost.ts'
import { dmarc, gzip, multipart, part, policy, record, TIMES, tls, utf16 } from './written.ts'
import { readReport } from './whole.ts'

const MB = 1024 * 1024
const reader = reportReader()

/** What was read; throws when it was refused. */
function read<Each extends { outcome: 'read' | 'refused' }>(reading: Each): Extract<Each, { outcome: 'read' }> {
  assert.equal(reading.outcome, 'read')
  return reading as Extract<Each, { outcome: 'read' }>
}

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
  assert.equal(reading.report.sums.records, LIMITS.records)
  // Only work of another order exceeds it; `npm run bench -- reports` shows the turns themselves.
  within(60, longest)
})

/** Rows of a report, as it is handed over. */
async function handed(octets: Uint8Array, from = 0): Promise<unknown[]> {
  const rows: unknown[] = []
  await reader.handOver(octets, from, (piece) => {
    assert.equal(piece.at, from + rows.length)
    rows.push(...(JSON.parse(piece.rows) as unknown[]))
    assert.equal(piece.end, from + rows.length)
    return Promise.resolve(true)
  })
  return rows
}

test('all policies of a TLS report are handed over', async () => {
  const octets = Buffer.from(JSON.stringify(tls({ policies: Array.from({ length: 1000 }, () => policy()) })))
  const { report } = read(readReport(octets, TIMES))
  assert.ok(report.kind === 'tls')
  const { policies, ...rest } = report
  const about = [{ type: 'sts', domain: 'example.com' }]
  const sums = { policies: 1000, success: 10_000, failure: 2000, about }
  assert.deepEqual(await reader.read(octets, TIMES), { outcome: 'read', report: { ...rest, sums }, rows: null })
  assert.deepEqual(await handed(octets), policies)
  assert.deepEqual(await handed(octets, 990), policies.slice(990))
})

/** As large as a report may be, its records as wide: no two are summed into one row. */
function widest(): Buffer {
  const names = (n: number): string =>
    Array.from(
      { length: 7 },
      (_, at) => `<dkim><domain>s${n}-${at}.a-long-name.example</domain><result>pass</result></dkim>`,
    ).join('')
  return Buffer.from(
    dmarc({
      records: Array.from({ length: LIMITS.records }, (_, n) =>
        record({ address: `10.0.${n >> 8}.${n & 255}`, results: names(n) }),
      ).join(''),
    }),
  )
}

test('a large report comes in sums and in small pieces, each when the last is done with (DV54)', async () => {
  const octets = widest()
  const reading = await reader.read(octets, TIMES)
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
  assert.equal(reading.report.sums.records, LIMITS.records)
  assert.equal(reading.rows, null)
  assert.ok(JSON.stringify(reading).length < 2000, 'more than sums')
  const sizes: number[] = []
  const addresses = new Set<string>()
  let outstanding = 0
  await reader.handOver(octets, 0, async ({ at, end, rows }) => {
    assert.equal(++outstanding, 1, 'a piece came before the last was done with')
    assert.equal(at, addresses.size)
    assert.ok(end - at <= PIECE.rows && rows.length <= PIECE.text + 2 * PIECE.rows, `${end - at} rows, ${rows.length}`)
    for (const [address] of JSON.parse(rows) as [string][]) addresses.add(address)
    assert.equal(end, addresses.size)
    sizes.push(end - at)
    // Others would come meanwhile.
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
    outstanding--
    return true
  })
  assert.equal(addresses.size, LIMITS.records)
  assert.ok(sizes.length >= LIMITS.records / PIECE.rows)
})

test('no piece comes when no more are wanted, or when one could not be stored', async () => {
  const octets = widest()
  let pieces = 0
  await reader.handOver(octets, 0, () => Promise.resolve(++pieces < 3))
  assert.equal(pieces, 3)
  const failing = reader.handOver(octets, 0, () => {
    pieces++
    return Promise.reject(new Error('the disk is full'))
  })
  await assert.rejects(failing, /the disk is full/)
  assert.equal(pieces, 4)
})

test('large reports are read one at a time, and small ones wait for none of them (DV54)', async () => {
  const octets = widest()
  const under = Promise.withResolvers<boolean>()
  const begun = Promise.withResolvers<void>()
  const first = reader.handOver(octets, 0, () => {
    begun.resolve()
    return under.promise
  })
  await begun.promise
  let done = 0
  const flood = Array.from({ length: 3 }, () => reader.read(octets, TIMES).then(() => done++))
  for (let n = 0; n < 20; n++) assert.equal((await reader.read(Buffer.from(dmarc()), TIMES)).outcome, 'read')
  assert.equal(done, 0, 'two large reports were read at once')
  under.resolve(false)
  await Promise.all([first, ...flood])
  assert.equal(done, 3)
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
