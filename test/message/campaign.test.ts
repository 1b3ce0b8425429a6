// Merge tags and the email of a campaign: the decoded text is the template with its values, with any content of both.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { describe, test } from 'node:test'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { simpleParser } from 'mailparser'
import {
  compileCampaign,
  fillCampaign,
  signCampaign,
  type CampaignRecipient,
  type CampaignTemplate,
} from '../../src/message/campaign.ts'
import { sign } from '../../src/message/dkim.ts'
import { withFooter } from '../../src/message/footer.ts'
import { stuffDots } from '../../src/message/compose.ts'
import { track, readClickToken } from '../../src/message/tracking.ts'
import { unsigned } from '../kit/letters.ts'
import { cutTemplate, escapeHtml, fill, strayBraces, textOfValue } from '../../src/message/template.ts'

const KEY = Buffer.alloc(32, 7)
const TRACKING = { base: 'https://mx.test', key: KEY.toString('base64'), opens: false, clicks: true }
const LEAVE = 'https://mx.test/u/abc-_123'

const template = (given: Partial<CampaignTemplate> = {}): CampaignTemplate => ({
  id: 't',
  from: { name: '', address: 'noreply@here.test', local: 'noreply', domain: 'here.test' },
  replyTo: [],
  subject: 'Hello',
  html: '<p>Hello</p>',
  text: null,
  extra: [],
  tracking: null,
  seed: 'seed',
  ...given,
})

const recipient = (values: Record<string, string> = {}): CampaignRecipient => ({
  to: { name: values['name'] ?? '', address: 'ann@there.test', local: 'ann', domain: 'there.test' },
  messageId: '<1@here.test>',
  date: 0,
  delivery: 42,
  values,
  extra: [],
})

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 1024 })
const SIGNATURE = { domain: 'here.test', selector: 's', privateKey, time: 0 }

/** The message as the worker sends it, after the checks for every message. */
function wire(given: Partial<CampaignTemplate>, values: Record<string, string> = {}): string {
  const filled = fillCampaign(compileCampaign(template(given)), recipient(values))
  const message = unsigned(filled)
  const signed = sign(message, SIGNATURE)
  // The pieces with their canonical forms give the same mail as the whole text in the hands of the library.
  assert.equal(Buffer.from(signCampaign(filled, SIGNATURE)).toString('latin1'), `${stuffDots(signed)}.\r\n`)
  assert.match(signed, /^[\t\r\n\x20-\x7e]*$/, '7-bit clean')
  assert.doesNotMatch(signed, /\r(?!\n)|(?<!\r)\n/, 'CRLF line ends')
  assert.ok(signed.endsWith('\r\n'))
  for (const line of stuffDots(signed).split('\r\n')) assert.ok(line.length <= 998, `a line of ${line.length} octets`)
  const split = message.indexOf('\r\n\r\n')
  for (const line of message.slice(split + 4).split('\r\n')) {
    assert.ok(line.length <= 76, `a line of ${line.length} octets in a body (RFC 2045 §6.7)`)
    assert.doesNotMatch(line, /^(?:\.|From )|[ \t]$/)
  }
  return signed
}

const lf = (text: string): string => text.replace(/\r\n?/g, '\n')

async function read(given: Partial<CampaignTemplate>, values: Record<string, string> = {}) {
  const options = { skipHtmlToText: true, skipTextToHtml: true, skipImageLinks: true, skipTextLinks: true }
  const mail = await simpleParser(wire(given, values), options as object)
  return { subject: mail.subject ?? '', html: lf((mail.html || '') as string), text: lf(mail.text ?? ''), mail }
}

/** The specification once more, as simply as can be: from brace to brace. */
function rendered(text: string, values: Record<string, string>, form: (value: string) => string): string {
  let output = ''
  let at = 0
  while (at < text.length) {
    if (text.startsWith('{{', at)) {
      const end = text.indexOf('}}', at)
      const name = end < 0 ? '{' : text.slice(at + 2, end)
      // Names are at most 200 letters long.
      if (!/[{}]/.test(name) && name.trim() !== '' && name.trim().length <= 200) {
        const key = name.trim()
        for (const [tag, value] of Object.entries(values)) if (tag === key) output += form(value)
        at = end + 2
        continue
      }
    }
    output += text[at++]
  }
  return output
}
const literal = (value: string): string => value
const escaped = (value: string): string =>
  value
    .split('&')
    .join('&amp;')
    .split('<')
    .join('&lt;')
    .split('>')
    .join('&gt;')
    .split('"')
    .join('&quot;')
    .split("'")
    .join('&#39;')

/** A small seeded generator (mulberry32). */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}

describe('merge tags', () => {
  const VALUES = { name: `Ann <b> & "x" 'y'`, email: 'ann@there.test', plan: 'a\r\nb', größe: 'XL', 日本: '東京' }

  test('escapes values in html, and keeps them literal in subject and text', async () => {
    const tags = 'Dear {{name}}, {{ größe }} {{日本}}.'
    const { html, subject, text } = await read({ subject: tags, html: `<p>${tags}</p>`, text: tags }, VALUES)
    const said = `Dear Ann <b> & "x" 'y', XL 東京.`
    assert.equal(subject, said)
    assert.equal(text.trimEnd(), said)
    assert.equal(html, '<p>Dear Ann &lt;b&gt; &amp; &quot;x&quot; &#39;y&#39;, XL 東京.</p>')
  })

  test('removes CR and LF of values from the subject, and keeps them in the bodies', async () => {
    const { html, subject, text, mail } = await read(
      { subject: '{{evil}} {{plan}}', html: '<pre>{{plan}}</pre>', text: '{{plan}}' },
      { evil: 'x\r\nBcc: all@there.test\r\n\r\nbody\n\r', plan: VALUES.plan },
    )
    assert.equal(subject, 'xBcc: all@there.testbody ab')
    assert.equal(mail.headers.has('bcc'), false)
    assert.equal(html, '<pre>a\nb</pre>')
    assert.equal(text.trimEnd(), 'a\nb')
  })

  const CASES: [what: string, html: string, values: Record<string, string>, expected: string][] = [
    ['unknown tags are empty', '[{{nothing}}][{{ }}][{{}}]', {}, '[][{{ }}][{{}}]'],
    ['what objects inherit is not a value', '[{{__proto__}}{{constructor}}{{toString}}{{hasOwnProperty}}]', {}, '[]'],
    ['names of that kind may be fields', '[{{constructor}}]', { constructor: 'own' } as never, '[own]'],
    ['spaces inside the braces do not count', '{{name}}{{ name }}{{\tname\n}}', { name: 'A' }, 'AAA'],
    ['spaces inside a name do', '{{first name}}|{{ first  name }}', { 'first name': 'A' }, 'A|'],
    ['a tag inside a tag', '{{a{{name}}b}}', { name: 'A', aAb: 'no' }, '{{aAb}}'],
    ['braces around a tag', '{{{name}}}', { name: 'A' }, '{A}'],
    ['braces that are not closed', '{{name {{ name} {name}}', { name: 'A' }, '{{name {{ name} {name}}'],
    ['values that look like tags are not read', '{{a}}{{b}}', { a: '{{b}}', b: '{{a}}' }, '{{b}}{{a}}'],
    ['values that make a tag together do not', '{{a}}{{b}}c}}', { a: '{', b: '{', c: 'no' }, '{{c}}'],
    [
      'a field that holds a program leads nowhere, in words it is words',
      '<a href="{{url}}">{{url}}</a>',
      { url: 'javascript:alert("1")' },
      '<a href="">javascript:alert(&quot;1&quot;)</a>',
    ],
    [
      'nor does one that hides it, in any attribute that leads somewhere',
      '<A HREF={{url}}>a</A><area href=\' {{url}} \'><form action="{{url}}"><button formaction="{{url}}"><iframe src="{{url}}">',
      { url: '\x01 JaVa\tScript\n:x' },
      '<A HREF="">a</A><area href=""><form action=""><button formaction=""><iframe src="">',
    ],
    ['nor one that the template begins', '<a href="java{{url}}">a</a>', { url: 'script:x' }, '<a href="">a</a>'],
    [
      'http, https, mailto and tel lead on, and what has no scheme',
      '<a href="{{a}}"><a href="{{b}}"><a href="{{c}}"><a href="{{d}}"><a href="{{e}}">',
      { a: 'HTTP://x.test', b: 'mailto:a@b.test', c: 'tel:+1', d: '/path?a:b', e: '//x.test' },
      '<a href="HTTP://x.test"><a href="mailto:a@b.test"><a href="tel:+1"><a href="/path?a:b"><a href="//x.test">',
    ],
    [
      "what the sender wrote is the sender's, pictures are not links, and a value ends no attribute",
      '<a href="javascript:own()">a</a><img src="{{b}}"><a href={{c}}>c</a>',
      { b: 'data:x', c: 'x onclick=y' },
      '<a href="javascript:own()">a</a><img src="data:x"><a href="x onclick=y">c</a>',
    ],
    ['dollar patterns mean nothing', '{{a}}', { a: "$& $1 $` $'" }, '$&amp; $1 $` $&#39;'],
    [
      'dots and "From " at line starts',
      '.\n..\nFrom me\n{{a}}\n{{b}}',
      { a: '.', b: 'From you' },
      '.\n..\nFrom me\n.\nFrom you',
    ],
    ['white space at line ends', 'a \nb\t\n {{a}}', { a: ' x \t' }, 'a \nb\t\n  x \t'],
    ['a name of 200 letters', `{{${'n'.repeat(200)}}}`, { ['n'.repeat(200)]: 'A' }, 'A'],
  ]
  for (const [what, html, values, expected] of CASES)
    test(what, async () => {
      assert.equal((await read({ html, text: 'x' }, values)).html, expected)
    })

  test('fills __proto__ if a contact has such a field', async () => {
    const values = JSON.parse('{"__proto__":"own"}') as Record<string, string>
    assert.equal((await read({ html: '[{{__proto__}}]' }, values)).html, '[own]')
  })

  test('fills fields with NUL and lone surrogates', () => {
    assert.equal(textOfValue('a\0b\ud800c\udc00'), 'ab\ufffdc\ufffd')
    assert.equal(textOfValue({ a: 1 }), '')
    assert.equal(textOfValue(null), '')
    assert.equal(textOfValue([1]), '')
    assert.equal(textOfValue(1.5), '1.5')
    assert.equal(textOfValue(false), 'false')
  })

  test('hostile names and subjects add neither a header field nor a long line', async () => {
    for (const name of [
      '\0',
      '\ud800',
      '\udc00\ud800',
      '=?utf-8?Q?x?=',
      '"',
      '\\',
      ',;<>@',
      'x'.repeat(255),
      'ü'.repeat(255),
      '😀'.repeat(127),
      ' ',
      '\t',
      'a\r\nBcc: x@y.test',
      '()',
      '.',
      '\u2028\u0085',
    ]) {
      const { mail, subject } = await read({ subject: 'To {{name}}' }, { name })
      assert.deepEqual(mail.headers.has('bcc'), false)
      assert.deepEqual(
        (mail.to as { value: { address?: string }[] }).value.map(({ address }) => address),
        ['ann@there.test'],
        JSON.stringify(name),
      )
      assert.ok(subject.startsWith('To'), JSON.stringify([name, subject]))
    }
  })

  test('fills values of 64 KB, lines of 100 KB and empty values', async () => {
    const long = 'Aé&'.repeat(22_000)
    const line = 'x'.repeat(100_000)
    const { html, subject, text } = await read(
      { subject: 'S {{long}}', html: `${line}{{long}}`, text: `${line}{{long}}` },
      { long },
    )
    assert.equal(subject, `S ${long}`)
    assert.equal(html, line + escaped(long))
    assert.equal(text.trimEnd(), line + long)
    const subjects = await read({ subject: '{{a}}' }, { a: 'word '.repeat(13_000) })
    assert.equal(subjects.subject.trimEnd(), 'word '.repeat(13_000).trimEnd())
    const nothing = await read({ subject: '{{a}}', html: '{{a}}', text: '{{a}}' })
    assert.deepEqual([nothing.subject, nothing.html.trim(), nothing.text.trim()], ['', '', ''])
    wire({ html: '', text: '' })
  })

  test('a last line of any length leaves room for its soft break', async () => {
    for (let length = 60; length <= 160; length++)
      for (const last of ['x', ' ', '=', 'é', '.']) {
        const text = 'x'.repeat(length) + last
        const { html } = await read({ html: `${text}{{a}}`, text: `${text}{{a}}` }, { a: text })
        assert.equal(html, text + text)
      }
  })

  test('fills any template with any values as specified (seeded)', async () => {
    const random = seeded(Number(process.env['POSTRIDER_SEED'] ?? 1))
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
    const TEXT = [
      'a',
      'word ',
      ' ',
      '  ',
      '\t',
      '\n',
      '\r\n',
      '\n\n',
      '.',
      '\n.',
      '\nFrom ',
      '=',
      '=3D',
      '=\n',
      'é',
      '日本語',
      '😀',
      '<b>',
      '</p>',
      '&amp;',
      '&',
      '"',
      "'",
      '{',
      '}',
      '{{',
      '}}',
      '--',
      '--=_alt_seed',
      'x'.repeat(75),
      'y'.repeat(80),
      'z'.repeat(1000),
      'ÿ'.repeat(30),
      '\u2028',
      '\u0085',
      '\u00a0',
      '\ufeff',
      '$&',
    ]
    const NAMES = ['name', 'email', 'größe', 'first name', '__proto__', 'a.b', 'a-b', '0', 'unknown', '$&', '日本']
    const some = (most: number): string =>
      Array.from({ length: Math.floor(random() * most) }, () => pick(TEXT)).join('')
    for (let n = 0; n < 400; n++) {
      const values = Object.create(null) as Record<string, string>
      // A value's line breaks are its own: they do not join with those around it.
      for (const name of NAMES) if (name !== 'unknown' && random() < 0.8) values[name] = some(8)
      const make = (): string =>
        `<${Array.from({ length: Math.floor(random() * 30) }, () => (random() < 0.3 ? `{{${pick(['', ' ', '\t'])}${pick(NAMES)}${pick(['', ' '])}}}` : pick(TEXT))).join('')}>`
      const [html, text, subject] = [make(), make(), make().replace(/[\r\n]/g, '')]
      const got = await read({ html, text, subject }, values)
      const why = JSON.stringify({ n, html, values })
      assert.equal(got.html, lf(rendered(html, values, escaped)), why)
      assert.equal(got.text, lf(rendered(text, values, literal)), why)
      const plain = (value: string): string => value.replace(/\s+/g, ' ').trim()
      assert.equal(plain(got.subject), plain(rendered(subject, values, (value) => value.replace(/[\r\n]/g, ''))), why)
    }
  })
})

describe('tracked links of a campaign', () => {
  const links = async (html: string, values: Record<string, string> = {}, more: Partial<typeof TRACKING> = {}) => {
    const got = (await read({ html, tracking: { ...TRACKING, ...more } }, values)).html
    return got.replace(/https:\/\/mx\.test\/t\/c\/([\w-]+)/g, (_, token: string) => {
      const { delivery, url } = readClickToken(KEY, token)!
      assert.equal(delivery, 42)
      return `T(${url})`
    })
  }

  const CASES: [what: string, html: string, values: Record<string, string>, expected: string][] = [
    [
      'a tag inside an address',
      '<a href="https://x.test/?q={{q}}&amp;r=1">l</a>',
      { q: 'a b"c&d' },
      '<a href="T(https://x.test/?q=a%20b%22c%26d&r=1)">l</a>',
    ],
    [
      'references in an address are read',
      '<a href="https://x.test/?a=1&#38;b=&quot;c&#39;&#x27;&lt;">l</a>',
      {},
      `<a href="T(https://x.test/?a=1&b="c''<)">l</a>`,
    ],
    [
      'the ways out are not tracked',
      '<a href="{{unsubscribe_url}}">a</a><a href="{{ unsubscribe_mailto }}">b</a><a href="https://x.test/{{unsubscribe_url}}">c</a>',
      { unsubscribe_url: LEAVE, unsubscribe_mailto: 'mailto:u@here.test' },
      `<a href="${LEAVE}">a</a><a href="mailto:u@here.test">b</a><a href="https://x.test/${LEAVE}">c</a>`,
    ],
    [
      'only the web is tracked',
      '<a href="{{u}}">a</a><a href="mailto:a@b.test">b</a><a href="#c">c</a>',
      { u: 'javascript:alert(1)' },
      '<a href="">a</a><a href="mailto:a@b.test">b</a><a href="#c">c</a>',
    ],
    [
      'filled, it is not an address',
      '<a href="https://{{host}}/">a</a>',
      { host: 'a b"><script>' },
      '<a href="https://a b&quot;&gt;&lt;script&gt;/">a</a>',
    ],
    [
      'a value between two links',
      '<a href="https://x.test/1">{{a}}</a>{{a}}<a href="https://x.test/2">',
      { a: '<i>' },
      '<a href="T(https://x.test/1)">&lt;i&gt;</a>&lt;i&gt;<a href="T(https://x.test/2)">',
    ],
    ['a tag is not cut in two by a link inside its name', '{{<a href="https://x.test/">}}!', {}, '!'],
    ['nor by one that ends inside it', '<a href=https://x.test/{{ a }}>', { a: 'A' }, '<a href=https://x.test/A>'],
    ['nor by quotes in its name', '<a href="https://x.test/{{a"b}}">', { 'a"b': 'A' }, '<a href="https://x.test/A">'],
  ]
  for (const [what, html, values, expected] of CASES)
    test(what, async () => {
      assert.equal(await links(html, values), expected)
    })

  test('no value escapes from its quotes', async () => {
    for (const value of ['"', "'", '>', '" onclick="x', '&quot;', 'x" y', '\n', '</a>', '{{a}}', '\\']) {
      const html = await links('<a href="https://x.test/?{{a}}" title="{{a}}">', { a: value })
      assert.match(html.replace(/T\(.*?\)(?=" title)/s, 'T'), /^<a href="T" title="[^"<>]*">$/, JSON.stringify(value))
    }
  })

  test('puts the pixel before the end of the body, in any case and after any length', async () => {
    const clicks = { clicks: false, opens: true }
    const pixel = /<img src="https:\/\/mx\.test\/t\/o\/[\w-]+\.gif"[^>]*>/
    const html = `<BODY>${'İ'.repeat(20)}</BODY></html>`
    assert.equal((await links(html, {}, clicks)).replace(pixel, '|'), `<BODY>${'İ'.repeat(20)}|</BODY></html>`)
    const seen = '<body>a<!--[if mso]><a href="{{a}}"></body></a><![endif]-->|</body><!-- </body> <a href="{{a}}"> -->'
    const made = await links(seen.replace('|', ''), { a: 'https://x.test' }, clicks)
    assert.equal(made.replace(pixel, '|'), seen.replaceAll('{{a}}', 'https://x.test'))
    const tracking = { ...TRACKING, ...clicks, delivery: 42 }
    assert.equal(track(html, tracking).replace(pixel, '|'), `<BODY>${'İ'.repeat(20)}|</BODY></html>`)
    assert.equal((await links('<p>{{a}}', { a: '</body>' }, clicks)).replace(pixel, '|'), '<p>&lt;/body&gt;|')
  })
})

test('uses the fallback of a tag literally for contacts without the value', () => {
  const pieces = cutTemplate('Dear {{ name | friend &amp; reader }}, {{city|}}{{a|b|c}}{{nothing}}!')
  const filled = (values: Record<string, string>): string => fill(pieces, values, escapeHtml)
  assert.equal(filled({}), 'Dear friend &amp; reader, b|c!')
  assert.equal(filled({ name: '', city: '', a: '' }), 'Dear friend &amp; reader, b|c!')
  assert.equal(filled({ name: 'A & B', city: 'Bergen', a: '<' }), 'Dear A &amp; B, Bergen&lt;!')
  assert.equal(filled({ 'a|b|c': 'field', a: 'x' }), 'Dear friend &amp; reader, field!')
  assert.deepEqual(strayBraces(cutTemplate('{{a}} {{ b<p>x {{c|d}} }} {{')), ['{{ b', '{{'])
})

test('a campaign with an empty html body is one text/plain part with an unsubscribe link', () => {
  for (const html of ['', ' \r\n']) {
    const bodies = withFooter({ html, text: 'Hello {{name}}' }, true)
    const values = { name: 'Ann', unsubscribe_url: LEAVE }
    const message = unsigned(fillCampaign(compileCampaign(template(bodies)), recipient(values)))
    assert.match(message, /^Content-Type: text\/plain; charset=utf-8\r$/m)
    assert.doesNotMatch(message, /multipart|text\/html/)
    assert.match(message, /Hello =\r\nAnn[^]*Unsubscribe: =\r\nhttps:/)
  }
  const made = withFooter({ html: '<p>Hi</p>', text: ' ' }, true)
  assert.match(made.text, /^Hi/)
})

test('the signature over chunks verifies with mailauth, for any chunk borders (seeded)', async () => {
  const random = seeded(Number(process.env['POSTRIDER_SEED'] ?? 3))
  const record = `v=DKIM1; k=rsa; p=${publicKey.export({ type: 'spki', format: 'der' }).toString('base64')}`
  const ENDS = ['', ' ', '  ', '\t', ' \t ', '\r\n', '\n\n', ' \r\n', '.', '\n.', 'a', 'é', '=', 'x'.repeat(75), '   b']
  const some = (): string =>
    Array.from({ length: Math.floor(random() * 4) }, () => ENDS[Math.floor(random() * ENDS.length)]).join('')
  for (let n = 0; n < 300; n++) {
    const text = `${some()}{{a}}${some()}{{b}}${some()}`
    const values = { a: some(), b: some(), name: some().replace(/[\r\n]/g, '') }
    const html = n % 3 === 0 ? '' : `${text}<a href="https://x.test/{{a}}">${text}</a>`
    const tracking = n % 2 === 0 ? { ...TRACKING, opens: true } : null
    const compiled = compileCampaign(template({ html, text, subject: `S ${text}`, tracking }))
    const raw = Buffer.from(signCampaign(fillCampaign(compiled, recipient(values)), SIGNATURE)).toString('latin1')
    assert.ok(raw.endsWith('\r\n.\r\n'))
    assert.doesNotMatch(raw.slice(0, -3), /^\.(?!\.)/m, 'a dot alone at a line start would end the mail or be lost')
    const sent = raw.slice(0, -3).replace(/^\.\./gm, '.')
    const judged = async (mail: string): Promise<string | undefined> =>
      (await dkimVerify(Buffer.from(mail), { resolver: async () => [[record]], minBitLength: 1024 })).results[0]?.status
        .result
    const why = JSON.stringify({ n, text, values })
    assert.equal(await judged(sent), 'pass', why)
    assert.notEqual(await judged(sent.replace(/\r\n\r\n/, '\r\n\r\nx')), 'pass', why)
    assert.notEqual(await judged(`To: x@evil.example\r\n${sent}`), 'pass', why)
  }
})
