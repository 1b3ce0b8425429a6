// The reader of aggregate reports. What it reads is within its limits, in canonical forms, and one line each.
import assert from 'node:assert/strict'
import { hasControls } from '../../src/base/clean-text.ts'
import { gunzip, unzip } from '../../src/reports/reading/archive.ts'
import { FoldedRecords, MAX_NAMES, MOST_KEPT } from '../../src/reports/reading/fold.ts'
import { LIMITS, UnreadableReport, type DmarcRecord } from '../../src/reports/reading/report.ts'
import { addressOf, domainOf } from '../../src/reports/reading/values.ts'
import { dmarc, gzip, mail, multipart, part, policy, record, TIMES, tls, utf16, zip } from '../reports/written.ts'
import { readReport, type WholeReport } from '../reports/whole.ts'
import { around, both, of, type Parser } from './parser.ts'

const isCount = (count: number): boolean => Number.isInteger(count) && count >= 0 && count < 2 ** 31

/** No message is lost where records become sums. */
function demandFolded(records: readonly DmarcRecord[]): void {
  const folded = new FoldedRecords()
  for (const each of records) folded.add(each)
  const sources = folded.sources()
  assert.equal(
    sources.reduce((sum, { messages }) => sum + messages, 0),
    records.reduce((sum, { count }) => sum + count, 0),
  )
  assert.ok(sources.length <= MOST_KEPT + 1)
  for (const { dkim_domains, spf_domains } of sources)
    assert.ok(dkim_domains.length <= MAX_NAMES && spf_domains.length <= MAX_NAMES)
}

function demandSound(report: WholeReport): void {
  const { begin, email, end, org, reportId } = report
  const texts = [email, org, reportId]
  assert.ok(begin <= end && end <= TIMES.now / 1000 + LIMITS.ahead && end - begin <= LIMITS.period)
  if (report.kind === 'dmarc') {
    demandFolded(report.records)
    assert.ok(report.records.length + report.skippedRecords <= LIMITS.records)
    texts.push(report.domain, ...Object.values(report.policy))
    for (const { address, count, dkimDomains, headerFrom, reasons, spfDomains } of report.records) {
      assert.ok(isCount(count) && reasons.length <= LIMITS.reasons)
      assert.ok(dkimDomains.length + spfDomains.length <= LIMITS.results)
      assert.equal(addressOf(address), address)
      assert.equal(domainOf(headerFrom), headerFrom)
      texts.push(...dkimDomains, ...spfDomains, ...reasons.flatMap(({ comment, type }) => [comment, type]))
    }
  } else
    for (const { domain, failure, results, success } of report.policies) {
      assert.ok(isCount(success) && isCount(failure))
      texts.push(domain, ...results.map(({ type }) => type))
    }
  for (const text of texts) assert.ok(text.isWellFormed() && !hasControls(text) && text.length <= LIMITS.text)
}

const [BEFORE = '', AFTER = ''] = dmarc({ records: '|' }).split('|')
const json = (more: object = {}): Buffer => Buffer.from(JSON.stringify(tls(more)))

/** Whole forms of a report, with so many records or policies that it has about these octets. */
function forms(octets: number): Buffer[] {
  const records = record().repeat(Math.ceil(octets / record().length))
  const xml = dmarc({ records })
  const policies = Array.from({ length: Math.ceil(octets / 250) }, () => policy())
  return [
    Buffer.from(xml),
    utf16(xml),
    json({ policies }),
    mail(part(xml, 'quoted-printable')),
    multipart([part('<p>Report</p>', '7bit', 'Content-Type: text/html'), part(gzip(xml))], 3),
    gzip(xml),
    zip([{ content: xml }]),
    zip([{ content: xml, method: 0 }]),
  ]
}

export const REPORTS: Record<string, Parser> = {
  'aggregate reports': {
    files: [
      'reports/reading/read.ts',
      'reports/reading/encoding.ts',
      'reports/reading/feedback-element.ts',
      'reports/reading/dmarc.ts',
      'reports/reading/fold.ts',
      'reports/reading/tls.ts',
      'reports/reading/values.ts',
    ],
    seeds: both(
      forms,
      around(
        [BEFORE, '<record>', AFTER],
        [BEFORE, '<!-- -->', AFTER],
        [BEFORE, '&amp;', AFTER],
        [BEFORE, '&a', AFTER],
        [`${BEFORE}<a `, 'a="" ', `/>${AFTER}`],
        [`${BEFORE}<![CDATA[`, ']', `]]>${AFTER}`],
        ['<!DOCTYPE feedback [', '<!ENTITY a "&b;">', `]>${AFTER}`],
        ['<a>', '</b>', AFTER],
        ['{"policies":[', '{"policy":{}},', '{}]}'],
        ['{"policies":"', '\\ud800', '"}'],
      ),
      of('<feedback>', '\xff\xfe<\0', '{', '[{', '"\\'),
    ),
    parse: (bytes) => {
      const reading = readReport(bytes, TIMES)
      if (reading.outcome === 'read') demandSound(reading.report)
    },
  },
  'archives of reports': {
    files: ['reports/reading/archive.ts'],
    seeds: (octets) => {
      const content = dmarc({ records: record().repeat(Math.ceil(octets / 40)) })
      const members = Array.from({ length: Math.ceil(octets / 300) }, () => gzip(record()))
      const folders = Array.from({ length: Math.ceil(octets / 200) }, (_, n) => ({ name: `${n}/`, content: '' }))
      return [
        gzip(content),
        Buffer.concat(members),
        zip([{ content }]),
        zip([{ content: content.slice(0, octets), method: 0 }], { comment: 'PK\x05\x06' }),
        zip([...folders, { content }]),
      ]
    },
    parse: (bytes) => {
      const octets = bytes[0] === 0x1f ? gunzip(bytes) : unzip(bytes)
      assert.ok(octets.length <= LIMITS.unpacked)
    },
    declared: (thrown) => thrown instanceof UnreadableReport,
  },
}
