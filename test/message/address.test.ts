// Which addresses are accepted, and their normalised forms: decisions D17, D22, D27, D31.
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'
import { Keyring } from '../../src/base/keyring.ts'
import { inFamily, organisationalDomain, parseAddress, toAscii } from '../../src/message/address.ts'
import { readReturnPathToken, returnPathToken } from '../../src/message/return-path.ts'

const CORPUS = `${process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))}/addresses/isemail/tests.xml`
const MISSING = existsSync(CORPUS) ? false : `no corpus at ${CORPUS}; set POSTRIDER_CORPORA`

interface Case {
  address: string
  category: string
  diagnosis: string
}

function isemail(): Case[] {
  const text = (xml: string): string =>
    xml
      // The corpus writes control characters as their pictures, U+2400 and up.
      .replace(/&#x(24[0-2][0-9A-F]);/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16) - 0x2400))
      .replace(/&#x([0-9A-F]+);/gi, (_, hex: string) => String.fromCodePoint(Number.parseInt(hex, 16)))
      .replace(/&#(\d+);/g, (_, digits: string) => String.fromCodePoint(Number(digits)))
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&quot;', '"')
      .replaceAll('&apos;', "'")
      .replaceAll('&amp;', '&')
  return [...readFileSync(CORPUS, 'utf8').matchAll(/<test id="\d+">(.*?)<\/test>/gs)].map(([, xml]) => {
    const member = (name: string): string => text(new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(xml!)?.[1] ?? '')
    return { address: member('address'), category: member('category'), diagnosis: member('diagnosis') }
  })
}

test('accepts the real-world forms of the isemail corpus and rejects the rest', { skip: MISSING }, () => {
  const count: Record<string, { taken: number; refused: number }> = {}
  const taken = (item: Case): boolean => {
    const address = parseAddress(item.address)
    // An accepted address is returned as given, without unnecessary quotes.
    if (address && !item.address.startsWith('"'))
      assert.equal(address.address.toLowerCase(), item.address.trim().toLowerCase())
    return address !== undefined
  }
  for (const item of isemail()) {
    const row = (count[item.category] ??= { taken: 0, refused: 0 })
    row[taken(item) ? 'taken' : 'refused']++
  }
  assert.deepEqual(count, {
    // Not addresses at all, among them a local part over 64 bytes, a label over 63, a final dot.
    ISEMAIL_ERR: { taken: 0, refused: 66 },
    // Rejected: test@io. Mail to a top-level domain needs a name with a dot, and there are no such mailboxes.
    ISEMAIL_VALID_CATEGORY: { taken: 13, refused: 1 },
    // Valid syntax. DNS decides at delivery whether the domain exists.
    ISEMAIL_DNSWARN: { taken: 8, refused: 0 },
    // Accepted: quoted local parts. Address literals and numeric or bare top-level domains are rejected on purpose:
    // real users never have them, and each has been used to bypass checks.
    ISEMAIL_RFC5321: { taken: 5, refused: 11 },
    // Legal in a header only: not deliverable. Accepted: 65 bytes, one of which is an unnecessary escape.
    ISEMAIL_RFC5322: { taken: 1, refused: 29 },
    ISEMAIL_DEPREC: { taken: 0, refused: 20 },
    // Taken: a space before or after, as it comes from forms. Comments and folding are refused.
    ISEMAIL_CFWS: { taken: 2, refused: 8 },
  })
})

test('accepts and normalises these forms', () => {
  for (const [text, name, address] of [
    ['ann@b.example', '', 'ann@b.example'],
    [' ann@b.example ', '', 'ann@b.example'],
    ['<ann@b.example>', '', 'ann@b.example'],
    ['Ann <ann@b.example>', 'Ann', 'ann@b.example'],
    ['"Ann" <ann@b.example>', 'Ann', 'ann@b.example'],
    ['"Ann, of <B>; \\"the\\" @" <ann@b.example>', 'Ann, of <B>; "the" @', 'ann@b.example'],
    ['Dr. Ann O’Neill <ann@b.example>', 'Dr. Ann O’Neill', 'ann@b.example'],
    ['名前<ann@b.example>', '名前', 'ann@b.example'],
    // The local part keeps its case, because only the receiver interprets it. The case of the domain does not matter
    // (RFC 5321 §2.4).
    ['Ann.Other+Tag@B.EXAMPLE', '', 'Ann.Other+Tag@b.example'],
    ["o'neill!#$%&*/=?^_`{|}~@b.example", '', "o'neill!#$%&*/=?^_`{|}~@b.example"],
    ['jürgen@b.example', '', 'jürgen@b.example'],
    ['ann@bücher.example', '', 'ann@xn--bcher-kva.example'],
    ['ann@BÜCHER.example', '', 'ann@xn--bcher-kva.example'],
    ['ann@straße.example', '', 'ann@xn--strae-oqa.example'],
    ['ann@xn--bcher-kva.example', '', 'ann@xn--bcher-kva.example'],
    ['ann@例え。テスト', '', 'ann@xn--r8jz45g.xn--zckzah'],
    [`${'l'.repeat(64)}@b.example`, '', `${'l'.repeat(64)}@b.example`],
    // Quoted local parts (RFC 5321 §4.1.2), with the quotes only where they are needed.
    ['"a..b"@b.example', '', '"a..b"@b.example'],
    ['"x.y."@b.example', '', '"x.y."@b.example'],
    ['"Ann.Other"@b.example', '', 'Ann.Other@b.example'],
    ['"\\a\\.b"@b.example', '', 'a.b@b.example'],
    ['"a\\"b\\\\c"@b.example', '', '"a\\"b\\\\c"@b.example'],
    ['"a b"@b.example', '', '"a b"@b.example'],
    ['"a@b <c>, d"@b.example', '', '"a@b <c>, d"@b.example'],
    ['Ann <"a..b"@b.example>', 'Ann', '"a..b"@b.example'],
    ['"Ann" <"a>b"@b.example>', 'Ann', '"a>b"@b.example'],
    [`"${'l'.repeat(61)}."@b.example`, '', `"${'l'.repeat(61)}."@b.example`],
  ] as const) {
    const parsed = parseAddress(text)
    assert.ok(parsed, `${text} is taken`)
    assert.equal(parsed.name, name, text)
    assert.equal(parsed.address, address, text)
    assert.equal(`${parsed.local}@${parsed.domain}`, address, text)
  }
})

test('rejects these forms', () => {
  const label = 'd'.repeat(63)
  for (const text of [
    '',
    ' ',
    'ann',
    '@b.example',
    'ann@',
    'ann@@b.example',
    'ann@b@c.example',
    // Two addresses in one string, with and without a name.
    'ann@b.example, bob@b.example',
    'ann@b.example bob@b.example',
    'ann@b.example;bob@b.example',
    'Ann <ann@b.example>, Bob <bob@b.example>',
    '<ann@b.example> <bob@b.example>',
    'ann@b.example <bob@b.example>',
    // Groups, comments, routes.
    'Friends: ann@b.example, bob@b.example;',
    'undisclosed-recipients:;',
    'ann@b.example (Ann)',
    'ann(comment)@b.example',
    '<@c.example:ann@b.example>',
    // Characters that would start another field or command.
    'ann@b.example\r\nBcc: eve@evil.example',
    'Ann\r\n <ann@b.example>',
    'Ann\n <ann@b.example>',
    'Ann\0 <ann@b.example>',
    'ann@b.example\0',
    'Ann\u2028 <ann@b.example>',
    'Ann\ud800 <ann@b.example>',
    'a nn@b.example',
    'ann@b .example',
    'ann>@b.example',
    '<ann@b.example',
    'ann@b.example>',
    '"Ann <ann@b.example>',
    // Invalid local parts and domains.
    '.ann@b.example',
    'ann.@b.example',
    'a..nn@b.example',
    '""@b.example',
    '"a"b"@b.example',
    '"a\\"@b.example',
    '"a"."b"@b.example',
    'a."b"@b.example',
    '"a"b@b.example',
    '"a\tb"@b.example',
    '"a" <ann@b.example> "b"@b.example',
    `"${'l'.repeat(62)}."@b.example`,
    'ann@b',
    'ann@b.example.',
    'ann@.example',
    'ann@b..example',
    'ann@-b.example',
    'ann@b-.example',
    'ann@b_c.example',
    'ann@127.0.0.1',
    'ann@[127.0.0.1]',
    'ann@[IPv6:::1]',
    'ann@１２７.０.０.１',
    'ann@0x7f.1',
    'ann@b.example:25',
    'ann@b.example/x',
    // Lengths: local 64, label 63, path 256.
    `${'l'.repeat(65)}@b.example`,
    `${'ü'.repeat(33)}@b.example`,
    `ann@${'d'.repeat(64)}.example`,
    `${'l'.repeat(64)}@${label}.${label}.${label}.example`,
  ])
    assert.equal(parseAddress(text), undefined, JSON.stringify(text))
})

test('accepts a path of 256 bytes and rejects one of 257', () => {
  // "<" local "@" domain ">" (RFC 5321 §4.5.3.1.3).
  const domain = `${'d'.repeat(63)}.${'d'.repeat(63)}.${'d'.repeat(54)}.example`
  assert.equal(`<${'l'.repeat(63)}@${domain}>`.length, 256)
  assert.ok(parseAddress(`${'l'.repeat(63)}@${domain}`))
  assert.equal(parseAddress(`${'l'.repeat(64)}@${domain}`), undefined)
})

test('reads a non-ASCII domain only as a domain, never as a URL', () => {
  for (const rest of ['/x', '?x', '#x', ':80', '\\x', '%2e', '%41', '@c', ' x', '<', '|'])
    for (const name of [`bücher.example${rest}`, `bü${rest}.example`]) {
      assert.equal(toAscii(name), undefined, name)
      assert.equal(parseAddress(`ann@${name}`), undefined, name)
    }
})

test('a family has the domain, its subdomains and its parents up to the public suffix (D22)', () => {
  for (const [domain, other, kin] of [
    ['a.example', 'a.example', true],
    ['a.example', 'b.a.example', true],
    ['a.example', 'c.b.a.example', true],
    ['b.a.example', 'a.example', true],
    ['c.b.a.example', 'a.example', true],
    ['a.example', 'example', false],
    ['a.example', 'b.example', false],
    ['b.a.example', 'c.a.example', false],
    ['a.example', 'ba.example', false],
    ['ba.example', 'a.example', false],
    ['mail.firm.co.uk', 'firm.co.uk', true],
    ['mail.firm.co.uk', 'co.uk', false],
    ['firm.co.uk', 'co.uk', false],
    ['firm.co.uk', 'other.co.uk', false],
    ['firm.com', 'com', false],
    // Below a privately run suffix everybody is a stranger.
    ['me.github.io', 'github.io', false],
    ['me.github.io', 'you.github.io', false],
    ['xn--bcher-kva.example', 'www.xn--bcher-kva.example', true],
  ] as const)
    assert.equal(inFamily(domain, other), kin, `${other} for ${domain}`)
  assert.equal(organisationalDomain('a.b.firm.co.uk'), 'firm.co.uk')
  assert.equal(organisationalDomain('co.uk'), undefined)
})

test('a return path token has 26 lower-case characters, is read in any case, and is invalid if changed', () => {
  const keyring = new Keyring(Buffer.alloc(32, 7))
  const other = new Keyring(Buffer.alloc(32, 8))
  const seen = new Set<string>()
  for (const key of [1, 2, 255, 256, 65_535, 1_000_000, 2 ** 32, 2 ** 47]) {
    const token = returnPathToken(keyring, key)
    assert.match(token, /^[a-z2-7]{26}$/)
    assert.ok(!seen.has(token))
    seen.add(token)
    assert.equal(readReturnPathToken(keyring, token), key)
    assert.equal(readReturnPathToken(keyring, token.toUpperCase()), key)
    assert.equal(
      readReturnPathToken(
        keyring,
        token.replace(/[a-z]/, (letter) => letter.toUpperCase()),
      ),
      key,
    )
    assert.equal(readReturnPathToken(other, token), undefined, 'another instance')
  }
  for (const foreign of ['', 'a', 'bounce', 'a'.repeat(26), '1'.repeat(26), 'ä'.repeat(26), `${'a'.repeat(25)}=`])
    assert.equal(readReturnPathToken(keyring, foreign), undefined, foreign)
  const token = returnPathToken(keyring, 42)
  for (const longer of [`${token}a`, `a${token}`, `${token}aaaaaaaa`, token.slice(1), token.slice(0, -1)])
    assert.equal(readReturnPathToken(keyring, longer), undefined, longer)
})

test('rejects every other character at every position of a return path token', () => {
  const keyring = new Keyring(Buffer.alloc(32, 7))
  const token = returnPathToken(keyring, 42)
  for (let place = 0; place < token.length; place++)
    for (const character of 'abcdefghijklmnopqrstuvwxyz234567') {
      const forged = token.slice(0, place) + character + token.slice(place + 1)
      if (forged !== token)
        assert.equal(readReturnPathToken(keyring, forged), undefined, `${character} at place ${place}`)
    }
})
