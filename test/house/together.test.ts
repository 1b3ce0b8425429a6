// Test files share processes (kit/together.ts): each file runs once, and leaves the state of its process unchanged.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { grouped } from '../kit/together.ts'

const ROOT = join(import.meta.dirname, '../..')
const files = globSync('test/**/*.test.ts', { cwd: ROOT })

/** Changes that the tests of another file in the same process would notice. */
const LASTING = /^\s*(?:process\.chdir\(|(?:delete )?process\.env(?:\.\w+|\[[^\]]*\])(?:\s*=(?!=)|;|$))/

test('every test file is in one group', () => {
  const groups = grouped(files)
  assert.ok(groups.length > 5, 'enough of them for every processor')
  assert.deepEqual(groups.flat().toSorted(), files.toSorted())
})

test('no test file changes global state that others in its process share', () => {
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

test('test files with fixtures use setUp, which waits for them, and not before', () => {
  const found = files.filter((file) => {
    const text = readFileSync(join(ROOT, file), 'utf8')
    return /\bofFile\(/.test(text) && /^before\(/m.test(text)
  })
  assert.deepEqual(found, [])
})
