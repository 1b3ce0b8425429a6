// Only base/clean-text.ts lists the harmful characters of untrusted text. With two different lists, one file would
// accept a character that another one rejects.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../../src')

/** Files that have a set of control characters of their own, with the reason. */
const ALLOWED: Record<string, string> = {
  'base/clean-text.ts': 'the sets of all others',
  'message/programs.ts': 'octets that no text has: a file is recognised, nothing is cleaned',
  'message/tracking.ts': 'what browsers leave out of a URL (URL Standard)',
}

/** Classes of a pattern, such as [\t\r\n], but not lists of texts. */
const CLASSES = /\[(?!'[^']*')\^?((?:\\u\{[\da-f]+\}|\\.|[^\]\\\n])+)\]/giu
/** Controls except tabs and line ends, separators of lines, format characters, marks of direction, joiners, blanks. */
const HARMFUL =
  /\\p\{(?:C[cfs]?|Other|Control|Format|Z[lp]|Bidi_\w+|Default_Ignorable\w*)[}=]|\\0|\\x[01][\da-f]|\\x7f|\\u00[01][\da-f]|\\u007f|\\u061c|\\u20(?:0[bef]|2[89a-e]|6[\da-f])/i
/** Classes that only distinguish ASCII from other text. */
const ASCII = /^(?:\\0|\\x00|\\u0000)-(?:\\x7f|\\u007f)$/i
/** Patterns that remove or replace line ends. */
const LINE_ENDS = /\.replace(?:All)?\(\/\[[^\]]*\\[rn][^\]]*\]/

/** Whether code contains characters that only the cleaner may contain. */
const isCleaner = (code: string): boolean =>
  LINE_ENDS.test(code) ||
  [...code.matchAll(CLASSES)].some(([, members]) => HARMFUL.test(members!) && !ASCII.test(members!)) ||
  /\/\\p\{C/.test(code)

const withoutComments = (code: string): string => code.replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '')

test('only base/clean-text.ts lists the harmful characters of untrusted text', () => {
  const found = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && isCleaner(withoutComments(readFileSync(join(SRC, file), 'utf8'))),
  )
  assert.deepEqual(found.sort(), Object.keys(ALLOWED).sort())
})

test('the search finds every notation of a character set', () => {
  const R = String.raw
  for (const code of [
    R`/[\p{Cc}\u2028]/u`,
    R`/\p{Cc}+/gu`,
    R`/[\0-\x1f]/`,
    R`/[\u0000-\u0008]/`,
    R`/[\u202a-\u202e]/`,
    R`/[\x7f]/`,
    R`/[^\S\x0b]/`,
    R`text.replace(/[\r\n]+/g, '')`,
  ])
    assert.ok(isCleaner(code), code)
  for (const code of [
    R`/[^\0-\x7f]/`,
    R`/^[\u0000-\u007f]*$/`,
    R`/[",\r\n]/.test(cell)`,
    R`/^[\x21-\x7e]+$/`,
    R`.replaceAll('\r\n', '\n')`,
    R`['PK\x03\x04', 0]`,
  ])
    assert.ok(!isCleaner(code), code)
})
