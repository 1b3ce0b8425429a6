import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import dnsPacket from 'dns-packet'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import {
  createResolver,
  type ResolverAnswer as Found,
  type Mx,
  type Resolver,
  type Tlsa,
} from '../../src/net/resolver.ts'
import { checkDomain, nextCheck } from '../../src/domains/check.ts'
import { lookUp, recordsOf, type DnsRecord } from '../../src/domains/records.ts'
import { domainByKey, type Domain } from '../../src/domains/find.ts'
import { changeDomain } from '../../src/domains/lifecycle.ts'
import type { DomainStatus } from '../../src/store/states/domain.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer, type TestAppliance } from '../kit/appliance.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() => startTestAppliance())

const api: TestAppliance['api'] = (...request) => postrider.api(...request)

const store = () => postrider.appliance.deps.store
const rowOf = (id: string): Domain => store().first(raw<Domain>('select * from domains where id = ?', [id]))!
const recordsFor = (id: string): DnsRecord[] => recordsOf(store(), rowOf(id).key)
const recordOf = (id: string, type: DnsRecord['record_type'], required = 1): DnsRecord =>
  recordsFor(id).find((record) => record.record_type === type && record.required === required)!
const statusOf = async (id: string): Promise<string> => (await api('GET', `/domains/${id}`)).body.data.attributes.status
const publish = (record: DnsRecord, values: string[] | undefined = [record.value]) =>
  postrider.dns.set(record.name, record.record_type === 'MAIL_FROM_MX' ? 'MX' : 'TXT', values)
const withdraw = (record: DnsRecord) =>
  postrider.dns.set(record.name, record.record_type === 'MAIL_FROM_MX' ? 'MX' : 'TXT', undefined)

/** Waits for a lookup at the present time of the manual clock. */
const checked = (id: string) => until(() => rowOf(id).checked_at === postrider.clock.now(), 'the look at DNS')

async function register(name: string): Promise<string> {
  // A separate time, so that the following lookup can be distinguished from earlier ones.
  postrider.clock.advance(1)
  const { body, status } = await api('POST', '/domains', document('domains', { name, purpose: 'both' }))
  assert.equal(status, 201, JSON.stringify(body))
  assert.equal(body.data.attributes.status, 'pending')
  await checked(body.data.id)
  return body.data.id
}

async function patch(id: string, attributes: Record<string, unknown>): Promise<Answer> {
  postrider.clock.advance(1)
  return api('PATCH', `/domains/${id}`, document('domains', attributes, { id }))
}

/** Advances the clock in one step and runs the checks that are due. */
async function pass(id: string, milliseconds: number): Promise<string> {
  postrider.clock.leap(milliseconds)
  await checked(id)
  return statusOf(id)
}

async function activate(name: string): Promise<string> {
  const id = await register(name)
  for (const record of recordsFor(id)) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
  return id
}

const eventsOf = (id: string): { type: string; data: Record<string, unknown> }[] =>
  store()
    .all(
      raw<{ type: string; data: string }>('select type, data from events where domain_key = ? order by key', [
        rowOf(id).key,
      ]),
    )
    .map(({ type, data }) => ({ type, data: JSON.parse(data) as Record<string, unknown> }))
const eventTypes = (id: string): string[] => eventsOf(id).map(({ type }) => type)

test('moves from pending to verifying to active as the records are published one by one', async () => {
  const id = await register('one-by-one.test')
  assert.equal(await statusOf(id), 'pending')
  // Advised records do not count.
  publish(recordOf(id, 'DMARC', 0))
  publish(recordOf(id, 'DKIM', 0))
  assert.equal(await pass(id, MINUTE), 'pending')
  publish(recordOf(id, 'MAIL_FROM_MX'))
  assert.equal(await pass(id, MINUTE), 'verifying')
  publish(recordOf(id, 'SPF'))
  assert.equal(await pass(id, MINUTE), 'verifying')
  assert.deepEqual(eventTypes(id), [])
  publish(recordOf(id, 'DKIM'))
  assert.equal(await pass(id, MINUTE), 'active')
  const [event, ...more] = eventsOf(id)
  assert.equal(event?.type, 'domain.verified')
  assert.equal(event.data['previous_status'], 'verifying')
  assert.equal(event.data['status'], 'active')
  assert.equal(await pass(id, 6 * HOUR), 'active')
  assert.deepEqual(more, [])
  assert.deepEqual(eventTypes(id), ['domain.verified'], 'once per move')
})

test('activates a domain without the advised records', async () => {
  const id = await register('required-only.test')
  for (const record of recordsFor(id)) if (record.required === 1) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
})

test('the records endpoint shows the observed value and its time', async () => {
  const id = await register('seen.test')
  const spf = recordOf(id, 'SPF')
  publish(spf, ['v=spf1 include:else.test -all', 'some other text'])
  publish(recordOf(id, 'MAIL_FROM_MX'))
  await pass(id, MINUTE)
  const { body } = await api('GET', `/domains/${id}/records`)
  const shown = (type: string) =>
    body.data
      .map((each: { attributes: Record<string, unknown> }) => each.attributes)
      .find((each: Record<string, unknown>) => each['record_type'] === type && each['required'] === true)
  const now = new Date(postrider.clock.now()).toISOString()
  assert.deepEqual(
    [shown('SPF').verified, shown('SPF').observed, shown('SPF').checked_at],
    [false, 'v=spf1 include:else.test -all', now],
  )
  assert.deepEqual([shown('MAIL_FROM_MX').verified, shown('MAIL_FROM_MX').observed], [true, '10 mx.postrider.test'])
  assert.deepEqual([shown('DKIM').verified, shown('DKIM').observed], [false, null])
  assert.equal((await api('GET', `/domains/${id}`)).body.data.attributes.checked_at, now)
})

test('only an active domain sends', async () => {
  const id = await register('not-yet.test')
  const send = () =>
    api(
      'POST',
      '/outbound-emails',
      document('outbound-emails', { from: 'a@not-yet.test', to: 'b@nowhere.test', subject: 's', html: 'h' }),
    )
  const refusal = async (): Promise<unknown[]> => {
    const { body, status } = await send()
    return [status, body.errors[0].code, body.errors[0].source.pointer]
  }
  const notActive = [422, 'domain_not_active', '/data/attributes/from']
  assert.deepEqual(await refusal(), notActive)
  publish(recordOf(id, 'SPF'))
  assert.equal(await pass(id, MINUTE), 'verifying')
  assert.deepEqual(await refusal(), notActive)
  for (const record of recordsFor(id)) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
  assert.equal((await send()).status, 201)
})

test('moves from verifying to failed after 72 hours, and back when the records are fixed', async () => {
  const id = await register('late.test')
  publish(recordOf(id, 'SPF'))
  assert.equal(await pass(id, HOUR), 'verifying')
  assert.equal(await pass(id, 72 * HOUR - 1), 'verifying')
  assert.equal(await pass(id, 30 * MINUTE), 'failed')
  assert.deepEqual(eventTypes(id), ['domain.verification_failed'])
  const [event] = eventsOf(id)
  assert.deepEqual([event?.data['previous_status'], event?.data['status']], ['verifying', 'failed'])

  // A record that was never missing fixes no failure.
  assert.equal(await pass(id, HOUR), 'failed')
  publish(recordOf(id, 'MAIL_FROM_MX'))
  assert.equal(await pass(id, HOUR), 'verifying', 'a record is seen')
  // A new window: 72 hours from now.
  assert.equal(await pass(id, 72 * HOUR - 1), 'verifying')
  publish(recordOf(id, 'DKIM'))
  assert.equal(await pass(id, 30 * MINUTE), 'active')
  assert.deepEqual(eventTypes(id), ['domain.verification_failed', 'domain.verified'])
})

test('polls a failed domain for 30 days, and verifies it at once after a change by its owner', async () => {
  const id = await register('given-up.test')
  publish(recordOf(id, 'SPF'))
  await pass(id, MINUTE)
  assert.equal(await pass(id, 72 * HOUR), 'failed')
  const failedAt = postrider.clock.now()
  assert.equal(rowOf(id).next_check_at, failedAt + HOUR)
  assert.equal(await pass(id, 30 * DAY - 1), 'failed')
  assert.equal(rowOf(id).next_check_at, postrider.clock.now() + HOUR)
  assert.equal(await pass(id, HOUR), 'failed')
  assert.equal(rowOf(id).next_check_at, null)

  assert.equal((await patch(id, { mail_from_prefix: 'again' })).body.data.attributes.status, 'verifying')
  await checked(id)
  assert.equal(await statusOf(id), 'verifying')
  assert.equal(rowOf(id).next_check_at, postrider.clock.now() + MINUTE)
  for (const record of recordsFor(id)) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
})

test('a key rotation returns a failed domain to verifying', async () => {
  const id = await register('failed-rotated.test')
  publish(recordOf(id, 'SPF'))
  await pass(id, MINUTE)
  assert.equal(await pass(id, 72 * HOUR), 'failed')
  assert.equal((await patch(id, { rotate_dkim_key: true })).body.data.attributes.status, 'verifying')
})

test('moves from active to verifying after a required record is missing for 72 hours', async () => {
  const id = await activate('forgetful.test')
  const mx = recordOf(id, 'MAIL_FROM_MX')
  withdraw(mx)
  assert.equal(await pass(id, 6 * HOUR), 'active')
  assert.equal(recordOf(id, 'MAIL_FROM_MX').verified, 0)
  assert.equal(await pass(id, 71 * HOUR), 'active')
  // Back in time: the count begins again.
  publish(mx)
  assert.equal(await pass(id, HOUR - 1), 'active')
  withdraw(mx)
  assert.equal(await pass(id, 6 * HOUR), 'active')
  assert.equal(await pass(id, 72 * HOUR - 1), 'active')
  assert.deepEqual(eventTypes(id), ['domain.verified'])
  assert.equal(await pass(id, 30 * MINUTE), 'verifying')
  assert.deepEqual(eventTypes(id), ['domain.verified'])
  publish(mx)
  assert.equal(await pass(id, MINUTE), 'active')
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.verified'])
})

test('keeps an active domain if an advised record disappears', async () => {
  const id = await activate('advised.test')
  withdraw(recordOf(id, 'DMARC', 0))
  withdraw(recordOf(id, 'DKIM', 0))
  assert.equal(await pass(id, 6 * HOUR), 'active')
  assert.equal(rowOf(id).missing_since, null)
  assert.equal(await pass(id, 80 * HOUR), 'active')
})

test('keeps the status of a domain if DNS does not respond', async () => {
  const [active, pending] = [await activate('silent-active.test'), await register('silent-pending.test')]
  const before = recordsFor(active)
  postrider.dns.fail(true)
  try {
    postrider.clock.leap(6 * HOUR)
    await checked(active)
    await checked(pending)
  } finally {
    postrider.dns.fail(false)
  }
  assert.equal(await statusOf(active), 'active')
  assert.equal(await statusOf(pending), 'pending')
  assert.equal(rowOf(active).missing_since, null)
  const seen = ({ verified, observed, updated_at }: DnsRecord) => ({ verified, observed, updated_at })
  assert.deepEqual(recordsFor(active).map(seen), before.map(seen))
})

test('no deadline expires while DNS does not respond, and the next response moves the domain (D20)', async () => {
  const [late, forgetful] = [await register('silent-late.test'), await activate('silent-forgetful.test')]
  publish(recordOf(late, 'SPF'))
  withdraw(recordOf(forgetful, 'SPF'))
  assert.equal(await pass(late, HOUR), 'verifying')
  assert.equal(await pass(forgetful, 6 * HOUR), 'active')
  const before = recordsFor(late).map(({ checked_at }) => checked_at)
  postrider.dns.fail(true)
  try {
    assert.equal(await pass(late, 72 * HOUR), 'verifying')
    await checked(forgetful)
    assert.equal(await statusOf(forgetful), 'active')
    assert.deepEqual(
      recordsFor(late).map(({ checked_at }) => checked_at),
      before,
      'the time of an answer stays',
    )
  } finally {
    postrider.dns.fail(false)
  }
  assert.equal(await pass(late, 30 * MINUTE), 'failed')
  await checked(forgetful)
  assert.equal(await statusOf(forgetful), 'verifying')
})

test('treats SERVFAIL as no response', async () => {
  const server = createSocket('udp4')
  server.on('message', (message, { address, port }) => {
    const { id, questions } = dnsPacket.decode(message)
    const SERVFAIL = 2
    server.send(
      dnsPacket.encode({ type: 'response', id: id ?? 0, flags: SERVFAIL, questions: questions ?? [] }),
      port,
      address,
    )
  })
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const resolver = createResolver({ servers: [{ host: '127.0.0.1', port }], timeout: 150, tries: 1 })
  try {
    const id = await activate('servfail.test')
    const { key } = rowOf(id)
    for (const record of recordsFor(id))
      assert.deepEqual(await lookUp(resolver, record), { verified: null, observed: null }, record.record_type)
    const after = await checkDomain({ ...postrider.appliance.deps, resolver }, key)
    assert.equal(after?.status, 'active')
    assert.equal(after.missing_since, null)
    assert.ok(recordsFor(id).every(({ verified, observed }) => verified === 1 && observed !== null))
  } finally {
    await new Promise<void>((resolve) => void server.close(() => resolve()))
  }
})

test('returns the time of the next check for each status (D20)', () => {
  const now = Date.UTC(2026, 0, 1)
  const next = (status: DomainStatus, age: number): number | null => {
    const at = nextCheck({ status, status_at: now - age, poll_from: now - age, missing_since: null }, now)
    return at === null ? null : at - now
  }
  for (const status of ['pending', 'verifying'] as const) {
    assert.equal(next(status, 0), MINUTE)
    assert.equal(next(status, 15 * MINUTE - 1), MINUTE)
    assert.equal(next(status, 15 * MINUTE), 5 * MINUTE)
    assert.equal(next(status, 2 * HOUR - 1), 5 * MINUTE)
    assert.equal(next(status, 2 * HOUR), 30 * MINUTE)
    assert.equal(next(status, 90 * DAY), 30 * MINUTE)
  }
  assert.equal(next('active', 0), 6 * HOUR)
  assert.equal(next('active', 365 * DAY), 6 * HOUR)
  assert.equal(next('failed', 0), HOUR)
  assert.equal(next('failed', 30 * DAY - 1), HOUR)
  assert.equal(next('failed', 30 * DAY), null)
  assert.equal(next('suspended', 0), null)
})

test('looks up records on the schedule of the domain’s status', async () => {
  const id = await register('schedule.test')
  const question = `MX ${recordOf(id, 'MAIL_FROM_MX').name}`
  const asked = (): number => postrider.dns.asked.filter((each) => each === question).length
  const start = postrider.clock.now()
  assert.equal(asked(), 1, 'at once')
  let expected = 1
  const dueAt = async (minutes: number) => {
    const left = start + minutes * MINUTE - postrider.clock.now()
    postrider.clock.leap(left - 1)
    for (let i = 0; i < 3; i++) await turn()
    assert.equal(asked(), expected, `not before minute ${minutes}`)
    await pass(id, 1)
    assert.equal(asked(), ++expected, `at minute ${minutes}`)
  }
  for (let minute = 1; minute <= 15; minute++) await dueAt(minute)
  for (let minute = 20; minute <= 120; minute += 5) await dueAt(minute)
  for (const minute of [150, 180, 210]) await dueAt(minute)
  // A change by the owner begins it again.
  assert.equal((await patch(id, { mail_from_prefix: 'again' })).status, 200)
  await checked(id)
  assert.equal(rowOf(id).next_check_at, postrider.clock.now() + MINUTE)
  for (const record of recordsFor(id)) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
  assert.equal(rowOf(id).next_check_at, postrider.clock.now() + 6 * HOUR)
})

test('a new prefix changes MX and SPF, and the domain is verified again', async () => {
  const id = await activate('moved.test')
  const before = recordsFor(id)
  const changed = await patch(id, { mail_from_prefix: 'return' })
  assert.equal(changed.status, 200)
  assert.equal(changed.body.data.attributes.status, 'verifying')
  assert.equal(changed.body.data.attributes.mail_from_prefix, 'return')
  await checked(id)
  assert.equal(await statusOf(id), 'verifying')
  const names = (records: DnsRecord[]) => records.map(({ record_type, name }) => `${record_type} ${name}`).toSorted()
  assert.deepEqual(
    names(recordsFor(id)),
    names(before).map((each) => each.replace('bounce.moved.test', 'return.moved.test')),
  )
  const kept = recordsFor(id).filter(({ record_type }) => record_type === 'DKIM')
  assert.ok(kept.every(({ id: same, verified }) => verified === 1 && before.some((record) => record.id === same)))
  publish(recordOf(id, 'SPF'))
  assert.equal(await pass(id, MINUTE), 'verifying')
  publish(recordOf(id, 'MAIL_FROM_MX'))
  assert.equal(await pass(id, MINUTE), 'active')
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.verified'])
})

test('a new prefix with published records is active again at once', async () => {
  const id = await activate('prepared.test')
  publish({ ...recordOf(id, 'SPF'), name: 'ready.prepared.test' })
  publish({ ...recordOf(id, 'MAIL_FROM_MX'), name: 'ready.prepared.test' })
  assert.equal((await patch(id, { mail_from_prefix: 'ready' })).body.data.attributes.status, 'verifying')
  await checked(id)
  assert.equal(await statusOf(id), 'active')
})

test('setting the same prefix has no effect', async () => {
  const id = await activate('same.test')
  const before = recordsFor(id)
  for (const attributes of [{ mail_from_prefix: 'bounce' }, { mail_from_prefix: 'BOUNCE' }, { rotate_dkim_key: false }])
    assert.equal((await patch(id, attributes)).body.data.attributes.status, 'active', JSON.stringify(attributes))
  assert.deepEqual(recordsFor(id), before)
  assert.deepEqual(eventTypes(id), ['domain.verified'])
})

test('a new prefix before any record is published leaves the domain pending', async () => {
  const id = await register('early.test')
  assert.equal((await patch(id, { mail_from_prefix: 'other' })).body.data.attributes.status, 'pending')
  await checked(id)
  for (const record of recordsFor(id)) publish(record)
  assert.equal(await pass(id, MINUTE), 'active')
})

test('checks a change made during a lookup at once, not a minute later', async () => {
  const id = await activate('meanwhile.test')
  const { deps } = postrider.appliance
  let open: () => void = () => {}
  const gate = new Promise<void>((resolve) => (open = resolve))
  const slow: Resolver = {
    ...postrider.dns.resolver,
    mx: async (name) => {
      await gate
      return postrider.dns.resolver.mx(name)
    },
  }
  const asking = checkDomain({ ...deps, resolver: slow }, rowOf(id).key)
  postrider.clock.advance(1)
  const at = postrider.clock.now()
  // The bell is held back, so that the look which was under way is the next to write.
  await changeDomain({ ...deps, ring: () => {} }, rowOf(id).key, { mail_from_prefix: 'other' })
  assert.equal(rowOf(id).next_check_at, at)
  open()
  await asking
  assert.equal(domainByKey(store(), rowOf(id).key)?.status, 'verifying')
  assert.ok(rowOf(id).next_check_at! <= at, 'the new records were not looked at yet, and are due')
})

// How an answer is judged, record by record.
const KEY = 'MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAabc+/def=='
const answers = (records: { txt?: string[]; mx?: Mx[] }): Resolver => {
  const found = <T>(list: T[] | undefined): Promise<Found<T>> =>
    Promise.resolve(list ? { kind: 'found', records: list } : { kind: 'nxdomain' })
  const none = () => found<string>(undefined)
  const tlsa = () => found<Tlsa>(undefined)
  const more = { a: none, aaaa: none, cname: none, ptr: none, tlsa }
  return { txt: () => found(records.txt), mx: () => found(records.mx), ...more }
}

const DKIM: Record<string, [verified: boolean, ...records: string[]]> = {
  'as issued': [true, `v=DKIM1; k=rsa; p=${KEY}`],
  'without k=': [true, `v=DKIM1; p=${KEY}`],
  'without v=': [true, `k=rsa; p=${KEY}`],
  'the key alone': [true, `p=${KEY}`],
  'other tags and another order': [true, `v=DKIM1; t=s; p=${KEY}; n=a note; k=rsa`],
  'spaces around tags and inside the key': [true, ` v = DKIM1 ;\tk = rsa ; p = ${KEY.slice(0, 9)} ${KEY.slice(9)} ;`],
  'no spaces': [true, `v=DKIM1;k=rsa;p=${KEY};`],
  'v= not in front': [false, `k=rsa; v=DKIM1; p=${KEY}`],
  'another version': [false, `v=DKIM2; k=rsa; p=${KEY}`],
  'another key type': [false, `v=DKIM1; k=ed25519; p=${KEY}`],
  'another key': [false, `v=DKIM1; k=rsa; p=X${KEY.slice(1)}`],
  'the key in another case': [false, `v=DKIM1; k=rsa; p=${KEY.toLowerCase()}`],
  'a key cut short': [false, `v=DKIM1; k=rsa; p=${KEY.slice(0, -5)}`],
  'SHA-1 alone': [false, `v=DKIM1; h=sha1; k=rsa; p=${KEY}`],
  'another hash, behind the key': [false, `v=DKIM1; k=rsa; p=${KEY}; h=sha512`],
  'both hashes': [true, `v=DKIM1; h=sha1 : sha256; k=rsa; p=${KEY}`],
  'SHA-256 alone': [true, `v=DKIM1; k=rsa; p=${KEY}; h=sha256`],
  'for TLS reports alone': [false, `v=DKIM1; s=tlsrpt; k=rsa; p=${KEY}`],
  'for another service, behind the key': [false, `v=DKIM1; k=rsa; p=${KEY}; s=other`],
  'for every service': [true, `v=DKIM1; s=*; k=rsa; p=${KEY}`],
  'for email': [true, `v=DKIM1; s=email; k=rsa; p=${KEY}`],
  'for email and TLS reports': [true, `v=DKIM1; s=email:tlsrpt; k=rsa; p=${KEY}`],
  'a test key': [true, `v=DKIM1; t=y; k=rsa; p=${KEY}`],
  'a tag without a value sign': [false, `v=DKIM1; k=rsa; p=${KEY}; note`],
  revoked: [false, 'v=DKIM1; k=rsa; p='],
  'no key': [false, 'v=DKIM1; k=rsa'],
  'a tag twice (RFC 6376 §3.2)': [false, `v=DKIM1; k=rsa; p=AAAA; p=${KEY}`],
  'two records at the selector': [false, `v=DKIM1; k=rsa; p=${KEY}`, 'v=DKIM1; k=rsa; p=other'],
  'a foreign text beside it': [false, `v=DKIM1; k=rsa; p=${KEY}`, 'hello'],
  'the same record twice': [false, `v=DKIM1; k=rsa; p=${KEY}`, `v=DKIM1; k=rsa; p=${KEY}`],
}
const SPF: Record<string, [verified: boolean, ...records: string[]]> = {
  'as issued': [true, 'v=spf1 a:mx.here.test ip4:192.0.2.1 -all'],
  'merged with another sender': [true, 'v=spf1 include:_spf.else.test a:mx.here.test ip4:192.0.2.1 ~all'],
  'in another order, case and spacing': [true, 'V=SPF1  IP4:192.0.2.1   +A:MX.here.test ?ALL'],
  'beside other texts': [true, 'site-verification=1', 'v=spf1 a:mx.here.test ip4:192.0.2.1 -all', 'v=spf10 x'],
  'two SPF records are an error': [false, 'v=spf1 a:mx.here.test ip4:192.0.2.1 -all', 'v=spf1 include:else.test -all'],
  'a term of ours missing': [false, 'v=spf1 a:mx.here.test -all'],
  'nothing of ours': [false, 'v=spf1 -all'],
  'ours refused': [false, 'v=spf1 -a:mx.here.test -ip4:192.0.2.1 ~all'],
  'ours neither here nor there': [false, 'v=spf1 ?a:mx.here.test ~ip4:192.0.2.1 -all'],
  'ours behind the final all, where nobody reads': [
    false,
    'v=spf1 include:else.test -all a:mx.here.test ip4:192.0.2.1',
  ],
  'no SPF record': [false, 'hello'],
}
const DMARC: Record<string, [verified: boolean, ...records: string[]]> = {
  'as issued': [true, 'v=DMARC1; p=none;'],
  "the owner's own policy": [true, 'v=DMARC1;p=reject; rua=mailto:d@else.test'],
  'beside other texts': [true, 'hello', 'v=DMARC1; p=none'],
  'two policies are none': [false, 'v=DMARC1; p=none', 'v=DMARC1; p=reject'],
  'the version not in front': [false, 'p=none; v=DMARC1'],
  'no policy': [false, 'hello'],
}

for (const [type, value, cases] of [
  ['DKIM', `v=DKIM1; k=rsa; p=${KEY}`, DKIM],
  ['SPF', 'v=spf1 a:mx.here.test ip4:192.0.2.1 -all', SPF],
  ['DMARC', 'v=DMARC1; p=none;', DMARC],
] as const)
  for (const [variant, [verified, ...txt]] of Object.entries(cases))
    test(`${type}, ${variant}: ${verified ? 'verified' : 'not verified'}`, async () => {
      const finding = await lookUp(answers({ txt }), { record_type: type, name: 'n.here.test', value })
      assert.equal(finding.verified, verified)
    })

test('verifies MX with this server among other hosts, with any preference', async () => {
  const record = { record_type: 'MAIL_FROM_MX', name: 'bounce.here.test', value: '10 mx.here.test' } as const
  const judged = async (...mx: [number, string][]) =>
    (await lookUp(answers({ mx: mx.map(([priority, exchange]) => ({ priority, exchange })) }), record)).verified
  assert.equal(await judged([10, 'mx.here.test']), true)
  assert.equal(await judged([50, 'mx.here.test']), true)
  assert.equal(await judged([10, 'mx.else.test'], [20, 'mx.here.test']), true)
  assert.equal(await judged([10, 'mx.else.test']), false)
  assert.equal(await judged([10, 'a.mx.here.test']), false)
  assert.equal(await judged([0, '']), false)
})

test('verifies no record type for a name that does not exist', async () => {
  for (const record_type of ['DKIM', 'SPF', 'DMARC', 'MAIL_FROM_MX', 'TRACKING'] as const)
    assert.deepEqual(
      await lookUp(answers({}), { record_type, name: 'n.test', value: '10 x' }),
      { verified: false, observed: null },
      record_type,
    )
})

test('joins the strings of a long DKIM record', async () => {
  const id = await register('strings.test')
  const record = recordOf(id, 'DKIM')
  assert.ok(record.value.length > 255)
  publish(record)
  const finding = await lookUp(postrider.dns.resolver, record)
  assert.deepEqual(finding, { verified: true, observed: record.value })
})
