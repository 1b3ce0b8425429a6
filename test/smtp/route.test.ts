// Routing: MX records and their fallback (RFC 5321 §5.1, RFC 7505), relays and forbidden addresses, up to a session
// (D18, D33).
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import dnsPacket from 'dns-packet'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { allowPublicAnd } from '../../src/base/network.ts'
import { createResolver, type ResolverAnswer, type Mx, type Resolver, type Tlsa } from '../../src/net/resolver.ts'
import { connectAlong, findRoute, type KnownPolicy, type StsCache } from '../../src/delivery/wire/connect.ts'
import { HostBalance } from '../../src/delivery/wire/host-balance.ts'
import { openSession, type ConnectOptions } from '../../src/smtp/client.ts'
import { findAddresses, findHosts, relayHosts, type Host, type RouteOptions } from '../../src/smtp/route.ts'
import { ownVerdict, type Verdict } from '../../src/smtp/verdict.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type Script } from '../kit/exchanger.ts'

const NONE = { kind: 'none' } as const
const NO_NAME = { kind: 'nxdomain' } as const
const FAILED = { kind: 'failed', reason: 'ESERVFAIL' } as const
const found = <T>(...records: T[]): ResolverAnswer<T> => ({ kind: 'found', records })
const mx = (...list: [priority: number, exchange: string][]): ResolverAnswer<Mx> =>
  found(...list.map(([priority, exchange]) => ({ priority, exchange })))

/** A resolver with the given answers, which records queries. All other names are NXDOMAIN. */
function resolverOf(
  zone: {
    mx?: Record<string, ResolverAnswer<Mx>>
    a?: Record<string, ResolverAnswer<string>>
    aaaa?: Record<string, ResolverAnswer<string>>
  },
  asked: string[] = [],
): Resolver {
  const answer = <T>(type: string, records: Record<string, ResolverAnswer<T>> = {}) => {
    return (name: string): Promise<ResolverAnswer<T>> => {
      asked.push(`${type} ${name}`)
      return Promise.resolve(records[name] ?? NO_NAME)
    }
  }
  return {
    mx: answer('MX', zone.mx),
    a: answer('A', zone.a),
    aaaa: answer('AAAA', zone.aaaa),
    txt: answer<string>('TXT'),
    cname: answer<string>('CNAME'),
    ptr: answer<string>('PTR'),
    tlsa: answer<Tlsa>('TLSA'),
  }
}

const hostsFor = (answer: ResolverAnswer<Mx>, more: Partial<RouteOptions> = {}, random?: () => number) =>
  findHosts(
    { resolver: resolverOf({ mx: { 'there.test': answer } }), routes: [], port: 25, hostname: 'mx.here.test', ...more },
    'there.test',
    random,
  )
const names = (answer: Host[] | Verdict): string[] => {
  assert.ok(Array.isArray(answer), JSON.stringify(answer))
  return answer.map(({ name }) => name)
}
const verdict = <T extends object>(answer: T | Verdict): Verdict => {
  assert.ok('kind' in answer, JSON.stringify(answer))
  return answer
}

test('orders MX hosts by preference', async () => {
  const hosts = await hostsFor(mx([20, 'c.test'], [5, 'a.test'], [10, 'b.test'], [65_535, 'd.test'], [0, 'z.test']))
  assert.deepEqual(names(hosts), ['z.test', 'a.test', 'b.test', 'c.test', 'd.test'])
})

test('shuffles only MX hosts with equal preference', async () => {
  const records = mx([10, 'a.test'], [10, 'b.test'], [10, 'c.test'], [20, 'last.test'])
  const orders = new Set<string>()
  const first = { 'a.test': 0, 'b.test': 0, 'c.test': 0 } as Record<string, number>
  for (let n = 0; n < 600; n++) {
    const order = names(await hostsFor(records))
    assert.equal(order[3], 'last.test')
    orders.add(order.join())
    first[order[0]!]!++
  }
  assert.equal(orders.size, 6)
  // The expected number is 200 each. Below 120 is less likely than one in a billion.
  for (const [host, times] of Object.entries(first)) assert.ok(times > 120, `${host} was first ${times} times`)
})

test('chooses the result by the DNS answer for the domain', async () => {
  const gone = verdict(await hostsFor(NO_NAME))
  assert.deepEqual([gone.kind, gone.enhanced, gone.stage, gone.code], ['failed', '5.1.2', 'dns', null])
  const broken = verdict(await hostsFor(FAILED))
  assert.deepEqual([broken.kind, broken.enhanced, broken.stage], ['deferred', '4.4.3', 'dns'])
  const nullMx = verdict(await hostsFor(mx([0, ''])))
  assert.deepEqual([nullMx.kind, nullMx.enhanced, nullMx.stage], ['failed', '5.1.10', 'dns'])
  assert.deepEqual(names(await hostsFor(NONE)), ['there.test'], 'implicit MX')
  // A null MX next to others is an error of that domain (RFC 7505 §3). The others are tried.
  assert.deepEqual(names(await hostsFor(mx([0, ''], [10, 'a.test']))), ['a.test'])
})

test('tries only MX hosts with a better preference than this server, and reports a loop without one', async () => {
  assert.deepEqual(names(await hostsFor(mx([10, 'a.test'], [20, 'mx.here.test'], [20, 'b.test'], [30, 'c.test']))), [
    'a.test',
  ])
  for (const records of [mx([10, 'mx.here.test']), mx([10, 'mx.here.test'], [20, 'a.test'])]) {
    const loop = verdict(await hostsFor(records))
    assert.deepEqual([loop.kind, loop.enhanced], ['failed', '5.4.6'])
  }
})

test('delivers a local domain to the own listener unless a better MX host exists, and defers while the listener is closed', async () => {
  const own = { name: 'mx.here.test', port: 2525, address: '127.0.0.1' }
  const home = (domain: string) => (domain === 'there.test' ? own : undefined)
  assert.deepEqual(await hostsFor(mx([10, 'mx.here.test'], [20, 'a.test']), { home }), [own])
  assert.deepEqual(names(await hostsFor(mx([1, 'a.test'], [20, 'mx.here.test']), { home })), ['a.test'])
  assert.deepEqual(names(await hostsFor(mx([1, 'a.test']), { home })), ['a.test'])
  const closed = verdict(await hostsFor(mx([10, 'mx.here.test']), { home: () => 'closed' }))
  assert.deepEqual([closed.kind, closed.enhanced], ['deferred', '4.4.1'])
})

test('uses a relay for its domains, most specific rule first, without DNS', async () => {
  const asked: string[] = []
  const relay = (host: string, domains: string[]) => ({
    name: '',
    spf: '',
    domains,
    host,
    hosts: [],
    port: 587,
    tls: 'required' as const,
    username: '',
    password_file: '',
  })
  const options: RouteOptions = {
    resolver: resolverOf({ mx: { 'direct.test': mx([1, 'mx.direct.test']) } }, asked),
    routes: [relay('all.relay.test', ['*']), relay('one.relay.test', ['there.test', 'other.test'])],
    port: 2525,
    hostname: 'mx.here.test',
  }
  for (const [domain, host] of [
    ['there.test', 'one.relay.test'],
    ['other.test', 'one.relay.test'],
    ['sub.there.test', 'all.relay.test'],
    ['else.test', 'all.relay.test'],
  ] as const) {
    const hosts = await findHosts(options, domain)
    assert.deepEqual(names(hosts), [host])
    assert.equal((hosts as Host[])[0]!.port, 587)
    assert.equal((hosts as Host[])[0]!.relay?.tls, 'required')
  }
  assert.deepEqual(asked, [])
  const direct = await findHosts({ ...options, routes: options.routes.slice(1) }, 'direct.test')
  assert.deepEqual(direct, [{ name: 'mx.direct.test', port: 2525, preference: 1 }])
})

test('uses all hosts of a relay, or the MX hosts of a domain ("mx:NAME"), and waits if the name is wrong', async () => {
  const relayOf = (more: object) =>
    parseConfig({ delivery: { routes: [{ domains: ['*'], port: 587, ...more }] } }).delivery.routes[0]!
  const found = async (more: object, zone: Parameters<typeof resolverOf>[0] = {}) => {
    const relay = relayOf(more)
    const hosts = await relayHosts({ resolver: resolverOf(zone), hostname: 'mx.here.test' }, relay)
    return 'kind' in hosts ? hosts : hosts.map(({ name, port, preference }) => [name, port, preference])
  }
  assert.deepEqual(await found({ hosts: ['a.test', '[2001:db8::1]:26'] }), [
    ['a.test', 587, undefined],
    ['2001:db8::1', 26, undefined],
  ])
  const mxOf = (answer: ResolverAnswer<Mx>) => found({ host: 'mx:Relay.test' }, { mx: { 'relay.test': answer } })
  assert.deepEqual(await mxOf(mx([20, 'b.test'], [10, 'a.test'])), [
    ['a.test', 587, 10],
    ['b.test', 587, 20],
  ])
  assert.deepEqual(await mxOf(NONE), [['relay.test', 587, undefined]])
  const many = mx(...Array.from({ length: 30 }, (_, n) => [10, `mx${n}.test`] as [number, string]))
  assert.equal(((await mxOf(many)) as unknown[]).length, 20)
  // The route is wrong: no email has an attempt until the operator corrects it.
  for (const [answer, words] of [
    [NO_NAME, /^The relay mx:Relay\.test: The domain relay\.test does not exist\.$/],
    [mx([0, '.']), /does not accept email \(null MX\)/],
    [mx([10, 'mx.here.test']), /is this server itself \(mail loop\)/],
  ] as const) {
    const waiting = await mxOf(answer)
    assert.ok('kind' in waiting)
    assert.equal(waiting.kind, 'waiting')
    assert.match(waiting.cause ?? '', words)
  }
  assert.equal(verdict((await mxOf(FAILED)) as Verdict).kind, 'deferred')
  const nameless = verdict(
    await findAddresses(
      resolverOf({}),
      { name: 'gone.test', port: 25, relay: relayOf({ host: 'gone.test' }) },
      () => true,
    ),
  )
  assert.deepEqual([nameless.kind, nameless.cause], ['waiting', 'The relay host gone.test has no A or AAAA record.'])
})

test('limits the number of MX hosts and addresses that are tried', async () => {
  const many = await hostsFor(mx(...Array.from({ length: 1000 }, (_, n) => [n, `mx${n}.test`] as [number, string])))
  assert.ok(names(many).length <= 20)
  assert.equal(names(many)[0], 'mx0.test')
  const a = { 'mx.test': found(...Array.from({ length: 250 }, (_, n) => `192.0.2.${n}`)) }
  const addresses = await findAddresses(resolverOf({ a }), { name: 'mx.test', port: 25 }, () => true)
  assert.ok(Array.isArray(addresses) && addresses.length <= 50)
})

test('tries all IPv4 and IPv6 addresses of a host', async () => {
  const resolver = resolverOf({
    a: { 'mx.test': found('198.51.100.1', '198.51.100.2'), 'four.test': found('198.51.100.4') },
    aaaa: { 'mx.test': found('2001:db8::1'), 'six.test': found('2001:db8::6') },
  })
  const at = (name: string) => findAddresses(resolver, { name, port: 25 }, () => true)
  assert.deepEqual([...((await at('mx.test')) as string[])].toSorted(), ['198.51.100.1', '198.51.100.2', '2001:db8::1'])
  assert.deepEqual(await at('four.test'), ['198.51.100.4'])
  assert.deepEqual(await at('six.test'), ['2001:db8::6'])
})

test('rejects private, loopback and other special addresses unless allowed', async () => {
  const PRIVATE = [
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '::1',
    '::',
    'fe80::1',
    'fc00::1',
    'fd12::1',
    'ff02::1',
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
    '::ffff:a00:1',
  ]
  const strict = allowPublicAnd([])
  for (const address of PRIVATE) {
    const records = address.includes(':')
      ? { aaaa: { 'mx.test': found(address) } }
      : { a: { 'mx.test': found(address) } }
    const answer = verdict(await findAddresses(resolverOf(records), { name: 'mx.test', port: 25 }, strict))
    assert.equal(answer.kind, 'failed', address)
    // As a literal in the MX record, too.
    assert.equal(
      verdict(await findAddresses(resolverOf({}), { name: address, port: 25 }, strict)).kind,
      'failed',
      address,
    )
  }
  const both = resolverOf({ a: { 'mx.test': found('10.1.2.3', '9.9.9.9') } })
  assert.deepEqual(await findAddresses(both, { name: 'mx.test', port: 25 }, strict), ['9.9.9.9'])
  const loopback = resolverOf({ a: { 'mx.test': found('127.0.0.1', '10.0.0.1') } })
  assert.deepEqual(await findAddresses(loopback, { name: 'mx.test', port: 25 }, allowPublicAnd(['127.0.0.0/8'])), [
    '127.0.0.1',
  ])
})

test('fails permanently for a server without addresses, and defers if the lookup fails', async () => {
  for (const [a, aaaa, kind] of [
    [NONE, NONE, 'failed'],
    [NO_NAME, NO_NAME, 'failed'],
    [FAILED, NONE, 'deferred'],
    [NONE, FAILED, 'deferred'],
    [FAILED, FAILED, 'deferred'],
  ] as const) {
    const resolver = resolverOf({ a: { 'mx.test': a }, aaaa: { 'mx.test': aaaa } })
    const answer = verdict(await findAddresses(resolver, { name: 'mx.test', port: 25 }, () => true))
    assert.equal(answer.kind, kind, `${a.kind} and ${aaaa.kind}`)
    assert.equal(answer.stage, 'dns')
  }
})

test('the resolver distinguishes NXDOMAIN, no record, null MX, SERVFAIL, REFUSED and a timeout', async () => {
  const RCODE: Record<string, number> = { 'gone.test': 3, 'broken.test': 2, 'refused.test': 5 }
  const socket = createSocket('udp4')
  socket.on('message', (message, from) => {
    const query = dnsPacket.decode(message)
    const [question] = query.questions!
    if (question!.name === 'silent.test') return
    const reply = dnsPacket.encode({
      type: 'response',
      id: query.id!,
      flags: dnsPacket.RECURSION_DESIRED | dnsPacket.RECURSION_AVAILABLE | (RCODE[question!.name] ?? 0),
      questions: [question!],
      answers:
        question!.name === 'null.test'
          ? [{ type: 'MX', name: question!.name, ttl: 5, data: { preference: 0, exchange: '.' } }]
          : question!.name === 'there.test'
            ? [{ type: 'MX', name: question!.name, ttl: 5, data: { preference: 7, exchange: 'MX.There.TEST' } }]
            : [],
    })
    socket.send(reply, from.port, from.address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  const { port } = socket.address() as AddressInfo
  const servers = [{ host: '127.0.0.1', port }]
  const patient = createResolver({ servers, timeout: 60_000, tries: 1 })
  const hasty = createResolver({ servers, timeout: 100, tries: 1 })
  const kinds = await Promise.all(
    ['gone.test', 'empty.test', 'null.test', 'broken.test', 'refused.test', 'silent.test', 'there.test'].map((name) =>
      (name === 'silent.test' ? hasty : patient).mx(name),
    ),
  )
  socket.close()
  assert.deepEqual(
    kinds.map(({ kind }) => kind),
    ['nxdomain', 'none', 'found', 'failed', 'failed', 'failed', 'found'],
  )
  assert.deepEqual(kinds[2], { kind: 'found', records: [{ exchange: '', priority: 0 }] })
  assert.deepEqual(kinds[6], { kind: 'found', records: [{ exchange: 'mx.there.test', priority: 7 }] })
})

// ---- from a lane to a session ----

const closing: (() => Promise<unknown>)[] = []
after(() => Promise.all(closing.map((close) => close())))

/** The dependencies of a connection, with MX records by domain. All hosts have the address 127.0.0.1. */
const depsOf = (
  port: number,
  records: NonNullable<Parameters<typeof resolverOf>[0]['mx']>,
  delivery: NonNullable<ConfigInput['delivery']> = {},
) => ({
  clock: new ManualClock(),
  resolver: { ...resolverOf({ mx: records }), a: () => Promise.resolve(found('127.0.0.1')) },
  allowed: allowPublicAnd(['127.0.0.0/8']),
  sts: { get: () => Promise.resolve(undefined) } as unknown as StsCache,
  log: silentLog,
  config: parseConfig({ hostname: 'mx.here.test', delivery: { port, ...delivery } }),
})

async function laneTo(
  script: Script,
  zone: Parameters<typeof resolverOf>[0],
  {
    policy = 'Optional',
    delivery = {},
    sts,
    ca_file = '',
  }: {
    policy?: 'Require' | 'Optional'
    delivery?: NonNullable<ConfigInput['delivery']>
    /** The MTA-STS policy of the domain. */
    sts?: KnownPolicy
    ca_file?: string
  } = {},
) {
  const exchanger = await startTestExchanger(script)
  closing.push(() => exchanger.close())
  const asked: string[] = []
  const deps = {
    clock: new ManualClock(),
    resolver: resolverOf(zone, asked),
    allowed: allowPublicAnd(['127.0.0.0/8']),
    sts: { get: () => Promise.resolve(sts) } as unknown as StsCache,
    log: silentLog,
    config: parseConfig({
      hostname: 'mx.here.test',
      webhooks: { ca_file },
      delivery: {
        port: exchanger.port,
        ...delivery,
        routes: (delivery.routes ?? []).map((route) => ({ ...route, port: exchanger.port })),
      },
    }),
  }
  const route = await findRoute(deps, 'there.test')
  const answer =
    'kind' in route ? route : await connectAlong({ ...deps, open: openSession }, 'there.test', route, policy)
  const session = 'kind' in answer ? undefined : answer
  void session?.quit()
  return { exchanger, asked, session, verdict: 'kind' in answer ? answer : undefined }
}

const ZONE = { mx: { 'there.test': mx([10, 'mx.there.test']) }, a: { 'mx.there.test': found('127.0.0.1') } }

test('tries the next server or address after an unreachable one', async () => {
  // No server listens at that port on 127.0.0.2.
  const { session } = await laneTo(
    {},
    {
      mx: { 'there.test': mx([10, 'dead.test'], [20, 'unnamed.test'], [30, 'mx.there.test']) },
      a: { 'dead.test': found('127.0.0.2'), 'mx.there.test': found('127.0.0.2', '127.0.0.1') },
    },
  )
  assert.equal(session?.host, 'mx.there.test')
})

test('tries an unreachable MX host once per minute, and hosts with the same preference in turn', async () => {
  const deps = depsOf(25, { 'here.test': mx([10, 'dead.test'], [20, 'a.test'], [20, 'b.test']) })
  const route = await findRoute(deps, 'here.test')
  assert.ok(!('kind' in route))
  const tried: string[] = []
  let answers = false
  const open = ({ host }: ConnectOptions) => {
    tried.push(host)
    const failed = ownVerdict('deferred', '4.4.1', 'No.', { stage: 'greeting', host })
    return Promise.resolve(host === 'dead.test' ? { ...failed, code: answers ? 421 : null } : { host })
  }
  const balance = new HostBalance(() => 0)
  const connect = () => connectAlong({ ...deps, balance, open }, 'here.test', route, 'Optional')
  for (let n = 0; n < 3; n++) await connect()
  const [one, other] = tried.slice(1)
  assert.deepEqual(tried, ['dead.test', one, other, one])
  assert.deepEqual(new Set([one, other]), new Set(['a.test', 'b.test']))
  deps.clock.advance(60_000)
  await connect()
  assert.deepEqual(tried.slice(4), ['dead.test', other])
  // After a reply, the MX host with the best preference stays the first.
  answers = true
  deps.clock.advance(60_000)
  tried.length = 0
  for (let n = 0; n < 2; n++) await connect()
  assert.deepEqual(
    tried.filter((host) => host === 'dead.test'),
    ['dead.test', 'dead.test'],
  )
})

test('waits 30 s for the greeting of one of several hosts of a relay, and five minutes for other servers', async () => {
  const deps = depsOf(
    25,
    { 'here.test': mx([10, 'a.test'], [20, 'b.test']) },
    {
      routes: [
        { domains: ['several.test'], hosts: ['a.test', 'b.test'] },
        { domains: ['one.test'], host: 'a.test' },
      ],
    },
  )
  for (const [domain, seconds] of [
    ['several.test', 30],
    ['one.test', 300],
    ['here.test', 300],
  ] as const) {
    const route = await findRoute(deps, domain)
    assert.ok(!('kind' in route))
    const open = ({ host, timeouts }: ConnectOptions) => Promise.resolve({ host, greeting: timeouts?.greeting })
    const session = await connectAlong({ ...deps, open }, domain, route, 'Optional')
    assert.equal('greeting' in session && session.greeting, seconds * 1000, domain)
  }
})

test('tries a host of a relay that rejects TLS or the credentials once per minute', async () => {
  const deps = depsOf(25, {}, { routes: [{ domains: ['*'], tls: 'required', hosts: ['wrong.test', 'right.test'] }] })
  const route = await findRoute(deps, 'there.test')
  assert.ok(!('kind' in route))
  for (const stage of ['starttls', 'auth'] as const) {
    const tried: string[] = []
    const open = ({ host }: ConnectOptions) => {
      tried.push(host)
      return Promise.resolve(host === 'wrong.test' ? ownVerdict('deferred', '4.7.8', 'No.', { stage, host }) : { host })
    }
    const balance = new HostBalance(() => 0)
    for (let n = 0; n < 3; n++) await connectAlong({ ...deps, balance, open }, 'there.test', route, 'Optional')
    assert.deepEqual([tried[0], tried.filter((host) => host === 'wrong.test').length], ['wrong.test', 1])
    assert.equal(tried.filter((host) => host === 'right.test').length, 3)
  }
})

test('sends credentials to an MX host of a relay only if it is below the name, or DNSSEC proves it', async () => {
  const password = join(temporaryDirectory('credentials'), 'password')
  writeFileSync(password, 'secret')
  const sent = async (mxRecord: string, secure?: boolean): Promise<boolean | string> => {
    const answer = { ...mx([10, mxRecord]), ...(secure === undefined ? {} : { secure }) }
    const routes = [{ domains: ['*'], host: 'mx:relay.test', username: 'me', password_file: password }]
    const deps = depsOf(25, { 'relay.test': answer }, { routes })
    const route = await findRoute(deps, 'there.test')
    assert.ok(!('kind' in route))
    if (secure) for (const host of route.hosts) host.mx = 'secure'
    let used = false
    const open = ({ credentials, tls, verify }: ConnectOptions) => {
      used = credentials?.password === 'secret' && tls === 'required' && verify !== undefined
      return Promise.resolve({})
    }
    const session = await connectAlong({ ...deps, open }, 'there.test', route, 'Optional')
    return 'kind' in session ? (session as Verdict).cause! : used
  }
  assert.equal(await sent('MX1.relay.test'), true)
  assert.equal(await sent('relay.test'), true)
  assert.equal(await sent('mx.elsewhere.test', true), true)
  assert.match(String(await sent('mx.elsewhere.test')), /^Credentials are not sent to mx\.elsewhere\.test: /)
  assert.match(String(await sent('mx.notrelay.test')), /not below relay\.test/)
})

test('defers if all MX hosts are unreachable, without trying the address of the domain', async () => {
  const {
    asked,
    exchanger,
    verdict: dead,
  } = await laneTo(
    {},
    {
      mx: { 'there.test': mx([10, 'dead.test'], [20, 'unnamed.test']) },
      a: { 'dead.test': found('127.0.0.2'), 'there.test': found('127.0.0.1') },
    },
  )
  assert.equal(dead?.kind, 'deferred')
  assert.equal(exchanger.connections, 0)
  assert.ok(!asked.includes('A there.test'))
})

test('uses the address of the domain without an MX record (implicit MX)', async () => {
  const { session } = await laneTo({}, { mx: { 'there.test': NONE }, a: { 'there.test': found('127.0.0.1') } })
  assert.equal(session?.host, 'there.test')
})

test('opens no connection for a null MX, a missing domain or a forbidden address', async () => {
  for (const [zone, kind, enhanced] of [
    [{ mx: { 'there.test': mx([0, '']) }, a: { 'there.test': found('127.0.0.1') } }, 'failed', '5.1.10'],
    [{ a: { 'there.test': found('127.0.0.1') } }, 'failed', '5.1.2'],
    [{ mx: { 'there.test': FAILED }, a: { 'there.test': found('127.0.0.1') } }, 'deferred', '4.4.3'],
    [{ mx: { 'there.test': mx([1, 'x.test']) }, a: { 'x.test': found('10.0.0.1') } }, 'failed', '5.4.4'],
    [{ mx: { 'there.test': mx([1, 'mx.here.test']) }, a: { 'mx.here.test': found('127.0.0.1') } }, 'failed', '5.4.6'],
  ] as const) {
    const { exchanger, verdict: no } = await laneTo({}, zone)
    assert.deepEqual([no?.kind, no?.enhanced], [kind, enhanced])
    assert.equal(exchanger.connections, 0)
  }
})

test('tries the next server after a greeting of 4xx or 5xx, and fails permanently only if all reject permanently', async () => {
  const two = {
    mx: { 'there.test': mx([10, 'one.test'], [20, 'two.test']) },
    a: { 'one.test': found('127.0.0.1'), 'two.test': found('127.0.0.1') },
  }
  for (const [greeting, kind] of [
    ['421 4.3.2 busy', 'deferred'],
    ['554 5.7.1 not you', 'deferred'],
    ['521 we take no mail', 'bounced'],
    ['556 we take no mail', 'bounced'],
  ] as const) {
    const { exchanger, verdict: no } = await laneTo({ greeting }, two)
    assert.equal(exchanger.connections, 2, greeting)
    assert.equal(no?.kind, kind, greeting)
    assert.equal(no.code, Number(greeting.slice(0, 3)))
  }
  // One rejects permanently, the other is down and may come back.
  const mixed = await laneTo(
    { greeting: '521 we take no mail' },
    { ...two, a: { 'one.test': found('127.0.0.1'), 'two.test': found('127.0.0.2') } },
  )
  assert.equal(mixed.verdict?.kind, 'deferred')
})

test('after a TLS failure, uses clear text on a new connection if TLS is optional, and sends no message if it is required (D18)', async () => {
  for (const reply of ['454 4.7.0 not now', '220 go\r\n250 injected', '220 go\r\nthis is not TLS']) {
    const script: Script = {
      keywords: ['PIPELINING', 'STARTTLS'],
      answer: (line) => (line === 'STARTTLS' ? reply : undefined),
    }
    const optional = await laneTo(script, ZONE)
    assert.ok(optional.session, reply)
    assert.equal(optional.session.tls, null)
    assert.equal(optional.exchanger.connections, 2)
    // The second session does not try again.
    assert.equal(optional.exchanger.commands.filter((line) => line === 'STARTTLS').length, 1)
    const required = await laneTo(script, ZONE, { policy: 'Require' })
    assert.equal(required.verdict?.kind, 'deferred', reply)
    assert.equal(required.verdict.stage, 'starttls')
    assert.equal(required.exchanger.connections, 1)
  }
  const encrypted = await laneTo({ tls: true }, ZONE, { policy: 'Require' })
  assert.match(encrypted.session?.tls ?? '', /^TLSv1\.[23]$/)
})

test('skips a server without TLS if TLS is required', async () => {
  // Both names are the same listener, which offers TLS from its second connection on.
  const { session, exchanger } = await laneTo(
    {
      answer: (line, connection) =>
        line.startsWith('EHLO') && connection > 1 ? '250-mx.test\r\n250 STARTTLS' : undefined,
    },
    {
      mx: { 'there.test': mx([10, 'one.test'], [20, 'two.test']) },
      a: { 'one.test': found('127.0.0.1'), 'two.test': found('127.0.0.1') },
    },
    { policy: 'Require' },
  )
  assert.equal(session?.host, 'two.test')
  assert.ok(session.tls)
  assert.equal(exchanger.connections, 2)
})

test('uses host and port of a relay in a private network, with the stricter TLS policy', async () => {
  const route = (tls: 'none' | 'optional' | 'required') => ({ routes: [{ domains: ['*'], host: '127.0.0.1', tls }] })
  const clear = await laneTo({ tls: true }, {}, { delivery: route('none') })
  assert.equal(clear.session?.tls, null)
  assert.deepEqual(clear.asked, [])
  assert.ok(!clear.exchanger.commands.includes('STARTTLS'))
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('optional') })).session?.tls)
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('required') })).session?.tls)
  // The Require of the sending domain overrides the `none` of the relay.
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('none'), policy: 'Require' })).session?.tls)
  const refused = await laneTo({}, {}, { delivery: route('required') })
  assert.equal(refused.verdict?.kind, 'deferred')
  assert.equal(refused.exchanger.heard.length, 0)
})

test('applies the stricter of tls_policy and MTA-STS to every server (D18, RFC 8461)', async () => {
  const folder = temporaryDirectory('route')
  closing.push(() => Promise.resolve(rmSync(folder, { recursive: true })))
  const [proven, other] = ['mx.there.test', 'mx.elsewhere.test'].map((name) => makeCertificate(name, Date.now()))
  const ca_file = join(folder, 'ca.pem')
  writeFileSync(ca_file, `${proven!.cert}${other!.cert}`)
  const exchangers: Record<string, Script> = {
    'no TLS': {},
    'of another name': { tls: true, certificate: () => other },
    // The test kit's certificate, which no authority has signed.
    unknown: { tls: true },
    proven: { tls: true, certificate: () => proven },
  }
  const policy = (mode: KnownPolicy['mode'], ...mx: string[]): KnownPolicy => ({ mode, mx })
  const named = 'mx.there.test'
  for (const [tls, sts, wanted] of [
    ['Optional', undefined, { 'no TLS': 'clear', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' }],
    ['Require', undefined, { 'no TLS': 'no', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' }],
    ['Optional', policy('none'), { 'no TLS': 'clear', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' }],
    [
      'Optional',
      policy('testing', named),
      { 'no TLS': 'clear', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' },
    ],
    [
      'Optional',
      policy('testing', 'x.test'),
      { 'no TLS': 'clear', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' },
    ],
    ['Require', policy('testing', named), { 'no TLS': 'no', 'of another name': 'TLS', unknown: 'TLS', proven: 'TLS' }],
    ['Optional', policy('enforce', named), { 'no TLS': 'no', 'of another name': 'no', unknown: 'no', proven: 'TLS' }],
    ['Require', policy('enforce', named), { 'no TLS': 'no', 'of another name': 'no', unknown: 'no', proven: 'TLS' }],
    ['Optional', policy('enforce', 'x.test'), { 'no TLS': 'no', 'of another name': 'no', unknown: 'no', proven: 'no' }],
  ] as const)
    for (const [what, script] of Object.entries(exchangers)) {
      const found = await laneTo(script, ZONE, { policy: tls, ca_file, ...(sts ? { sts } : {}) })
      const seen = found.session ? (found.session.tls ? 'TLS' : 'clear') : 'no'
      const where = `${tls}, ${sts ? `${sts.mode} ${sts.mx.join(' ')}` : 'no policy'}, ${what}`
      assert.equal(seen, wanted[what as keyof typeof wanted], where)
      if (found.verdict) assert.equal(found.verdict.kind, 'deferred', where)
    }
})

test('queues email as a local problem and names the setting if delivery.source is not an address of this machine (D72)', async () => {
  const { verdict: no } = await laneTo({}, ZONE, { delivery: { source: ['192.0.2.1'] } })
  assert.equal(no?.kind, 'waiting')
  assert.match(no.cause ?? '', /delivery\.source/)
  assert.doesNotMatch(no.text, /delivery/)
  // An address of the other family leaves this one to the system.
  assert.ok((await laneTo({}, ZONE, { delivery: { source: ['2001:db8::1'] } })).session)
})

test('queues email as a local problem if any DNS lookup fails for lack of a file descriptor (D72)', async () => {
  const local = { kind: 'failed', reason: 'EMFILE', local: true } as const
  const verdicts = [
    await hostsFor(local),
    ...(await Promise.all(
      [
        { a: local, aaaa: local },
        { a: FAILED, aaaa: local },
        { a: NONE, aaaa: local },
      ].map(({ a, aaaa }) =>
        findAddresses(
          resolverOf({ a: { 'mx.there.test': a }, aaaa: { 'mx.there.test': aaaa } }),
          { name: 'mx.there.test', port: 25 },
          () => true,
        ),
      ),
    )),
  ] as Verdict[]
  for (const { cause, kind, text } of verdicts) {
    assert.equal(kind, 'waiting')
    assert.match(cause ?? '', /^DNS lookup of .* failed \(EMFILE\)/)
    assert.doesNotMatch(text, /EMFILE/)
  }
})
