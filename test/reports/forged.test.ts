// Reports of strangers, who prove their own domain and say what they like: what is evidence, what is hidden by nothing,
// and what is asked again (DV51, DV52, DV55 to DV57).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import {
  DAY,
  DMARC_TO,
  dmarcReport,
  mailWith,
  read,
  reporterOf,
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

const failing = { dkim: 'fail', spf: 'fail', signed: [] } as const

test('36 reports about the past, in a minute, of three domains that agree, do not count as evidence (DV57)', async () => {
  await using postrider = await start()
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
  const { because, days, messages, ready, reporters } = await postrider.evidence()
  assert.deepEqual([ready, days, reporters], [false, 1, 3])
  // Of each provider 10,000 messages of each of 7 days count; what is said of this server it did not send.
  assert.equal(messages, (3 * 7 * 10_000) / 2)
  assert.match(String(because), /Reports speak of 1 day; .*None of it came from an address that is known here/)
  // They are shown all the same.
  const [first] = await rowsOf(postrider, postrider.id, 'dmarc-sources')
  assert.ok(Number(first?.['messages']) > 1_000_000_000)
})

test('what one provider says of a day counts up to 10,000 messages, in however many reports (DV57)', async () => {
  await using postrider = await start()
  const google = await reporterOf(postrider, 'google.test')
  const records = [{ address: '203.0.113.7', count: 6000, ...failing }]
  for (let at = 0; at < 3; at++) await google.dmarc({ records })
  assert.equal((await postrider.evidence())['messages'], 10_000)
  const other = await reporterOf(postrider, 'other.test')
  await other.dmarc({ records })
  assert.equal((await postrider.evidence())['messages'], 16_000)
})

test('a flood of strangers does not hide what is known, and their sum says how many they are (DV55)', async () => {
  await using postrider = await start()
  assert.equal((await postrider.name('203.0.113.0/24', 'shop')).status, 201)
  postrider.dns.set('mx.postrider.test', 'A', ['192.0.2.10'])
  const [evil, google] = [await reporterOf(postrider, 'evil.test'), await reporterOf(postrider, 'google.test')]
  const addressOf = (at: number): string => `10.${at >> 16}.${(at >> 8) & 255}.${at & 255}`
  await evil.dmarc({
    records: Array.from({ length: 8000 }, (_, at) => ({ address: addressOf(at), count: 9, ...failing })),
  })
  await google.dmarc({
    records: [
      { address: '203.0.113.7', count: 3, ...failing },
      { address: '192.0.2.10', count: 2 },
      { address: '198.51.100.1', count: 1, ...failing },
    ],
  })
  const sources = await rowsOf(postrider, postrider.id, 'dmarc-sources?page[size]=1')
  assert.partialDeepStrictEqual(sources[0], { address: 'others', addresses: 8001 - 100 })
  const known = await rowsOf(postrider, postrider.id, 'dmarc-sources?filter[known]=named,this_server')
  assert.deepEqual(
    known.map((row) => [row['address'], row['messages'], row['addresses']]),
    [
      ['203.0.113.7', 3, 1],
      ['192.0.2.10', 2, 1],
    ],
  )
  assert.equal((await postrider.evidence())['known_fail'], 3)
  // A flood of addresses in a named network is summed under its name, and never as strangers.
  const headers = Array.from({ length: 2000 }, (_, at) => ({
    address: '203.0.113.9',
    from: `x${at}.here.test`,
    ...failing,
  }))
  await evil.dmarc({ records: headers })
  const named = await rowsOf(postrider, postrider.id, 'dmarc-sources?filter[known]=named')
  assert.equal(
    named.reduce((all, row) => all + Number(row['messages']), 0),
    2003,
  )
  assert.ok(named.some((row) => row['address'] === '203.0.113.0/24'))
  const { rows } = postrider.store.one(raw<{ rows: number }>('select count(*) as rows from dmarc_figures'))
  assert.ok(rows < 6100, `${rows} rows`)
})

test('a report whose author DNS cannot prove now is proven later (DV52)', async () => {
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
  postrider.clock.advance(600_000)
  await read(postrider)
  assert.partialDeepStrictEqual(await reportsOf(postrider, postrider.id), [{ authenticated: true, messages: 7 }])
  // Not for ever: a domain that never answers has its report listed as not proven.
  postrider.dns.fail(/silent\.test$/)
  await came('silent.test')
  for (let tries = 0; tries < 14; tries++) {
    await until(() => due() === undefined || due()! > postrider.clock.now(), 'a try')
    postrider.clock.advance(Math.max(0, (due() ?? 0) - postrider.clock.now()) + 1000)
  }
  await read(postrider)
  assert.deepEqual(
    (await reportsOf(postrider, postrider.id)).map(({ authenticated }) => authenticated),
    [false, true],
  )
})

test('a report counts once, however its id is spelled (DV51); one with a count that cannot be is read in part (DV50)', async () => {
  await using postrider = await start()
  const google = await reporterOf(postrider, 'google.test')
  for (const id of ['conc', 'Conc ', ' conc', 'CONC', 'co\u200bnc', 'ｃｏｎｃ']) await google.dmarc({ id })
  const reports = await reportsOf(postrider, postrider.id)
  assert.deepEqual([reports.length, reports.filter(({ why }) => why === 'duplicate').length], [6, 5])
  await google.dmarc({ id: 'other', records: [{ count: 2 }, { count: 10 ** 12 }, { count: 2.5 }] })
  const [part] = await reportsOf(postrider, postrider.id)
  assert.partialDeepStrictEqual(part, { records: 1, skipped_records: 2, messages: 2 })
  await givePassword(postrider, postrider.user.email, 'a long enough password')
  const ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, 'a long enough password')
  const page = await ann.open('/domains/here.test/reports/received')
  assert.match(page.text, /in part[^]*2 of 3 records could not be used\./)
})

test('a network that is most of the Internet, and a name that hides, are refused at their place (DV56)', async () => {
  await using postrider = await start()
  for (const wide of ['0.0.0.0/0', '203.0.0.0/11', '::/0', '2001::/27', '::ffff:192.0.2.0/120']) {
    const { body, status } = await postrider.name(wide, 'shop')
    assert.deepEqual([status, body.errors[0].source.pointer], [422, '/data/attributes/network'], wide)
    assert.match(body.errors[0].detail, /too wide|It must be/)
  }
  for (const hidden of ['sh\u202eop', 'sh\u200bop', 'a\u2066b'])
    assert.equal((await postrider.name('203.0.113.7', hidden)).status, 422, JSON.stringify(hidden))
  assert.equal((await postrider.name('203.0.0.0/12', 'café 7')).status, 201)
})
