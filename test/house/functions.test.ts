// Limits of functions in src: their length and their positional parameters, and the number of non-null assertions. The
// linter counts all of them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { temporaryDirectory } from '../kit/directory.ts'

const ROOT = join(import.meta.dirname, '../..')
const LINES = 60
const ARGUMENTS = 5
/** The maximum number of non-null assertions (`value!`) in src. Lower it if you remove some. */
const ASSERTIONS = 143

/** Returns the linter's findings below a directory by these rules: file, message and rule. */
function lint(folder: string, rules: Record<string, unknown>): { file: string; words: string; rule: string }[] {
  const place = temporaryDirectory('lint')
  const config = join(place, 'oxlint.json')
  writeFileSync(config, JSON.stringify({ categories: { correctness: 'off' }, rules }))
  const linter = join(ROOT, 'node_modules/oxlint/bin/oxlint')
  const { stderr, stdout } = spawnSync(process.execPath, [linter, '-c', config, '--format', 'unix', '.'], {
    cwd: folder,
    encoding: 'utf8',
  })
  assert.match(stdout, /^(?:$|\S+:\d+:\d+: |\d+ problems?)/m, stderr)
  return [...stdout.matchAll(/^(?:\.\/)?(\S+):\d+:\d+: (.*) \[Error\/[\w-]+\(([\w-]+)/gm)].map(
    ([, file = '', words = '', rule = '']) => ({ file, words, rule }),
  )
}

/** The functions below a directory that exceed a limit: "file function rule". */
const overLimits = (folder: string): string[] =>
  lint(folder, {
    'max-lines-per-function': ['error', { max: LINES }],
    'max-params': ['error', { max: ARGUMENTS }],
  }).map(({ file, rule, words }) => {
    const [, name = '(anonymous)'] = /[`']([^`']+)[`']/.exec(words) ?? []
    return `${file} ${name} ${rule}`
  })

/** The file of each non-null assertion (`value!`) below a directory. */
const assertions = (folder: string): string[] =>
  lint(folder, { 'typescript/no-non-null-assertion': 'error' }).map(({ file }) => file)

describe('functions of src', () => {
  test(`have at most ${LINES} lines and ${ARGUMENTS} arguments by position`, () => {
    assert.deepEqual(
      overLimits(join(ROOT, 'src')),
      [],
      'give the pieces names; of many arguments make one object with named fields',
    )
  })

  test('functions of every form are counted', () => {
    const place = temporaryDirectory('functions')
    const body = '  step()\n'.repeat(LINES)
    const six = 'a, b, c, d, e, f'
    mkdirSync(join(place, 'deep'))
    writeFileSync(
      join(place, 'deep/long.ts'),
      `export function one() {\n${body}}\nexport const two = () => {\n${body}}\nexport class A {\n  three() {\n${body}}\n}\n`,
    )
    writeFileSync(
      join(place, 'wide.ts'),
      `export function one(${six}) {}\nexport const two = (${six}) => {}\nexport class A {\n  #three(${six}) {}\n}\n`,
    )
    writeFileSync(
      join(place, 'fine.ts'),
      `export function one(a, b, c, d, e) {\n${body.slice(0, -'  step()\n'.length * 2)}}\n`,
    )
    assert.deepEqual(
      overLimits(place)
        .map((found) => found.replace(/ .* /, ' '))
        .toSorted(),
      [...Array(3).fill('deep/long.ts max-lines-per-function'), ...Array(3).fill('wide.ts max-params')],
    )
  })
})

describe('non-null assertions of src', () => {
  test(`are at most ${ASSERTIONS}`, () => {
    const found = assertions(join(ROOT, 'src'))
    assert.ok(
      found.length <= ASSERTIONS,
      `there are ${found.length}: take a default, a guard or a better type, and must() where only a fault of the program leaves the value out`,
    )
  })

  test('only non-null assertions are counted, one by one', () => {
    const place = temporaryDirectory('assertions')
    writeFileSync(join(place, 'three.ts'), 'export const text = list[0]!.names!.at(-1)!\n')
    writeFileSync(
      join(place, 'none.ts'),
      'export let late!: string\nexport const other = !late && late !== `${late}!`\n',
    )
    assert.deepEqual(assertions(place), Array(3).fill('three.ts'))
  })
})
