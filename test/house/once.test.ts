// Functions that base/ has are not written a second time.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../../src')

interface Once {
  code: RegExp
  /** The files that contain it: the one that all others import, and exceptions. */
  files: readonly string[]
  /** Code that must be found. */
  like: string
}

const ONCE: Record<string, Once> = {
  'the number of a day: dayOf, startOfDay': {
    code: /Math\.floor\([^;\n]*\/ DAY\)/,
    // The others count the days of a duration.
    files: ['base/clock.ts', 'checks/certificates.ts', 'reputation/evidence.ts'],
    like: 'const today = Math.floor((now - WEEK) / DAY)',
  },
  'the date of a time: dateOf': {
    code: /(?:iso\([^\n]*\)|toISOString\(\))\.slice\(0, 10\)/,
    files: ['base/clock.ts'],
    like: 'const day = new Date(at).toISOString().slice(0, 10)',
  },
  'a percentage: percent': {
    code: /\* 100\)\.to(?:Fixed|Precision)|100 \*[^\n]*\.toFixed/,
    files: ['base/text.ts'],
    like: 'const shown = `${(share * 100).toFixed(1)} %`',
  },
  'a number with its noun: counted': {
    code: /=== 1 \? '' : 's'|\} \$\{[^}]* === 1 \? '(\w+)' : '\1s'\}/,
    files: [],
    like: "const text = `${rows} row${rows === 1 ? '' : 's'}`",
  },
  'a duration in words: span': {
    code: /\} (?:min|h)`/,
    files: ['base/text.ts'],
    like: 'const text = `${Math.round(seconds / 60)} min`',
  },
  'the durations of the configuration: parseDuration': {
    code: /\(ms\|s\|m\|h\|d\)/,
    files: ['base/config-values.ts'],
    like: String.raw`const [, amount, unit] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? []`,
  },
  'the header Retry-After: retryAfter': {
    code: /(?:Number|parseInt)\([^\n]*retry-after|retry-after[^\n]*\.test\(/,
    files: [],
    like: "const wait = Number(headers['retry-after'])",
  },
  'schedules: base/cron.ts': {
    code: /from '(?:[\w-]*cron[\w-]*|later)'|'(?:[\d*/,-]+ ){4}[\d*/,-]+'/,
    // The examples of the commands and the default of the configuration.
    files: ['base/config.ts', 'server/appliance.ts'],
    like: "import { schedule } from 'node-cron'",
  },
  'CSV: lists/rows.ts': {
    code: /from '(?:[\w-]*csv[\w-]*|papaparse)'/,
    files: ['lists/rows.ts'],
    like: "import { parse } from 'csv-parse'",
  },
}

const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts') && !file.includes('browser/') && !file.includes('migrations/'))
  .map((file) => ({ file, text: readFileSync(join(SRC, file), 'utf8').replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '') }))

for (const [what, { code, files, like }] of Object.entries(ONCE))
  test(`only one file has ${what}`, () => {
    assert.match(like, code)
    const found = sources.filter(({ text }) => code.test(text)).map(({ file }) => file)
    assert.deepEqual(
      found.filter((file) => !files.includes(file)),
      [],
    )
  })
