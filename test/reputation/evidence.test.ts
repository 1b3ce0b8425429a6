// What Microsoft and Google say of this server's mail: files are read with all that exports have in them, wrong lines
// and unknown columns are named, files of other programs are refused; the table of SNDS is fetched once a day over
// https.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { readGmail, readSnds } from '../../src/reputation/evidence-csv.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { rest } from '../webhooks/hooks.ts'

const NOW = Date.UTC(2026, 0, 15, 12)
const day = (year: number, month: number, date: number): number => Date.UTC(year, month - 1, date) / DAY
const snds = (text: string) => readSnds(Buffer.from(text), 'data.csv', NOW)
const gmail = (text: string, domain?: string) => readGmail(Buffer.from(text), 'gmail.csv', { domain, now: NOW })

/** As automated data access sends it: no headings. */
const BARE = `192.0.2.1,1/12/2026 7:00 PM,1/13/2026 7:00 PM,1894,1890,1880,GREEN,< 0.1%,,,0,mx.here.test,a@here.test,
2001:DB8::0:1,1/12/2026 7:00 PM,1/13/2026 7:00 PM,10,10,9,RED,1.2%,1/12/2026 8:00 PM,1/13/2026 1:00 AM,3,"mx, ""here""",,
`

describe('a file of SNDS (DV81)', () => {
  test('without headings, with addresses of both families', () => {
    assert.deepEqual(snds(BARE), {
      rows: [
        {
          address: '192.0.2.1',
          day: day(2026, 1, 13),
          recipients: 1880,
          filter_result: 'green',
          complaint_rate: 0.001,
          traps: 0,
        },
        {
          address: '2001:db8::1',
          day: day(2026, 1, 13),
          recipients: 9,
          filter_result: 'red',
          complaint_rate: 0.012,
          traps: 3,
        },
      ],
      skipped: 0,
      wrong: [],
      unknown: [],
    })
  })

  test('with headings in any order, as Excel writes it; unknown columns are named', () => {
    const text =
      'Complaint rate;Country;IP Address;Message Recipients;Activity End;Filter result;Other\r\n;DE;192.0.2.1;5;2026-01-13;yellow;x\r\n'
    const read = readSnds(Buffer.from(`\ufeff${text}`, 'utf16le'), 'data.csv', NOW)
    assert.deepEqual(read.unknown, ['"Country"', '"Other"'])
    assert.deepEqual(
      read.rows.map(({ address, complaint_rate, traps }) => [address, complaint_rate, traps]),
      [['192.0.2.1', null, null]],
    )
  })

  test('a wrong line is named and left out, the others count', () => {
    const wrong: [string, RegExp][] = [
      ['192.0.2,a,1/13/2026,1,1,1,GREEN,,,,,,,', /"192\.0\.2" is not an IP address/],
      ['192.0.2.1,,2/30/2026,1,1,1,GREEN,,,,,,,', /"2\/30\/2026" is not a date/],
      ['192.0.2.1,,13/1/2026,1,1,1,GREEN,,,,,,,', /is not a date/],
      ['192.0.2.1,,1/18/2026,1,1,1,GREEN,,,,,,,', /is not a day of the past/],
      ['192.0.2.1,,1/13/1999,1,1,1,GREEN,,,,,,,', /is not a day of the past/],
      ['192.0.2.1,,1/13/2026,1,1,-1,GREEN,,,,,,,', /message recipients: "-1" is not a whole number/],
      ['192.0.2.1,,1/13/2026,1,1,1e3,GREEN,,,,,,,', /not a whole number/],
      ['192.0.2.1,,1/13/2026,1,1,2147483648,GREEN,,,,,,,', /not a whole number/],
      ['192.0.2.1,,1/13/2026,1,1,1,BLUE,,,,,,,', /filter result: "BLUE"/],
      ['192.0.2.1,,1/13/2026,1,1,1,RED,101%,,,,,,', /complaint rate: "101%" is not a share/],
      ['192.0.2.1,,1/13/2026,1,1,1,RED,NaN,,,,,,', /is not a share/],
      ['192.0.2.1,,1/13/2026,1,1,1,RED,,,,x,,,', /trap hits/],
      ['192.0.2.1,,1/13/2026,1,1,1,RED,,,,,,,,,', /more fields than there are columns/],
    ]
    const read = snds(BARE + wrong.map(([line]) => line).join('\n'))
    assert.deepEqual([read.rows.length, read.skipped], [2, wrong.length])
    for (const [at, [, why]] of wrong.entries()) {
      assert.match(read.wrong[at]!.why, why)
      assert.equal(read.wrong[at]!.line, at + 3)
    }
    const many = snds(BARE + '192.0.2.9,\n'.repeat(100))
    assert.deepEqual([many.skipped, many.wrong.length], [100, 20])
  })

  test('another file, a binary one and one over the limits are refused', () => {
    const refusal =
      /data\.csv cannot be imported\. A file of SNDS .* has the columns IP address.*; it begins with "Email", "Name"/
    assert.throws(() => snds('Email,Name\na@b.test,A\n'), refusal)
    assert.throws(() => snds(''), /it begins with nothing/)
    assert.throws(() => snds('192.0.2.1,GREEN\n'), /cannot be imported/)
    assert.throws(() => snds('Date,Spam Rate\n2026-01-13,0.1%\n'), /A file of SNDS/)
    assert.throws(() => snds('PK\u0003\u0004\0\0'), /is not text/)
    assert.throws(() => snds('192.0.2.1\n'.repeat(50_002)), /more than 50,000 lines/)
    assert.throws(() => snds('a'.repeat(10_000_001)), /larger than 10 MB/)
    assert.throws(() => snds(`${'x'.repeat(1001)},1\n`), /line 1 is too long/)
    assert.throws(() => snds(`a,b\n"${'x\n'.repeat(600)}`), /line 2 is too long/)
    assert.throws(() => snds(','.repeat(64)), /line 1 is too long/)
  })
})

describe('a file of Google’s Postmaster Tools (DV81)', () => {
  test('its rates, words and dates', () => {
    const read = gmail(
      'Domain,Date,User-reported spam rate,SPF success rate,DKIM,TLS,Domain reputation,Compliance,Feedback loop\n' +
        'Here.Test,2026-01-12,0.15%,100%,0.995,1,HIGH,Compliant,x\n' +
        'here.test.,20260113,.002,,,,BAD,Needs work,\n' +
        'here.test,"Jan 14, 2026",0%,,,,,,\n',
    )
    assert.deepEqual(read.unknown, ['"Feedback loop"'])
    assert.deepEqual(
      read.rows.map((row) => [row.domain, row.day, row.spam_rate, row.spf_rate, row.dkim_rate, row.tls_rate]),
      [
        ['here.test', day(2026, 1, 12), 0.0015, 1, 0.995, 1],
        ['here.test', day(2026, 1, 13), 0.002, null, null, null],
        ['here.test', day(2026, 1, 14), 0, null, null, null],
      ],
    )
    assert.deepEqual(
      read.rows.map(({ compliance, reputation }) => [reputation, compliance]),
      [
        ['high', 'compliant'],
        ['bad', 'needs work'],
        [null, null],
      ],
    )
  })

  test('wrong lines, and files of other programs', () => {
    const read = gmail('Date,Spam rate\n2026-01-12,0.1%\n2026-01-12,\n2026-01-12,7\n2026-01-12,<script>\n', 'here.test')
    assert.deepEqual([read.rows.length, read.skipped], [1, 3])
    assert.match(read.wrong[0]!.why, /no figure/)
    assert.match(read.wrong[1]!.why, /spam rate: "7" is not a share/)
    assert.throws(() => gmail('Date,Spam rate\n2026-01-12,0.1%\n'), /and domain, unless --domain names it/)
    assert.throws(() => gmail('Date,Opens\n2026-01-12,1\n', 'here.test'), /Postmaster Tools has the columns date/)
    assert.throws(() => gmail(BARE), /Postmaster Tools/)
  })
})

const rows = (postrider: TestAppliance, table: string) =>
  postrider.appliance.deps.store.all(raw<Record<string, unknown>>(`select * from ${table} order by 1, 2`))

test('evidence import answers rows and what was skipped, and a second import replaces the first (DV81)', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'], otherDomains: ['bobs.test'] })
  const file = (name: string, text: string): string => {
    const path = join(postrider.dataDir, name)
    writeFileSync(path, text)
    return path
  }
  const first = file('snds.csv', BARE)
  assert.deepEqual(await postrider.commands.json('evidence', 'import', 'snds', first), {
    kind: 'snds',
    rows: 2,
    skipped: 0,
    lines: [],
    columns: [],
  })
  await postrider.commands.run(['evidence', 'import', 'snds', file('again.csv', BARE.replace('GREEN', 'YELLOW'))])
  assert.deepEqual(
    rows(postrider, 'snds_rows').map(({ address, filter_result }) => [address, filter_result]),
    [
      ['192.0.2.1', 'yellow'],
      ['2001:db8::1', 'red'],
    ],
  )
  const table = file(
    'gmail.csv',
    'Domain,Date,Spam rate,Extra\nhere.test,2026-01-12,0.1%,x\nforeign.test,2026-01-12,0.1%,x\nbad\n',
  )
  const gmailed = await postrider.commands.run(['evidence', 'import', 'gmail', table])
  assert.equal(gmailed.code, 0)
  assert.match(gmailed.stdout, /^1 row imported, 2 lines left out\./)
  assert.match(gmailed.stdout, /Columns that are not known and were left out: "Extra"/)
  assert.match(gmailed.stdout, /line 4: .*\n\s*"foreign\.test" is not a sending domain here/)
  assert.equal(rows(postrider, 'gmail_rows').length, 1)
  const one = file('one.csv', 'Date,Spam rate\n2026-01-13,0.2%\n')
  assert.equal((await postrider.commands.run(['evidence', 'import', 'gmail', one, '--domain', 'bobs.test'])).code, 0)
  assert.equal(rows(postrider, 'gmail_rows').length, 2)
  for (const [words, args] of [
    [/there is no such file/, ['snds', '/nowhere.csv']],
    [/EFTYPE|not a regular/i, ['snds', postrider.dataDir]],
    [/A file of SNDS/, ['snds', one]],
    [/--domain is for tables of Google/, ['snds', first, '--domain', 'here.test']],
  ] as const) {
    const refused = await postrider.commands.run(['evidence', 'import', ...args])
    assert.equal(refused.code, 1)
    assert.match(refused.stderr, words)
  }
})

test('the table of SNDS is fetched once a day, its address stands in no line of the log, trouble is tried again (DV81)', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-snds-'))
  try {
    const address = join(folder, 'address')
    const receiver = testReceiver()
    const lines: string[] = []
    await using postrider = await startTestAppliance({
      receiver,
      config: { evidence: { snds_url_file: address } },
      logged: { level: 'info', lines },
    })
    const said = (message: string) => lines.filter((line) => line.includes(`"${message}"`))
    await until(() => said('snds not fetched').length === 1)
    assert.equal(receiver.requests.length, 0)

    receiver.answer = (_, response) => response.writeHead(200).end(BARE)
    writeFileSync(address, `${receiver.url}/data?key=very-secret\n`)
    postrider.clock.leap(HOUR)
    await until(() => said('snds fetched').length === 1)
    assert.equal(rows(postrider, 'snds_rows').length, 2)
    assert.equal(receiver.requests[0]!.path, '/data?key=very-secret')

    // Not before a day has passed. A page of words changes nothing.
    postrider.clock.leap(23 * HOUR)
    await rest(postrider)
    assert.equal(receiver.requests.length, 1)
    receiver.answer = (_, response) => response.writeHead(200).end('<html>The key has expired')
    postrider.clock.leap(HOUR)
    await until(() => said('snds not fetched').length === 2)
    assert.match(said('snds not fetched')[1]!, /A file of SNDS/)
    assert.equal(rows(postrider, 'snds_rows').length, 2)
    // Redirects are not followed, nor is another address than one of https.
    receiver.answer = (_, response) => response.writeHead(302, { location: `${receiver.url}/other` }).end()
    postrider.clock.leap(HOUR)
    await until(() => said('snds not fetched').length === 3)
    writeFileSync(address, 'http://hooks.test/data?key=very-secret')
    postrider.clock.leap(HOUR)
    await until(() => said('snds not fetched').length === 4)
    assert.equal(receiver.requests.length, 3)
    assert.ok(!lines.join('').includes('very-secret'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
