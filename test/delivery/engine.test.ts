// How the engine treats its neighbours: limits per provider and domain, patience, many recipients in one transaction,
// relays with credentials, source addresses, MTA-STS. Decisions D18, D24 to D26, D33 to D35. RFC 5321 §4.5.3.1.10, RFC
// 4954, RFC 8461.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { configAsset } from '../../src/base/assets.ts'
import { createSecureContext } from 'node:tls'
import { after, describe, test } from 'node:test'
import { makeCertificate, type Certificate } from '../../src/base/certificate.ts'
import { showQueued } from '../../src/delivery/queue/operator.ts'
import { Shaping } from '../../src/smtp/shaping.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger, type Script } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

const folder = temporaryDirectory('engine')
const caFile = join(folder, 'ca.pem')
const SECRET = 'correct horse battery'
const SOURCE = '127.0.0.7'

// Certificates by name: those of the configured authorities. Any other name gets an untrusted certificate.
const trusted = new Map<string, Certificate>()
const stranger = makeCertificate('stranger.test', Date.now())
function trust(...names: string[]): void {
  for (const name of names) trusted.set(name, makeCertificate(name, Date.now()))
  writeFileSync(caFile, [...trusted.values()].map(({ cert }) => cert).join(''))
}

const logged: string[] = []
const { attempted, become, events, eventTypes, post, receiver, show, turnToNext } = mailsOf(() => postrider)

/** The replies to RCPT and after the final dot, by recipient. */
const rcpt = new Map<string, string | ((connection: number) => string | undefined)>()
const final = new Map<string, string | Promise<string>>()
/** Emails by connection number. */
const carried: number[] = []
const recipientOf = (command: string): string => /<(.*)>/.exec(command)?.[1] ?? ''
const SCRIPT: Script = {
  tls: true,
  certificate: (name) => trusted.get(name) ?? stranger,
  answer(command, connection) {
    if (!command.startsWith('RCPT')) return undefined
    const said = rcpt.get(recipientOf(command))
    return typeof said === 'function' ? said(connection) : said
  },
  final({ to }, connection) {
    carried[connection] = (carried[connection] ?? 0) + 1
    return final.get(to[0]!)
  },
}

// ---- the MTA-STS policy server: its responses, by host ----

type Page = (request: IncomingMessage, response: ServerResponse) => void
const pages = new Map<string, Page>()
const asked: string[] = []
const policies = createServer(
  {
    ...stranger,
    SNICallback: (name, done) => done(null, createSecureContext(trusted.get(name) ?? stranger)),
  },
  (request, response) => {
    const [host = ''] = (request.headers.host ?? '').split(':')
    asked.push(`${host}${request.url}`)
    const page = pages.get(host)
    if (page) page(request, response)
    else response.writeHead(404).end()
  },
)

const RELAYS = ['plain', 'login', 'wrong', 'refused', 'nofile', 'clear', 'optional', 'unknown'] as const

const exchanger = testExchanger(SCRIPT)
const relay = testExchanger({ tls: true, certificate: (name) => trusted.get(name) ?? stranger })
const password = join(folder, 'password')
setUp(async () => {
  trust('first.test')
  writeFileSync(password, `${SECRET}\n`)
  await relay.listen()
  await new Promise<void>((resolve) => policies.listen(0, '127.0.0.1', resolve))
})
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    httpsPort: (policies.address() as AddressInfo).port,
    config: {
      workers: { count: 2 },
      webhooks: { ca_file: caFile },
      delivery: {
        source: [SOURCE],
        routes: [
          ...RELAYS.map((name) => ({
            domains: [`to-${name}.test`],
            host: `${name}.relay.test`,
            port: relay.port,
            tls: name === 'clear' || name === 'optional' ? ('optional' as const) : ('required' as const),
            username: 'postrider',
            password_file: name === 'nofile' ? join(folder, 'no-such-file') : password,
          })),
          {
            domains: ['to-address.test'],
            host: '127.0.0.1',
            port: relay.port,
            tls: 'required',
            username: 'postrider',
            password_file: password,
          },
        ],
      },
    },
    logged: { level: 'debug', lines: logged },
    domains: ['here.test', 'strict.test'],
  }),
)

setUp(() => {
  for (const name of RELAYS) postrider.dns.set(`${name}.relay.test`, 'A', ['127.0.0.1'])
})
after(async () => {
  await relay.close()
  policies.closeAllConnections()
  await new Promise((resolve) => policies.close(resolve))
})

const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))
const heardAt = (domain: string) => exchanger.heard.filter(({ to }) => to[0]!.endsWith(domain))
const deliveriesOf = (id: string) => showQueued(postrider.appliance.deps.store, id)!.deliveries
/** Names a recipient domain whose receiving server is a provider's. */
function receiverAt(domain: string, host: string): void {
  postrider.dns.set(domain, 'MX', [`10 ${host}`])
  postrider.dns.set(host, 'A', ['127.0.0.1'])
}
const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

/** Waits until every one of many emails is delivered, without asking the API for each. */
async function allDelivered(ids: readonly string[]): Promise<void> {
  const left = raw<{ n: number }>(
    `select count(*) as n from outbound_emails where status <> 'delivered' and id in (select value from json_each(?))`,
    [JSON.stringify(ids)],
  )
  await until(() => postrider.appliance.deps.store.first(left)!.n === 0, `${ids.length} delivered`)
}

/** Keeps the answers after the final dot of some recipients back until they are given. */
function keepBack(addresses: readonly string[]): (answer: string) => void {
  const gates = addresses.map((address) => {
    const { promise, resolve } = Promise.withResolvers<string>()
    final.set(address, promise)
    return { address, resolve }
  })
  return (answer) => {
    for (const { address, resolve } of gates) {
      final.delete(address)
      resolve(answer)
    }
  }
}

// ---- shaping ----

describe('shaping.toml', () => {
  test('the built-in file is valid, with feasible limits and the hosts of large providers', () => {
    const shaping = new Shaping()
    const at = (name: string) => shaping.limitsFor({ name, port: 25 })
    for (const [host, provider] of [
      ['gmail-smtp-in.l.google.com', 'Google'],
      ['aspmx.l.google.com', 'Google'],
      ['there-test.mail.protection.outlook.com', 'Microsoft 365'],
      ['hotmail-com.olc.protection.outlook.com', 'Microsoft consumer'],
      ['mta5.am0.yahoodns.net', 'Yahoo'],
      ['mx01.mail.icloud.com', 'Apple'],
      ['mx00.emig.gmx.net', 'GMX and Web.de'],
    ] as const)
      assert.equal(at(host).name, provider, host)
    // Suffixes match whole labels.
    for (const host of ['mx.there.test', 'notgoogle.com', 'google.com.there.test', 'mail.icloud.com.evil.test'])
      assert.equal(at(host).name, '', host)
    for (const host of ['aspmx.l.google.com', 'mx.orange.fr', 'mx00.t-online.de']) {
      const { domain_connections, provider_connections } = at(host)
      assert.ok(provider_connections === 0 || domain_connections <= provider_connections, host)
    }
    // Shaping does not apply to a relay of the operator, even if its name matches.
    const [{ host: name, ...route }] = postrider.config.delivery.routes as [
      (typeof postrider.config.delivery.routes)[0],
    ]
    assert.equal(shaping.limitsFor({ name: 'smtp.google.com', port: 25, relay: { host: name, ...route } }).name, '')
  })

  test('rejects an invalid shaping file', () => {
    // The shipped file up to its first provider, with other limits.
    const [head = ''] = configAsset('shaping.toml').split('[[provider]]')
    const warmup = head.slice(head.indexOf('[warmup]'))
    const limits = '[default]\ndomain_connections = 1\nprovider_connections = 0\nmails_per_connection = 1\n'
    const fine = `${limits}${warmup}`
    assert.equal(new Shaping(fine).limitsFor(undefined).domain_connections, 1)
    for (const text of [
      '',
      fine.replace('domain_connections = 1', 'domain_connections = 0'),
      fine.replace('mails_per_connection = 1', 'mails_per_connection = 0'),
      fine.replace('provider_connections = 0', 'provider_connections = -1'),
      fine.replace('provider_connections = 0', 'provider_connections = "many"'),
      `${fine}something = 1\n`,
      `${fine}[[provider]]\nname = "x"\nhosts = []\ndomain_connections = 1\nprovider_connections = 1\nmails_per_connection = 1\n`,
    ])
      assert.throws(() => new Shaping(text), text)
  })
})

test('opens no connection beyond the limit of a provider, without delaying others, and continues when one is free (D34)', async () => {
  // Apple: 10 connections, however many domains have their mail there.
  const domains = numbers(30).map((n) => `apple${n}.test`)
  for (const domain of domains) receiverAt(domain, 'mx01.mail.icloud.com')
  const answer = keepBack(domains.map((domain) => `a@${domain}`))
  const ids = await Promise.all(domains.map((domain) => post({ to: `a@${domain}` })))
  const arrived = () => exchanger.heard.filter(({ to }) => /@apple\d+\.test$/.test(to[0]!)).length
  await until(() => arrived() === 10)
  receiver('bystander.test')
  await allDelivered(await Promise.all(numbers(20).map((n) => post({ to: `b${n}@bystander.test` }))))
  assert.equal(arrived(), 10)
  answer('250 2.0.0 ok')
  // By the clock no time passes: connections that are kept open for more mail do not keep others out.
  await until(() => arrived() === 30, 'all domains of the provider')
  await allDelivered(ids)
})

test('limits the connections of a provider per domain, and the emails per connection (D34)', async () => {
  // Yahoo: 5 connections for each domain, 20 emails on each.
  receiverAt('yahoo-one.test', 'mta5.am0.yahoodns.net')
  receiverAt('yahoo-two.test', 'mta6.am0.yahoodns.net')
  const waiting = numbers(12).map((n) => `a${n}@yahoo-one.test`)
  const answer = keepBack(waiting)
  await Promise.all(waiting.map((to) => post({ to })))
  await until(() => heardAt('@yahoo-one.test').length === 5)
  await become(await post({ to: 'b@yahoo-two.test' }), 'delivered')
  assert.equal(heardAt('@yahoo-one.test').length, 5)
  answer('250 2.0.0 ok')
  await until(() => heardAt('@yahoo-one.test').length === 12, 'the rest')

  const before = exchanger.connections
  const ids = await Promise.all(numbers(130).map((n) => post({ to: `c${n}@yahoo-two.test` })))
  await allDelivered(ids)
  assert.equal(heardAt('@yahoo-two.test').length, 131)
  assert.ok(Math.max(...carried.slice(before + 1)) <= 20, carried.join(' '))
  assert.ok(carried.slice(before + 1).filter((mails) => mails === 20).length > 1, 'connections are used up')
})

test('one stalled server does not delay a hundred others', async () => {
  receiver('tarpit.test')
  const stuck = numbers(100).map((n) => `a${n}@tarpit.test`)
  const answer = keepBack(stuck)
  await Promise.all(stuck.map((to) => post({ to })))
  await until(() => heardAt('@tarpit.test').length === 20)
  for (const n of numbers(100)) receiver(`fast${n}.test`)
  const now = postrider.clock.now()
  const ids = await Promise.all(numbers(100).map((n) => post({ to: `b${n}@fast${n}.test` })))
  await allDelivered(ids)
  const late = raw<{ n: number }>(
    `select count(*) as n from outbound_emails where delivered_at > ? and id in (select value from json_each(?))`,
    [now, JSON.stringify(ids)],
  )
  assert.equal(postrider.appliance.deps.store.first(late)!.n, 0)
  assert.equal(heardAt('@tarpit.test').length, 20)
  answer('250 2.0.0 ok')
  await until(() => heardAt('@tarpit.test').length === 100)
})

// ---- patience ----

/** Eight emails to a domain that takes two at once. The first gets `reply`, the second waits, the rest are claimed. */
async function crowd(domain: string, reply: string) {
  receiverAt(domain, `mx.${domain}.orange.fr`)
  const ids: string[] = []
  const hold = keepBack([`a1@${domain}`])
  const first = keepBack([`a0@${domain}`])
  for (const n of [0, 1]) {
    ids.push(await post({ to: `a${n}@${domain}` }))
    await until(() => heardBy(`a${n}@${domain}`).length === 1)
  }
  for (const n of [2, 3, 4, 5, 6, 7]) ids.push(await post({ to: `a${n}@${domain}` }))
  const { store } = postrider.appliance.deps
  const claimed = raw<{ n: number }>(`select count(*) as n from deliveries where lane = ? and status = 'active'`, [
    domain,
  ])
  await until(() => store.first(claimed)!.n === 8)
  first(reply)
  await until(() => deliveriesOf(ids[0]!)[0]!.smtp_code !== null, 'its answer is written')
  return { ids, rest: ids.slice(2), release: () => hold('250 2.0.0 ok') }
}

test('sends more slowly after a "slow down" reply, without an attempt for queued email (D64)', async () => {
  for (const [domain, reply] of [
    ['slower.test', '451 4.7.1 Too many messages, slow down'],
    ['limited.test', '450 4.7.0 Rate limit exceeded'],
    ['tss.test', '451 4.7.0 [TSS04] Messages temporarily deferred due to unexpected volume'],
  ] as const) {
    const { ids, release, rest } = await crowd(domain, reply)
    await until(() => rest.every((id) => deliveriesOf(id)[0]!.status === 'queued'), 'back in the queue')
    for (const id of rest) {
      assert.equal(deliveriesOf(id)[0]!.attempts, 0)
      assert.deepEqual(eventTypes(id), [])
    }
    const [refused] = deliveriesOf(ids[0]!)
    assert.deepEqual([refused!.attempts, refused!.response], [0, reply.slice(reply.indexOf(' ', 4) + 1)])
    const commands = exchanger.commands.length
    receiver('ticking.test')
    await become(await post({ to: `${domain}@ticking.test` }), 'delivered')
    assert.ok(!exchanger.commands.slice(commands).some((line) => line.includes(`@${domain}>`)), 'not at once')
    release()
    await become(ids[1]!, 'delivered')
    await until(() => {
      postrider.clock.advance(100)
      return ids.every((id) => deliveriesOf(id)[0]!.status === 'delivered')
    })
    for (const id of ids) assert.equal(deliveriesOf(id)[0]!.attempts, 1)
  }
})

test('sends the next email over another connection after 421 for one email', async () => {
  const { release, rest } = await crowd('goodbye.test', '421 4.3.2 Shutting down')
  release()
  await Promise.all(rest.map((id) => become(id, 'delivered')))
  for (const id of rest) assert.equal(deliveriesOf(id)[0]!.attempts, 1)
})

test('greylisting, a full mailbox or a busy mailbox delays only one email (D26)', async () => {
  for (const [domain, reply] of [
    ['greylist.test', '451 4.7.1 Greylisted, please come back later'],
    ['overfull.test', '452 4.2.2 The mailbox is over quota'],
    ['popular.test', '450 4.2.1 The user you are trying to contact is receiving mail too quickly'],
  ] as const) {
    const { ids, release, rest } = await crowd(domain, reply)
    await Promise.all(
      rest.map((id) => until(async () => (await show(id)).status === 'delivered', `${domain}: the others`)),
    )
    release()
    await become(ids[1]!, 'delivered')
    assert.equal(deliveriesOf(ids[0]!)[0]!.status, 'queued')
  }
})

// ---- several recipients in one transaction ----

test('each recipient of a transaction has its own result, and the primary one determines the status (D24, D25, D35)', async () => {
  receiver('mixed.test')
  rcpt.set('gone@mixed.test', '550 5.1.1 No such user here').set('grey@mixed.test', '451 4.7.1 Greylisted')
  const id = await post({
    to: 'fine@mixed.test',
    cc: ['gone@mixed.test', 'also@mixed.test'],
    bcc: ['grey@mixed.test', 'hidden@mixed.test'],
  })
  await become(id, 'delivered')
  const [copy, ...more] = heardBy('fine@mixed.test')
  assert.deepEqual(more, [])
  assert.deepEqual(copy?.to, ['fine@mixed.test', 'also@mixed.test', 'hidden@mixed.test'])
  assert.doesNotMatch(copy.message, /grey@|hidden@|^bcc:/im)
  const shown = deliveriesOf(id)
  assert.deepEqual(
    shown.map(({ role, address, status, smtp_code, attempts }) => [
      role,
      address.split('@')[0],
      status,
      smtp_code,
      attempts,
    ]),
    [
      ['to', 'fine', 'delivered', 250, 1],
      ['cc', 'gone', 'bounced', 550, 1],
      ['cc', 'also', 'delivered', 250, 1],
      ['bcc', 'grey', 'queued', 451, 1],
      ['bcc', 'hidden', 'delivered', 250, 1],
    ],
  )
  // Only the recipients concerned keep the SMTP transcript.
  assert.match(shown[1]!.dialogue ?? '', /RCPT TO:<gone@mixed\.test>[\s\S]*550 5\.1\.1 No such user here/)
  assert.match(shown[3]!.dialogue ?? '', /EHLO[\s\S]*451 4\.7\.1 Greylisted/)
  for (const { dialogue } of shown) assert.ok((dialogue?.length ?? 0) <= 16_000)
  const keys = new Map(shown.map(({ key, address }) => [key, address]))
  assert.deepEqual(
    events(id)
      .map(({ type, data }) => `${type} ${keys.get(Number(data['delivery']))}`)
      .toSorted(),
    [
      'email.bounced gone@mixed.test',
      'email.delayed grey@mixed.test',
      'email.delivered also@mixed.test',
      'email.delivered fine@mixed.test',
      'email.delivered hidden@mixed.test',
      'email.sent fine@mixed.test',
    ],
  )
  const suppressed = raw<{ email: string }>(`select email from suppressions where email like '%@mixed.test'`)
  assert.deepEqual(postrider.appliance.deps.store.all(suppressed), [{ email: 'gone@mixed.test' }])
  // The deferred recipient gets a separate copy.
  rcpt.clear()
  const next = deliveriesOf(id)[3]!.next_attempt_at!
  postrider.clock.leap(next - postrider.clock.now())
  await until(() => heardBy('grey@mixed.test').length === 1)
  assert.deepEqual(heardBy('grey@mixed.test')[0]?.to, ['grey@mixed.test'])
  assert.doesNotMatch(heardBy('grey@mixed.test')[0]!.message, /grey@/)
  await until(() => deliveriesOf(id)[3]!.status === 'delivered')
  assert.equal((await show(id)).status, 'delivered')
})

test('bounces if the primary recipient is rejected, and still delivers the copy', async () => {
  receiver('reverse.test')
  rcpt.set('gone@reverse.test', '550 5.1.1 No such user here')
  const id = await post({ to: 'gone@reverse.test', cc: 'fine@reverse.test' })
  await become(id, 'bounced')
  await until(() => deliveriesOf(id)[1]!.status === 'delivered')
  assert.equal((await show(id)).status, 'bounced')
  rcpt.clear()
})

test('sends the rest immediately in a new transaction after 452 too many recipients', async () => {
  for (const [domain, reply] of [
    ['three.test', '452 4.5.3 Too many recipients'],
    ['three-plain.test', '452 Too many recipients received this hour'],
    ['three-old.test', '552 Too many recipients'],
  ] as const) {
    receiver(domain)
    const all = numbers(8).map((n) => `a${n}@${domain}`)
    // Three to a transaction.
    const taken = new Map<number, number>()
    for (const address of all)
      rcpt.set(address, (connection) => {
        const count = (taken.get(connection) ?? 0) + 1
        taken.set(connection, count)
        return count > 3 ? reply : undefined
      })
    for (const address of all)
      final.set(
        address,
        Promise.resolve(taken.clear()).then(() => '250 ok'),
      )
    const used = new Set<number>()
    exchanger.script = {
      ...SCRIPT,
      final: (heard, connection) => {
        taken.clear()
        used.add(connection)
        return SCRIPT.final!(heard, connection)
      },
    }
    const id = await post({ to: all[0]!, cc: all.slice(1, 5), bcc: all.slice(5) })
    await until(() => deliveriesOf(id).every(({ status }) => status === 'delivered'), domain)
    exchanger.script = SCRIPT
    rcpt.clear()
    // A second connection is opened if the first is still busy with its last reply.
    assert.ok(used.size < 3, 'a connection for each transaction')
    const copies = exchanger.heard.filter(({ to }) => to[0]!.endsWith(`@${domain}`))
    assert.deepEqual(
      copies.map(({ to }) => to.length),
      [3, 3, 2],
    )
    assert.deepEqual(copies.flatMap(({ to }) => to).toSorted(), all.toSorted())
    assert.equal(new Set(copies.map(({ message }) => message)).size, 1, 'one letter, one signature')
    for (const { attempts } of deliveriesOf(id)) assert.equal(attempts, 1)
    assert.deepEqual(
      eventTypes(id).filter((type) => type === 'email.delayed'),
      [],
    )
  }
})

test('defers after one 452 for every recipient', async () => {
  receiver('none.test')
  for (const name of ['a', 'b']) rcpt.set(`${name}@none.test`, '452 4.3.1 Insufficient system storage')
  const id = await post({ to: 'a@none.test', cc: 'b@none.test' })
  await attempted(id, 1)
  assert.deepEqual(
    deliveriesOf(id).map(({ status, smtp_code }) => [status, smtp_code]),
    [
      ['queued', 452],
      ['queued', 452],
    ],
  )
  assert.equal(exchanger.commands.filter((line) => line === 'RCPT TO:<a@none.test>').length, 1)
  rcpt.clear()
})

// ---- source addresses ----

test('connects from delivery.source', async () => {
  receiver('source.test')
  await become(await post({ to: 'a@source.test' }), 'delivered')
  assert.ok(exchanger.peers.length > 0)
  assert.deepEqual([...new Set(exchanger.peers)], [SOURCE])
})

// ---- relays ----

const base64 = (text: string): string => Buffer.from(text).toString('base64')
const TOKEN = base64(`\0postrider\0${SECRET}`)
const AUTH = /^AUTH|^[A-Za-z0-9+/]{12,}=*$/

/** The password, in any form, is not in the log and not in the store. */
function assertHidden(): void {
  for (const form of [SECRET, base64(SECRET), TOKEN]) {
    assert.ok(!logged.some((line) => line.includes(form)), 'in the log')
    const kept = raw<{ n: number }>(
      `select count(*) as n from deliveries where instr(coalesce(dialogue, ''), ?) or instr(coalesce(response, ''), ?)`,
      [form, form],
    )
    assert.equal(postrider.appliance.deps.store.first(kept)!.n, 0, 'in the store')
  }
}

/** The deferral of an email over a relay, with the commands that the relay got. */
async function putOffBy(name: string): Promise<{ response: string; commands: string[] }> {
  const from = relay.commands.length
  const { heard } = relay
  const before = heard.length
  const id = await post({ to: `a@to-${name}.test` })
  await attempted(id, 1)
  const [delivery] = deliveriesOf(id)
  assert.equal(delivery!.status, 'queued')
  assert.equal(delivery!.smtp_code, null)
  // A text for an operator, without error messages of the runtime.
  assert.match(delivery!.response ?? '', /^[A-Z]/)
  assert.doesNotMatch(delivery!.response ?? '', /Node\.js/)
  assert.equal(heard.length, before)
  assertHidden()
  return { response: delivery!.response!, commands: relay.commands.slice(from) }
}

test('uses AUTH PLAIN over TLS with a verified relay, and never shows the secret (D33, RFC 4954)', async () => {
  trust('plain.relay.test')
  relay.script.keywords = ['PIPELINING', 'AUTH LOGIN PLAIN']
  relay.script.answer = (line) => (line.startsWith('AUTH') ? '235 2.7.0 Accepted' : undefined)
  await become(await post({ to: 'a@to-plain.test' }), 'delivered')
  assert.ok(relay.commands.includes(`AUTH PLAIN ${TOKEN}`))
  assert.equal(relay.heard.at(-1)?.tls, true)
  const starttls = relay.commands.indexOf('STARTTLS')
  assert.ok(starttls >= 0 && starttls < relay.commands.findIndex((line) => line.startsWith('AUTH')))
  // With a refusal the SMTP transcript is kept.
  relay.script.answer = (line) =>
    line.startsWith('AUTH') ? '235 2.7.0 Accepted' : line.startsWith('RCPT') ? '550 5.1.1 no' : undefined
  const id = await post({ to: 'b@to-plain.test' })
  await become(id, 'bounced')
  assert.match(deliveriesOf(id)[0]!.dialogue ?? '', /AUTH PLAIN \(hidden\)|550 5\.1\.1 no/)
  assertHidden()
})

test('uses AUTH LOGIN if PLAIN is not offered', async () => {
  trust('login.relay.test')
  relay.script.keywords = ['AUTH LOGIN']
  relay.script.answer = (line) =>
    line === 'AUTH LOGIN'
      ? '334 VXNlcm5hbWU6'
      : line === base64('postrider')
        ? '334 UGFzc3dvcmQ6'
        : line === base64(SECRET)
          ? '235 2.7.0 Accepted'
          : line.startsWith('RCPT')
            ? '550 5.1.1 no'
            : undefined
  const id = await post({ to: 'a@to-login.test' })
  await become(id, 'bounced')
  assert.ok(relay.commands.includes(base64(SECRET)))
  assert.match(deliveriesOf(id)[0]!.dialogue ?? '', /AUTH LOGIN[\s\S]*235/)
  assertHidden()
})

test('queues email if the relay rejects the credentials, with the reason for the operator', async () => {
  trust('refused.relay.test')
  relay.script.keywords = ['AUTH PLAIN']
  relay.script.answer = (line) => (line.startsWith('AUTH') ? '535 5.7.8 Authentication credentials invalid' : undefined)
  const { commands, response } = await putOffBy('refused')
  assert.match(response, /535 .*credentials invalid/)
  assert.ok(!commands.some((line) => line.startsWith('MAIL')))
})

test('queues email if the relay offers no supported mechanism', async () => {
  trust('unknown.relay.test')
  relay.script.keywords = ['AUTH CRAM-MD5 XOAUTH2']
  relay.script.answer = undefined as never
  const { commands, response } = await putOffBy('unknown')
  assert.match(response, /AUTH/)
  assert.ok(!commands.some((line) => AUTH.test(line)))
})

test('sends neither credentials nor email if the certificate is untrusted or has another name', async () => {
  relay.script.keywords = ['AUTH PLAIN LOGIN']
  const { commands, response } = await putOffBy('wrong')
  assert.match(response, /TLS/)
  assert.ok(!commands.some((line) => AUTH.test(line) || line.startsWith('MAIL')))
  // A relay that is configured by its address is not "localhost", even with a valid certificate for that name.
  trust('localhost')
  const certificate = relay.script.certificate!
  relay.script.certificate = () => trusted.get('localhost')
  try {
    assert.ok(!(await putOffBy('address')).commands.some((line) => AUTH.test(line)))
  } finally {
    relay.script.certificate = certificate
  }
})

test('never sends credentials in clear text or to an unverified server, even if TLS is optional', async () => {
  relay.script.keywords = ['AUTH PLAIN LOGIN']
  relay.script.answer = (line) => (line.startsWith('AUTH') ? '235 2.7.0 Accepted' : undefined)
  relay.script.tls = false
  const clear = await putOffBy('clear')
  relay.script.tls = true
  assert.match(clear.response, /TLS/)
  assert.ok(!clear.commands.some((line) => AUTH.test(line)))
  const strange = await putOffBy('optional')
  assert.ok(!strange.commands.some((line) => AUTH.test(line)))
})

test('queues email if the password file is missing, and logs the relay (D72)', async () => {
  trust('nofile.relay.test')
  const from = relay.commands.length
  const id = await post({ to: 'a@to-nofile.test' })
  const said = await until(() =>
    logged.find((line) => /"problem_reported"/.test(line) && /password file.*nofile\.relay\.test.*ENOENT/.test(line)),
  )
  assert.ok(said)
  const shown = await until(async () => {
    const now = await show(id)
    return now.recipients[0]?.next_attempt_at ? now : undefined
  })
  // It is this server that has to be fixed: no attempt is counted, and the owner reads no file's name.
  assert.equal(shown.recipients[0]?.attempts, 0)
  assert.match(shown.recipients[0]?.response ?? '', /problem on this server/)
  assert.deepEqual(relay.commands.slice(from), [])
})

// ---- MTA-STS ----

const policyText = (domain: string, mode: string, more: { mx?: string; age?: number } = {}): string =>
  `version: STSv1\nmode: ${mode}\nmx: ${more.mx ?? `mx.${domain}`}\nmax_age: ${more.age ?? 86_400}\n`
const page =
  (text: string, type = 'text/plain'): Page =>
  (_, response) =>
    void response.writeHead(200, { 'content-type': type }).end(text)

/**
 * A recipient domain with a policy server that proves its name. Its receiving server does too, unless `proves` is
 * false.
 */
function stsDomain(domain: string, answer: Page | string, proves: boolean): void {
  receiver(domain)
  postrider.dns.set(`mta-sts.${domain}`, 'A', ['127.0.0.1'])
  postrider.dns.set(`_mta-sts.${domain}`, 'TXT', ['v=STSv1; id=1;'])
  pages.set(`mta-sts.${domain}`, typeof answer === 'string' ? page(answer) : answer)
  trust(`mta-sts.${domain}`, ...(proves ? [`mx.${domain}`] : []))
}
const askedFor = (domain: string): number => asked.filter((line) => line.startsWith(`mta-sts.${domain}/`)).length

test('enforce delivers over TLS to a server with a valid certificate', async () => {
  stsDomain('proving.test', policyText('proving.test', 'enforce'), true)
  await become(await post({ to: 'a@proving.test' }), 'delivered')
  assert.equal(heardBy('a@proving.test')[0]?.tls, true)
  assert.deepEqual(
    asked.filter((line) => line.includes('proving')),
    ['mta-sts.proving.test/.well-known/mta-sts.txt'],
  )
})

test('enforce does not deliver to a server without a valid certificate or without TLS', async () => {
  stsDomain('posing.test', policyText('posing.test', 'enforce'), false)
  const id = await post({ to: 'a@posing.test' })
  await attempted(id, 1)
  const shown = await show(id)
  assert.deepEqual([shown.status, shown.recipients[0]?.status], ['queued', 'queued'])
  assert.match(shown.recipients[0]?.enhanced_code ?? '', /^4\.7\./)
  assert.equal(heardBy('a@posing.test').length, 0)

  stsDomain('stripped.test', policyText('stripped.test', 'enforce'), true)
  exchanger.script = { ...SCRIPT, tls: false }
  const stripped = await post({ to: 'a@stripped.test' })
  await attempted(stripped, 1)
  exchanger.script = SCRIPT
  assert.match((await show(stripped)).recipients[0]?.enhanced_code ?? '', /^4\.7\./)
  assert.equal(heardBy('a@stripped.test').length, 0)
  // After the attack or the mistake has ended, the email is delivered.
  await turnToNext(stripped)
  await become(stripped, 'delivered')
})

test('enforce connects only to servers that the policy lists', async () => {
  stsDomain('named.test', policyText('named.test', 'enforce', { mx: '*.other.test' }), true)
  const id = await post({ to: 'a@named.test' })
  await attempted(id, 1)
  const [delivery] = deliveriesOf(id)
  assert.match(delivery!.response ?? '', /MTA-STS/)
  assert.deepEqual([delivery!.remote_mta, delivery!.dialogue], [null, null], 'nobody was asked')
  assert.equal(heardAt('@named.test').length, 0)

  stsDomain('both.test', policyText('both.test', 'enforce', { mx: 'good.both.test' }), true)
  postrider.dns.set('both.test', 'MX', ['5 bad.both.test', '10 good.both.test'])
  for (const host of ['bad', 'good']) postrider.dns.set(`${host}.both.test`, 'A', ['127.0.0.1'])
  trust('bad.both.test', 'good.both.test')
  const two = await post({ to: 'a@both.test' })
  assert.equal((await become(two, 'delivered')).recipients[0]?.remote_mta, 'good.both.test')
})

test('policy modes testing and none do not restrict delivery', async () => {
  for (const mode of ['testing', 'none']) {
    stsDomain(`sts-${mode}.test`, policyText(`sts-${mode}.test`, mode, { mx: 'elsewhere.test' }), false)
    await become(await post({ to: `a@sts-${mode}.test` }), 'delivered')
    assert.equal(askedFor(`sts-${mode}.test`), 1)
  }
})

test('applies a policy until max_age, even if its record disappears and its server is down', async () => {
  stsDomain('cached.test', policyText('cached.test', 'enforce', { age: 86_400 }), true)
  await become(await post({ to: 'a@cached.test' }), 'delivered')
  assert.equal(askedFor('cached.test'), 1)
  // The receiving server is not the one it was.
  trusted.delete('mx.cached.test')
  trust()
  pages.set('mta-sts.cached.test', (_, response) => void response.destroy())
  postrider.clock.leap(20 * MINUTE)
  const unchanged = await post({ to: 'b@cached.test' })
  await attempted(unchanged, 1)
  assert.equal(askedFor('cached.test'), 1, 'the same id is not fetched again')
  postrider.dns.set('_mta-sts.cached.test', 'TXT', ['v=STSv1; id=2;'])
  postrider.clock.leap(20 * MINUTE)
  await until(() => deliveriesOf(unchanged)[0]!.attempts >= 2 && deliveriesOf(unchanged)[0]!.status === 'queued')
  assert.ok(askedFor('cached.test') > 1, 'another id is')
  postrider.dns.set('_mta-sts.cached.test', 'TXT', undefined)
  postrider.clock.leap(40 * MINUTE)
  await until(() => deliveriesOf(unchanged)[0]!.attempts >= 3 && deliveriesOf(unchanged)[0]!.status === 'queued')
  assert.equal(heardAt('@cached.test').length, 1)
  postrider.clock.leap(24 * 60 * MINUTE)
  await become(unchanged, 'delivered')
})

test('fetches the new policy when the id changes', async () => {
  stsDomain('changing.test', policyText('changing.test', 'enforce'), false)
  const id = await post({ to: 'a@changing.test' })
  await attempted(id, 1)
  assert.equal(deliveriesOf(id)[0]!.status, 'queued')
  pages.set('mta-sts.changing.test', page(policyText('changing.test', 'testing')))
  postrider.dns.set('_mta-sts.changing.test', 'TXT', ['v=STSv1; id=2;'])
  // The route is cached for five minutes.
  postrider.clock.leap(6 * MINUTE)
  await become(id, 'delivered')
  assert.equal(askedFor('changing.test'), 2)
})

describe('ignores an unavailable policy, and does not fetch it again immediately', () => {
  const enforcing = (domain: string): string => policyText(domain, 'enforce')
  const PAGES: Record<string, (domain: string) => Page> = {
    'another media type': (domain) => page(enforcing(domain), 'text/html'),
    'no media type': (domain) => (_, response) => void response.writeHead(200).end(enforcing(domain)),
    'more than 64 KB': (domain) => page(`${enforcing(domain)}${'x: y\n'.repeat(20_000)}`),
    'a redirect': (domain) => (request, response) => {
      if (request.url === '/policy') return page(enforcing(domain))(request, response)
      return void response.writeHead(301, { location: `https://${request.headers.host}/policy` }).end()
    },
    'not found': () => (_, response) => void response.writeHead(404, { 'content-type': 'text/plain' }).end(),
    'no policy': () => page('<html>'),
    'a connection that is cut': (domain) => (_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 1000 })
      response.write(enforcing(domain), () => response.destroy())
    },
  }
  for (const [label, answer] of Object.entries(PAGES))
    test(label, async () => {
      const domain = `${label.replaceAll(' ', '-').toLowerCase()}.sts.test`
      stsDomain(domain, answer(domain), false)
      await become(await post({ to: `a@${domain}` }), 'delivered')
      const { length } = asked
      assert.ok(askedFor(domain) >= 1)
      assert.ok(!asked.some((line) => line === `mta-sts.${domain}/policy`), 'redirects are not followed')
      postrider.clock.leap(4_000)
      await become(await post({ to: `b@${domain}` }), 'delivered')
      assert.equal(asked.length, length)
    })

  test('a policy host that does not prove its name', async () => {
    stsDomain('unproven.test', policyText('unproven.test', 'enforce'), false)
    trusted.delete('mta-sts.unproven.test')
    trust()
    await become(await post({ to: 'a@unproven.test' }), 'delivered')
    assert.equal(askedFor('unproven.test'), 0)
  })
})
