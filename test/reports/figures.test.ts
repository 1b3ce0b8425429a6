// The figures of reports are bounded and small (DV55), and what the reader gives is counted once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { addDmarcRows } from '../../src/reports/dmarc-figures.ts'
import { ReportFigures, type ReportFiguresDeps } from '../../src/reports/pieces.ts'
import { recordReport } from '../../src/reports/receipt.ts'
import type { Domain } from '../../src/domains/find.ts'
import { reportReader } from '../../src/reports/reading/readers.ts'
import { FoldedRecords } from '../../src/reports/reading/fold.ts'
import type { DmarcRecord, DmarcReport } from '../../src/reports/reading/report.ts'
import { releaseMessages } from '../../src/reports/retention.ts'
import { addTlsFigures, dayOf, tlsTroubleOf } from '../../src/reports/tls-figures.ts'
import type { Store } from '../../src/store/database.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { until } from '../kit/until.ts'
import { dmarcReport, rowsOf, YESTERDAY } from './reporter.ts'

const record = (address: string, more: Partial<DmarcRecord> = {}): DmarcRecord => ({
  address,
  count: 1,
  disposition: 'none',
  dkim: 'pass',
  spf: 'pass',
  headerFrom: 'here.test',
  dkimDomains: ['here.test'],
  spfDomains: ['bounce.here.test'],
  reasons: [],
  ...more,
})

const report = (domain: string, reportId: string, begin = YESTERDAY): DmarcReport => ({
  kind: 'dmarc',
  form: 'rfc7489',
  org: 'Example Inc.',
  email: 'noreply-dmarc-support@example.test',
  reportId,
  begin,
  end: begin + 86_399,
  faults: [],
  domain,
  policy: { p: 'none' },
  skippedRecords: 0,
})

/** Address number `at` of a documentation network, and of as many others as it takes. */
const addressOf = (at: number): string => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`

const config = {
  ...parseConfig({ hostname: 'mx.postrider.test', data_dir: '/nowhere' }),
  reports: { unauthenticated: 'keep' },
} as const

/** Records a report as its receipt does, all its rows in one piece. */
async function take(
  store: Store,
  domain: number,
  author: string,
  { records, ...said }: DmarcReport & { records: DmarcRecord[] },
  now: number,
  inMessage = false,
): Promise<boolean> {
  const deps = { log: silentLog, config, figures: { ring() {} } }
  const folded = new FoldedRecords()
  for (const each of records) folded.add(each)
  const rows = inMessage ? null : `[${[...folded.rows()].join(',')}]`
  const reading = { outcome: 'read', report: { ...said, sums: folded.sums() }, rows } as const
  return store.write((tx) =>
    recordReport(
      tx,
      deps,
      { messageKey: 1, domain, about: 'dmarc', reading, author, dmarcPassed: true, signed: true, infected: false },
      now,
    ),
  )
}

/** Counts what was recorded, as the loop does after a start. */
async function counted(
  { resolver, spool, store }: Pick<ReportFiguresDeps, 'resolver' | 'spool' | 'store'>,
  log = silentLog,
): Promise<void> {
  const reports = reportReader()
  const figures = new ReportFigures({ store, spool, reports, resolver, clock: new ManualClock(), log, config })
  figures.start()
  await until(() => store.first(raw('select 1 from report_pieces')) === undefined, 'the figures')
  await figures.stop()
  await reports.close()
}

test('a domain and day has 5,000 rows; what is beyond is summed without addresses, what is known still counts (DV55)', async () => {
  await using postrider = await startTestAppliance()
  const { key } = await postrider.activeDomain('here.test')
  const { store } = postrider.appliance.deps
  const now = postrider.clock.now()
  const said = async (records: DmarcRecord[], id: string): Promise<void> => {
    assert.ok(await take(store, key, 'google.test', { ...report('here.test', id), records }, now))
    await counted(postrider.appliance.deps)
  }
  const many = Array.from({ length: 6000 }, (_, at) => record(addressOf(at), { count: at < 5000 ? 2 : 1 }))
  await said(many, 'one')
  const rows = () =>
    store.all(
      raw<{ address: string; messages: number }>('select address, messages from dmarc_figures order by messages desc'),
    )
  const sum = (): number => rows().reduce((all, { messages }) => all + messages, 0)
  assert.equal(rows().length, 5001)
  assert.deepEqual(rows()[0], { address: '', messages: 1000 })
  assert.equal(sum(), 11_000)
  await said([record(addressOf(0)), record(addressOf(7000), { dkim: 'fail', spf: 'fail' })], 'two')
  assert.equal(rows().length, 5002)
  assert.equal(rows().find(({ address }) => address === addressOf(0))?.messages, 3)
  assert.equal(sum(), 11_002)
})

test('a message is kept until the rows in it are counted; rows that are lost hold nothing up, and the log says so', async () => {
  await using postrider = await startTestAppliance()
  const { key } = await postrider.activeDomain('here.test')
  const { deps } = postrider.appliance
  const { store } = deps
  const now = postrider.clock.now()
  const records = [record('192.0.2.1')]
  const waiting = (id: string) => take(store, key, 'google.test', { ...report('here.test', id), records }, now, true)
  const released = () => store.write((tx) => releaseMessages(tx, now + 1, 10))
  const faults: string[] = []
  const log = { ...silentLog, fault: (where: string) => (faults.push(where), where) }
  const messages = () => store.one(raw<{ n: number | null }>('select sum(messages) as n from dmarc_figures')).n
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into inbound_messages (key, id, mail_from, recipients, client, helo, received, size, content, cut, received_at, attempts)
         values (1, 'one', '', '[]', '', '', '', 1, ?, 0, 0, 0)`,
        [Buffer.from(dmarcReport({ records: Array.from({ length: 600 }, (_, at) => ({ address: addressOf(at) })) }))],
      ),
    ),
  )
  await waiting('one')
  assert.deepEqual(await released(), [])
  await counted(deps, log)
  assert.deepEqual([messages(), faults], [600, []])
  await store.write((tx) => tx.run(raw('update inbound_messages set content = ?', [Buffer.from('no report')])))
  await waiting('two')
  await counted(deps, log)
  await store.write((tx) => tx.run(raw('delete from inbound_messages')))
  await waiting('three')
  await counted(deps, log)
  assert.deepEqual([messages(), faults], [600, ['counting a report', 'counting a report']])
  assert.deepEqual(await released(), [1])
})

test('1,000 reports a day take less than 10 MB of the store in a month', async () => {
  await using postrider = await startTestAppliance()
  const { store } = postrider.appliance.deps
  const domains = await Promise.all(Array.from({ length: 20 }, (_, at) => postrider.activeDomain(`sender${at}.test`)))
  const size = async (): Promise<number> => {
    await store.write((tx) => tx.first(raw('select 1')))
    return store.one(
      raw<{ octets: number }>(
        'select (page_count - freelist_count) * page_size as octets from pragma_page_count, pragma_freelist_count, pragma_page_size',
      ),
    ).octets
  }
  const before = await size()
  const days = 1
  /** The report of a provider about a domain. */
  const one = (at: number, day: number, provider: number): Promise<boolean> => {
    const { key, name } = domains[at]!
    const own = { headerFrom: name, dkimDomains: [name], spfDomains: [`bounce.${name}`] }
    // Two addresses of ours, that everybody sees, and of one report in five an address that passes mail on.
    const passedOn = { ...own, count: 2, spf: 'fail' as const, spfDomains: [`lists${provider}.test`] }
    const records = [
      record('192.0.2.1', { ...own, count: 120 }),
      record('192.0.2.2', { ...own, count: 80 }),
      ...(provider % 5 === 0 ? [record(addressOf(provider + at * 256), passedOn)] : []),
    ]
    const id = `${1_768_348_800 + day}.${at}${provider}a7c31f04`
    const reading = { ...report(name, id, YESTERDAY + day * 86_400), records }
    return take(store, key, `provider${provider}.test`, reading, postrider.clock.now() + day * 86_400_000 + provider)
  }
  const providers = Array.from({ length: 50 }, (_, at) => at)
  for (let day = 0; day < days; day++)
    for (const at of domains.keys()) {
      const kept = await Promise.all(providers.map((provider) => one(at, day, provider)))
      assert.ok(kept.every(Boolean))
      await counted(postrider.appliance.deps)
    }
  const month = ((await size()) - before) * (30 / days)
  assert.ok(month < 10_000_000, `${(month / 1e6).toFixed(1)} MB`)
})

test('reports that count as much as they may give figures that can be read, and wait for nothing', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const domain = store.one(raw<Domain>("select * from domains where name = 'here.test'"))
  const day = dayOf(YESTERDAY)
  // As 20,000 records of the largest count, in 300 reports: more than a number can hold.
  const messages = 20_000 * (2 ** 31 - 1)
  const row = ['192.0.2.1', 'here.test', 1, 1, 'none', 0, messages, '', ''] as const
  const policy = { type: 'sts', domain: 'here.test', success: messages, failure: messages, results: [] } as const
  const failed = { ...policy, results: [{ type: 'certificate-expired', sessions: messages }] }
  await store.write((tx) => {
    for (let at = 0; at < 300; at++) {
      addDmarcRows(
        tx,
        domain,
        { day, reporter: 'one.test', rows: JSON.stringify([row]), share: 1 },
        () => () => undefined,
      )
      addTlsFigures(tx, domain, { day, reporter: 'one.test', policies: [failed] })
    }
  })
  const most = 2 ** 31 - 1
  const [source] = await rowsOf(postrider, domain.id, 'dmarc-sources')
  assert.partialDeepStrictEqual(source, { address: '192.0.2.1', messages: most, pass: most })
  const [figures] = await rowsOf(postrider, domain.id, 'tls-figures')
  assert.partialDeepStrictEqual(figures, { success: most, failure: most, results: { 'certificate-expired': most } })
  assert.partialDeepStrictEqual(tlsTroubleOf(store, domain, day), { sessions: 2 * most, failures: most })
})
