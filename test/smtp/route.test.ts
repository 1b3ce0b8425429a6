// Where mail goes: MX records and what stands in for them (RFC 5321 §5.1, RFC 7505), relays, addresses that are not for
// us, and from there to a session; decisions D18, D33.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import dnsPacket from 'dns-packet'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { silentLog } from '../../src/base/log.ts'
import { allowPublicAnd } from '../../src/base/network.ts'
import { createResolver, type ResolverAnswer, type Mx, type Resolver, type Tlsa } from '../../src/net/resolver.ts'
import { connectAlong, findRoute } from '../../src/delivery/wire/connect.ts'
import { openSession } from '../../src/smtp/client.ts'
import type { KnownPolicy, StsCache } from '../../src/delivery/wire/sts.ts'
import { findAddresses, findHosts, type Host, type RouteOptions } from '../../src/smtp/route.ts'
import type { Verdict } from '../../src/smtp/verdict.ts'
import { ManualClock } from '../kit/clock.ts'
import { startTestExchanger, type Script } from '../kit/exchanger.ts'

const NONE = { kind: 'none' } as const
const NO_NAME = { kind: 'nxdomain' } as const
const FAILED = { kind: 'failed', reason: 'ESERVFAIL' } as const
const found = <T>(...records: T[]): ResolverAnswer<T> => ({ kind: 'found', records })
const mx = (...list: [priority: number, exchange: string][]): ResolverAnswer<Mx> =>
  found(...list.map(([priority, exchange]) => ({ priority, exchange })))

/** A resolver that knows what it is told, keeps what it is asked, and says NXDOMAIN to the rest. */
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

test('exchangers come in the order of their preferences', async () => {
  const hosts = await hostsFor(mx([20, 'c.test'], [5, 'a.test'], [10, 'b.test'], [65_535, 'd.test'], [0, 'z.test']))
  assert.deepEqual(names(hosts), ['z.test', 'a.test', 'b.test', 'c.test', 'd.test'])
})

test('equal preferences come in any order, and only they', async () => {
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
  // 200 each are expected; below 120 is less likely than one in a billion.
  for (const [host, times] of Object.entries(first)) assert.ok(times > 120, `${host} was first ${times} times`)
})

test('what the DNS says about the domain decides', async () => {
  const gone = verdict(await hostsFor(NO_NAME))
  assert.deepEqual([gone.kind, gone.enhanced, gone.stage, gone.code], ['failed', '5.1.2', 'dns', null])
  const broken = verdict(await hostsFor(FAILED))
  assert.deepEqual([broken.kind, broken.enhanced, broken.stage], ['deferred', '4.4.3', 'dns'])
  const nullMx = verdict(await hostsFor(mx([0, ''])))
  assert.deepEqual([nullMx.kind, nullMx.enhanced, nullMx.stage], ['failed', '5.1.10', 'dns'])
  assert.deepEqual(names(await hostsFor(NONE)), ['there.test'], 'implicit MX')
  // A null MX beside others is a mistake of theirs (RFC 7505 §3); the others are tried.
  assert.deepEqual(names(await hostsFor(mx([0, ''], [10, 'a.test']))), ['a.test'])
})

test('our own host among the exchangers: only better ones are tried, and none means a loop', async () => {
  assert.deepEqual(names(await hostsFor(mx([10, 'a.test'], [20, 'mx.here.test'], [20, 'b.test'], [30, 'c.test']))), [
    'a.test',
  ])
  for (const records of [mx([10, 'mx.here.test']), mx([10, 'mx.here.test'], [20, 'a.test'])]) {
    const loop = verdict(await hostsFor(records))
    assert.deepEqual([loop.kind, loop.enhanced], ['failed', '5.4.6'])
  }
})

test('a domain whose mail we take ourselves: our own listener, unless there is a better exchanger; it waits for one that is closed', async () => {
  const own = { name: 'mx.here.test', port: 2525, address: '127.0.0.1' }
  const home = (domain: string) => (domain === 'there.test' ? own : undefined)
  assert.deepEqual(await hostsFor(mx([10, 'mx.here.test'], [20, 'a.test']), { home }), [own])
  assert.deepEqual(names(await hostsFor(mx([1, 'a.test'], [20, 'mx.here.test']), { home })), ['a.test'])
  assert.deepEqual(names(await hostsFor(mx([1, 'a.test']), { home })), ['a.test'])
  const closed = verdict(await hostsFor(mx([10, 'mx.here.test']), { home: () => 'closed' }))
  assert.deepEqual([closed.kind, closed.enhanced], ['deferred', '4.4.1'])
})

test('a relay takes its domains, the nearest rule first, and the DNS is not asked', async () => {
  const asked: string[] = []
  const relay = (host: string, domains: string[]) => ({
    name: '',
    spf: '',
    domains,
    host,
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

test('a trap of a thousand exchangers or addresses is not walked to its end', async () => {
  const many = await hostsFor(mx(...Array.from({ length: 1000 }, (_, n) => [n, `mx${n}.test`] as [number, string])))
  assert.ok(names(many).length <= 20)
  assert.equal(names(many)[0], 'mx0.test')
  const a = { 'mx.test': found(...Array.from({ length: 250 }, (_, n) => `192.0.2.${n}`)) }
  const addresses = await findAddresses(resolverOf({ a }), { name: 'mx.test', port: 25 }, () => true)
  assert.ok(Array.isArray(addresses) && addresses.length <= 50)
})

test('all addresses of a host are tried, v4 and v6', async () => {
  const resolver = resolverOf({
    a: { 'mx.test': found('198.51.100.1', '198.51.100.2'), 'four.test': found('198.51.100.4') },
    aaaa: { 'mx.test': found('2001:db8::1'), 'six.test': found('2001:db8::6') },
  })
  const at = (name: string) => findAddresses(resolver, { name, port: 25 }, () => true)
  assert.deepEqual([...((await at('mx.test')) as string[])].toSorted(), ['198.51.100.1', '198.51.100.2', '2001:db8::1'])
  assert.deepEqual(await at('four.test'), ['198.51.100.4'])
  assert.deepEqual(await at('six.test'), ['2001:db8::6'])
})

test('private, loopback and other addresses that are not for mail are refused unless allowed', async () => {
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

test('an exchanger without addresses: for good when that is known, for now when it is not', async () => {
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

test('the resolver tells NXDOMAIN, no record, null MX, SERVFAIL, REFUSED and silence apart', async () => {
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

test('a dead first exchanger, a dead first address: the next is tried', async () => {
  // Nobody listens at that port on 127.0.0.2.
  const { session } = await laneTo(
    {},
    {
      mx: { 'there.test': mx([10, 'dead.test'], [20, 'unnamed.test'], [30, 'mx.there.test']) },
      a: { 'dead.test': found('127.0.0.2'), 'mx.there.test': found('127.0.0.2', '127.0.0.1') },
    },
  )
  assert.equal(session?.host, 'mx.there.test')
})

test('all exchangers dead: deferred, and the domain’s own address is not tried in their place', async () => {
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

test('no MX record: the domain’s own address (implicit MX)', async () => {
  const { session } = await laneTo({}, { mx: { 'there.test': NONE }, a: { 'there.test': found('127.0.0.1') } })
  assert.equal(session?.host, 'there.test')
})

test('a null MX, a domain that does not exist, an exchanger that is not for us: no connection at all', async () => {
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

test('a greeting of 4xx or 5xx: the next exchanger; temporary unless all said no for good', async () => {
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
  // One says no for good, the other is dead: it may come back.
  const mixed = await laneTo(
    { greeting: '521 we take no mail' },
    { ...two, a: { 'one.test': found('127.0.0.1'), 'two.test': found('127.0.0.2') } },
  )
  assert.equal(mixed.verdict?.kind, 'deferred')
})

test('TLS that cannot be agreed: clear text on a new connection where optional, nothing where required (D18)', async () => {
  for (const reply of ['454 4.7.0 not now', '220 go\r\n250 injected', '220 go\r\nthis is not TLS']) {
    const script: Script = {
      keywords: ['PIPELINING', 'STARTTLS'],
      answer: (line) => (line === 'STARTTLS' ? reply : undefined),
    }
    const optional = await laneTo(script, ZONE)
    assert.ok(optional.session, reply)
    assert.equal(optional.session.tls, null)
    assert.equal(optional.exchanger.connections, 2)
    // The second conversation does not ask again.
    assert.equal(optional.exchanger.commands.filter((line) => line === 'STARTTLS').length, 1)
    const required = await laneTo(script, ZONE, { policy: 'Require' })
    assert.equal(required.verdict?.kind, 'deferred', reply)
    assert.equal(required.verdict.stage, 'starttls')
    assert.equal(required.exchanger.connections, 1)
  }
  const encrypted = await laneTo({ tls: true }, ZONE, { policy: 'Require' })
  assert.match(encrypted.session?.tls ?? '', /^TLSv1\.[23]$/)
})

test('TLS required: an exchanger without it is passed over for one that has it', async () => {
  // Both names stand for the same listener, which offers TLS from its second connection on.
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

test('a relay: its own host and port, in a private network, with the stricter of both wishes for TLS', async () => {
  const route = (tls: 'none' | 'optional' | 'required') => ({ routes: [{ domains: ['*'], host: '127.0.0.1', tls }] })
  const clear = await laneTo({ tls: true }, {}, { delivery: route('none') })
  assert.equal(clear.session?.tls, null)
  assert.deepEqual(clear.asked, [])
  assert.ok(!clear.exchanger.commands.includes('STARTTLS'))
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('optional') })).session?.tls)
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('required') })).session?.tls)
  // The sending domain's Require outweighs the relay's none.
  assert.ok((await laneTo({ tls: true }, {}, { delivery: route('none'), policy: 'Require' })).session?.tls)
  const refused = await laneTo({}, {}, { delivery: route('required') })
  assert.equal(refused.verdict?.kind, 'deferred')
  assert.equal(refused.exchanger.heard.length, 0)
})

test('tls_policy and MTA-STS together: the strictest of them, for every exchanger there may be (D18, RFC 8461)', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-route-'))
  closing.push(() => Promise.resolve(rmSync(folder, { recursive: true })))
  const [proven, other] = ['mx.there.test', 'mx.elsewhere.test'].map((name) => makeCertificate(name, Date.now()))
  const ca_file = join(folder, 'ca.pem')
  writeFileSync(ca_file, `${proven!.cert}${other!.cert}`)
  const exchangers: Record<string, Script> = {
    'no TLS': {},
    'of another name': { tls: true, certificate: () => other },
    // The kit's own certificate, that nobody vouches for.
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

test('delivery.source that is not of this machine: mail waits for this server, and the cause names the setting (D72)', async () => {
  const { verdict: no } = await laneTo({}, ZONE, { delivery: { source: ['192.0.2.1'] } })
  assert.equal(no?.kind, 'waiting')
  assert.match(no.cause ?? '', /delivery\.source/)
  assert.doesNotMatch(no.text, /delivery/)
  // An address of the other family leaves this one to the system.
  assert.ok((await laneTo({}, ZONE, { delivery: { source: ['2001:db8::1'] } })).session)
})

test('DNS that could not be asked for want of a descriptor: the mail waits for this server, whatever was asked (D72)', async () => {
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
    assert.match(cause ?? '', /could not be looked up \(EMFILE\)/)
    assert.doesNotMatch(text, /EMFILE/)
  }
})
