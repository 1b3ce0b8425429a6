// Says which tests pass only after others: it runs each test of the files alone, file by file, and prints those that
// fail and, for each folder, how many. It is read by test/alone.sh.
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'

const ROOT = join(import.meta.dirname, '../..')
/** Sweeps and tests against foreign programs: each is one long story. */
const STORIES = ['crash', 'faults', 'hostile', 'interop', 'mutations'].map((folder) => `test/${folder}`)
/** Real ms for all tests of a file. */
const LIMIT = 600_000

const given = process.argv.slice(2)
const files = globSync(given.length > 0 ? given : 'test/*/*.test.ts', { cwd: ROOT, exclude: STORIES }).toSorted()
const folders = new Map<string, { tests: number; failed: number }>()

for (const file of files) {
  const figures = folders.get(dirname(file)) ?? { tests: 0, failed: 0 }
  folders.set(dirname(file), figures)
  const failed = new Set<string>()
  let why: unknown
  const stream = run({
    files: [fileURLToPath(new URL('file.ts', import.meta.url))],
    cwd: ROOT,
    timeout: LIMIT,
    execArgv: ['--import', new URL('../kit/ending.ts', import.meta.url).href],
    env: { ...process.env, POSTRIDER_ALONE: file },
  })
  stream.on('test:start', ({ name, nesting }) => void (nesting === 0 && name.startsWith('alone: ') && figures.tests++))
  stream.on('test:fail', ({ details, name, nesting }) => {
    if (nesting > 0) why ??= details.error.cause ?? details.error
    else {
      figures.failed++
      failed.add(name)
      console.log(
        `${file}: ${name}\n${inspect(why ?? details.error, { depth: 1 })
          .split('\n')
          .slice(0, 12)
          .join('\n')}\n`,
      )
      why = undefined
    }
  })
  for await (const _ of stream);
  console.log(`${file}: ${failed.size} failed`)
}

for (const [folder, { failed, tests }] of folders) console.log(`${folder}: ${failed} of ${tests} tests fail alone`)
process.exitCode = [...folders.values()].some(({ failed }) => failed > 0) ? 1 : 0
