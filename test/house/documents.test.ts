// The sources of truth lie in the repository: whatever decision, heading of the specification or RFC the code names
// stands in docs/, and the pages that are made from the code are what it says.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { rfcPage, rfcPlaces, statesPage, TITLES } from '../../packaging/docs.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const code = globSync(['src/**/*.ts', 'test/**/*.ts', 'packaging/**/*.ts', 'src/**/*.md', 'docs/*.md', '*.md'], {
  cwd: ROOT,
})
  .filter((file) => file !== 'docs/decisions.md' && file !== 'docs/interface.md')
  .map((file) => ({ file, text: read(file) }))

/** `test` names made-up decisions in no file but this one. */
function named(pattern: RegExp): Map<string, string> {
  const found = new Map<string, string>()
  for (const { file, text } of code)
    for (const [, name] of text.matchAll(pattern)) if (name !== undefined && !found.has(name)) found.set(name, file)
  return found
}

describe('documents', () => {
  test('each decision that is named stands in docs/decisions.md', () => {
    const decisions = new Set([...read('docs/decisions.md').matchAll(/\*\*(D\d+)\b/g)].map(([, number]) => number))
    const missing = [...named(/\b(?<![\w-])(D\d{1,3})\b(?!['"\w-])/g)].filter(([number]) => !decisions.has(number))
    assert.deepEqual(missing, [])
    assert.ok(decisions.size > 80)
  })

  test('each heading of the specification that is quoted is one', () => {
    const headings = new Set(
      [...read('docs/interface.md').matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading!.replaceAll('`', '')),
    )
    const bold = new Set([...read('docs/interface.md').matchAll(/\*\*([^*]+?)[.:]?\*\*/g)].map(([, text]) => text!))
    const missing = [...named(/specification "([A-Z][^"\n]+)"/g)].filter(
      ([heading]) => !headings.has(heading) && !bold.has(heading) && !read('docs/interface.md').includes(heading),
    )
    assert.deepEqual(missing, [])
  })

  test('docs/states.md is what the tables say ("npm run docs" writes it)', () => {
    assert.equal(read('docs/states.md'), statesPage())
  })

  test('docs/rfc.md is where the code names RFCs, each with its title ("npm run docs" writes it)', () => {
    assert.deepEqual(
      [...rfcPlaces().keys()].filter((number) => TITLES[number] === undefined),
      [],
      'RFCs without a title in packaging/rfc-titles.json',
    )
    assert.equal(read('docs/rfc.md'), rfcPage())
  })
})

test('src/README.md: each function of a walk stands in its file', () => {
  const map = readFileSync(join(ROOT, 'src/README.md'), 'utf8')
  const walks = /\n## Walks\n([\s\S]*?)\n## /.exec(map)![1]!
  let file = ''
  let seen = 0
  const faults: string[] = []
  for (const [, named] of walks.matchAll(/`([^`]+)`/g)) {
    if (named === 'forget.ts') continue
    if (named!.endsWith('.ts')) {
      file = named!
      continue
    }
    seen++
    const text = readFileSync(join(ROOT, 'src', file), 'utf8')
    const form = `(?:function\\*? |const |async |^ {2})${named!.replace('#', '\\#')}\\b`
    if (!new RegExp(form, 'm').test(text)) faults.push(`${file} has no ${named!}`)
  }
  assert.deepEqual(faults, [])
  assert.ok(seen > 25, String(seen))
})
