// The sources of truth lie in the repository: whatever decision, heading of the specification or RFC the code names
// stands in docs/, and the pages that are made from the code are what it says.
import assert from 'node:assert/strict'
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
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

/** Letters with a number, as sections of a document are called. */
const codesIn = (text: string): string[] => text.match(/(?<![\w=%+/-])[A-Z]{1,3}\d{1,3}(?![\w-])/g) ?? []
/** Comments and names of tests: not the values that the code works on. */
const isSaid = (line: string): boolean => /^\s*(?:\/\/|\/?\*)|\b(?:test|describe)\(| \/\/ /.test(line)
/** Terms that standards have: control characters, NAT64 (RFC 6052), AS112 (RFC 7535). */
const TERMS = ['C0', 'C1', 'NAT64', 'AS112']

describe('documents', () => {
  test('each decision that is named stands in docs/decisions.md', () => {
    const decisions = new Set([...read('docs/decisions.md').matchAll(/\*\*(D\d+)\b/g)].map(([, number]) => number))
    const missing = [...named(/\b(?<![\w-])(D\d{1,3})\b(?!['"\w-])/g)].filter(([number]) => !decisions.has(number))
    assert.deepEqual(missing, [])
    assert.ok(decisions.size > 80)
  })

  test('a code in a comment or a test name, such as "D12", is explained in docs/', () => {
    const explained = new Set([
      ...globSync('docs/*.md', { cwd: ROOT }).flatMap((file) => codesIn(read(file))),
      ...TERMS,
    ])
    const unknown = code
      .filter(({ file }) => file.endsWith('.ts'))
      .flatMap(({ file, text }) =>
        codesIn(text.split('\n').filter(isSaid).join('\n'))
          .filter((name) => !explained.has(name))
          .map((name) => `${file}: ${name}`),
      )
    assert.deepEqual(unknown, [])
    assert.deepEqual(codesIn('(SC5, D34), RFC 2045, AES-256'), ['SC5', 'D34'])
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

test('docs/walks.md: each function of a walk stands in its file', () => {
  const walks = read('docs/walks.md')
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

test('each folder of src has a README of at most 20 lines, src/README.md leads to it, and the files that they name are there', () => {
  const folders = readdirSync(join(ROOT, 'src'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const faults: string[] = []
  for (const { name } of folders) {
    const page = `src/${name}/README.md`
    if (!existsSync(join(ROOT, page))) {
      faults.push(`${page} is missing`)
      continue
    }
    const text = read(page)
    if (text.split('\n').length > 21) faults.push(`${page} has more than 20 lines`)
    if (!read('src/README.md').includes(`(${name}/README.md)`)) faults.push(`src/README.md does not lead to ${page}`)
    for (const [, file] of text.matchAll(/`([a-z0-9/-]+\.ts)`/g))
      if (!existsSync(join(ROOT, 'src', name, file!)) && !existsSync(join(ROOT, 'src', file!)))
        faults.push(`${page} names ${file}, which is not there`)
  }
  assert.deepEqual(faults, [])
})

test('what code and documents call a paper lies in the repository, and links lead to files', () => {
  const faults: string[] = []
  for (const { file, text } of code) {
    for (const [, paper] of text.matchAll(/\b([\w./-]+\.md)\b/g))
      if (![paper!, join(dirname(file), paper!), `docs/${paper}`].some((path) => existsSync(join(ROOT, path))))
        faults.push(`${file} names ${paper}`)
    if (file.endsWith('.md'))
      for (const [, target] of text.matchAll(/\]\(([^)#\s:]+)(?:#[^)]*)?\)/g))
        if (!existsSync(join(ROOT, dirname(file), target!))) faults.push(`${file} leads to ${target}`)
  }
  assert.deepEqual(faults, [])
})

test('each decision has its date and its status', () => {
  const page = read('docs/decisions.md')
  const made = [...page.matchAll(/^- \*\*(D\d+)\b/gm)].map(([, number]) => number)
  const dated = [...page.matchAll(/^\| (D\d+) [^|]+\| \d{4}-\d\d-\d\d \| (?:in force|replaced by D\d+)/gm)].map(
    ([, number]) => number,
  )
  assert.deepEqual(dated, made)
})
