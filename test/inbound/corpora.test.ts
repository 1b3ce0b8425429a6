// The results of reading any message (decisions D47, D48): public corpora, charsets, names, damage. Each message goes
// through the worker thread of the server.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { InboundAttachment, ParsedBody, ParsedHeader } from '../../src/message/parse.ts'
import { costing } from '../kit/cost.ts'
import { hire, wire, type Threads } from './threads.ts'

const CORPORA = process.env['POSTRIDER_CORPORA'] ?? fileURLToPath(new URL('../../../shared/corpora', import.meta.url))
const MIME = join(CORPORA, 'mime')
const skip = existsSync(MIME) ? false : `no corpus at ${MIME}; set POSTRIDER_CORPORA`
/** Milliseconds of the processor. */
const WORK = 6000

let threads: Threads

before(async () => {
  threads = hire()
  // The first message pays for starting the thread and for its tables of charsets.
  await threads.read('Content-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B$3\x1b(B\n')
})
after(() => threads.close())

/** The parsed message. It must not have been rejected. */
async function parsed(message: string | Buffer): Promise<{ header: ParsedHeader; body: ParsedBody }> {
  const reading = await threads.read(message)
  assert.equal(reading.kind, 'read', reading.kind === 'rejected' ? reading.reason : '')
  const { body, header } = reading as Extract<typeof reading, { kind: 'read' }>
  return { header, body: body! }
}
const bytesOf = async (message: string | Buffer, id: string): Promise<Buffer> => {
  const attachment = (await parsed(message)).body.attachments.find((each) => each.id === id)!
  return Buffer.from((await threads.pool.run({ task: 'attachment', content: wire(message), attachment })) as Uint8Array)
}
const header = async (...lines: string[]): Promise<ParsedHeader> => (await parsed(`${lines.join('\n')}\n\nx\n`)).header
const body = async (...parts: (string | Buffer)[]): Promise<ParsedBody> =>
  (await parsed(Buffer.concat(parts.map((part) => Buffer.from(part))))).body
const only = ({ attachments: [attachment, ...more] }: ParsedBody): InboundAttachment => {
  assert.deepEqual(more, [])
  return attachment!
}

describe('public corpora', () => {
  const files = (folder: string): string[] =>
    skip === false ? readdirSync(join(MIME, folder)).filter((name) => /\.(?:msg|eml)$/.test(name)) : []
  for (const folder of ['testmsgs', 'nodemailer/mailparser', 'nodemailer/postal-mime'])
    test(`${folder}: every message is read with 2 seconds of work`, { skip }, async () => {
      const names = files(folder)
      assert.ok(names.length > 3)
      for (const name of names) {
        const message = readFileSync(join(MIME, folder, name))
        const reading = await costing(WORK, () => threads.read(message))
        assert.equal(reading.kind, 'read', name)
        const { attachments } = (reading as { body: ParsedBody }).body
        for (const { id, size } of attachments) assert.equal((await bytesOf(message, id)).length, size, `${name} ${id}`)
        assert.deepEqual(
          attachments.map(({ id }) => id),
          attachments.map((_, index) => String(index + 1)),
        )
      }
    })

  /** Their attachments, by the parts that the corpus decoded. */
  const DECODED: Record<string, string[]> = {
    'boundary-name-clash.msg': ['1_2.bin'],
    'example.msg': ['1_2.bin', '1_3.bin', '1_4.txt'],
    'multipartnestedemptyparts.msg': ['1_1.txt'],
    'russian-headers.msg': ['1.txt'],
    'simple-attachment.msg': ['1_2.bin'],
  }
  for (const [name, parts] of Object.entries(DECODED))
    test(`${name}: attachments equal those of the corpus, byte by byte`, { skip }, async () => {
      const message = readFileSync(join(MIME, 'testmsgs', name))
      const { attachments } = (await parsed(message)).body
      assert.equal(attachments.length, parts.length)
      for (const [index, part] of parts.entries()) {
        const wanted = readFileSync(join(MIME, 'testmsgs', `${basename(name, '.msg')}_decoded_${part}`))
        assert.deepEqual(await bytesOf(message, String(index + 1)), wanted, part)
      }
    })

  /**
   * Their text, by the part that the corpus decoded. Left out: two whose boundary ends with a space, which RFC 2046
   * §5.1.1 does not allow, and one with a header that ends at a line of a space: its text begins behind it.
   */
  const TEXTS: Record<string, string> = {
    'base64-encoded-text.msg': '1.txt',
    'basic-plain.msg': '1.txt',
    'basic-plain-very-long-lines.msg': '1.txt',
    'boundary-name-clash.msg': '1_1_1.txt',
    'example.msg': '1_1.txt',
    'misplaced-boundary.msg': '1_1.txt',
    'qp-body.msg': '1.txt',
    'simple-attachment.msg': '1_1.txt',
  }
  for (const [name, part] of Object.entries(TEXTS))
    test(`${name}: the text equals that of the corpus`, { skip }, async () => {
      const charset = /charset="?([\w-]+)/i.exec(readFileSync(join(MIME, 'testmsgs', name), 'latin1'))?.[1] ?? 'utf-8'
      const wanted = readFileSync(join(MIME, 'testmsgs', `${basename(name, '.msg')}_decoded_${part}`))
      const { text } = (await parsed(readFileSync(join(MIME, 'testmsgs', name)))).body
      assert.equal(text?.trimEnd(), new TextDecoder(charset).decode(wanted).replaceAll('\r\n', '\n').trimEnd())
    })
})

describe('charsets', () => {
  const part = (charset: string): string => `Content-Type: text/plain; charset=${charset}\n\n`
  const octets = (...each: number[]): Buffer => Buffer.from(each)
  const CASES: Record<string, [Buffer | string, string]> = {
    'iso-2022-jp': [`\x1b$B$3$s$K$A$O\x1b(B`, 'こんにちは'],
    'windows-1251': [octets(0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2), 'Привет'],
    'koi8-r': [octets(0xf0, 0xd2, 0xc9), 'При'],
    gb18030: [octets(0xc4, 0xe3, 0xba, 0xc3), '你好'],
    big5: [octets(0xa7, 0x41), '你'],
    'euc-kr': [octets(0xbe, 0xc8), '안'],
    'iso-8859-15': [octets(0xa4), '€'],
    'UTF-8': ['héllo €', 'héllo €'],
    '"utf8"': ['héllo', 'héllo'],
    // Like browsers, the library does not decode it, because it would hide markup from filters.
    'utf-7': ['Hi +Jjo-', 'Hi +Jjo-'],
    // A wrong or missing charset: it is detected.
    'us-ascii': ['é €', 'é €'],
    'x-klingon': ['abc é', 'abc é'],
    '""': ['abc é', 'abc é'],
  }
  for (const [charset, [said, wanted]] of Object.entries(CASES))
    test(charset, async () => {
      assert.equal((await body(part(charset), said)).text?.trim(), wanted)
    })
  test('bytes that are invalid in the charset are replaced, and the text is kept', async () => {
    assert.match((await body(part('utf-8'), 'abc ', octets(0xe9), ' def')).text!, /^abc .{1,2} def/u)
  })
  test('detects the charset if it is missing', async () => {
    assert.equal((await body('Subject: x\n\né €')).text, 'é €')
  })
  test('a charset bomb of a megabyte', async () => {
    const bomb = '\x1b$B$3\x1b(B'.repeat(125_000).replace(/.{64}/g, '$&\n')
    await costing(WORK, () => body(part('iso-2022-jp'), bomb))
  })
})

describe('attachments', () => {
  const NAMES: Record<string, [string, string]> = {
    'a plain name': ['application/pdf; name=a.pdf', 'a.pdf'],
    'RFC 2231 with a charset': [`application/pdf; name*=iso-8859-1'de'%fcber.pdf`, 'über.pdf'],
    'RFC 2231 in pieces': [`application/pdf; name*0*=utf-8''%C3%BC; name*1*=%20b; name*2=.pdf`, 'ü b.pdf'],
    'RFC 2231 in pieces out of order': ['application/pdf; name*1=b; name*0=a; name*2=.pdf', 'ab.pdf'],
    'RFC 2231 before the plain name': [`application/pdf; name=a.pdf; name*=utf-8''%C3%BC.pdf`, 'ü.pdf'],
    'an encoded word': ['application/pdf; name="=?utf-8?B?w7wucGRm?="', 'ü.pdf'],
    'raw UTF-8': ['application/pdf; name="ü.pdf"', 'ü.pdf'],
    'quotes in it': ['application/pdf; name="a\\"b.pdf"', 'a"b.pdf'],
  }
  for (const [label, [type, name]] of Object.entries(NAMES))
    test(label, async () => {
      const attachment = only(await body(`Content-Type: ${type}\nContent-Disposition: attachment\n\nx\n`))
      assert.equal(attachment.filename, name)
    })

  test('5,000 pieces of one name cost no time', async () => {
    const pieces = Array.from({ length: 5000 }, (_, n) => ` name*${n}=a;\n`).join('')
    const { filename } = only(await costing(WORK, () => body(`Content-Type: application/pdf;\n${pieces} x=y\n\nx\n`)))
    assert.ok(filename!.length <= 1000)
  })

  test('winmail.dat is kept unchanged', async () => {
    const message = `Content-Type: multipart/mixed; boundary=b\n\n--b\n\ntext\n--b\nContent-Type: application/ms-tnef; name="winmail.dat"\nContent-Transfer-Encoding: base64\n\neJ8+Ig==\n--b--\n`
    const attachment = only(await body(message))
    assert.deepEqual([attachment.filename, attachment.content_type], ['winmail.dat', 'application/ms-tnef'])
    assert.deepEqual(await bytesOf(message, '1'), Buffer.from('eJ8+Ig==', 'base64'))
  })

  test('a message in a message is one attachment, including its own attachments', async () => {
    const inner =
      'Subject: inner\nContent-Type: multipart/mixed; boundary=c\n\n--c\n\ninner text\n--c\nContent-Type: application/pdf; name=in.pdf\n\nx\n--c--'
    const message = `Content-Type: multipart/mixed; boundary=b\n\n--b\n\nouter\n--b\nContent-Type: message/rfc822\n\n${inner}\n--b--\n`
    const read = await parsed(message)
    assert.equal(read.body.text, 'outer')
    assert.equal(only(read.body).content_type, 'message/rfc822')
    assert.equal((await bytesOf(message, '1')).toString(), inner.replaceAll('\n', '\r\n'))
  })

  test('text files are attached, texts are read', async () => {
    const read = await body(
      'Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\nContent-Type: text/plain\nContent-Disposition: attachment; filename=t.txt\n\nfile\n--b\n\ntwo\n--b--\n',
    )
    assert.equal(read.text, 'one\ntwo')
    assert.equal(only(read).filename, 't.txt')
  })

  for (const [label, [encoded, wanted]] of Object.entries({
    'truncated base64': ['QUJDREVGR', 'ABCDEF'],
    'base64 with foreign characters': ['QU*JD!!RE\n', 'ABCD'],
    'no base64 at all': ['', ''],
  }))
    test(label, async () => {
      const message = `Content-Type: application/pdf\nContent-Transfer-Encoding: base64\n\n${encoded}`
      const attachment = only(await body(message))
      assert.equal((await bytesOf(message, '1')).toString().slice(0, 6), wanted)
      assert.equal(attachment.size, (await bytesOf(message, '1')).length)
    })

  test('a multipart that never ends', async () => {
    const message =
      'Content-Type: multipart/mixed; boundary=b\n\n--b\n\nouter\n--b\nContent-Type: application/pdf\n\nABC'
    const read = await body(message)
    assert.equal(read.text, 'outer')
    assert.equal((await bytesOf(message, '1')).toString(), 'ABC')
    assert.equal(only(read).size, 3)
  })
})

test('a megabyte of spaces in quoted-printable is read in time, each of them where it counts', async () => {
  const of = (text: string): Promise<ParsedBody> =>
    costing(WORK, () => body(`Content-Transfer-Encoding: quoted-printable\n\n${text}\n`))
  const spaces = ' '.repeat(1024 * 1024)
  assert.equal((await of(`a${spaces}b`)).text, `a${spaces}b\n`)
  assert.equal((await of(`a${spaces}\nb${'\t'.repeat(1000)}`)).text, 'a\nb\n')
  assert.equal((await of(`a${spaces}=\nb`)).text, `a${spaces}b\n`)
})

describe('text and html', () => {
  const CASES: Record<string, [string, string | null, string | null]> = {
    'text only': ['Content-Type: text/plain\n\nHi', 'Hi', null],
    'html only': ['Content-Type: text/html\n\n<p>Hi</p>', null, '<p>Hi</p>'],
    'no type': ['\nHi', 'Hi', null],
    neither: ['Subject: x\n\n', null, null],
    'only a header': ['Subject: x\n', null, null],
    nothing: ['', null, null],
    'a NUL': ['\na\0b', 'ab', null],
    flowed: ['Content-Type: text/plain; format=flowed\n\nlong \nline', 'long line', null],
  }
  for (const [label, [message, text, html]] of Object.entries(CASES))
    test(label, async () => {
      const read = await body(message)
      assert.deepEqual([read.text, read.html, read.attachments], [text, html, []])
    })
  test('html is shown unchanged', async () => {
    const hostile = '<script>alert(1)</script><img src=x onerror=y>'
    assert.equal((await body(`Content-Type: text/html\n\n${hostile}`)).html, hostile)
  })
})

describe('headers', () => {
  test('threading', async () => {
    const read = await header(
      'Message-ID: (comment) <a@b>',
      'In-Reply-To: Your message of Monday <x@y>',
      'References: <1@a>\n\t<2@b><3@c> junk <open',
    )
    assert.deepEqual(
      [read.message_id, read.in_reply_to, read.references],
      ['<a@b>', '<x@y>', ['<1@a>', '<2@b>', '<3@c>']],
    )
  })
  test('invalid threading fields', async () => {
    const read = await header('Subject: x')
    assert.deepEqual([read.message_id, read.in_reply_to, read.references], [null, null, []])
  })

  const LISTS: Record<string, [string, string[]]> = {
    plain: ['a@b, c@d', ['a@b', 'c@d']],
    'a group, an empty group': ['Team: a@b, c@d;, Undisclosed recipients:;', ['a@b', 'c@d']],
    'a comma in quotes': ['"A, B" <a@b>, c@d', ['"A, B" <a@b>', 'c@d']],
    'a quote in quotes': ['"A\\", B" <a@b>, c@d', ['"A\\", B" <a@b>', 'c@d']],
    'comments, nested, with commas': ['(x, (y, z)) a@b (v), c@d', ['"x, (y, z) v" <a@b>', 'c@d']],
    'an encoded word that hides a comma': ['=?utf-8?q?Doe=2C_J?= <a@b>, c@d', ['"Doe, J" <a@b>', 'c@d']],
    'a route': ['<@r1,@r2:a@b>, c@d', ['a@b', 'c@d']],
    'an address literal': ['a@[IPv6:2001:db8::1], c@d', ['a@[IPv6:2001:db8::1]', 'c@d']],
    'empty members': [', a@b, ,', ['a@b']],
    folded: ['a@b,\n c@d', ['a@b', 'c@d']],
  }
  for (const [label, [value, wanted]] of Object.entries(LISTS))
    test(`an address list: ${label}`, async () => {
      assert.deepEqual((await header(`To: ${value}`)).to, wanted)
    })

  const SUBJECTS: Record<string, [string | Buffer, string]> = {
    'two encoded words become one text': ['=?utf-8?B?w7w=?=\n =?utf-8?B?w7w=?=', 'üü'],
    'a character split across words': ['=?utf-8?B?4pw=?= =?utf-8?B?lA==?=', '✔'],
    'words of several charsets': ['=?iso-2022-jp?B?GyRCJDMbKEI=?= =?windows-1251?q?=CF?=', 'こП'],
    'plain text between': ['=?utf-8?q?a?= b =?utf-8?q?c?=', 'a b c'],
    'an unknown encoding': ['=?utf-8?z?a?=', '=?utf-8?z?a?='],
    'a word that does not end': ['=?utf-8?q?open', '=?utf-8?q?open'],
    'raw UTF-8': ['héé', 'héé'],
    'raw bytes of an older charset': [Buffer.from([0x68, 0xe9]), 'hé'],
    'a NUL': ['a\0b', 'a b'],
    'a line break in a word': ['=?utf-8?q?a=0D=0ABcc:_x@y?=', 'a Bcc: x@y'],
  }
  for (const [label, [value, wanted]] of Object.entries(SUBJECTS))
    test(`a subject: ${label}`, async () => {
      const { subject } = (
        await parsed(Buffer.concat([Buffer.from('Subject: '), Buffer.from(value), Buffer.from('\n\nx')]))
      ).header
      assert.equal(subject, wanted)
    })

  test('a repeated field is a list, and the first one is used', async () => {
    const read = await header('Subject: one', 'Subject: two', 'Received: a', 'Received: b', 'Received: c', 'X-One: x')
    assert.equal(read.subject, 'one')
    assert.deepEqual({ ...read.headers }, { subject: ['one', 'two'], received: ['a', 'b', 'c'], 'x-one': 'x' })
  })
  test('field names with a meaning in JavaScript are names like others', async () => {
    const read = await header('__proto__: x', 'constructor: y')
    assert.deepEqual(JSON.parse(JSON.stringify(Object.entries(read.headers))), [
      ['__proto__', 'x'],
      ['constructor', 'y'],
    ])
  })
  test('lines that are not fields', async () => {
    assert.equal((await header('no field', 'Subject: x')).subject, 'x')
    const { body: read, header: fields } = await parsed('Subject: x\nno field\nX-Not: a field\n\nmore')
    assert.deepEqual([fields.subject, read.text], ['x', 'no field\nX-Not: a field\n\nmore'])
  })
})

describe('rejects messages beyond the limits, with 2 seconds of CPU time', () => {
  const nested = (open: (n: number) => string, depth: number): string =>
    Array.from({ length: depth }, (_, n) => open(n)).join('')
  const BOMBS: Record<string, [string, RegExp]> = {
    'a header of 1.1 MB': [`X: ${'a'.repeat(1_100_000)}\nSubject: x\n\nbody`, /header is larger/],
    '10,000 fields': [`${Array.from({ length: 10_000 }, (_, n) => `X-${n}: y\n`).join('')}\nbody`, /1000 fields/],
    '501 parts': [`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\nx\n'.repeat(501)}--b--\n`, /500 parts/],
    '100,000 parts': [`Content-Type: multipart/mixed; boundary=b\n\n${'--b\n'.repeat(100_000)}--b--\n`, /500 parts/],
    'multiparts in multiparts': [
      nested((n) => `Content-Type: multipart/mixed; boundary=b${n}\n\n--b${n}\n`, 5000),
      /nested/,
    ],
    'messages in messages': [nested(() => 'Content-Type: message/rfc822\n\n', 5000), /nested/],
  }
  for (const [label, [message, reason]] of Object.entries(BOMBS))
    test(label, async () => {
      const reading = await costing(WORK, () => threads.read(message))
      assert.equal(reading.kind, 'rejected')
      assert.match((reading as { reason: string }).reason, reason)
    })

  const HEAVY: Record<string, string> = {
    'a body of dashes': `Content-Type: multipart/mixed; boundary=b\n\n${'-'.repeat(5_000_000)}`,
    'a body of empty lines': `Content-Type: multipart/mixed; boundary=b\n\n${'\n'.repeat(1_000_000)}`,
    'lines like boundaries': `Content-Type: multipart/mixed; boundary=b\n\n${'--bx\n'.repeat(500_000)}`,
    'a body of equals signs': `Content-Transfer-Encoding: quoted-printable\n\n${'='.repeat(2_000_000)}`,
    'a body of one line in base64': `Content-Transfer-Encoding: base64\n\n${'QUJD'.repeat(1_000_000)}`,
    'a subject of encoded words': `Subject: ${'=?utf-8?q?=C3?=\n '.repeat(12_000)}x\n\nbody`,
    'a list of addresses': `To: ${'a@b,\n '.repeat(40_000)}c@d\n\nbody`,
    'a list of open comments': `To: ${'(,\n '.repeat(50_000)}c@d\n\nbody`,
    'a type of semicolons': `Content-Type: text/plain${';\n '.repeat(60_000)}\n\nbody`,
    'html of open tags': `Content-Type: text/html\n\n${'<a <b '.repeat(500_000)}`,
  }
  for (const [label, message] of Object.entries(HEAVY))
    test(`${label} costs no more than its size`, async () => {
      await costing(WORK, () => threads.read(message))
    })
})
