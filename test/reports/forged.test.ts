// Reports from untrusted reporters that authenticate their own domain: the limits of evidence, flooding, and repeated
// lookups.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { deliver } from '../kit/sender.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import {
  DAY,
  DMARC_TO,
  dmarcReport,
  mailWith,
  read,
  reporterOf,
  reportServer,
  reportsOf,
  rowsOf,
  signerOf,
  YESTERDAY,
} from './reporter.ts'

const start = async () => {
  const postrider = await startTestAppliance({ domains: ['here.test'] })
  const id: string = (await postrider.api('GET', '/domains?filter[name]=here.test')).body.data[0].id
  const { store } = postrider.appliance.deps
  const name = (network: string, of: string) =>
    postrider.api('POST', `/domains/${id}/known-sources`, document('known-sources', { network, name: of }))
  const evidence = async () => (await rowsOf(postrider, id, 'dmarc-evidence'))[0]!
  return Object.assign(postrider, { id, store, name, evidence })
}

const postrider = reportServer(start)

const failing = { dkim: 'fail', spf: 'fail', signed: [] } as const

test('does not count 36 reports about the past from three domains in a minute as evidence', async () => {
  postrider.dns.set('mx.postrider.test', 'A', ['192.0.2.10'])
  for (const name of ['one.test', 'two.test', 'three.test']) {
    const reporter = await reporterOf(postrider, name)
    for (let back = 0; back < 12; back++)
      await reporter.dmarc({
        begin: YESTERDAY - back * DAY,
        records: [
          { address: '192.0.2.10', count: 100_000_000 },
          { address: '203.0.113.7', count: 100_000_000, spf: 'fail' },
        ],
      })
  }
  const { reasons, days, messages, ready, reporters } = await postrider.evidence()
  assert.deepEqual([ready, days, reporters], [false, 1, 3])
  // Per provider 10,000 messages of each of 7 days count, without those of this server that it did not send.
  assert.equal(messages, (3 * 7 * 10_000) / 2)
  assert.match(String(reasons), /Reports cover 1 day in .*All of them came from unknown sources/)
  // They are shown all the same.
  const [first] = await rowsOf(postrider, postrider.id, 'dmarc-sources')
  assert.ok(Number(first?.['messages']) > 1_000_000_000)
})

test('counts at most 10,000 messages per provider and day, in any number of reports', async () => {
  const google = await reporterOf(postrider, 'google.test')
  const records = [{ address: '203.0.113.7', count: 6000, ...failing }]
  for (let at = 0; at < 3; at++) await google.dmarc({ records })
  assert.equal((await postrider.evidence())['messages'], 10_000)
  const other = await reporterOf(postrider, 'other.test')
  await other.dmarc({ records })
  assert.equal((await postrider.evidence())['messages'], 16_000)
})

test('lists known sources in a flood of unknown ones, and the number of the others', async () => {
  assert.equal((await postrider.name('203.0.113.0/24', 'shop')).status, 201)
  postrider.dns.set('mx.postrider.test', 'A', ['192.0.2.10'])
  const [evil, google] = [await reporterOf(postrider, 'evil.test'), await reporterOf(postrider, 'google.test')]
  await evil.dmarc({
    records: Array.from({ length: 8000 }, (_, at) => ({
      address: `10.0.${at >> 8}.${at & 255}`,
      count: 9,
      ...failing,
    })),
  })
  await google.dmarc({
    records: [
      { address: '203.0.113.7', count: 3, ...failing },
      { address: '192.0.2.10', count: 2 },
      { address: '198.51.100.1', count: 1, ...failing },
    ],
  })
  const sources = await rowsOf(postrider, postrider.id, 'dmarc-sources?page[size]=1')
  assert.partialDeepStrictEqual(sources[0], { address: 'others', addresses: 7800, messages: 9 * 7800 })
  const known = await rowsOf(postrider, postrider.id, 'dmarc-sources?filter[known]=named,this_server')
  assert.deepEqual(
    known.map((row) => [row['address'], row['messages'], row['addresses']]),
    [
      ['203.0.113.7', 3, 1],
      ['192.0.2.10', 2, 1],
    ],
  )
  assert.equal((await postrider.evidence())['known_fail'], 3)
})

test('authenticates a report later if DNS does not respond', async () => {
  await using postrider = await start()
  const came = async (domain: string) => {
    const from = `noreply@${domain}`
    const sign = await signerOf(postrider.dns, domain)
    const report = mailWith(dmarcReport({ records: [{ count: 7 }] }), { from, to: DMARC_TO }, 'text/xml')
    await deliver(postrider.appliance.smtp[0]!, { from, to: DMARC_TO, message: await sign(report) })
  }
  const due = () => postrider.store.first(raw<{ at: number }>('select next_attempt_at as at from inbound_waiting'))?.at
  postrider.dns.fail(/google\.test$/)
  await came('google.test')
  await until(() => (due() ?? 0) > 0 && (due() ?? 0) < postrider.clock.now() + 1_800_000, 'the wait')
  assert.deepEqual(await reportsOf(postrider, postrider.id), [])
  postrider.dns.fail(false)
  postrider.clock.leap(600_000)
  await read(postrider)
  assert.partialDeepStrictEqual(await reportsOf(postrider, postrider.id), [{ authenticated: true, messages: 7 }])
  // Not for ever: a domain that never answers has its report listed as not proven.
  postrider.dns.fail(/silent\.test$/)
  await came('silent.test')
  for (let tries = 0; tries < 14; tries++) {
    await until(() => due() === undefined || due()! > postrider.clock.now(), 'a try')
    postrider.clock.leap(Math.max(0, (due() ?? 0) - postrider.clock.now()) + 1000)
  }
  await read(postrider)
  assert.deepEqual(
    (await reportsOf(postrider, postrider.id)).map(({ authenticated }) => authenticated),
    [false, true],
  )
})

test('counts a report once, however its id is spelled, and skips records with an impossible count', async () => {
  const google = await reporterOf(postrider, 'google.test')
  for (const id of ['conc', 'Conc ', ' conc', 'CONC', 'co\u200bnc', 'ｃｏｎｃ']) await google.dmarc({ id })
  const reports = await reportsOf(postrider, postrider.id)
  assert.deepEqual([reports.length, reports.filter(({ reason }) => reason === 'duplicate').length], [6, 5])
  await google.dmarc({ id: 'other', records: [{ count: 2 }, { count: 10 ** 12 }, { count: 2.5 }] })
  const [part] = await reportsOf(postrider, postrider.id)
  assert.partialDeepStrictEqual(part, { records: 1, skipped_records: 2, messages: 2 })
  const ann = await signedIn(postrider)
  const page = await ann.open('/domains/here.test/reports/received')
  assert.match(page.text, /partly counted[^]*2 of 3 records were skipped\./)
})

test('rejects a network that is too large, and a name with invisible characters', async () => {
  for (const wide of ['0.0.0.0/0', '203.0.0.0/11', '::/0', '2001::/27', '::ffff:192.0.2.0/120']) {
    const { body, status } = await postrider.name(wide, 'shop')
    assert.deepEqual([status, body.errors[0].source.pointer], [422, '/data/attributes/network'], wide)
    assert.match(body.errors[0].detail, /too large|It must be/)
  }
  for (const hidden of ['sh\u202eop', 'sh\u200bop', 'a\u2066b'])
    assert.equal((await postrider.name('203.0.113.7', hidden)).status, 422, JSON.stringify(hidden))
  assert.equal((await postrider.name('203.0.0.0/12', 'café 7')).status, 201)
})
