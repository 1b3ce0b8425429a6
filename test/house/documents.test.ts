// The repository contains its sources of truth: docs/ has every decision, heading of the specification and RFC that the
// code names, and the generated pages are up to date.
import assert from 'node:assert/strict'
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, test } from 'node:test'
import { commandsPage } from '../../packaging/docs-commands.ts'
import { compatibilityPage } from '../../packaging/docs-compatibility.ts'
import { configurationPage } from '../../packaging/docs-configuration.ts'
import { rolesPage } from '../../packaging/docs-roles.ts'
import { rfcPage, rfcPlaces, statesPage, TITLES } from '../../packaging/docs.ts'

const ROOT = join(import.meta.dirname, '../..')
const read = (file: string): string => readFileSync(join(ROOT, file), 'utf8')
const code = globSync(['src/**/*.ts', 'test/**/*.ts', 'packaging/**/*.ts', 'src/**/*.md', 'docs/**/*.md', '*.md'], {
  cwd: ROOT,
})
  .filter((file) => !file.startsWith('docs/development/decisions/') && file !== 'docs/interface.md')
  .map((file) => ({ file, text: read(file) }))

/** `test` names made-up decisions in no file but this one. */
function named(pattern: RegExp): Map<string, string> {
  const found = new Map<string, string>()
  for (const { file, text } of code)
    for (const [, name] of text.matchAll(pattern)) if (name !== undefined && !found.has(name)) found.set(name, file)
  return found
}

/** Letters with a number, such as names of sections in a document. */
const codesIn = (text: string): string[] => text.match(/(?<![\w=%+/-])[A-Z]{1,3}\d{1,3}(?![\w-])/g) ?? []
/** Comments and names of tests, but not values of the code. */
const isSaid = (line: string): boolean => /^\s*(?:\/\/|\/?\*)|\b(?:test|describe)\(| \/\/ /.test(line)
/** Terms that standards have: control characters, NAT64 (RFC 6052), AS112 (RFC 7535). */
const TERMS = ['C0', 'C1', 'NAT64', 'AS112']

/** The entries of the decisions: number, and text with title, status and reason. */
const entries = globSync('docs/development/decisions/*.md', { cwd: ROOT }).flatMap((file) =>
  read(file)
    .split(/^(?=## )/m)
    .flatMap((text) => {
      const number = /^## (D\d+) /.exec(text)?.[1]
      return number === undefined ? [] : [{ number, text }]
    }),
)

describe('documents', () => {
  test('docs/development/decisions has each decision that the code names', () => {
    const decisions = new Set(entries.map(({ number }) => number))
    const missing = [...named(/\b(?<![\w-])(D\d{1,3})\b(?!['"\w-])/g)].filter(([number]) => !decisions.has(number))
    assert.deepEqual(missing, [])
    assert.ok(decisions.size > 80)
  })

  test('a code in a comment or a test name, such as "D12", is explained in docs/', () => {
    const explained = new Set([
      ...globSync('docs/**/*.md', { cwd: ROOT }).flatMap((file) => codesIn(read(file))),
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

  test('each quoted heading of the specification exists', () => {
    const headings = new Set(
      [...read('docs/interface.md').matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading!.replaceAll('`', '')),
    )
    const bold = new Set([...read('docs/interface.md').matchAll(/\*\*([^*]+?)[.:]?\*\*/g)].map(([, text]) => text!))
    const missing = [...named(/specification "([A-Z][^"\n]+)"/g)].filter(
      ([heading]) => !headings.has(heading) && !bold.has(heading) && !read('docs/interface.md').includes(heading),
    )
    assert.deepEqual(missing, [])
  })

  test('docs/development/states.md equals the tables ("npm run docs" writes it)', () => {
    assert.equal(read('docs/development/states.md'), statesPage())
  })

  test('docs/development/rfc.md lists the RFCs that the code names, each with its title ("npm run docs" writes it)', () => {
    assert.deepEqual(
      [...rfcPlaces().keys()].filter((number) => TITLES[number] === undefined),
      [],
      'RFCs without a title in packaging/rfc-titles.json',
    )
    assert.equal(read('docs/development/rfc.md'), rfcPage())
  })

  test('docs/commands.md equals the help of the commands ("npm run docs" writes it)', () => {
    assert.equal(read('docs/commands.md'), commandsPage())
  })

  test('docs/configuration.md equals the settings and their descriptions ("npm run docs" writes it)', () => {
    assert.equal(read('docs/configuration.md'), configurationPage())
  })

  test('docs/roles.md equals the rights of the roles ("npm run docs" writes it)', async () => {
    assert.equal(read('docs/roles.md'), await rolesPage())
  })

  test('docs/compatibility-fields.md equals the endpoints and fields of the compatibility APIs ("npm run docs" writes it)', () => {
    assert.equal(read('docs/compatibility-fields.md'), compatibilityPage())
  })
})

test('docs/development/walks.md names functions that exist in their files', () => {
  const walks = read('docs/development/walks.md')
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

test('each directory of src has a README of at most 20 lines that src/README.md links and that names existing files', () => {
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

test('documents that code and documents name exist, and links lead to files', () => {
  const faults: string[] = []
  for (const { file, text } of code) {
    for (const [, paper] of text.matchAll(/\b([\w./-]+\.md)\b/g))
      if (
        ![paper!, join(dirname(file), paper!), `docs/${paper}`, `docs/development/${paper}`].some((path) =>
          existsSync(join(ROOT, path)),
        )
      )
        faults.push(`${file} names ${paper}`)
    if (file.endsWith('.md'))
      for (const [, target] of text.matchAll(/\]\(([^)#\s:]+)(?:#[^)]*)?\)/g))
        if (!existsSync(join(ROOT, dirname(file), target!))) faults.push(`${file} leads to ${target}`)
  }
  assert.deepEqual(faults, [])
})

/** The anchors that GitHub gives the headings of a page. */
function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>()
  for (const [, heading] of page.replace(/^```.*?^```/gms, '').matchAll(/^#+ (.+)$/gm)) {
    const words = heading!.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const anchor = words.replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')
    let name = anchor
    for (let number = 1; anchors.has(name); number++) name = `${anchor}-${number}`
    anchors.add(name)
  }
  return anchors
}

test('a link to a section leads to a heading of its page', () => {
  const faults: string[] = []
  let seen = 0
  for (const { file, text } of code.filter((each) => each.file.endsWith('.md')))
    for (const [, target, anchor] of text.matchAll(/\]\(([^)#\s:]*)#([^)\s]+)\)/g)) {
      const page = target === '' ? file : join(dirname(file), target!)
      seen++
      if (!anchorsOf(read(page)).has(anchor!)) faults.push(`${file} leads to ${target}#${anchor}`)
    }
  assert.deepEqual(faults, [])
  assert.ok(seen > 30, String(seen))
  assert.deepEqual([...anchorsOf('# A `b`: c\n## A b c\n```\n# no\n```\n')], ['a-b-c', 'a-b-c-1'])
})

test('each decision has a number of its own, a date and a status', () => {
  const numbers = entries.map(({ number }) => number)
  assert.deepEqual(
    numbers.filter((number, index) => numbers.indexOf(number) !== index),
    [],
  )
  const status = /^\*(?:Accepted|Withdrawn|Replaced by D\d+)\b[^*]*\d{4}-\d\d-\d\d[^*]*\*$/m
  assert.deepEqual(
    entries.filter(({ text }) => !status.test(text)).map(({ number }) => number),
    [],
  )
})
