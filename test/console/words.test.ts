// The texts of the console's pages: no page sends a colleague to a shell for what the console itself can do, and none
// says a word of the protocols where an everyday one exists.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const SRC = join(import.meta.dirname, '../../src')
const PAGES = globSync(['*/page*.ts', 'webui/*.ts', 'console/*.ts'], { cwd: SRC }).toSorted()

/** A source without its comments and imports, whose words nobody reads in a browser. */
const shown = (file: string): string =>
  readFileSync(join(SRC, file), 'utf8')
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/^\s*\/\/.*$/gm, '')
    .replaceAll(/^import[^]*?'$/gm, '')

const SHELL = /\bpostrider [a-z]+/g

/** What only a shell can do, or what only the log says. */
const ONLY_THERE: Record<string, readonly string[]> = {
  'console/first-steps.ts': ['postrider backup'],
  'console/sign-in.ts': ['postrider user'],
}

test('no page sends a colleague to a shell for what the console can do', () => {
  assert.ok(PAGES.length > 50, `only ${PAGES.length} files of pages were found`)
  const sent = PAGES.flatMap((file) => {
    const words = [...shown(file).matchAll(SHELL)].map(([command]) => command)
    return words.filter((command) => !ONLY_THERE[file]?.includes(command)).map((command) => `${file}: ${command}`)
  })
  assert.deepEqual(sent, [])
})

const WRONG = /\b(?:[Pp]ut off|Commonest|Take back|Give up|Make it|Set it|Turn it on|Write it|Verdicts|first octet)\b/g

test('no page says words that a colleague without knowledge of email has to learn', () => {
  const wrong = PAGES.flatMap((file) => [...shown(file).matchAll(WRONG)].map(([words]) => `${file}: ${words}`))
  assert.deepEqual(wrong, [])
})
