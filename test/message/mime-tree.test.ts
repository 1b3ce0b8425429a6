// The structure of received messages, with the limits of D47: RFC 2045, RFC 2046.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  MAX_DEPTH,
  MAX_FIELDS,
  MAX_HEADER,
  MAX_PARTS,
  MalformedMessage,
  fieldOf,
  nodesOf,
  parseFields,
  parseParameters,
  parseTree,
  partsOf,
  textOf,
  type MimePart,
} from '../../src/message/mime-tree.ts'
import { costingAtOnce } from '../kit/cost.ts'

/** Runs work that must be fast for any hostile input. */
const quick = <T>(work: () => T): T => costingAtOnce(3000, work)

const lines = (...each: string[]): string => each.join('\n')
const both = (text: string): [string, Buffer][] => [
  ['LF', Buffer.from(text, 'latin1')],
  ['CRLF', Buffer.from(text.replaceAll('\n', '\r\n'), 'latin1')],
]
const shape = ({ type, children }: MimePart): unknown =>
  children.length === 0 ? type : [type, ...children.map((child) => shape(child))]
const content = (message: Buffer, node: MimePart): string => message.toString('latin1', node.start, node.end)

for (const [ends, message] of both(
  lines(
    'Subject: two',
    ' lines',
    'Content-Type: multipart/mixed; boundary="a b"',
    '',
    'preamble',
    '--a b',
    'Content-Type: text/html; charset="utf-8"',
    '',
    'one',
    '--a b \t',
    '',
    'two',
    '',
    '--a b--',
    'epilogue',
    '--a b',
    'no part',
  ),
))
  test(`parts between boundaries, with ${ends}`, () => {
    const tree = parseTree(message)
    assert.equal(fieldOf(tree, 'SUBJECT'), 'two lines')
    assert.deepEqual(shape(tree), ['multipart/mixed', 'text/html', 'text/plain'])
    const [one, two] = tree.children
    // The line end before a boundary belongs to it. An empty line before that belongs to the part (RFC 2046 §5.1.1).
    assert.equal(content(message, one!), 'one')
    assert.equal(content(message, two!), ends === 'LF' ? 'two\n' : 'two\r\n')
  })

test('distinguishes a boundary from one with the same prefix', () => {
  for (const [ends, message] of both(
    lines(
      'Content-Type: multipart/mixed; boundary=x',
      '',
      '--x',
      'Content-Type: multipart/alternative; boundary=xy',
      '',
      '--xy',
      '',
      'inner',
      '--xyz',
      '--xy--',
      '--x',
      '',
      'outer',
      '--x--',
    ),
  )) {
    const tree = parseTree(message)
    assert.deepEqual(shape(tree), ['multipart/mixed', ['multipart/alternative', 'text/plain'], 'text/plain'], ends)
    assert.match(content(message, tree.children[0]!.children[0]!), /^inner\r?\n--xyz$/)
  }
})

test('without an end boundary, the last part extends to the end of its parent', () => {
  for (const [ends, message] of both(
    lines(
      'Content-Type: multipart/mixed; boundary=x',
      '',
      '--x',
      'Content-Type: multipart/mixed; boundary=y',
      '',
      '--y',
      '',
      'inner',
      '--x',
      '',
      'last',
    ),
  )) {
    const tree = parseTree(message)
    assert.deepEqual(shape(tree), ['multipart/mixed', ['multipart/mixed', 'text/plain'], 'text/plain'], ends)
    assert.equal(content(message, tree.children[0]!.children[0]!), 'inner')
    assert.equal(content(message, tree.children[1]!), 'last')
  }
})

test('reads a boundary at the very end, and adjacent boundaries', () => {
  const tree = parseTree(Buffer.from('Content-Type: multipart/mixed; boundary=x\n\n--x\n--x\n\n--x'))
  assert.deepEqual(shape(tree), ['multipart/mixed', 'text/plain', 'text/plain'])
  for (const { start, end } of nodesOf(tree)) assert.ok(start <= end, `${start} to ${end}`)
})

test('a multipart without a boundary, or with a missing one, has no parts', () => {
  for (const type of ['multipart/mixed', 'multipart/mixed; boundary=""', 'multipart/mixed; boundary=x'])
    assert.deepEqual(shape(parseTree(Buffer.from(`Content-Type: ${type}\n\n--y\n\nx\n`))), 'multipart/mixed')
})

test('reads a boundary with a comment both ways, for at most two such boundaries', () => {
  const message = Buffer.from(
    lines(
      'Content-Type: multipart/mixed; boundary=(an "old\\) (nested)" form)aa',
      '',
      '--aa',
      'Content-Type: text/html',
      '',
      'hidden',
      '--aa--',
      '--(an "old\\) (nested)" form)aa',
      'Content-Type: text/plain',
      '',
      'shown',
    ),
  )
  assert.deepEqual(
    parseTree(message).children.map(({ type }) => type),
    ['text/plain', 'text/html'],
  )
  const nested = (levels: number): Buffer =>
    Buffer.from(
      Array.from({ length: levels }, (_, n) =>
        lines(`Content-Type: multipart/mixed; boundary=(x)${n}`, '', `--${n}`, ''),
      ).join('') + 'Content-Type: text/plain\n\nx',
    )
  assert.equal(partsOf(parseTree(nested(2))).length, 3)
  assert.throws(() => parseTree(nested(3)), MalformedMessage)
})

test('the parts of a digest are messages (RFC 2046 §5.1.5)', () => {
  const message = Buffer.from(
    lines(
      'Content-Type: multipart/digest; boundary=x',
      '',
      '--x',
      '',
      'Subject: inside',
      '',
      'body',
      '--x',
      'Content-Type: text/plain',
      '',
      'text',
      '--x--',
    ),
  )
  const tree = parseTree(message)
  assert.deepEqual(shape(tree), ['multipart/digest', ['message/rfc822', 'text/plain'], 'text/plain'])
  assert.equal(fieldOf(tree.children[0]!.children[0]!, 'subject'), 'inside')
})

test('reads a message inside a message, but not inside base64', () => {
  const of = (encoding: string): unknown =>
    shape(parseTree(Buffer.from(`Content-Type: message/rfc822\nContent-Transfer-Encoding: ${encoding}\n\nA: b\n\nc`)))
  assert.deepEqual(of('7BIT (plain)'), ['message/rfc822', 'text/plain'])
  assert.deepEqual(of('binary'), ['message/rfc822', 'text/plain'])
  assert.deepEqual(of('base64'), 'message/rfc822')
  const nested = Buffer.from('Content-Type: message/rfc822\n\nContent-Type: message/rfc822\n\nA: b\n\nc')
  // Fields of messages inside it are theirs.
  assert.deepEqual([...nodesOf(parseTree(nested))].length, 3)
  assert.deepEqual(partsOf(parseTree(nested)).length, 1)
})

test('reads a header without a body, a body without a header, and an empty message', () => {
  const header = parseTree(Buffer.from('Subject: x\nTo: y'))
  assert.equal(fieldOf(header, 'to'), 'y')
  assert.equal(header.start, header.end)
  assert.equal(fieldOf(parseTree(Buffer.from('Subject: x\r\n\r\n')), 'subject'), 'x')
  const body = Buffer.from('\nSubject: x')
  assert.equal(content(body, parseTree(body)), 'Subject: x')
  assert.deepEqual(parseTree(Buffer.alloc(0)).fields, [])
  assert.equal(fieldOf(parseTree(Buffer.from('From someone at Thu\n: no name\nno colon\nA : b\n\n')), 'a'), 'b')
})

test('reads folded, repeated and non-ASCII fields', () => {
  assert.deepEqual(parseFields('A: b\n\tc\r\n d\nX-Y:z\nx-y: second'), [
    { name: 'A', value: 'b\tc d' },
    { name: 'X-Y', value: 'z' },
    { name: 'x-y', value: 'second' },
  ])
  assert.equal(fieldOf({ fields: parseFields('X-Y:z\nx-y: second') }, 'x-Y'), 'z')
  assert.equal(fieldOf(parseTree(Buffer.from('Subject: \xe9\n\n', 'latin1')), 'subject'), 'é')
})

test('reads quoted, escaped, repeated and empty parameters', () => {
  const { value, params } = parseParameters('text/plain; ; flowed; Charset="a\\"b;c" ; charset=x;name = y ;z')
  assert.equal(value, 'text/plain')
  assert.deepEqual(
    [...params],
    [
      ['charset', 'a"b;c'],
      ['name', 'y'],
    ],
  )
})

test('uses the default content type for an invalid one', () => {
  for (const type of ['', 'text', 'text/', ';', 'text/plain charset=x'])
    assert.equal(parseTree(Buffer.from(`Content-Type: ${type}\n\nx`)).type, 'text/plain')
})

test('decodes transfer encodings and charsets of a text up to a limit', () => {
  const of = (header: string, body: string | Buffer, max = 1000): string => {
    const message = Buffer.concat([Buffer.from(`${header}\n\n`), Buffer.from(body)])
    return textOf(message, parseTree(message), max)
  }
  assert.equal(of('A: b', 'h\u00e9'), 'hé')
  assert.equal(of('A: b', Buffer.from('h\u00e9', 'latin1')), 'hé')
  assert.equal(of('Content-Type: text/plain; charset=no-such', Buffer.from('h\u00e9', 'latin1')), 'hé')
  assert.equal(of('Content-Type: text/plain; charset=shift_jis', Buffer.from([0x93, 0xfa])), '日')
  assert.equal(of('Content-Type: text/plain; charset=iso-2022-jp', '\x1b$BF|\x1b(B'), '日')
  assert.equal(of('Content-Transfer-Encoding: Quoted-Printable', 'a=C3=A9  \nb=\nc=ZZ='), 'aé\nbc=ZZ=')
  assert.equal(of('Content-Transfer-Encoding: base64', 'YWJ\njZA==\n'), 'abcd')
  // Cut in the middle, and with invalid characters.
  assert.equal(of('Content-Transfer-Encoding: base64', 'YWJjZ!\0'), 'abcd'.slice(0, 3))
  assert.equal(of('A: b', 'x'.repeat(100), 10), 'x'.repeat(10))
})

const nested = (depth: number): Buffer => {
  const opens = Array.from({ length: depth }, (_, at) => `Content-Type: multipart/mixed; boundary=b${at}\n\n--b${at}\n`)
  return Buffer.from(`${opens.join('')}\nx`)
}
const parts = (count: number): Buffer =>
  Buffer.from(`Content-Type: multipart/mixed; boundary=x\n\n${'--x\n\ny\n'.repeat(count)}--x--\n`)
const fields = (count: number): Buffer => Buffer.from(`${'A: b\n'.repeat(count)}\nx`)
const header = (octets: number): Buffer => Buffer.from(`A: ${'b'.repeat(octets - 5)}\n\nx`)

for (const [what, make, limit] of [
  ['nesting', nested, MAX_DEPTH],
  ['parts', (count: number) => parts(count - 1), MAX_PARTS],
  ['fields', fields, MAX_FIELDS],
  ['header bytes', header, MAX_HEADER],
] as const)
  test(`accepts ${limit} ${what}, but not one more`, () => {
    assert.ok(parseTree(make(limit)))
    assert.throws(() => parseTree(make(limit + 1)), MalformedMessage)
  })

test('the limits are those of D47', () => {
  assert.deepEqual([MAX_DEPTH, MAX_PARTS, MAX_FIELDS, MAX_HEADER], [32, 500, 1000, 256 * 1024])
})

test('messages inside messages count as nesting', () => {
  const message = (depth: number): Buffer => Buffer.from(`${'Content-Type: message/rfc822\n\n'.repeat(depth)}\nx`)
  assert.ok(parseTree(message(MAX_DEPTH)))
  assert.throws(() => quick(() => parseTree(message(100_000))), MalformedMessage)
})

const MB = 1024 * 1024
const SIZE = 40 * MB
const filled = (head: string, fill: string): Buffer => {
  const start = Buffer.from(head)
  return Buffer.concat([start, Buffer.alloc(SIZE - start.length, fill)])
}
const multipart = (boundary: string): string => `Content-Type: multipart/mixed; boundary="${boundary}"\n\n`

for (const [what, message, wanted] of [
  ['a boundary of one character in dashes', filled(multipart('-'), '-'), 'taken'],
  ['a boundary of one character, again and again in a line', filled(multipart('a'), '--a'), 'taken'],
  ['a boundary of one character before every line', filled(multipart('a'), '--ab\n'), 'refused'],
  ['a boundary on every line', filled(multipart('a'), '--a\n'), 'refused'],
  ['a boundary with white space without end', filled(`${multipart('a')}--a`, ' '), 'taken'],
  ['line ends', filled(multipart('a'), '\n'), 'taken'],
  ['a header without end', filled('', 'A: b\n'), 'refused'],
  ['a header of one line', filled('A: ', 'b'), 'refused'],
  ['a header that is folded without end', filled('A: ', '\n '), 'refused'],
  ['a header of line ends that are none', filled('A: b', '\r'), 'refused'],
  ['a part without an end of its header', filled(`${multipart('a')}--a\n`, 'A: b\n'), 'refused'],
  ['NULs', filled(multipart('a'), '\0'), 'taken'],
  ['NULs without a header', filled('', '\0'), 'taken'],
  ['parameters', Buffer.from(`Content-Type: multipart/mixed${';'.repeat(250_000)}\n\n`), 'taken'],
  ['a parameter that is not an end', Buffer.from(`Content-Type: a/b; ${'c'.repeat(250_000)}\n\n`), 'taken'],
  ['a quote without end', Buffer.from(`Content-Type: a/b; c="${'\\'.repeat(250_000)}\n\n`), 'taken'],
  ['white space in a parameter', Buffer.from(`Content-Type: a/b; c${' '.repeat(250_000)}\n\n`), 'taken'],
] as const)
  test(`reads 40 MB of ${what} in time: ${wanted}`, () => {
    let outcome = 'taken'
    try {
      quick(() => parseTree(message))
    } catch (error) {
      if (!(error instanceof MalformedMessage)) throw error
      outcome = 'refused'
    }
    assert.equal(outcome, wanted)
  })

test('32 levels over 40 MB of lines that look like every boundary', () => {
  const opens = Array.from(
    { length: MAX_DEPTH },
    (_, at) => `${multipart('a'.repeat(at + 1))}--${'a'.repeat(at + 1)}\n`,
  )
  const message = filled(`${opens.join('')}\n`, `--${'a'.repeat(60)}\n`)
  assert.throws(() => quick(() => parseTree(message)), MalformedMessage)
})

test('limits the text of hostile messages', () => {
  for (const [encoding, fill] of [
    ['quoted-printable', ' '],
    ['quoted-printable', '='],
    ['quoted-printable', '=\n'],
    ['base64', '!'],
    ['base64', 'A'],
  ] as const) {
    const message = filled(`Content-Transfer-Encoding: ${encoding}\n\n`, fill)
    const text = quick(() => textOf(message, parseTree(message), MB))
    assert.ok(text.length <= MB)
  }
})
