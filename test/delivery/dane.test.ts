// DANE for sent mail: every row of the table that real peers verify (test/interop/dane.interop.ts), with the kit's DNS
// and receiving servers, and the rows that only the table has.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Packet } from 'dns-packet'
import { parseConfig, type ConfigInput } from '../../src/base/config.ts'
import { daneFinding } from '../../src/checks/dane.ts'
import { isStillProven, type WayDeps } from '../../src/delivery/wire/connect.ts'
import { createResolver } from '../../src/net/resolver.ts'
import { areTrusted, createValidating, resolverOf } from '../../src/net/validated.ts'
import { judgeByDane, countingRecords } from '../../src/smtp/dane.ts'
import { readSecurity } from '../../src/smtp/security.ts'
import { issue, tlsaOf, type Issued } from '../kit/authority.ts'
import { daneCases, type DaneCase } from '../kit/dane-cases.ts'
import { startDaneWorld, type DaneWorld } from '../kit/dane-world.ts'
import { startSignedDns } from '../kit/signed-zones.ts'

let world: DaneWorld
let cases: DaneCase[]

before(async () => {
  world = await startDaneWorld()
  cases = daneCases(world.material)
})
after(() => world[Symbol.asyncDispose]())

/** Publishes a case under its own names, so that tests do not share cached answers. */
async function run(one: DaneCase, options: Parameters<DaneWorld['go']>[1] = {}) {
  world.publish(one)
  const [asked, opened] = [world.dns.asked.length, world.opened.length]
  const heard = (): number => Object.values(world.exchangers).reduce((sum, each) => sum + each.heard.length, 0)
  const clear = (): number =>
    Object.values(world.exchangers).reduce((sum, each) => sum + each.heard.filter(({ tls }) => !tls).length, 0)
  const [before, clearBefore] = [heard(), clear()]
  const gone = await world.go(`${one.label}.test`, options)
  return {
    ...gone,
    security: readSecurity(gone.verdict.security),
    heard: heard() - before,
    clear: clear() - clearBefore,
    asked: world.dns.asked.slice(asked),
    opened: world.opened.slice(opened),
  }
}

describe('the table', () => {
  for (let row = 1; row <= 30; row++)
    test(`row ${row}`, async () => {
      const rows = cases.filter((each) => each.row === row)
      assert.ok(rows.length > 0)
      for (const one of rows) {
        const { clear, heard, security, verdict } = await run(one)
        const said = `${one.title}: ${JSON.stringify(verdict)}`
        const { at, proof, result } = one.expect
        if (result === 'delivered') {
          assert.equal(verdict.kind, 'delivered', said)
          assert.deepEqual([verdict.host, security?.proof, verdict.tls !== null], [at, proof, one.expect.tls], said)
          assert.equal(heard, 1)
        } else {
          assert.deepEqual([verdict.kind, verdict.enhanced], ['deferred', `4.${result}`], said)
          assert.equal(heard, 0, said)
        }
        // No row has mail in clear text: every receiving server without TLS has records.
        assert.equal(clear, 0, said)
      }
    })
})

/** The result of a case after the records are changed. */
const simple = (label: string, records: string[], kind = 'stranger'): DaneCase => ({
  row: 0,
  label,
  title: label,
  zones: { [`${label}.test`]: 'signed' },
  records: [
    `${label}.test MX 10 mx.${label}.test`,
    `mx.${label}.test A ${kind}`,
    ...records.map((each) => `_25._tcp.mx.${label}.test TLSA ${each}`),
  ],
  expect: { result: 'delivered' },
})
const right = (): string => tlsaOf(3, 1, 1, world.material.leaf.stranger)
const wrong = (): string => tlsaOf(3, 1, 1, world.material.leaf.other)

describe('trust in DNS answers', () => {
  test('does not trust a resolver outside loopback unless configured, even if only one of several is outside', () => {
    const at = (...hosts: string[]) => hosts.map((host) => ({ host, port: 53 }))
    for (const hosts of [['127.0.0.1'], ['127.0.0.53', '::1'], ['::ffff:127.0.0.1']])
      assert.ok(areTrusted(at(...hosts), []))
    for (const hosts of [['192.0.2.1'], ['127.0.0.1', '192.0.2.1'], ['127.evil.test'], ['::2'], []])
      assert.ok(!areTrusted(at(...hosts), []), hosts.join())
    assert.ok(areTrusted(at('127.0.0.1', '192.0.2.1'), ['192.0.2.1']))
    assert.ok(!areTrusted(at('127.0.0.1', '192.0.2.1', '192.0.2.2'), ['192.0.2.1']))
  })

  test('works as without DANE, with no further queries, if the resolver is not trusted', async () => {
    const one = simple('p31', [wrong()])
    const servers = [
      { host: '127.0.0.1', port: world.dns.port },
      { host: '192.0.2.1', port: 53 },
    ]
    const validating = createValidating({ clock: world.dns.clock, servers, trusted: [] })
    assert.equal(validating(), undefined)
    const plain = createResolver({ servers: servers.slice(0, 1), validating })
    const { asked, security, verdict } = await run(one, { resolver: plain })
    assert.equal(verdict.kind, 'delivered')
    assert.deepEqual(asked.toSorted(), ['A mx.p31.test', 'AAAA mx.p31.test', 'MX p31.test'])
    assert.deepEqual(security?.dnssec, { mx: 'not_queried', address: 'not_queried', tlsa: 'not_queried' })
    assert.deepEqual([security.policy, security.proof], ['optional', 'none'])
  })

  test('delivery.dane = false sends no further queries, true verifies servers', async () => {
    for (const dane of [false, true]) {
      const one = simple(dane ? 'p25b' : 'p25a', [right()])
      const config = parseConfig({ dns: { servers: [`127.0.0.1:${world.dns.port}`] }, delivery: { dane } })
      const resolver = resolverOf(config, world.dns.clock)
      assert.equal(resolver.validated !== undefined, dane)
      const { asked, security } = await run(one, { resolver })
      assert.deepEqual(
        [asked.some((each) => each.startsWith('TLSA')), security?.proof],
        [dane, dane ? 'dane-ee' : 'none'],
      )
    }
  })
})

describe('questions', () => {
  test('sets RD, AD and EDNS 1232, queries the port of the connection, and repeats over TCP after TC', async () => {
    const one = simple('p26', [right()])
    world.dns.fails.set('TLSA _2525._tcp.mx.p26.test', 'truncate')
    one.records.push(`_2525._tcp.mx.p26.test TLSA ${right()}`)
    world.dns.questions.length = 0
    const { asked, security } = await run(one, { delivery: { port: 2525 } })
    assert.equal(security?.proof, 'dane-ee')
    assert.deepEqual(asked.toSorted(), [
      'A mx.p26.test',
      'AAAA mx.p26.test',
      'MX p26.test',
      'TLSA _2525._tcp.mx.p26.test',
      'tcp TLSA _2525._tcp.mx.p26.test',
    ])
    for (const { additionals, flag_ad, flag_rd } of world.dns.questions as (Packet & Record<string, unknown>)[]) {
      assert.ok(flag_rd && flag_ad)
      assert.equal((additionals as { udpPayloadSize: number }[])[0]?.udpPayloadSize, 1232)
    }
  })

  test('ignores an answer with another id or question', async () => {
    const one = simple('p26c', [wrong()])
    const forged = (packet: Packet): Packet => ({ ...packet, answers: [] })
    world.dns.bend = (packet, { type }) =>
      type === 'TLSA'
        ? [
            forged({ ...packet, id: ((packet.id ?? 0) + 1) % 65_536 }),
            forged({ ...packet, questions: [{ name: 'other.test', type: 'TLSA' }] }),
            packet,
          ]
        : packet
    const { verdict } = await run(one)
    world.dns.bend = undefined
    assert.equal(verdict.enhanced, '4.7.5')
  })

  test('caches answers for their TTL, from 30 s to an hour, and failures for 30 s', async () => {
    const { clock } = world.dns
    const asking = world.dns.resolverOf().validated!
    const times = async (name: string): Promise<number> => {
      const before = world.dns.asked.length
      await Promise.all([asking.a(name), asking.a(name.toUpperCase())])
      return world.dns.asked.length - before
    }
    world.dns.zones.set('test', true)
    world.dns.set('brief.test', 'A', ['127.0.0.1'], 1)
    world.dns.set('usual.test', 'A', ['127.0.0.1'], 100)
    world.dns.set('long.test', 'A', ['127.0.0.1'], 999_999)
    world.dns.fails.set('A failing.test', 'SERVFAIL')
    for (const [name, seconds] of [
      ['brief.test', 30],
      ['usual.test', 100],
      ['long.test', 3600],
      ['failing.test', 30],
    ] as const) {
      assert.equal(await times(name), 1, name)
      clock.advance(seconds * 1000 - 1)
      assert.equal(await times(name), 0, name)
      clock.advance(1)
      assert.equal(await times(name), 1, name)
    }
  })

  test('sends at most 50 queries at once, and never for an invalid name', async () => {
    const asking = world.dns.resolverOf().validated!
    let most = 0
    let open = 0
    world.dns.bend = (packet) => {
      open++
      most = Math.max(most, open)
      setImmediate(() => open--)
      return packet
    }
    const names = Array.from({ length: 300 }, (_, index) => `n${index}.many.test`)
    const answers = await Promise.all(names.map((name) => asking.a(name)))
    world.dns.bend = undefined
    assert.ok(most <= 50, String(most))
    assert.ok(answers.every(({ kind }) => kind === 'nxdomain'))
    for (const name of ['a..b', `${'a'.repeat(64)}.test`, 'a.'.repeat(130)])
      assert.equal((await asking.tlsa(name)).kind, 'nxdomain', name)
  })

  test('queries a server without EDNS support without it, and does not trust it', async () => {
    const one = simple('p25e', [wrong()])
    world.dns.bend = (packet) => {
      const { additionals } = world.dns.questions.at(-1)!
      return (additionals ?? []).length > 0 ? { ...packet, flags: 1, answers: [] } : packet
    }
    const { security, verdict } = await run(one)
    world.dns.bend = undefined
    assert.equal(verdict.kind, 'delivered')
    assert.deepEqual(security?.dnssec, { mx: 'insecure', address: 'insecure', tlsa: 'not_queried' })
  })

  test('does not query TLSA in an unsigned zone, and ignores TLSA without AD', async () => {
    const one = { ...simple('p26d', [wrong()]), zones: { 'p26d.test': 'unsigned' as const } }
    const { asked, verdict } = await run(one)
    assert.equal(verdict.kind, 'delivered')
    assert.ok(!asked.some((each) => each.startsWith('TLSA')))
  })

  test('defers without sending after any failed TLSA lookup', async () => {
    for (const [index, how] of (['SERVFAIL', 'REFUSED', 'FORMERR', 'NOTIMP', 'drop'] as const).entries()) {
      const one = simple(`p33f${index}`, [right()])
      world.dns.fails.set(`TLSA _25._tcp.mx.${one.label}.test`, how)
      const { heard, opened, security, verdict } = await run(one)
      assert.deepEqual([verdict.kind, verdict.enhanced, heard, opened.length], ['deferred', '4.7.5', 0, 0], how)
      assert.deepEqual(security?.dnssec, { mx: 'secure', address: 'secure', tlsa: 'failed' })
    }
  })
})

describe('records', () => {
  test('uses only usable records, and the strongest of several digests', () => {
    const { authority, leaf } = world.material
    const usable = (...texts: string[]): number =>
      countingRecords(
        texts.map((text) => {
          const [usage = 0, selector = 0, matching = 0] = text.split(' ').map(Number)
          return { usage, selector, matching, data: text.split(' ')[3] ?? '' }
        }),
      ).length
    for (const [u, s, m] of [
      [3, 1, 1],
      [3, 0, 1],
      [3, 1, 2],
      [3, 0, 0],
      [3, 1, 0],
      [2, 0, 1],
      [2, 0, 0],
      [2, 1, 0],
    ] as const)
      assert.equal(usable(tlsaOf(u, s, m, leaf.stranger)), 1, `${u} ${s} ${m}`)
    const good = right()
    for (const bad of [
      good.replace('3 1 1', '0 1 1'),
      good.replace('3 1 1', '1 1 1'),
      good.replace('3 1 1', '4 1 1'),
      good.replace('3 1 1', '3 2 1'),
      good.replace('3 1 1', '3 1 3'),
      good.replace('3 1 1', '3 1 2'),
      good.replace('3 1 1', '3 1 0'),
      good.replace('3 1 1', '3 0 0'),
      good.slice(0, -2),
      `${good}00`,
      '3 1 1 ',
    ])
      assert.equal(usable(bad), 0, bad)
    // Only the strongest digest, for each usage and selector. A full value is used as well.
    assert.equal(usable(good, tlsaOf(3, 1, 2, leaf.stranger)), 1)
    assert.equal(usable(good, tlsaOf(3, 0, 2, leaf.stranger), tlsaOf(2, 1, 2, authority)), 3)
    assert.equal(usable(tlsaOf(3, 1, 0, leaf.other), good), 2)
    // A digest that cannot be used does not outrank another.
    assert.equal(usable(good, tlsaOf(3, 1, 2, leaf.stranger).slice(0, -2)), 1)
  })

  test('accepts 100 records, and fails on more', async () => {
    const many = (count: number): string[] => [
      ...Array.from({ length: count - 1 }, (_, index) => `3 1 1 ${String(index).padStart(64, '0')}`),
      right(),
    ]
    for (const [label, count, kind] of [
      ['p27a', 100, 'delivered'],
      ['p27b', 101, 'deferred'],
    ] as const) {
      const one = simple(label, many(count))
      one.fails = {}
      world.dns.fails.set(`TLSA _25._tcp.mx.${label}.test`, 'truncate')
      const { verdict } = await run(one)
      assert.deepEqual(
        [verdict.kind, verdict.enhanced?.slice(0, 3)],
        [kind, kind === 'deferred' ? '4.7' : '2.0'],
        label,
      )
    }
  })

  test('treats TLSA behind more than 8 aliases as insecure', async () => {
    for (const [label, steps, kind] of [
      ['p29a', 8, 'deferred'],
      ['p29b', 9, 'delivered'],
    ] as const) {
      const one = simple(label, [])
      const name = (step: number): string => (step === 0 ? `_25._tcp.mx.${label}.test` : `s${step}.${label}.test`)
      for (let step = 0; step < steps; step++) one.records.push(`${name(step)} CNAME ${name(step + 1)}`)
      one.records.push(`${name(steps)} TLSA ${wrong()}`)
      assert.equal((await run(one)).verdict.kind, kind, label)
    }
  })

  test('uses only the own name of a signed alias into an unsigned zone, and queries TLSA there', async () => {
    const one: DaneCase = {
      ...simple('p29c', []),
      zones: { 'p29c.test': 'signed', 'p29cx.test': 'unsigned' },
      records: [
        'p29c.test MX 10 mx.p29c.test',
        'mx.p29c.test CNAME real.p29cx.test',
        'real.p29cx.test A stranger',
        `_25._tcp.mx.p29c.test TLSA ${right()}`,
        `_25._tcp.real.p29cx.test TLSA ${wrong()}`,
      ],
    }
    const { asked, opened, security } = await run(one)
    assert.equal(security?.proof, 'dane-ee')
    assert.deepEqual(security.dnssec, { mx: 'secure', address: 'insecure', tlsa: 'secure' })
    assert.ok(asked.includes('CNAME mx.p29c.test') && !asked.includes('TLSA _25._tcp.real.p29cx.test'))
    assert.deepEqual(
      opened.map(({ verify }) => verify && 'dane' in verify && verify.dane.base),
      ['mx.p29c.test'],
    )
    // An attacker must not be able to remove the protection by blocking the query for the alias.
    world.dns.clock.advance(3_600_000)
    world.dns.fails.set('CNAME mx.p29c.test', 'SERVFAIL')
    assert.equal((await run(one)).verdict.enhanced, '4.7.5')
  })

  test('sends the base domain in SNI: the name at the end of the alias', async () => {
    const { script } = world.exchangers.stranger
    const usual = script.certificate!
    const names: string[] = []
    script.certificate = (name) => {
      names.push(name)
      return usual(name)
    }
    const one: DaneCase = {
      ...simple('p28s', []),
      records: [
        'p28s.test MX 10 mx.p28s.test',
        'mx.p28s.test CNAME real.p28s.test',
        'real.p28s.test A stranger',
        `_25._tcp.real.p28s.test TLSA ${right()}`,
      ],
    }
    const { security } = await run(one)
    script.certificate = usual
    assert.deepEqual([security?.proof, names], ['dane-ee', ['real.p28s.test']])
  })

  test('verifies the server even with an insecure MX, and records that', async () => {
    const { security } = await run(cases.find(({ label }) => label === 'r22a')!)
    assert.deepEqual(security?.dnssec, { mx: 'insecure', address: 'secure', tlsa: 'secure' })
    assert.equal(security.proof, 'dane-ee')
  })
})

describe('certificates', () => {
  const judge = (records: string[], shown: readonly Issued[], names = ['mx.there.test'], now = Date.now()) =>
    judgeByDane(
      {
        base: 'mx.there.test',
        names,
        records: countingRecords(
          records.map((text) => {
            const [usage = 0, selector = 0, matching = 0] = text.split(' ').map(Number)
            return { usage, selector, matching, data: text.split(' ')[3] ?? '' }
          }),
        ),
      },
      shown.map(({ x509 }) => x509),
      now,
    )
  const root = issue({ subject: 'Root', ca: true })
  const middle = issue({ subject: 'Middle', ca: true, by: root })
  const leaf = issue({ subject: 'Leaf', names: ['mx.there.test'], by: middle })

  test('accepts any certificate of the chain as the authority, in any order, next to others', () => {
    const stray = issue({ subject: 'Stray', ca: true })
    assert.equal(judge([tlsaOf(2, 0, 1, middle)], [leaf, middle]), 'dane-ta')
    assert.equal(judge([tlsaOf(2, 1, 2, root)], [leaf, stray, root, middle]), 'dane-ta')
    // The full certificate or the bare key in DNS.
    assert.equal(judge([tlsaOf(2, 0, 0, root)], [leaf, middle]), 'dane-ta')
    assert.equal(judge([tlsaOf(2, 1, 0, root)], [leaf, middle]), 'dane-ta')
    assert.equal(judge([tlsaOf(2, 1, 0, root)], [leaf]) instanceof Object, true)
    // One that is shown, and did not sign.
    assert.ok(judge([tlsaOf(2, 0, 1, stray)], [leaf, middle, stray]) instanceof Object)
    // A link is missing.
    assert.ok(judge([tlsaOf(2, 0, 1, root)], [leaf, root]) instanceof Object)
    // A leaf is not an authority, even for itself.
    const own = issue({ subject: 'Own', names: ['mx.there.test'], ca: true })
    assert.ok(judge([tlsaOf(2, 0, 1, own)], [own]) instanceof Object)
    assert.equal(judge([tlsaOf(3, 0, 1, own)], [own]), 'dane-ee')
    assert.ok(judge([tlsaOf(3, 0, 1, own)], []) instanceof Object)
  })

  test('requires the right to sign from an authority, and valid dates from every certificate', () => {
    const powerless = issue({ subject: 'Powerless', by: root })
    const below = issue({ subject: 'Below', names: ['mx.there.test'], by: powerless })
    assert.ok(judge([tlsaOf(2, 0, 1, root)], [below, powerless, root]) instanceof Object)
    assert.ok(judge([tlsaOf(2, 0, 1, powerless)], [below, powerless]) instanceof Object)
    // It may sign, but no other authority.
    const short = issue({ subject: 'Short', ca: 0, by: root })
    const direct = issue({ subject: 'Direct', names: ['mx.there.test'], by: short })
    assert.equal(judge([tlsaOf(2, 0, 1, short)], [direct, short]), 'dane-ta')
    const under = issue({ subject: 'Under', ca: true, by: short })
    const deep = issue({ subject: 'Deep', names: ['mx.there.test'], by: under })
    assert.ok(judge([tlsaOf(2, 0, 1, short)], [deep, under, short]) instanceof Object)
    assert.equal(judge([tlsaOf(2, 0, 1, under)], [deep, under]), 'dane-ta')
    const old = issue({ subject: 'Old', ca: true, by: root, from: 0, until: 1000 })
    const late = issue({ subject: 'Late', names: ['mx.there.test'], by: old })
    assert.ok(judge([tlsaOf(2, 0, 1, old)], [late, old]) instanceof Object)
    assert.ok(
      judge([tlsaOf(2, 0, 1, root)], [leaf, middle, root], undefined, Date.now() + 60 * 86_400_000) instanceof Object,
    )
    // One with the name of the authority, and another key.
    const false_ = issue({ subject: 'Middle', ca: true })
    assert.ok(judge([tlsaOf(2, 0, 1, false_)], [leaf, false_]) instanceof Object)
  })

  test('accepts the base domain, or the recipient domain if MX is secure, and wildcards only in the first label', () => {
    const named = (name: string, ...wanted: string[]) =>
      judge([tlsaOf(2, 0, 1, root)], [issue({ subject: name, names: [name], by: root }), root], wanted)
    assert.equal(named('mx.there.test', 'mx.there.test'), 'dane-ta')
    assert.equal(named('there.test', 'mx.there.test', 'there.test'), 'dane-ta')
    assert.equal(named('*.there.test', 'mx.there.test'), 'dane-ta')
    for (const name of ['m*.there.test', '*.test', 'mx.*.test', 'x.there.test', 'mx.there.test.evil.test'])
      assert.ok(named(name, 'mx.there.test') instanceof Object, name)
    // DANE-EE ignores all of this.
    assert.equal(judge([tlsaOf(3, 1, 1, world.material.leaf.stranger)], [world.material.leaf.stranger]), 'dane-ee')
  })

  test('does not accept the recipient domain as a name if MX is insecure', async () => {
    const one = cases.find(({ label }) => label === 'r11')!
    const moved: DaneCase = {
      ...one,
      label: 'p28',
      zones: { 'p28.test': 'unsigned', 'p28x.test': 'signed' },
      records: [
        'p28.test MX 10 mx.p28x.test',
        'mx.p28x.test A domain',
        `_25._tcp.mx.p28x.test TLSA ${tlsaOf(2, 1, 1, world.material.authority)}`,
      ],
    }
    const { opened } = await run(moved)
    assert.deepEqual(
      opened.map(({ verify }) => verify && 'dane' in verify && verify.dane.names),
      [['mx.p28x.test']],
    )
  })
})

describe('DANE and other policies', () => {
  const sts = (...mx: string[]) => ({ mode: 'enforce' as const, mx })

  test('has priority over MTA-STS, whether the policy passes and DANE fails or the reverse', async () => {
    // The policy names the receiving server, but its certificate is not trusted.
    const failing = await run(simple('p32a', [wrong()]), { sts: sts('mx.p32a.test') })
    assert.deepEqual([failing.verdict.enhanced, failing.heard], ['4.7.5', 0])
    const passing = await run(simple('p32b', [right()]), { sts: sts('mx.elsewhere.test') })
    assert.deepEqual(
      [passing.verdict.kind, passing.security?.policy, passing.security?.proof],
      ['delivered', 'dane', 'dane-ee'],
    )
    const named = await run(simple('p32c', [right()]), { sts: sts('mx.p32c.test') })
    assert.equal(named.security?.proof, 'dane-ee')
  })

  test('without usable records the policy decides, and a server that it does not list is not used', async () => {
    const unlisted = await run(simple('p32d', []), { sts: sts('mx.elsewhere.test') })
    assert.deepEqual([unlisted.verdict.enhanced, unlisted.opened.length], ['4.7.5', 0])
    assert.match(unlisted.verdict.text, /MTA-STS/)
    // The server is named, but its certificate is not of an authority. The same applies if all TLSA records are
    // unusable.
    for (const [label, records] of [
      ['p32e', []],
      ['p32f', [right().replace('3 1 1', '0 1 1')]],
    ] as const) {
      const one = await run(simple(label, [...records]), { sts: sts(`mx.${label}.test`) })
      assert.deepEqual([one.verdict.enhanced, one.heard, one.security?.policy], ['4.7.5', 0, 'sts'], label)
    }
    // The next receiving server is named by the policy or proven by DANE.
    const two = simple('p32g', [])
    two.records.push('p32g.test MX 20 mx2.p32g.test', 'mx2.p32g.test A other', `_25._tcp.mx2.p32g.test TLSA ${wrong()}`)
    const next = await run(two, { sts: sts('mx.elsewhere.test') })
    assert.deepEqual([next.verdict.host, next.security?.proof], ['mx2.p32g.test', 'dane-ee'])
  })

  test('tls_policy Optional never falls back to clear text after a failure (D18)', async () => {
    for (const kind of ['plain', 'broken', 'other'] as const) {
      const { clear, heard, opened, verdict } = await run(simple(`p33${kind}`, [right()], kind), { policy: 'Optional' })
      assert.deepEqual([verdict.kind, heard, clear, opened.length], ['deferred', 0, 0, 1], kind)
      assert.equal(verdict.kind === 'deferred' && verdict.code, null)
    }
  })

  test('tries the next server if the lookup of the address or TLSA fails', async () => {
    for (const [label, question] of [
      ['p33x', 'A mx.p33x.test'],
      ['p33y', 'TLSA _25._tcp.mx.p33y.test'],
    ] as const) {
      const one = simple(label, [right()])
      one.records.push(
        `${label}.test MX 20 mx2.${label}.test`,
        `mx2.${label}.test A other`,
        `_25._tcp.mx2.${label}.test TLSA ${wrong()}`,
      )
      one.fails = { [question]: 'SERVFAIL' }
      const { security, verdict } = await run(one)
      assert.deepEqual([verdict.kind, verdict.host, security?.proof], ['delivered', `mx2.${label}.test`, 'dane-ee'])
    }
  })

  test('verifies a relay by DANE only with tls = "dane", by its own name', async () => {
    const one = simple('p34', [wrong()])
    const routes = (tls: 'optional' | 'required' | 'dane') => ({
      delivery: { routes: [{ domains: ['*'], host: 'mx.p34.test', port: 25, tls }] },
    })
    for (const tls of ['optional', 'required'] as const) {
      const { asked, verdict } = await run(one, routes(tls))
      assert.equal(verdict.kind, 'delivered')
      assert.ok(!asked.some((each) => each.startsWith('TLSA')))
    }
    assert.equal((await run(one, routes('dane'))).verdict.enhanced, '4.7.5')
    const two = simple('p34b', [right()])
    const { security } = await run(two, {
      delivery: { routes: [{ domains: ['*'], host: 'mx.p34b.test', port: 25, tls: 'dane' }] },
    })
    assert.deepEqual([security?.policy, security?.proof, security?.dnssec.mx], ['dane', 'dane-ee', 'not_queried'])
    // Without records it is encrypted at least.
    const bare = simple('p34c', [], 'plain')
    const refused = await run(bare, {
      delivery: { routes: [{ domains: ['*'], host: 'mx.p34c.test', port: 25, tls: 'dane' }] },
    })
    assert.deepEqual([refused.verdict.enhanced, refused.heard], ['4.7.10', 0])
  })

  test('uses a connection only for email with the same records, base domain and names', async () => {
    const one = simple('p34d', [right()])
    const { opened, route } = await run(one)
    assert.ok(!('kind' in route))
    const deps = { resolver: world.dns.resolverOf(), allowed: () => true } as unknown as WayDeps
    const session = { name: 'mx.p34d.test', port: 25, plan: opened[0]!.plan! }
    assert.ok(session.plan !== '')
    assert.ok(await isStillProven(deps, 'p34d.test', route, session))
    world.dns.set('_25._tcp.mx.p34d.test', 'TLSA', [wrong()])
    world.dns.clock.advance(301_000)
    assert.ok(!(await isStillProven(deps, 'p34d.test', route, session)))
    // The names of the certificate are those of one recipient domain.
    const two = simple('p34e', [tlsaOf(2, 1, 1, world.material.authority)], 'chained')
    two.records.push('p34f.test MX 10 mx.p34e.test')
    two.zones['p34f.test'] = 'signed'
    const plans = [(await run(two)).opened[0]!.plan, (await run({ ...two, label: 'p34f' })).opened[0]!.plan]
    assert.notEqual(plans[0], plans[1])
  })
})

test('doctor reports a resolver that validates, does not validate, is not local, or fails for TLSA, with the fix', async () => {
  await using dns = await startSignedDns()
  dns.zones.set('', true)
  dns.set('', 'NS', ['a.root-servers.test'])
  const judged = (config: ConfigInput = {}) =>
    daneFinding({ config: parseConfig({ ...config, dns: { servers: [`127.0.0.1:${dns.port}`], ...config.dns } }) })
  assert.match((await judged()).summary, /^validating: 127\.0\.0\.1:\d+$/)
  assert.equal((await judged()).fix, null)
  const far = await judged({ dns: { servers: [`127.0.0.1:${dns.port}`, '192.0.2.1:53'] } })
  assert.equal(far.severity, 'ok')
  assert.match(
    far.summary,
    /^resolver not local: DNSSEC results of 192\.0\.2\.1:53.*apt install unbound.*dns\.servers = \["127\.0\.0\.1:53"\]/,
  )
  assert.match((await judged({ delivery: { dane: false } })).summary, /^off/)
  dns.fails.set('TLSA _25._tcp', 'SERVFAIL')
  const failing = await judged()
  assert.deepEqual([failing.severity, /is deferred/.test(failing.summary)], ['fail', true])
  dns.fails.clear()
  dns.zones.clear()
  const not = await judged()
  assert.equal(not.severity, 'ok')
  assert.match(not.summary, /^not validating: 127\.0\.0\.1:\d+\. .*apt install unbound/)
  dns.fails.set('NS ', 'drop')
  assert.equal((await judged()).severity, 'warn')
})
