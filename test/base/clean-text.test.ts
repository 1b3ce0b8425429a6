// One hostile text in its form for each use.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as clean from '../../src/base/clean-text.ts'

const HOSTILE = 'a\tb\r\nc\u0000d\u001b[2J\u009fe\u2028f\u061cg\u202eh\u2066i\u00adj\ufffdk\u200dl'

test('returns the form of a hostile text for each use', () => {
  const forms: [string, string][] = [
    [clean.forTerminal(HOSTILE), 'a�b��c�d�[2J�e�f�g�h�i\u00adj�k\u200dl'],
    [clean.forTerminalLines(HOSTILE), 'a\tb�\nc�d�[2J�e�f�g�h�i\u00adj�k\u200dl'],
    [clean.forLine(HOSTILE), 'a b c d [2J e f\u061cg\u202eh\u2066i\u00adj\ufffdk\u200dl'],
    [clean.forLines(HOSTILE), 'a\tb\ncd[2Je\u2028f\u061cghi\u00adj\ufffdk\u200dl'],
    [clean.forHeader(HOSTILE), 'a\tb c d [2J\u009fe\u2028f\u061cg\u202eh\u2066i\u00adj\ufffdk\u200dl'],
    [clean.forLog(HOSTILE), 'a b c d [2J e f g h i j k l'],
    [clean.forLog(HOSTILE, 5), 'a b c'],
    [clean.withoutLineEnds('a\r\nb\nc'), 'abc'],
  ]
  for (const [made, expected] of forms) assert.equal(made, expected)
  assert.equal(JSON.parse(clean.forTerminalJson(JSON.stringify(HOSTILE))), HOSTILE)
})

test('each check rejects its characters', () => {
  const refused = (check: (text: string) => boolean): string[] =>
    [
      '\t',
      '\n',
      '\u0085',
      '\u2029',
      '\u061c',
      '\u200f',
      '\u2069',
      '\u00ad',
      '\u2800',
      'a\u0301\u0302\u0303',
      'é',
      '',
    ].filter(check)
  assert.deepEqual(refused(clean.hasControls), ['\t', '\n', '\u0085', '\u2029'])
  assert.deepEqual(refused(clean.changesDirection), ['\u061c', '\u200f', '\u2069'])
  const [none, ...others] = refused((text) => !clean.looksFalse(text)).reverse()
  assert.deepEqual([none, others], ['', ['é']])
})
