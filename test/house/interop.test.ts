// INTEROP_REQUIRED=1 makes every interop test fail that this machine cannot run, because only test/interop/rig/need.ts
// skips tests. Checked by reading the sources.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const INTEROP = join(import.meta.dirname, '../interop')

/** Files that may skip tests. */
const ALLOWED: Record<string, string> = {
  'rig/need.ts skip:': 'withPrograms, where INTEROP_REQUIRED is not set',
  'rig/need.ts .skip(': 'passBy, where INTEROP_REQUIRED is not set',
}

const WORDS = /\.\s*(?:skip|todo)\s*\(|\['(?:skip|todo)'\]|\b(?:skip|todo)\s*:|[{,]\s*(?:skip|todo)\s*[,}]/g

/** Calls and options that skip a test, each as one word. */
const skipping = (code: string): string[] =>
  [...code.replace(/(^|[^:'"`\\])\/\/.*$/gm, '$1').matchAll(WORDS)].map(([word]) => word.replace(/\s+/g, ''))

test('only rig/need.ts skips interop tests', () => {
  const files = readdirSync(INTEROP, { recursive: true, encoding: 'utf8' }).filter((file) => /\.[cm]?[jt]s$/.test(file))
  const found = files.flatMap((file) =>
    skipping(readFileSync(join(INTEROP, file), 'utf8')).map((word) => `${file} ${word}`),
  )
  assert.ok(files.length > 30)
  assert.deepEqual(
    found.filter((place) => !(place in ALLOWED)),
    [],
  )
  assert.deepEqual(
    Object.keys(ALLOWED).filter((place) => !found.includes(place)),
    [],
    'exceptions that nothing needs',
  )
})

test('the check finds every way to skip a test', () => {
  for (const code of [
    "t.skip('no')",
    't.skip()',
    't\n  .skip()',
    "context.todo('later')",
    "test.skip('a', () => {})",
    "describe.todo('a')",
    "test('a', { skip: true }, () => {})",
    "test('a', { todo: 'later' }, () => {})",
    "test('a', { timeout: 1, skip }, () => {})",
    "test['skip']('a')",
  ])
    assert.equal(skipping(code).length, 1, code)
  for (const code of ['data.attributes.skipped', '// t.skip() is for need.ts', "run('--skip=cleanup')"])
    assert.deepEqual(skipping(code), [], code)
})
