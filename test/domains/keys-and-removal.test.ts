import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import Database from 'better-sqlite3'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import { eraseKeys, OpenKeys, signingKeyOf, type DkimKey } from '../../src/domains/keys.ts'
import { recordsOf, type DnsRecord } from '../../src/domains/records.ts'
import type { Domain } from '../../src/domains/find.ts'
import { resumeDomain } from '../../src/domains/lifecycle.ts'
import { Shaping } from '../../src/smtp/shaping.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

let door: Door
/** Recipients that the receiving server defers. */
const putOff = new Set<string>()

/** A proxy in front of the receiving server. While it is closed, clients wait for the greeting. */
interface Door {
  port: number
  shut(): void
  open(): void
  waiting: number
  server: Server
}

async function startDoor(port: number): Promise<Door> {
  let gate = Promise.resolve()
  let release: () => void = () => {}
  const server = createServer((socket) => {
    socket.on('error', () => {})
    door.waiting++
    void gate.then(() => {
      door.waiting--
      const inner = connect(port, '127.0.0.1')
      inner.on('error', () => socket.destroy()).on('close', () => socket.destroy())
      socket.on('close', () => inner.destroy())
      socket.pipe(inner).pipe(socket)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    waiting: 0,
    server,
    shut: () => void (gate = new Promise((resolve) => (release = resolve))),
    open: () => release(),
  }
}

const exchanger = testExchanger({
  answer: (command) =>
    /^RCPT/i.test(command) && putOff.has(/<(.*?)>/.exec(command)?.[1] ?? '') ? '451 4.2.0 Later' : undefined,
})
setUp(async () => {
  await exchanger.listen()
  door = await startDoor(exchanger.port)
})
const postrider = ofFile(() => startTestAppliance({ newKeys: true, config: { delivery: { port: door.port } } }))
setUp(() => {
  for (const domain of ['there.test', 'crowd.test']) postrider.dns.set(domain, 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
})
after(async () => {
  await exchanger.close()
  await new Promise<void>((resolve) => void door.server.close(() => resolve()))
})

const store = () => postrider.appliance.deps.store
const rowOf = (id: string): Domain => store().first(raw<Domain>('select * from domains where id = ?', [id]))!
const keysOf = (id: string): DkimKey[] =>
  store().all(raw<DkimKey>('select * from dkim_keys where domain_key = ? order by key', [rowOf(id).key]))
const selectorOf = (id: string, role: DkimKey['role']): string => keysOf(id).find((key) => key.role === role)!.selector
const recordsFor = (id: string): DnsRecord[] => recordsOf(store(), rowOf(id).key)
const statusOf = (id: string): string => rowOf(id).status
const eventTypes = (id: string): string[] =>
  store()
    .all(raw<{ type: string }>('select type from events where domain_key = ? order by key', [rowOf(id).key]))
    .map(({ type }) => type)
    .filter((type) => type.startsWith('domain.'))
const publish = (record: DnsRecord) =>
  postrider.dns.set(record.name, record.record_type === 'MAIL_FROM_MX' ? 'MX' : 'TXT', [record.value])
const withdraw = (record: DnsRecord) => postrider.dns.set(record.name, 'TXT', undefined)
const checked = (id: string) => until(() => rowOf(id).checked_at === postrider.clock.now(), 'the look at DNS')

const patch = (id: string, attributes: Record<string, unknown>): Promise<Answer> => {
  postrider.clock.advance(1)
  return postrider.api('PATCH', `/domains/${id}`, document('domains', attributes, { id }))
}

async function rotate(id: string): Promise<void> {
  const { body, status } = await patch(id, { rotate_dkim_key: true })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body.data.attributes.status, 'verifying')
  await checked(id)
}

/** An active domain, without the advised records if `only` is 'required'. */
async function activate(name: string, only?: 'required'): Promise<string> {
  const { body } = await postrider.api('POST', '/domains', document('domains', { name, purpose: 'both' }))
  const { id } = body.data
  // The next check is a minute after the first one.
  await checked(id)
  for (const record of recordsFor(id)) if (only === undefined || record.required === 1) publish(record)
  postrider.clock.leap(MINUTE)
  await until(() => statusOf(id) === 'active', `${name} active`)
  return id
}

const post = (from: string, to: string): Promise<Answer> =>
  postrider.api('POST', '/outbound-emails', document('outbound-emails', { from, to, subject: 's', html: '<p>h</p>' }))

async function send(from: string, to: string): Promise<string> {
  const { body, status } = await post(from, to)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

const heardBy = (to: string) => exchanger.heard.filter((mail) => mail.to.includes(to))
const shown = async (id: string) => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes

/** The selector of the signature of the email to an address, verified with the current DNS records. */
async function signedWith(to: string): Promise<string | undefined> {
  const { message } = await until(() => heardBy(to)[0], `the mail to ${to}`)
  const { results } = await dkimVerify(Buffer.from(message), {
    resolver: async (name: string, type: string) => {
      const answer = type === 'TXT' ? await postrider.dns.resolver.txt(name) : { kind: 'none' }
      if ('records' in answer) return answer.records.map((text) => [text])
      throw Object.assign(new Error(name), { code: 'ENOTFOUND' })
    },
  })
  const [signature] = results as { status: { result: string }; selector: string }[]
  assert.equal(signature?.status.result, 'pass', JSON.stringify(signature?.status))
  return signature.selector
}

/** Queues an email that the receiving server defers. */
async function queue(from: string, to: string): Promise<string> {
  putOff.add(to)
  const id = await send(from, to)
  await until(async () => (await shown(id)).recipients[0].smtp_code === 451, 'the deferral')
  putOff.delete(to)
  return id
}

test('rotation promotes the standby key, and sending continues within the same second', async () => {
  const id = await activate('rotated.test')
  const [signing, standby] = [selectorOf(id, 'signing'), selectorOf(id, 'standby')]
  await send('a@rotated.test', 'before@there.test')
  assert.equal(await signedWith('before@there.test'), signing)

  await rotate(id)
  const at = postrider.clock.now()
  assert.equal(statusOf(id), 'active', 'the promoted record stood in DNS: the look at once finds it')
  await send('a@rotated.test', 'after@there.test')
  assert.equal(await signedWith('after@there.test'), standby)
  assert.equal(postrider.clock.now(), at, 'no time had to pass')

  assert.equal(selectorOf(id, 'signing'), standby)
  assert.equal(selectorOf(id, 'retired'), signing)
  const fresh = selectorOf(id, 'standby')
  const dkim = recordsFor(id).filter(({ record_type }) => record_type === 'DKIM')
  assert.deepEqual(
    new Set(dkim.map(({ name, required, verified }) => `${name.split('.')[0]} ${required} ${verified}`)),
    new Set([`${standby} 1 1`, `${fresh} 0 0`]),
  )
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.verified'])
})

test('if the promoted record is missing, queued mail uses the last verified key and new mail waits', async () => {
  const id = await activate('unprepared.test', 'required')
  const [signing, standby] = [selectorOf(id, 'signing'), selectorOf(id, 'standby')]
  await queue('a@unprepared.test', 'queued@there.test')
  await rotate(id)
  assert.equal(statusOf(id), 'verifying')
  const refused = await post('a@unprepared.test', 'new@there.test')
  assert.deepEqual([refused.status, refused.body.errors[0].code], [422, 'domain_not_active'])

  postrider.clock.leap(6 * MINUTE)
  assert.equal(await signedWith('queued@there.test'), signing)

  publish(recordsFor(id).find(({ name }) => name.startsWith(standby))!)
  postrider.clock.leap(MINUTE)
  await until(() => statusOf(id) === 'active', 'active again')
  await send('a@unprepared.test', 'promoted@there.test')
  assert.equal(await signedWith('promoted@there.test'), standby)
})

test('does not sign with a standby key whose record was removed before the rotation', async () => {
  const id = await activate('withdrawn.test')
  const [signing, standby] = [selectorOf(id, 'signing'), selectorOf(id, 'standby')]
  withdraw(recordsFor(id).find(({ name }) => name.startsWith(standby))!)
  postrider.clock.leap(6 * HOUR)
  await checked(id)
  assert.equal(statusOf(id), 'active')
  await queue('a@withdrawn.test', 'kept@there.test')
  await rotate(id)
  assert.equal(statusOf(id), 'verifying')
  postrider.clock.leap(6 * MINUTE)
  assert.equal(await signedWith('kept@there.test'), signing)
})

test('stops signing with a retired key when a check no longer finds its record', async () => {
  const id = await activate('gone.test', 'required')
  const [old, promoted] = [selectorOf(id, 'signing'), selectorOf(id, 'standby')]
  const published = recordsFor(id).find(({ name }) => name.startsWith(old))!
  await queue('a@gone.test', 'gone@there.test')
  await rotate(id)
  withdraw(published)
  // The second answer without it counts (D217).
  for (const _ of ['missed', 'confirmed']) {
    postrider.clock.leap(MINUTE)
    await checked(id)
  }
  assert.deepEqual(signingKeyOf(store(), rowOf(id).key), { unseen: `${promoted}._domainkey.gone.test` })
  publish(recordsFor(id).find(({ name }) => name.startsWith(promoted))!)
  postrider.clock.leap(MINUTE)
  await checked(id)
  postrider.clock.leap(6 * MINUTE)
  assert.equal(await signedWith('gone@there.test'), promoted)
})

test('after two rotations without published records, queued mail keeps the published key', async () => {
  const id = await activate('twice-rotated.test', 'required')
  const signing = selectorOf(id, 'signing')
  await queue('a@twice-rotated.test', 'twice@there.test')
  await rotate(id)
  await rotate(id)
  postrider.clock.leap(6 * MINUTE)
  assert.equal(await signedWith('twice@there.test'), signing)
})

test('never reuses selectors, even after the keys are erased or the domain is registered again', async () => {
  const id = await activate('selectors.test')
  for (let round = 0; round < 3; round++) {
    await rotate(id)
    postrider.clock.leap(8 * DAY)
    await eraseKeys(store(), postrider.clock.now())
  }
  const used = keysOf(id).map(({ selector }) => selector)
  assert.equal(used.length, 5)
  assert.equal((await postrider.api('DELETE', `/domains/${id}`)).status, 204)
  const { body } = await postrider.api(
    'POST',
    '/domains',
    document('domains', { name: 'selectors.test', purpose: 'both' }),
  )
  used.push(...keysOf(body.data.id).map(({ selector }) => selector))
  assert.equal(new Set(used).size, 7)
})

test('erases a retired key 7 days after the rotation and keeps the keys in use', async () => {
  const id = await activate('erased.test')
  await rotate(id)
  const at = postrider.clock.now()
  const kept = () => keysOf(id).map(({ role, sealed_private_key }) => [role, sealed_private_key !== null])
  const all = [
    ['retired', true],
    ['signing', true],
    ['standby', true],
  ]
  await eraseKeys(store(), at + 7 * DAY - 1)
  assert.deepEqual(kept(), all)
  await eraseKeys(store(), at + 7 * DAY)
  assert.deepEqual(kept(), [['retired', false], ...all.slice(1)])
  await eraseKeys(store(), at + 365 * DAY)
  assert.deepEqual(kept(), [['retired', false], ...all.slice(1)])
})

test('private keys are encrypted: the files contain no part of them', async () => {
  const id = await activate('sealed.test')
  const { keyring } = postrider.appliance.deps
  const signing = signingKeyOf(store(), rowOf(id).key)
  assert.ok(signing && 'key' in signing)
  const { privateKey } = new OpenKeys(store(), keyring).get(signing.key)!
  const key = createPrivateKey(privateKey)
  const { d, p } = key.export({ format: 'jwk' })
  const parts = {
    'the PEM armour': Buffer.from('PRIVATE KEY'),
    'a line of the PEM': Buffer.from(privateKey.split('\n')[5]!),
    'the private exponent': Buffer.from(d!, 'base64url').subarray(8, 40),
    'a prime': Buffer.from(p!, 'base64url').subarray(8, 40),
    'the exponent in text': Buffer.from(d!.slice(10, 50)),
  }
  const files = readdirSync(postrider.dataDir, { recursive: true })
    .map((name) => join(postrider.dataDir, name as string))
    // The certificate of the listener has a key of its own, which protects no data.
    .filter((file) => statSync(file).isFile() && !file.endsWith('smtp-certificate.pem'))
  const bytes = Buffer.concat(files.map((file) => readFileSync(file)))
  assert.ok(bytes.includes(keysOf(id)[0]!.public_key), 'the public half is found where the private one is sought')
  for (const [what, part] of Object.entries(parts)) assert.ok(!bytes.includes(part), what)
})

test('DELETE removes a domain at once, keeps references to it, and erases its key after 7 days', async () => {
  const id = await activate('removed.test')
  const sent = await send('a@removed.test', 'old@there.test')
  await until(async () => (await shown(sent)).status === 'delivered', 'delivery')
  const queued = await queue('a@removed.test', 'never@there.test')

  const answer = await postrider.api('DELETE', `/domains/${id}`)
  assert.deepEqual([answer.status, answer.body], [204, undefined])
  const at = postrider.clock.now()
  for (const [method, path] of [
    ['GET', `/domains/${id}`],
    ['GET', `/domains/${id}/records`],
    ['DELETE', `/domains/${id}`],
  ] as const)
    assert.equal((await postrider.api(method, path)).status, 404, `${method} ${path}`)
  assert.equal((await patch(id, { tls_policy: 'Require' })).status, 404)
  assert.equal((await postrider.api('GET', '/domains?filter[name]=removed.test')).body.data.length, 0)
  const refused = await post('a@removed.test', 'new@there.test')
  assert.deepEqual([refused.status, refused.body.errors[0].source.pointer], [404, '/data/attributes/from'])
  assert.deepEqual(recordsFor(id), [])
  assert.deepEqual(eventTypes(id), ['domain.verified'], 'a removal that goes well is not a suspension')

  const email = await postrider.api('GET', `/outbound-emails/${sent}?include=domain`)
  assert.deepEqual(email.body.data.relationships.domain.data, { type: 'domains', id })
  assert.deepEqual(
    email.body.included.map((each: { id: string; attributes: { name: string } }) => [each.id, each.attributes.name]),
    [[id, 'removed.test']],
  )
  const listed = await postrider.api('GET', `/outbound-emails?filter[domain]=${id}&include=domain`)
  assert.deepEqual(listed.body.data.map((each: { id: string }) => each.id).toSorted(), [sent, queued].toSorted())

  await eraseKeys(store(), at + 7 * DAY - 1)
  assert.ok(keysOf(id).every(({ sealed_private_key }) => sealed_private_key !== null))
  await eraseKeys(store(), at + 7 * DAY)
  assert.ok(keysOf(id).every(({ sealed_private_key }) => sealed_private_key === null))

  // Queued emails are not sent, and contain the reason.
  const asked = postrider.dns.asked.length
  postrider.clock.leap(6 * MINUTE)
  await until(async () => (await shown(queued)).status === 'rejected', 'the rejection')
  assert.deepEqual(heardBy('never@there.test'), [])
  postrider.clock.leap(7 * HOUR)
  assert.ok(!postrider.dns.asked.slice(asked).some((question) => question.endsWith('removed.test')))

  const second = await postrider.api('POST', '/domains', document('domains', { name: 'removed.test', purpose: 'both' }))
  assert.equal(second.status, 201)
  assert.notEqual(second.body.data.id, id)
})

test('DELETE even stops email that the queue has already picked up', async () => {
  const id = await activate('stopped.test')
  door.shut()
  const COUNT = 3 * new Shaping().limitsFor(undefined).domain_connections
  await Promise.all(Array.from({ length: COUNT }, (_, index) => send('a@stopped.test', `n${index}@crowd.test`)))
  // Some are on their way and wait for the greeting; the others wait for a connection.
  await until(() => door.waiting === new Shaping().limitsFor(undefined).domain_connections, 'the connections')
  await until(
    () =>
      store().first<{ n: number }>(
        raw(`select count(*) as n from deliveries where status = 'active' and lane = 'crowd.test'`),
      )!.n === COUNT,
    'the claim',
  )
  assert.equal((await postrider.api('DELETE', `/domains/${id}`)).status, 204)
  door.open()
  await until(
    () =>
      store().first<{ n: number }>(
        raw(`select count(*) as n from deliveries where status in ('active', 'queued') and lane = 'crowd.test'`),
      )!.n === 0,
    'the end of all',
  )
  const left = exchanger.heard.filter(({ to }) => to[0]!.endsWith('@crowd.test')).length
  assert.ok(
    left <= new Shaping().limitsFor(undefined).domain_connections,
    `${left} of ${COUNT} mails left; at most ${new Shaping().limitsFor(undefined).domain_connections} were under way`,
  )
})

test('a failed removal returns 502 and leaves the domain suspended until DELETE succeeds', async () => {
  const id = await activate('stuck.test')
  const queued = await queue('a@stuck.test', 'waits@there.test')
  const before = { records: recordsFor(id), keys: keysOf(id) }
  const beside = new Database(join(postrider.dataDir, 'postrider.db'))
  try {
    beside.exec(
      `create trigger stuck before update of deleted_at on domains when new.deleted_at is not null and new.name = 'stuck.test'
       begin select raise(abort, 'no way'); end`,
    )
    const failed = await postrider.api('DELETE', `/domains/${id}`)
    assert.equal(failed.status, 502)
    assert.equal(failed.body.errors[0].code, 'teardown_failed')
    assert.equal(failed.body.errors[0].status, '502')
    assert.ok(!JSON.stringify(failed.body).includes('no way'), 'what the store said stays inside (D6)')
  } finally {
    beside.exec('drop trigger if exists stuck')
    beside.close()
  }
  assert.equal((await postrider.api('GET', `/domains/${id}`)).body.data.attributes.status, 'suspended')
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.suspended'])
  const event = store().first(
    raw<{ user_key: number; data: string }>(`select user_key, data from events where type = 'domain.suspended'`),
  )!
  assert.equal(event.user_key, postrider.user.key)
  assert.equal(JSON.parse(event.data).previous_status, 'active')
  assert.deepEqual({ records: recordsFor(id), keys: keysOf(id) }, before, 'torn down wholly or not at all')

  const refused = await post('a@stuck.test', 'new@there.test')
  assert.deepEqual([refused.status, refused.body.errors[0].code], [422, 'domain_not_active'])
  postrider.clock.leap(7 * HOUR)
  await until(() => store().first(raw(`select 1 from deliveries where address = 'waits@there.test' and attempts >= 2`)))
  await until(async () => (await shown(queued)).recipients[0].status === 'queued', 'back in the queue')
  assert.deepEqual(heardBy('waits@there.test'), [])
  assert.equal((await shown(queued)).status, 'queued')
  assert.equal(statusOf(id), 'suspended', 'records in DNS raise no suspended domain')

  assert.equal((await postrider.api('DELETE', `/domains/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/domains/${id}`)).status, 404)
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.suspended'])
})

/** A domain that a failed removal has suspended. */
async function suspend(name: string): Promise<string> {
  const id = await activate(name)
  const beside = new Database(join(postrider.dataDir, 'postrider.db'))
  beside.exec(
    `create trigger stuck before delete on records when old.name = 'bounce.${name}' begin select raise(abort, 'no way'); end`,
  )
  assert.equal((await postrider.api('DELETE', `/domains/${id}`)).status, 502)
  beside.exec('drop trigger stuck')
  beside.close()
  assert.equal(statusOf(id), 'suspended')
  return id
}

test('the operator resumes a suspended domain, and its queued email is sent', async () => {
  const id = await suspend('resumed.test')
  const deps = { ...postrider.appliance.deps, ring: postrider.appliance.deps.bells.domains }
  assert.equal(await resumeDomain(deps, rowOf(id)), true)
  await until(() => statusOf(id) === 'active', 'active again')
  assert.equal(await resumeDomain(deps, rowOf(id)), false, 'only a suspended one is resumed')
  assert.equal(statusOf(id), 'active')
  await send('a@resumed.test', 'resumed@there.test')
  assert.equal(await signedWith('resumed@there.test'), selectorOf(id, 'signing'))
  assert.deepEqual(eventTypes(id), ['domain.verified', 'domain.suspended', 'domain.verified'])
})

test('email queued for a suspended domain is sent when it is resumed', async () => {
  const name = 'patient.test'
  const id = await activate(name)
  await queue(`a@${name}`, 'patient@there.test')
  await store().write((tx) => tx.run(raw(`update domains set status = 'suspended' where id = ?`, [id])))
  postrider.clock.leap(6 * MINUTE)
  await until(() =>
    store().first(raw(`select 1 from deliveries where address = 'patient@there.test' and attempts = 2`)),
  )
  assert.deepEqual(heardBy('patient@there.test'), [])
  await resumeDomain({ ...postrider.appliance.deps, ring: postrider.appliance.deps.bells.domains }, rowOf(id))
  await until(() => statusOf(id) === 'active', 'active again')
  postrider.clock.leap(HOUR)
  await signedWith('patient@there.test')
})

test('a new key returns a suspended domain to verification', async () => {
  const id = await suspend('revived.test')
  await rotate(id)
  assert.equal(statusOf(id), 'active')
})

test('a new prefix does not reactivate a suspended domain', async () => {
  const id = await suspend('stays.test')
  const { body } = await patch(id, { mail_from_prefix: 'other' })
  assert.equal(body.data.attributes.status, 'suspended')
  await checked(id)
  assert.equal(statusOf(id), 'suspended')
})
