// The PTR record of an address, and whether its name is forward-confirmed.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { askReverse, meaningOfReverse } from '../../src/watch/reverse.ts'
import { ofFile } from '../kit/of-file.ts'
import { startTestDns } from '../kit/zone.ts'

const dns = ofFile(async () => {
  const started = await startTestDns()
  return { ...started, [Symbol.asyncDispose]: () => started.close() }
})
const HOST = 'mx.here.org'
const PTR = '4.3.2.1.in-addr.arpa'

async function found(names: string[] | undefined, addresses: Record<string, string[]>, address = '1.2.3.4') {
  dns.set(PTR, 'PTR', names)
  const type = address.includes(':') ? 'AAAA' : 'A'
  for (const [name, values] of Object.entries(addresses)) dns.set(name, type, values)
  const both = await askReverse(dns.resolver, { address, hostname: 'MX.here.org' })
  for (const name of Object.keys(addresses)) dns.set(name, type, undefined)
  return both
}

for (const [what, names, addresses, reverse, forward, words] of [
  ['right', [HOST], { [HOST]: ['1.2.3.4'] }, 'clear', 'clear', undefined],
  ['right among other addresses', [HOST], { [HOST]: ['1.2.3.9', '1.2.3.4'] }, 'clear', 'clear', undefined],
  ['no entry', undefined, {}, 'wrong', 'wrong', /has no PTR record.*PTR record of 1\.2\.3\.4 to mx\.here\.org/],
  [
    'several names',
    [HOST, 'b.here.org'],
    { [HOST]: ['1.2.3.4'], 'b.here.org': ['1.2.3.4'] },
    'wrong',
    'clear',
    /several PTR records: b\.here\.org, mx\.here\.org/,
  ],
  [
    'another name than in EHLO',
    ['vps.cloud.org'],
    { 'vps.cloud.org': ['1.2.3.4'] },
    'wrong',
    'clear',
    /is vps\.cloud\.org\. It must be mx\.here\.org/,
  ],
  [
    'a name that leads elsewhere',
    [HOST],
    { [HOST]: ['1.2.3.5'] },
    'clear',
    'wrong',
    /mx\.here\.org resolves to 1\.2\.3\.5, not to 1\.2\.3\.4/,
  ],
  ['a name that leads nowhere', [HOST], {}, 'clear', 'wrong', /mx\.here\.org resolves to no address/],
  [
    'one of two names leads elsewhere',
    [HOST, 'b.here.org'],
    { [HOST]: ['1.2.3.4'] },
    'wrong',
    'wrong',
    /b\.here\.org resolves to no address/,
  ],
] as const)
  test(`reverse DNS: ${what}`, async () => {
    const both = await found(names && [...names], addresses as Record<string, string[]>)
    assert.deepEqual([both.reverse.state, both.forward.state], [reverse, forward])
    const kind = both.forward.state === 'wrong' ? 'forward' : 'reverse'
    const { fix, words: said } = meaningOfReverse(kind, {
      answer: both[kind].answer,
      hostname: HOST,
      subject: '1.2.3.4',
    })
    if (words) assert.match(`${said} ${fix}`, words)
  })

test('reverse DNS is unknown if the PTR lookup or the lookup of its name fails', async () => {
  dns.fail(/in-addr\.arpa$/)
  const mute = await found([HOST], { [HOST]: ['1.2.3.4'] })
  assert.deepEqual([mute.reverse.state, mute.forward.state], ['unknown', 'unknown'])
  dns.fail(/^mx\.here\.org$/)
  const half = await found([HOST], { [HOST]: ['1.2.3.4'] })
  dns.fail(false)
  assert.deepEqual([half.reverse.state, half.forward.state], ['clear', 'unknown'])
  assert.match(half.forward.answer, /DNS lookup of mx\.here\.org failed/)
})

test('confirms the PTR record of an IPv6 address in any spelling', async () => {
  dns.set('1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.f.4.0.1.0.a.2.ip6.arpa', 'PTR', [HOST])
  const both = await found(undefined, { [HOST]: ['2a01:4f8:0:0:0:0:0:1'] }, '2a01:4f8::1')
  assert.deepEqual([both.reverse.state, both.forward.state], ['clear', 'clear'])
})

test('limits the number and the characters of PTR names', async () => {
  const many = Array.from({ length: 30 }, (_, at) => `n${at}.here.org`)
  const before = dns.asked.length
  const both = await found([...many, 'a<script>.here.org'], {})
  assert.ok(dns.asked.length - before <= 5)
  assert.match(both.reverse.answer, /^[\w., ?-]+$/)
  assert.equal(both.reverse.answer.split(', ').length, 4)
})
