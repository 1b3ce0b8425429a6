// The meaning of each answer of a blocklist, from a DNS server that gives them.
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { schema } from '../../src/base/config.ts'
import { createResolver } from '../../src/net/resolver.ts'
import {
  BELIEVED,
  ListReader,
  listNamed,
  meaningOf,
  pageOfList,
  parseLists,
  readAnswer,
} from '../../src/watch/lists.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile } from '../kit/of-file.ts'
import { startTestDns } from '../kit/zone.ts'

const ZEN = 'zen.spamhaus.org'
const DBL = 'dbl.spamhaus.org'
const OWN = 'bl.example.org'
const dns = ofFile(async () => {
  const started = await startTestDns()
  return { ...started, [Symbol.asyncDispose]: () => started.close() }
})

/** The results of a list with these records for 1.2.3.4, or for bad.test. */
async function said(zone: string, records: Readonly<Record<string, readonly string[]>>, servers = ['192.0.2.53']) {
  const names = { [zone === DBL ? 'test' : '2.0.0.127']: [zone === DBL ? '127.0.1.2' : '127.0.0.2'], ...records }
  for (const [name, values] of Object.entries(names))
    dns.set(`${name}.${zone}`, 'A', values.length > 0 ? [...values] : undefined)
  const reader = new ListReader({ clock: new ManualClock(), resolver: dns.resolver, servers })
  const found = await (zone === DBL
    ? reader.ask('domain_list', zone, 'bad.test')
    : reader.ask('blocklist', zone, '1.2.3.4'))
  for (const name of Object.keys(names)) dns.set(`${name}.${zone}`, 'A', undefined)
  return found
}

const ADDRESS = '4.3.2.1'
const DOMAIN = 'bad.test'

for (const [what, zone, records, state, answer] of [
  ['no entry', ZEN, {}, 'clear', /^$/],
  ...[2, 3, 4, 5, 6, 7, 8, 9, 10, 11].map(
    (code) =>
      [
        `ZEN 127.0.0.${code}`,
        ZEN,
        { [ADDRESS]: [`127.0.0.${code}`] },
        'listed',
        new RegExp(`^127\\.0\\.0\\.${code}$`),
      ] as const,
  ),
  ['several codes', ZEN, { [ADDRESS]: ['127.0.0.11', '127.0.0.4'] }, 'listed', /^127\.0\.0\.4, 127\.0\.0\.11$/],
  ['127.0.0.1', ZEN, { [ADDRESS]: ['127.0.0.1'] }, 'unknown', /returned 127\.0\.0\.1, which is not/],
  [
    'a code that ZEN does not have',
    ZEN,
    { [ADDRESS]: ['127.0.0.12'] },
    'unknown',
    /returned 127\.0\.0\.12, which is not/,
  ],
  ['an answer outside of 127.0.0.0/8', ZEN, { [ADDRESS]: ['203.0.113.9'] }, 'unknown', /returned 203\.0\.113\.9/],
  [
    'an entry beside such an answer',
    ZEN,
    { [ADDRESS]: ['127.0.0.2', '203.0.113.9'] },
    'unknown',
    /returned 203\.0\.113\.9/,
  ],
  ['a wrong name', ZEN, { [ADDRESS]: ['127.255.255.252'] }, 'unknown', /rejects the query \(127\.255\.255\.252\)/],
  ['too many questions', ZEN, { [ADDRESS]: ['127.255.255.255'] }, 'unknown', /255\.255\): too many queries/],
  [
    'an error that the list does not document',
    OWN,
    { [ADDRESS]: ['127.255.255.7'] },
    'unknown',
    /rejects the query \(127\.255\.255\.7\)/,
  ],
  [
    'no test entry',
    ZEN,
    { '2.0.0.127': [] },
    'unknown',
    /does not list its test entry 127\.0\.0\.2, so its answers are ignored \(RFC 5782\)/,
  ],
  [
    'no test entry, and an entry',
    ZEN,
    { '2.0.0.127': [], [ADDRESS]: ['127.0.0.2'] },
    'unknown',
    /does not list its test entry 127\.0\.0\.2/,
  ],
  [
    'a list that has everybody',
    ZEN,
    { '1.0.0.127': ['127.0.0.2'], [ADDRESS]: ['127.0.0.2'] },
    'unknown',
    /lists 127\.0\.0\.1, which must never be listed/,
  ],
  ['DBL 127.0.1.2', DBL, { [DOMAIN]: ['127.0.1.2'] }, 'listed', /^127\.0\.1\.2$/],
  ['DBL 127.0.1.106', DBL, { [DOMAIN]: ['127.0.1.106'] }, 'listed', /^127\.0\.1\.106$/],
  ['DBL 127.0.1.1', DBL, { [DOMAIN]: ['127.0.1.1'] }, 'unknown', /returned 127\.0\.1\.1/],
  ['DBL 127.0.0.2, a code of another list', DBL, { [DOMAIN]: ['127.0.0.2'] }, 'unknown', /returned 127\.0\.0\.2/],
  ['DBL asked about an address', DBL, { [DOMAIN]: ['127.0.1.255'] }, 'unknown', /accepts domains only/],
  ['DBL without TEST', DBL, { test: [], [DOMAIN]: ['127.0.1.2'] }, 'unknown', /does not list its test entry TEST/],
  [
    'DBL with INVALID',
    DBL,
    { invalid: ['127.0.1.2'], [DOMAIN]: ['127.0.1.2'] },
    'unknown',
    /lists INVALID, which must never be listed/,
  ],
  ['a list of the operator’s own', OWN, { [ADDRESS]: ['127.0.0.99'] }, 'listed', /^127\.0\.0\.99$/],
  ['127.0.0.1 of such a list', OWN, { [ADDRESS]: ['127.0.0.1'] }, 'unknown', /returned 127\.0\.0\.1/],
] as const)
  test(`blocklist answer: ${what} is ${state}`, async () => {
    const found = await said(zone, records)
    assert.equal(found.state, state, found.answer)
    assert.match(found.answer, answer)
  })

test('a blocklist whose lookup or self-test fails is unknown, never clear', async () => {
  for (const name of [/^4\.3\.2\.1\./, /^2\.0\.0\.127\./, /^1\.0\.0\.127\./]) {
    dns.fail(name)
    const found = await said(ZEN, {})
    dns.fail(false)
    assert.deepEqual([found.state, /no answer from zen\.spamhaus\.org/.test(found.answer)], ['unknown', true])
  }
})

test('a blocklist that times out is unknown', async () => {
  const mute = createSocket('udp4').bind(0, '127.0.0.1')
  await once(mute, 'listening')
  const resolver = createResolver({
    servers: [{ host: '127.0.0.1', port: mute.address().port }],
    timeout: 20,
    tries: 1,
  })
  const reader = new ListReader({ clock: new ManualClock(), resolver, servers: [] })
  const found = await reader.ask('blocklist', ZEN, '1.2.3.4')
  mute.close()
  assert.deepEqual(found, { state: 'unknown', answer: 'no answer from zen.spamhaus.org (ETIMEOUT)' })
})

test('distinguishes PBL from a spam entry, and gives a fix for each code', () => {
  const pbl = meaningOf(ZEN, '127.0.0.10, 127.0.0.11')
  assert.match(pbl.words, /^PBL: No spam was reported/)
  assert.match(pbl.fix, /exception/)
  assert.equal(pbl.words.match(/PBL/g)?.length, 1, 'two codes with one meaning give one sentence')
  const both = meaningOf(ZEN, '127.0.0.4, 127.0.0.11')
  assert.match(both.words, /XBL: .*PBL: /)
  assert.match(meaningOf(DBL, '127.0.1.102').words, /^abused domain: /)
})

test('recognises a large public resolver by the code of the blocklist, and names it', async () => {
  const refused = { [ADDRESS]: ['127.255.255.254'], '2.0.0.127': ['127.255.255.254'], '1.0.0.127': ['127.255.255.254'] }
  const google = await said(ZEN, refused, ['8.8.8.8'])
  assert.deepEqual(google, {
    state: 'unknown',
    answer:
      'zen.spamhaus.org rejects the query (127.255.255.254): it blocks Google Public DNS (8.8.8.8), a large public resolver',
  })
  // A resolver of the machine that hands its questions on.
  assert.match(
    (await said(ZEN, refused, ['127.0.0.53'])).answer,
    /it blocks the resolver \(127\.0\.0\.53\), a large public/,
  )
  // If a public resolver gets regular answers, they are used.
  assert.equal((await said(ZEN, {}, ['8.8.8.8'])).state, 'clear')
})

test('tests a blocklist once in five minutes', async () => {
  dns.set(`2.0.0.127.${ZEN}`, 'A', ['127.0.0.2'])
  const clock = new ManualClock()
  const reader = new ListReader({ clock, resolver: dns.resolver, servers: [] })
  const tests = (): number => dns.asked.filter((question) => question === `A 2.0.0.127.${ZEN}`).length
  const before = tests()
  for (const address of ['1.2.3.4', '1.2.3.5'])
    assert.equal((await reader.ask('blocklist', ZEN, address)).state, 'clear')
  assert.equal(tests() - before, 1)
  clock.advance(BELIEVED)
  dns.set(`2.0.0.127.${ZEN}`, 'A', undefined)
  assert.equal((await reader.ask('blocklist', ZEN, '1.2.3.4')).state, 'unknown')
  assert.equal(tests() - before, 2)
})

test('looks up an IPv6 address by its nibbles', async () => {
  const nibbles = '1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.f.4.0.1.0.a.2'
  dns.set(`2.0.0.127.${ZEN}`, 'A', ['127.0.0.2'])
  dns.set(`${nibbles}.${ZEN}`, 'A', ['127.0.0.3'])
  const reader = new ListReader({ clock: new ManualClock(), resolver: dns.resolver, servers: [] })
  assert.equal((await reader.ask('blocklist', ZEN, '2a01:4f8::1')).state, 'listed')
})

test('has a URL and a text for each blocklist of the default configuration, with ascending code ranges', () => {
  const { domain_lists, lists } = schema.parse({}).watch
  for (const zone of [...lists, ...domain_lists]) {
    assert.notEqual(listNamed(zone).name, zone)
    assert.match(pageOfList(zone, '1.2.3.4') ?? '', /^https:\/\//, zone)
  }
  assert.equal(pageOfList(OWN, '1.2.3.4'), null)
  assert.match(pageOfList(ZEN, 'a b')!, /query=a%20b$/)
  const file = readFileSync(new URL('../../config/blocklists.toml', import.meta.url), 'utf8')
  const last = (address: string): number => Number(address.split('.').at(-1))
  for (const { codes, zone } of parseLists(file).list)
    for (const [at, { from, to = from }] of codes.entries()) {
      const next = codes[at + 1]
      assert.ok(zone === '*' || last(from) <= last(to), zone)
      assert.ok(!next || last(to) < last(next.from), `${zone}: ${from}`)
    }
})

test('never reports listed for an answer that is not a code of the blocklist', () => {
  for (let at = 0; at < 65_536; at++) {
    const answer = `127.0.${at >> 8}.${at & 255}`
    const { state } = readAnswer(ZEN, { kind: 'found', records: [answer] }, '')
    assert.equal(state, at >= 2 && at <= 11 ? 'listed' : 'unknown', answer)
  }
})

test('keeps a few distinct codes of an answer with thousands of them', () => {
  const records = Array.from({ length: 10_000 }, (_, at) => `127.0.${(at >> 8) & 7}.${(at & 255) | 2}`)
  const { answer, state } = readAnswer(OWN, { kind: 'found', records }, '')
  assert.equal(state, 'listed')
  const kept = answer.split(', ')
  assert.equal(kept.length, 16)
  assert.equal(new Set(kept).size, 16)
})
