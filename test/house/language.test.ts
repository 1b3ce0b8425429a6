// Texts for users are written in the field's words. Each surface is checked against a list of words that have a usual
// one, and has a maximum number of marks of the former dialect per 1,000 words: relative clauses as subjects, "nobody",
// "says", and semicolons, which the documents of other mail servers hardly use.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/main.ts'
import { openApi, resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'

const resources = resourcesOf(await loadParts())

const ROOT = join(import.meta.dirname, '../..')

interface Passage {
  /** The file, command or path in the OpenAPI document. */
  from: string
  text: string
}

/** Marks for each 1,000 words. */
const MOST_MARKS = 8
const MARKS =
  /\b(?:what|who|whom|whoever|whatever|nobody|none|nothing|nowhere|says?|said|tells?|told|asks?|asked|stands?|stood|lies|lie|lay|mails|a mail(?! client| loop))\b|;/gi

/** Words for which the field has another one. */
const USUAL: readonly (readonly [word: RegExp, usual: string])[] = [
  [/\boctets?\b/i, 'bytes'],
  [/\bexchangers?\b/i, 'receiving server, or MX host'],
  [/\bmails\b|\ba mail\b(?! (?:client|server|provider|loop))/i, 'email, emails'],
  [/\breverse entr(?:y|ies)\b/i, 'PTR record, reverse DNS'],
  [/\bfates?\b|\bbec(?:a|o)me of\b/i, 'result, outcome'],
  [/\bfor good\b/i, 'permanently'],
  [/\bby (?:itself|themselves)\b/i, 'automatically'],
  [/\bputs? off\b/i, 'defers'],
  [/\bself-?made\b/i, 'self-signed'],
  [/\bhosters?\b/i, 'hosting provider'],
  [/\bunder way\b/i, 'in progress'],
  [/\bway (?:back|out)\b|\bmoving house\b/i, 'rollback, unsubscribe link, move'],
  [/(?<![-.])\bledger\b/i, 'erasure log'],
  [/\bmend(?:s|ed|ing)?\b/i, 'fix'],
]

const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')

/** Without code, whose names do not change. */
const prose = (text: string): string => text.replaceAll(/```[^]*?```|`[^`\n]*`|<!--[^]*?-->/g, ' ')

const filesOf = (...patterns: string[]): Passage[] =>
  patterns
    .flatMap((pattern) => globSync(pattern, { cwd: ROOT }).toSorted())
    .filter((file) => !SPECIFICATION.has(file))
    .map((file) => ({ from: file, text: read(file) }))

/** Texts that are quoted elsewhere or generated from code. */
const SPECIFICATION = new Set(['docs/interface.md'])

const helpOf = (command: Command): Passage[] => [
  { from: `help ${command.name()}`, text: command.helpInformation() },
  ...command.commands.flatMap(helpOf),
]

function apiTexts(value: unknown, from: string): Passage[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, each]): Passage[] =>
    (key === 'description' || key === 'summary') && typeof each === 'string'
      ? [{ from, text: each }]
      : apiTexts(each, `${from}/${key}`),
  )
}

/** Each text at its first position only. */
const once = (passages: readonly Passage[]): Passage[] =>
  [...new Map(passages.toReversed().map((each) => [each.text, each])).values()].toReversed()

const COMMENTS = /\/\*[^]*?\*\/|(?<=\s)\/\/[^\n]*/g
const LITERALS = /'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`/g

/** A line of code between two parts of a template literal, or of a style sheet. */
const CODE = /\w\(|=>|^\s*[?:] |\{ .*: .*\}/

/** Literals with two words or more in the code of pages. */
const pageTexts = (): Passage[] =>
  globSync(['src/**/page*.ts', 'src/console/**/*.ts', 'src/views/html/**/*.ts'], { cwd: ROOT })
    .toSorted()
    .map((file) => ({
      from: file,
      text: [...read(file).replaceAll(COMMENTS, '').matchAll(LITERALS)]
        .map(([, plain, template]) => plain ?? template ?? '')
        .filter((literal) => /[a-z]{2,} [a-z]{2,}/.test(literal))
        .flatMap((literal) => literal.replaceAll(/\$\{[^}]*\}/g, ' ').split('\n'))
        .filter((line) => !CODE.test(line))
        .join('\n'),
    }))

/** The comments of a configuration file, and the values that users see. */
const userTexts = (toml: string): string =>
  toml
    .split('\n')
    .filter((line) => /^\s*#|^(?:name|sentence|fix|words) = /.test(line))
    .join('\n')

const SURFACES: Record<string, () => Passage[]> = {
  documents: () => filesOf('README.md', 'SECURITY.md', 'docs/*.md'),
  CHANGELOG: () => filesOf('CHANGELOG.md'),
  help: () => helpOf(createProgram({})),
  'API reference': () => once(apiTexts(openApi(resources, 'https://post.example.com'), '')),
  console: pageTexts,
  configuration: () => filesOf('config/*.toml').map(({ from, text }) => ({ from, text: userTexts(text) })),
}

const wordsIn = (text: string): number => text.split(/\s+/).filter(Boolean).length

function usualIn({ from, text }: Passage): string[] {
  return prose(text)
    .split('\n')
    .flatMap((line) =>
      USUAL.flatMap(([word, usual]) => {
        const found = word.exec(line)
        return found
          ? [`${from}: "${line.slice(Math.max(0, found.index - 40), found.index + 60)}": write ${usual}`]
          : []
      }),
    )
}

for (const [surface, passages] of Object.entries(SURFACES))
  describe(surface, () => {
    const found = passages()

    test(`${surface} use the usual words`, () => {
      assert.ok(found.length > 0)
      assert.deepEqual(found.flatMap(usualIn), [])
    })

    test(`${surface} have at most ${MOST_MARKS} marks of the former dialect for each 1,000 words`, () => {
      const text = prose(found.map((each) => each.text).join('\n'))
      const marks = (1000 * (text.match(MARKS)?.length ?? 0)) / wordsIn(text)
      assert.ok(marks <= MOST_MARKS, `${surface}: ${marks.toFixed(1)}`)
    })
  })

test('finds each unusual word and mark, and skips code', () => {
  for (const text of ['3 octets', 'a mail', 'it works by itself', 'the way back'])
    assert.equal(usualIn({ from: 'here', text }).length, 1, text)
  assert.deepEqual(usualIn({ from: 'here', text: 'the key `octets`\n```sh\nmend\n```' }), [])
  assert.equal('Nobody says what; this lies.'.match(MARKS)?.length, 5)
})
