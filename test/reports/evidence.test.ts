// The sources of a domain's email, the effect of the next DMARC policy, and its record.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { evidenceBy } from '../../src/reports/evidence.ts'
import type { DmarcSource } from '../../src/reports/sources.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { signedIn } from '../kit/signed-in.ts'
import { DAY, reporterOf, rowsOf, type RecordSaid } from './reporter.ts'

const source = ({
  messages = 1000,
  pass = 1000,
  evidence_proven = messages,
  ...more
}: Partial<DmarcSource>): DmarcSource => ({
  address: '192.0.2.1',
  addresses: 1,
  known: 'this_server',
  name: null,
  messages,
  pass,
  evidence: messages,
  evidence_pass: pass,
  evidence_proven,
  dkim_pass: 1000,
  spf_pass: 1000,
  none: 1000,
  quarantine: 0,
  reject: 0,
  passed: 0,
  forwarded: 0,
  both: 1,
  first_day: 0,
  last_day: 0,
  ...more,
})

const ENOUGH = { days: 10, reporters: 3, unsent: 0 }
const unknown = (messages: number, more: Partial<DmarcSource> = {}): DmarcSource =>
  source({ address: '203.0.113.9', known: 'unknown', messages, pass: 0, ...more })

describe('the evidence for the next policy', () => {
  const READY: Record<string, Parameters<typeof evidenceBy>> = {
    'enough of all': [[source({ messages: 50, pass: 50 })], ENOUGH, 'none'],
    '0.5 % of the known fail': [[source({ pass: 995 })], ENOUGH, 'none'],
    'unknown sources fail, whatever they send': [
      [source({}), unknown(9000, { evidence_proven: 0 })],
      ENOUGH,
      'quarantine',
    ],
    'an unknown source that passes for another domain, under 2 %': [
      [source({ messages: 981, pass: 981 }), unknown(20)],
      ENOUGH,
      'none',
    ],
    'the sum of small sources': [[source({}), unknown(500, { address: '' })], ENOUGH, 'none'],
  }
  for (const [name, given] of Object.entries(READY))
    test(`is complete: ${name}`, () => {
      const { reasons, next, next_affected, ready } = evidenceBy(...given)
      assert.equal(ready, true, reasons.join(' '))
      assert.equal(next, given[2] === 'none' ? 'quarantine' : 'reject')
      assert.equal(next_affected, name.startsWith('0.5') ? 5 : 0)
      // The text names the affected messages, and never claims that the policy is safe.
      assert.match(reasons.join(' '), /would have affected \d+ of \d+ messages from known sources/)
      assert.doesNotMatch(reasons.join(' '), /safe/)
    })

  const LACKS: Record<string, [given: Parameters<typeof evidenceBy>, says: RegExp]> = {
    'nine days': [
      [[source({})], { ...ENOUGH, days: 9 }, 'none'],
      /^Reports cover 9 days in the last 14 days\. At least 10 are needed\.$/,
    ],
    'two reporters': [
      [[source({})], { ...ENOUGH, reporters: 2 }, 'none'],
      /^Authenticated reports came from 2 providers in the last 14 days\. At least 3 are needed\.$/,
    ],
    '49 messages': [
      [[source({ messages: 49, pass: 49 })], ENOUGH, 'none'],
      /^Reports cover 49 messages in the last 14 days\. At least 50 are needed\.$/,
    ],
    '0.6 % of the known fail': [
      [[source({ pass: 994 })], ENOUGH, 'none'],
      /^6 of 1000 messages from known sources failed/,
    ],
    'a forgotten service with 2 %': [
      [[source({ messages: 980, pass: 980 }), unknown(20)], ENOUGH, 'none'],
      /^The unknown source 203\.0\.113\.9 sent 20 messages/,
    ],
    'a forwarder that fails': [
      [[source({}), source({ known: 'forwarder', messages: 100, pass: 50 })], ENOUGH, 'none'],
      /^50 of 1050 messages from known sources failed/,
    ],
    'passing messages that this server did not send': [
      [[source({ messages: 100_010, pass: 100_000 })], { ...ENOUGH, unsent: 99_000 }, 'none'],
      /^10 of 1010 messages from known sources failed/,
    ],
    'no messages of known addresses, whatever forwarders send': [
      [[source({ known: 'forwarder' }), unknown(9000, { evidence_proven: 0 })], ENOUGH, 'none'],
      /^All of them came from unknown sources/,
    ],
    'the strictest policy': [[[source({})], ENOUGH, 'reject'], /^p=reject is the strictest policy\.$/],
    'no record': [[[source({})], ENOUGH, null], /^No DMARC record found/],
  }
  for (const [name, [given, says]] of Object.entries(LACKS))
    test(`lacks something: ${name}`, () => {
      const { reasons, ready } = evidenceBy(...given)
      assert.equal(ready, false)
      assert.equal(reasons.length, 1, reasons.join(' '))
      assert.match(reasons[0] ?? '', says)
    })
})

const idOf = async (postrider: TestAppliance): Promise<string> =>
  (await postrider.api('GET', '/domains?filter[name]=here.test')).body.data[0].id

const OWN = '192.0.2.10'

/** Reports of three providers about ten days, each on the day after, until the last of them is yesterday. */
async function tenDays(postrider: TestAppliance, records: readonly RecordSaid[]): Promise<void> {
  const { clock } = postrider
  const names = ['one.test', 'two.test', 'three.test']
  const reporters = await Promise.all(names.map((name) => reporterOf(postrider, name)))
  for (let day = 0; day < 10; day++) {
    if (day > 0) clock.leap(DAY * 1000)
    const begin = Math.floor(clock.now() / 86_400_000) * DAY - DAY
    for (const reporter of reporters) await reporter.dmarc({ begin, records })
  }
}

/** Deliveries by this server in the name of the domain on each of the last days. */
const sent = (postrider: TestAppliance, deliveries: number): Promise<void> =>
  postrider.appliance.deps.store.write((tx) => {
    for (let back = 0; back < 12; back++)
      tx.run(
        raw(
          `insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints)
           select user_key, key, '', ?, ?, 0, 0 from domains where name = 'here.test'`,
          [Math.floor(postrider.clock.now() / 3_600_000) - back * 24, deliveries],
        ),
      )
  })

describe('sources', () => {
  test('are this server, its relay, a name, a forwarder or unknown', async () => {
    await using postrider = await startTestAppliance({
      domains: ['here.test'],
      config: {
        delivery: {
          source: ['127.0.0.1'],
          sources: [{ address: '127.0.0.2' }],
          routes: [
            { domains: ['relayed.test'], hosts: ['relay.test', '198.51.100.3'] },
            { domains: ['others.test'], host: 'mx:cluster.test' },
          ],
        },
      },
    })
    postrider.dns.set('cluster.test', 'MX', ['10 one.cluster.test'])
    postrider.dns.set('one.cluster.test', 'A', ['198.51.100.4'])
    postrider.dns.set('mx.postrider.test', 'A', [OWN])
    postrider.dns.set('mx.postrider.test', 'AAAA', ['2001:DB8:0::10'])
    postrider.dns.set('relay.test', 'A', ['198.51.100.1'])
    const id = await idOf(postrider)
    const failing = { dkim: 'fail', spf: 'fail' } as const
    const google = await reporterOf(postrider, 'google.test')
    await google.dmarc({
      records: [
        { address: OWN, count: 9 },
        { address: '2001:db8::10', count: 8 },
        { address: '127.0.0.1', count: 7 },
        { address: '127.0.0.2', count: 7 },
        { address: '198.51.100.1', count: 6, spf: 'fail' },
        { address: '198.51.100.3', count: 6, spf: 'fail' },
        { address: '198.51.100.4', count: 6, spf: 'fail' },
        { address: '198.51.100.2', count: 5 },
        { address: '203.0.113.7', count: 4, ...failing, signed: ['service.test'] },
        { address: '203.0.113.200', count: 3, spf: 'fail' },
        { address: '203.0.113.201', count: 2, ...failing, reason: 'mailing_list', signed: [] },
        { address: '203.0.113.202', count: 1, ...failing, signed: [] },
      ],
    })
    const name = (network: string, of: string) =>
      postrider.api('POST', `/domains/${id}/known-sources`, document('known-sources', { network, name: of }))
    assert.equal((await name('203.0.113.0/25', 'a network')).status, 201)
    assert.equal((await name('203.0.113.7', 'shop')).status, 201)
    const shown = async (query = '') =>
      (await rowsOf(postrider, id, `dmarc-sources${query}`)).map((row) => [row['address'], row['known'], row['name']])
    assert.deepEqual(await shown(), [
      [OWN, 'this_server', null],
      ['2001:db8::10', 'this_server', null],
      ['127.0.0.1', 'this_server', null],
      ['127.0.0.2', 'this_server', null],
      ['198.51.100.1', 'relay', null],
      ['198.51.100.3', 'relay', null],
      ['198.51.100.4', 'relay', null],
      ['198.51.100.2', 'relay', null],
      ['203.0.113.7', 'named', 'shop'],
      ['203.0.113.200', 'forwarder', null],
      ['203.0.113.201', 'forwarder', null],
      ['203.0.113.202', 'unknown', null],
    ])
    assert.deepEqual(await shown('?filter[known]=named,unknown'), [
      ['203.0.113.7', 'named', 'shop'],
      ['203.0.113.202', 'unknown', null],
    ])
    assert.deepEqual((await shown('?page[size]=2')).length, 2)
    const [first] = await rowsOf(postrider, id, 'dmarc-sources')
    assert.deepEqual(first?.['reporters'], ['google.test'], 'who alone says it')
    for (const query of ['?filter[known]=friend', '?filter[period]=24h'])
      assert.equal((await postrider.api('GET', `/domains/${id}/dmarc-sources${query}`)).status, 400, query)
    // The same network gets the new name, and an invalid one is rejected at its attribute.
    assert.equal((await name('203.0.113.7', 'web shop')).status, 201)
    assert.deepEqual((await shown('?filter[known]=named'))[0], ['203.0.113.7', 'named', 'web shop'])
    for (const wrong of ['203.0.113', '203.0.113.0/33', 'shop.test', '::/129']) {
      const { body, status } = await name(wrong, 'x')
      assert.deepEqual([status, body.errors[0].source.pointer], [422, '/data/attributes/network'], wrong)
    }
    const [known] = (await postrider.api('GET', `/domains/${id}/known-sources?sort=-created_at`)).body.data
    assert.equal((await postrider.asOther('DELETE', `/known-sources/${known.id}`)).status, 404)
    assert.equal((await postrider.api('DELETE', `/known-sources/${known.id}`)).status, 204)
    assert.deepEqual((await shown('?filter[known]=named'))[0], ['203.0.113.7', 'named', 'a network'])
  })
})

test('offers the next policy with its evidence, and never changes it automatically', async () => {
  // Commands have the clock of the machine.
  await using postrider = await startTestAppliance({
    domains: ['here.test'],
    clock: new ManualClock(systemClock.now() - 9 * DAY * 1000),
  })
  postrider.dns.set('mx.postrider.test', 'A', [OWN])
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=none; rua=mailto:d@here.test'])
  await postrider.commands.run(['domain', 'check', 'here.test'])
  const id = await idOf(postrider)
  const before = (await rowsOf(postrider, id, 'dmarc-evidence'))[0]
  assert.partialDeepStrictEqual(before, { policy: 'none', next: 'quarantine', ready: false, messages: 0 })
  await tenDays(postrider, [{ address: OWN, count: 2 }])
  // Email that another server sent is not evidence.
  assert.partialDeepStrictEqual((await rowsOf(postrider, id, 'dmarc-evidence'))[0], { messages: 0, ready: false })
  await sent(postrider, 6)
  const [evidence] = await rowsOf(postrider, id, 'dmarc-evidence')
  assert.partialDeepStrictEqual(evidence, {
    days: 10,
    reporters: 3,
    messages: 60,
    pass: 60,
    known_fail: 0,
    unknown_sources: 0,
    next: 'quarantine',
    ready: true,
    record: '_dmarc.here.test',
    value: 'v=DMARC1; p=quarantine; rua=mailto:d@here.test,mailto:dmarc-reports@bounce.here.test',
  })
  // The page shows the DNS record to publish. The API sets no policy.
  const ann = await signedIn(postrider)
  const page = await ann.open('/domains/here.test/reports')
  assert.match(page.text, /You are ready for <code>p=quarantine<\/code>\./)
  assert.match(page.text, /set the TXT record at <code>_dmarc\.here\.test<\/code>\s+to\s+the\s+value\s+below/)
  assert.match(page.text, /v=DMARC1; p=quarantine; rua=mailto:d@here\.test,mailto:dmarc-reports@bounce\.here\.test/)
  // Done there, the next check sees it, and the step after it is shown.
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=quarantine; rua=mailto:d@here.test'])
  await postrider.commands.run(['domain', 'check', 'here.test'])
  assert.match(
    (await ann.open('/domains/here.test/reports')).text,
    /Current policy: <code>p=quarantine<\/code>\.[^]*ready for <code>p=reject<\/code>/,
  )
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=none; rua=mailto:d@here.test'])
  await postrider.commands.run(['domain', 'check', 'here.test'])
  const { commands } = postrider
  const said = await commands.json('domain', 'dmarc', 'here.test')
  assert.partialDeepStrictEqual(said, { policy: 'none', next: 'quarantine', evidence: { messages: 60, days: 10 } })
  const offered = (await commands.run(['domain', 'dmarc', 'here.test'])).stdout
  assert.match(offered, /Next step: "postrider domain dmarc here\.test --policy quarantine"/)
  const refused = await commands.run(['domain', 'dmarc', 'here.test', '--automatic', 'on'])
  assert.equal(refused.code, 1)
  assert.match(
    refused.stderr,
    /Automatic policy changes are not supported, because Postrider cannot write to your DNS; set the next policy with --policy\.$/m,
  )
  assert.equal((await commands.json('domain', 'dmarc', 'here.test', '--automatic', 'off')).wanted, 'none')
  const half = await commands.run(['domain', 'dmarc', 'here.test', '--known-source', '192.0.2.77'])
  assert.deepEqual([half.code, /must be used together; add the missing one/.test(half.stderr)], [1, true])
  await commands.json('domain', 'dmarc', 'here.test', '--known-source', '192.0.2.77/32', '--name', 'newsletter')
  assert.partialDeepStrictEqual(await rowsOf(postrider, id, 'known-sources'), [{ name: 'newsletter' }])
  const rows = await commands.json('domain', 'reports', 'here.test', '--kind', 'dmarc')
  assert.equal(rows.length, 30)
  assert.partialDeepStrictEqual(rows[0], { reporter: 'three.test', authenticated: true, messages: 2, outcome: 'read' })
  assert.deepEqual(await commands.json('domain', 'reports', 'here.test', '--kind', 'tls'), [])
  assert.deepEqual(await commands.json('domain', 'reports', 'here.test', '--since', '2099-01-01'), [])
  assert.match((await commands.run(['domain', 'reports', 'here.test'])).stdout, /three\.test +yes +20/)
})

test('shows sources, reports and TLS results in the console, and names a source there', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const google = await reporterOf(postrider, 'google.test')
  await google.dmarc({
    records: [{ address: '203.0.113.7', count: 5, dkim: 'fail', spf: 'fail', signed: ['shop.test'] }],
  })
  await google.dmarc({ domain: 'elsewhere.test' })
  await google.tls({ policies: [{ success: 5, failure: 2, result: 'certificate-expired' }] })
  const ann = await signedIn(postrider)
  const domain = await ann.open('/domains/here.test')
  assert.match(domain.text, /Last 14 days: 5 emails reported by 1 provider, 5 failed DMARC\./)
  const sources = await ann.open('/domains/here.test/reports')
  assert.match(sources.text, /203\.0\.113\.7[^]*unknown[^]*shop\.test[^]*google\.test/)
  assert.match(sources.text, /Authenticated reports came from 1 provider in the last 14 days\. At least 3 are needed\./)
  assert.match(sources.text, /Keep the current record until then/)
  const named = await ann.send(sources, 'name', { network: '203.0.113.7', name: 'web shop' })
  assert.match(named.text, /203\.0\.113\.7 was added as web shop\./)
  const wrong = await ann.send(sources, 'name', { network: 'shop', name: 'web shop' })
  assert.match(wrong.text, /Use an address such as 192\.0\.2\.1/)
  const received = await ann.open('/domains/here.test/reports/received')
  assert.match(
    received.text,
    /google\.test[^]*rejected[^]*It is about a domain that does not belong to this report address\./,
  )
  const tls = await ann.open('/domains/here.test/reports/tls')
  assert.match(tls.text, /certificate-expired × 2[^]*The certificate has expired/)
  assert.equal(postrider.appliance.deps.store.all(raw('select key from known_sources')).length, 1)
})
