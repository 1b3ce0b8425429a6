// Limits of functions in src: their length, and how many arguments they take by position. The linter counts both.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'

const ROOT = join(import.meta.dirname, '../..')
const LINES = 60
const ARGUMENTS = 5

/** Every function below a folder that is over a limit: "file function rule". */
function overLimits(folder: string): string[] {
  const place = mkdtempSync(join(tmpdir(), 'postrider-lint-'))
  try {
    const config = join(place, 'oxlint.json')
    writeFileSync(
      config,
      JSON.stringify({
        categories: { correctness: 'off' },
        rules: {
          'max-lines-per-function': ['error', { max: LINES }],
          'max-params': ['error', { max: ARGUMENTS }],
        },
      }),
    )
    const linter = join(ROOT, 'node_modules/oxlint/bin/oxlint')
    const { stderr, stdout } = spawnSync(process.execPath, [linter, '-c', config, '--format', 'unix', '.'], {
      cwd: folder,
      encoding: 'utf8',
    })
    assert.match(stdout, /^(?:$|\S+:\d+:\d+: |\d+ problems?)/m, stderr)
    return [...stdout.matchAll(/^(?:\.\/)?(\S+):\d+:\d+: (.*) \[Error\/eslint\((max-\w+)/gm)].map(
      ([, file, words, rule]) => `${file} ${/[`']([^`']+)[`']/.exec(words!)?.[1] ?? '(anonymous)'} ${rule}`,
    )
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

describe('functions of src', () => {
  test(`have at most ${LINES} lines and ${ARGUMENTS} arguments by position`, () => {
    assert.deepEqual(
      overLimits(join(ROOT, 'src')),
      [],
      'give the pieces names; of many arguments make one object with named fields',
    )
  })

  test('are counted whatever their form', () => {
    const place = mkdtempSync(join(tmpdir(), 'postrider-functions-'))
    try {
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
        [...Array(3).fill('deep/long.ts max-lines'), ...Array(3).fill('wide.ts max-params')],
      )
    } finally {
      rmSync(place, { recursive: true, force: true })
    }
  })
})
