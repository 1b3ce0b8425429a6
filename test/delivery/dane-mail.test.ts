// Mail of a whole server by DANE: connections, what attempts show, what a failure ends as.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createValidating } from '../../src/net/validated.ts'
import { attemptsOf } from '../../src/delivery/results/attempt-log.ts'
import { raw } from '../../src/store/query.ts'
import { issue, tlsaOf } from '../kit/authority.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { startSignedDns, type SignedDns } from '../kit/signed-zones.ts'
import { timeline } from '../../src/mail/page-way.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const { attempted, become, events, post, turnToNext } = mailsOf(() => postrider)
const HOLDER = issue({ subject: 'stranger.invalid', from: 0, until: 1000 })
const OTHER = issue({ subject: 'other.invalid' })

const clock = new ManualClock()
const exchanger = testExchanger({ tls: true, certificate: () => HOLDER })
let dns: SignedDns
const postrider = ofFile(async () => {
  dns = await startSignedDns()
  dns.zones.set('test', true)
  const servers = [{ host: '127.0.0.1', port: dns.port }]
  return startTestAppliance({
    clock,
    config: { dns: { servers: [`127.0.0.1:${dns.port}`] } },
    exchanger,
    domains: ['here.test'],
    validating: createValidating({ clock, servers, trusted: [], timeout: 60_000 }),
  })
})
after(() => dns[Symbol.asyncDispose]())

/** A domain at the exchanger `host`, whose zone has these TLSA records. */
function receiver(domain: string, records: readonly string[], host = `mx.${domain}`): void {
  dns.set(domain, 'MX', [`10 ${host}`], 1)
  dns.set(host, 'A', ['127.0.0.1'], 1)
  dns.set(`_${exchanger.port}._tcp.${host}`, 'TLSA', records, 1)
}

// oxlint-disable-next-line typescript/no-explicit-any
const tries = async (id: string): Promise<any[]> => {
  const { body, status } = await postrider.api('GET', `/outbound-emails/${id}/attempts`)
  assert.equal(status, 200)
  return body.data.map(({ attributes }: { attributes: unknown }) => attributes)
}

/** An attempt on the page of its mail. */
// oxlint-disable-next-line typescript/no-explicit-any
const shownOf = (attributes: any): string =>
  `${timeline({ attributes: {} } as never, [{ attributes } as never], []) as unknown as string}`

test('an attempt shows what asked for TLS, what proved the exchanger, and what DNS said (DV35)', async () => {
  receiver('proven.test', [tlsaOf(3, 1, 1, HOLDER)])
  const id = await post({ to: 'a@proven.test' })
  await become(id, 'delivered')
  const [attempt] = await tries(id)
  assert.match(attempt.tls.cipher, /^TLS_|^ECDHE/)
  assert.deepEqual(
    { ...attempt.tls, cipher: '' },
    { protocol: 'TLSv1.3', cipher: '', policy: 'dane', proof: 'dane-ee' },
  )
  assert.deepEqual(attempt.dnssec, { mx: 'secure', address: 'secure', tlsa: 'secure' })
  const { stdout } = await postrider.commands.run(['queue', 'show', id])
  assert.match(String(stdout), /mx\.proven\.test over TLSv1\.3, proven by DANE/)
  assert.match(shownOf(attempt), /at mx\.proven\.test over TLSv1\.3, proven by DANE</)
  // An attempt of an earlier version has the protocol alone, and is still shown.
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('update deliveries set security = null where address = ?', ['a@proven.test'])))
  const [old] = await tries(id)
  assert.deepEqual(old.tls, { protocol: 'TLSv1.3', cipher: null, policy: null, proof: null })
  assert.equal(old.dnssec, null)
  assert.match(shownOf(old), /at mx\.proven\.test over TLSv1\.3</)
})

test('the page of the server says whether DANE works, and how to get it (DV25, DV31)', async () => {
  dns.zones.set('', true)
  dns.set('', 'NS', ['a.root.test'])
  const found = await until(async () => {
    const { findings } = await postrider.appliance.deps.operations.state()
    return findings.find(({ check }) => check === 'DANE')
  }, 'the finding')
  assert.deepEqual([found.status, found.detail], ['ok', `validating: 127.0.0.1:${dns.port}`])
})

test('a failure is temporary, in no clear text, ends as failed with its reason, and is nobody’s bounce (DV33, DV35)', async () => {
  receiver('unproven.test', [tlsaOf(3, 1, 1, OTHER)])
  const id = await post({ to: 'a@unproven.test' })
  let shown = await attempted(id, 1)
  assert.deepEqual([shown.status, shown.recipients[0]?.enhanced_code], ['queued', '4.7.5'])
  const [first] = await tries(id)
  assert.deepEqual([first.outcome, first.tls.policy, first.tls.proof], ['deferred', 'dane', 'none'])
  // "postrider why" reads the same (DV35).
  const { body: why } = await postrider.api('GET', `/explanations?filter[subject]=${id}`)
  const [cause] = why.data.attributes.causes
  assert.deepEqual([cause.cause, cause.strength], ['dane', 'shown'])
  assert.match(cause.evidence[0].text, /no TLSA record .* \(DNSSEC: MX secure, address secure, TLSA secure\)$/)
  for (let attempt = 2; shown.status === 'queued'; attempt++) {
    assert.ok(attempt < 60)
    await turnToNext(id)
    shown = await attempted(id, attempt)
  }
  assert.equal(shown.status, 'failed')
  assert.match(shown.recipients[0]?.response ?? '', /no TLSA record of mx\.unproven\.test matches/)
  assert.ok(!exchanger.heard.some(({ to }) => to.includes('a@unproven.test')))
  const { body } = await postrider.api('GET', '/suppressions?filter[email]=a@unproven.test')
  assert.deepEqual(body.data, [])
  assert.ok(events(id).length > 0)
})

test('one connection for mail with the same proof, another for another, none that is proven by old records (DV34)', async () => {
  receiver('one.test', [tlsaOf(3, 1, 1, HOLDER)], 'mx.shared.test')
  receiver('two.test', [tlsaOf(3, 1, 1, HOLDER)], 'mx.shared.test')
  const before = exchanger.connections
  await become(await post({ to: 'a@one.test' }), 'delivered')
  await become(await post({ to: 'a@two.test' }), 'delivered')
  // The idle connection was used again.
  assert.equal(exchanger.connections, before + 1)
  // New records that match too, while mail keeps the connection open: it is closed, and another one proven.
  dns.set(`_${exchanger.port}._tcp.mx.shared.test`, 'TLSA', [tlsaOf(3, 0, 1, HOLDER)], 1)
  for (let mail = 0; mail < 16; mail++) {
    clock.advance(2000)
    await become(await post({ to: `b${mail}@one.test` }), 'delivered')
  }
  assert.equal(exchanger.connections, before + 2)
  // Records that do not match: the open connection does not count any more.
  dns.set(`_${exchanger.port}._tcp.mx.shared.test`, 'TLSA', [tlsaOf(3, 1, 1, OTHER)], 1)
  const ends: (string | null)[] = []
  for (let mail = 0; mail < 16 && !ends.includes('4.7.5'); mail++) {
    clock.advance(2000)
    ends.push((await attempted(await post({ to: `c${mail}@one.test` }), 1)).recipients[0]!.enhanced_code)
  }
  assert.ok(ends.length > 1 && ends.at(-1) === '4.7.5', ends.join())
})

test('an attempt before a report keeps what proved it (DV35)', async () => {
  receiver('reported.test', [tlsaOf(3, 1, 1, HOLDER)])
  const id = await post({ to: 'a@reported.test' })
  await become(id, 'delivered')
  const { store } = postrider.appliance.deps
  const key = store.first(
    raw<{ key: number }>('select email_key as key from deliveries where address = ?', ['a@reported.test']),
  )!.key
  assert.match(attemptsOf(store, key)[0]!.security ?? '', / dane dane-ee secure secure secure$/)
})
