// The form of the help: commands start with a verb, options are short phrases, and both use the field's words. The
// counts that commands print agree with their nouns.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/main.ts'

const ROOT = join(import.meta.dirname, '../..')
const MOST = 70
/** Those that name each known application. */
const LONGER: Record<string, number> = { 'postrider oauth allow <application>': 100 }

const VERBS =
  `accept activate add allow back change check close compare create drop email explain export find hold import list lock
  manage open pause post print read reject release remove restart restore retry revoke roll rotate run save send set show
  stop suppress test test-restore turn upgrade verify view download`.split(/\s+/)

/** Words of the former dialect, with the word to use. */
const WORDS: readonly (readonly [word: RegExp, better: string])[] = [
  [/\boctets?\b/i, 'byte'],
  [/\bexchangers?\b/i, 'receiving server, MX host'],
  [/\bmails\b|\ba mail\b|\bmailed\b/i, 'email'],
  [/\bwhat\b|\bwhoever\b|\bnobody\b|\bnowhere\b/i, 'a noun'],
  [/\bseal(?:s|ed)?\b/i, 'encrypt'],
  [/\bput (?:it |them )?back\b|\bput off\b|\bby itself\b|\bfor good\b|\bpeople\b/i, "the field's term"],
  [/\bdialogue\b/i, 'SMTP transcript'],
  [/\bsource address/i, 'sending IP address'],
  [/\breceiving domain/i, 'recipient domain'],
  [/;.*;/, 'two sentences'],
]

interface Line {
  at: string
  text: string
  isCommand: boolean
}

function linesOf(command: Command, path: string): Line[] {
  const help = command.createHelp()
  return [
    ...(path === 'postrider' ? [] : [{ at: path, text: command.description(), isCommand: true }]),
    ...help
      .visibleOptions(command)
      .map(({ description, long }) => ({ at: `${path} ${long}`, text: description, isCommand: false })),
    ...command.registeredArguments
      .filter(({ description }) => description !== '')
      .map((each) => ({ at: `${path} <${each.name()}>`, text: each.description, isCommand: false })),
    ...command.commands.flatMap((child) => linesOf(child, `${path} ${child.name()}`)),
  ]
}

const lines = linesOf(createProgram({}), 'postrider')

test('each line of the help is lower case, without a full stop and at most 70 characters long', () => {
  assert.ok(lines.length > 150)
  const faults = lines.filter(
    ({ at, text }) =>
      text === '' || text.length > (LONGER[at] ?? MOST) || text.endsWith('.') || /^[A-Z][a-z]/.test(text),
  )
  assert.deepEqual(faults, [])
})

test('each command is described by a verb in the imperative', () => {
  const faults = lines.filter(({ isCommand, text }) => isCommand && !VERBS.includes(text.split(' ')[0] ?? ''))
  assert.deepEqual(faults, [])
})

test("the help uses the field's words", () => {
  const faults = lines.flatMap(({ at, text }) =>
    WORDS.filter(([word]) => word.test(text)).map(([, better]) => `${at}: "${text}": write ${better}`),
  )
  assert.deepEqual(faults, [])
})

/** A count before its noun in the plural, which is wrong for 1: `counted` in src/base/text.ts agrees. */
const PLURAL =
  /\$\{(?![A-Z_.]*[A-Z]{3,}[A-Z_]*\})(?:[^{}`'])*\} (?:recipients|emails|messages|files|rows|records|contacts|addresses|domains|users|backups|days|bytes|pages|tables|erasures|entries|attempts|keys|accounts|columns|lines)\b/
/** Counts that are at least 2, and names before a noun. */
const AGREES = [
  'has ${found.records.length} DMARC records',
  'has ${found.length} SPF records',
  '${record_type} records',
  'has more than ${',
  'at most ${',
]

test('commands count by `counted`, so that a count agrees with its noun', () => {
  const files = globSync(
    ['src/**/command*.ts', 'src/{archive,base,checks,cli,commands,store}/**/*.ts', 'src/lists/{import,export}.ts'],
    { cwd: ROOT },
  )
  const faults = files.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .flatMap((line, at) =>
        PLURAL.test(line) && !/^\s*(?:\/\/|\*|\/\*)/.test(line) && !AGREES.some((each) => line.includes(each))
          ? [`${file}:${at + 1}: ${line.trim()}`]
          : [],
      ),
  )
  assert.deepEqual(faults, [])
  assert.ok(PLURAL.test('`${rows.length} rows`'))
  assert.ok(!PLURAL.test('`${MOST_ROWS} rows`'))
})
