// Email of a whole server with DANE: connections, attempts, and the result after a failure.
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
import { timeline } from '../../src/mail/page.ts'
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

/** A domain at the receiving server `host`, whose zone has these TLSA records. */
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

test('an attempt shows the TLS policy, the method that verified the server, and the DNSSEC results', async () => {
  receiver('proven.test', [tlsaOf(3, 1, 1, HOLDER)])
  const id = await post({ to: 'a@proven.test' })
  await become(id, 'delivered')
  const [attempt] = await tries(id)
  assert.match(attempt.tls.cipher, /^TLS_|^ECDHE/)
  assert.deepEqual(
    { ...attempt.tls, cipher: '' },
    { protocol: 'TLSv1.3', cipher: '', policy: 'dane', verified_by: 'dane-ee' },
  )
  assert.deepEqual(attempt.dnssec, { mx: 'secure', address: 'secure', tlsa: 'secure' })
  const { stdout } = await postrider.commands.run(['queue', 'show', id])
  assert.match(String(stdout), /mx\.proven\.test over TLSv1\.3, verified by DANE/)
  assert.match(shownOf(attempt), /at mx\.proven\.test over TLSv1\.3, verified by DANE</)
  // An attempt of an earlier version has only the protocol, and is still shown.
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('update deliveries set security = null where address = ?', ['a@proven.test'])))
  const [old] = await tries(id)
  assert.deepEqual(old.tls, { protocol: 'TLSv1.3', cipher: null, policy: null, verified_by: null })
  assert.equal(old.dnssec, null)
  assert.match(shownOf(old), /at mx\.proven\.test over TLSv1\.3</)
})

test('a manual retry within 30 s after a failed lookup queries DNS again', async () => {
  for (const [domain, question] of [
    ['address.test', 'A mx.address.test'],
    ['exchanger.test', 'MX exchanger.test'],
  ] as const) {
    receiver(domain, [tlsaOf(3, 1, 1, HOLDER)])
    dns.fails.set(question, 'SERVFAIL')
    const ended = (attempts: number): Promise<{ response: string }> =>
      until(
        () =>
          postrider.appliance.deps.store.first(
            raw<{ response: string }>(
              `select response from deliveries where address = ? and attempts = ? and status <> 'active'`,
              [`a@${domain}`, attempts],
            ),
          ),
        `attempt ${attempts}`,
      )
    await post({ to: `a@${domain}` })
    assert.match((await ended(1)).response, /^DNS lookup of .* failed \(ESERVFAIL\)/)
    dns.fails.delete(question)
    clock.leap(2000)
    assert.equal((await postrider.api('POST', `/lanes/${domain}/retry`)).status, 202)
    assert.equal((await ended(2)).response, 'Queued', domain)
  }
})

test('the server page shows whether DANE works, and how to enable it', async () => {
  dns.zones.set('', true)
  dns.set('', 'NS', ['a.root.test'])
  const found = await until(async () => {
    const { findings } = await postrider.appliance.deps.operations.state()
    return findings.find(({ check }) => check === 'DANE')
  }, 'the finding')
  assert.deepEqual([found.status, found.detail], ['ok', `validating: 127.0.0.1:${dns.port}`])
})

test('a DANE failure defers without clear text, fails in the end with its reason, and suppresses no address', async () => {
  receiver('unproven.test', [tlsaOf(3, 1, 1, OTHER)])
  const id = await post({ to: 'a@unproven.test' })
  let shown = await attempted(id, 1)
  assert.deepEqual([shown.status, shown.recipients[0]?.enhanced_code], ['queued', '4.7.5'])
  const [first] = await tries(id)
  assert.deepEqual([first.outcome, first.tls.policy, first.tls.verified_by], ['deferred', 'dane', 'none'])
  // "postrider why" shows the same.
  const { body: why } = await postrider.api('GET', `/explanations?filter[subject]=${id}`)
  const [cause] = why.data.attributes.causes
  assert.deepEqual([cause.cause, cause.confidence], ['dane', 'confirmed'])
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

test('shares a connection only for email with the same TLSA records, and never uses one verified by old records', async () => {
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

test('an attempt keeps its verification method after a later bounce message', async () => {
  receiver('reported.test', [tlsaOf(3, 1, 1, HOLDER)])
  const id = await post({ to: 'a@reported.test' })
  await become(id, 'delivered')
  const { store } = postrider.appliance.deps
  const key = store.first(
    raw<{ key: number }>('select email_key as key from deliveries where address = ?', ['a@reported.test']),
  )!.key
  assert.match(attemptsOf(store, key)[0]!.security ?? '', / dane dane-ee secure secure secure$/)
})
