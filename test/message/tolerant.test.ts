// Messages that violate MIME in the ways of common software: their text is shown.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseTree } from '../../src/message/mime-tree.ts'
import { attachmentOf, parseBody, parseHeader, type ParsedBody } from '../../src/message/parse.ts'
import { costingAtOnce } from '../kit/cost.ts'

/** Bytes as latin1 characters, lines ended by CRLF. */
const wire = (message: string): Buffer => Buffer.from(message.replace(/\r?\n/g, '\r\n'), 'latin1')
function bodyOf(message: string): ParsedBody & { files: string[] } {
  const bytes = wire(message)
  const tree = parseTree(bytes)
  const body = parseBody(bytes, tree)
  return { ...body, files: body.attachments.map((each) => attachmentOf(bytes, tree, each)!.toString('latin1')) }
}
/** Characters of UTF-8 as its bytes. */
const raw = (text: string): string => Buffer.from(text).toString('latin1')
const HEAD = 'From: a@there.test\nSubject: x\nMIME-Version: 1.0\n'
const mixed = (...parts: string[]): string =>
  `${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${parts.map((part) => `--b\n${part}\n`).join('')}--b--\n`

describe('multiparts with a boundary that matches no line', () => {
  const parts = (boundary: string): string =>
    `\nfor old readers\n--${boundary}\nContent-Type: text/plain\n\nhello\n--${boundary}\nContent-Type: application/pdf; name=a.pdf\nContent-Transfer-Encoding: base64\n\neA==\n--${boundary}--\n`
  for (const [what, field] of Object.entries({
    'is missing': 'Content-Type: multipart/mixed',
    'is empty': 'Content-Type: multipart/mixed; boundary=""',
    'is another one': 'Content-Type: multipart/mixed; boundary=other',
    'stands in apostrophes': "Content-Type: multipart/mixed; boundary='=_1'",
    'stands in escaped quotes': 'Content-Type: multipart/mixed; boundary=\\"=_1\\"',
    'has the dashes of its lines': 'Content-Type: multipart/mixed; boundary="--=_1"',
    'is in another field':
      'Content-Type: multipart/mixed; boundary=x\nX: y\nContent-Type: multipart/mixed; boundary="=_1"',
    'is in pieces (RFC 2231)': 'Content-Type: multipart/mixed; boundary*0="="; boundary*1="_1"',
    'follows a type without a semicolon': 'Content-Type: multipart/mixed boundary="=_1"',
    'follows a type without a subtype': 'Content-Type: multipart; boundary="=_1"',
  }))
    test(`reads the parts of a multipart whose boundary ${what}`, () => {
      const { attachments, files, text } = bodyOf(`${HEAD}${field}\n${parts('=_1')}`)
      assert.deepEqual([text, attachments[0]?.filename, files], ['hello', 'a.pdf', ['x']])
    })

  for (const [what, [body, wanted]] of Object.entries<[string, string]>({
    'a body without parts': ['hello\n', 'hello\n'],
    'a body of closing lines': ['hello\n--b--\n', 'hello\n--b--\n'],
    'a body of parts without a header': ['--c\n\nhello\n--c--\n', '--c\n\nhello\n--c--\n'],
    'a text before empty parts': ['hello\n--b\n--b--\n', 'hello'],
  }))
    test(`shows ${what} as text`, () => {
      assert.equal(bodyOf(`${HEAD}Content-Type: multipart/mixed; boundary=b\n\n${body}`).text, wanted)
      assert.match(
        bodyOf(mixed(`Content-Type: multipart/alternative; boundary=d\n\n${body.replaceAll('--b', '--e')}`)).text ?? '',
        /hello/,
      )
    })

  test('shows no text for a message without any', () => {
    for (const empty of [HEAD, `${HEAD}\n`, mixed('\n'), mixed('Content-Type: text/html\n\n')])
      assert.deepEqual([bodyOf(empty).text, bodyOf(empty).html], [null, null])
  })

  test('shows undecodable text unchanged', () => {
    assert.equal(bodyOf(`${HEAD}Content-Transfer-Encoding: base64\n\n====\n`).text, '====\n')
  })

  test('searches for the boundary in linear time', () => {
    for (const piece of ['--', '--a\n', '\n--a', '--a \t', 'Content-\n', '--a\nContent-a'])
      costingAtOnce(2000, () =>
        bodyOf(
          `Content-Type: multipart/mixed\n\n${piece.repeat(100_000)}\n${`--c\nContent-Type: multipart/mixed\n`.repeat(20)}`,
        ),
      )
  })
})

describe('headers without an empty line', () => {
  test('reads the text of a single part', () => {
    const message = `${HEAD}Content-Type: text/plain; charset=utf-8\nHello body\nNote: more\n\nlast\n`
    assert.equal(bodyOf(message).text, 'Hello body\nNote: more\n\nlast\n')
    assert.equal(parseHeader(parseTree(wire(message))).subject, 'x')
  })
  test('reads the parts after it', () => {
    const { html, text } = bodyOf(
      `${HEAD}Content-Type: multipart/alternative; boundary="b:1"\n hello\n--b:1\nContent-Type: text/plain\n\none\n--b:1\nContent-Type: text/html\n\n<p>two</p>\n--b:1--\n`,
    )
    assert.deepEqual([text, html], ['one', '<p>two</p>'])
  })
  test('reads a part without a header', () => {
    assert.equal(bodyOf(mixed('Just text\nin lines', '\nsecond')).text, 'Just text\nin lines\nsecond')
    assert.equal(bodyOf(mixed('Content-Type: text/plain\ntext at once')).text, 'text at once')
  })
  test('reads a message that has no header', () => {
    assert.equal(bodyOf('Hello Ann,\n\nhow are you?\n').text, 'Hello Ann,\n\nhow are you?\n')
    assert.equal(bodyOf('Hello').text, 'Hello')
  })
  test('skips the line that a mailbox puts in front', () => {
    const message = `From ann@there.test Thu Jan  1 00:00:00 2026\n${HEAD}Text\n`
    assert.equal(parseHeader(parseTree(wire(message))).from, 'a@there.test')
    assert.equal(bodyOf(message).text, 'Text\n')
  })
})

describe('malformed fields', () => {
  for (const [field, body] of [
    ['"quoted-printable"', 'Gr=C3=BC=C3=9Fe'],
    ["'quoted-printable'", 'Gr=C3=BC=C3=9Fe'],
    ['quoted-printable;', 'Gr=C3=BC=C3=9Fe'],
    ['Quoted_Printable (as is)', 'Gr=C3=BC=C3=9Fe'],
    ['base64;', 'R3LDvMOfZQ=='],
    ['"BASE64"; charset=utf-8', 'R3LDvMOfZQ=='],
    ['base-64', 'R3LDvMOfZQ=='],
  ] as const)
    test(`decodes a text and a file in ${field}`, () => {
      const encoded = `Content-Transfer-Encoding: ${field}\n\n${body}`
      assert.equal(bodyOf(`${HEAD}${encoded}`).text, 'Grüße')
      const { attachments, files } = bodyOf(mixed('\nx', `Content-Type: application/pdf\n${encoded}`))
      assert.deepEqual([files, attachments[0]!.size], [[raw('Grüße')], 7])
    })

  for (const [type, html] of Object.entries({
    'text; charset=utf-8': false,
    text: false,
    'text/': false,
    ';': false,
    'plain; charset=utf-8': false,
    'text plain': false,
    'text/plain charset=utf-8': false,
    'text/plain, charset=utf-8': false,
    'text/plain (plain); charset=utf-8': false,
    'text/html charset=utf-8': true,
    'text/html, charset="utf-8"': true,
  }))
    test(`shows a message of the type "${type}"`, () => {
      const { attachments, html: page, text } = bodyOf(`${HEAD}Content-Type: ${type}\n\n${raw('<p>Grüße</p>')}`)
      assert.deepEqual([html ? page : text, attachments], ['<p>Grüße</p>', []])
    })

  test('gives a file of a malformed type the type of its name', () => {
    const { attachments } = bodyOf(
      mixed('\nx', 'Content-Type: pdf; name=a.pdf\n\nx', 'Content-Disposition: attachment\n\nx'),
    )
    assert.deepEqual(
      attachments.map((each) => each.content_type),
      ['application/pdf', 'application/octet-stream'],
    )
  })
})

describe('missing and wrong charsets', () => {
  const latin1 = 'Gr\xfc\xdfe'
  for (const name of [
    'ANSI_X3.4-1968',
    'ANSI_X3.4-1986',
    'iso-ir-6',
    'ISO_646.irv:1991',
    'ISO646-US',
    'us',
    'cp367',
    'csASCII',
    'unknown-8bit',
    'x-unknown',
  ])
    test(`reads ${name} as UTF-8, otherwise as windows-1252`, () => {
      const of = (text: string): string | null =>
        bodyOf(`${HEAD}Content-Type: text/plain; charset="${name}"\n\n${text}`).text
      assert.deepEqual([of(raw('café')), of(latin1)], ['café', 'Grüße'])
      for (const word of ['caf=E9', 'caf=C3=A9'])
        assert.equal(parseHeader(parseTree(wire(`Subject: =?${name}?Q?${word}?=\n\n`))).subject, 'café')
    })
  test('reads a text without a charset by its bytes', () => {
    assert.equal(bodyOf(`${HEAD}\n${latin1}`).text, 'Grüße')
    assert.equal(bodyOf(`${HEAD}\n\x1b$B$3$s$K$A$O\x1b(B`).text, 'こんにちは')
    assert.equal(bodyOf(`${HEAD}\n${raw('Grüße')}`).text, 'Grüße')
  })
  test('reads fields in the charset of the text', () => {
    const of = (charset: string, subject: string): string | null =>
      parseHeader(parseTree(wire(`Subject: ${subject}\nContent-Type: text/plain; charset=${charset}\n\nx`))).subject
    assert.equal(of('gb18030', '\xc4\xe3\xba\xc3'), '你好')
    assert.equal(of('gb18030', raw('你好')), '你好')
    assert.equal(of('utf-8', 'caf\xe9'), 'café')
    assert.equal(of('iso-2022-jp', '\x1b$B$3\x1b(B'), 'こ')
  })

  const russian = '\xcf\xf0\xe8\xe2\xe5\xf2'
  for (const [head, type] of [
    ['<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">', 'text/html'],
    ['<META CHARSET=windows-1251>', 'text/html'],
    ["<!-- <meta charset=utf-8> --><meta name=a><meta charset = 'windows-1251' />", 'text/html; charset=us-ascii'],
    ['<meta charset="windows-1251">', 'text/html; charset=no-such'],
    ['<meta charset="koi8-r">', 'text/html; charset=windows-1251'],
  ] as const)
    test(`reads a page by ${head} where its type is ${type}`, () => {
      assert.ok(bodyOf(`${HEAD}Content-Type: ${type}\n\n<html>${head}${russian}`).html?.endsWith('Привет'))
    })
  test('reads a page without a charset as UTF-8, and one that names UTF-16 too', () => {
    for (const head of ['', '<meta charset=utf-16>'])
      assert.ok(bodyOf(`${HEAD}Content-Type: text/html\n\n${head}${raw('Grüße')}`).html?.endsWith('Grüße'))
  })
})

describe('text, html and files next to each other', () => {
  const page = 'Content-Type: text/html\n\n<p>main</p>'
  const footer = 'Content-Type: text/plain\n\n__\nlist <footer>'
  test('has an html part and a following text in both formats', () => {
    assert.deepEqual(
      [bodyOf(mixed(page, footer)).text, bodyOf(mixed(page, footer)).html],
      ['main\n__\nlist <footer>', '<p>main</p><br/>\n<p>__<br/>\nlist &lt;footer&gt;</p>'],
    )
    const { html, text } = bodyOf(mixed(footer, page.replace('main', 'disclaimer')))
    assert.match(text!, /footer>\ndisclaimer$/)
    assert.match(html!, /footer&gt;<\/p><br\/>\n<p>disclaimer/)
  })
  test('adds a footer to alternatives once', () => {
    const alternatives = `Content-Type: multipart/alternative; boundary=c\n\n--c\n\nmain\n--c\n${page}\n--c--`
    const { html, text } = bodyOf(mixed(alternatives, footer))
    assert.deepEqual([text, html?.match(/main|footer/g)], ['main\n__\nlist <footer>', ['main', 'footer']])
  })
  test('has only the format of the message', () => {
    assert.deepEqual([bodyOf(mixed(page)).text, bodyOf(mixed(footer)).html], [null, null])
  })
  for (const field of [
    'Content-Type: text/plain; name="log.txt"\nContent-Disposition: inline; filename="log.txt"',
    'Content-Type: text/plain\nContent-Disposition: inline; filename=log.txt',
    'Content-Type: text/plain; name=log.txt',
    'Content-Disposition: inline; filename=log.txt',
  ])
    test(`lists a text file with a name: ${field}`, () => {
      for (const parts of [
        ['\nmain', `${field}\n\nlog`],
        [`${field}\n\nlog`, '\nmain'],
      ]) {
        const { attachments, files, text } = bodyOf(mixed(...parts))
        assert.deepEqual(
          [text, attachments[0]?.filename, attachments[0]?.content_type, files],
          ['main', 'log.txt', 'text/plain', ['log']],
        )
      }
      // A text with a name may be all there is.
      assert.deepEqual(
        [bodyOf(mixed(`${field}\n\nlog`)).text, bodyOf(mixed(`${field}\n\nlog`)).files],
        ['log', ['log']],
      )
      assert.deepEqual([bodyOf(`${HEAD}${field}\n\nlog`).text, bodyOf(`${HEAD}${field}\n\nlog`).files], ['log', []])
    })
  test('shows alternatives with a name', () => {
    const { attachments, html, text } = bodyOf(
      `${HEAD}Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/plain; name=a.txt\n\nmain\n--b\nContent-Type: text/html; name=a.html\n\n<p>main</p>\n--b--\n`,
    )
    assert.deepEqual([text, html, attachments], ['main', '<p>main</p>', []])
  })
  test('attaches a message inside it whole, inline too (D221)', () => {
    const inner = 'Subject: inner\n\ninner text'
    const { attachments, files, text } = bodyOf(
      mixed('\nouter', `Content-Type: message/rfc822\nContent-Disposition: inline\n\n${inner}`),
    )
    assert.deepEqual([text, files], ['outer', [inner.replaceAll('\n', '\r\n')]])
    assert.equal(attachments[0]!.disposition, 'inline')
  })
  test('finds a file by name and size if an earlier version numbered it differently', () => {
    const bytes = wire(
      mixed(
        '\nmain',
        'Content-Type: text/plain; name=a.txt\n\ntext',
        'Content-Type: application/pdf; name=b.pdf\n\nfile',
      ),
    )
    const found = (id: string, filename: string | null, size: number): string | undefined =>
      attachmentOf(bytes, parseTree(bytes), { id, filename, size })?.toString()
    assert.equal(found('1', 'b.pdf', 4), 'file')
    assert.equal(found('2', 'b.pdf', 4), 'file')
    assert.equal(found('3', 'c.pdf', 4), undefined)
  })
})

describe('corrupt transfer encodings', () => {
  const file = (encoding: string, body: string): string =>
    bodyOf(mixed(`Content-Type: application/pdf\nContent-Transfer-Encoding: ${encoding}\n\n${body}`)).files[0]!
  for (const [what, [body, wanted]] of Object.entries<[string, string]>({
    'in padded pieces': ['SGVsbG8=SGVsbG8=', 'HelloHello'],
    'in padded lines': ['SGVsbG8=\nSGVsbG8=\n', 'HelloHello'],
    'before the footer of a list': ['SGVsbG8=\n\n-- \nmailing list footer', 'Hello'],
    'without padding before a footer': ['SGVsbG8h\n\n____\nlist@there.test', 'Hello!'],
    'with an empty line': ['SGVs\n\nbG8h', 'Hello!'],
    'with foreign characters': ['SG*Vs\n!!bG8h', 'Hello!'],
  }))
    test(`decodes base64 ${what} (D222)`, () => assert.equal(file('base64', body), wanted))
  test('decodes uuencode, and keeps other text (D222)', () => {
    const encoded = 'begin 644 a.txt\n%2&5L;&\\\n`\nend'
    for (const name of ['x-uuencode', 'uuencode', 'X-UUE']) assert.equal(file(name, encoded), 'Hello')
    assert.equal(file('x-uuencode', 'begin 644 a\n#86)C\n#86)C'), 'abcabc')
    assert.equal(file('x-uuencode', 'Hello'), 'Hello')
  })
  test('keeps an unknown encoding', () => assert.equal(file('x-custom', 'a=3Db'), 'a=3Db'))
})

test('matches thread identifiers in encoded words and without brackets (D220)', () => {
  const of = (...lines: string[]) => {
    const { in_reply_to, message_id, references } = parseHeader(parseTree(wire(`${lines.join('\n')}\n\n`)))
    return [message_id, in_reply_to, references]
  }
  assert.deepEqual(
    of(
      'Message-ID: =?utf-8?q?=3Ca=40?=\n =?utf-8?q?b=3E?=',
      'In-Reply-To: =?utf-8?q?=3Cp=40b=3E?=',
      'References: =?utf-8?q?=3Cr=40b=3E?= =?utf-8?q?_=3Cp=40b=3E?=',
    ),
    ['<a@b>', '<p@b>', ['<r@b>', '<p@b>']],
  )
  assert.deepEqual(of('Message-ID: a@b', 'In-Reply-To: p@b', 'References: r@b\n p@b'), [
    '<a@b>',
    '<p@b>',
    ['<r@b>', '<p@b>'],
  ])
  assert.equal(of('Message-ID: <a@b>', 'Message-ID: <a@b>')[0], '<a@b>')
  assert.deepEqual(of('Message-ID: none', 'In-Reply-To: Your mail of p@b', 'References: '), [
    'none',
    'Your mail of p@b',
    [],
  ])
})

test('shows a single part of another text type as text, without byte order mark', () => {
  for (const type of ['text/markdown', 'text/enriched', 'text/x-markdown']) {
    const message = wire(`Content-Type: ${type}\n\n\xef\xbb\xbf# Hello\n`)
    const { attachments, text } = parseBody(message, parseTree(message))
    assert.deepEqual([text?.trim(), attachments], ['# Hello', []], type)
  }
  for (const charset of ['utf-7', 'hz-gb-2312']) {
    const message = wire(`Content-Type: text/plain; charset=${charset}\n\n+AOk- ~{<:Ky2;~}\n`)
    assert.equal(parseBody(message, parseTree(message)).text?.trim(), '+AOk- ~{<:Ky2;~}', charset)
  }
})

test('finds the address in a From field without its bracket or with a last dot', () => {
  for (const from of [
    'Ann <ann@here.test',
    '<ann@here.test',
    'ann@here.test.',
    'Ann <ann@here.test.>',
    'ann@here.test>',
  ])
    assert.match(
      parseHeader(parseTree(wire(`From: ${from}\n\n`))).from ?? '',
      /^(?:Ann <ann@here\.test>|ann@here\.test)$/,
      from,
    )
})
