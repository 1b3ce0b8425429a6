// The parts of a header that an authentication verdict depends on: unfolded, within the limits, and in linear time.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  evidenceOf,
  MAX_ARC_FIELDS,
  MAX_AUTHOR,
  MAX_AUTHORS,
  MAX_BODY_HASHES,
  MAX_SIGNATURE,
  MAX_SIGNATURES,
  MAX_SIGNED,
  MAX_SIMPLE_LINES,
} from '../../src/message/evidence.ts'
import { MAX_FIELDS, MAX_HEADER } from '../../src/message/mime-tree.ts'

const wire = (...lines: string[]): string => lines.map((line) => `${line}\r\n`).join('')
const signature = (more = ''): string => `DKIM-Signature: v=1; c=relaxed/simple; h=From:subject; ${more}b=x`
const FROM = 'From: ann@there.test'

test('shows the fields that a verdict can depend on, in relaxed canonicalisation', () => {
  const { beyond, header } = evidenceOf(
    wire(
      'X-Junk: a',
      ' b',
      'DKIM-Signature: v=1;\t c=relaxed/simple;',
      '\th=From :',
      '  Subject; b=x ',
      'From:  Ann',
      ' <ann@there.test>',
      'subject : one',
      'Subject: two',
      'To: box@here.test',
    ),
  )
  assert.deepEqual(beyond, {})
  assert.equal(
    header,
    wire(
      'DKIM-Signature: v=1; c=relaxed/simple; h=From : Subject; b=x',
      'From: Ann <ann@there.test>',
      'subject : one',
      'Subject: two',
    ),
  )
})

test('keeps fields under a simple signature unchanged', () => {
  const signed = ['DKIM-Signature: v=1; h=from;', '\tb=x', 'From:  Ann', '\t<ann@there.test>']
  assert.equal(evidenceOf(wire('X-Junk: a', ...signed)).header, wire(...signed))
})

test('finds the same fields as the library, with folded names and invalid lines', () => {
  const lines = ['From', ' : ann@there.test', 'no field', 'Fro m: x', 'To: y']
  assert.equal(evidenceOf(wire(...lines)).header, 'From : ann@there.testno fieldFro m: x\r\n')
})

describe('the limits', () => {
  const many = (count: number, line: (n: number) => string): string[] =>
    Array.from({ length: count }, (_, n) => line(n))
  const names = (count: number): string => `h=${Array.from({ length: count }, (_, n) => `x${n}`).join(':')}`
  const CASES: Record<string, { of: (count: number) => string[]; limit: number; what: string }> = {
    signatures: { of: (count) => many(count, () => signature()), limit: MAX_SIGNATURES, what: 'signatures' },
    'body hashes': {
      of: (count) => many(count, (n) => signature(`l=${n}; `)),
      limit: MAX_BODY_HASHES,
      what: 'signatures',
    },
    'octets of a signature': {
      of: (octets) => [signature(`n=${'x'.repeat(octets - signature('n=; ').length - 2)}; `)],
      limit: MAX_SIGNATURE,
      what: 'signatures',
    },
    'signed fields': {
      of: (count) => [`DKIM-Signature: v=1; c=relaxed; ${names(count)}`],
      limit: MAX_SIGNED,
      what: 'signatures',
    },
    'lines under a simple signature': {
      of: (lines) => ['DKIM-Signature: v=1; h=from', `From: a${'\r\n b'.repeat(lines - 2)}`],
      limit: MAX_SIMPLE_LINES,
      what: 'signatures',
    },
    'fields of ARC': { of: (count) => many(count, (n) => `ARC-Seal: i=${n}`), limit: MAX_ARC_FIELDS, what: 'chain' },
    authors: { of: (count) => many(count, () => FROM), limit: MAX_AUTHORS, what: 'author' },
    'octets of an author': { of: (octets) => [`From: ${'a'.repeat(octets - 8)}`], limit: MAX_AUTHOR, what: 'author' },
    fields: { of: (count) => many(count, (n) => `X-${n}: y`), limit: MAX_FIELDS, what: 'header' },
    'octets of a header': { of: (octets) => [`X: ${'y'.repeat(octets - 5)}`], limit: MAX_HEADER, what: 'header' },
  }
  for (const [name, { limit, of, what }] of Object.entries(CASES))
    test(`${name}: ${limit} are shown, and one more is beyond`, () => {
      assert.deepEqual(evidenceOf(wire(...of(limit))).beyond, {})
      assert.deepEqual(Object.keys(evidenceOf(wire(...of(limit + 1))).beyond), [what])
    })
})

test('omits fields beyond the limit and shows the rest', () => {
  const { header } = evidenceOf(wire(signature(`n=${'x'.repeat(MAX_SIGNATURE)}; `), signature('s=kept; '), FROM))
  assert.equal(header, wire(signature('s=kept; '), FROM))
})
