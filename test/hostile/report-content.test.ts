// Reports of any content are read within limits of time and memory, and large or slow ones do not delay small ones.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { dmarc, filled, gzip, multipart, part, TIMES, tls, utf16, widest } from '../reports/written.ts'

const MB = 1024 * 1024
const reader = reportReader()

after(() => reader.close())

const [BEGIN = '', END = ''] = dmarc({ records: '|' }).split('|')

/** The result for these bytes. Memory can grow by 100 MB. */
async function said(bytes: Buffer): Promise<string> {
  const before = process.memoryUsage.rss()
  let most = before
  const looks = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5)
  const reading = await reader.read(bytes, TIMES)
  clearInterval(looks)
  assert.ok(most - before < 100 * MB, `${Math.round((most - before) / MB)} MB`)
  return reading.outcome === 'read' ? reading.report.kind : reading.why
}

describe('limits time and memory for 20 MB of any content', () => {
  for (const [begin, piece, end, expected] of [
    ['<!--', 'x', '-->', 'dmarc'],
    ['', '<!-- -->', '', 'dmarc'],
    ['<a>', '<![CDATA[]]>', '</a>', 'dmarc'],
    // Each byte is a separate piece of text.
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

  test('gigabytes unpacked', async () => {
    const member = gzipSync(Buffer.alloc(100 * MB))
    assert.equal(await said(Buffer.concat(Array<Buffer>(50).fill(member))), 'too_large')
  })
})

test('reads small reports before large ones that arrived earlier', async () => {
  const bytes = widest()
  let done = 0
  const flood = Array.from({ length: 3 }, () => reader.read(bytes, TIMES).then(() => done++))
  assert.equal((await reader.read(Buffer.from(dmarc()), TIMES)).outcome, 'read')
  assert.ok(done < 2, 'a small report waited for large ones')
  await Promise.all(flood)
})

test('rejects a report that takes too long, and reads others until then', async () => {
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
