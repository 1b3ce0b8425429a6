// The address of the server's own name: SPF and MX of a domain only count if it has one (D219), and the commands show
// its A, AAAA and PTR records.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import { domainByKey, type Domain } from '../../src/domains/find.ts'
import { hostRecords } from '../../src/domains/host-records.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { recordsOf } from '../../src/domains/records.ts'
import { FindingsRegister } from '../../src/parts/findings/register.ts'
import { findings } from '../../src/domains/findings.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { usedKeyPair } from '../kit/keys.ts'
import { until } from '../kit/until.ts'
import { startTestDns } from '../kit/zone.ts'

const HOST = 'mx.postrider.test'

const domainIn = ({ appliance }: TestAppliance, { key }: Pick<Domain, 'key'>): Domain =>
  domainByKey(appliance.deps.store, key)!

/** Advances the clock, and waits until the due domain was checked. */
async function pass(postrider: TestAppliance, domain: Domain, milliseconds: number): Promise<Domain> {
  postrider.clock.leap(milliseconds)
  return until(() => {
    const now = domainIn(postrider, domain)
    return now.checked_at === postrider.clock.now() ? now : undefined
  }, 'the check')
}

const lacking = ({ appliance }: TestAppliance, { key }: Domain): string[] =>
  recordsOf(appliance.deps.store, key).flatMap((record) => (record.missing_address === 1 ? [record.record_type] : []))

test('does not activate a domain while the host of its SPF and MX records has no address', async () => {
  await using postrider = await startTestAppliance()
  const { appliance, commands, dns, user } = postrider
  dns.set(HOST, 'A', undefined)
  const makeKeys = () => usedKeyPair(1024)
  const added = await registerDomain({ ...appliance.deps, makeKeys, ring: () => {} }, user.key, {
    name: 'here.test',
    purpose: 'both',
  })
  postrider.publish(added)
  appliance.deps.bells.domains()
  const domain = await pass(postrider, added, MINUTE)
  assert.equal(domain.status, 'verifying')
  assert.deepEqual(lacking(postrider, domain), ['SPF', 'MAIL_FROM_MX'])
  const { body } = await postrider.api('GET', `/domains/${domain.id}/records?filter[record_type]=SPF`)
  const { missing_address, observed, value, verified } = body.data[0].attributes
  assert.deepEqual([missing_address, verified, observed], [true, false, value])
  const { stdout } = await commands.run(['domain', 'check', 'here.test'])
  const text = String(stdout)
  assert.match(text, /^no address +SPF /m)
  assert.match(text, /SPF record at \S+ names this server, which has no address in DNS; publish its A or AAAA record\./)
  assert.doesNotMatch(text, /^bounce\.here\.test\. /m, 'a zone line of a record that is in DNS')
  dns.set(HOST, 'A', ['127.0.0.1'])
  // The command has set the time of the next check by the system's clock.
  const { body: after } = await postrider.api('POST', `/domains/${domain.id}/check`)
  assert.equal(after.data.attributes.status, 'active')
  assert.deepEqual(lacking(postrider, domain), [])
})

test('keeps an active domain whose host loses its address, and notifies the operator', async () => {
  await using postrider = await startTestAppliance()
  const { appliance, dns } = postrider
  const domain = await postrider.activeDomain('here.test')
  const register = new FindingsRegister(findings, { ...appliance.deps, running: appliance.deps })
  const named = (): string[] =>
    register.lasting().flatMap(({ alert, summary }) => (alert.subject === 'hostname' ? [summary] : []))
  // Without a response the state is unknown.
  dns.fail(/^mx\.postrider\.test$/)
  await pass(postrider, domain, 6 * HOUR)
  assert.deepEqual([lacking(postrider, domain), named()], [[], []])
  dns.fail(false)
  dns.set(HOST, 'A', undefined)
  await pass(postrider, domain, 6 * HOUR)
  assert.deepEqual(named(), [], 'it may be back in a moment')
  for (let day = 0; day < 5; day++) assert.equal((await pass(postrider, domain, DAY)).status, 'active')
  assert.deepEqual(lacking(postrider, domain), ['SPF', 'MAIL_FROM_MX'])
  assert.match(named().join(), /^mx\.postrider\.test has no A or AAAA record/)
  dns.set(HOST, 'AAAA', ['::1'])
  await pass(postrider, domain, HOUR / 2)
  postrider.clock.leap(MINUTE)
  assert.deepEqual([lacking(postrider, domain), named()], [[], []])
})

test('domain records shows the addresses of the server and their PTR records, found or missing', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { commands, dns } = postrider
  dns.set(HOST, 'A', ['1.2.3.4', '1.2.3.5'])
  dns.set('4.3.2.1.in-addr.arpa', 'PTR', [HOST])
  dns.set('5.3.2.1.in-addr.arpa', 'PTR', ['vps.cloud.test'])
  const { records, zone } = await commands.json<{ records: Record<string, string>[]; zone: string }>(
    'domain',
    'records',
    'here.test',
  )
  const own = records.filter(({ record_type = '' }) => ['HOST_ADDRESS', 'REVERSE'].includes(record_type))
  assert.deepEqual(
    own.map(({ name, state, type, value }) => [type, name, value, state]),
    [
      ['A', HOST, '1.2.3.4', 'ok'],
      ['A', HOST, '1.2.3.5', 'ok'],
      ['PTR', '4.3.2.1.in-addr.arpa', HOST, 'ok'],
      ['PTR', '5.3.2.1.in-addr.arpa', HOST, 'different'],
    ],
  )
  assert.doesNotMatch(zone, / IN (?:A|PTR) /)
})

test('reports a sending IP address as missing until its host name has it in DNS', async (t) => {
  const dns = await startTestDns()
  t.after(() => dns.close())
  const source = { address: '1.2.3.6', role: 'any' as const, hostname: 'out.here.test', warmup: true }
  const config = { hostname: HOST, delivery: { source: ['1.2.3.4'], sources: [source] } } as never
  dns.set(HOST, 'A', ['1.2.3.4'])
  const seen = async (): Promise<string[]> =>
    (await hostRecords({ config, resolver: dns.resolver })).map(({ name, state, type }) => `${type} ${name} ${state}`)
  assert.deepEqual(await seen(), [
    `A ${HOST} ok`,
    'A out.here.test missing',
    'PTR 4.3.2.1.in-addr.arpa missing',
    'PTR 6.3.2.1.in-addr.arpa missing',
  ])
  dns.fail(/out\.here/)
  assert.equal((await seen())[1], 'A out.here.test no_answer')
  // Only the outside knows the address, as behind NAT.
  dns.set(HOST, 'A', undefined)
  const behind = { hostname: HOST, delivery: { source: [], sources: [] } } as never
  const [first, ...more] = await hostRecords({ config: behind, resolver: dns.resolver }, () => ({}))
  assert.deepEqual([first?.value, first?.state, more], ['<the public address of this server>', 'missing', []])
})
