// Test files share processes (kit/together.ts): each file runs once, and a file leaves its process as it found it.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { grouped } from '../kit/together.ts'

const ROOT = join(import.meta.dirname, '../..')
const files = globSync('test/**/*.test.ts', { cwd: ROOT })

/** What the tests of another file in the same process would notice. */
const LASTING = /^\s*(?:process\.chdir\(|(?:delete )?process\.env(?:\.\w+|\[[^\]]*\])(?:\s*=(?!=)|;|$))/

test('every test file is in one group', () => {
  const groups = grouped(files)
  assert.ok(groups.length > 5, 'enough of them for every processor')
  assert.deepEqual(groups.flat().toSorted(), files.toSorted())
})

test('no test file changes what the others in its process see', () => {
  const found = files.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .flatMap((line, at) => (LASTING.test(line) ? [`${file}:${at + 1} ${line.trim()}`] : [])),
  )
  assert.deepEqual(found, [])
  for (const line of [`  process.env['A'] = 'b'`, 'delete process.env.A', `  process.chdir('place')`])
    assert.match(line, LASTING)
  assert.doesNotMatch(`process.env['A'] === 'b'`, LASTING)
})

test('what a file sets up beside its fixtures waits for them: setUp, not before', () => {
  const found = files.filter((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    return /\bofFile\(/.test(text) && /^before\(/m.test(text)
  })
  assert.deepEqual(found, [])
})
