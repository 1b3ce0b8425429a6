// The reverse entry of an address and whether its name leads back: each row of DV92.
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
  ['no entry', undefined, {}, 'wrong', 'wrong', /leads to no name.*PTR record of 1\.2\.3\.4 to mx\.here\.org/],
  [
    'several names',
    [HOST, 'b.here.org'],
    { [HOST]: ['1.2.3.4'], 'b.here.org': ['1.2.3.4'] },
    'wrong',
    'clear',
    /several names: b\.here\.org, mx\.here\.org/,
  ],
  [
    'another name than in EHLO',
    ['vps.cloud.org'],
    { 'vps.cloud.org': ['1.2.3.4'] },
    'wrong',
    'clear',
    /leads to vps\.cloud\.org, not to mx\.here\.org/,
  ],
  [
    'a name that leads elsewhere',
    [HOST],
    { [HOST]: ['1.2.3.5'] },
    'clear',
    'wrong',
    /mx\.here\.org leads to 1\.2\.3\.5, not back to 1\.2\.3\.4/,
  ],
  ['a name that leads nowhere', [HOST], {}, 'clear', 'wrong', /mx\.here\.org leads to no address/],
  [
    'one of two names leads elsewhere',
    [HOST, 'b.here.org'],
    { [HOST]: ['1.2.3.4'] },
    'wrong',
    'wrong',
    /b\.here\.org leads to no address/,
  ],
] as const)
  test(`reverse DNS: ${what} (DV92)`, async () => {
    const both = await found(names && [...names], addresses as Record<string, string[]>)
    assert.deepEqual([both.reverse.state, both.forward.state], [reverse, forward])
    const kind = both.forward.state === 'wrong' ? 'forward' : 'reverse'
    const { mend, words: said } = meaningOfReverse(kind, {
      answer: both[kind].answer,
      hostname: HOST,
      subject: '1.2.3.4',
    })
    if (words) assert.match(`${said} ${mend}`, words)
  })

test('reverse DNS that does not answer is unknown, and so is a name of which DNS says nothing (DV92)', async () => {
  dns.fail(/in-addr\.arpa$/)
  const mute = await found([HOST], { [HOST]: ['1.2.3.4'] })
  assert.deepEqual([mute.reverse.state, mute.forward.state], ['unknown', 'unknown'])
  dns.fail(/^mx\.here\.org$/)
  const half = await found([HOST], { [HOST]: ['1.2.3.4'] })
  dns.fail(false)
  assert.deepEqual([half.reverse.state, half.forward.state], ['clear', 'unknown'])
  assert.match(half.forward.answer, /no answer from DNS about mx\.here\.org/)
})

test('an IPv6 address leads to its name and back, however it is written', async () => {
  dns.set('1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.f.4.0.1.0.a.2.ip6.arpa', 'PTR', [HOST])
  const both = await found(undefined, { [HOST]: ['2a01:4f8:0:0:0:0:0:1'] }, '2a01:4f8::1')
  assert.deepEqual([both.reverse.state, both.forward.state], ['clear', 'clear'])
})

test('names of strangers are bounded: few of them, and characters of names alone', async () => {
  const many = Array.from({ length: 30 }, (_, at) => `n${at}.here.org`)
  const before = dns.asked.length
  const both = await found([...many, 'a<script>.here.org'], {})
  assert.ok(dns.asked.length - before <= 5)
  assert.match(both.reverse.answer, /^[\w., ?-]+$/)
  assert.equal(both.reverse.answer.split(', ').length, 4)
})
