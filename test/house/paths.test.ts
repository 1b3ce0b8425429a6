import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

// The path of a checkout can contain a space, #, ? or %, which a URL encodes as %20 and so on.
test('no path of a file is the pathname of a URL', () => {
  const faults: string[] = []
  for (const folder of ['src', 'test', 'bin', 'packaging'])
    for (const name of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })) {
      if (!/\.m?[jt]s$/.test(name)) continue
      const text = readFileSync(join(ROOT, folder, name), 'utf8')
      for (const [use] of text.matchAll(/new URL\([^()]*import\.meta\.url\)\s*\.pathname/g))
        faults.push(`${folder}/${name}: ${use}`)
    }
  assert.deepEqual(faults, [], 'use fileURLToPath')
})
