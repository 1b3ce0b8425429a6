// Leftovers of a process that was killed while it loaded the SQLite addon.
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { HOUR, SECOND } from '../../src/base/clock.ts'
import { removeLeftCopies } from '../../src/store/addon.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('addon')

test('removes only copies of killed processes (D167)', () => {
  const elsewhere = join(folder, 'elsewhere')
  for (const name of ['elsewhere', '.addon-Killed', '.addon-Loaded', '.addon-of-another']) {
    mkdirSync(join(folder, name))
    writeFileSync(join(folder, name, 'better_sqlite3.node'), 'x')
  }
  symlinkSync(elsewhere, join(folder, '.addon-linked'))
  writeFileSync(join(folder, '.addon-a-file'), 'x')
  const now = Date.now()
  for (const name of ['.addon-Killed', '.addon-of-another'])
    utimesSync(join(folder, name), now / SECOND, (now - HOUR - SECOND) / SECOND)
  removeLeftCopies(folder, now)
  assert.deepEqual(
    readdirSync(folder).sort(),
    ['.addon-Loaded', '.addon-a-file', '.addon-linked', '.addon-of-another', 'elsewhere'].sort(),
  )
  assert.deepEqual(readdirSync(elsewhere), ['better_sqlite3.node'])
  removeLeftCopies(folder, now + 2 * HOUR)
  assert.ok(!readdirSync(folder).includes('.addon-Loaded'))
})
