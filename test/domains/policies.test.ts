// What a domain asks of others: its MTA-STS policy for mail that it receives (RFC 8461), its DMARC policy, and the
// records that are advised (D78).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { DAY } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { advisedRecords, publicKeyOf } from '../../src/domains/advised.ts'
import { setStsMode } from '../../src/domains/inbound-sts.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { Commands } from '../cli/command.ts'

let postrider: TestAppliance
let commands: Commands

before(async () => {
  postrider = await startTestAppliance()
  commands = Commands.beside(postrider, `[dns]\nservers = ["127.0.0.1:${postrider.dns.port}"]\n`)
  await postrider.activeDomain('here.test')
})
after(async () => {
  await commands.close()
  await postrider.stop()
})

const policy = (host: string) => postrider.raw('/.well-known/mta-sts.txt', { headers: { host } })

test('MTA-STS: no policy until it is set; then the text of the RFC, and an id that changes with it', async () => {
  assert.equal((await policy('mta-sts.here.test')).status, 404)
  const set = await commands.json('domain', 'sts', 'here.test', '--mode', 'testing')
  assert.equal(set.warnings.length, 1, 'no certificate yet')
  const { body, headers, status } = await policy('mta-sts.here.test')
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^text\/plain/)
  assert.equal(body, 'version: STSv1\r\nmode: testing\r\nmx: mx.postrider.test\r\nmax_age: 86400\r\n')
  for (const host of ['here.test', 'mta-sts.other.test', '']) assert.equal((await policy(host)).status, 404, host)
  const id = (records: { name: string; value: string }[]): string =>
    records.find(({ name }) => name === '_mta-sts.here.test')!.value
  const first = id((await commands.json('domain', 'records', 'here.test')).records)
  assert.match(first, /^v=STSv1; id=[0-9a-zA-Z]{1,32};$/)
  const { desk } = postrider.appliance
  const { key } = desk.store.first<{ key: number }>({
    compile: () => ({ sql: 'select key from domains', parameters: [] }),
  })!
  postrider.clock.leap(30 * 365 * DAY)
  await setStsMode(desk, key, 'enforce')
  assert.notEqual(id((await commands.json('domain', 'records', 'here.test')).records), first)
  assert.match((await policy('MTA-STS.here.test:443')).body, /mode: enforce\r\n[^]*max_age: 15552000/)
  const early = await commands.json('domain', 'sts', 'here.test', '--mode', 'enforce')
  assert.match(early.warnings[0], /was not in testing for a week/)
  await commands.json('domain', 'sts', 'here.test', '--mode', 'none')
  assert.match((await policy('mta-sts.here.test')).body, /mode: none/)
})

test('DMARC: what is published, what it should say, and a warning before it is stricter', async () => {
  const shown = await commands.json('domain', 'dmarc', 'here.test')
  assert.deepEqual([shown.record, shown.policy, shown.wanted], ['_dmarc.here.test', 'none', 'none'])
  assert.equal(shown.next, 'quarantine')
  const stricter = await commands.json('domain', 'dmarc', 'here.test', '--policy', 'quarantine')
  assert.equal(stricter.value, 'v=DMARC1; p=quarantine;')
  assert.match(stricter.warning, /put aside mail in the name of here\.test/)
  const { records } = await commands.json('domain', 'records', 'here.test')
  const dmarc = records.find(({ record_type }: { record_type: string }) => record_type === 'DMARC')
  assert.equal(dmarc.value, 'v=DMARC1; p=quarantine;')
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=quarantine;', 'v=DMARC1; p=none'])
  assert.equal((await commands.json('domain', 'dmarc', 'here.test')).published, null)
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=quarantine;'])
  const done = await commands.json('domain', 'dmarc', 'here.test')
  assert.deepEqual([done.policy, done.next, done.warning], ['quarantine', 'reject', null])
})

test('advised: SPF of the domain itself where it has none, else what to add; CAA by the authority; TLSA of each key', async () => {
  const { dns } = postrider
  const keys = [
    publicKeyOf(makeCertificate('a.test', Date.now()).cert),
    publicKeyOf(makeCertificate('b.test', Date.now()).cert),
  ]
  const advised = (name: string, acme: object = {}) =>
    advisedRecords(
      {
        config: parseConfig({ hostname: 'mx.here.test', acme }),
        resolver: dns.resolver,
        publicKeys: keys,
        certified: ['mx.here.test', 'mta-sts.here.test'],
      },
      { name, sts_mode: 'none', sts_changed_at: null },
      'ann@here.test',
    )
  const spf = async (name: string) =>
    (await advised(name)).filter(({ record_type }) => record_type === 'FROM_SPF').map(({ value }) => value)
  assert.deepEqual(await spf('none.test'), ['v=spf1 a:mx.here.test ~all'])
  dns.set('some.test', 'TXT', ['other', 'v=spf1 include:x.test -all'])
  assert.deepEqual(await spf('some.test'), ['v=spf1 include:x.test a:mx.here.test -all'])
  dns.set('there.test', 'TXT', ['v=spf1 +A:mx.here.test -all'])
  assert.deepEqual(await spf('there.test'), [])
  const plain = await advised('none.test')
  assert.equal(plain.filter(({ record_type }) => record_type === 'TLSA').length, 2)
  assert.match(plain.find(({ type }) => type === 'TLSA')!.value, /^3 1 1 [0-9a-f]{64}$/)
  assert.equal(
    plain.some(({ type }) => type === 'CAA'),
    false,
  )
  const caa = (await advised('none.test', { enabled: true, accept_terms: true })).filter(({ type }) => type === 'CAA')
  assert.deepEqual(
    caa.map(({ name, value }) => `${name} ${value}`),
    ['mx.here.test 0 issue "letsencrypt.org"', 'mta-sts.here.test 0 issue "letsencrypt.org"'],
  )
})
