// Messages on the wire, checked by other software: mailparser parses them, mailauth verifies the signature. RFC 5322
// §2.1.1, RFC 2045 §6.7, RFC 2047 §2, RFC 6376.
import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { test } from 'node:test'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { simpleParser, type ParsedMail } from 'mailparser'
import { parseAddress, type Address } from '../../src/message/address.ts'
import { compose, rfc5322Date, stuffDots, type Mail } from '../../src/message/compose.ts'
import { sign } from '../../src/message/dkim.ts'
import { encodeBytes, encodingOf, mostBytes } from '../../src/message/bytes.ts'
import { encodeQuotedPrintable } from '../../src/message/quoted-printable.ts'
import { randomText } from '../kit/letters.ts'
import { seeded } from '../kit/seeded.ts'

const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
const p = publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
const published = async (name: string): Promise<string[][]> =>
  name === 'one._domainkey.here.example' ? [['v=DKIM1; k=rsa; p=', p]] : []

const ann: Address = parseAddress('ann@here.example')!
const bob: Address = parseAddress('bob@there.example')!
const model: Mail = {
  from: ann,
  to: [bob],
  cc: [],
  replyTo: [],
  subject: 'A subject',
  html: '<p>Hello</p>',
  text: 'Hello',
  attachments: [],
  messageId: '<0190a5c0-0000-7000-8000-000000000001@here.example>',
  date: Date.UTC(2026, 10, 20, 16, 53, 57),
  extra: [
    ['Feedback-ID', '0:0190a5c0:transactional:here.example'],
    ['CFBL-Address', 'fbl@bounce.here.example; report=arf'],
  ],
  tracking: null,
}
const whole = (mail: Mail): string => [...compose(mail)].join('')
const signed = (mail: Mail): string =>
  sign(whole(mail), { domain: 'here.example', selector: 'one', privateKey, time: model.date })
const verify = async (raw: string) => (await dkimVerify(Buffer.from(raw), { resolver: published })).results

/** The header fields of the message, unfolded. */
function fieldsOf(raw: string): [name: string, value: string][] {
  const header = raw.slice(0, raw.indexOf('\r\n\r\n'))
  return header
    .replace(/\r\n([ \t])/g, '$1')
    .split('\r\n')
    .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)])
}

/** The rules of form for every message. */
function checkForm(raw: string): void {
  // oxlint-disable-next-line no-control-regex
  assert.doesNotMatch(raw, /[^\t\r\n\x20-\x7e]/, '7-bit, and no control characters')
  assert.doesNotMatch(raw, /\r(?!\n)|(?<!\r)\n/, 'CRLF only')
  for (const line of raw.split('\r\n')) assert.ok(line.length <= 998, `a line of ${line.length} octets`)
  const header = raw.slice(0, raw.indexOf('\r\n\r\n')).split('\r\n')
  for (const line of header) assert.match(line, /^([!-9;-~]+:|[ \t])/, 'a field or its continuation')
  // RFC 5322 §3.2.2: folding never makes a line of white space alone.
  for (const line of header) assert.match(line, /[^ \t]/)
  // RFC 2047 §2: a line that holds an encoded word has at most 76 characters.
  for (const line of header) assert.ok(line.length <= 76 || !/=\?utf-8\?/i.test(line), `${line.length}: ${line}`)
  const count = new Map<string, number>()
  for (const [name] of fieldsOf(raw)) count.set(name.toLowerCase(), (count.get(name.toLowerCase()) ?? 0) + 1)
  for (const name of ['from', 'to', 'subject', 'date', 'message-id', 'mime-version', 'content-type', 'dkim-signature'])
    assert.equal(count.get(name), 1, `exactly one ${name}`)
  for (const [name, times] of count) assert.equal(times, 1, `${name} stands ${times} times`)
  assert.ok(!count.has('bcc'))
  for (const [word, charset, form, text] of raw.matchAll(/=\?([^?\s]+)\?([BQ])\?([^?\s]*)\?=/gi)) {
    assert.ok(word.length <= 75, `an encoded word of ${word.length} characters`)
    assert.equal(charset!.toUpperCase(), 'UTF-8')
    const bytes =
      form!.toUpperCase() === 'B'
        ? Buffer.from(text!, 'base64')
        : Buffer.from(
            text!
              .replaceAll('_', ' ')
              .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
            'latin1',
          )
    // Each word holds whole characters (RFC 2047 §5).
    assert.doesNotThrow(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes), word)
  }
}

const parse = (raw: string): Promise<ParsedMail> =>
  simpleParser(raw, { skipHtmlToText: true, skipTextToHtml: true, skipTextLinks: true, skipImageLinks: true })

/** Line ends are LF when read back, and the last one belongs to the part, not to the text. */
const body = (text: string): string => text.toWellFormed().replace(/\r\n?/g, '\n').replace(/\n+$/, '')
// oxlint-disable-next-line no-control-regex
const spaced = (text: string): string => text.toWellFormed().replace(/[\u0000-\u0008\u000a-\u001f\u007f]+/g, ' ')
/** White space at the ends of a field is not content (RFC 5322 §2.2). */
const field = (text: string): string => spaced(text).replace(/^[ \t]+|[ \t]+$/g, '')

/** Composes, signs, checks the form, reads back, verifies. */
async function checkMail(mail: Mail): Promise<string> {
  const raw = signed(mail)
  checkForm(raw)
  const parsed = await parse(raw)
  assert.equal(parsed.subject ?? '', field(mail.subject), 'subject')
  // A blank body has no part.
  const shows = (text: string | null): boolean => text !== null && /\S/.test(text)
  assert.equal(body(parsed.html || ''), shows(mail.html) ? body(mail.html) : '', 'html')
  if (mail.text !== null && shows(mail.text)) assert.equal(body(parsed.text ?? ''), body(mail.text), 'text')
  assert.equal(parsed.messageId, mail.messageId)
  assert.equal(parsed.date?.getTime(), mail.date)
  const read = (value: ParsedMail['from'] | ParsedMail['to']) =>
    [value ?? []].flat().flatMap((list) => list.value.map(({ address, name }) => ({ address, name })))
  const wanted = (list: readonly Address[]) => list.map(({ address, name }) => ({ address, name: field(name) }))
  assert.deepEqual(read(parsed.from), wanted([mail.from]))
  assert.deepEqual(read(parsed.to), wanted(mail.to))
  assert.deepEqual(read(parsed.replyTo), wanted(mail.replyTo))
  const [result] = await verify(raw)
  assert.equal(result?.status.result, 'pass', JSON.stringify(result?.status))
  // DATA carries the same bytes, dots stuffed and one final dot (RFC 5321 §4.5.2).
  const wire = `${stuffDots(raw)}.\r\n`
  assert.ok(wire.endsWith('\r\n.\r\n'))
  assert.equal(wire.indexOf('\r\n.\r\n'), wire.length - 5, 'the final dot is the only one')
  assert.equal(wire.slice(0, -3).replaceAll('\r\n.', '\r\n'), raw)
  return raw
}

const HOSTILE: Record<string, string> = {
  'bare CR': 'one\rtwo\r\rthree\r',
  'bare LF': 'one\ntwo\n\nthree\n',
  'CR LF and a field': 'x\r\nBcc: eve@evil.example\r\n\r\ninjected',
  NUL: 'a\0b\0',
  'bare dots': '.\r\n..\r\n.\r\n\r\n.\r\nMAIL FROM:<x@y.example>\r\n.x',
  'only a dot': '.',
  'From lines': 'From here\nFrom there\n>From x\nFROM\nFrom:',
  'white space at line ends': 'one \ntwo\t\n \n\t \nthree  ',
  'encoded word look-alikes': '=?utf-8?Q?=41?= =?x =?= =20 ?=',
  'quoted-printable look-alikes': '=\n=41=\n=3D=0D=0A= \n==',
  emoji: '👩‍👩‍👧‍👦🇩🇪✅'.repeat(20),
  'right to left': 'שלום \u202eevil\u202c مرحبا',
  'lone surrogates': 'a\ud800b\udc00c\udfff',
  'no-break spaces': '\u00a0a\u00a0\u00a0b\u202f\u2007',
  'line and paragraph separators': 'a\u2028b\u2029c\u0085d',
  'form feeds and vertical tabs': 'a\fb\vc\f\n\v\n',
  'only form feeds': '\f\v\f',
  'DEL, ESC and C1': 'a\u007f\u001b[2Jb\u009fc',
  'byte order mark': '\ufeffhello\ufeff',
  'combining marks': `e${'\u0301'.repeat(200)}`,
  empty: '',
  blank: ' ',
  'blank lines': '\r\n\r\n \r\n\t\r\n',
  'tabs inside': 'a\tb\t\tc',
  'many spaces': `a${' '.repeat(300)}b`,
  'words past the fold': 'word '.repeat(190).trim(),
  'a word of 900': 'w'.repeat(900),
  'a word of 901': 'w'.repeat(901),
  'a word of 998': 'w'.repeat(998),
  'a long non-ASCII word': 'ä'.repeat(499),
  'quotes and commas': '"A", <b@c.example>; (d) \\ [e]',
  boundaries: '--=_0190a5c000007000800000000000000001herexa\n--\n---',
}

test('hostile subjects and bodies stay well-formed, and every parser reads them unchanged', async (t) => {
  for (const [name, text] of Object.entries(HOSTILE)) {
    await t.test(`${name}, in text and html`, () =>
      checkMail({ ...model, subject: text, html: text, text }).then(() => {}),
    )
    await t.test(`${name}, html alone`, () => checkMail({ ...model, html: text, text: null }).then(() => {}))
  }
})

test('hostile display names give one address each, with the name unchanged', async (t) => {
  for (const [title, name] of Object.entries(HOSTILE).filter(([, text]) => text.length <= 400)) {
    const trimmed = field(name)
    await t.test(title, async () => {
      const person = (address: string): Address => ({ ...parseAddress(address)!, name: trimmed })
      const raw = signed({ ...model, from: person('ann@here.example'), to: [person('bob@there.example')] })
      checkForm(raw)
      const parsed = await parse(raw)
      for (const [list, address] of [
        [parsed.from, 'ann@here.example'],
        [parsed.to, 'bob@there.example'],
      ] as const) {
        const found = [list!].flat().flatMap(({ value }) => value)
        assert.equal(found.length, 1, JSON.stringify(found))
        assert.equal(found[0]!.address, address)
        // Runs of white space in a phrase are one space to a reader (RFC 5322 §3.2.2).
        const one = (text: string): string => text.replace(/[ \t]+/g, ' ').trim()
        assert.equal(one(found[0]!.name), one(trimmed))
      }
      assert.equal((await verify(raw))[0]?.status.result, 'pass')
    })
  }
})

test('the longest display name that the address parser accepts fits in a line', () => {
  // The parser accepts 1,000 characters in total. The field adds its own name to them.
  for (const [open, close, filler] of [
    ['"', '" <ann@here.example>', 'a'],
    ['"', '" <ann@here.example>', 'a.'],
    ['"', '" <ann@here.example>', '\\"'],
    ['"', '" <ann@here.example>', 'Ann B. '],
    ['', ' <ann@here.example>', 'Ann '],
    ['', ' <ann@here.example>', 'Ä'],
  ] as const) {
    const room = 1000 - open.length - close.length
    const written = `${open}${filler.repeat(Math.floor(room / filler.length))}${close}`
    const address = parseAddress(written)
    assert.ok(address, `${filler}: accepted`)
    checkForm(signed({ ...model, from: address, replyTo: [address] }))
  }
})

test('lines with encoded words have at most 76 characters, including field name and address', () => {
  const fill = 'd'.repeat(60)
  for (let length = 1; length <= 160; length++)
    for (const letter of ['ä', 'a']) {
      const name = `${letter.repeat(length)} ö`
      const person: Address = { ...bob, name, address: `b@${fill}.${fill}.example` }
      const raw = signed({
        ...model,
        subject: name,
        from: { ...ann, name },
        to: [{ ...bob, name }, person],
        cc: [person],
      })
      checkForm(raw)
      const [, subject] = /^Subject: (.*)$/m.exec(raw)!
      assert.ok(
        length < 60 || subject!.length >= 76 - 'Subject: '.length - 6,
        `a line of ${subject!.length} characters`,
      )
    }
})

test('folds long ASCII names instead of encoding them', async () => {
  const plain = 'The Very Reverend Ann Other of There and Elsewhere'
  for (const name of [`${plain} `.repeat(7).trim(), `${plain}, Esq. `.repeat(6).trim(), `x${'y'.repeat(300)}`]) {
    const raw = await checkMail({ ...model, from: { ...ann, name }, to: [{ ...bob, name }] })
    assert.doesNotMatch(raw, /=\?utf-8/i)
    if (name.includes(' ')) for (const line of raw.split('\r\n').slice(8)) assert.ok(line.length <= 78, line)
  }
})

const attached = (content: string | Buffer, contentType: string, filename = 'a.txt'): Mail['attachments'][number] => ({
  filename,
  contentType,
  contentId: null,
  disposition: 'attachment',
  bytes: () => Buffer.from(content),
})

test('sends attached ASCII text unencoded if possible, and every attachment survives byte for byte', async () => {
  const csv = 'id,name\r\n1,Ann Other\r\n2,Bob There\r\n'
  const unix = csv.repeat(20).replaceAll('\r', '')
  for (const [content, type, encoding] of [
    [csv, 'text/csv', '7bit'],
    [csv.trim(), 'text/csv', '7bit'],
    ['', 'text/plain', '7bit'],
    [csv.repeat(30_000), 'text/csv; charset=us-ascii', '7bit'],
    [`${'x'.repeat(998)}\r\n`, 'text/plain', '7bit'],
    // Bytes that could change in transport are escaped.
    [unix, 'text/csv', 'quoted-printable'],
    [unix.replaceAll('\n', '\r'), 'text/csv', 'quoted-printable'],
    [unix.repeat(1000), 'text/csv', 'quoted-printable'],
    [`${'x'.repeat(999)}\r\n`, 'text/plain', 'quoted-printable'],
    [`${csv}white space at the end of a line \r\n`, 'text/csv', 'quoted-printable'],
    [`${csv}white space at the end\t`, 'text/csv', 'quoted-printable'],
    [`${csv}.\r\n`, 'text/csv', 'quoted-printable'],
    [`${csv}From here\r\n`, 'text/csv', 'quoted-printable'],
    [`${csv}--=_mix_0190a5c0000070008000000000000001\r\n`, 'text/csv', 'quoted-printable'],
    ['a,b\n1,2\n', 'text/csv', 'quoted-printable'],
    ['one\ntwo\n', 'text/plain', 'quoted-printable'],
    ['\n'.repeat(5000), 'text/plain', 'quoted-printable'],
    // Large, and base64 is shorter.
    ['\n'.repeat(70_000), 'text/plain', 'base64'],
    ['='.repeat(70_000), 'text/plain', 'base64'],
    [`${csv}é`, 'text/csv; charset=utf-8', 'base64'],
    [Buffer.from('Ann', 'utf16le'), 'text/plain; charset=utf-16', 'base64'],
    [csv, 'application/json', 'base64'],
  ] as const) {
    const what = `${type}, ${JSON.stringify(String(content).slice(-60))}`
    const raw = await checkMail({ ...model, attachments: [attached(content, type)] })
    const [, shown] = /Content-Disposition: attachment.*\r\nContent-Transfer-Encoding: (.*)\r\n/.exec(raw)!
    assert.equal(shown, encoding, what)
    const { attachments } = await parse(raw)
    assert.equal(attachments.length, 1, what)
    assert.ok(attachments[0]!.content.equals(Buffer.from(content)), what)
  }
})

test('lines that end with LF are lines of the message source', () => {
  const lines = (text: string): string => [...encodeBytes(Buffer.from(text), 'quoted-printable')].join('')
  assert.equal(lines('a,b\n1,2\n'), 'a,b=0A=\r\n1,2=0A\r\n')
  assert.equal(lines('one\n\n.two\nthree'), 'one=0A=\r\n=0A=\r\n=2Etwo=0A=\r\nthree\r\n')
})

test('attached texts of every kind fit their size estimate, and survive byte for byte (seeded)', async () => {
  const TOKENS = [
    '\r\n',
    '\n',
    '\r',
    ' ',
    '\t',
    '.',
    'F',
    'From ',
    '-',
    '--=_',
    '=',
    '==',
    'word ',
    'x'.repeat(70),
    'y'.repeat(900),
  ]
  for (let seed = 1; seed <= 120; seed++) {
    const random = seeded(seed)
    const kinds = TOKENS.slice(0, 1 + Math.floor(random() * TOKENS.length)).concat('a text of some words', 'z')
    const text = Array.from({ length: 200 }, () => kinds[Math.floor(random() * kinds.length)]).join('')
    // Past the edges at which long texts are cut.
    const content = Buffer.from(seed % 10 === 0 ? text.repeat(1 + Math.floor(500_000 / text.length)) : text)
    const encoding = encodingOf('text/plain', content)
    const encoded = [...encodeBytes(content, encoding)].join('')
    assert.ok(encoded.length <= mostBytes(content.length) + 2, `seed ${seed}: ${encoding}`)
    const raw = `Content-Type: multipart/mixed; boundary="=_mix_1"\r\n\r\n--=_mix_1\r\nContent-Type: text/plain\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n${encoded}--=_mix_1--\r\n`
    const { attachments } = await parse(raw)
    assert.ok(attachments[0]?.content.equals(content), `seed ${seed}: ${encoding}`)
    for (const line of encoded.split('\r\n')) assert.ok(line.length <= (encoding === '7bit' ? 998 : 76), `seed ${seed}`)
  }
})

test('writes long ASCII file names unencoded, each on its own line', async () => {
  for (const [filename, encoded] of [
    [`${'quarterly report '.repeat(14)}.csv`, false],
    ['"'.repeat(255), false],
    [`${'Ü'.repeat(60)}.csv`, true],
    [`${'"'.repeat(254)}Ü`, true],
  ] as const) {
    const raw = await checkMail({ ...model, attachments: [attached('a', 'text/csv', filename)] })
    assert.equal(/filename\*/.test(raw), encoded, filename)
    const { attachments } = await parse(raw)
    assert.equal(attachments[0]?.filename, filename)
    if (!encoded) assert.equal(raw.split('\r\n').filter((line) => /^ (?:file)?name=".*";?$/.test(line)).length, 2)
  }
})

test('bodies around the line limit: 997, 998 and 999 bytes, and 3 MB in one line', async () => {
  for (const length of [75, 76, 77, 996, 997, 998, 999, 1000, 2000]) {
    const line = 'x'.repeat(length)
    await checkMail({ ...model, html: line, text: `${line}\n${line}\r\n.${line}` })
    // Trailing white space and non-ASCII at the same places.
    await checkMail({ ...model, html: `${line} \n`, text: `${line}é` })
  }
  const html = `<p>${'a long line, ü '.repeat(200_000)}</p>`
  assert.ok(Buffer.byteLength(html) > 3_000_000)
  await checkMail({ ...model, html })
  await checkMail({ ...model, html: 'y'.repeat(3_000_000), text: null })
})

test('quoted-printable has lines of at most 76, keeps every byte, and survives relays', () => {
  // Deterministic bytes of every kind around each column.
  for (let pad = 0; pad < 80; pad++) {
    for (const text of [' ', '\t', '=', '.', 'F', 'é', '😀', ' \r\n', '\t\r\n.\r\nFrom', 'x\r\n']) {
      const source = `${'a'.repeat(pad)}${text}`
      const encoded = encodeQuotedPrintable(source)
      for (const line of encoded.split('\r\n')) {
        assert.ok(line.length <= 76, `${line.length} characters`)
        assert.doesNotMatch(line, /[ \t]$|^\.|^From /)
      }
      const decoded = encoded
        .replaceAll('=\r\n', '')
        .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
      assert.equal(Buffer.from(decoded, 'latin1').toString('utf8'), source)
    }
  }
})

test('120 random emails (seeded) are well-formed, parse the same everywhere, and verify', async () => {
  for (let seed = 1; seed <= 120; seed++) {
    const random = seeded(seed)
    const name = (): string => field(randomText(random, 40)).replace(/\s+/g, ' ').trim()
    const mail: Mail = {
      ...model,
      from: { ...ann, name: name() },
      to: [{ ...bob, name: name() }],
      subject: randomText(random, 200),
      html: randomText(random, 1500),
      text: random() < 0.3 ? null : randomText(random, 1500),
    }
    const raw = signed(mail)
    try {
      checkForm(raw)
      const parsed = await parse(raw)
      const one = (text: string): string => text.replace(/\s+/g, ' ').trim()
      assert.equal(one(parsed.subject ?? ''), one(field(mail.subject)))
      assert.equal(body(parsed.html || ''), body(mail.html))
      if (mail.text !== null) assert.equal(body(parsed.text ?? ''), body(mail.text))
      assert.equal(parsed.from?.value.length, 1)
      assert.equal(parsed.from?.value[0]?.address, 'ann@here.example')
      assert.equal(one(parsed.from?.value[0]?.name ?? ''), one(mail.from.name))
      assert.equal((await verify(raw))[0]?.status.result, 'pass')
    } catch (thrown) {
      throw new Error(`seed ${seed}: ${(thrown as Error).message}`, { cause: thrown })
    }
  }
})

test('several recipients and reply addresses with names of every kind survive unchanged', async () => {
  const people = [
    'plain@a.example',
    'Ann Other <ann.other@a.example>',
    '"Other, Ann" <a1@a.example>',
    '"a@b" <a2@a.example>',
    '"Ann \\"the\\" \\\\ Other" <a3@a.example>',
    'Ännchen Öther <a4@a.example>',
    '名前 <a5@a.example>',
    '"=?utf-8?q?x?=" <a6@a.example>',
    'Dr. Ann <a7@a.example>',
    '<a8@a.example>',
  ].map((text) => parseAddress(text)!)
  const raw = await checkMail({ ...model, to: people, replyTo: people })
  // An encoded word is never inside a quoted string or an address (RFC 2047 §5).
  assert.doesNotMatch(raw, /"[^"\r\n]*=\?utf-8\?[bq]\?[^"\r\n]*\?=[^"\r\n]*"/i)
})

test('the signature covers the fields of RFC 6376 and the policy, and detects additional ones', async () => {
  const raw = signed({ ...model, replyTo: [ann] })
  const value = fieldsOf(raw).find(([name]) => name === 'DKIM-Signature')![1]
  const tags = new Map(
    value.split(';').map((tag) => {
      const at = tag.indexOf('=')
      return [tag.slice(0, at).trim(), tag.slice(at + 1).replace(/\s+/g, '')] as const
    }),
  )
  assert.equal(tags.get('v'), '1')
  assert.equal(tags.get('a'), 'rsa-sha256')
  assert.equal(tags.get('c'), 'relaxed/relaxed')
  assert.equal(tags.get('d'), 'here.example')
  assert.equal(tags.get('s'), 'one')
  assert.ok(!tags.has('l'))
  if (tags.has('i')) assert.match(tags.get('i')!, /@(.*\.)?here\.example$/)
  assert.equal(tags.get('t'), String(Date.UTC(2026, 10, 20, 16, 53, 57) / 1000))
  // Each field once more than it occurs (RFC 6376 §8.15), including missing fields.
  const once = [
    'cc',
    'content-transfer-encoding',
    'in-reply-to',
    'list-id',
    'list-unsubscribe',
    'list-unsubscribe-post',
  ]
  const twice = [
    'cfbl-address',
    'content-type',
    'date',
    'feedback-id',
    'from',
    'message-id',
    'mime-version',
    'reply-to',
  ]
  assert.deepEqual(
    tags.get('h')!.split(':').toSorted(),
    [...once, 'references', ...[...twice, 'subject', 'to'].flatMap((name) => [name, name])].toSorted(),
  )
  const more = signed({
    ...model,
    cc: [bob],
    extra: [
      ['In-Reply-To', '<a@here.example>'],
      ['References', '<a@here.example>'],
      ['List-Id', '<list.here.example>'],
    ],
  }).replace(/\r\n\s+/g, ' ')
  for (const name of ['cc', 'in-reply-to', 'references', 'list-id'])
    assert.match(more, new RegExp(`h=[^;]*\\b${name}:${name}\\b`))
})

test('a changed byte breaks the signature, in each signed field and in the body', async () => {
  const raw = signed({ ...model, replyTo: [ann] })
  assert.equal((await verify(raw))[0]?.status.result, 'pass')
  for (const [before, after] of [
    ['From: ann@', 'From: eve@'],
    ['To: bob@', 'To: eve@'],
    ['Reply-To: ann@', 'Reply-To: eve@'],
    ['Subject: A ', 'Subject: B '],
    ['Date: Fri', 'Date: Thu'],
    ['Message-ID: <0', 'Message-ID: <1'],
    ['multipart/alternative', 'multipart/mixed'],
    ['Feedback-ID: 0', 'Feedback-ID: 1'],
    ['CFBL-Address: fbl', 'CFBL-Address: eve'],
    ['<p>Hello', '<p>Hullo'],
  ] as const) {
    assert.ok(raw.includes(before), before)
    assert.notEqual((await verify(raw.replace(before, after)))[0]?.status.result, 'pass', before)
  }
})

test('the signer rejects messages that it would sign incorrectly', () => {
  const signature = { domain: 'here.example', selector: 'one', privateKey, time: model.date }
  const mail = whole(model)
  for (const [message, what] of [
    [mail.replace('Hello', 'H\u00e9llo'), 'an 8-bit body'],
    [mail.replace('Hello', 'H\fllo'), 'a form feed'],
    [mail.replace('\r\n\r\n', '\n\n'), 'bare LF'],
    [`${mail}\r`, 'bare CR'],
    ['From: ann@here.example\r\n\r\n\r\n', 'an empty body'],
    ['From: ann@here.example\r\n', 'no body'],
  ] as const)
    assert.throws(() => sign(message, signature), /DKIM/, what)
  assert.throws(() => sign(mail, { ...signature, domain: 'bücher.example' }), /A-labels/)
  assert.throws(() => sign(mail, { ...signature, selector: 'a; d=evil.example' }), /A-labels/)
})

test('writes a non-ASCII local part unencoded, and the signature verifies', async () => {
  // RFC 6532: such a header is UTF-8. It requires SMTPUTF8, which the client checks.
  const raw = signed({ ...model, to: [parseAddress('Jürgen <jürgen@bücher.example>')!] })
  assert.match(raw, /<jürgen@xn--bcher-kva\.example>/)
  assert.equal((await verify(raw))[0]?.status.result, 'pass')
})

test('dates have the RFC 5322 format in UTC', () => {
  assert.equal(rfc5322Date(Date.UTC(2026, 10, 20, 16, 53, 57)), 'Fri, 20 Nov 2026 16:53:57 +0000')
  assert.equal(rfc5322Date(Date.UTC(2024, 1, 29, 0, 0, 0)), 'Thu, 29 Feb 2024 00:00:00 +0000')
  assert.equal(rfc5322Date(Date.UTC(2026, 0, 1, 5, 6, 7, 999)), 'Thu, 1 Jan 2026 05:06:07 +0000')
})

test('Postrider’s own fields cannot smuggle another field', () => {
  const raw = signed({
    ...model,
    subject: 'x\r\nBcc: eve@evil.example',
    from: { ...ann, name: 'x\r\nSender: eve@evil.example' },
  })
  const names = fieldsOf(raw).map(([name]) => name.toLowerCase())
  assert.ok(!names.includes('bcc'))
  assert.ok(!names.includes('sender'))
})

test('an empty body has no part: html "" sends only text, and a blank text is generated from the html', async () => {
  const file = { filename: 'a.png', contentType: 'image/png', contentId: 'a', disposition: 'inline' as const }
  const attachments = [{ ...file, bytes: () => Buffer.from('file') }]
  for (const html of ['', ' \r\n\t', '\u00a0\ufeff']) {
    const raw = whole({
      ...model,
      html,
      tracking: { base: 'https://t.test/', key: 'a', opens: true, clicks: true } as never,
    })
    assert.match(raw, /^Content-Type: text\/plain; charset=utf-8\r$/m, JSON.stringify(html))
    assert.doesNotMatch(raw, /multipart|text\/html/)
    assert.equal((await simpleParser(raw)).text, 'Hello\n')
    const both = await simpleParser(whole({ ...model, html, attachments }))
    assert.deepEqual([both.text?.trim(), both.html, both.attachments.length], ['Hello', false, 1])
  }
  for (const text of ['', ' \n', '\u00a0\t'])
    assert.equal((await simpleParser(whole({ ...model, text }))).text?.trim(), 'Hello')
  assert.doesNotMatch(whole({ ...model, html: '', text: null }), /multipart|text\/html/)
})

test('the text of a table has a line per row and a space between cells', async () => {
  const row = (...cells: string[]): string => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`
  const html = `<p>Your order:</p><table>${row('4711', '1', '49.90')}${row('4712', '2', '18.00')}</table><table>${row('<p>Bye</p>')}</table>`
  assert.equal(
    (await simpleParser(whole({ ...model, html, text: null }))).text?.trimEnd(),
    'Your order:\n\n4711 1 49.90\n4712 2 18.00\n\nBye',
  )
})
