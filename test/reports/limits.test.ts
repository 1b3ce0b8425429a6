// The limits of one report: at a limit it is read, and beyond it is rejected as a whole.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { LIMITS } from '../../src/reports/reading/report.ts'
import { costingAtOnce } from '../kit/cost.ts'
import { dmarc, gzip, policy, record, TIMES, tls, utf16, zip, type ZipFileOf } from './written.ts'
import { readReport } from './whole.ts'

/** The kind of a content, or why it is rejected, within a limit of CPU time (ms). */
function said(bytes: string | Buffer, limit = 5000): string {
  const reading = costingAtOnce(limit, () => readReport(Buffer.from(bytes), TIMES))
  return reading.outcome === 'read' ? reading.report.kind : reading.why
}

const [BEGIN = '', END = ''] = dmarc({ records: '|' }).split('|')
/** A report with this in it. */
const having = (inside: string): string => BEGIN + inside + END
/** A report of exactly this size, filled with a piece. */
function filled(piece: string, bytes: number = LIMITS.unpacked, [begin, end] = [BEGIN, END]): Buffer {
  const times = Math.floor((bytes - begin.length - end.length) / piece.length)
  return Buffer.from((begin + piece.repeat(times) + end).padEnd(bytes))
}

describe('sizes', () => {
  test('20 MB unpacked, in every form of an archive', () => {
    const full = filled('<!-- comment -->')
    const more = Buffer.concat([full, Buffer.from(' ')])
    for (const pack of [(bytes: Buffer) => bytes, gzip, (content: Buffer) => zip([{ content }])]) {
      assert.equal(said(pack(full)), 'dmarc')
      assert.equal(said(pack(more)), 'too_large')
    }
    const half = full.length / 2
    const members = [full.subarray(0, half), full.subarray(half)].map(gzip)
    assert.equal(said(Buffer.concat(members)), 'dmarc')
    assert.equal(said(Buffer.concat([...members, gzip(' ')])), 'too_large')
  })

  test('10 MB of an archive', () => {
    // Stored, so that the archive is as large as the report.
    const content = filled('<!-- comment -->', LIMITS.archive - 116)
    assert.equal(zip([{ content, method: 0 }]).length, LIMITS.archive + 2)
    assert.equal(said(zip([{ content: content.subarray(0, -2), method: 0 }])), 'dmarc')
    assert.equal(said(zip([{ content, method: 0 }])), 'too_large')
  })

  test('gigabytes unpacked cost no more than 20 MB', () => {
    // Ten times the same member: 1 GB.
    const member = gzip(Buffer.alloc(100_000_000))
    const bomb = Buffer.concat(Array<Buffer>(10).fill(member))
    const before = process.memoryUsage.rss()
    assert.equal(said(bomb, 500), 'too_large')
    assert.ok(process.memoryUsage.rss() - before < 100 * 1024 * 1024)
    const deflated: ZipFileOf = { content: Buffer.alloc(100_000_000), unpacked: 100, packed: 100 }
    assert.equal(said(zip([deflated]), 2000), 'too_large')
    // As many members as a report never has.
    assert.equal(said(Buffer.concat(Array<Buffer>(LIMITS.members).fill(gzip('')))), 'not_a_report')
    assert.equal(said(Buffer.concat(Array<Buffer>(400_000).fill(gzip(''))), 500), 'too_large')
  })

  test('20,000 records', () => {
    const rows = record().repeat(LIMITS.records - 1)
    // One that is skipped counts too.
    assert.equal(said(having(rows + record({ count: '' }))), 'dmarc')
    assert.equal(said(having(rows + record({ count: '' }) + record())), 'too_large')
  })

  test('100 results and 20 reasons of a record, ignoring the rest', () => {
    const results = Array.from(
      { length: 150 },
      (_, n) => `<dkim><domain>a${n}.example</domain><result>pass</result></dkim>`,
    )
    const reasons = Array.from({ length: 30 }, (_, n) => `<reason><type>t${n}</type></reason>`)
    const reading = readReport(
      Buffer.from(having(record({ results: results.join(''), evaluated: reasons.join('') }))),
      TIMES,
    )
    assert.ok(reading.outcome === 'read' && reading.report.kind === 'dmarc')
    const [one] = reading.report.records
    assert.deepEqual([one?.dkimDomains.length, one?.dkimDomains.at(-1)], [100, 'a99.example'])
    assert.deepEqual([one?.reasons.length, one?.reasons.at(-1)?.type], [20, 't19'])
  })
})

describe('gzip', () => {
  const whole = gzip(dmarc())

  test('reads all members and ignores bytes after them', () => {
    const [first, second] = [dmarc().slice(0, 300), dmarc().slice(300)].map(gzip) as [Buffer, Buffer]
    assert.equal(said(Buffer.concat([first, second])), 'dmarc')
    for (const tail of ['\0\0\0\0', 'text', '\x1f', '\x1f\x8b', 'PK\x03\x04'])
      assert.equal(said(Buffer.concat([first, second, Buffer.from(tail, 'latin1')])), 'dmarc', tail)
  })

  test('reads a header with every field', () => {
    const field = (text: string): Buffer => Buffer.from(text, 'latin1')
    const [head, body] = [Buffer.from(whole.subarray(0, 10)), whole.subarray(10)]
    head[3] = 4 | 8 | 16 | 2
    const fields = [field('\x03\0abc'), field('name\0'), field('comment\0'), field('\0\0')]
    assert.equal(said(Buffer.concat([head, ...fields, body])), 'dmarc')
    head[3] = 0x80
    assert.equal(said(Buffer.concat([head, body])), 'archive')
  })

  test('rejects truncated archives and wrong checksums', () => {
    for (let length = 2; length < whole.length; length += length < 20 || length > whole.length - 20 ? 1 : 7)
      assert.equal(said(whole.subarray(0, length)), 'archive', String(length))
    const second = Buffer.concat([whole, gzip(' ').subarray(0, -1)])
    assert.equal(said(second), 'archive')
    const wrong = Buffer.from(whole)
    wrong[wrong.length - 5]! ^= 1
    assert.equal(said(wrong), 'archive')
  })

  test('rejects an archive in an archive', () => {
    for (const inside of [whole, zip([{ content: dmarc() }])]) {
      assert.equal(said(gzip(inside)), 'not_a_report')
      assert.equal(said(zip([{ content: inside }])), 'not_a_report')
    }
  })
})

describe('zip', () => {
  const file: ZipFileOf = { content: dmarc() }

  test('reads one file next to folders and the files that macOS adds', () => {
    for (const method of [0, 8]) assert.equal(said(zip([{ ...file, method }])), 'dmarc')
    const folder = { name: 'folder/', content: '', method: 0 }
    const resource = { name: '__MACOSX/._report.xml', content: 'x' }
    assert.equal(said(zip([folder, { ...file, name: 'folder/report.xml' }, resource])), 'dmarc')
    for (const files of [[], [folder], [resource], [file, file], [file, { name: 'b', content: '' }]])
      assert.equal(said(zip(files)), 'archive', String(files.length))
  })

  test('never uses names as paths', () => {
    for (const name of ['../../../etc/passwd', '/etc/passwd', 'C:\\a', '', '\0', 'a'.repeat(60_000)])
      assert.equal(said(zip([{ ...file, name }])), 'dmarc', name.slice(0, 20))
  })

  test('ignores sizes in the headers and verifies checksums', () => {
    const { length } = Buffer.from(dmarc())
    for (const unpacked of [0, 1, length + 1, 0xffffffff])
      for (const packed of [0, 1, 0xffffffff]) assert.equal(said(zip([{ ...file, unpacked, packed }])), 'dmarc')
    for (const packed of [0, length - 1, length + 1, 0xffffffff])
      assert.equal(said(zip([{ ...file, method: 0, packed }])), 'archive')
    for (const method of [0, 8]) assert.equal(said(zip([{ ...file, method, sum: 1 }])), 'archive')
  })

  test('rejects encrypted and truncated archives and other methods', () => {
    for (const flags of [1, 0x41, 0x2000]) assert.equal(said(zip([{ ...file, flags }])), 'archive')
    for (const method of [1, 9, 12, 14, 93, 99]) assert.equal(said(zip([{ ...file, method }])), 'archive')
    const whole = zip([file])
    for (let length = 4; length < whole.length; length++)
      assert.equal(said(whole.subarray(0, length)), 'archive', String(length))
    assert.equal(said(Buffer.concat([whole, Buffer.alloc(1000)])), 'dmarc')
    assert.equal(said(zip([file], { comment: 'PK\x05\x06'.repeat(1000) })), 'dmarc')
  })

  test('rejects entries that overlap or are elsewhere', () => {
    const folders = Array.from({ length: LIMITS.members - 1 }, (_, n) => ({ name: `${n}/`, content: '', at: 0 }))
    assert.equal(said(zip([...folders, file])), 'dmarc')
    assert.equal(said(zip([...folders, { name: 'a/', content: '' }, file])), 'archive')
    for (const at of [1, 30, 400, 0x7fffffff, 0xffffffff]) assert.equal(said(zip([{ ...file, at }])), 'archive')
    // Many files share the same bytes.
    const shared = Array.from({ length: 500 }, (_, n) => ({ ...file, name: `${n}.xml`, at: 0 }))
    assert.equal(said(zip(shared)), 'archive')
  })
})

describe('XML', () => {
  test('no DOCTYPE with any contents', () => {
    const laughs = Array.from({ length: 10 }, (_, n) => `<!ENTITY l${n + 1} "${`&l${n};`.repeat(10)}">`).join('')
    for (const inside of [
      '',
      ' [',
      ` [<!ENTITY l0 "ha">${laughs}]`,
      ' SYSTEM "http://127.0.0.1/a"',
      ' PUBLIC "a" "file:///etc/passwd"',
    ]) {
      const before = `<?xml version="1.0"?><!DOCTYPE feedback${inside}>`
      assert.equal(said(dmarc({ before, metadata: '<org_name>&l10;</org_name>' })), 'doctype', inside)
      assert.equal(said(utf16(dmarc({ before }))), 'doctype')
    }
    assert.equal(said(dmarc({ before: '<!-- <!DOCTYPE a> -->' })), 'dmarc')
    assert.equal(said(having('<!DOCTYPE a>')), 'malformed')
    assert.equal(said(filled('<!ENTITY a "b">', LIMITS.unpacked, ['<!DOCTYPE a [', ']>']), 500), 'doctype')
  })

  test('depth 32', () => {
    const nested = (deep: number): string => having('<a>'.repeat(deep) + '</a>'.repeat(deep))
    // The element itself is the first.
    assert.equal(said(nested(LIMITS.depth - 1)), 'dmarc')
    assert.equal(said(nested(LIMITS.depth)), 'too_large')
    assert.equal(said(filled('<a>')), 'too_large')
  })

  test('names of 128 characters, of elements and of attributes', () => {
    for (const form of ['<N/>', '<a N="1"/>']) {
      assert.equal(said(having(form.replace('N', 'n'.repeat(LIMITS.name)))), 'dmarc')
      assert.equal(said(having(form.replace('N', 'n'.repeat(LIMITS.name + 1)))), 'too_large')
      const [begin = '', end = ''] = form.split('N')
      assert.equal(said(filled('n', LIMITS.unpacked, [BEGIN + begin, end + END])), 'too_large')
    }
  })

  test('texts of 4 KB, of elements and of attributes', () => {
    for (const form of ['<a>%</a>', '<a b="%"/>', '<a><![CDATA[%]]></a>', '%']) {
      assert.equal(said(having(form.replace('%', ' '.repeat(LIMITS.text)))), 'dmarc', form)
      assert.equal(said(having(form.replace('%', ' '.repeat(LIMITS.text + 1)))), 'too_large', form)
    }
    // A text in pieces is one text.
    const pieces = (piece: string): string => dmarc({ metadata: `<org_name>${piece.repeat(50)}</org_name>` })
    for (const between of ['<!-- -->', '<![CDATA[]]>', '<b/>', '&amp;']) {
      assert.equal(said(pieces('a'.repeat(80) + between)), 'dmarc', between)
      assert.equal(said(pieces('a'.repeat(82) + between)), 'too_large', between)
    }
  })

  test('16 attributes', () => {
    const tag = (many: number): string =>
      having(`<a ${Array.from({ length: many }, (_, n) => `a${n}="1"`).join(' ')}/>`)
    assert.equal(said(tag(LIMITS.attributes)), 'dmarc')
    assert.equal(said(tag(LIMITS.attributes + 1)), 'too_large')
    assert.equal(said(filled('a="" ', LIMITS.unpacked, [`${BEGIN}<a `, `/>${END}`]), 500), 'too_large')
  })

  test('2,000,000 elements', () => {
    const besides = dmarc({ records: '' }).match(/<[a-z]/g)!.length
    assert.equal(said(having('<a/>'.repeat(LIMITS.elements - besides))), 'dmarc')
    assert.equal(said(having('<a/>'.repeat(LIMITS.elements - besides + 1))), 'too_large')
  })
})

describe('JSON', () => {
  const json = (more: object): string => JSON.stringify(tls(more))
  const list = (many: number, each: unknown): unknown[] => Array<unknown>(many).fill(each)

  test('depth 32, checked before parsing', () => {
    // A list of the object is its second level.
    const nested = (deep: number): string => json({ more: JSON.parse('['.repeat(deep) + ']'.repeat(deep)) as unknown })
    assert.equal(said(nested(LIMITS.depth - 1)), 'tls')
    assert.equal(said(nested(LIMITS.depth)), 'too_large')
    for (const [begin, piece] of [
      ['', '['],
      ['', '{"a":'],
      ['{"policies":', '['],
    ] as const)
      assert.equal(said(filled(piece, LIMITS.unpacked, [`{"a":${begin}`, '']), 500), 'too_large')
    // Brackets in texts do not count.
    assert.equal(said(json({ more: `${'['.repeat(100)}"\\` })), 'tls')
  })

  test('10,000 policies and 10,000 details', () => {
    assert.equal(said(json({ policies: list(LIMITS.policies, policy()) })), 'tls')
    assert.equal(said(json({ policies: list(LIMITS.policies + 1, policy('none')) })), 'too_large')
    const detailed = (many: number): string =>
      json({ policies: list(2, policy('sts', { 'failure-details': list(many, { 'result-type': 'a' }) })) })
    assert.equal(said(detailed(LIMITS.details / 2)), 'tls')
    assert.equal(said(detailed(LIMITS.details / 2 + 1)), 'too_large')
  })

  test('20 MB, 500,000 values, texts of 4 KB', () => {
    assert.equal(said(json({}).padEnd(LIMITS.unpacked)), 'tls')
    assert.equal(said(json({}).padEnd(LIMITS.unpacked + 1)), 'too_large')
    assert.equal(said(json({ more: list(LIMITS.values - 100, 1) })), 'tls')
    assert.equal(said(json({ more: list(LIMITS.values, 1) })), 'too_large')
    for (const name of ['report-id', 'organization-name', 'contact-info']) {
      assert.equal(said(json({ [name]: 'a'.repeat(LIMITS.text) })), 'tls')
      assert.equal(said(json({ [name]: 'a'.repeat(LIMITS.text + 1) })), 'too_large')
    }
  })
})
