// Tests the texts of the console's pages: they contain no shell command for an action that the console offers, and no
// word of the list below.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../../src')
const PAGES = globSync(['*/page*.ts', 'views/html/*.ts', 'console/*.ts'], { cwd: SRC }).toSorted()

/** A source without its comments and imports, which no browser shows. */
const shown = (file: string): string =>
  readFileSync(join(SRC, file), 'utf8')
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/^\s*\/\/.*$/gm, '')
    .replaceAll(/^import[^]*?'$/gm, '')

const SHELL = /\bpostrider [a-z]+/g

/** Actions that only a shell can do, and data that is only in the log. */
const ONLY_THERE: Record<string, readonly string[]> = {
  'console/first-steps.ts': ['postrider backup'],
  'users/page-sign-in.ts': ['postrider user'],
}

test('no page names a shell command for actions of the console', () => {
  assert.ok(PAGES.length > 50, `only ${PAGES.length} files of pages were found`)
  const sent = PAGES.flatMap((file) => {
    const words = [...shown(file).matchAll(SHELL)].map(([command]) => command)
    return words.filter((command) => !ONLY_THERE[file]?.includes(command)).map((command) => `${file}: ${command}`)
  })
  assert.deepEqual(sent, [])
})

const WRONG = /\b(?:[Pp]ut off|Commonest|Take back|Give up|Make it|Set it|Turn it on|Write it|Verdicts|first octet)\b/g

test('no page uses a word of the list', () => {
  const wrong = PAGES.flatMap((file) => [...shown(file).matchAll(WRONG)].map(([words]) => `${file}: ${words}`))
  assert.deepEqual(wrong, [])
})
