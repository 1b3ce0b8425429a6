// Only base/plain-file.ts reads files of the data directory and files that a user names (D72): other code would wait
// for a pipe, read a device without end, or follow a link. Other code that opens a file has a reason in the list.
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'node:test'

const SRC = fileURLToPath(new URL('../../src/', import.meta.url))

const REASONS: Record<string, readonly string[]> = {
  'the system makes it': [
    'base/container.ts',
    'base/ownership.ts',
    'http/places.ts',
    'store/lock.ts',
    'store/log.ts',
    'store/volume.ts',
  ],
  'it is a part of the program': ['base/assets.ts', 'base/installed.ts', 'console/assets.ts', 'store/addon.ts'],
  'it was opened by base/plain-file.ts, or made here': [
    'archive/command-backup.ts',
    'archive/upgrade-check.ts',
    'base/plain-file.ts',
    'base/spooled.ts',
    'privacy/run.ts',
  ],
  'a pipe may be meant, and its kind is looked at once it is open': ['lists/csv-source.ts'],
}

const OPENED: Record<string, readonly string[]> = {
  'it makes a new file': [
    'archive/destinations/directory.ts',
    'archive/snapshot.ts',
    'archive/backup-archive.ts',
    'base/keyring.ts',
    'base/set-up-mark.ts',
    'base/config-edit.ts',
    'store/reserve.ts',
    'store/spool.ts',
  ],
  'it is a directory, or a device of the system': ['base/durable.ts', 'base/ownership.ts', 'net/resolver.ts'],
  'they are the functions': ['base/plain-file.ts'],
  'a pipe may be meant, and its kind is looked at once it is open': ['lists/csv-source.ts'],
}

/** The files of the code that import one of these functions of node:fs. */
const importing = (names: string): string[] => {
  const imports = new RegExp(`import \\{[^}]*\\b(?:${names})\\b(?! as)[^}]*\\} from 'node:fs(?:/promises)?'`)
  return globSync('**/*.ts', { cwd: SRC })
    .filter((file) => imports.test(readFileSync(join(SRC, file), 'utf8')))
    .toSorted()
}

test('only base/plain-file.ts reads files of the data directory and files that a user names (D72)', () => {
  assert.deepEqual(importing('readFileSync|readFile|createReadStream'), Object.values(REASONS).flat().toSorted())
})

test('only base/plain-file.ts opens them (D72)', () => {
  assert.deepEqual(importing('openSync|open'), Object.values(OPENED).flat().toSorted())
})
