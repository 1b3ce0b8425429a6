// The results of SPF, DKIM, DMARC and ARC for a received message (RFC 7208, RFC 6376, RFC 9989, RFC 8617), and which
// results in a message are trusted (RFC 8601). They come from the worker thread of the server.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ResolverAnswer } from '../../src/net/resolver.ts'
import { withoutForged, withoutForgedField } from '../../src/message/authentication.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { costing } from '../kit/cost.ts'
import { deliver, receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { readSuite } from './spf-suite.ts'
import { hire, HOSTNAME, zone, type Threads } from './threads.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const skip = existsSync(join(CORPORA, 'spf')) ? false : `no corpus at ${CORPORA}; set POSTRIDER_CORPORA`

let threads: Threads

before(() => {
  threads = hire()
})
after(() => threads.close())

const FAILED: ResolverAnswer<string> = { kind: 'failed', reason: 'ETIMEOUT' }
const PLAIN = 'From: ann@there.test\nSubject: x\n\nx\n'
const PASS_SPF = ['v=spf1 ip4:192.0.2.1 -all']

describe('SPF', () => {
  test('the openspf suite for RFC 7208: all 203 checks', { skip }, async () => {
    const wrong: string[] = []
    let checks = 0
    for (const scenario of readSuite(join(CORPORA, 'spf', 'rfc7208-tests.yml'))) {
      threads.look = scenario.look
      for (const { helo, host, mailFrom, name, results } of scenario.checks) {
        checks++
        const { verdicts } = await threads.judge({ client: host, helo, from: mailFrom, message: 'Subject: x\n\nx\n' })
        if (!results.includes(verdicts.spf)) wrong.push(`${name}: ${verdicts.spf} instead of ${results.join(' or ')}`)
      }
    }
    assert.deepEqual(wrong, [])
    assert.equal(checks, 203)
  })

  test('evaluates SPF of a bounce by its HELO name', async () => {
    threads.look = zone({ 'TXT mx.there.test': PASS_SPF })
    const { field, verdicts } = await threads.judge({ helo: 'mx.there.test', from: '', message: PLAIN })
    assert.equal(verdicts.spf, 'pass')
    assert.match(field!, /spf=pass/)
  })
})

describe('DMARC without a usable author (RFC 9989 §5.3.1, D124)', () => {
  const UNUSABLE: Record<string, string> = {
    none: '',
    'two fields': 'From: ann@there.test\nFrom: bob@there.test\n',
    'two domains': 'From: ann@there.test, bob@elsewhere.test\n',
    empty: 'From:\n',
    'no address': 'From: Ann\n',
    'an address literal': 'From: ann@[192.0.2.1]\n',
    'an empty group': 'From: Hidden:;\n',
    'a name that looks like an address': 'From: ann@there.test <Ann>\n',
    'an address without a local part': 'From: <@there.test>\n',
  }
  for (const [name, from] of Object.entries(UNUSABLE))
    test(`${name}: permerror`, async () => {
      threads.look = zone({ 'TXT there.test': PASS_SPF, 'TXT _dmarc.there.test': ['v=DMARC1; p=reject'] })
      const judged = await threads.judge({ from: 'ann@there.test', message: `${from}Subject: x\n\nx\n` })
      assert.equal(judged.verdicts.dmarc, 'permerror')
      assert.match(judged.field!, /\bdmarc=permerror \([^()]+\)/)
      assert.equal([...judged.field!.matchAll(/dmarc=/g)].length, 1)
      assert.equal(judged.proven, false)
      assert.equal(judged.beyond, null)
    })
  const USABLE: Record<string, string> = {
    'two mailboxes of one domain': 'ann@there.test, "Bob, too" <bob@THERE.test>',
    'a name with an address in quotes': '"ceo@bank.test" <ann@there.test>',
    'a comment': 'ann@there.test (Ann; of there, <x>)',
    'a group': 'Us: ann@there.test;',
    folded: 'Ann\n <ann@there.test>',
  }
  for (const [name, from] of Object.entries(USABLE))
    test(`${name}: is judged`, async () => {
      threads.look = zone({ 'TXT there.test': PASS_SPF, 'TXT _dmarc.there.test': ['v=DMARC1; p=reject'] })
      const { verdicts } = await threads.judge({ from: 'ann@there.test', message: `From: ${from}\nSubject: x\n\nx\n` })
      assert.equal(verdicts.dmarc, 'pass')
    })
})

describe('DKIM', () => {
  /** The result of each signature. The fifth message's has expired. */
  const SIGNED: Record<string, string[]> = {
    '001': ['pass', 'pass'],
    '002': ['pass'],
    '003': ['pass', 'pass'],
    '004': ['pass'],
    '005': ['neutral'],
    '006': ['pass'],
  }
  for (const [name, signatures] of Object.entries(SIGNED))
    test(`evaluates the signed message ${name}`, { skip }, async () => {
      const text = readFileSync(join(CORPORA, 'dkim', `${name}.txt`), 'latin1')
      const end = text.indexOf('\n\n')
      threads.look = zone(
        Object.fromEntries(
          text
            .slice(0, end)
            .split('\n')
            .map((line) => [`TXT ${line.slice(0, line.indexOf(' '))}`, [line.slice(line.indexOf(' ') + 1)]]),
        ),
      )
      const message = text.slice(end + 2)
      const good = await threads.judge({ message: Buffer.from(message, 'latin1') })
      assert.equal(good.verdicts.dkim, signatures[0])
      assert.deepEqual(
        [...good.field!.matchAll(/dkim=(\w+)/g)].map(([, result]) => result),
        signatures,
      )
      // With one more byte in the body, no signature is valid.
      const bad = await threads.judge({ message: Buffer.from(`${message.trimEnd()}.\n`, 'latin1') })
      assert.notEqual(bad.verdicts.dkim, 'pass')
      // Without the key the signature cannot be verified.
      threads.look = () => FAILED
      const unknown = await threads.judge({ message: Buffer.from(message, 'latin1') })
      assert.equal(unknown.verdicts.dkim, 'temperror')
    })
})

describe('DMARC (RFC 9989)', () => {
  const author = 'news.shop.test'
  const spf = (from: string) => ({ [`TXT ${from}`]: PASS_SPF })
  const CASES: Record<
    string,
    { records: Record<string, string[] | ResolverAnswer<string>>; from?: string; wanted: RegExp }
  > = {
    'no record': { records: spf(author), wanted: /^none$/ },
    'the same domain': {
      records: { ...spf(author), [`TXT _dmarc.${author}`]: ['v=DMARC1; p=reject'] },
      wanted: /^pass$/,
    },
    'a foreign domain': {
      records: { ...spf('elsewhere.test'), [`TXT _dmarc.${author}`]: ['v=DMARC1; p=reject'] },
      from: 'elsewhere.test',
      wanted: /^fail$/,
    },
    'relaxed: a sibling of one organisation': {
      records: { ...spf('bounce.shop.test'), 'TXT _dmarc.shop.test': ['v=DMARC1; p=reject'] },
      from: 'bounce.shop.test',
      wanted: /^pass$/,
    },
    'strict: a sibling is not enough': {
      records: { ...spf('bounce.shop.test'), 'TXT _dmarc.shop.test': ['v=DMARC1; p=reject; aspf=s'] },
      from: 'bounce.shop.test',
      wanted: /^fail$/,
    },
    'strict: the same domain': {
      records: { ...spf(author), 'TXT _dmarc.shop.test': ['v=DMARC1; p=reject; aspf=s'] },
      wanted: /^pass$/,
    },
    'psd=n makes an organisation of a subdomain': {
      records: {
        ...spf('bounce.shop.test'),
        [`TXT _dmarc.${author}`]: ['v=DMARC1; p=reject; psd=n'],
        'TXT _dmarc.shop.test': ['v=DMARC1; p=reject'],
      },
      from: 'bounce.shop.test',
      wanted: /^fail$/,
    },
    'psd=y: domains below it are separate organisations': {
      records: { ...spf('other.shop.test'), 'TXT _dmarc.shop.test': ['v=DMARC1; p=reject; psd=y'] },
      from: 'other.shop.test',
      wanted: /^fail$/,
    },
    'psd=y: below one organisation': {
      records: { ...spf('bounce.news.shop.test'), 'TXT _dmarc.shop.test': ['v=DMARC1; p=reject; psd=y'] },
      from: 'bounce.news.shop.test',
      wanted: /^pass$/,
    },
    'two records at one name are ignored, and the walk continues': {
      records: {
        [`TXT _dmarc.${author}`]: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'],
        'TXT _dmarc.shop.test': ['v=DMARC1; p=quarantine'],
      },
      from: 'elsewhere.test',
      wanted: /^fail$/,
    },
    'two records and no record above': {
      records: { [`TXT _dmarc.${author}`]: ['v=DMARC1; p=none', 'v=DMARC1; p=reject'] },
      wanted: /^none$/,
    },
    'a record must start with the version': {
      records: { ...spf(author), [`TXT _dmarc.${author}`]: ['p=reject; v=DMARC1'] },
      wanted: /^none$/,
    },
    'no valid policy, but an address for reports': {
      records: { [`TXT _dmarc.${author}`]: ['v=DMARC1; p=perhaps; rua=mailto:d@shop.test'] },
      wanted: /^fail$/,
    },
    'no valid policy': { records: { [`TXT _dmarc.${author}`]: ['v=DMARC1; p=perhaps'] }, wanted: /^none$/ },
    'a look-up that fails': { records: { [`TXT _dmarc.${author}`]: FAILED }, wanted: /^temperror$/ },
  }
  for (const [label, { from = author, records, wanted }] of Object.entries(CASES))
    test(label, async () => {
      threads.look = zone(records)
      const { verdicts } = await threads.judge({ from: `x@${from}`, message: `From: Shop <ann@${author}>\n\nx\n` })
      assert.match(verdicts.dmarc, wanted)
    })

  /** The policy that applied, from Authentication-Results. */
  const policy = async (
    name: string,
    records: Record<string, string[] | ResolverAnswer<string>>,
  ): Promise<string | undefined> => {
    threads.look = zone(records)
    const { field } = await threads.judge({ from: 'x@elsewhere.test', message: `From: ann@${name}\n\nx\n` })
    return /dmarc=fail[^;]*policy\.dmarc=(\w+)/.exec(field!)?.[1]
  }
  test('sp for subdomains, np for those that do not exist, t=y one level less', async () => {
    const org = (tags: string) => ({ 'TXT _dmarc.shop.test': [`v=DMARC1; p=reject; ${tags}`] })
    const there = { [`A ${author}`]: ['192.0.2.9'] }
    assert.equal(await policy('shop.test', org('sp=none')), 'reject')
    assert.equal(await policy(author, { ...org('sp=none'), ...there }), 'none')
    assert.equal(await policy(author, { ...org('sp=none; np=quarantine'), ...there }), 'none')
    assert.equal(await policy(author, org('sp=none; np=quarantine')), 'quarantine')
    assert.equal(await policy('shop.test', org('t=y')), 'quarantine')
  })

  test('walks up a name of many labels with at most eight queries', async () => {
    const asked: string[] = []
    threads.look = ({ name }) => {
      if (name.startsWith('_dmarc.')) asked.push(name)
      return { kind: 'nxdomain' }
    }
    await threads.judge({ message: 'From: ann@a.b.c.d.e.f.g.h.i.j.shop.test\n\nx\n' })
    assert.equal(asked[0], '_dmarc.a.b.c.d.e.f.g.h.i.j.shop.test')
    assert.equal(asked[1], '_dmarc.f.g.h.i.j.shop.test')
    assert.ok(asked.length <= 8, asked.join(' '))
  })

  for (const [label, header] of Object.entries({
    'several From fields': 'From: ann@shop.test\nFrom: ben@elsewhere.test',
    'authors of several domains': 'From: ann@shop.test, ben@elsewhere.test',
    'no From': 'Subject: none',
    'a From without an address': 'From: ann',
  }))
    test(`${label} is not a pass`, async () => {
      threads.look = zone({
        ...spf('shop.test'),
        'TXT _dmarc.shop.test': ['v=DMARC1; p=reject'],
        'TXT _dmarc.elsewhere.test': ['v=DMARC1; p=reject'],
      })
      const { verdicts } = await threads.judge({ from: 'ann@shop.test', message: `${header}\n\nx\n` })
      assert.equal(verdicts.spf, 'pass')
      assert.notEqual(verdicts.dmarc, 'pass')
    })
})

test('without DNS answers the result is temperror after the time limit, and other messages do not wait', async () => {
  const slow = hire()
  try {
    slow.look = ({ name }) =>
      name.endsWith('dead.test') ? new Promise(() => {}) : zone({ 'TXT there.test': PASS_SPF })({ name, type: 'TXT' })
    const message = 'From: x@dead.test\n\nx\n'
    const dead = slow.judge({ from: 'x@dead.test', message })
    assert.equal((await slow.judge({ message: PLAIN })).verdicts.spf, 'pass', 'nobody waits behind it')
    // Its own time, 20 seconds, is not waited for here: it is the same with less.
    const { verdicts } = await slow.judge({ from: 'x@dead.test', message, dnsTime: 100 })
    assert.equal(verdicts.spf, 'temperror')
    assert.equal(verdicts.dmarc, 'temperror')
    dead.catch(() => {})
  } finally {
    await slow.close()
  }
})

test('a reader requests an answer again only after its lifetime, and does not cache failures (D133)', async () => {
  const reader = hire()
  const asked: string[] = []
  const answers = zone({ 'TXT there.test': PASS_SPF })
  reader.look = ({ name, type }) => {
    asked.push(`${type} ${name}`)
    return name === '_dmarc.there.test' ? { kind: 'failed', reason: 'ETIMEOUT' } : answers({ name, type })
  }
  reader.until = 1000
  const spf = () => asked.filter((question) => question === 'TXT there.test').length
  const dmarc = () => asked.filter((question) => question === 'TXT _dmarc.there.test').length
  try {
    for (const now of [0, 999]) {
      reader.now = now
      assert.equal((await reader.judge({ message: PLAIN })).verdicts.spf, 'pass')
    }
    assert.deepEqual([spf(), dmarc() > 1], [1, true])
    reader.now = 1000
    assert.equal((await reader.judge({ message: PLAIN })).verdicts.spf, 'pass')
    assert.equal(spf(), 2)
  } finally {
    await reader.close()
  }
})

describe('Authentication-Results (RFC 8601)', () => {
  const FORGED = {
    plain: `Authentication-Results: ${HOSTNAME}; spf=pass`,
    'in capitals': `AUTHENTICATION-RESULTS: ${HOSTNAME.toUpperCase()}; spf=pass`,
    'without a space': `Authentication-Results:${HOSTNAME};spf=pass`,
    'with a space before the colon': `Authentication-Results : ${HOSTNAME}; spf=pass`,
    folded: `Authentication-Results:\n\t${HOSTNAME};\n spf=pass`,
    commented: `Authentication-Results: (a) (b) ${HOSTNAME}; spf=pass`,
    'with nested comments': `Authentication-Results: (a (b) c) ${HOSTNAME}; spf=pass`,
    'with a quoted parenthesis': `Authentication-Results: (a \\) b) ${HOSTNAME}; spf=pass`,
    'a comment right behind': `Authentication-Results: ${HOSTNAME}(c); spf=pass`,
    'a comment between folds': `Authentication-Results: (a\n b)\n ${HOSTNAME}; spf=pass`,
    quoted: `Authentication-Results: "${HOSTNAME}"; spf=pass`,
    'quoted with escapes': `Authentication-Results: "mx\\.postrider.test"; spf=pass`,
    'with a version': `Authentication-Results: ${HOSTNAME} 1; spf=pass`,
    'with a final dot': `Authentication-Results: ${HOSTNAME}.; spf=pass`,
    'with no result': `Authentication-Results: ${HOSTNAME}`,
  }
  const KEPT = {
    'of another server': 'Authentication-Results: mx.elsewhere.test; spf=pass',
    'of a server whose name begins alike': `Authentication-Results: ${HOSTNAME}.elsewhere.test; spf=pass`,
    'that only mentions us': `Authentication-Results: mx.elsewhere.test (${HOSTNAME}); spf=pass`,
    'of ARC': `ARC-Authentication-Results: i=1; ${HOSTNAME}; spf=pass`,
    'without an authserv-id': 'Authentication-Results: (nobody)',
  }
  const around = (field: string): string => `From: a@b\r\n${field.replaceAll('\n', '\r\n')}\r\nTo: c@d\r\n`
  for (const [label, field] of Object.entries(FORGED))
    test(`removes a forged field ${label}`, () => {
      assert.equal(withoutForged(around(field), HOSTNAME), 'From: a@b\r\nTo: c@d\r\n')
    })
  for (const [label, field] of Object.entries(KEPT))
    test(`keeps a field ${label}`, () => {
      assert.equal(withoutForged(around(field), HOSTNAME), around(field))
    })
  test('a comment of a megabyte is read once', async () => {
    for (const comment of ['('.repeat(1_000_000), '()'.repeat(500_000)])
      await costing(1000, () => withoutForged(`Authentication-Results: ${comment}\r\n`, HOSTNAME))
  })
  test('keeps only decoded fields of other servers', () => {
    const fields = { from: 'a@b', 'authentication-results': [`${HOSTNAME}; spf=pass`, 'mx.elsewhere.test; spf=fail'] }
    assert.deepEqual(withoutForgedField(fields, HOSTNAME), {
      from: 'a@b',
      'authentication-results': 'mx.elsewhere.test; spf=fail',
    })
    assert.deepEqual(withoutForgedField({ 'authentication-results': HOSTNAME }, HOSTNAME), {})
  })
})

describe('over SMTP', () => {
  let postrider: TestAppliance

  before(async () => {
    postrider = await startTestAppliance()
    await postrider.activeDomain('example.org')
    const body = { data: { type: 'inboxes', attributes: { name: 'Box', address: 'box@example.org' } } }
    assert.equal((await postrider.api('POST', '/inboxes', body)).status, 201)
  })
  after(() => postrider.stop())

  const raw = async (id: string): Promise<string> => (await postrider.api('GET', `/inbound-emails/${id}/raw`)).body

  test('our field is first, forged ones are removed from raw and headers, ARC is unchanged', async () => {
    postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
    postrider.dns.set('_dmarc.there.test', 'TXT', ['v=DMARC1; p=reject'])
    const arc = `ARC-Authentication-Results: i=1; mx.list.test;\n spf=pass`
    const { id } = await receive(postrider, {
      to: 'box@example.org',
      message: `Authentication-Results: =?utf-8?q?${HOSTNAME}?=; dkim=pass\nAuthentication-Results: (x (y)) ${HOSTNAME}; dkim=pass\n${arc}\nAuthentication-Results: mx.list.test; dkim=fail\nFrom: ann@there.test\n\nHello.\n`,
    })
    const { attributes } = (await postrider.api('GET', `/inbound-emails/${id}`)).body.data
    assert.deepEqual(attributes.authentication, { spf: 'pass', dkim: 'none', dmarc: 'pass', arc: 'fail' })
    assert.equal(attributes.headers['authentication-results'], 'mx.list.test; dkim=fail')
    const text = await raw(id)
    const ours = [...text.matchAll(/^Authentication-Results:\s*(\S+);/gim)].map(([, name]) => name)
    assert.deepEqual(ours.slice(0, 1), [HOSTNAME])
    assert.equal(ours.filter((name) => name === HOSTNAME).length, 1)
    assert.ok(ours.includes('mx.list.test'))
    assert.match(text, /^Return-Path: <ann@there\.test>\r\nAuthentication-Results: mx\.postrider\.test;\r\n/)
    assert.match(text, /spf=pass[\s\S]*dmarc=pass[\s\S]*^Received: from client\.test \(\[127\.0\.0\.1\]\)/m)
    assert.ok(text.includes(arc.replaceAll('\n', '\r\n')))
    assert.ok(text.endsWith('\r\n\r\nHello.\r\n'))
  })

  test('receives the message without a verdict if DNS fails', async () => {
    postrider.dns.fail(true)
    try {
      // A name that was not queried before, because known answers outlive a failure for a moment.
      const message = 'From: ann@unheard.test\n\nHello.\n'
      const { id } = await receive(postrider, { from: 'ann@unheard.test', to: 'box@example.org', message })
      const { attributes } = (await postrider.api('GET', `/inbound-emails/${id}`)).body.data
      assert.equal(attributes.status, 'received')
      assert.equal(attributes.authentication.spf, 'temperror')
      assert.equal(attributes.authentication.dmarc, 'temperror')
    } finally {
      postrider.dns.fail(false)
    }
  })

  test('a comment in a HELO name cannot break out of our fields', async () => {
    const before = (await postrider.api('GET', '/inbound-emails?page[size]=100')).body.data.length
    const [verdict] = await deliver(postrider.appliance.smtp[0]!, {
      from: '"a;b)(c"@there.test',
      to: 'box@example.org',
      message: 'From: ann@there.test\n\nHello.\n',
    })
    assert.equal(verdict!.kind, 'delivered')
    const mail = await until(async () => {
      const { data } = (await postrider.api('GET', '/inbound-emails?page[size]=100')).body
      return data.length > before ? data[0] : undefined
    })
    const header = (await raw(mail.id)).split('\r\n\r\n', 1)[0]!
    // Every line is a field or its continuation, and there is one field of ours.
    for (const line of header.split('\r\n')) assert.match(line, /^(?:[\w-]+:|[ \t])/)
    assert.equal(header.match(/^Authentication-Results:/gim)?.length, 1)
  })
})
