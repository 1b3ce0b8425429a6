// The elements of DMARC reports, and the meaning of their values.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { DmarcRecord } from '../../src/reports/reading/report.ts'
import { BEGIN, dmarc, END, record, TIMES, utf16 } from './written.ts'
import { readReport, type WholeDmarcReport } from './whole.ts'

function read(bytes: string | Buffer, times: { now: number; oldest: number | null } = TIMES): WholeDmarcReport {
  const reading = readReport(Buffer.from(bytes), times)
  assert.equal(reading.outcome, 'read', reading.outcome === 'refused' ? reading.why : '')
  assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
  return reading.report
}

function why(bytes: string | Buffer, times: { now: number; oldest: number | null } = TIMES): string {
  const reading = readReport(Buffer.from(bytes), times)
  return reading.outcome === 'refused' ? reading.why : 'read'
}

const only = (made: string): DmarcRecord => {
  const { records } = read(dmarc({ records: made }))
  assert.equal(records.length, 1)
  return records[0]!
}

describe('the element "feedback" is read', () => {
  test('in any namespace, with any prefix', () => {
    const plain = read(dmarc())
    const prefixed = dmarc().replace(/<(\/?)(?=[a-z])/g, '<$1ns0:')
    for (const xml of [dmarc({ attributes: ' xmlns="http://else.example/"' }), prefixed])
      assert.deepEqual(read(xml), plain)
    assert.equal(read(dmarc({ attributes: ' xmlns="urn:ietf:params:xml:ns:dmarc-2.0"' })).form, 'rfc9990')
    assert.equal(plain.form, 'rfc7489')
  })

  test('with any text before and after it', () => {
    const plain = read(dmarc())
    for (const before of [
      '',
      'text & more < > ',
      '<a><b>',
      '</a>',
      '\ufeff<?xml version="1.0"?>',
      '<!-- <feedback> -->',
      ' \n<?xml version="1.0"?>',
    ])
      assert.deepEqual(read(`<?a?>${dmarc({ before })}`), plain, before)
    for (const behind of ['<feedback>', '&nonsense;', '</b>', '<', '<!DOCTYPE a>', '\0\0'])
      assert.deepEqual(read(dmarc({ behind })), plain, behind)
  })

  test('wherever the text is cut into pieces', () => {
    const prefixed = dmarc().replace(/<(\/?)(?=[a-z])/g, `<$1${'n'.repeat(64)}:`)
    for (const xml of [dmarc(), prefixed])
      for (const [begin, piece, end] of [
        ['<a>', ' ', ''],
        ['<!--', '<feedback>', '-->'],
        ['<![CDATA[', ']', ']]>'],
        ['<?a ', '?', '?>'],
      ] as const)
        for (let behind = 0; behind < 120; behind += 3) {
          const before = (begin + piece.repeat(64 * 1024)).slice(0, 64 * 1024 - behind) + end
          assert.equal(read(before + xml).reportId, 'one', `${begin}, ${behind}`)
        }
  })

  test('by name and path, using the first of each element', () => {
    const more = '<extensions><domain>b.example</domain><row><count>9</count></row></extensions>'
    const published = `<tool><domain>c.example</domain></tool><domain>example.com</domain><domain>d.example</domain><p>none</p><p>reject</p>${more}`
    const { domain, policy, records } = read(
      dmarc({ published, records: record({ more: `${more}<row><count>7</count></row>` }) }),
    )
    assert.deepEqual(
      { domain, policy, count: records[0]?.count },
      { domain: 'example.com', policy: { p: 'none' }, count: 3 },
    )
    // The first metadata count as a whole, an empty value too.
    const twice = dmarc().replace(
      '</report_metadata>',
      '</report_metadata><report_metadata><report_id>two</report_id></report_metadata>',
    )
    assert.equal(read(twice).reportId, 'one')
    assert.equal(why(dmarc({ id: '<report_id/><report_id>two</report_id>' })), 'no_id')
  })

  test('with trimmed values in any case, through comments, CDATA, entities and references', () => {
    const id = '<report_id>\n a<!-- b -->&lt;&#65;&#x42;<![CDATA[<&]]>c <x>d</x></report_id>'
    const published = '<domain> EXAMPLE.Com. </domain><p> Reject </p><adkim/>'
    const report = read(
      dmarc({
        id,
        published,
        records: record({ evaluated: '<disposition>REJECT</disposition><dkim> Pass</dkim><spf>FAIL</spf>' }),
      }),
    )
    assert.equal(report.reportId, 'a<AB<&c')
    assert.deepEqual([report.domain, report.policy, report.faults], ['example.com', { p: 'reject' }, ['case']])
    const { disposition, dkim, spf } = report.records[0]!
    assert.deepEqual([disposition, dkim, spf], ['reject', 'pass', 'fail'])
  })

  test('with every text on one line', () => {
    const { org } = read(dmarc({ metadata: '<org_name>a\n\t&#x85;b&#x2028;c</org_name>' }))
    assert.equal(org, 'a b c')
    assert.equal(read(dmarc({ metadata: '' })).org, '')
  })

  test('in every supported encoding', () => {
    const metadata = '<org_name>Größe</org_name>'
    const declared = (name: string): string => dmarc({ metadata, before: `<?xml version="1.0" encoding="${name}"?>` })
    const orgOf = (bytes: Buffer): [string, string[]] => [read(bytes).org, read(bytes).faults]
    assert.deepEqual(orgOf(Buffer.from(declared('UTF-8'))), ['Größe', []])
    assert.deepEqual(orgOf(Buffer.from(`\ufeff${declared('iso-8859-1')}`)), ['Größe', []])
    assert.deepEqual(orgOf(Buffer.from(declared('iso-8859-1'), 'latin1')), ['Größe', []])
    assert.deepEqual(orgOf(Buffer.from(declared('Windows-1252').replace('ö', '\x80'), 'latin1')), ['Gr€ße', []])
    assert.deepEqual(orgOf(utf16(declared('utf-16'))), ['Größe', []])
    assert.deepEqual(orgOf(utf16(declared('utf-16'), true)), ['Größe', []])
    assert.deepEqual(orgOf(Buffer.from(declared('utf-16'))), ['Größe', []])
    // Invalid bytes are replaced.
    for (const name of ['utf-8', 'us-ascii'])
      assert.deepEqual(orgOf(Buffer.from(declared(name), 'latin1')), ['Gr\ufffd\ufffde', ['encoding']])
    assert.deepEqual(orgOf(Buffer.concat([utf16(declared('utf-16')).subarray(0, -2), Buffer.from([0, 0xd8])])), [
      'Größe',
      ['encoding'],
    ])
    assert.equal(why(declared('ebcdic')), 'malformed')
  })

  test('and rejected as malformed if it is invalid', () => {
    for (const records of [
      '<a></b>',
      '</b>',
      '<a/></feedbac></feedback>',
      '<a',
      '&nbsp;',
      '&a',
      '<a b=c/>',
      '<a b="1" b="2"/>',
      '\0',
      '&#0;',
      '&#xd800;',
      '<',
      '<!-- -- -->',
      ']]>',
    ])
      assert.equal(why(dmarc({ records })), 'malformed', records)
    assert.equal(why(dmarc().replace('</feedback>', '')), 'malformed')
  })
})

describe('a report needs', () => {
  const ranged = (begin: unknown, end: unknown): string =>
    dmarc({ range: `<begin>${String(begin)}</begin><end>${String(end)}</end>` })

  test('a domain and an id', () => {
    assert.equal(why(dmarc({ published: '<p>none</p>' })), 'no_domain')
    assert.equal(why(dmarc({ published: '<domain> . </domain>' })), 'no_domain')
    assert.equal(why(dmarc({ id: '' })), 'no_id')
  })

  test('a period in whole seconds, not reversed, at most two days ahead, and at most 32 days long', () => {
    const ahead = TIMES.now / 1000 + 2 * 86_400
    for (const [begin, end, expected] of [
      [BEGIN, BEGIN, 'read'],
      [END - 32 * 86_400, END, 'read'],
      [END - 32 * 86_400 - 1, END, 'date_range'],
      [END, BEGIN, 'date_range'],
      [ahead - 1, ahead, 'read'],
      [ahead, ahead + 1, 'date_range'],
      ['', END, 'date_range'],
      [`${BEGIN}.5`, END, 'date_range'],
      ['1e9', END, 'date_range'],
      [-1, 5, 'date_range'],
      ['2026-09-21', END, 'date_range'],
      ['9'.repeat(30), '9'.repeat(30), 'date_range'],
      [0, 0, 'read'],
    ])
      assert.equal(why(ranged(begin, end)), expected, `${String(begin)} to ${String(end)}`)
  })

  test('an end after the oldest time, if there is one', () => {
    const times = { now: TIMES.now, oldest: END * 1000 }
    assert.equal(why(dmarc(), times), 'read')
    assert.equal(why(dmarc(), { ...times, oldest: END * 1000 + 1 }), 'too_old')
    assert.equal(why(ranged(0, 1)), 'read')
  })
})

describe('records', () => {
  test('need an address and a whole count of 0 to 2^31 - 1', () => {
    const records = [
      ...['0', '2147483647', ' 7 '].map((count) => record({ count })),
      ...['2147483648', '-1', '1.0', '1e3', '', 'x', '0x1', '9'.repeat(40), '١'].map((count) => record({ count })),
      ...['', 'x', '192.0.2', '192.0.2.010', '1.2.3.4.5', 'fe80::1%eth0', '[::1]', '::g'].map((address) =>
        record({ address }),
      ),
    ]
    const report = read(dmarc({ records: records.join('') }))
    assert.deepEqual([report.records.map(({ count }) => count), report.skippedRecords], [[0, 2147483647, 7], 17])
  })

  test('addresses are in canonical form', () => {
    for (const [written, canonical] of [
      ['2001:DB8:0:0:0:0:0:5', '2001:db8::5'],
      ['2001:db8::0:5', '2001:db8::5'],
      ['::FFFF:192.0.2.1', '192.0.2.1'],
      ['::ffff:c000:201', '192.0.2.1'],
      ['192.0.2.1', '192.0.2.1'],
      ['::', '::'],
    ] as const)
      assert.equal(only(record({ address: written })).address, canonical)
  })

  test('pass if policy_evaluated is pass, and fail for missing and unknown values', () => {
    const passed =
      '<dkim><domain>a.example</domain><result>pass</result></dkim><spf><domain>b.example</domain><result>pass</result></spf>'
    for (const evaluated of ['', '<dkim/><spf/>', '<dkim>none</dkim><spf>softfail</spf>', '<dkim>passed</dkim>']) {
      const { disposition, dkim, dkimDomains, spf, spfDomains } = only(record({ evaluated, results: passed }))
      assert.deepEqual([disposition, dkim, spf], ['none', 'fail', 'fail'], evaluated)
      assert.deepEqual([dkimDomains, spfDomains], [['a.example'], ['b.example']])
    }
    assert.equal(only(record({ evaluated: '<disposition>pass</disposition>' })).disposition, 'pass')
    assert.equal(only(record({ evaluated: '<disposition>maybe</disposition>' })).disposition, 'none')
  })

  test('name each passing domain once, and reasons in lower case', () => {
    const result = (kind: string, domain: string, verdict: string): string =>
      `<${kind}><domain>${domain}</domain><result>${verdict}</result></${kind}>`
    const results = [
      result('dkim', 'A.example.', 'Pass'),
      result('dkim', 'a.example', 'pass'),
      result('dkim', 'b.example', 'fail'),
      result('dkim', '', 'pass'),
      result('spf', 'c.example', 'pass'),
    ].join('')
    const evaluated = '<reason><type>Forwarded</type><comment> by\na list </comment></reason><reason/>'
    const made = only(record({ evaluated, results }))
    assert.deepEqual([made.dkimDomains, made.spfDomains], [['a.example'], ['c.example']])
    assert.deepEqual(made.reasons, [
      { type: 'forwarded', comment: 'by a list' },
      { type: '', comment: '' },
    ])
    assert.equal(made.headerFrom, 'example.com')
  })
})
