// The figures of reports are bounded and small (D234).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseConfig } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { addDmarcFigures } from '../../src/reports/dmarc-figures.ts'
import { recordReport } from '../../src/reports/receipt.ts'
import type { Domain } from '../../src/domains/find.ts'
import { FoldedRecords, foldedTls, MOST_KEPT, sumOf } from '../../src/reports/reading/fold.ts'
import type { DmarcRecord, DmarcReport, SourceSums } from '../../src/reports/reading/report.ts'
import { dayOf, SECOND } from '../../src/base/clock.ts'
import { addTlsFigures, tlsTroubleOf } from '../../src/reports/tls-figures.ts'
import type { Store } from '../../src/store/database.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { rowsOf, YESTERDAY } from './reporter.ts'

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
const FAILING: Partial<DmarcRecord> = { dkim: 'fail', spf: 'fail', dkimDomains: [], spfDomains: [] }

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

/** Address number `at` of a private network. */
const addressOf = (at: number): string => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`

const config = {
  ...parseConfig({ hostname: 'mx.postrider.test', data_dir: '/nowhere' }),
  reports: { unauthenticated: 'keep' },
} as const

const folded = (records: readonly DmarcRecord[]): FoldedRecords => {
  const all = new FoldedRecords()
  for (const each of records) all.add(each)
  return all
}

/** Records a report as the receiving server does. */
async function take(
  store: Store,
  domain: number,
  author: string,
  { records, ...head }: DmarcReport & { records: DmarcRecord[] },
  now: number,
): Promise<boolean> {
  const sums = folded(records)
  const reading = { outcome: 'read', report: { ...head, sums: sums.sums(), sources: sums.sources() } } as const
  return store.write((tx) =>
    recordReport(
      tx,
      { log: silentLog, config },
      { messageKey: 1, domain, about: 'dmarc', reading, author, dmarcPassed: true, signed: true, infected: false },
      now,
    ),
  )
}

const messagesOf = (some: readonly Pick<SourceSums, 'messages'>[]): number =>
  some.reduce((all, { messages }) => all + messages, 0)

test('keeps the 200 largest sources of a DMARC report, and the sum of the others', () => {
  const all = folded([
    ...Array.from({ length: 1000 }, (_, at) => record(addressOf(at), { ...FAILING, count: 1000 - at })),
    record('192.0.2.1', { count: 1, reasons: [{ type: 'forwarded', comment: '' }] }),
    record('192.0.2.1', { count: 2, disposition: 'reject', spf: 'fail' }),
    record('192.0.2.2', { count: 0 }),
  ])
  const sources = all.sources()
  assert.equal(sources.length, MOST_KEPT + 1)
  // A source that passes DMARC is kept, however many messages of others fail.
  assert.deepEqual(sources[0], {
    address: '192.0.2.1',
    addresses: 1,
    messages: 3,
    pass: 3,
    dkim_pass: 3,
    spf_pass: 1,
    none: 1,
    quarantine: 0,
    reject: 2,
    passed: 0,
    proven: 3,
    forwarded: 1,
    both: 1,
    dkim_domains: ' here.test ',
    spf_domains: ' bounce.here.test ',
  })
  assert.deepEqual(
    sources.slice(1, MOST_KEPT).map(({ messages }) => messages),
    Array.from({ length: MOST_KEPT - 1 }, (_, at) => 1000 - at),
  )
  const rest = 1000 - (MOST_KEPT - 1)
  assert.partialDeepStrictEqual(sources.at(-1), { address: '', addresses: rest, messages: (rest * (rest + 1)) / 2 })
  assert.equal(messagesOf(sources), all.sums().messages)
  assert.deepEqual([all.sums().records, all.sums().sources], [1003, 1002])
})

test('keeps the 200 largest policies of a TLS report, and the sum of the others by type', () => {
  const policies = Array.from({ length: 300 }, (_, at) => ({
    type: at % 2 === 0 ? ('sts' as const) : ('tlsa' as const),
    domain: `d${at}.here.test`,
    success: at,
    failure: 1,
    results: Array.from({ length: 30 }, (_each, type) => ({ type: `t${type}`, sessions: type })),
  }))
  const {
    form: _form,
    domain: _domain,
    policy: _policy,
    skippedRecords: _skipped,
    ...head
  } = report('here.test', 'one')
  const kept = foldedTls({ ...head, kind: 'tls', policies, skippedPolicies: 0 })
  assert.ok(kept.kind === 'tls')
  assert.deepEqual(kept.sums, { policies: 300, success: (299 * 300) / 2, failure: 300 })
  assert.equal(kept.policies.length, MOST_KEPT + 2)
  assert.partialDeepStrictEqual(kept.policies[0], { domain: 'd299.here.test', results: [{ type: 't29' }] })
  assert.deepEqual(
    kept.policies.slice(MOST_KEPT).map(({ domain, failure, type }) => [type, domain, failure]),
    [
      ['tlsa', '', 50],
      ['sts', '', 50],
    ],
  )
  assert.equal(
    kept.policies.reduce((all, { success }) => all + success, 0),
    kept.sums.success,
  )
})

test('a day has 300 rows of unknown sources and a sum of the others, and known sources keep their own rows', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const domain = store.one(raw<Domain>("select * from domains where name = 'here.test'"))
  const named = document('known-sources', { network: '203.0.113.0/24', name: 'shop' })
  assert.equal((await postrider.api('POST', `/domains/${domain.id}/known-sources`, named)).status, 201)
  const day = dayOf(YESTERDAY * SECOND)
  const add = (reporter: string, sources: readonly SourceSums[]): Promise<void> =>
    store.write((tx) => addDmarcFigures(tx, config, domain, { day, reporter, sources, share: 1 }))
  const some = (from: number, to: number, network = ''): SourceSums[] =>
    folded(
      Array.from({ length: to - from }, (_, at) =>
        record(network === '' ? addressOf(from + at) : `${network}${from + at}`, { ...FAILING, count: 9 }),
      ),
    ).sources()
  for (let from = 0; from < 800; from += 200) await add('evil.test', some(from, from + 200))
  await add('google.test', [...some(0, 1), ...some(900, 901), ...some(7, 8, '203.0.113.')])
  const rows = () =>
    new Map(
      store
        .all(raw<SourceSums>('select * from dmarc_figures'))
        .map((row) => [row.address, [row.messages, row.addresses]]),
    )
  assert.equal(rows().size, 302)
  assert.deepEqual(rows().get(addressOf(0)), [18, 1])
  assert.deepEqual(rows().get('203.0.113.7'), [9, 1])
  assert.deepEqual(rows().get(''), [9 * 501, 501])
  // A flood of addresses in a named network is summed as that network, and never as unknown.
  for (let at = 0; at < 3; at++) {
    const flood = Array.from({ length: 200 }, (_, n) => record(`203.0.113.${n + 20}`, { ...FAILING, count: at + 1 }))
    await add('evil.test', folded(flood).sources())
  }
  assert.equal(rows().size, 502)
  const [known] = await rowsOf(postrider, domain.id, 'dmarc-sources?filter[known]=unknown&page[size]=1')
  assert.partialDeepStrictEqual(known, { address: 'others', messages: 9 * 501, addresses: 501 })
})

test('answers about a flooded domain add up, and read few rows', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const domain = store.one(raw<Domain>("select * from domains where name = 'here.test'"))
  const [today, days] = [Math.floor(postrider.clock.now() / 86_400_000), 28]
  await store.write((tx) => {
    for (let back = 1; back <= days; back++) {
      const records = Array.from({ length: 500 }, (_, at) =>
        record(addressOf(back * 500 + at), { ...FAILING, count: 1000 }),
      )
      const one = folded([...records, record('198.51.100.7', { ...FAILING, count: 3000 })])
      for (let at = 0; at < 3; at++)
        addDmarcFigures(tx, config, domain, {
          day: today - back,
          reporter: 'evil.test',
          sources: one.sources(),
          share: 1,
        })
    }
  })
  let rows = 0
  store.watch((_sql, read) => void (rows += read))
  const [others, known, first] = await rowsOf(postrider, domain.id, 'dmarc-sources?page[size]=3')
  assert.partialDeepStrictEqual(known, { address: '198.51.100.7', messages: 3 * 3000 * days })
  assert.partialDeepStrictEqual(first, { messages: 3 * 1000, addresses: 1 })
  // 500 unknown sources are listed one by one. The named service is one of them.
  assert.partialDeepStrictEqual(others, { address: 'others', messages: 3 * 1000 * (days * 500 - 499) })
  await rowsOf(postrider, domain.id, 'dmarc-evidence')
  assert.ok(rows < 40_000, `${rows} rows`)
})

test('1,000 reports a day take less than 10 MB of the store in a month', async () => {
  await using postrider = await startTestAppliance()
  const { store } = postrider.appliance.deps
  const domains = await Promise.all(Array.from({ length: 20 }, (_, at) => postrider.activeDomain(`sender${at}.test`)))
  const size = async (): Promise<number> => {
    await store.write((tx) => tx.first(raw('select 1')))
    return store.one(
      raw<{ bytes: number }>(
        'select (page_count - freelist_count) * page_size as bytes from pragma_page_count, pragma_freelist_count, pragma_page_size',
      ),
    ).bytes
  }
  const before = await size()
  /** The report of a provider about a domain. */
  const one = (at: number, provider: number): Promise<boolean> => {
    const { key, name } = domains[at]!
    const own = { headerFrom: name, dkimDomains: [name], spfDomains: [`bounce.${name}`] }
    // Two addresses of the domain that every provider sees, and in one report of five a forwarder.
    const forwarded = { ...own, count: 2, spf: 'fail' as const, spfDomains: [`lists${provider}.test`] }
    const records = [
      record('192.0.2.1', { ...own, count: 120 }),
      record('192.0.2.2', { ...own, count: 80 }),
      ...(provider % 5 === 0 ? [record(addressOf(provider + at * 256), forwarded)] : []),
    ]
    const reading = { ...report(name, `1768348800.${at}${provider}a7c31f04`), records }
    return take(store, key, `provider${provider}.test`, reading, postrider.clock.now() + provider)
  }
  for (const at of domains.keys()) {
    const kept = await Promise.all(Array.from({ length: 50 }, (_, provider) => one(at, provider)))
    assert.ok(kept.every(Boolean))
  }
  const month = ((await size()) - before) * 30
  assert.ok(month < 10_000_000, `${(month / 1e6).toFixed(1)} MB`)
})

test('figures stay readable when 300 reports state the largest counts', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  const domain = store.one(raw<Domain>("select * from domains where name = 'here.test'"))
  const day = dayOf(YESTERDAY * SECOND)
  // As 20,000 records of the largest count: more than a number can hold, if all of them were added.
  const messages = 20_000 * (2 ** 31 - 1)
  const one = { ...sumOf([], '192.0.2.1'), addresses: 1, messages, pass: messages }
  const policy = { type: 'sts', domain: 'here.test', success: messages, failure: messages, results: [] } as const
  const failed = { ...policy, results: [{ type: 'certificate-expired', sessions: messages }] }
  await store.write((tx) => {
    for (let at = 0; at < 300; at++) {
      addDmarcFigures(tx, config, domain, { day, reporter: 'one.test', sources: [one], share: 1 })
      addTlsFigures(tx, domain, { day, reporter: 'one.test', policies: [failed] })
    }
  })
  const most = 2 ** 31 - 1
  const [source] = await rowsOf(postrider, domain.id, 'dmarc-sources')
  assert.partialDeepStrictEqual(source, { address: '192.0.2.1', messages: most, pass: most })
  const [figures] = await rowsOf(postrider, domain.id, 'tls-statistics')
  assert.partialDeepStrictEqual(figures, {
    successful_sessions: most,
    failed_sessions: most,
    results: { 'certificate-expired': most },
  })
  assert.partialDeepStrictEqual(tlsTroubleOf(store, domain, day), { sessions: 2 * most, failures: most })
})
